package replay

import "math"

// A process that was forked after its parent had called the runtime has a runtime that does not work: its calls fail. The replay forks it,
// too, from the process that plays its parent.

// forks has each such process forked after the last call of its parent that had ended before its own first call.
func (p *compiler) forks() {
	processes := p.r.Processes()
	for i := range p.procs {
		pr := &p.procs[i]
		if int(pr.process) >= len(processes) || processes[pr.process].ForkedFrom == 0 {
			continue
		}
		first := p.begins(i)
		var at *group
		for t := range p.threads {
			of := &p.threads[t]
			if of.process == i || p.procs[of.process].pid != processes[pr.process].ForkedFrom {
				continue
			}
			for k := range of.groups {
				// A call that runs functions of the program is followed by the calls in them.
				g := &of.groups[k]
				if g.end <= first && len(g.insts) > 0 && g.fn != nil && !g.fn.PollsCallbacks && (at == nil || g.end > at.end) {
					at = g
				}
			}
		}
		if at != nil {
			at.insts = append(at.insts, instruction{Op: opFork, Fn: uint32(i), Call: at.call})
			pr.forked = true
		}
	}
}

// begins returns when the first call of a process began.
func (p *compiler) begins(process int) int64 {
	pr := &p.procs[process]
	first := int64(math.MaxInt64)
	for t := pr.first; t < pr.first+pr.count; t++ {
		if gs := p.threads[t].groups; len(gs) > 0 {
			first = min(first, gs[0].start)
		}
	}
	return first
}
