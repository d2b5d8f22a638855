package replay

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// capture is what a capture has put into a graph that a replay must look after.
type capture struct {
	copies []*graphCopy
	hosts  []*hostLaunch
}

// graphCopy is a copy to the host that was captured into a graph. It brings a result each time that the graph runs; what is
// recorded is what lay there at one moment, when the program had waited for its stream the first time.
type graphCopy struct {
	call     uint64
	at       place // behind which it is compared
	recorded int64 // when, noTime for never
	runs     []graphRun
}

type graphRun struct {
	call  uint64
	start int64
}

const noTime = -1 << 63

// captureOf is the capture that a stream has begun, or what a graph came of.
func (p *planner) captureOf(o *timeline.Object) *capture {
	c := p.captures[o]
	if c == nil {
		c = &capture{}
		p.captures[o] = c
	}
	return c
}

// capture keeps in mind that the call at hand puts a copy to the host into a graph.
func (p *planner) capture(at place, recorded int64) {
	c := p.captureOf(p.e.Captured)
	c.copies = append(c.copies, &graphCopy{call: p.c.Index, at: at, recorded: recorded})
}

// graph follows what becomes of captures.
func (p *planner) graph() {
	if !p.ok || p.f.Capture != api.CaptureEnd && p.f.Task != api.GraphRun {
		return
	}
	n := slices.IndexFunc(p.e.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Graph })
	if n < 0 {
		return
	}
	graph := p.e.Uses[n].Object
	if p.f.Capture == api.CaptureEnd {
		p.captures[graph] = p.captureOf(p.e.Stream)
		delete(p.captures, p.e.Stream)
		p.graphs = append(p.graphs, graph)
		return
	}
	for _, l := range p.captureOf(graph).hosts {
		p.ask(l)
	}
	for _, c := range p.captureOf(graph).copies {
		c.runs = append(c.runs, graphRun{p.c.Index, p.c.Start})
	}
}

// graphResults sees to it that a graph's copies are compared behind the run whose result was recorded, and lists the others.
func (p *planner) graphResults() {
	for _, graph := range p.graphs {
		for _, c := range p.captures[graph].copies {
			compared := -1
			for i, run := range c.runs {
				if run.start < c.recorded {
					compared = i
				}
			}
			if compared < 0 && c.recorded != noTime {
				// Nothing had come yet.
				g := &p.threads[c.at.thread].groups[c.at.group]
				of := func(in instruction) bool { return in.Op == opCheck && in.Call == c.call }
				g.late, g.insts = slices.DeleteFunc(g.late, of), slices.DeleteFunc(g.insts, of)
			}
			for i, run := range c.runs {
				if i != compared {
					p.found.unverified = append(p.found.unverified, Unverified{run.call, fmt.Sprintf("its graph copies to the host by call %d: what that brought in this run was not recorded", c.call)})
				}
			}
		}
	}
}
