// Package opinfo decodes descriptions of operators, which a program attaches to the last task of a thread
// (aclrtCacheLastTaskOpInfo): the operator's kind, its tensors, and hashes of its names.
//
// timeline shows a description as an argument. Names finds the text of a hash. Values come from traces, so every
// content is accepted: what is not understood stays a number.
package opinfo

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Info is a decoded description.
type Info struct {
	Task       uint32 // kind of the task: see TaskName
	Blocks     uint16
	Slaves     uint16 // further cores for each block of a mixed kernel
	Node       uint64 // hash of OPERATOR_INNER_TYPE, or of the type
	Type       uint64 // hash of the kernel's type
	Attributes uint64 // hash of the attributes, 0 in the older layout
	HF32       bool
	Tensors    []Tensor // inputs first
}

// Tensor is a tensor of a description, with the shape and the format of its storage.
type Tensor struct {
	Output bool
	Format uint32 // the lowest byte is the format, and bits 8 to 23 a part of it
	DType  uint32
	Dims   [8]uint32 // further dimensions are not in the description
	Rank   int       // number of dimensions up to the last that is not 0
}

// Absent reports whether the tensor stands for an optional one that the operator did not get.
func (t *Tensor) Absent() bool { return t.DType == dtypeUndefined && t.Rank == 0 }

// Sizes in bytes: of the two layouts without tensors, and of a tensor.
const (
	olderHead, head = 32, 48
	tensorSize      = 44
)

const dtypeUndefined = 28

// Decode decodes a description. It returns false unless the size fits one of the layouts: that of CANN 8.5, or that of 9.0 and later.
func Decode(b []byte) (x Info, ok bool) {
	le := binary.LittleEndian
	fits := func(head, at int) bool {
		return len(b) >= head && (len(b)-head)%tensorSize == 0 && uint64(le.Uint32(b[at:])) == uint64((len(b)-head)/tensorSize)
	}
	size, flag := head, 40
	switch {
	case fits(head, 44):
		x.Attributes = le.Uint64(b[24:])
	case fits(olderHead, 28):
		size, flag = olderHead, 24
	default:
		return x, false
	}
	blocks := le.Uint32(b[4:])
	x.Task, x.Blocks, x.Slaves = le.Uint32(b), uint16(blocks), uint16(blocks>>16)
	x.Node, x.Type, x.HF32 = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[flag:])&1 != 0
	for b = b[size:]; len(b) > 0; b = b[tensorSize:] {
		t := Tensor{Output: le.Uint32(b) != 0, Format: le.Uint32(b[4:]), DType: le.Uint32(b[8:])}
		for i := range t.Dims {
			if t.Dims[i] = le.Uint32(b[12+4*i:]); t.Dims[i] != 0 {
				t.Rank = i + 1
			}
		}
		x.Tensors = append(x.Tensors, t)
	}
	return x, true
}

// shown bounds the number of tensors in a text.
const shown = 24

// AppendText appends the description, as "MatMulV3 on the AI core, 24 blocks: float16[2,3], float16[3,4], out float16[2,4]". A hash without a known
// text is a hexadecimal number.
func (x *Info) AppendText(to []byte, names *Names) []byte {
	if node, ok := names.Node(x.Node, x.Type); ok {
		to = append(to, node...)
	} else if to = names.append(to, x.Type); x.Node != x.Type {
		to = names.append(append(to, " in "...), x.Node)
	}
	to = append(append(to, ", "...), TaskName(x.Task)...)
	to = append(strconv.AppendUint(append(to, ", "...), uint64(x.Blocks), 10), " blocks"...)
	if x.Slaves > 0 {
		to = append(strconv.AppendUint(append(to, " of 1+"...), uint64(x.Slaves), 10), " cores"...)
	}
	if x.HF32 {
		to = append(to, ", HF32"...)
	}
	for i := range x.Tensors {
		if to = append(to, ", "...); i == 0 {
			to[len(to)-2] = ':'
		}
		if i == shown {
			return append(to, "…"...)
		}
		to = x.Tensors[i].AppendText(to)
	}
	return to
}

// AppendSignature appends the kernel's type and the tensors, as "MatMulV3(float16[2,3], float16[3,4]) -> float16[2,4]".
func (x *Info) AppendSignature(to []byte, names *Names) []byte {
	to = append(names.append(to, x.Type), '(')
	outputs := false
	for i := range x.Tensors {
		t := x.Tensors[i]
		switch {
		case t.Output && !outputs:
			to, outputs = append(to, ") -> "...), true
		case i > 0:
			to = append(to, ", "...)
		}
		if i == shown {
			to = append(to, "…"...)
			break
		}
		t.Output = false
		to = t.AppendText(to)
	}
	if !outputs {
		to = append(to, ')')
	}
	return to
}

// AppendText appends the tensor, as "out float16[2,3]:FRACTAL_NZ". The format ND is left out.
func (t *Tensor) AppendText(to []byte) []byte {
	if t.Absent() {
		return append(to, "none"...)
	}
	if t.Output {
		to = append(to, "out "...)
	}
	to = append(append(to, DTypeName(t.DType)...), '[')
	for i, d := range t.Dims[:t.Rank] {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendUint(to, uint64(d), 10)
	}
	if to = append(to, ']'); t.Format != formatND {
		to = append(append(to, ':'), FormatName(t.Format)...)
	}
	return to
}

// named returns a value's name, or a word and the number.
func named(names map[uint32]string, v uint32, word string) string {
	if n, ok := names[v]; ok {
		return n
	}
	return word + strconv.FormatUint(uint64(v), 10)
}

// TaskName returns the name of a kind of task, "task N" if it is unknown.
func TaskName(v uint32) string { return named(tasks, v, "task ") }

// DTypeName returns the name of a data type, "dtype N" if it is unknown.
func DTypeName(v uint32) string { return named(dtypes, v, "dtype ") }

// FormatName returns the name of a format without its further part, "format N" if it is unknown.
func FormatName(v uint32) string { return named(formats, v&0xff, "format ") }

const formatND = 2

var tasks = map[uint32]string{0: "AI core", 1: "AI CPU", 2: "vector core", 3: "write back", 4: "mixed, cube", 5: "mixed, vector", 6: "FFTS+", 7: "DSA", 8: "DVPP",
	9: "HCCL", 10: "fusion"}

var dtypes = map[uint32]string{0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64", 10: "uint64",
	11: "float64", 12: "bool", 13: "text", 16: "complex64", 17: "complex128", 27: "bfloat16", dtypeUndefined: "undefined", 29: "int4", 30: "uint1", 31: "int2",
	32: "uint2", 33: "complex32", 34: "hifloat8", 35: "float8_e5m2", 36: "float8_e4m3fn", 37: "float8_e8m0", 38: "float6_e3m2", 39: "float6_e2m3",
	40: "float4_e2m1", 41: "float4_e1m2"}

var formats = map[uint32]string{0: "NCHW", 1: "NHWC", formatND: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 12: "NC1HWC0_C04", 16: "HWCN", 27: "NDHWC", 29: "FRACTAL_NZ",
	30: "NCDHW", 31: "DHWCN", 32: "NDC1HWC0", 33: "FRACTAL_Z_3D", 42: "none", 47: "NCL", 50: "FRACTAL_NZ_C0_16", 51: "FRACTAL_NZ_C0_32", 52: "FRACTAL_NZ_C0_2",
	53: "FRACTAL_NZ_C0_4", 54: "FRACTAL_NZ_C0_8"}

// Encode returns the description in the layout of CANN 9.0. Tensors have at most 8 dimensions.
func (x *Info) Encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, head+tensorSize*len(x.Tensors)), x.Task)
	b = le.AppendUint32(b, uint32(x.Blocks)|uint32(x.Slaves)<<16)
	for _, v := range []uint64{x.Node, x.Type, x.Attributes, 0} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(le.AppendUint32(b, flag(x.HF32)), uint32(len(x.Tensors)))
	for i := range x.Tensors {
		t := &x.Tensors[i]
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, flag(t.Output)), t.Format), t.DType)
		for _, d := range t.Dims {
			b = le.AppendUint32(b, d)
		}
	}
	return b
}

func flag(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// DType returns the data type with a name as profilers write it: FLOAT16, DT_BF16 or int64. ok is false if it is unknown.
func DType(name string) (v uint32, ok bool) {
	name = strings.TrimPrefix(strings.ToLower(name), "dt_")
	if other, ok := otherDTypes[name]; ok {
		name = other
	}
	return number(dtypes, name)
}

// otherDTypes are names of data types that profilers have and descriptions have not.
var otherDTypes = map[string]string{"float": "float32", "double": "float64", "bf16": "bfloat16", "string": "text", "undefined": "undefined"}

// Format returns the format with a name, without a further part. ok is false if it is unknown.
func Format(name string) (v uint32, ok bool) { return number(formats, name) }

func number(names map[uint32]string, name string) (uint32, bool) {
	for v, n := range names {
		if n == name {
			return v, true
		}
	}
	return 0, false
}
