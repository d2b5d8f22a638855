package block

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// A DType is aclDataType.
type DType int32

// dtypes are the known data types, with the bits of an element. An element of a text is a descriptor of 16 bytes.
var dtypes = map[DType]struct {
	name string
	bits uint64
}{
	0: {"float32", 32}, 1: {"float16", 16}, 2: {"int8", 8}, 3: {"int32", 32}, 4: {"uint8", 8}, 6: {"int16", 16}, 7: {"uint16", 16}, 8: {"uint32", 32},
	9: {"int64", 64}, 10: {"uint64", 64}, 11: {"float64", 64}, 12: {"bool", 8}, 13: {"string", 128}, 16: {"complex64", 64}, 17: {"complex128", 128},
	27: {"bfloat16", 16}, 29: {"int4", 4}, 30: {"uint1", 1}, 31: {"int2", 2}, 32: {"uint2", 2}, 33: {"complex32", 32}, 34: {"hifloat8", 8},
	35: {"float8_e5m2", 8}, 36: {"float8_e4m3fn", 8}, 37: {"float8_e8m0", 8}, 38: {"float6_e3m2", 6}, 39: {"float6_e2m3", 6}, 40: {"float4_e2m1", 4}, 41: {"float4_e1m2", 4},
}

// Bits returns the bits of an element, 0 if the type is unknown.
func (d DType) Bits() uint64 { return dtypes[d].bits }

func (d DType) String() string {
	if t, ok := dtypes[d]; ok {
		return t.name
	}
	return "dtype " + strconv.Itoa(int(d))
}

// A Format is aclFormat. The low byte is the format, other bits a variant of it.
type Format int32

// plain are the formats in which strides describe where elements are.
var plain = map[Format]bool{-1: true, 0: true, 1: true, 2: true, 16: true, 27: true, 30: true, 31: true, 35: true, 42: true, 47: true}

// Blocked reports whether a storage has its elements in blocks, in an order that strides do not describe. Unknown formats count as such.
func (f Format) Blocked() bool { return !plain[f] }

// Dims returns the dims of the view.
func (t *Tensor) Dims() []int64 { return words(t.dims[:8*t.numDims]) }

// Strides returns the strides of the view, in elements.
func (t *Tensor) Strides() []int64 { return words(t.dims[8*t.numDims:][:8*t.numDims]) }

// StorageDims returns the dims of the storage.
func (t *Tensor) StorageDims() []int64 { return words(t.dims[16*t.numDims:]) }

func words(b []byte) []int64 {
	to := make([]int64, len(b)/8)
	for i := range to {
		to[i] = int64(le.Uint64(b[8*i:]))
	}
	return to
}

// errTooLong is the error of numbers that have more than 64 bits.
var errTooLong = errors.New("its dims and strides reach further than addresses do")

// extent sets the bytes that the tensor covers: from its first element to its last, or the whole storage if that is blocked. A view
// without elements covers none: its strides, offset and storage are not used and may have any value.
func (t *Tensor) extent() error {
	n := t.numDims
	elements, err := product(t.dims[:8*n], "dim")
	if err != nil {
		return err
	}
	if elements == 0 {
		return nil
	}
	storage, err := product(t.dims[16*n:], "storage dim")
	if err != nil {
		return err
	}
	if t.Offset < 0 {
		return fmt.Errorf("offset %d is negative", t.Offset)
	}
	first, last := uint64(t.Offset), uint64(t.Offset)
	for i := range n {
		dim, stride := le.Uint64(t.dims[8*i:]), le.Uint64(t.dims[8*(n+i):])
		if stride > math.MaxInt64 {
			return fmt.Errorf("stride %d is negative", int64(stride))
		}
		if dim < 2 {
			continue
		}
		over, reach := bits.Mul64(dim-1, stride)
		if last += reach; over != 0 || last < reach {
			return errTooLong
		}
	}
	if t.Format.Blocked() {
		if len(t.dims) == 16*n {
			return fmt.Errorf("format %d without dims of its storage", int32(t.Format))
		}
		if storage == 0 {
			return nil
		}
		first, last, elements = 0, storage-1, min(elements, storage)
	}
	width := t.DType.Bits()
	over, end := bits.Mul64(last+1, width)
	if over != 0 || last == math.MaxUint64 || end > math.MaxUint64-7 || (end+7)/8 > math.MaxUint64-t.Base {
		return errTooLong
	}
	t.lo = first * width / 8
	t.size = (end+7)/8 - t.lo
	t.dense = !t.Format.Blocked() && first*width%8 == 0 && end%8 == 0 && t.inRow(elements)
	return nil
}

// inRow reports whether the elements of the view are next to each other, in any order of the dims.
func (t *Tensor) inRow(elements uint64) bool {
	next := uint64(1)
	for next < elements {
		found := false
		for i := range t.numDims {
			dim, stride := le.Uint64(t.dims[8*i:]), le.Uint64(t.dims[8*(t.numDims+i):])
			if dim > 1 && stride == next {
				next *= dim
				found = true
				break
			}
		}
		if !found {
			return false
		}
	}
	return next == elements
}

// product returns the number of elements that dims have.
func product(dims []byte, what string) (uint64, error) {
	n, none := uint64(1), false
	for i := 0; i < len(dims); i += 8 {
		dim := le.Uint64(dims[i:])
		if dim > math.MaxInt64 {
			return 0, fmt.Errorf("%s %d is negative", what, int64(dim))
		}
		none = none || dim == 0
		over, next := bits.Mul64(n, max(dim, 1))
		if over != 0 {
			return 0, errTooLong
		}
		n = next
	}
	if none {
		return 0, nil
	}
	return n, nil
}

// AppendText appends the data type and the dims, as "float16[2,3]".
func (t *Tensor) AppendText(to []byte) []byte {
	if t.Absent {
		return append(to, "none"...)
	}
	to = append(append(to, t.DType.String()...), '[')
	for i := range t.numDims {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendUint(to, le.Uint64(t.dims[8*i:]), 10)
	}
	return append(to, ']')
}

func (t *Tensor) String() string { return string(t.AppendText(nil)) }
