package compile

import (
	"slices"

	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// graphs knows the captured and the built graphs of the trace.
type graphs struct {
	captures  map[*timeline.Object]*capture         // by graph; before the capture ends by the stream that began it
	owners    map[*timeline.Object]*capture         // by node
	originals map[*timeline.Object]*timeline.Object // of nodes that were found in clones
	copies    []*graphCopy                          // of all graphs
	owns      map[ownKey]*own
	once      map[uint64][]place // by captured copy: the comparisons of its one recorded result, by thread and instruction
}

// locate notes where comparisons of captured copies are written: instructions of a thread from a number on.
func (g *graphs) locate(thread, first int, insts []plan.Instruction) {
	if len(g.once) == 0 {
		return
	}
	for i := range insts {
		in := &insts[i]
		if at, ok := g.once[in.Call]; ok && in.Op == plan.OpCheck {
			g.once[in.Call] = append(at, place{thread, first + i})
		}
	}
}

func newGraphs() graphs {
	return graphs{
		captures: map[*timeline.Object]*capture{}, owners: map[*timeline.Object]*capture{},
		originals: map[*timeline.Object]*timeline.Object{}, owns: map[ownKey]*own{}, once: map[uint64][]place{},
	}
}

// capture is what a graph has that a replay must look after, or a stream's capture that becomes one.
type capture struct {
	copies  []*graphCopy
	sources []*graphSource
	hosts   []*hostLaunch
	inner   []subgraph
}

// subgraph is a graph within another one.
type subgraph struct {
	node  *timeline.Object // that runs it, nil for one that a stream's capture was to run
	graph *capture
	maybe bool // as often as a condition says, which nothing tells
}

// graphCopy is a copy to the host that was captured into a graph. It brings a result each time that the graph runs. A recording has the
// results of each run that the program has waited for, by the number of the copy among those of the graph (as items of the call that
// runs it), or what lay there at one moment, when the program had waited for the copy's stream the first time.
type graphCopy struct {
	call     uint64
	node     *timeline.Object // that makes it, nil where a capture has put it there
	to       plan.Operand
	addr     uint64 // as recorded
	size     rows
	at       place // behind which what lay there at one moment is compared
	recorded int64 // when that was, noTime for never
	runs     []graphRun
}

// graphSource is host memory that a graph copies from at each run. The program may have changed it since the run before without a call, so
// a recording has its content of each run, as an item of the call that runs the graph. Recordings before format 1.1 do not.
type graphSource struct {
	call uint64
	node *timeline.Object // as in graphCopy
	op   plan.Operand
	addr uint64 // as recorded
	size rows

	unknown bool // it is marked
}

type graphRun struct {
	call   uint64
	start  int64
	maybe  bool   // the copy may not have been made
	result string // why it can't be compared
	there  bool   // it is in the recording, and compared
}

const noTime = -1 << 63

// captureOf is the capture that a stream has begun, or what a graph came of.
func (p *compiler) captureOf(o *timeline.Object) *capture {
	c := p.graphs.captures[o]
	if c == nil {
		c = &capture{}
		p.graphs.captures[o] = c
	}
	return c
}

// replace puts a copy in the place of what its node made before.
func (c *capture) replace(g *graphCopy) bool {
	if i := slices.IndexFunc(c.copies, func(old *graphCopy) bool { return old.node == g.node }); i >= 0 {
		c.copies[i] = g
		return true
	}
	return slices.ContainsFunc(c.inner, func(in subgraph) bool { return in.graph.replace(g) })
}

// drop takes away what a node does, but for what a call has it do from now on.
func (c *capture) drop(node *timeline.Object, but uint64) {
	c.copies = slices.DeleteFunc(c.copies, func(g *graphCopy) bool { return g.node == node && g.call != but })
	c.sources = slices.DeleteFunc(c.sources, func(g *graphSource) bool { return g.node == node && g.call != but })
	c.inner = slices.DeleteFunc(c.inner, func(in subgraph) bool { return in.node == node })
	for _, in := range c.inner {
		in.graph.drop(node, but)
	}
}

// add gives a capture what another one has, as it is now.
func (c *capture) add(of *capture) {
	c.copies, c.sources, c.hosts = append(c.copies, of.copies...), append(c.sources, of.sources...), append(c.hosts, of.hosts...)
	for _, in := range of.inner {
		n := &capture{}
		n.add(in.graph)
		c.inner = append(c.inner, subgraph{in.node, n, in.maybe})
	}
}

// holds reports whether another one is in a capture, or is it.
func (c *capture) holds(other *capture) bool {
	return c == other || slices.ContainsFunc(c.inner, func(in subgraph) bool { return in.graph.holds(other) })
}

// put has a graph run in another one. None runs in itself, whatever a trace says.
func (c *capture) put(in subgraph) {
	if !in.graph.holds(c) {
		c.inner = append(c.inner, in)
	}
}

// count is how much a graph has, with what runs in it.
func (c *capture) count() int {
	n := 1
	c.each(false, func(c *capture, _ bool) { n += len(c.copies) + len(c.sources) + len(c.hosts) + len(c.inner) })
	return n
}

// maxGraph bounds what a graph has: one that holds itself again and again grows without end.
const maxGraph = 1 << 20

// each visits what a graph has, and whether that may not be done in a run of it.
func (c *capture) each(maybe bool, visit func(*capture, bool)) {
	visit(c, maybe)
	for _, in := range c.inner {
		in.graph.each(maybe || in.maybe, visit)
	}
}

// shift is from where to where the replay has moved the memory.
func (c *graphCopy) shift() plan.Operand {
	return plan.Operand{Slot: c.to.Slot, Addend: c.to.Addend - c.addr}
}

// hostLaunch is a call that has a stream call a function of the program's.
type hostLaunch struct {
	call uint64
	key  ownKey
	ops  uint32  // the operand that says how long the stub takes
	fate int     // index into findings.host
	runs []int64 // nanoseconds
	want int     // runs that there were, as far as the calls tell
}

// ownKey is a function of the program's with what it is given.
type ownKey struct {
	process  uint32
	fn, data uint64
}

// own is what the trace tells of such a function, in the order of time: the calls by which a stream was to run it, and how long it ran.
type own struct {
	asked []*hostLaunch
	took  []int64 // nanoseconds
}
