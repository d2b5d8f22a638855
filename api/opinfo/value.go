package opinfo

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Data types of the values that programs pass to operators. Their numbers are those of aclDataType.
const (
	Float32 = 0
	Int8    = 2
	Int32   = 3
	UInt8   = 4
	Int64   = 9
	Float64 = 11
	Bool    = 12
)

// ValueSize returns the bytes of a value that AppendValue knows, 0 for other types.
func ValueSize(dtype uint32) int {
	switch dtype {
	case Int8, UInt8, Bool:
		return 1
	case Float32, Int32:
		return 4
	case Int64, Float64:
		return 8
	}
	return 0
}

// AppendValue appends a value of ValueSize bytes.
func AppendValue(to, b []byte, dtype uint32) []byte {
	le := binary.LittleEndian
	switch dtype {
	case Float32:
		return strconv.AppendFloat(to, float64(math.Float32frombits(le.Uint32(b))), 'g', -1, 32)
	case Float64:
		return strconv.AppendFloat(to, math.Float64frombits(le.Uint64(b)), 'g', -1, 64)
	case Int8:
		return strconv.AppendInt(to, int64(int8(b[0])), 10)
	case UInt8:
		return strconv.AppendUint(to, uint64(b[0]), 10)
	case Int32:
		return strconv.AppendInt(to, int64(int32(le.Uint32(b))), 10)
	case Int64:
		return strconv.AppendInt(to, int64(le.Uint64(b)), 10)
	}
	return strconv.AppendBool(to, b[0] != 0)
}
