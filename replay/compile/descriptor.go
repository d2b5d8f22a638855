package compile

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Processes give each other memory by descriptors. How one comes from one process to another no call tells, and there it has another number.
// What it is of is known where nothing else of its kind was given away by then, or where both have named the same allocation of it by a key.

// A gift is a descriptor that a call has made.
type gift struct {
	call    uint64
	process uint32
	fd      uint64
	of      *timeline.Object
	end     int64
}

// A taker is a call that is given a descriptor.
type taker struct {
	call    uint64
	process uint32
	fd      uint64
	makes   *timeline.Object
	start   int64
}

// handOver finds out which descriptor each call that takes one is given.
func (p *compiler) handOver() error {
	counts, err := p.r.Counts()
	if err != nil {
		return err
	}
	takes := func(q api.Param) bool { return q.Role == api.Use && q.Object == api.Descriptor }
	if !slices.ContainsFunc(counts.Functions, func(c format.FuncCount) bool {
		f := p.Model.Func(api.ID(c.Func))
		return f != nil && slices.ContainsFunc(f.Params, takes)
	}) {
		return nil
	}
	var gifts []gift
	var takers []taker
	madeOf := map[*timeline.Object][]*timeline.Object{} // what the call that made memory used
	keys := map[string][]*timeline.Object{}             // the same of memory with a key
	told := map[*timeline.Object]*timeline.Object{}     // by such a key
	threads, state := p.r.Threads(), timeline.NewState(p.Model).Read(p.r)
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		process := threads[c.Thread].Process
		e := state.Apply(process, c)
		if e.Fn == nil || Failed(e.Fn, c) {
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

// from returns the gift that a call is given: one of what is told or, where nothing is, of all that may be.
func (t *taker) from(gifts []gift, told *timeline.Object) (found gift, ok bool) {
	own := false
	for _, g := range slices.Backward(gifts) {
		switch {
		case g.end > t.start, g.of.Kind != t.makes.Kind, told != nil && g.of != told:
			continue
		case g.process == t.process:
			if own || g.fd != t.fd {
				continue // it was closed since
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

// descriptor is the operand for a descriptor. One of another process is taken over before the call at hand.
func (p *callCompiler) descriptor(w uint64) plan.Operand {
	call, known := p.sharing.importedFDs[p.c.Index]
	o := p.sharing.exportedFDs[call]
	if !known || o == nil {
		p.cant = fmt.Sprintf("the file descriptor %d may be another process's, and nothing in the trace tells of what", w)
		return imm(w)
	}
	op := p.object(o)
	if o.Process == p.owner() {
		return op
	}
	s := p.slot(fmt.Sprintf("descriptor of call %d, taken over", o.Created), nil)
	p.before = append(p.before, plan.Instruction{Op: plan.OpTake, Fn: p.Function(p.f), Call: p.c.Index,
		Operands: p.Operands(plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(s)}, plan.Operand{Slot: p.processID(p.process[o.Process])}, op)})
	return plan.Operand{Slot: s}
}
