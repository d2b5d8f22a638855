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
)

// target is what the call at hand puts its task into.
func (p *callCompiler) target() *capture {
	if c := p.graphs.owners[p.e.Captured]; c != nil {
		return c // of a node that was found there
	}
	return p.captureOf(p.e.Captured)
}

// capture keeps in mind that the call at hand puts a copy to the host into a graph.
func (p *callCompiler) capture(g graphCopy) {
	g.call = p.c.Index
	p.graphs.copies = append(p.graphs.copies, &g)
	if g.recorded != noTime {
		p.graphs.once[g.call] = nil
	}
	c := p.target()
	if g.node = p.node(); g.node == nil || !c.replace(&g) {
		c.copies = append(c.copies, &g)
	}
}

// captureSource notes that the current call puts a copy from host memory into a graph.
func (p *callCompiler) captureSource(g graphSource) {
	c := p.target()
	g.call, g.node = p.c.Index, p.node()
	c.sources = append(c.sources, &g)
}

// node is the node that the call at hand makes or sets anew, nil for none. One of a clone is what it is there for.
func (p *callCompiler) node() *timeline.Object {
	for i := range p.f.Params {
		if u, ok := p.e.Use(i); ok && u.Object.Kind == api.Node && p.f.Params[i].Role != api.Uses {
			return p.original(u.Object)
		}
	}
	return nil
}

// graph follows what becomes of captures.
func (p *callCompiler) graph() error {
	switch {
	case !p.ok:
	case p.f.Graph >= 0 && p.e.Captured != nil:
		p.nodes()
	case p.f.Capture == api.CaptureEnd:
		if graph := p.graphUsed(); graph != nil {
			c, of := p.captureOf(graph), p.captureOf(p.e.Stream)
			c.copies, c.sources, c.hosts = append(c.copies, of.copies...), append(c.sources, of.sources...), append(c.hosts, of.hosts...)
			for _, in := range of.inner {
				c.put(in)
			}
			delete(p.graphs.captures, p.e.Stream)
		}
	case p.f.Task == api.GraphRun:
		if graph := p.graphUsed(); graph != nil {
			return p.followRun(p.captureOf(graph))
		}
	case p.e.Captured != nil:
		p.conditions(nil)
	case p.f.Capture == api.NoCapture && p.facts(p.f).graphs:
		p.inherits()
		p.finds()
	}
	return nil
}

func (p *callCompiler) graphUsed() *timeline.Object {
	for _, u := range p.e.Uses {
		if u.Object.Kind == api.Graph {
			return u.Object
		}
	}
	return nil
}

// nodes follows a call that puts a node into a graph, or sets one anew.
func (p *callCompiler) nodes() {
	c, node := p.target(), p.node()
	if node == nil {
		return
	}
	if p.f.Params[p.f.Graph].Object == api.Graph && p.graphs.owners[node] == nil {
		p.graphs.owners[node] = c
	}
	if p.f.Task == api.Copy || p.f.Task == api.System {
		c.drop(node, p.c.Index)
	}
	if into, from := p.f.Graphs(); into >= 0 && from >= 0 {
		if of, known := p.e.Use(from); known {
			if c.count()+p.captureOf(of.Object).count() > maxGraph {
				p.cant = "its graph has grown too large"
				return
			}
			n := &capture{}
			n.add(p.captureOf(of.Object))
			c.put(subgraph{node, n, false})
		}
	}
	p.conditions(node)
}

// conditions follows a call that makes graphs which run as parts of another when a condition says so.
func (p *callCompiler) conditions(node *timeline.Object) {
	for i := range p.f.Params {
		if !p.f.Params[i].Inside() {
			continue
		}
		for _, u := range p.e.Uses {
			if u.Param == i && u.Object.Kind == api.Graph {
				p.target().put(subgraph{node, p.captureOf(u.Object), true})
			}
		}
	}
}

// inherits follows what graphs are made of, or become anew.
func (p *callCompiler) inherits() {
	into, from := p.f.Graphs()
	if into < 0 {
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
	if made && known && to.Object != of.Object {
		c := p.captureOf(to.Object)
		*c = capture{}
		c.add(p.captureOf(of.Object))
	}
}

// finds follows calls that end nodes, find the one of a clone by the one that it was made of, or the graph that a node runs.
func (p *callCompiler) finds() {
	var graph, node, found *timeline.Object
	for i := range p.f.Params {
		u, ok := p.e.Use(i)
		if !ok {
			continue
		}
		switch q := &p.f.Params[i]; {
		case q.Object == api.Node && q.Role == api.End:
			if c := p.graphs.owners[u.Object]; c != nil {
				c.drop(p.original(u.Object), timeline.NoCall)
			}
		case q.Object == api.Node && q.Role == api.Use:
			node = u.Object
		case q.Object == api.Graph && q.Role == api.Use:
			graph = u.Object
		case (q.Object == api.Node || q.Object == api.Graph) && q.Role == api.Find:
			found = u.Object
		}
	}
	switch {
	case node == nil || found == nil || found == node:
	case found.Kind == api.Node && graph != nil:
		p.graphs.owners[found], p.graphs.originals[found] = p.captureOf(graph), p.original(node)
	case found.Kind == api.Graph && p.graphs.captures[found] == nil:
		if c := p.graphs.owners[node]; c != nil {
			if i := slices.IndexFunc(c.inner, func(in subgraph) bool { return in.node == p.original(node) && !in.maybe }); i >= 0 {
				p.graphs.captures[found] = c.inner[i].graph
			}
		}
	}
}

// original is the node that one of a clone was made of.
func (p *compiler) original(node *timeline.Object) *timeline.Object {
	if o := p.graphs.originals[node]; o != nil {
		return o
	}
	return node
}

// followRun follows a run of a graph: what it copies to one piece of memory is compared once.
func (p *callCompiler) followRun(graph *capture) error {
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
	if err := p.sources(graph); err != nil {
		return err
	}
	graph.each(false, func(c *capture, maybe bool) {
		for _, l := range c.hosts {
			if !maybe {
				p.ask(l)
			}
		}
		for _, g := range c.copies {
			k := key{g.to, g.addr, g.size}
			if i, ok := index[k]; ok {
				all[i].maybe = all[i].maybe && maybe
				continue
			}
			index[k] = len(all)
			all = append(all, copied{g, maybe})
		}
	})
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
		run := graphRun{call: p.c.Index, start: p.c.Start, maybe: c.maybe}
		p.orderAfterReaders(c.addr, c.addr+c.size.span())
		f := inFlightCopy{shift: c.shift(), sure: !c.maybe}
		switch {
		case apart[c.graphCopy]:
			run.result = "another copy of its graph comes to some of the same memory, which no call has allocated"
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

// sources stores what the host memory that a graph copies from held at the current run of it. If the trace lacks that, what depends on it
// is unproved.
func (p *callCompiler) sources(graph *capture) error {
	type key struct {
		op  plan.Operand
		len uint64
	}
	done := map[key]bool{}
	var failed error
	graph.each(false, func(c *capture, _ bool) {
		for _, g := range c.sources {
			k := key{g.op, g.size.len}
			if done[k] || failed != nil {
				continue
			}
			done[k] = true
			o, off := p.hostAt(g.addr)
			if p.inFlight(o, off, off+g.size.span()) {
				continue // a copy from the device is on its way there again
			}
			d := p.pieceAt(g.addr, g.size.len, format.DirIn)
			if d == nil || d.Status != format.Whole {
				if p.o.Compare {
					g.unknown = true
					p.because(verify.Managed, fmt.Sprintf("the graph of call %d copies from host memory of %s that the program may write without a call, and the trace lacks its content at that run", p.c.Index, memoryOf(o)))
					p.unknown(g.op, g.size.span(), verify.Managed)
				}
				continue
			}
			was := *d
			was.Dir = format.DirOut // no argument of the call
			from, relocs, err := p.content(&was, true)
			if err != nil {
				failed = err
				return
			}
			p.store(g.op, from, relocs, g.size)
			if g.unknown || p.pointers.zeroed[o] {
				g.unknown = false
				p.before = append(p.before, p.mark(g.op, g.size.span(), ""))
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

// pieceAt is what the call at hand, a run of a graph, has found or left at an address.
func (p *callCompiler) pieceAt(addr, size uint64, dir format.Dir) *format.Data {
	for k := range p.pieces {
		if d := &p.pieces[k]; d.Dir == dir && d.Item > 0 && d.Addr == addr && d.Len == size {
			return d
		}
	}
	return nil
}

// laidBefore puts where a copy goes what the program had there before the call at hand, since nothing tells whether the copy was made: what lies
// there afterwards is compared, whichever it was. It returns why that can't be, "" for nothing.
func (p *callCompiler) laidBefore(c *graphCopy) (string, error) {
	o, off := p.hostAt(c.addr)
	under, covered := false, false
	for _, f := range p.flights(o) {
		if f.off < off+c.size.span() && off < f.end {
			under = true
			if !f.sure || f.shift != c.shift() {
				return "whether its part ran can't be told: a copy to the same memory was under way", nil
			}
			covered = covered || f.off <= off && off+c.size.span() <= f.end
		}
	}
	d := p.pieceAt(c.addr, c.size.len, format.DirIn)
	switch {
	case covered:
		return "", nil // it comes there again
	case under:
		return "whether its part ran can't be told: a copy to some of the same memory was under way", nil
	case d == nil || d.Status != format.Whole:
		return "whether its part ran can't be told: what lay there before is not in the trace", nil
	}
	was := *d
	was.Dir = format.DirOut // no argument of the call
	from, relocs, err := p.content(&was, true)
	if err != nil {
		return "", err
	}
	p.store(c.to, from, relocs, c.size)
	return "", nil
}

// graphResult has what a run of a graph has brought to the host compared.
func (p *callCompiler) graphResult(c *graphCopy, run *graphRun, d *format.Data) error {
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
	in := p.checkInstruction(int(d.Param), c.to, from.Addend, relocs, c.size, plan.CheckResult)
	in.RetSlot = d.Item
	p.afterGap(&in, d.Time)
	p.compareAt(at, []plan.Instruction{in})
	p.arrives(d, at, c.size)
	run.there = true
	return nil
}

// graphResults lists what runs of graphs have brought to the host and the recording does not have. Where it has none of a copy's results
// by run, what lay there at one moment is compared behind the run that had brought it.
func (p *compiler) graphResults() {
	for _, c := range p.graphs.copies {
		byRun := slices.ContainsFunc(c.runs, func(r graphRun) bool { return r.there || r.result != "" })
		last := -1 // the run that had brought what lay there at one moment
		for i := range c.runs {
			if c.runs[i].start < c.recorded {
				last = i
			}
		}
		if byRun || last >= 0 && c.runs[last].maybe {
			last = -1
		}
		if last < 0 && c.recorded != noTime {
			// Nothing had come yet, or it is compared with that of the run, or nothing tells whether it is that of the run.
			for _, at := range p.graphs.once[c.call] {
				p.Threads[at.thread].out.Set(at.group, plan.Instruction{Op: plan.OpNothing, Call: c.call})
			}
		}
		for i, run := range c.runs {
			if run.there || i == last {
				continue
			}
			reason := cmp.Or(run.result, "what that brought in this run was not recorded")
			p.Found.Unverified = AddUnverified(p.Found.Unverified, run.call, verify.NotRecorded, fmt.Sprintf("its graph copies to the host by call %d: %s", c.call, reason))
		}
	}
}
