package compile

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// output returns the operand for a pointer through which the call stores a value.
func (p *callCompiler) output(i int, q *api.Param) (plan.Operand, error) {
	switch q.Role {
	case api.New, api.Find:
		if u, ok := p.e.Use(i); ok {
			return p.objectOutput(i, q, u.Object)
		}
	case api.Buffer:
		if v, ok := p.stored(i); ok {
			return p.bufferOutput(q, v), nil
		}
	case api.Out, api.InOut:
		return p.valueOutput(i, q)
	case api.Text:
		return p.textOutput(i, q)
	}
	return p.temporary(uint64(max(q.Elem, 8))), nil
}

// objectOutput returns where the call stores an object's handle: a slot if the object is new, otherwise memory that is compared.
func (p *callCompiler) objectOutput(i int, q *api.Param, o *timeline.Object) (plan.Operand, error) {
	if known, ok := p.objects.operands.Get(o); ok {
		op := p.temporary(8)
		at, err := p.Put(make([]byte, 8))
		if err != nil {
			return op, err
		}
		p.check(i, op, at, []plan.Reloc{known.Reloc(at)}, contiguous(8), plan.CheckOutput)
		return op, nil
	}
	s := p.newSlot(o)
	switch q.Object {
	case api.Descriptor:
		p.sharing.exportedFDs[p.c.Index] = o
	case api.SharedMemory:
		v, _ := p.stored(i)
		p.sharing.keys[fmt.Sprint(v)] = plan.Operand{Slot: s}
	}
	if access.Placed(q.Object) {
		p.Found.DeviceBlocks = append(p.Found.DeviceBlocks, DeviceBlock{s, o, p.c.End})
	}
	return slotAddress(s), nil
}

// bufferOutput returns where the call stores a placeholder's address.
func (p *callCompiler) bufferOutput(q *api.Param, addr uint64) plan.Operand {
	s := p.slot(fmt.Sprintf("buffer %#x", addr), nil)
	if u, ok := p.e.Use(0); ok {
		bs := slices.DeleteFunc(p.objects.buffers[u.Object], func(b buffer) bool { return b.addr == addr })
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		p.objects.buffers[u.Object] = append(bs, buffer{addr, n, s})
	}
	return slotAddress(s)
}

// valueOutput returns where the call stores a number or a structure. It is compared unless runs may differ.
func (p *callCompiler) valueOutput(i int, q *api.Param) (plan.Operand, error) {
	op, err := p.valueMemory(i, q)
	if err != nil {
		return op, err
	}
	v, has := p.stored(i)
	d := p.a.Find(i, 0, format.DirOut)
	switch {
	case !has && d == nil:
	case !p.ok && !p.argumentsKnown():
		p.unverified(verify.Data, "it stores "+q.Name+" although it fails, and the trace lacks some arguments")
	case q.Volatile: // tokens too
		p.Found.Volatile++
	case !has:
		return op, p.checkData(i, op, d)
	default:
		at, err := p.Put(binary.LittleEndian.AppendUint64(nil, v)[:min(q.Elem, 8)])
		if err != nil {
			return op, err
		}
		p.check(i, op, at, nil, contiguous(min(uint64(q.Elem), 8)), outputOf(q))
		if q.RangeQuery && p.pointers.mapped {
			// The player's mapping has at least the requested size.
			for _, u := range p.e.Uses {
				if p.f.Params[u.Param].Role == api.Address {
					in := &p.after[len(p.after)-1]
					in.Want, in.At = plan.CheckExtent, u.Object.Size
				}
			}
		}
	}
	return op, nil
}

// valueMemory returns the memory for a number or a structure that the call stores, with its earlier content. Exported keys and tokens are
// in slots.
func (p *callCompiler) valueMemory(i int, q *api.Param) (plan.Operand, error) {
	op := p.temporary(uint64(q.Elem))
	in, d := p.a.Whole(i, 0, format.DirIn), p.a.Whole(i, 0, format.DirOut)
	var from plan.Operand
	var relocs []plan.Reloc
	var err error
	before := q.Role == api.InOut && in != nil
	if before {
		if from, relocs, err = p.content(in); err != nil {
			return op, err
		}
	}
	var stored []byte
	if d != nil && (q.Token != 0 && p.ok || p.f.Shares == api.Export) {
		if stored, err = p.bytes(d); err != nil {
			return op, err
		}
	}
	if stored != nil && q.Token != 0 && p.ok {
		op = p.makeTokens(i, q)
	}
	if before {
		p.store(op, from, relocs, contiguous(min(in.Len, uint64(q.Elem))))
	}
	if stored != nil && p.f.Shares == api.Export {
		op = slotAddress(uint32(len(p.slots)))
		for k := range (len(stored) + 7) / 8 {
			p.slot(fmt.Sprintf("key from call %d, word %d", p.c.Index, k), nil)
		}
		p.sharing.keys[string(stored)] = op
	}
	return op, nil
}

// textOutput returns where the call stores a string.
func (p *callCompiler) textOutput(i int, q *api.Param) (plan.Operand, error) {
	n, _ := q.Size.Bytes(p.f, p.c.Args)
	op := p.temporary(n)
	d := p.a.Find(i, 0, format.DirOut)
	if d != nil && d.Status == format.Whole && p.f.Shares == api.Export {
		b, err := p.bytes(d)
		if err != nil {
			return op, err
		}
		op = p.Writer.Share(n)
		p.sharing.keys[string(b)] = op
	}
	switch {
	case d == nil:
	case q.Volatile:
		p.Found.Volatile++
	case d.Len < n:
		// Compare the terminating zero too.
		b, err := p.bytes(d)
		if err != nil {
			return op, err
		}
		at, err := p.Put(append(slices.Clip(b), 0))
		p.check(i, op, at, nil, contiguous(d.Len+1), outputOf(q))
		return op, err
	default:
		return op, p.checkData(i, op, d)
	}
	return op, nil
}

// argumentsKnown reports whether the trace has all memory that the call read as arguments. Large arguments of failed calls are not
// recorded.
func (p *callCompiler) argumentsKnown() bool {
	for i := range p.f.Params {
		q := &p.f.Params[i]
		if q.Role != api.In && q.ItemSizes < 0 || p.c.Args[q.Word] == 0 {
			continue
		}
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		if q.ItemSizes >= 0 {
			n = 8 * p.c.Args[p.f.Params[q.ItemCount].Word]
		}
		if n > 0 && p.a.Whole(i, 0, format.DirIn) == nil {
			return false
		}
	}
	return true
}

func (p *callCompiler) checkData(i int, op plan.Operand, d *format.Data) error {
	if d.Status != format.Whole {
		return nil
	}
	from, err := p.plain(d)
	p.check(i, op, from.Addend, nil, contiguous(d.Len), outputOf(&p.f.Params[i]))
	return err
}

// lengthCheck returns a check that always fails: the recorded result has another length than the copy. Common bytes prove nothing, so
// they are not compared.
func (p *callCompiler) lengthCheck(i int, item uint32, n, recorded uint64) (plan.Instruction, error) {
	got, err := p.Put(binary.LittleEndian.AppendUint64(nil, n))
	if err != nil {
		return plan.Instruction{}, err
	}
	want, err := p.Put(binary.LittleEndian.AppendUint64(nil, recorded))
	in := p.checkInstruction(i, plan.Operand{Slot: plan.SlotData, Addend: got}, want, nil, contiguous(8), plan.CheckLength)
	in.RetSlot = item
	return in, err
}

func outputOf(q *api.Param) uint64 {
	if q.Machine {
		return plan.CheckMachine
	}
	return plan.CheckOutput
}

func (p *callCompiler) checkInstruction(i int, op plan.Operand, at uint64, relocs []plan.Reloc, s rows, kind uint64, more ...plan.Operand) plan.Instruction {
	ops := append([]plan.Operand{op, {Slot: plan.SlotData, Addend: at}, imm(s.pitch)}, more...)
	in := plan.Instruction{
		Op: plan.OpCheck, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(ops...),
		Len: s.len, Width: s.width, Want: kind, Words: uint8(i),
	}
	in.Relocs = p.Relocs(relocs...)
	return in
}

func (p *callCompiler) check(i int, op plan.Operand, at uint64, relocs []plan.Reloc, s rows, kind uint64) {
	p.after = append(p.after, p.checkInstruction(i, op, at, relocs, s, kind))
}
