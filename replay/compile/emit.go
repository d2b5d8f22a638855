package compile

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
)

// If a process forks after its parent has called the runtime, the child's runtime does not work: its calls fail. The replay forks it too,
// from the process that plays the parent.

// fork makes the parent fork such a process, after the parent's last call that ended before the child's first call. That call is compiled
// next and starts at the given time.
func (p *compiler) fork(process int, first int64) {
	processes := p.r.Processes()
	pr := &p.procs[process]
	if pr.begun {
		return
	}
	pr.begun = true
	if int(pr.process) >= len(processes) || processes[pr.process].ForkedFrom == 0 {
		return
	}
	in := plan.Instruction{Op: plan.OpFork, Fn: uint32(process)}
	var at *Thread
	last := int64(math.MinInt64)
	var after *group // nil if the call has left the window or is already laid out
	for t := range p.Threads {
		of := &p.Threads[t]
		if of.Process == process || p.procs[of.Process].pid != processes[pr.process].ForkedFrom {
			continue
		}
		if of.forker.end > last && of.forker.made {
			at, last, after, in.Call = of, of.forker.end, nil, of.forker.call
		}
		for n := of.base; n < of.compiled; n++ {
			// The calls inside a call that runs host functions follow it.
			if g := of.group(n); g.end <= first && g.end > last && len(g.insts) > 0 && g.fn != nil && !g.fn.PollsCallbacks {
				at, last, after, in.Call = of, g.end, g, g.call
				if n < of.laid {
					after = nil
				}
			}
		}
	}
	switch {
	case at == nil:
		return
	case after != nil:
		after.insts = append(after.insts, in)
	default:
		at.prefix = append(at.prefix, in)
	}
	pr.forked = true
}

// emit writes the instructions of all final calls: those that ended before the frontier, except polls that may go on. The calls that
// started before the frontier must be compiled.
func (p *compiler) emit(frontier int64) {
	if frontier == math.MaxInt64 {
		defer func() {
			for t := range p.Threads {
				pr := &p.Threads[t]
				pr.out.Add(pr.prefix...)
			}
		}()
	}
	for t := range p.Threads {
		for p.layOut(&p.Threads[t], frontier) {
		}
	}
	for more := true; more; {
		more = false
		for t := range p.Threads {
			for p.writeNext(t) {
				more = true
			}
		}
	}
}

// layOut determines the position of a thread's next call, and of the calls inside it. It returns false if they are not final.
func (p *compiler) layOut(pr *Thread, frontier int64) bool {
	first := pr.group(pr.laid)
	if first == nil {
		return false
	}
	last := pr.laid
	if first.fn != nil && first.fn.PollsCallbacks {
		for g := pr.group(last + 1); g != nil && g.start < first.end; g = pr.group(last + 1) {
			last++
		}
	}
	for n := pr.laid; n <= last; n++ {
		if n >= pr.compiled || frontier != math.MaxInt64 && pr.group(n).end >= frontier {
			return false
		}
	}
	for n := pr.laid; n <= last; n++ {
		g := pr.group(n)
		if len(pr.prefix) > 0 {
			g.insts = slices.Insert(g.insts, 0, pr.prefix...)
			pr.prefix = nil
		}
		if !p.o.Backend.Computes() {
			p.calm(g)
		}
		pr.count += uint64(len(g.waits) + len(g.order) + len(g.insts) + len(g.lateWaits) + len(g.late))
		g.finished = pr.count
	}
	// Calls inside a host function, which another call in the thread ran, are made in the stub that it runs again.
	for n := last; n >= pr.laid && last > pr.laid; n-- {
		g := pr.group(n)
		inner := n
		for h := pr.group(inner + 1); h != nil && inner < last && h.start < g.end; h = pr.group(inner + 1) {
			inner++
		}
		if g.fn == nil || !g.fn.PollsCallbacks || inner == n || len(g.insts) == 0 || g.insts[len(g.insts)-1].Op != plan.OpUntil {
			continue
		}
		end := pr.group(inner).finished
		g.insts[len(g.insts)-1].Len = end - g.finished
		g.finished = end // they finish together
	}
	for ; pr.laid <= last; pr.laid++ {
		if g := pr.group(pr.laid); g.finish != nil {
			*g.finish = finish{true, g.finished}
		}
	}
	return true
}

// writeNext writes the first call of a thread's window. It returns false if the call is not laid out, or waits for one that is not.
func (p *compiler) writeNext(t int) bool {
	pr := &p.Threads[t]
	if pr.base >= pr.laid {
		return false
	}
	g := pr.window[0]
	for _, ws := range [...][]wait{g.waits, g.order, g.lateWaits} {
		for _, w := range ws {
			if !w.laid {
				return false
			}
		}
	}
	pr.wait(g, g.waits)
	pr.wait(g, g.order)
	p.clock(pr, g)
	p.graphs.locate(t, pr.out.Add(g.insts...), g.insts)
	pr.wait(g, g.lateWaits)
	p.graphs.locate(t, pr.out.Add(g.late...), g.late)
	if len(g.insts) > 0 && g.fn != nil && !g.fn.PollsCallbacks {
		pr.forker = forker{true, g.call, g.end}
	}
	pr.syncs.leave(pr.base)
	pr.window[0] = nil
	pr.window = pr.window[1:]
	pr.base++
	p.look.used = append(p.look.used, g)
	return true
}

// wait writes a group's waits.
func (pr *Thread) wait(g *group, ws []wait) {
	for _, w := range ws {
		pr.out.Add(plan.Instruction{Op: plan.OpWait, Fn: uint32(w.thread), At: w.count, Call: g.call})
	}
}

// clock sets the flags for reading the clock, which takes longer than everything else that the player does for a call. It is read around
// waiting calls, at both ends of each stream and run, and around every call in a paced replay. clock also sets what the report needs.
func (p *compiler) clock(pr *Thread, g *group) {
	k := -1
	for i := range g.insts {
		in := &g.insts[i]
		if !in.Calls() {
			continue
		}
		in.At = uint64(max(g.start-p.Found.From, 0))
		if k < 0 && in.Flags&plan.InstAside == 0 {
			k = i
		}
	}
	if k < 0 {
		return
	}
	in := &g.insts[k]
	if pr.clocked[0] == 0 {
		in.Flags |= plan.InstStart | plan.InstEnd
	}
	switch {
	case p.Scale > 0:
		in.Flags |= plan.InstEnd
	case g.fn.Sync != api.NoSync, g.kernel != 0 && p.o.TimeLaunches:
		in.Flags |= plan.InstStart | plan.InstEnd
	}
	stream := max(g.stream, -1) + 1
	for len(pr.clocked) <= stream {
		pr.clocked = append(pr.clocked, 0)
	}
	if pr.clocked[stream] == 0 {
		in.Flags |= plan.InstStart
	}
	at := pr.out.Count() + k
	pr.clocked[stream], pr.clocked[0] = at+1, at+1
	in.Dur, in.Stream, in.Kernel = uint64(g.end-g.start), int32(g.stream), g.kernel
}

// clockLast sets the flag for the last call on each stream.
func (p *compiler) clockLast() {
	for t := range p.Threads {
		pr := &p.Threads[t]
		for _, n := range pr.clocked {
			if n > 0 {
				in := pr.out.At(n - 1)
				in.Flags |= plan.InstEnd
				pr.out.Set(n-1, in)
			}
		}
	}
}

// calm removes the instructions that need more than a return from a call: comparisons, and stores to memory that calls would make or
// fill.
func (p *compiler) calm(g *group) {
	made := p.ownSlot(len(p.Threads)) // first slot that calls fill
	idle := func(in plan.Instruction) bool {
		switch in.Op {
		case plan.OpCheck, plan.OpTake, plan.OpMark:
			return true
		case plan.OpStore:
			to, from := p.Operand(in.Operands), p.Operand(in.Operands+1)
			return max(to.Slot, from.Slot) >= made
		}
		return false
	}
	g.insts, g.late = slices.DeleteFunc(g.insts, idle), slices.DeleteFunc(g.late, idle)
	for k := range g.insts {
		if in := &g.insts[k]; in.Calls() {
			in.Op, in.Flags, in.Bits, in.Len, in.Width = plan.OpCall, in.Flags&^plan.InstStop, 0, 0, 0
		}
	}
}

// order makes the current call wait for other threads' calls that ended before it began.
func (p *callCompiler) order(g *group) {
	if len(g.insts) == 0 {
		return
	}
	pr := &p.Threads[p.at.thread]
	if pr.known == nil {
		pr.known = make([]int, len(p.Threads))
	}
	for u := range p.Threads {
		if u == p.at.thread {
			continue
		}
		us := &p.Threads[u]
		if n := us.endedBefore(g.start); n > pr.known[u] {
			pr.known[u] = n
			g.order = slices.DeleteFunc(g.order, func(w wait) bool { return w.thread == u })
			g.order = append(g.order, p.waitFor(place{u, n - 1}))
		}
	}
}
