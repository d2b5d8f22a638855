package replay

import (
	"encoding/binary"
	"fmt"
	"github.com/acltrace/acltrace/replay/plan"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

func imm(v uint64) plan.Operand { return plan.Operand{Addend: v} }

// newSlot makes the slot that a new object's handle or address will be in.
func (p *compiler) newSlot(o *timeline.Object) uint32 {
	s := p.slot(fmt.Sprintf("%s %d", o.Kind, o.ID), o)
	p.bind(o, plan.Operand{Slot: s})
	return s
}

func (p *compiler) bind(o *timeline.Object, op plan.Operand) {
	p.objects.operands[o] = op
	p.objects.former[objectKey{o.Process, o.Kind, o.Handle}] = op
}

// object is the operand for a handle of an object.
func (p *callCompiler) object(o *timeline.Object) plan.Operand {
	if op, ok := p.objects.operands[o]; ok {
		return op
	}
	if op, ok := p.shareable(o); ok {
		return op
	}
	// A handle of what is gone is given again as such, for the same error.
	if op, ok := p.objects.former[objectKey{o.Process, o.Kind, o.Handle}]; ok && !p.ok {
		return op
	}
	if o.Kind == api.Context && p.objects.contexts.finds != nil && p.ok {
		return p.ownContext()
	}
	if p.ok {
		p.cant = fmt.Sprintf("its %s %#x is older than the trace, or was made by a call that can't be replayed", o.Kind, o.Handle)
	}
	return imm(o.Handle)
}

// temporary is scratch memory of the thread that the next call uses again.
func (p *callCompiler) temporary(n uint64) plan.Operand {
	if !p.ok {
		n = min(n, 1<<30) // a call may have failed for its size
	}
	at := (p.temp + 63) &^ 63
	p.temp = at + n
	return plan.Operand{Slot: uint32(plan.SlotThreads + p.at.thread), Addend: at}
}

// region is scratch memory that stands for memory of the program's at an address, for as long as the program runs.
func (p *callCompiler) region(addr, n uint64) plan.Operand {
	k := memoryKey{p.owner(), addr}
	r, ok := p.objects.regions[k]
	if !ok || r.size < n {
		// As far from the beginning of a page as it was.
		r = region{p.Reserve(n+pageSize) + addr%pageSize, n}
		r.at = (r.at-addr%pageSize+pageSize-1)/pageSize*pageSize + addr%pageSize
		p.objects.regions[k] = r
	}
	return plan.Operand{Slot: plan.SlotScratch, Addend: r.at}
}

// hostRange is memory that stands for memory of the program's that the device is to reach: at its recorded address, unless PlaceMove moves it.
func (p *callCompiler) hostRange(addr, n uint64) plan.Operand {
	proc := p.threads[p.at.thread].process
	from, to := addr&^(pageSize-1), (addr+n+pageSize-1)&^(pageSize-1)
	k := memoryKey{p.owner(), from}
	i, ok := p.objects.hostMaps[k]
	if !ok {
		for j := range p.found.maps { // it may lie in a range that was registered before
			if m := &p.found.maps[j]; m.Process == uint32(proc) && m.recorded <= from && to <= m.recorded+m.Size {
				i, ok = j, true
			}
		}
	}
	if !ok {
		i = len(p.found.maps)
		p.objects.hostMaps[k] = i
		s := p.slot(fmt.Sprintf("host memory at %#x", from), nil)
		p.found.maps = append(p.found.maps, hostMap{plan.Map{Size: to - from, Slot: s, Process: uint32(proc)}, from})
		if p.o.Place != PlaceMove {
			p.found.maps[i].At = from
		}
	}
	m := &p.found.maps[i]
	m.Size = max(m.Size, to-m.recorded)
	return plan.Operand{Slot: m.Slot, Addend: addr - m.recorded}
}

const pageSize = 4096

// placeSize is the size of memory that the program provides for an object, which no parameter tells.
const placeSize = 64 << 10

// param is the operands for the words of a parameter; what the call needs besides goes before or after it.
func (p *callCompiler) param(i int) ([]plan.Operand, error) {
	q := &p.f.Params[i]
	w := p.c.Args[q.Word]
	one := func(o plan.Operand, err error) ([]plan.Operand, error) { return append(p.param_[:0], o), err }
	if q.OmitOnReplay {
		return make([]plan.Operand, q.Words), nil
	}
	switch q.Role {
	case api.Value:
		ops := p.param_[:0]
		for k := range int(q.Words) {
			ops = append(ops, imm(p.c.Args[int(q.Word)+k]))
		}
		if t, ok := p.reporter(q, w); ok {
			ops[0] = plan.Operand{Slot: p.identity(t)}
		}
		if p.f.Shares == api.Import && q.Words > 1 {
			// A key by value: the words that the other process got.
			if first, ok := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; ok {
				for k := range ops {
					ops[k] = plan.Operand{Slot: uint32(first.Addend/8) + uint32(k)}
				}
			}
		}
		return ops, nil
	case api.Use, api.Launch, api.End:
		return one(p.handle(i, w))
	case api.Place:
		op := p.region(w, placeSize)
		if u, ok := p.e.Use(i); ok {
			p.bind(u.Object, op)
		}
		return one(op, nil)
	case api.Opaque:
		if callback := slices.ContainsFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Callback }); callback {
			return one(imm(0), nil) // for the program's function alone
		}
		if q.Cookie && w != 0 {
			return one(p.region(w, 8), nil)
		}
		if w != 0 && p.ok {
			p.cant = fmt.Sprintf("its parameter %s points to what only the program knows", q.Name)
		}
		return one(imm(w), nil)
	case api.Struct:
		return p.structure(i, q)
	}
	if w == 0 {
		return one(imm(0), nil)
	}
	switch q.Role {
	case api.Callback:
		return one(p.callback(q), nil)
	case api.Map:
		return one(p.mapping(i, q, w), nil)
	case api.Uses:
		return one(p.handles(i, q))
	case api.Answer:
		return one(p.answer(i, q))
	case api.OutHandles:
		return one(p.handlesFound(i, q))
	case api.New, api.Find, api.Buffer, api.Out, api.InOut, api.Text:
		return one(p.output(i, q))
	case api.DevArgs:
		op := p.address(i, w)
		p.deviceArgs(i)
		return one(op, nil)
	case api.Address:
		return one(p.address(i, w), nil)
	case api.Reads, api.Writes, api.Fills:
		if q.ItemSizes >= 0 {
			return one(p.items(i, q))
		}
		return one(p.memory(i, q, 0, w, p.size(q)))
	case api.In, api.Args:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return one(p.input(i, q, 0, n))
	case api.Image:
		return one(p.image(i, q))
	case api.Packed:
		return one(p.packed(i, 1))
	case api.ArgArray:
		return one(p.array(i, 0))
	case api.List:
		return one(p.list(i, q))
	case api.String:
		return one(p.text(i))
	case api.File:
		return one(p.fileName(i))
	case api.Target:
		return one(p.newPath(i))
	case api.Scratch:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return one(p.region(w, n), nil)
	}
	p.cant = fmt.Sprintf("the planner does not know the role %s of its parameter %s", q.Role, q.Name)
	return one(imm(w), nil)
}

// size is the extent of a parameter's memory.
func (p *callCompiler) size(q *api.Param) rows {
	n, ok := q.Size.Bytes(p.f, p.c.Args)
	if !ok {
		n = 0
	}
	if q.Size.Pitch < 0 {
		return contiguous(n)
	}
	return rows{n, p.c.Args[p.f.Params[q.Size.Mul[0]].Word], p.c.Args[p.f.Params[q.Size.Pitch].Word]}
}

// rows is an extent of memory: len bytes in rows of width bytes, pitch bytes apart.
type rows struct{ len, width, pitch uint64 }

// span is the distance from the first byte to the end of the last.
func (s rows) span() uint64 {
	if s.width == 0 || s.len == 0 {
		return 0
	}
	return (s.len/s.width-1)*s.pitch + s.width
}

// constant reports whether a handle is none, or one that no call makes.
func (p *compiler) constant(kind api.Object, w uint64) bool {
	return w == 0 || kind == api.Stream && w <= p.model.Constants
}

func (p *callCompiler) handle(i int, w uint64) (plan.Operand, error) {
	if p.constant(p.f.Params[i].Object, w) {
		return imm(w), nil
	}
	u, ok := p.e.Use(i)
	switch {
	case ok && u.Object.Kind == api.Descriptor && p.ok:
		return p.descriptor(w), nil
	case ok:
		op := p.object(u.Object)
		if p.f.Params[i].Role == api.Launch {
			if err := p.fillBuffers(i, u.Object); err != nil {
				return op, err
			}
		}
		return op, nil
	}
	// An allocation that is not live: the program has given back what it did not have, or no longer.
	if op, ok := p.objects.former[objectKey{p.owner(), p.f.Params[i].Object, w}]; ok {
		return op, nil
	}
	if p.ok {
		p.cant = fmt.Sprintf("its parameter %s, %#x, is nothing that the trace shows being made", p.f.Params[i].Name, w)
	}
	return imm(w), nil
}

// owner is the process that makes the call.
func (p *callCompiler) owner() uint32 { return p.procs[p.threads[p.at.thread].process].process }

// fillBuffers stores what the program had put behind the placeholders of an argument list before its launch.
func (p *callCompiler) fillBuffers(i int, list *timeline.Object) error {
	buffers, filled := p.objects.buffers[list], map[uint64]bool{}
	for k := range p.pieces {
		d := &p.pieces[k]
		if int(d.Param) != i || d.Item == 0 {
			continue
		}
		n := slices.IndexFunc(buffers, func(b buffer) bool { return b.addr == d.Addr })
		if n < 0 {
			p.cant = fmt.Sprintf("the buffer %d behind its placeholders is none that the trace shows being handed out", d.Item)
			return nil
		}
		filled[d.Addr] = true
		if d.Status != format.Whole {
			p.substitute(i, d.Len, d)
			p.store(plan.Operand{Slot: buffers[n].slot}, p.zero(d.Len), nil, contiguous(d.Len))
			continue
		}
		from, relocs, err := p.content(d, true)
		if err != nil {
			return err
		}
		p.store(plan.Operand{Slot: buffers[n].slot}, from, relocs, contiguous(d.Len))
	}
	for _, b := range buffers {
		if !filled[b.addr] {
			p.substitute(i, b.size, nil)
			p.store(plan.Operand{Slot: b.slot}, p.zero(b.size), nil, contiguous(b.size))
		}
	}
	return nil
}

type pieceKey struct {
	param int
	item  uint32
	dir   format.Dir
}

// find returns the data of a parameter.
func (p *callCompiler) find(param int, item uint32, dir format.Dir) *format.Data {
	if len(p.pieces) > 32 && p.index == nil {
		// A batch has thousands.
		p.index = make(map[pieceKey]*format.Data, len(p.pieces))
		for k := range slices.Backward(p.pieces) {
			d := &p.pieces[k]
			p.index[pieceKey{int(d.Param), d.Item, d.Dir}] = d
		}
	}
	if p.index != nil {
		return p.index[pieceKey{param, item, dir}]
	}
	for k := range p.pieces {
		if d := &p.pieces[k]; int(d.Param) == param && d.Item == item && d.Dir == dir {
			return d
		}
	}
	return nil
}

func (p *callCompiler) stored(param int) (uint64, bool) {
	for _, o := range p.c.Outs {
		if int(o.Param) == param {
			return o.Value, true
		}
	}
	return 0, false
}

// output is the operand for a pointer to where the call stores something.
func (p *callCompiler) output(i int, q *api.Param) (plan.Operand, error) {
	v, has := p.stored(i)
	switch q.Role {
	case api.New, api.Find:
		u, ok := p.e.Use(i)
		if !ok {
			break
		}
		if known, ok := p.objects.operands[u.Object]; ok {
			op := p.temporary(8)
			at, err := p.Put(make([]byte, 8))
			if err != nil {
				return op, err
			}
			p.check(i, op, at, []plan.Reloc{{At: at, Addend: known.Addend, Slot: known.Slot}}, contiguous(8), plan.CheckOutput)
			return op, nil
		}
		s := p.newSlot(u.Object)
		switch q.Object {
		case api.Descriptor:
			p.sharing.exportedFDs[p.c.Index] = u.Object
		case api.SharedMemory:
			p.sharing.keys[fmt.Sprint(v)] = plan.Operand{Slot: s}
		}
		if placeable(q.Object) {
			p.found.deviceBlocks = append(p.found.deviceBlocks, deviceBlock{s, u.Object, p.c.End})
		}
		return plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(s)}, nil
	case api.Buffer:
		if !has {
			break
		}
		s := p.slot(fmt.Sprintf("buffer %#x", v), nil)
		if u, ok := p.e.Use(0); ok {
			bs := slices.DeleteFunc(p.objects.buffers[u.Object], func(b buffer) bool { return b.addr == v })
			n, _ := q.Size.Bytes(p.f, p.c.Args)
			p.objects.buffers[u.Object] = append(bs, buffer{v, n, s})
		}
		return plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(s)}, nil
	case api.Out, api.InOut:
		op := p.temporary(uint64(q.Elem))
		in, d := p.find(i, 0, format.DirIn), p.find(i, 0, format.DirOut)
		var from plan.Operand
		var relocs []plan.Reloc
		var err error
		before := q.Role == api.InOut && in != nil && in.Status == format.Whole
		if before {
			if from, relocs, err = p.content(in, q.Addresses); err != nil {
				return op, err
			}
		}
		token := q.Token != 0 && p.ok && d != nil && d.Status == format.Whole
		if token {
			b, err := p.bytes(d)
			if err != nil {
				return op, err
			}
			op = p.makeTokens(q, b, before)
		}
		if before {
			p.store(op, from, relocs, contiguous(min(in.Len, uint64(q.Elem))))
		}
		if p.f.Shares == api.Export && d != nil && d.Status == format.Whole {
			b, err := p.bytes(d)
			if err != nil {
				return op, err
			}
			op = plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(len(p.slots))}
			for k := range (len(b) + 7) / 8 {
				p.slot(fmt.Sprintf("key of call %d, word %d", p.c.Index, k), nil)
			}
			p.sharing.keys[string(b)] = op
		}
		switch {
		case !has && d == nil:
		case !p.ok && !p.argumentsKnown():
			p.unverified(verify.Data, "it stores "+q.Name+" although it fails, and the trace lacks some of its arguments")
		case q.Volatile: // as tokens are
			p.found.volatile++
		case has:
			at, err := p.Put(binary.LittleEndian.AppendUint64(nil, v)[:min(q.Elem, 8)])
			if err != nil {
				return op, err
			}
			p.check(i, op, at, nil, contiguous(min(uint64(q.Elem), 8)), outputOf(q))
			if q.RangeQuery && p.pointers.mapped {
				// What the player maps is as large as the program has asked for, or larger.
				for _, u := range p.e.Uses {
					if p.f.Params[u.Param].Role == api.Address {
						in := &p.after[len(p.after)-1]
						in.Want, in.At = plan.CheckExtent, u.Object.Size
					}
				}
			}
		default:
			return op, p.checkData(i, op, d)
		}
		return op, nil
	case api.Text:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		op := p.temporary(n)
		d := p.find(i, 0, format.DirOut)
		if d != nil && d.Status == format.Whole && p.f.Shares == api.Export {
			b, err := p.bytes(d)
			if err != nil {
				return op, err
			}
			op = p.Plan.Share(n)
			p.sharing.keys[string(b)] = op
		}
		switch {
		case d == nil:
		case q.Volatile:
			p.found.volatile++
		case d.Len < n:
			// The end of the string belongs to it.
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
	return p.temporary(uint64(max(q.Elem, 8))), nil
}

// argumentsKnown reports whether the trace has all memory that the call at hand read as its arguments. Large arguments of failed calls are not recorded.
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
		if d := p.find(i, 0, format.DirIn); n > 0 && (d == nil || d.Status != format.Whole) {
			return false
		}
	}
	return true
}

func contiguous(n uint64) rows { return rows{n, n, n} }

func (p *callCompiler) checkData(i int, op plan.Operand, d *format.Data) error {
	if d.Status != format.Whole {
		return nil
	}
	from, _, err := p.content(d, false)
	p.check(i, op, from.Addend, nil, contiguous(d.Len), outputOf(&p.f.Params[i]))
	return err
}

// address is the operand for an address that may lie in an allocation: the recorded one plays no part where it does.
func (p *callCompiler) address(i int, w uint64) plan.Operand {
	op, in, _, own := p.locate(i, 0, w)
	switch {
	case own && p.f.Params[i].Role == api.Address:
		return p.region(w, placeSize) // of the program's own memory; the call does not look behind it
	case in == nil:
		p.nowhere(i, w)
	}
	p.touch(in, 0, 0, touchNames)
	return op
}

// deviceArgs looks at the arguments that a launch finds in device memory, where they are known: they are addresses again if the copies that
// have brought them there have made them so. An allocation that was made since lies elsewhere in the replay: its address is put in place
// behind what the stream has to do before the launch.
func (p *callCompiler) deviceArgs(i int) {
	b, known, _ := p.state.DevArgs(p.e)
	if !known || !p.ok {
		return
	}
	q := &p.f.Params[i]
	for k := 0; k+8 <= len(b); k += 8 {
		w := binary.LittleEndian.Uint64(b[k:])
		o, in, ok := p.state.Find(p.owner(), w)
		if !ok || o.Kind.OnHost() {
			continue
		}
		p.touch(o, 0, 0, touchNames)
		to, made := p.objects.operands[o]
		to.Addend += in
		switch {
		case !made || p.pointers.copied[w] == to:
		case p.upload(i, uint64(k), to):
			p.relocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Offset: uint64(k), Allocation: o.Created, At: in, Evidence: ByRange}, w)
		default:
			p.doubt(verify.Pointer, fmt.Sprintf("its arguments in %s were copied when %#x, at byte %d, was no address of %s %d: they are right only where allocations lie at the same addresses", q.Name, w, k, o.Kind, o.ID))
		}
	}
}

// upload has an address copied into the memory that a parameter of the call at hand names, on the stream of the call, before it. Into a
// graph nothing is put.
func (p *callCompiler) upload(i int, off uint64, addr plan.Operand) bool {
	f, words := p.model.Upload(8)
	if f == nil || p.f.Stream < 0 || p.e.Captured != nil {
		return false
	}
	at, err := p.Put(make([]byte, 8))
	if err != nil {
		return false // the file will say so again
	}
	to := p.address(i, p.c.Args[p.f.Params[i].Word])
	to.Addend += off
	ops := make([]plan.Operand, f.Words)
	for k := range ops {
		ops[k] = imm(words[k])
	}
	for k := range f.Params {
		switch q := &f.Params[k]; {
		case q.Role == api.Writes:
			ops[q.Word] = to
		case q.Role == api.Reads:
			ops[q.Word] = plan.Operand{Slot: plan.SlotData, Addend: at}
		case k == int(f.Stream):
			if u, ok := p.e.Use(int(p.f.Stream)); ok {
				ops[q.Word] = p.object(u.Object)
			}
		}
	}
	in := plan.Instruction{Op: plan.OpCall, Flags: plan.InstAside, Fn: p.Function(f), Words: f.Words, Call: p.c.Index, Bits: 32, Operands: p.Operands(ops...)}
	in.Relocs, in.NRelocs = p.addRelocs([]plan.Reloc{{At: at, Addend: addr.Addend, Slot: addr.Slot}})
	p.before = append(p.before, in)
	return true
}

// nowhere notes a device address that a call has used with success and that the trace does not explain.
func (p *callCompiler) nowhere(i int, w uint64) {
	if p.ok {
		p.cant = fmt.Sprintf("its parameter %s, %#x, lies in no allocation that the trace shows", p.f.Params[i].Name, w)
	}
}

// resolve is the operand for an address of the device that is in no allocation.
func (p *callCompiler) resolve(w uint64) plan.Operand {
	if o, off, ok := p.state.FindEnd(p.owner(), w); ok {
		op := p.object(o)
		op.Addend += off
		return op
	}
	return imm(w)
}

// locate is the operand for memory of a parameter, and the allocation that it lies in: nil for memory of the program's own
// and for device memory that nobody has allocated.
func (p *callCompiler) locate(i int, item uint32, w uint64) (op plan.Operand, in *timeline.Object, off uint64, own bool) {
	if item == 0 {
		if u, ok := p.e.Use(i); ok {
			op = p.object(u.Object)
			op.Addend += u.Offset
			return op, u.Object, u.Offset, false
		}
	}
	if o, off, ok := p.state.Find(p.owner(), w); ok {
		op = p.object(o)
		op.Addend += off
		return op, o, off, false
	}
	if o, off, ok := p.state.Reserved(p.owner(), w); ok {
		op = p.object(o)
		op.Addend += off
		return op, o, off, false
	}
	if p.onDevice(w) && !p.f.SaysHost(i, p.c.Args) {
		return p.resolve(w), nil, 0, false
	}
	return imm(w), nil, 0, true
}

// onDevice reports whether an address is one of device memory, allocated or not.
func (p *compiler) onDevice(w uint64) bool {
	d := p.model.Device
	return w >= d.From && w < d.To || w >= p.pointers.window.From && w < p.pointers.window.To
}

// memory is the operand for memory that a copy or a fill reads or writes.
func (p *callCompiler) memory(i int, q *api.Param, item uint32, w uint64, s rows) (plan.Operand, error) {
	op, in, off, own := p.locate(i, item, w)
	if how := touchWrites; s.len > 0 {
		if q.Role == api.Reads {
			how = touchReads
		}
		p.touchRange(in, w, off, s.span(), how)
	}
	in, off = aliased(in, off)
	if q.Object == api.Device && in != nil {
		return op, nil // whatever made it
	}
	if !own && (in == nil || in.Kind == api.Device || in.Kind == api.Owned && p.onDevice(w)) {
		if in == nil && s.len > 0 {
			p.nowhere(i, w)
		}
		return op, nil
	}
	switch q.Role {
	case api.Fills:
		if own {
			op = p.temporary(s.span())
		}
		return op, nil
	case api.Reads:
		return p.source(i, item, op, in, off, own, s)
	}
	return p.destination(i, item, op, in, off, own, s)
}

// source is host memory that a copy reads: what the program had there is put there again.
func (p *callCompiler) source(i int, item uint32, op plan.Operand, in *timeline.Object, off uint64, own bool, s rows) (plan.Operand, error) {
	d := p.find(i, item, format.DirIn)
	if p.e.Captured != nil && p.ok && s.len > 0 {
		addr := p.c.Args[p.f.Params[i].Word]
		if item > 0 {
			addr = p.arrays[i][item-1]
		}
		if own {
			op, own = p.region(addr, s.span()), false // each run of the graph reads it
			in, off = p.hostAt(addr)
		}
		p.captureSource(graphSource{op: op, addr: addr, size: s})
	}
	if d == nil || d.Status != format.Whole || d.Len != s.len {
		if s.len == 0 || !p.ok {
			if own {
				return p.temporary(s.span()), nil
			}
			return op, nil
		}
		p.substitute(i, s.len, d)
		if own {
			p.zerosIn(nil, op, 0)
			return p.zero(s.span()), nil
		}
		p.store(op, p.zero(s.len), nil, s)
		p.zerosIn(in, op, s.span())
		return op, nil
	}
	if !own && p.inFlight(in, off, off+s.span()) {
		return op, nil // what the program saw there is on its way again
	}
	from, relocs, err := p.content(d, p.f.Params[i].Addresses)
	if err != nil {
		return op, err
	}
	if own && s.width == s.pitch {
		p.relo = append(p.relo, relocs...)
		if p.f.Stream < 0 && p.e.Captured == nil && d.Blob == 0 {
			p.spoil(from, d.Len) // the data of a blob may be shared with other calls
		}
		return from, nil
	}
	if own {
		op = p.lasting(s.span())
	}
	p.store(op, from, relocs, s)
	if p.pointers.zeroed[in] {
		p.before = append(p.before, p.mark(op, s.span(), ""))
	}
	return op, nil
}

// lasting is scratch memory of the call's own: an asynchronous copy may use it after the call, as may a graph.
func (p *callCompiler) lasting(n uint64) plan.Operand {
	if p.f.Stream < 0 && p.e.Captured == nil {
		return p.temporary(n)
	}
	return plan.Operand{Slot: plan.SlotScratch, Addend: p.Reserve(n)}
}

// destination is host memory that a copy writes: what came there is compared once the program has waited for it.
func (p *callCompiler) destination(i int, item uint32, op plan.Operand, in *timeline.Object, off uint64, own bool, s rows) (plan.Operand, error) {
	d := p.find(i, item, format.DirOut)
	at := p.at
	async := p.f.Stream >= 0 && in != nil
	waited := true
	if async && d != nil {
		at, waited = p.waitedAt(d)
	}
	addr := p.c.Args[p.f.Params[i].Word]
	if item > 0 {
		addr = p.arrays[i][item-1]
	}
	switch {
	case !own:
	case p.e.Captured != nil && p.ok:
		op = p.region(addr, s.span()) // other copies of the graph may come to the same memory
	case at == p.at && d != nil:
		op = p.temporary(s.span())
	default:
		op = p.lasting(s.span())
	}
	if async && p.ok && p.e.Captured == nil {
		p.ordering.inFlight[in] = append(p.ordering.inFlight[in], inFlightCopy{off: off, end: off + s.span(), until: comes(d), shift: plan.Operand{Slot: op.Slot, Addend: op.Addend - addr}, sure: true})
	}
	if !p.ok || s.len == 0 || !p.o.compares() {
		return op, nil
	}
	if o, _ := p.origin(item); p.sharing.tainted[o] && p.o.StubComm {
		p.unverified(verify.Peer, "the result may come from a peer that is not in the trace")
		return op, nil
	}
	if p.e.Captured != nil {
		recorded := int64(noTime)
		if d != nil && d.Status == format.Whole {
			recorded = d.Time
		}
		p.capture(graphCopy{to: op, addr: addr, size: s, at: at, recorded: recorded})
	}
	switch {
	case p.e.Captured != nil && (d == nil || d.Status != format.Whole):
		return op, nil // runs of the graph may have brought more
	case d == nil:
		why := "the program did not wait for it, or the recording had ended"
		if p.r.Meta().CapturedBy == "ebpf" {
			why = "eBPF does not see what a copy brings later"
		}
		p.unverified(verify.NotRecorded, "the result was never recorded: "+why)
		return op, nil
	case d.Status == format.HashOnly:
		p.unverified(verify.NotRecorded, "only the hash of the result was kept")
		return op, nil
	case d.Status != format.Whole:
		p.unverified(verify.NotRecorded, "the result is not in the trace: "+d.Reason.String())
		return op, nil
	case !waited:
		p.unverified(verify.NotRecorded, nobodyWaits)
		return op, nil
	}
	if d.Len != s.len {
		in, err := p.lengthCheck(i, item, s.len, d.Len)
		p.compareAt(at, []plan.Instruction{in})
		return op, err
	}
	from, relocs, err := p.content(d, true)
	if err != nil {
		return op, err
	}
	origin, _ := p.origin(item)
	level := p.level(origin)
	var checks []plan.Instruction
	for k, part := range p.parts(item, s) {
		piece := s
		if k > 0 || part.hi < s.len {
			piece = contiguous(part.hi - part.lo)
		}
		to := op
		to.Addend += part.lo
		in := p.checkInstruction(i, to, from.Addend+part.lo, relocs, piece, plan.CheckResult)
		in.At, in.Flags, in.RetSlot = part.lo, 0, item
		p.afterGap(&in, d.Time)
		if part.unset && in.Bits == 0 {
			in.Bits = verify.Uninitialised.Code()
		}
		level.mark(&in)
		checks = append(checks, in)
		relocs = nil // the first has seen to all of them
	}
	p.compareAt(at, checks)
	if async && at != p.at {
		p.arrives(d, at, s)
	}
	return op, nil
}

// compareAt has results of the call at hand compared behind a call.
func (p *callCompiler) compareAt(at place, checks []plan.Instruction) {
	if at == p.at {
		p.after = append(p.after, checks...)
		return
	}
	g := p.threads[at.thread].group(at.group)
	if at.thread != p.at.thread {
		g.lateWaits = append(g.lateWaits, p.waitFor(p.at))
	}
	g.late = append(g.late, checks...)
}

// waitedAt is the call behind which a result is there, false where that is one that the trace does not have: the program had gone on from
// the copy before the result was seen.
func (p *callCompiler) waitedAt(d *format.Data) (place, bool) {
	if p.f.Stream < 0 {
		return p.at, true // it has waited itself
	}
	if p.err = p.ahead(d.Time); p.err != nil {
		return p.at, false
	}
	at := p.synchronized(d.Time)
	next := p.threads[p.at.thread].group(p.at.group + 1)
	return at, at != p.at || next == nil || next.start > d.Time
}

const nobodyWaits = "nothing in the trace waits for the result"

func (p *callCompiler) unverified(code verify.Reason, reason string) {
	p.found.unverified = unverified(p.found.unverified, p.c.Index, code, reason)
}

// synchronized is the call that was over when a result was captured: the one that the program waited with.
func (p *callCompiler) synchronized(captured int64) place {
	best, end := p.at, int64(-1)
	// One that waited for the copy, if there is one; else one that did so and had begun while the copy's call had not returned. Others may
	// have ended later by chance.
	for _, from := range []int64{p.c.End, p.c.Start} {
		for t := range p.threads {
			pr := &p.threads[t]
			for i := pr.syncs.before(pr, captured) - 1; i >= 0; i-- {
				k := pr.syncs[i]
				g := pr.group(k)
				if g.start < from {
					break
				}
				if t == p.at.thread && k <= p.at.group || g.end > captured || g.end <= end || !p.waitsFor(g) {
					continue
				}
				best, end = place{t, k}, g.end
			}
		}
		if end < 0 {
			continue
		}
		if g := p.threads[best.thread].group(best.group); g.start < p.c.End && best.thread != p.at.thread {
			p.addWait(best, p.at) // it has waited for what had begun by then
		}
		return best
	}
	for t := range p.threads {
		k := p.threads[t].startedBefore(captured) - 1
		g := p.threads[t].group(k)
		if g == nil || g.fn == nil || g.fn.Sync == api.NoSync || g.unready || g.end > captured || g.end <= max(end, p.c.Start) {
			continue
		}
		if t == p.at.thread && k < p.at.group {
			continue
		}
		best, end = place{t, k}, g.end
	}
	return best
}

// waitsFor reports whether a call behind the copy at hand has waited for it: for the device, for the copy's stream, or for an event behind
// the copy there.
func (p *callCompiler) waitsFor(g *group) bool {
	stream := p.model.StreamOf(p.f, p.c.Args[p.f.Params[p.f.Stream].Word], p.c.Thread)
	switch g.fn.Sync {
	case api.SyncDevice:
		return true
	case api.SyncStream, api.PollStream:
		return g.names == stream && !g.unready
	case api.SyncEvent, api.PollEvent:
		on, ok := p.recordedOn(g)
		return !g.unready && ok && on == stream
	}
	return false
}

// recordedOn is the stream that the event of a wait was recorded on last, if that was behind the copy at hand.
func (p *callCompiler) recordedOn(w *group) (stream uint64, ok bool) {
	last := int64(-1)
	for t := range p.threads {
		pr := &p.threads[t]
		for i := pr.records.before(pr, w.start) - 1; i >= 0; i-- {
			k := pr.records[i]
			g := pr.group(k)
			if g.start < p.c.Start || g.start <= last {
				break
			}
			if g.event == w.event && (t != p.at.thread || k > p.at.group) {
				stream, last, ok = g.names, g.start, true
			}
		}
	}
	return stream, ok
}

// comes is when the program had waited for a result.
func comes(d *format.Data) int64 {
	if d == nil || d.Status == format.Missing && (d.Reason == format.NeverSynchronized || d.Reason == format.TooManyPending) {
		return 1<<63 - 1
	}
	return d.Time
}

// aliased returns the allocation that memory is a part of, and the place in it, for the memory of a registration.
func aliased(o *timeline.Object, off uint64) (*timeline.Object, uint64) {
	if o != nil && o.Kind == api.Registered && o.Parent != nil {
		return o.Parent, off + o.Handle - o.Parent.Handle
	}
	return o, off
}

// hostAt is the memory of the host's that an address lies in, and where: what no call has allocated is one piece of memory for each process.
func (p *callCompiler) hostAt(addr uint64) (*timeline.Object, uint64) {
	if o, off, ok := p.state.Find(p.owner(), addr); ok {
		return aliased(o, off)
	}
	o := p.objects.ownMemory[p.owner()]
	if o == nil {
		o = &timeline.Object{}
		p.objects.ownMemory[p.owner()] = o
	}
	return o, addr
}

// flights are the copies to memory of the host's that may be on their way.
func (p *callCompiler) flights(o *timeline.Object) []inFlightCopy {
	fs := slices.DeleteFunc(p.ordering.inFlight[o], func(f inFlightCopy) bool { return f.until <= p.c.Start })
	p.ordering.inFlight[o] = fs
	return fs
}

// inFlight reports whether a copy to some of the memory may be on its way.
func (p *callCompiler) inFlight(o *timeline.Object, from, to uint64) bool {
	return slices.ContainsFunc(p.flights(o), func(f inFlightCopy) bool { return f.off < to && from < f.end })
}

// zero is memory of zeros that stands for data that the trace lacks.
func (p *compiler) zero(n uint64) plan.Operand {
	p.pointers.zeros = max(p.pointers.zeros, n)
	return plan.Operand{Slot: plan.SlotZeros}
}

func (p *callCompiler) substitute(i int, n uint64, d *format.Data) {
	reason := "not recorded"
	switch {
	case d == nil:
	case d.Status == format.HashOnly:
		reason = "only its hash was kept"
	case d.Status == format.Missing:
		reason = d.Reason.String()
	default:
		reason = fmt.Sprintf("recorded with %d bytes", d.Len)
	}
	p.pointers.payloadMissing = true
	p.found.substituted = append(p.found.substituted, Substituted{Call: p.c.Index, Func: p.f.Name, Param: p.f.Params[i].Name, Bytes: n, Reason: reason})
}

func (p *callCompiler) store(to, from plan.Operand, relocs []plan.Reloc, s rows) {
	if s.len == 0 {
		return
	}
	in := plan.Instruction{Op: plan.OpStore, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(to, from, imm(s.pitch)), Len: s.len, Width: s.width}
	in.Relocs, in.NRelocs = p.addRelocs(relocs)
	p.before = append(p.before, in)
}

// lengthCheck is a check that always fails: the copy at hand has n bytes, but its recorded result has another length. Bytes that both have
// in common prove nothing, so they are not compared.
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

func (p *callCompiler) checkInstruction(i int, op plan.Operand, at uint64, relocs []plan.Reloc, s rows, kind uint64) plan.Instruction {
	in := plan.Instruction{
		Op: plan.OpCheck, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(op, plan.Operand{Slot: plan.SlotData, Addend: at}, imm(s.pitch)),
		Len: s.len, Width: s.width, Want: kind, Words: uint8(i),
	}
	in.Relocs, in.NRelocs = p.addRelocs(relocs)
	return in
}

func (p *callCompiler) check(i int, op plan.Operand, at uint64, relocs []plan.Reloc, s rows, kind uint64) {
	p.after = append(p.after, p.checkInstruction(i, op, at, relocs, s, kind))
}

func (p *compiler) addRelocs(rs []plan.Reloc) (first, n uint32) {
	return p.Relocs(rs...), uint32(len(rs))
}

// input is host memory that the call reads before it returns, or may keep.
func (p *callCompiler) input(i int, q *api.Param, item uint32, n uint64) (plan.Operand, error) {
	d := p.find(i, item, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if !p.ok || n == 0 {
			return p.temporary(n), nil
		}
		p.substitute(i, n, d)
		return p.zero(n), nil
	}
	if q.Token != 0 && p.ok {
		return p.tokensIn(q, d)
	}
	if p.f.Shares == api.Import && q.Role == api.In {
		if first, ok := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; ok {
			return first, nil // where the other process has got it
		}
	}
	from, relocs, err := p.content(d, q.Addresses)
	p.relo = append(p.relo, relocs...)
	if p.takes() || q.Addresses {
		p.spoil(from, d.Len)
	}
	if err == nil && q.Role == api.In && q.Object == api.Process {
		err = p.processes(d, from)
	}
	return from, err
}

// takes reports whether the call at hand puts a task on a stream. Such a call must have read its arguments when it returns, since programs use
// their memory for the next call while the task waits for its turn. Other functions may keep pointers, as those that load binaries do.
func (p *callCompiler) takes() bool { return p.f.Task != api.NoTask }

// spoilLimit is how much of an argument the player overwrites at most.
const spoilLimit = 4 << 10

// spoil has the player overwrite an argument of the call at hand once the call has returned, as the program does when it prepares the next call.
// A runtime that reads the argument later gives another result.
func (p *callCompiler) spoil(at plan.Operand, n uint64) {
	if at.Slot != plan.SlotData || n == 0 {
		return
	}
	last := len(p.spoils) - 1
	if last >= 0 && at.Addend-p.spoils[last].to < plan.DataAlign && at.Addend+n-p.spoils[last].from <= spoilLimit {
		p.spoils[last].to = at.Addend + n // nothing but padding lies between them
		return
	}
	p.spoils = append(p.spoils, stretch{at.Addend, at.Addend + min(n, spoilLimit)})
}

// stretch is a piece of the plan's data.
type stretch struct{ from, to uint64 }

// addSpoils adds the spoils of a call after its relocations.
func (p *callCompiler) addSpoils(in *plan.Instruction) {
	for i, s := range p.spoils {
		r := plan.Reloc{At: s.from, Addend: s.to - s.from, Size: 8}
		if i+1 < len(p.spoils) {
			r.Slot = 1
		}
		p.Relocs(r)
		in.Flags |= plan.InstSpoil
	}
}

// image is a binary that tells its own size.
func (p *callCompiler) image(i int, q *api.Param) (plan.Operand, error) {
	d := p.find(i, 0, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if p.ok {
			p.cant = "its binary is not in the trace"
		}
		return imm(0), nil
	}
	from, _, err := p.content(d, false)
	return from, err
}

// packed is a list that leads to a block with the arguments of a kernel: pairs of what it is and where, which a 0 ends.
func (p *callCompiler) packed(i int, item uint32) (plan.Operand, error) {
	d := p.find(i, item, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if p.ok {
			p.cant = "its arguments were not recorded"
		}
		return imm(0), nil
	}
	block, err := p.arguments(i, item, d.Len)
	if err != nil {
		return block, err
	}
	size, err := p.Put(binary.LittleEndian.AppendUint64(nil, d.Len))
	if err != nil {
		return block, err
	}
	const pointer, bytes = 1, 2
	list := make([]byte, 5*8)
	list[0], list[16] = pointer, bytes
	return p.table(list, []plan.Reloc{{At: 8, Addend: block.Addend, Slot: block.Slot}, {At: 24, Addend: size, Slot: plan.SlotData}})
}

// arguments are those of a kernel, whose words may be addresses.
func (p *callCompiler) arguments(i int, item uint32, n uint64) (plan.Operand, error) {
	q := p.f.Params[i]
	q.Addresses = true
	from, err := p.input(i, &q, item, n)
	if d := p.find(i, item, format.DirIn); err == nil && d != nil && d.Status == format.Whole {
		err = p.numbers(i, d, from)
	}
	return from, err
}

// array is an array of pointers to the arguments of a kernel, which are the items behind one.
func (p *callCompiler) array(i int, base uint32) (plan.Operand, error) {
	var words []byte
	var relocs []plan.Reloc
	for k := range p.pieces {
		d := &p.pieces[k]
		if int(d.Param) != i || d.Item <= base || d.Dir != format.DirIn {
			continue
		}
		from, err := p.arguments(i, d.Item, d.Len)
		if err != nil {
			return from, err
		}
		k := d.Item - base
		words = grown(words, 8*int(k))
		relocs = append(relocs, plan.Reloc{At: 8 * uint64(k-1), Addend: from.Addend, Slot: from.Slot})
	}
	if len(relocs) == 0 && p.ok {
		p.cant = "its arguments were not recorded: the runtime did not tell their sizes"
	}
	return p.table(words, relocs)
}

func grown(b []byte, n int) []byte {
	if n > len(b) {
		b = append(b, make([]byte, n-len(b))...)
	}
	return b
}

// table puts data with relocations that count from its beginning.
func (p *callCompiler) table(b []byte, relocs []plan.Reloc) (plan.Operand, error) {
	at, err := p.Put(b)
	for _, r := range relocs {
		r.At += at
		p.relo = append(p.relo, r)
	}
	op := plan.Operand{Slot: plan.SlotData, Addend: at}
	if p.takes() {
		p.spoil(op, uint64(len(b)))
	}
	return op, err
}

// list is a structure {pointer, number of elements}.
func (p *callCompiler) list(i int, q *api.Param) (plan.Operand, error) {
	b := make([]byte, 16)
	var relocs []plan.Reloc
	if d := p.find(i, 0, format.DirIn); d != nil && d.Status == format.Whole {
		from, _, err := p.content(d, false)
		if err != nil {
			return from, err
		}
		binary.LittleEndian.PutUint64(b[8:], d.Len/uint64(q.Elem))
		relocs = append(relocs, plan.Reloc{Addend: from.Addend, Slot: from.Slot})
		if p.takes() {
			p.spoil(from, d.Len)
		}
	}
	return p.table(b, relocs)
}

// text is a string that the call reads.
func (p *callCompiler) text(i int) (plan.Operand, error) {
	d := p.find(i, 0, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if p.ok {
			p.substitute(i, 0, d)
		}
		return p.zero(1), nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return plan.Operand{}, err
	}
	if op, ok := p.sharing.keys[string(b)]; ok {
		return op, nil
	}
	at, err := p.Put(append(slices.Clip(b), 0))
	return plan.Operand{Slot: plan.SlotData, Addend: at}, err
}

// items is an array of pointers to memory that a batch of copies reads or writes.
func (p *callCompiler) items(i int, q *api.Param) (plan.Operand, error) {
	n := p.c.Args[p.f.Params[q.ItemCount].Word]
	addrs, err := p.array64(i, n)
	if err != nil || addrs == nil {
		return p.temporary(8 * min(n, 1<<20)), err
	}
	sizes, err := p.array64(int(q.ItemSizes), n)
	if err != nil || sizes == nil {
		return p.temporary(8 * min(n, 1<<20)), err
	}
	var relocs []plan.Reloc
	for k, w := range addrs {
		if w == 0 {
			continue
		}
		op, err := p.memory(i, q, uint32(1+k), w, contiguous(sizes[k]))
		if err != nil {
			return op, err
		}
		relocs = append(relocs, plan.Reloc{At: 8 * uint64(k), Addend: op.Addend, Slot: op.Slot})
	}
	return p.table(make([]byte, 8*n), relocs)
}

// array64 is the n words of an array that the call was given; nil where they are not in the trace.
func (p *callCompiler) array64(i int, n uint64) ([]uint64, error) {
	if ws := p.arrays[i]; ws != nil && uint64(len(ws)) == n {
		return ws, nil
	}
	d := p.find(i, 0, format.DirIn)
	if d == nil || d.Status != format.Whole || d.Len != 8*n {
		if p.ok && n > 0 {
			p.cant = fmt.Sprintf("its array %s was not recorded", p.f.Params[i].Name)
		}
		return nil, nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return nil, err
	}
	ws := make([]uint64, n)
	for k := range ws {
		ws[k] = binary.LittleEndian.Uint64(b[8*k:])
	}
	if p.arrays == nil {
		p.arrays = map[int][]uint64{}
	}
	p.arrays[i] = ws
	return ws, nil
}
