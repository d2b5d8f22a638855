// Package block decodes the argument blocks of operators, whose layout aclsim/operator.h defines.
//
// Decode checks each number before it is used: blocks come from programs and from traces, and are not trusted. Its result refers to the
// block's bytes and needs memory that is linear in their number. Operands returns the memory that a launch of the operator reads and
// writes, and the address words in the block. The simulator uses it for bounds and for what is not computed, a replay for relocation.
//
// The package imports nothing of acltrace.
package block

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Section is the section of a kernel binary whose kernels have such blocks. Its content is Version.
const Section = ".aclsim.operators"

// Magic and Version begin each block.
const (
	Magic   = 0x6b6c62706f6c6361 // "aclopblk"
	Version = 1
)

// Sizes of the structures in a block.
const (
	HeaderSize = 56
	ParamSize  = 16
	ScalarSize = 24
	TensorSize = 40
)

// WorkspaceAt is the offset of the workspace's address. The address of a tensor begins its record.
const WorkspaceAt = 16

// maxName limits an operator's name.
const maxName = 255

// A Block is a decoded argument block. It refers to the block's bytes.
type Block struct {
	Name          string
	Workspace     uint64 // device address, 0 for none
	WorkspaceSize uint64
	Params        []Param
	Tensors       []Tensor
	tensors       int // offset of the first tensor
}

// A Param is a parameter of the operator's phase one. Its type is a letter of aclsim/operator.h.
type Param struct {
	Type  byte
	Null  bool // a null pointer was passed
	First int  // the first tensor's index
	Count int  // elements
	value []byte
}

// A Scalar is a value with a data type. Bytes after the value are 0.
type Scalar struct {
	DType DType
	Value [16]byte
}

// A Role says how an operator uses memory.
type Role uint8

// The roles. A tensor of an unknown role is In and Out.
const (
	In      Role = 1
	Out     Role = 2
	Scratch Role = 4 // the workspace: its content is lost before and after the launch
)

// Flags of a tensor.
const (
	roleUnknown = 1
	absent      = 2
)

// A Tensor is a view of a storage in device memory.
type Tensor struct {
	Base        uint64 // address of the storage
	Offset      int64  // of the first element in the storage, in elements
	DType       DType
	Format      Format
	Role        Role
	RoleUnknown bool
	Absent      bool // a null element of a list
	Param       int  // index
	Position    int  // in its list

	lo, size uint64 // see extent
	dense    bool
	numDims  int
	dims     []byte // dims, strides and dims of the storage
}

// An Operand is memory that a launch uses through one address word in the block.
type Operand struct {
	At     int    // offset of the word in the block
	Addr   uint64 // the word
	Role   Role
	Lo     uint64 // the first byte, from Addr
	Size   uint64 // bytes, 0 if the operator accesses none
	Dense  bool   // each byte is part of an element
	Tensor int    // index; -1 for the workspace
}

var le = binary.LittleEndian

// Is reports whether bytes begin as a block does.
func Is(b []byte) bool { return len(b) >= HeaderSize && le.Uint64(b) == Magic }

// decoder checks one block.
type decoder struct {
	b          []byte
	from, to   uint64 // of the tensor records: nothing else may be there
	dims       uint64 // words that the tensors before have
	nextTensor int    // the tensor that the next parameter begins with
}

// Decode reads a block. Bytes after its size are ignored.
func Decode(b []byte) (*Block, error) {
	if len(b) < HeaderSize {
		return nil, fmt.Errorf("the argument block has %d bytes: want at least the %d of its header", len(b), HeaderSize)
	}
	if m := le.Uint64(b); m != Magic {
		return nil, fmt.Errorf("the argument block begins with %#x: want %#x", m, uint64(Magic))
	}
	if v := le.Uint32(b[8:]); v != Version {
		return nil, fmt.Errorf("the argument block has version %d: want %d", v, Version)
	}
	size := le.Uint32(b[12:])
	if size < HeaderSize || uint64(size) > uint64(len(b)) {
		return nil, fmt.Errorf("the argument block claims %d bytes: it has %d, and a header of %d", size, len(b), HeaderSize)
	}
	d := &decoder{b: b[:size]}
	x := &Block{Workspace: le.Uint64(b[WorkspaceAt:]), WorkspaceSize: le.Uint64(b[24:])}
	if x.WorkspaceSize > math.MaxUint64-x.Workspace {
		return nil, fmt.Errorf("the workspace of %d bytes at %#x ends after the last address", x.WorkspaceSize, x.Workspace)
	}
	tensors, err := d.table("tensors", le.Uint32(b[48:]), le.Uint32(b[44:]), TensorSize)
	if err != nil {
		return nil, err
	}
	if len(tensors) > 0 {
		x.tensors = int(le.Uint32(b[48:]))
		d.from, d.to = uint64(x.tensors), uint64(x.tensors+len(tensors))
	}
	params, err := d.table("parameters", le.Uint32(b[40:]), le.Uint32(b[36:]), ParamSize)
	if err != nil {
		return nil, err
	}
	if x.Name, err = d.name(le.Uint32(b[32:])); err != nil {
		return nil, err
	}
	x.Tensors = make([]Tensor, len(tensors)/TensorSize)
	for i := range x.Tensors {
		if err := d.tensor(&x.Tensors[i], tensors[i*TensorSize:]); err != nil {
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
	}
	x.Params = make([]Param, len(params)/ParamSize)
	for i := range x.Params {
		if err := d.param(x, i, params[i*ParamSize:]); err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i, err)
		}
	}
	if d.nextTensor < len(x.Tensors) {
		return nil, fmt.Errorf("tensor %d belongs to no parameter", d.nextTensor)
	}
	return x, nil
}

// table returns the records of a table, or the bytes of a value.
func (d *decoder) table(what string, at, count uint32, size uint64) ([]byte, error) {
	if count == 0 {
		return nil, nil
	}
	n, end := uint64(count)*size, uint64(len(d.b)) // no overflow: both factors are small
	from := uint64(at)
	switch {
	case from < HeaderSize:
		return nil, fmt.Errorf("%s at offset %d overlap the header", what, at)
	case from > end || n > end-from:
		return nil, fmt.Errorf("%s at offset %d, %d of %d bytes, are not in the block of %d bytes", what, at, count, size, end)
	case from%8 != 0:
		return nil, fmt.Errorf("%s at offset %d are not at a multiple of 8", what, at)
	case from < d.to && d.from < from+n:
		return nil, fmt.Errorf("%s at offset %d overlap the tensors", what, at)
	}
	return d.b[from:][:n:n], nil
}

// name returns the operator's name.
func (d *decoder) name(at uint32) (string, error) {
	switch {
	case at < HeaderSize:
		return "", fmt.Errorf("the name at offset %d overlaps the header", at)
	case uint64(at) >= uint64(len(d.b)):
		return "", fmt.Errorf("the name at offset %d is not in the block of %d bytes", at, len(d.b))
	}
	text := d.b[at:]
	n := bytes.IndexByte(text[:min(len(text), maxName+1)], 0)
	if n <= 0 {
		return "", fmt.Errorf("the name at offset %d does not end after 1 to %d bytes", at, maxName)
	}
	if from := uint64(at); from < d.to && d.from < from+uint64(n)+1 {
		return "", fmt.Errorf("the name at offset %d overlaps the tensors", at)
	}
	if k := slices.IndexFunc(text[:n], func(c byte) bool { return c <= ' ' || c > '~' }); k >= 0 {
		return "", fmt.Errorf("the name at offset %d has the byte %#x", at, text[k])
	}
	return string(text[:n]), nil
}

// tensor reads one record.
func (d *decoder) tensor(t *Tensor, r []byte) error {
	flags, storage := r[25], int(r[27])
	*t = Tensor{Base: le.Uint64(r), Offset: int64(le.Uint64(r[8:])), DType: DType(le.Uint32(r[16:])), Format: Format(le.Uint32(r[20:])), Role: Role(r[24]),
		RoleUnknown: flags&roleUnknown != 0, Absent: flags&absent != 0, Param: int(le.Uint32(r[32:])), Position: int(le.Uint32(r[36:])), numDims: int(r[26])}
	switch {
	case flags&^(roleUnknown|absent) != 0:
		return fmt.Errorf("unknown flags %#x", flags)
	case t.Role == 0 || t.Role > In|Out || t.RoleUnknown && t.Role != In|Out:
		return fmt.Errorf("role %d with flags %#x", t.Role, flags)
	case t.Absent && (t.Base != 0 || t.numDims+storage > 0):
		return fmt.Errorf("it is absent, with %d dims at address %#x", t.numDims+storage, t.Base)
	case t.Absent:
		return nil
	case t.DType.Bits() == 0:
		return fmt.Errorf("unknown data type %d", int32(t.DType))
	}
	words := uint64(2*t.numDims + storage)
	if d.dims += words; d.dims > uint64(len(d.b))/8 { // the dims of several tensors overlap
		return fmt.Errorf("%d dims of all tensors so far are more than the block has", d.dims)
	}
	var err error
	if t.dims, err = d.table("dims", le.Uint32(r[28:]), uint32(words), 8); err != nil {
		return err
	}
	return t.extent()
}

// valueSizes are the bytes of an element, by the type of a parameter that is no tensor; 0 for parameters without a value.
var valueSizes = map[byte]uint64{'S': ScalarSize, 'A': ScalarSize, 'I': 8, 'F': 4, 'B': 1, 's': 1, 'i': 8, 'u': 8, 'j': 8, 'h': 8, 'c': 8, 'b': 8, 'd': 8, 'f': 8, 'p': 0}

// List reports whether the parameter is a list or a text, whose number of elements varies.
func (p *Param) List() bool { return bytes.IndexByte([]byte("LlAIFBs"), p.Type) >= 0 }

// param reads one record. The tensors of all parameters are in the order of the parameters.
func (d *decoder) param(x *Block, i int, r []byte) error {
	p := &x.Params[i]
	count, value := le.Uint32(r[4:]), le.Uint32(r[8:])
	*p = Param{Type: r[0], Null: r[1] != 0, Count: int(count)}
	size, isValue := valueSizes[p.Type]
	isTensor := bytes.IndexByte([]byte("TtLl"), p.Type) >= 0
	switch {
	case !isValue && !isTensor:
		return fmt.Errorf("unknown type %q", p.Type)
	case r[1] > 1:
		return fmt.Errorf("null is %d: want 0 or 1", r[1])
	case p.Null && count != 0:
		return fmt.Errorf("it is null, with %d elements", count)
	case p.Null || p.Type == 'p':
		return nil
	case !p.List() && count != 1:
		return fmt.Errorf("type %q with %d elements", p.Type, count)
	}
	if !isTensor {
		var err error
		p.value, err = d.table("values", value, count, size)
		return err
	}
	p.First = d.nextTensor
	if count > 0 && uint64(value) != uint64(d.nextTensor) || uint64(count) > uint64(len(x.Tensors)-d.nextTensor) {
		return fmt.Errorf("%d tensors from tensor %d: want the next ones, from %d of %d", count, value, d.nextTensor, len(x.Tensors))
	}
	for k := range int(count) {
		if t := &x.Tensors[p.First+k]; t.Param != i || t.Position != k {
			return fmt.Errorf("tensor %d has parameter %d, position %d", p.First+k, t.Param, t.Position)
		}
	}
	d.nextTensor += int(count)
	return nil
}

// Operands returns the memory that a launch uses, and all address words in the block: each word once, in the order of the block.
func (x *Block) Operands() []Operand {
	to := make([]Operand, 0, len(x.Tensors)+1)
	if x.Workspace != 0 || x.WorkspaceSize != 0 {
		to = append(to, Operand{At: WorkspaceAt, Addr: x.Workspace, Role: Scratch, Size: x.WorkspaceSize, Dense: true, Tensor: -1})
	}
	for i := range x.Tensors {
		if t := &x.Tensors[i]; !t.Absent {
			to = append(to, Operand{At: x.tensors + i*TensorSize, Addr: t.Base, Role: t.Role, Lo: t.lo, Size: t.size, Dense: t.dense, Tensor: i})
		}
	}
	return to
}
