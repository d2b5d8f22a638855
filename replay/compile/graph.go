package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
	"github.com/acltrace/acltrace/timeline/graph"
)

// taskWork returns the work for the task that the current call adds to a graph.
func (p *callCompiler) taskWork() *graphWork {
	if p.work == nil {
		p.work = &graphWork{}
	}
	return p.work
}

// capture records that the current call adds a copy to the host to a graph.
func (p *callCompiler) capture(g graphCopy) {
	g.call = p.c.Index
	p.graphs.copies = append(p.graphs.copies, &g)
	if g.recorded != noTime {
		p.graphs.once[g.call] = nil
	}
	w := p.taskWork()
	w.copies = append(w.copies, &g)
}

// captureSource records that the current call adds a copy from host memory to a graph.
func (p *callCompiler) captureSource(g graphSource) {
	w := p.taskWork()
	w.sources = append(w.sources, &g)
}

// graph follows graph content, and graph launches.
func (p *callCompiler) graph() error {
	switch {
	case !p.ok:
	case p.f.Task == api.GraphRun && p.f.Graph < 0:
		if g := p.graphs.contents.Known(p.e.Object(api.Graph)); g != nil {
			return p.followRun(g)
		}
	case p.e.AffectsGraphs():
		p.follow()
	}
	return nil
}

// follow follows a call that may change graphs.
func (p *callCompiler) follow() {
	if p.e.Captured != nil && p.f.Task == api.HostFunc {
		p.taskWork() // hostLaunch adds to it
	}
	taken := false
	p.graphs.contents.Apply(p.state.GraphCall(p.e), func() *graphWork {
		taken = true
		return p.work
	})
	if p.work != nil && !taken {
		p.graphs.contents.Add(p.e.Captured, p.work) // the node is unknown
	}
	for _, u := range p.e.Uses {
		if g := p.graphs.contents.Known(u.Object); g != nil && !g.Whole() {
			p.cant = "its graph has grown too large"
		}
	}
}

// followRun follows a graph launch. Several copies to the same memory are compared once.
func (p *callCompiler) followRun(g *graph.Graph[*timeline.Object, *graphWork]) error {
	type key struct {
		to   plan.Operand
		addr uint64
		size rows
	}
	type copied struct {
		*graphCopy
		maybe bool
	}
	var all []copied
	index := map[key]int{}
	g.Each(func(w *graphWork, _ bool) { p.hosted = p.hosted || w != nil && len(w.hosts) > 0 })
	if err := p.sources(g); err != nil {
		return err
	}
	g.Each(func(w *graphWork, maybe bool) {
		if w == nil {
			return
		}
		for _, l := range w.hosts {
			if !maybe {
				p.ask(l)
			}
		}
		for _, g := range w.copies {
			k := key{g.to, g.addr, g.size}
			if i, ok := index[k]; ok {
				all[i].maybe = all[i].maybe && maybe
				continue
			}
			index[k] = len(all)
			all = append(all, copied{g, maybe})
		}
	})
	guessed := p.a.Guess || p.flow.GraphGuessed()
	apart := map[*graphCopy]bool{}
	slices.SortStableFunc(all, func(a, b copied) int { return cmp.Compare(a.addr, b.addr) })
	for i, last := 1, 0; i < len(all); i++ {
		a, b := all[last].graphCopy, all[i].graphCopy
		if b.addr < a.addr+a.size.span() && a.shift() != b.shift() {
			apart[a], apart[b] = true, true
		}
		if b.addr+b.size.span() > a.addr+a.size.span() {
			last = i
		}
	}
	var flights []func()
	for _, c := range all {
		run := graphRun{call: p.c.Index, start: p.c.Start, maybe: c.maybe, guessed: guessed}
		p.orderAfterReaders(c.addr, c.addr+c.size.span())
		f := inFlightCopy{shift: c.shift(), sure: !c.maybe, guessed: guessed}
		switch {
		case apart[c.graphCopy]:
			run.result = "another copy in its graph overlaps this memory, which no call has allocated"
		case c.maybe:
			var err error
			if run.result, err = p.laidBefore(c.graphCopy); err != nil {
				return err
			}
			f.sure = run.result == ""
		}
		if d := p.pieceAt(c.addr, c.size.len, format.DirOut); d != nil {
			f.until = comes(d)
			if run.result == "" {
				if err := p.graphResult(c.graphCopy, &run, d); err != nil {
					return err
				}
			}
			o, off := p.hostAt(c.addr)
			f.off, f.end = off, off+c.size.span()
			flights = append(flights, func() { p.ordering.inFlight[o] = append(p.ordering.inFlight[o], f) })
		}
		c.runs = append(c.runs, run)
	}
	for _, f := range flights {
		f()
	}
	return nil
}

// sources stores the recorded content of the host memory that the current graph run copies from. Results that depend on missing content
// are unproved.
func (p *callCompiler) sources(g *graph.Graph[*timeline.Object, *graphWork]) error {
	type key struct {
		op  plan.Operand
		len uint64
	}
	done := map[key]bool{}
	var failed error
	g.Each(func(w *graphWork, _ bool) {
		if w == nil {
			return
		}
		for _, g := range w.sources {
			k := key{g.op, g.size.len}
			if done[k] || failed != nil {
				continue
			}
			done[k] = true
			o, off := p.hostAt(g.addr)
			if p.inFlight(o, off, off+g.size.span()) {
				continue // a copy from the device writes it again
			}
			d := p.pieceAt(g.addr, g.size.len, format.DirIn)
			if d == nil || d.Status != format.Whole {
				if p.o.Compare {
					p.because(verify.Managed, fmt.Sprintf("the graph in call %d copies host memory from %s, which the program may write without a call, and the trace lacks its content at that run", p.c.Index, memoryOf(o)))
					p.unknown(g.op, g.size.span(), verify.Managed)
				}
				continue
			}
			from, relocs, err := p.scanned(d, access.Content)
			if err != nil {
				failed = err
				return
			}
			if p.restore(g.op, from, relocs, g.size); p.o.Compare && (p.hosted || p.afterHost()) {
				p.doubtTask(verify.HostFunction.Code())
				p.before = append(p.before, p.mark(g.op, g.size.span(), verify.HostFunction))
			}
		}
	})
	return failed
}

// memoryOf names host memory by the call that made it.
func memoryOf(o *timeline.Object) string {
	if o.Kind == "" || o.Created == timeline.NoCall {
		return "the program"
	}
	return fmt.Sprintf("call %d", o.Created)
}

// pieceAt returns an address's content that was recorded before or after the current graph run, nil if there is none.
func (p *callCompiler) pieceAt(addr, size uint64, dir format.Dir) *format.Data {
	for k := range p.a.Data {
		if d := &p.a.Data[k]; d.Dir == dir && d.Item > 0 && d.Addr == addr && d.Len == size {
			return d
		}
	}
	return nil
}

// laidBefore stores the recorded earlier content at the destination of a copy that may not be made. So the content after the run is
// comparable either way. It returns the reason if that is impossible, else "".
func (p *callCompiler) laidBefore(c *graphCopy) (string, error) {
	o, off := p.hostAt(c.addr)
	under, covered := false, false
	for _, f := range p.flights(o) {
		if f.off < off+c.size.span() && off < f.end {
			under = true
			if !f.sure || f.shift != c.shift() {
				return "it is unknown if its part ran: a copy to the same memory was in progress", nil
			}
			covered = covered || f.off <= off && off+c.size.span() <= f.end
		}
	}
	d := p.pieceAt(c.addr, c.size.len, format.DirIn)
	switch {
	case covered:
		return "", nil // the copy writes it again
	case under:
		return "it is unknown if its part ran: a copy that overlaps this memory was in progress", nil
	case d == nil || d.Status != format.Whole:
		return "it is unknown if its part ran: the trace lacks the memory's earlier content", nil
	}
	from, relocs, err := p.expected(d)
	if err != nil {
		return "", err
	}
	p.store(c.to, from, relocs, c.size)
	return "", nil
}

// graphResult compares a copy's recorded result in the current graph run.
func (p *callCompiler) graphResult(c *graphCopy, run *graphRun, d *format.Data) error {
	switch d.Status {
	case format.Whole:
	case format.HashOnly:
		run.result = "the trace has only a hash for this run"
		return nil
	default:
		run.result = "the trace lacks its data in this run: " + d.Reason.String()
		return nil
	}
	at, waited := p.waitedAt(d)
	if !waited {
		run.result = nobodyWaits
		return nil
	}
	from, relocs, err := p.expected(d)
	if err != nil {
		return err
	}
	in := p.checkInstruction(int(d.Param), c.to, from.Addend, relocs, c.size, plan.CheckResult)
	in.RetSlot = d.Item
	p.afterGap(&in, d.Time)
	if run.guessed {
		in.Bits |= plan.CheckGuess
	}
	p.compareAt(at, []plan.Instruction{in})
	p.arrives(d, at, c.size)
	run.there = true
	return nil
}

// graphResults lists the results of graph runs that were not recorded. If a copy has no result for each run but one at some moment, that
// one is compared after the run that wrote it.
func (p *compiler) graphResults() {
	for _, c := range p.graphs.copies {
		byRun := slices.ContainsFunc(c.runs, func(r graphRun) bool { return r.there || r.result != "" })
		last := -1 // the run before the recorded moment
		for i := range c.runs {
			if c.runs[i].start < c.recorded {
				last = i
			}
		}
		if byRun || last >= 0 && c.runs[last].maybe {
			last = -1
		}
		if last < 0 && c.recorded != noTime {
			// There was no run yet, each run has its own result, or the last run may not have made the copy.
			for _, at := range p.graphs.once[c.call] {
				p.Threads[at.thread].out.Set(at.group, plan.Instruction{Op: plan.OpNothing, Call: c.call})
			}
		}
		for i, run := range c.runs {
			if i == last && run.guessed {
				p.Found.Unverified = AddUnverified(p.Found.Unverified, run.call, verify.Pointer, verify.Pointer.Text())
			}
			if run.there || i == last {
				continue
			}
			reason := cmp.Or(run.result, "its data in this run was not recorded")
			p.Found.Unverified = AddUnverified(p.Found.Unverified, run.call, verify.NotRecorded, fmt.Sprintf("its graph copies to the host by call %d: %s", c.call, reason))
		}
	}
}
