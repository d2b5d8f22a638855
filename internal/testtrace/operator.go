package testtrace

import (
	"encoding/binary"
	"math"

	"github.com/acltrace/acltrace/sim/opapi/block"
)

// An Operator is the content of an operator's argument block.
type Operator struct {
	Name                     string
	Workspace, WorkspaceSize uint64
	Params                   []OperatorParam
}

// An OperatorParam is a parameter. Value is nil for tensors and null pointers, otherwise int64, float64, string, []int64, []float32, []bool or
// []block.Scalar.
type OperatorParam struct {
	Type    byte
	Null    bool
	Tensors []OperatorTensor
	Value   any
}

// An OperatorTensor is a tensor. Nil Strides mean those of elements in a row, nil Storage the view's dims.
type OperatorTensor struct {
	Base                   uint64
	Offset                 int64
	DType                  block.DType
	Format                 block.Format
	Role                   block.Role
	Flags                  byte
	Dims, Strides, Storage []int64
}

// Absent is a null element of a list.
var Absent = OperatorTensor{Role: block.In, Flags: 2, Storage: []int64{}}

// Contiguous returns a tensor in format ND whose elements are in a row.
func Contiguous(base uint64, role block.Role, dtype block.DType, dims ...int64) OperatorTensor {
	return OperatorTensor{Base: base, DType: dtype, Format: 2, Role: role, Dims: dims}
}

// OnTensors returns an operator whose parameters are tensors.
func OnTensors(name string, tensors ...OperatorTensor) *Operator {
	o := &Operator{Name: name}
	for _, t := range tensors {
		o.Params = append(o.Params, OperatorParam{Type: 'T', Tensors: []OperatorTensor{t}})
	}
	return o
}

// Bytes returns the argument block.
func (o *Operator) Bytes() []byte {
	var tensors []byte
	params, at := make([]byte, 0, block.ParamSize*len(o.Params)), 0
	n := 0
	for _, p := range o.Params {
		n += len(p.Tensors)
	}
	rest := []byte{} // after the two tables
	from := block.HeaderSize + block.ParamSize*len(o.Params) + block.TensorSize*n
	place := func(b []byte) uint32 {
		for (from+len(rest))%8 != 0 {
			rest = append(rest, 0)
		}
		rest = append(rest, b...)
		return uint32(from + len(rest) - len(b))
	}
	for i, p := range o.Params {
		value, count := uint32(at), uint32(len(p.Tensors))
		for k, t := range p.Tensors {
			tensors = append(tensors, t.record(i, k, place)...)
			at++
		}
		if p.Value != nil {
			var b []byte
			b, count = operatorValue(p.Value)
			value = place(b)
		}
		null := byte(0)
		if p.Null {
			null, count = 1, 0
		}
		params = append(params, p.Type, null, 0, 0)
		params = binary.LittleEndian.AppendUint32(params, count)
		params = binary.LittleEndian.AppendUint32(params, value)
		params = binary.LittleEndian.AppendUint32(params, 0)
	}
	name := place(append([]byte(o.Name), 0))
	var b []byte
	b = binary.LittleEndian.AppendUint64(b, block.Magic)
	b = binary.LittleEndian.AppendUint32(b, block.Version)
	b = binary.LittleEndian.AppendUint32(b, uint32(from+len(rest)))
	b = binary.LittleEndian.AppendUint64(b, o.Workspace)
	b = binary.LittleEndian.AppendUint64(b, o.WorkspaceSize)
	for _, v := range []int{int(name), len(o.Params), block.HeaderSize, n, block.HeaderSize + len(params), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return append(append(append(b, params...), tensors...), rest...)
}

func (t *OperatorTensor) record(param, position int, place func([]byte) uint32) []byte {
	strides, storage := t.Strides, t.Storage
	if strides == nil {
		strides = make([]int64, len(t.Dims))
		for i, next := len(strides)-1, int64(1); i >= 0; i-- {
			strides[i] = next
			next *= max(t.Dims[i], 1)
		}
	}
	if storage == nil {
		storage = t.Dims
	}
	var dims, b []byte
	for _, list := range [][]int64{t.Dims, strides, storage} {
		for _, v := range list {
			dims = binary.LittleEndian.AppendUint64(dims, uint64(v))
		}
	}
	b = binary.LittleEndian.AppendUint64(b, t.Base)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Offset))
	b = binary.LittleEndian.AppendUint32(b, uint32(t.DType))
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Format))
	b = append(b, byte(t.Role), t.Flags, byte(len(t.Dims)), byte(len(storage)))
	for _, v := range []int{int(place(dims)), param, position} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// operatorValue returns the bytes of a value, and the number of its elements.
func operatorValue(v any) (b []byte, count uint32) {
	switch v := v.(type) {
	case int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(v)), 1
	case float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), 1
	case string:
		return []byte(v), uint32(len(v))
	case []int64:
		return le(v), uint32(len(v))
	case []float32:
		return le(v), uint32(len(v))
	case []bool:
		return le(v), uint32(len(v))
	case []block.Scalar:
		for _, s := range v {
			b = binary.LittleEndian.AppendUint32(b, uint32(s.DType))
			b = binary.LittleEndian.AppendUint32(b, 0)
			b = append(b, s.Value[:]...)
		}
		return b, uint32(len(v))
	}
	panic(v)
}
