package compile

import (
	"math"

	"github.com/acltrace/acltrace/replay/plan"
)

// A process that was forked after its parent had called the runtime has a runtime that does not work: its calls fail. The replay forks it,
// too, from the process that plays its parent.

// fork has a process that is such one forked after the last call of its parent that had ended before its own first call, which is
// compiled next and begins at a time.
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
	var behind *group // nil if the call has left the window, or has its place already
	for t := range p.Threads {
		of := &p.Threads[t]
		if of.Process == process || p.procs[of.Process].pid != processes[pr.process].ForkedFrom {
			continue
		}
		if of.forker.end > last && of.forker.made {
			at, last, behind, in.Call = of, of.forker.end, nil, of.forker.call
		}
		for n := of.base; n < of.compiled; n++ {
			// A call that runs functions of the program is followed by the calls in them.
			if g := of.group(n); g.end <= first && g.end > last && len(g.insts) > 0 && g.fn != nil && !g.fn.PollsCallbacks {
				at, last, behind, in.Call = of, g.end, g, g.call
				if n < of.laid {
					behind = nil
				}
			}
		}
	}
	switch {
	case at == nil:
		return
	case behind != nil:
		behind.insts = append(behind.insts, in)
	default:
		at.prefix = append(at.prefix, in)
	}
	pr.forked = true
}
