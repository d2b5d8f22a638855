package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// capture is what a capture has put into a graph that a replay must look after.
type capture struct {
	copies []*graphCopy
	hosts  []*hostLaunch
	part   bool // of a model, that runs when a condition says so: nothing tells how often
}

// graphCopy is a copy to the host that was captured into a graph. It brings a result each time that the graph runs. A recording has the
// results of each run that the program has waited for, by the number of the copy among those of the graph (as items of the call that
// runs it), or what lay there at one moment, when the program had waited for the copy's stream the first time.
type graphCopy struct {
	call     uint64
	node     *timeline.Object // that makes it, nil where a capture has put it there
	to       operand
	addr     uint64 // as recorded
	size     rows
	at       place // behind which what lay there at one moment is compared
	recorded int64 // when that was, noTime for never
	runs     []graphRun
}

type graphRun struct {
	call   uint64
	start  int64
	result string // why it can't be compared
	there  bool   // it is in the recording, and compared
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
func (p *planner) capture(g graphCopy) {
	c := p.captureOf(p.e.Captured)
	g.call = p.c.Index
	if g.node = p.node(); g.node != nil {
		c.copies = slices.DeleteFunc(c.copies, func(old *graphCopy) bool { return old.node == g.node }) // the node makes another one
	}
	c.copies = append(c.copies, &g)
	if p.f.Graph >= 0 && !slices.Contains(p.graphs, p.e.Captured) {
		p.graphs = append(p.graphs, p.e.Captured)
	}
}

// node is the node that the call at hand makes or sets anew, nil for none.
func (p *planner) node() *timeline.Object {
	for i := range p.f.Params {
		if u, ok := p.e.Use(i); ok && u.Object.Kind == api.Node && p.f.Params[i].Role != api.Uses {
			return u.Object
		}
	}
	return nil
}

// inherit gives a graph what another one has, which it was made of, or which it got as a part.
func (p *planner) inherit(into, from *timeline.Object, add bool) {
	c, of := p.captureOf(into), p.captureOf(from)
	if !add {
		c.copies, c.hosts = nil, nil
	}
	c.copies, c.hosts, c.part = append(c.copies, of.copies...), append(c.hosts, of.hosts...), c.part || of.part
}

// graph follows what becomes of captures.
func (p *planner) graph() error {
	for i := range p.f.Params {
		if p.ok && p.f.Params[i].Inside() {
			for _, u := range p.e.Uses {
				if u.Param == i && u.Object.Kind == api.Graph {
					p.captureOf(u.Object).part = true
				}
			}
		}
	}
	if !p.ok {
		return nil
	}
	if p.f.Capture == api.NoCapture && p.f.Task != api.GraphRun {
		p.inherits()
		return nil
	}
	if p.f.Capture != api.CaptureEnd && p.f.Task != api.GraphRun {
		return nil
	}
	n := slices.IndexFunc(p.e.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Graph })
	if n < 0 {
		return nil
	}
	graph := p.e.Uses[n].Object
	if p.f.Capture == api.CaptureEnd {
		p.inherit(graph, p.e.Stream, true)
		delete(p.captures, p.e.Stream)
		p.graphs = append(p.graphs, graph)
		return nil
	}
	for _, l := range p.captureOf(graph).hosts {
		p.ask(l)
	}
	for _, c := range p.captureOf(graph).copies {
		run := graphRun{call: p.c.Index, start: p.c.Start}
		p.spare(c.addr, c.addr+c.size.span())
		if k := slices.IndexFunc(p.pieces, func(d format.Data) bool {
			return d.Dir == format.DirOut && d.Item > 0 && d.Addr == c.addr && d.Len == c.size.len
		}); k >= 0 {
			if err := p.graphResult(c, &run, &p.pieces[k]); err != nil {
				return err
			}
		}
		c.runs = append(c.runs, run)
	}
	return nil
}

// inherits follows what graphs have of each other.
func (p *planner) inherits() {
	into, from := p.f.Graphs()
	add := p.f.Graph >= 0
	if into < 0 {
		add = false
		for i := range p.f.Params {
			switch q := &p.f.Params[i]; {
			case q.Object == api.Graph && q.Role == api.New:
				into = i
			case q.Object == api.Graph && q.Role == api.Use:
				from = i
			}
		}
	}
	if into < 0 || from < 0 {
		return
	}
	to, made := p.e.Use(into)
	of, known := p.e.Use(from)
	if made && known {
		p.inherit(to.Object, of.Object, add)
	}
}

// graphResult has what a run of a graph has brought to the host compared.
func (p *planner) graphResult(c *graphCopy, run *graphRun, d *format.Data) error {
	switch d.Status {
	case format.Whole:
	case format.HashOnly:
		run.result = "only the hash of what that brought in this run was kept"
		return nil
	default:
		run.result = "what that brought in this run is not in the trace: " + d.Reason.String()
		return nil
	}
	at, waited := p.waitedAt(d)
	if !waited {
		run.result = nobodyWaits
		return nil
	}
	from, relocs, err := p.content(d, true)
	if err != nil {
		return err
	}
	in := p.checkInstruction(int(d.Param), c.to, from.Addend, relocs, c.size, isResult)
	in.RetSlot = d.Item
	p.compareAt(at, []instruction{in})
	p.arrives(d, at, c.size)
	run.there = true
	return nil
}

// graphResults lists what runs of graphs have brought to the host and the recording does not have. Where it has none of a copy's results
// by run, what lay there at one moment is compared behind the run that had brought it.
func (p *planner) graphResults() {
	seen := map[*graphCopy]bool{} // one may be in several graphs
	for _, graph := range p.graphs {
		for _, c := range p.captures[graph].copies {
			if seen[c] {
				continue
			}
			seen[c] = true
			if p.captures[graph].part {
				if c.recorded == noTime {
					p.found.unverified = unverified(p.found.unverified, c.call, "it is in a part of a model that a condition runs: what it brings was not recorded")
				}
				continue
			}
			byRun := slices.ContainsFunc(c.runs, func(r graphRun) bool { return r.there || r.result != "" })
			last := -1
			for i := range c.runs {
				if c.runs[i].start < c.recorded {
					last = i
				}
			}
			if (last < 0 || byRun) && c.recorded != noTime {
				// Nothing had come yet, or it is compared with that of the run.
				g := &p.threads[c.at.thread].groups[c.at.group]
				of := func(in instruction) bool { return in.Op == opCheck && in.Call == c.call }
				g.late, g.insts = slices.DeleteFunc(g.late, of), slices.DeleteFunc(g.insts, of)
			}
			for i, run := range c.runs {
				if run.there || !byRun && i == last {
					continue
				}
				reason := cmp.Or(run.result, "what that brought in this run was not recorded")
				p.found.unverified = unverified(p.found.unverified, run.call, fmt.Sprintf("its graph copies to the host by call %d: %s", c.call, reason))
			}
		}
	}
}
