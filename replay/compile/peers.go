package compile

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Processes share memory, notifies and events by keys and by file descriptors, which the runtime makes anew in each run.
//
// A key that one process of the trace exports replaces the recorded key in the importing process. Waits for a process that is not in the
// trace are refused by name, or left out with Options.StubComm.
//
// A descriptor has another number in each process, and no call records how it passes between them. Its origin is known if only one
// descriptor of the kind was passed by then, or if both processes name the allocation by a key.
//
// Exported memory that no process of the trace imports may be written by other processes at any time. It is marked as unknown before each
// task that can read it.

// A gift is a call that exports a descriptor.
type gift struct {
	call    uint64
	process uint32
	fd      uint64
	of      *timeline.Object
	end     int64
}

// A taker is a call that imports a descriptor.
type taker struct {
	call    uint64
	process uint32
	fd      uint64
	makes   *timeline.Object
	start   int64
}

// handOver finds the exporting call for each imported descriptor.
func (p *compiler) handOver() error {
	needed, err := timeline.Has(p.r, p.Model, func(f *api.Func) bool {
		return slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Use && q.Object == api.Descriptor })
	})
	if err != nil || !needed {
		return err
	}
	var gifts []gift
	var takers []taker
	madeOf := map[*timeline.Object][]*timeline.Object{} // objects that the allocating call used
	keys := map[string][]*timeline.Object{}             // the same for memory with a key
	told := map[*timeline.Object]*timeline.Object{}     // objects named by a key
	state := timeline.NewState(p.Model).Read(p.r)
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		process := p.r.ProcessOf(c.Thread)
		e := state.Apply(process, c)
		if !e.OK() {
			continue
		}
		var uses, makes []*timeline.Object
		for _, u := range e.Uses {
			if u.Object.Created == c.Index {
				makes = append(makes, u.Object)
			} else {
				uses = append(uses, u.Object)
			}
		}
		for _, o := range makes {
			switch {
			case o.Kind == api.Descriptor && len(uses) > 0:
				gifts = append(gifts, gift{c.Index, process, o.Handle, uses[0], c.End})
			case o.Kind.Memory():
				madeOf[o] = uses
			}
		}
		for _, o := range uses {
			switch {
			case o.Kind == api.Descriptor && len(makes) > 0:
				takers = append(takers, taker{c.Index, process, o.Handle, makes[0], c.Start})
			case e.Fn.Shares == api.Export:
				keys[timeline.ExportKey(c)] = madeOf[o]
			case e.Fn.Shares == api.Import:
				for _, of := range keys[timeline.ImportKey(e.Fn, c)] {
					if of.Kind == o.Kind {
						told[o] = of
					}
				}
			}
		}
	}
	p.sharing.importedFDs = map[uint64]uint64{}
	for _, t := range takers {
		if g, ok := t.from(gifts, told[t.makes]); ok {
			p.sharing.importedFDs[t.call] = g.call
		}
	}
	return nil
}

// from returns the gift that a taker imports: one that exports told, or any if told is nil. It returns false if several objects are
// possible.
func (t *taker) from(gifts []gift, told *timeline.Object) (found gift, ok bool) {
	own := false
	for _, g := range slices.Backward(gifts) {
		switch {
		case g.end > t.start, g.of.Kind != t.makes.Kind, told != nil && g.of != told:
			continue
		case g.process == t.process:
			if own || g.fd != t.fd {
				continue // closed meanwhile
			}
			own = true
		}
		if ok && g.of != found.of {
			return gift{}, false
		}
		if !ok || g.process == t.process {
			found, ok = g, true
		}
	}
	return found, ok
}

// descriptor returns the operand for a descriptor. A descriptor from another process is taken over before the current call.
func (p *callCompiler) descriptor(w uint64) plan.Operand {
	call, known := p.sharing.importedFDs[p.c.Index]
	o := p.sharing.exportedFDs[call]
	if !known || o == nil {
		p.cant = fmt.Sprintf("the file descriptor %d may come from another process, and the trace does not show its object", w)
		return imm(w)
	}
	op := p.object(o)
	if o.Process == p.owner() {
		return op
	}
	s := p.slot(fmt.Sprintf("descriptor from call %d, taken over", o.Created), nil)
	p.before = append(p.before, plan.Instruction{Op: plan.OpTake, Fn: p.Function(p.f), Call: p.c.Index,
		Operands: p.Operands(slotAddress(s), plan.Operand{Slot: p.processID(p.process[o.Process])}, op)})
	return plan.Operand{Slot: s}
}

// exports follows memory that the current call maps or exports.
func (p *callCompiler) exports() {
	made := slices.ContainsFunc(p.e.Uses, func(u timeline.Use) bool { return u.Object.Created == p.c.Index })
	if !p.ok || !made && p.f.Shares != api.Export {
		return
	}
	var memory *timeline.Object // existing memory that the call exports or maps
	for _, u := range p.e.Uses {
		if k := u.Object.Kind; u.Object.Created != p.c.Index && (k == api.Device || k == api.Physical) {
			memory = u.Object
		}
	}
	if memory == nil {
		return
	}
	if p.f.Shares == api.Export && !p.sharing.imported[timeline.ExportKey(p.c)] {
		p.sharing.outsiders.memory[memory] = true
	}
	for _, u := range p.e.Uses {
		switch o := u.Object; {
		case o.Created != p.c.Index:
		case o.Kind == api.Device && memory.Kind == api.Physical:
			p.sharing.outsiders.backing[o] = memory
		case o.Kind == api.SharedMemory && !p.sharing.imported[fmt.Sprint(o.Handle)], o.Kind == api.Descriptor && !p.handedOver(p.c.Index):
			p.sharing.outsiders.memory[memory] = true
		}
	}
}

// handedOver reports whether a recorded call imports the descriptor that a call made.
func (p *compiler) handedOver(call uint64) bool {
	for _, by := range p.sharing.importedFDs {
		if by == call {
			return true
		}
	}
	return false
}

// markOutsiders marks the memory that the current call can read and that processes outside the trace may have written.
func (p *callCompiler) markOutsiders() {
	if len(p.sharing.outsiders.memory) == 0 || !p.ok || !p.o.Compare {
		return
	}
	kernel := access.Runs(p.f)
	var read []*timeline.Object
	for _, t := range p.a.Regions() {
		o := t.Object
		if t.Kind != access.Reads && (t.Kind != access.Names || !kernel) || slices.Contains(read, o) {
			continue
		}
		shared := o
		if b := p.sharing.outsiders.backing[o]; b != nil {
			shared = b
		}
		if p.sharing.outsiders.memory[o] || p.sharing.outsiders.memory[shared] {
			read = append(read, o)
		}
	}
	for _, o := range read {
		p.unknown(p.object(o), o.Size, verify.Peer)
		p.sharing.outsiders.listed[o] = true
		more := ""
		if n := len(p.sharing.outsiders.listed) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		p.because(verify.Peer, fmt.Sprintf("memory from call %d%s was exported to a process that is not in the trace", o.Created, more))
	}
}

// standSize is the size in bytes for memory that replaces a peer's memory, whose size is not recorded.
const standSize = 64 << 20

// match finds the keys that recorded processes import.
func (p *compiler) match() error {
	needed, err := timeline.Has(p.r, p.Model, func(f *api.Func) bool { return f.Shares == api.Import })
	if err != nil || !needed {
		return err
	}
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		f := p.Model.Func(api.ID(c.Func))
		if f == nil || f.Shares != api.Import || len(c.Args) != int(f.Words) {
			continue
		}
		p.sharing.imported[timeline.ImportKey(f, c)] = true
	}
	return nil
}

// peers handles keys and waits between processes. It reports whether the call is left out.
func (p *callCompiler) peers() (skip bool) {
	f := p.f
	for _, u := range p.e.Uses {
		if o := u.Object; (f.Task == api.Wait || f.Sync == api.SyncEvent) && p.ok && p.sharing.missingPeers[o] {
			if !p.o.StubComm {
				p.cant, p.stub = fmt.Sprintf("it waits with its %s %#x for a process that is not in the trace", o.Kind, o.Handle), LeavesOut
				return false
			}
			p.unverified(verify.Peer, "the wait for a peer that is not in the trace is left out")
			return true
		}
	}
	if !p.ok {
		return false
	}
	switch {
	case f.Shares == api.Export:
		if !p.sharing.imported[timeline.ExportKey(p.c)] {
			for _, u := range p.e.Uses {
				// A notify's exporter waits for it; an event's exporter records it.
				p.sharing.missingPeers[u.Object] = u.Object.Kind == api.Notify || u.Object.Kind == api.Counter
				p.sharing.tainted[u.Object] = true
			}
		}
	case f.Shares == api.Import:
		if _, ok := p.sharing.keys[timeline.ImportKey(f, p.c)]; ok {
			break
		}
		if f.StandIn == "" || !p.o.StubComm {
			p.cant = "it imports an object from a process that is not in the trace"
			if f.StandIn != "" {
				p.stub = StandsIn
			}
			return false
		}
		for _, u := range p.e.Uses {
			if u.Object.Created == p.c.Index {
				p.sharing.missingPeers[u.Object], p.sharing.tainted[u.Object] = true, true
				u.Object.Size = max(u.Object.Size, standSize)
			}
		}
	case f.Shares == api.Unshare:
		_, ok := p.sharing.keys[timeline.ImportKey(f, p.c)]
		return !ok && p.o.StubComm
	}
	return false
}

// replace calls the stand-in for an import without a peer, and reports it.
func (p *callCompiler) replace(in *plan.Instruction, words []plan.Operand) []plan.Operand {
	if p.f.StandIn == "" || p.f.Shares != api.Import || !p.o.StubComm || !p.ok {
		return words
	}
	if _, known := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; known {
		return words
	}
	made := func(f *api.Func) *api.Param {
		return &f.Params[slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role.Makes() })]
	}
	f := p.Model.Lookup(p.f.StandIn)
	ops := make([]plan.Operand, f.Words)
	q := made(f)
	ops[q.Word] = words[made(p.f).Word]
	for _, n := range q.Size.Mul {
		ops[f.Params[n].Word] = imm(standSize)
	}
	in.Fn, in.Words = p.Function(f), f.Words
	p.unverified(verify.Peer, "its owner is not in the trace: "+f.Name+" replaces it")
	return ops
}

// taint follows the data of missing peers and of host functions.
func (p *callCompiler) taint() {
	p.taintBy(p.sharing.tainted, false)
	reads := p.taintBy(p.visible.hosted, p.doubtful != 0 && p.doubtful < weak)
	if len(p.visible.hosted) == 0 {
		return
	}
	for _, t := range p.a.Regions() {
		if !reads && t.Kind == access.Writes && t.Lo == 0 && t.Hi >= t.Object.Size && p.e.Captured == nil && p.f.Task != api.Reduce {
			delete(p.visible.hosted, t.Object)
		}
	}
	for _, u := range p.e.Uses {
		if u.Object.Ended == p.c.Index {
			delete(p.visible.hosted, u.Object)
		}
	}
}

// taintBy follows data through the current task. If the task reads it, or can reach tainted memory, all memory that it writes is tainted too.
func (p *callCompiler) taintBy(tainted map[*timeline.Object]bool, reads bool) bool {
	if len(tainted) == 0 && !reads {
		return false
	}
	reads = reads || slices.ContainsFunc(p.a.Regions(), func(t access.Region) bool { return t.Kind != access.Writes && tainted[t.Object] })
	kernel := access.Runs(p.f)
	for _, t := range p.a.Regions() {
		if reads && (t.Kind == access.Writes || t.Kind == access.Names && kernel) {
			tainted[t.Object] = true
		}
	}
	return reads
}

// shareable returns the slot for a handle that another process shares.
func (p *compiler) shareable(o *timeline.Object) (plan.Operand, bool) {
	if o.Kind != api.SharedMemory {
		return plan.Operand{}, false
	}
	op, ok := p.sharing.keys[fmt.Sprint(o.Handle)]
	return op, ok
}
