package compile

import (
	"fmt"
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// size returns the extent for a parameter's memory.
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

// address returns the operand for an address that may lie in an allocation.
func (p *callCompiler) address(i int, w uint64) plan.Operand {
	op, in, _, own := p.locate(i, 0, w)
	switch {
	case own && p.f.Params[i].Role == api.Address:
		return p.region(w, placeSize) // program memory that the call does not access
	case in == nil:
		p.nowhere(i, w)
	}
	return op
}

// deviceArgs checks the arguments of a launch in device memory, if their content is known. They are correct if the copies that wrote them
// had their addresses relocated. If an allocation was made after the copy, its address is uploaded before the launch, on the launch's
// stream.
func (p *callCompiler) deviceArgs(i int) {
	q := &p.f.Params[i]
	pointers := p.a.Pointers()
	for k := range pointers {
		w := &pointers[k]
		o := w.Object
		to, made := p.objects.operands.Get(o)
		switch to = to.Plus(w.Offset); {
		case !made || p.pointers.copied[w.Addr] == to:
		case p.upload(i, w.At, to):
			p.relocated(q, 0, w.At, w.Addr, Target{o.Created, w.Offset}, w.Evidence.String())
		default:
			p.doubt(verify.Pointer, fmt.Sprintf("its arguments in %s were copied before %#x, at byte %d, was an address in %s %d: they are correct only at the recorded addresses", q.Name, w.Addr, w.At, o.Kind, o.ID))
		}
	}
}

// upload copies an address into the memory of a parameter, before the current call and on its stream. It returns false if that is
// impossible, as in a capture.
func (p *callCompiler) upload(i int, off uint64, addr plan.Operand) bool {
	f, words := p.Model.Upload(8)
	if f == nil || p.f.Stream < 0 || p.e.Captured != nil {
		return false
	}
	from, err := p.put(make([]byte, 8))
	if err != nil {
		return false // a later write reports the error again
	}
	to := p.address(i, p.c.Args[p.f.Params[i].Word]).Plus(off)
	ops := make([]plan.Operand, f.Words)
	for k := range ops {
		ops[k] = imm(words[k])
	}
	for k := range f.Params {
		switch q := &f.Params[k]; {
		case q.Role == api.Writes:
			ops[q.Word] = to
		case q.Role == api.Reads:
			ops[q.Word] = from
		case k == int(f.Stream):
			if u, ok := p.e.Use(int(p.f.Stream)); ok {
				ops[q.Word] = p.object(u.Object)
			}
		}
	}
	in := p.aside(f, ops...)
	in.Relocs = p.Relocs(addr.Reloc(from.Addend))
	p.before = append(p.before, in)
	return true
}

// source returns the operand for host memory that a copy reads, and stores the recorded content there.
func (p *callCompiler) source(i int, item uint32, addr uint64, op plan.Operand, in *timeline.Object, off uint64, own bool, s rows) (plan.Operand, error) {
	d := p.a.Find(i, item, format.DirIn)
	switch {
	case !p.ok || p.e.Captured != nil || s.len == 0:
	case p.afterHost() && !p.staged(d):
		p.doubtTask(verify.HostFunction.Code())
	case d != nil && d.Reason == format.TakenEarly:
		p.doubtTask(verify.Source.Code() | weak)
	}
	if p.e.Captured != nil && p.ok && s.len > 0 {
		if own {
			op, own = p.region(addr, s.span()), false // each graph run reads it
			in, off = p.hostAt(addr)
		}
		p.captureSource(graphSource{op: op, addr: addr, size: s})
	}
	if d == nil || d.Status != format.Whole || d.Len != s.len {
		if s.len == 0 || !p.ok {
			if p.ok && d != nil && d.Len > 0 {
				p.substitute(i, 0, d)
			}
			if own {
				return p.temporary(s.span()), nil
			}
			return op, nil
		}
		p.substitute(i, s.len, d)
		if own {
			p.zerosIn(false, op, 0)
			return p.zero(s.span()), nil
		}
		p.store(op, p.zero(s.len), nil, s)
		p.zerosIn(true, op, s.span())
		return op, nil
	}
	if !own && p.inFlight(in, off, off+s.span()) {
		return op, nil // an earlier copy writes the content again
	}
	from, relocs, err := p.content(d)
	if err != nil {
		return op, err
	}
	if own && s.width == s.pitch {
		p.relo = append(p.relo, relocs...)
		if p.f.Stream < 0 && p.e.Captured == nil && d.Blob == 0 {
			p.spoil(from, d.Len) // other calls may share blob data
		}
		return from, nil
	}
	if own {
		op = p.lasting(s.span())
	}
	p.restore(op, from, relocs, s)
	return op, nil
}

// lasting returns scratch memory that stays valid after the call if the call is asynchronous or captured.
func (p *callCompiler) lasting(n uint64) plan.Operand {
	if p.f.Stream < 0 && p.e.Captured == nil {
		return p.temporary(n)
	}
	return plan.Operand{Slot: plan.SlotScratch, Addend: p.Reserve(n)}
}

// destination returns the operand for host memory that a copy writes. The result is compared after the program has waited for it.
func (p *callCompiler) destination(i int, item uint32, addr uint64, op plan.Operand, in *timeline.Object, off uint64, own bool, s rows) (plan.Operand, error) {
	d := p.a.Find(i, item, format.DirOut)
	at := p.at
	async := p.f.Stream >= 0 && in != nil
	waited := true
	if async && d != nil {
		at, waited = p.waitedAt(d)
	}
	switch {
	case !own:
	case p.e.Captured != nil && p.ok:
		op = p.region(addr, s.span()) // other copies in the graph may write the same memory
	case at == p.at && d != nil:
		op = p.temporary(s.span())
	default:
		op = p.lasting(s.span())
	}
	origin, from := p.a.Origin(item)
	guessed := p.flow.Guessed(origin, from, from+s.span())
	if async && p.ok && p.e.Captured == nil {
		p.ordering.inFlight[in] = append(p.ordering.inFlight[in], inFlightCopy{off: off, end: off + s.span(), until: comes(d), shift: op.Plus(-addr), sure: true, guessed: guessed})
	}
	if !p.ok || !p.o.Compare || s.len == 0 && (d == nil || d.Len == 0 || p.e.Captured != nil) {
		return op, nil
	}
	if p.sharing.tainted[origin] && p.o.StubComm {
		p.unverified(verify.Peer, "the result may come from a peer that is not in the trace")
		return op, nil
	}
	if p.e.Captured != nil {
		recorded := int64(noTime)
		if d != nil && d.Status == format.Whole {
			recorded = d.Time
		}
		p.capture(graphCopy{to: op, addr: addr, size: s, recorded: recorded})
	}
	switch {
	case p.e.Captured != nil && (d == nil || d.Status != format.Whole):
		return op, nil // there may be further graph runs
	case d == nil:
		why := "the program did not wait for it, or the recording had ended"
		if p.r.Meta().CapturedBy == "ebpf" {
			why = "eBPF does not see the data that asynchronous copies write"
		}
		p.unverified(verify.NotRecorded, "the result was never recorded: "+why)
		return op, nil
	case d.Status == format.HashOnly:
		p.unverified(verify.NotRecorded, "only the result's hash was kept")
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
	want, relocs, err := p.expected(d)
	if err != nil {
		return op, err
	}
	level := p.level(origin)
	var checks []plan.Instruction
	for k, part := range p.parts(item, s) {
		piece := s
		if k > 0 || part.hi < s.len {
			piece = contiguous(part.hi - part.lo)
		}
		in := p.checkInstruction(i, op.Plus(part.lo), want.Addend+part.lo, overlapping(relocs, want.Addend+part.lo, want.Addend+part.hi), piece, plan.CheckResult)
		in.At, in.Flags, in.RetSlot = part.lo, 0, item
		p.afterGap(&in, d.Time)
		if part.unset && in.Bits == 0 {
			in.Bits = verify.Uninitialised.Code()
			in.Flags |= plan.InstUnmarked // a simulator knows also the memory that kernels find by themselves
		}
		if p.visible.hosted[origin] && in.Bits == 0 {
			in.Bits, in.Flags = verify.HostFunction.Code(), in.Flags|plan.InstUnmarked
		}
		level.mark(&in)
		if guessed {
			in.Bits |= plan.CheckGuess
		}
		checks = append(checks, in)
	}
	p.compareAt(at, checks)
	if async && at != p.at {
		p.arrives(d, at, s)
	}
	return op, nil
}

// maxParts limits a result's parts; a result with more is compared as a whole.
const maxParts = 256

// parts divides a result into ranges that the device has written and ranges that no call has written.
func (p *callCompiler) parts(item uint32, s rows) []part {
	all := []part{{0, s.len, false}}
	o, off := p.a.Origin(item)
	if o == nil || o.Kind != api.Device || o.Hosted || o.Created == timeline.NoCall || o.Parent != nil || p.pointers.payloadMissing {
		return all
	}
	written, whole := p.flow.Written(o)
	if whole {
		return all
	}
	near := sort.Search(len(written), func(k int) bool { return written[k].Hi > off })
	if s.width != s.pitch {
		if near == len(written) || written[near].Lo >= off+s.span() {
			all[0].unset = true
		}
		return all
	}
	var ps []part
	at := uint64(0)
	for _, w := range written[near:] {
		if w.Lo >= off+s.len {
			break
		}
		lo, hi := max(w.Lo, off)-off, min(w.Hi, off+s.len)-off
		if lo > at {
			ps = append(ps, part{at, lo, true})
		}
		ps = append(ps, part{lo, hi, false})
		at = hi
	}
	if at < s.len {
		ps = append(ps, part{at, s.len, true})
	}
	if len(ps) > maxParts {
		return all
	}
	return ps
}

// overlapping returns the relocations of words that have bytes in a part of the plan's data.
func overlapping(relocs []plan.Reloc, from, to uint64) []plan.Reloc {
	first := sort.Search(len(relocs), func(k int) bool { return relocs[k].At+8 > from })
	last := sort.Search(len(relocs), func(k int) bool { return relocs[k].At >= to })
	return joined(relocs[first:max(first, last)])
}

// joined returns relocations as one new list.
func joined(lists ...[]plan.Reloc) []plan.Reloc {
	all := slices.Concat(lists...)
	for i := range all {
		all[i].Flags &^= plan.RelocLast
	}
	return all
}

// hostAt returns the host memory at an address, and the offset. Memory that no call allocated is one object for each process.
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

func contiguous(n uint64) rows { return rows{n, n, n} }
