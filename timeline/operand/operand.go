// Package operand follows the calls that make the arguments of operators (api.Operand), and says which tensors an operator was called with.
//
// A program makes them on the thread of phase one, right before it. A framework that keeps executors looks for one first. If it finds one, it makes no
// arguments, and those of the operator that missed with the same key hold.
//
// A timeline.State passes it each such call, and the begin of each phase one that is in no other operator. The package reads no trace. It holds the unused operands of each thread,
// and a number for each key: memory does not grow with the number of calls.
package operand

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
)

// Operands are those that wait for their operator.
type Operands struct {
	// Number returns a number above 0 for a text, the same for the same text, or 0 if there are too many.
	Number func(text []byte) int32

	threads []unused
	kept    map[keptKey]Kept // by the key of a look-up
}

// Kept is what a framework keeps an executor of. The zero value is unknown.
type Kept struct {
	Operator string
	Text     int32 // of the operands
}

// unused are the operands that a thread has made since its last phase one began.
type unused struct {
	list      []operand
	addresses []uint64 // of the tensors for a look-up, in the order of the operator's parameters
	key       keptKey  // of the last look-up that found nothing
}

// An operand is a tensor or a list of them.
type operand struct {
	handle    uint64
	text      string
	addresses []uint64 // of the storage of each tensor
}

type keptKey struct {
	process uint32
	hash    uint64
}

const (
	maxOperands = 64      // of one operator
	maxKept     = 1 << 16 // look-ups whose operands are held
)

var keySeed = maphash.MakeSeed()

func (o *Operands) thread(n uint32) *unused {
	for int(n) >= len(o.threads) {
		o.threads = append(o.threads, unused{})
	}
	return &o.threads[n]
}

// Call takes a call that handles operands. It returns the operator of a kept executor and its operands, if the call found one.
func (o *Operands) Call(f *api.Func, c *format.Call, process uint32) (kept Kept) {
	t := o.thread(c.Thread)
	switch f.Operand {
	case api.TensorOperand:
		if c.Ret != 0 && len(t.list) < maxOperands {
			t.list = append(t.list, tensor(f, c))
		}
	case api.ListOperand:
		if c.Ret != 0 {
			t.list = append(t.list, t.takeList(c.Ret, c.Content(f.Param("value"))))
		}
	case api.AddressOperand:
		if len(t.addresses) < maxOperands {
			t.addresses = append(t.addresses, c.Args[0])
		}
	case api.KeptOperand:
		key := keptKey{process, lookUpKey(f, c)}
		if c.Ret != 0 {
			t.addresses = t.addresses[:0]
			return o.kept[key]
		}
		t.key, t.list = key, t.list[:0]
	case api.OtherOperand:
		if len(f.Params) > 0 && f.Params[0].Role == api.End {
			t.list = slices.DeleteFunc(t.list, func(x operand) bool { return x.handle == c.Args[0] })
		}
	}
	return Kept{}
}

// Begin returns the text of the operands of the phase one of an operator that begins on a thread, 0 if it has none.
func (o *Operands) Begin(thread uint32, operator string) int32 {
	t := o.thread(thread)
	if len(t.list) == 0 {
		return 0
	}
	if t.reversed() {
		slices.Reverse(t.list)
	}
	b := []byte{'('}
	for i, x := range t.list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, x.text...)
	}
	id := o.Number(append(b, ')'))
	if t.key != (keptKey{}) {
		if o.kept == nil || len(o.kept) == maxKept {
			o.kept = map[keptKey]Kept{}
		}
		o.kept[t.key] = Kept{operator, id}
	}
	*t = unused{list: t.list[:0], addresses: t.addresses[:0]}
	return id
}

// reversed reports whether a thread made the operands from the last to the first: C++ leaves the order of arguments to the compiler.
func (t *unused) reversed() bool {
	var made []uint64
	for i := len(t.list) - 1; i >= 0; i-- {
		made = append(made, t.list[i].addresses...)
	}
	return slices.Equal(made, t.addresses)
}

// takeList takes the elements of a list out of the operands, and returns the list.
func (t *unused) takeList(handle uint64, handles []byte) operand {
	list := operand{handle: handle}
	b := []byte{'{'}
	for ; len(handles) >= 8; handles = handles[8:] {
		h := binary.LittleEndian.Uint64(handles)
		text := "…"
		if i := slices.IndexFunc(t.list, func(x operand) bool { return x.handle == h }); i >= 0 {
			text, list.addresses = t.list[i].text, append(list.addresses, t.list[i].addresses...)
			t.list = slices.Delete(t.list, i, i+1)
		}
		if len(b) > 1 {
			b = append(b, ", "...)
		}
		b = append(b, text...)
	}
	list.text = string(append(b, '}'))
	return list
}

// lookUpKey returns a hash of the key by which a call looks up an executor: a number, or memory.
func lookUpKey(f *api.Func, c *format.Call) uint64 {
	if f.Params[0].Role == api.Value {
		return c.Args[0]
	}
	return maphash.Bytes(keySeed, c.Content(0))
}

// tensor returns a new tensor. Its text is as that of opinfo, with the shape that the operator sees.
func tensor(f *api.Func, c *format.Call) operand {
	arg := func(name string) uint64 {
		if i := f.Param(name); i >= 0 {
			return c.Args[f.Params[i].Word]
		}
		return 0
	}
	dims := c.Content(f.Param("viewDims"))
	t := opinfo.Tensor{DType: uint32(arg("dataType")), Format: uint32(arg("format"))}
	for ; len(dims) >= 8 && t.Rank < len(t.Dims); t.Rank, dims = t.Rank+1, dims[8:] {
		t.Dims[t.Rank] = uint32(binary.LittleEndian.Uint64(dims))
	}
	b := t.AppendText(nil)
	if strides := c.Content(f.Param("stride")); !contiguous(&t, strides) {
		b = append(b, " strides ["...)
		for i := 0; i+8 <= len(strides); i += 8 {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(binary.LittleEndian.Uint64(strides[i:])), 10)
		}
		b = append(b, ']')
	}
	return operand{c.Ret, string(b), []uint64{arg("tensorData")}}
}

// contiguous reports whether the elements of a tensor lie in order without holes. No strides at all mean so.
func contiguous(t *opinfo.Tensor, strides []byte) bool {
	if len(strides) < 8*t.Rank {
		return true
	}
	next := uint64(1)
	for i := t.Rank - 1; i >= 0; i-- {
		if n := uint64(t.Dims[i]); n != 1 {
			if binary.LittleEndian.Uint64(strides[8*i:]) != next {
				return false
			}
			next *= n
		}
	}
	return true
}
