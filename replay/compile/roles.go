package compile

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// reporter returns the thread that a pthread_t stands for, in calls that name the thread which processes a stream's callbacks.
func (p *callCompiler) reporter(q *api.Param, w uint64) (int, bool) {
	if q.Object != api.Thread || w == 0 {
		return 0, false
	}
	if t, ok := p.objects.reporters[w]; ok {
		return t, true
	}
	// The trace has no pthread_t. It must be a thread that processes such reports and has no pthread_t yet.
	var some []int
	pr := p.procs[p.Threads[p.at.thread].Process]
	for t := pr.first; t < pr.first+pr.count; t++ {
		processes := p.Threads[t].polls[p.Model.Lookup(p.f.Subscribes)]
		if taken := slices.Contains(slices.Collect(maps.Values(p.objects.reporters)), t); processes && !taken {
			some = append(some, t)
		}
	}
	switch len(some) {
	case 0:
		some = []int{p.at.thread} // there are no callbacks
	case 1:
	default:
		p.refuse("%d threads call %s, and the trace does not show which one is %#x", len(some), p.f.Subscribes, w)
	}
	p.objects.reporters[w] = some[0]
	return some[0], true
}

// mapping returns the operand for an address at which memory is mapped: in a reservation, or in program memory that the device is to
// access.
func (p *callCompiler) mapping(i int, q *api.Param, w uint64) plan.Operand {
	n, _ := q.Size.Bytes(p.f, p.c.Args)
	var op plan.Operand
	if q.Object == api.Registered {
		if of, off, ok := p.registered(i, w); ok {
			op = p.object(of).Plus(off)
		} else if p.Model.KeepsVisible() {
			op = p.hostRange(w, n)
		} else {
			op = p.region(w, n)
			if u, ok := p.e.Use(i); ok && p.ok {
				p.zeroCopy(u.Object)
			}
		}
	} else if o, off, ok := p.state.Reserved(p.owner(), w); ok {
		op = p.object(o).Plus(off)
	} else {
		p.nowhere(i, w)
		return p.resolve(w)
	}
	if u, ok := p.e.Use(i); ok {
		p.bind(u.Object, op)
	}
	return op
}

// registered returns the memory that the current call registers, with the offset, if a recorded call has allocated or registered it.
func (p *callCompiler) registered(i int, w uint64) (*timeline.Object, uint64, bool) {
	if u, ok := p.e.Use(i); ok {
		o, off := aliased(u.Object, 0)
		return o, off, o != u.Object
	}
	o, off, ok := p.state.Find(p.owner(), w)
	return o, off, ok && o.Kind.OnHost()
}

// handles returns the operand for a handle array.
func (p *callCompiler) handles(i int, q *api.Param) (plan.Operand, error) {
	n, _ := q.Size.Bytes(p.f, p.c.Args)
	ws, err := p.array64(i, n/8)
	if err != nil || ws == nil {
		return p.temporary(min(n, 1<<20)), err
	}
	relocs := p.handleRelocs(q.Name, q.Object, ws)
	return p.table(make([]byte, 8*len(ws)), relocs)
}

func (p *callCompiler) handleRelocs(name string, kind api.Object, ws []uint64) (relocs []plan.Reloc) {
	for k, w := range ws {
		op, ok := p.objects.former[objectKey{p.owner(), kind, w}]
		if !ok {
			if w != 0 {
				p.refuse("%s has the %s %#x, which no call in the trace makes", name, kind, w)
			}
			op = imm(w)
		}
		relocs = append(relocs, op.Reloc(8*uint64(k)))
	}
	return relocs
}

// answer returns memory that the call fills.
func (p *callCompiler) answer(i int, q *api.Param) (plan.Operand, error) {
	if q.ItemSizes >= 0 {
		n := p.c.Args[p.f.Params[q.ItemCount].Word]
		sizes, err := p.array64(int(q.ItemSizes), n)
		if err != nil || sizes == nil {
			return p.temporary(8 * min(n, 1<<20)), err
		}
		var relocs []plan.Reloc
		for k, size := range sizes {
			op := p.temporary(size)
			if d := p.a.Find(i, uint32(k+1), format.DirOut); d != nil && !q.Volatile {
				if err := p.checkData(i, op, d); err != nil {
					return op, err
				}
			}
			relocs = append(relocs, op.Reloc(8*uint64(k)))
		}
		return p.table(make([]byte, 8*n), relocs)
	}
	d := p.a.Find(i, 0, format.DirOut)
	n, known := q.Size.Bytes(p.f, p.c.Args)
	if !known {
		n = q.Size.Unit
		for _, m := range q.Size.Mul {
			v := p.c.Args[p.f.Params[m].Word]
			if in := p.a.Find(int(m), 0, format.DirIn); in != nil && len(in.Bytes) > 0 {
				v = plan.Number(in.Bytes[:min(len(in.Bytes), 8)])
			} else if out, ok := p.stored(int(m)); ok {
				v = out
			}
			n *= min(v, 1<<20)
		}
	}
	if d != nil {
		n = max(n, d.Len)
	}
	if q.Token != 0 && p.ok && d != nil && d.Status == format.Whole {
		p.Found.Volatile++
		return p.makeTokens(i, q), nil
	}
	op := p.temporary(n)
	if q.Token != 0 && !p.ok {
		// Its alignment may be the reason for the failure.
		off := p.c.Args[q.Word] % (8 * tokenAlign)
		op = p.temporary(n + off)
		op.Addend += off
	}
	switch {
	case d == nil:
	case q.ListsHandles():
		return op, p.handlesAt(i, op)
	case q.Volatile:
		p.Found.Volatile++
	default:
		return op, p.checkData(i, op, d)
	}
	return op, nil
}

// structure returns the operands for a structure with pointers or handles.
func (p *callCompiler) structure(i int, q *api.Param) ([]plan.Operand, error) {
	pointer := q.Words == 1 && q.Type[len(q.Type)-1] == '*'
	w := p.c.Args[q.Word]
	if pointer && w == 0 {
		return []plan.Operand{imm(0)}, nil
	}
	var b []byte
	at, relocs := uint64(0), []plan.Reloc(nil)
	if pointer {
		d := p.a.Whole(i, 0, format.DirIn)
		if d == nil || d.Len < uint64(q.Elem) {
			p.refuse("its structure %s is not in the trace", q.Name)
			return []plan.Operand{p.temporary(uint64(q.Elem))}, nil
		}
		var err error
		if b, err = p.bytes(d); err != nil {
			return nil, err
		}
		from, rs, err := p.content(d)
		if err != nil {
			return nil, err
		}
		at, relocs = from.Addend, rs
	} else {
		for _, w := range p.c.Args[q.Word:][:q.Words] {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	if q.CopyDesc != nil && pointer {
		rs, err := p.block(i, q)
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			r.At += at
			relocs = slices.DeleteFunc(relocs, func(old plan.Reloc) bool { return old.At == r.At })
			relocs = append(relocs, r)
		}
	}
	words := make([]plan.Operand, q.Words)
	if !pointer {
		for k := range words {
			words[k] = imm(plan.Number(b[8*k:][:8]))
		}
	}
	for _, f := range q.Fields {
		if uint64(len(b)) < uint64(f.Offset)+8 || !f.Counts(b) {
			continue
		}
		v := plan.Number(b[f.Offset:][:8])
		if v == 0 || f.Item == 0 && p.constant(f.Object, v) {
			continue
		}
		op, err := p.field(i, q, &f, v)
		if err != nil {
			return nil, err
		}
		if f.Stored {
			p.fetch(i, q, &f, plan.Operand{Slot: plan.SlotData, Addend: at + uint64(f.Offset)})
		}
		if !pointer {
			words[f.Offset/8] = op
			continue
		}
		k := slices.IndexFunc(relocs, func(r plan.Reloc) bool { return r.At == at+uint64(f.Offset) })
		if k < 0 {
			k, relocs = len(relocs), append(relocs, plan.Reloc{})
		}
		relocs[k] = op.Reloc(at + uint64(f.Offset))
	}
	if !pointer {
		return words, nil
	}
	p.relo = append(p.relo, relocs...)
	op := plan.Operand{Slot: plan.SlotData, Addend: at}
	if p.takes() && !slices.ContainsFunc(q.Fields, func(f api.Field) bool { return f.Stored || f.New }) {
		p.spoil(op, uint64(len(b)))
	}
	return []plan.Operand{op}, nil
}

// field returns the operand for a pointer or a handle in a structure.
func (p *callCompiler) field(i int, q *api.Param, f *api.Field, v uint64) (plan.Operand, error) {
	if f.Item == 0 && !f.Stored {
		op, ok := p.objects.former[objectKey{p.owner(), f.Object, v}]
		if !ok {
			p.refuse("its structure %s has the %s %#x, which no call in the trace makes", q.Name, f.Object, v)
		}
		return op, nil
	}
	switch {
	case f.Stored:
		return plan.Operand{}, nil
	case f.New:
		return p.handlesOut(i, q, f)
	case f.Args:
		return p.array(i, api.ArgItems)
	case f.Packed:
		return p.packed(i, f.Item)
	case f.Callback:
		if p.ok {
			p.doubt(verify.HostFunction, "its host function is a stub that takes no time and writes nothing: memory that the program's function wrote is not compared")
		}
		return plan.Operand{Slot: plan.SlotHostFunction}, nil
	case f.OmitOnReplay:
		return plan.Operand{}, nil
	}
	d := p.a.Whole(i, f.Item, format.DirIn)
	if f.List != 0 {
		return p.list(d, f.List)
	}
	if d == nil {
		op, _, _, own := p.locate(i, f.Item, v)
		if own {
			p.refuse("the trace lacks the data to which its structure %s points", q.Name)
		}
		return op, nil
	}
	if f.String {
		b, err := p.bytes(d)
		if err != nil {
			return plan.Operand{}, err
		}
		return p.put(append(slices.Clip(b), 0))
	}
	from, relocs, err := p.content(d)
	if err != nil {
		return from, err
	}
	if relocs, err = p.tagged(f, d, from, relocs); err != nil {
		return from, err
	}
	p.relo = append(p.relo, relocs...)
	return from, err
}

// handlesOut returns memory where the call stores new objects' handles.
func (p *callCompiler) handlesOut(i int, q *api.Param, f *api.Field) (plan.Operand, error) {
	op := slotAddress(uint32(len(p.slots)))
	n := uint64(0)
	for _, u := range p.e.Uses {
		if u.Param == i && u.Object.Kind == f.Object && u.Object.Created == p.c.Index {
			for ; n < u.Offset; n += 8 {
				p.slot("nothing", nil)
			}
			p.newSlot(u.Object)
			n += 8
		}
	}
	if n > 0 {
		return op, nil
	}
	p.refuse("the trace lacks the data that it stored after its structure %s", q.Name)
	return p.temporary(placeSize), nil
}

// handlesFound returns the slot for the address of runtime memory with handles.
func (p *callCompiler) handlesFound(i int) (plan.Operand, error) {
	s := p.slot("runtime memory", nil)
	return slotAddress(s), p.handlesAt(i, plan.Operand{Slot: s})
}

// handlesAt loads the handles of new objects from an array that the call has stored, and compares the others.
func (p *callCompiler) handlesAt(i int, array plan.Operand) error {
	for _, u := range p.e.Uses {
		if u.Param != i {
			continue
		}
		at := array.Plus(u.Offset)
		known, ok := p.objects.operands.Get(u.Object)
		switch {
		case !ok:
			p.load(p.newSlot(u.Object), at)
			continue
		case p.f.Params[i].Volatile:
			continue
		}
		to, err := p.Put(make([]byte, 8))
		if err != nil {
			return err
		}
		p.check(i, at, to, []plan.Reloc{known.Reloc(to)}, contiguous(8), plan.CheckOutput)
	}
	return nil
}

// fetch loads the handles that a call has stored in its structure, or in memory that the structure points to.
func (p *callCompiler) fetch(i int, q *api.Param, f *api.Field, at plan.Operand) {
	if !p.ok {
		return
	}
	n := len(p.after)
	if f.Item != 0 {
		s := p.slot("runtime memory", nil)
		p.load(s, at)
		at = plan.Operand{Slot: s}
	}
	for _, u := range p.e.Uses {
		if u.Param == i && u.Object.Kind == f.Object && u.Object.Created == p.c.Index {
			p.load(p.newSlot(u.Object), at.Plus(u.Offset))
		}
	}
	if len(p.after) <= n+1 && f.Item != 0 || len(p.after) == n {
		p.cant = fmt.Sprintf("the trace lacks the data that it stored in its structure %s", q.Name)
	}
}

// load fills a slot from memory after the current call.
func (p *callCompiler) load(slot uint32, from plan.Operand) {
	p.after = append(p.after, plan.Instruction{Op: plan.OpStore, Fn: p.Function(p.f), Call: p.c.Index, Len: 8, Width: 8,
		Operands: p.Operands(slotAddress(slot), from, imm(8))})
}

// tagged adds relocations for the handles in tagged structures.
func (p *callCompiler) tagged(f *api.Field, d *format.Data, from plan.Operand, relocs []plan.Reloc) ([]plan.Reloc, error) {
	l := p.Model.Layout(f.Type)
	if l == nil || l.Tag == nil {
		return relocs, nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return nil, err
	}
	for at := 0; at+int(l.Size) <= len(b); at += int(l.Size) {
		e := b[at:]
		for _, m := range l.Cases[int64(plan.Number(e[l.Tag.Offset:][:l.Tag.Size]))] {
			if m.Object == "" {
				continue
			}
			v := plan.Number(e[m.Offset:][:m.Size])
			op, ok := p.objects.former[objectKey{p.owner(), m.Object, v}]
			if !ok {
				if v != 0 {
					p.refuse("an attribute has the %s %#x, which no call in the trace makes", m.Object, v)
				}
				continue
			}
			to := from.Addend + uint64(at) + uint64(m.Offset)
			relocs = slices.DeleteFunc(relocs, func(r plan.Reloc) bool { return r.At == to })
			relocs = append(relocs, op.Reloc(to))
		}
	}
	return relocs, nil
}

// emptyBlock compares the length of a recorded result with the 0 bytes that a descriptor copies.
func (p *callCompiler) emptyBlock(i int) error {
	if d := p.a.Find(i, api.CopyFrom, format.DirIn); d != nil && d.Len > 0 && p.ok {
		p.substitute(i, 0, d)
	}
	d := p.a.Find(i, api.CopyTo, format.DirOut)
	if d == nil || d.Len == 0 || !p.ok || !p.o.Compare || p.e.Captured != nil {
		return nil
	}
	in, err := p.lengthCheck(i, api.CopyTo, 0, d.Len)
	p.compareAt(p.at, []plan.Instruction{in})
	return err
}

// block returns the relocations for both ends in a copy descriptor.
func (p *callCompiler) block(i int, q *api.Param) (relocs []plan.Reloc, err error) {
	b, ok := p.e.CopyBlock()
	if !ok {
		return nil, nil
	}
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return nil, p.emptyBlock(i)
	}
	for k, s := range []*timeline.CopySide{&b.From, &b.To} {
		if !s.Memory {
			continue
		}
		side := *q
		side.Role = [...]api.Role{api.Reads, api.Writes}[k]
		height := s.Plane/s.Pitch*(b.Depth-1) + b.Height
		op, err := p.memory(i, &side, uint32(k+1), s.First, rows{b.Width * height, b.Width, s.Pitch})
		if err != nil {
			return nil, err
		}
		// The structure has the base address; the copy starts at an offset.
		relocs = append(relocs, op.Plus(s.Base-s.First).Reloc(uint64(s.Field)))
	}
	return relocs, nil
}
