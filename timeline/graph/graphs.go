package graph

import (
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// A Call has the facts about a call that graphs depend on.
type Call[K comparable] struct {
	Fn       *api.Func
	Index    uint64
	Uses     []Use[K]
	Stream   K    // that the call names
	Captured K    // graph that takes the call's task, or stream that began the capture, or task group
	ByStream bool // Captured is a stream
	Part     Part
	Event    K // that the call records or awaits
	Last     uint64
	// Nodes returns the nodes that a parameter lists, none for an unknown one.
	Nodes func(param int) []K
}

// A Use is an object that a call names.
type Use[K comparable] struct {
	Param       int
	Key         K
	Kind        api.Object
	Made, Ended bool // by this call
}

// Graphs follows the content of all graphs.
//
// Memory of copies is bounded by the length of the trace: all copies together may have maxNodes nodes, and copiesOf more for each node that a call
// has made. Graphs that run other graphs twice would double with every call.
type Graphs[K comparable, T any] struct {
	// Similar reports whether a graph does not count as changed when an update of a task group replaces a task. It may be nil.
	Similar func(old, task T) bool

	room    int                    // nodes that copies may still have
	of      map[K]*Graph[K, T]     // by graph, and by stream that has begun a capture
	streams map[K]bool             // that have begun a capture
	nodes   map[K]*Node[K, T]      // by handle
	tails   map[K]tail[K, T]       // by stream in a capture
	events  map[K]tail[K, T]       // by event that was recorded last in a capture
	members map[uint64]*Node[K, T] // of task groups, by call
	none    K
}

const (
	maxNodes = 1 << 18
	copiesOf = 16
)

// A tail is the set of nodes that the next task of a capture comes after.
type tail[K comparable, T any] struct {
	graph *Graph[K, T]
	nodes []*Node[K, T]
	lost  bool // and after unknown nodes
}

// New returns Graphs before the first call.
func New[K comparable, T any]() *Graphs[K, T] {
	return &Graphs[K, T]{
		room: maxNodes, of: map[K]*Graph[K, T]{}, streams: map[K]bool{}, nodes: map[K]*Node[K, T]{}, tails: map[K]tail[K, T]{}, events: map[K]tail[K, T]{},
		members: map[uint64]*Node[K, T]{},
	}
}

// Known returns a graph, nil if no call has shown any nodes.
func (x *Graphs[K, T]) Known(k K) *Graph[K, T] { return x.of[k] }

// Changed returns a graph if it has changed since the last Changed, otherwise nil.
func (x *Graphs[K, T]) Changed(k K) *Graph[K, T] {
	g := x.of[k]
	if g == nil || g.shown {
		return nil
	}
	g.shown = true
	return g
}

// Add adds a value to a graph as a node without a handle and without order.
func (x *Graphs[K, T]) Add(k K, task T) { x.add(x.graph(k), task, tail[K, T]{}) }

// add adds a node that a call has made.
func (x *Graphs[K, T]) add(g *Graph[K, T], task T, after tail[K, T]) *Node[K, T] {
	x.room += copiesOf
	n := &Node[K, T]{graph: g, task: task, after: after.nodes, lost: after.lost}
	g.nodes = append(g.nodes, n)
	if g.cut > 0 {
		g.cut = sum(g.cut, 1)
	}
	g.changed()
	return n
}

// name gives a node a handle.
func (x *Graphs[K, T]) name(k K, n *Node[K, T]) { x.nodes[k], n.handle = n, k }

// hold gives a graph a handle, unless the handle has a graph already.
func (x *Graphs[K, T]) hold(k K, g *Graph[K, T]) {
	if k != x.none && x.of[k] == nil {
		x.of[k], g.handle = g, k
	}
}

// graph returns the graph for a handle.
func (x *Graphs[K, T]) graph(k K) *Graph[K, T] {
	if x.of[k] == nil {
		x.hold(k, &Graph[K, T]{})
	}
	return x.of[k]
}

// forget drops the handles in a graph that has ended.
func (x *Graphs[K, T]) forget(g *Graph[K, T]) {
	x.room += len(g.nodes)
	for _, n := range g.nodes {
		delete(x.nodes, n.handle)
		if n.member {
			delete(x.members, n.call)
		}
		for _, p := range n.inside() {
			if x.of[p.handle] == p {
				delete(x.of, p.handle)
			}
			x.forget(p)
		}
	}
}

// roles are the objects in a call by their part in it.
type roles[K comparable] struct {
	nodes map[api.Role]K // by role: the node that the call makes, finds, uses or ends
	into  K              // graph that changes
	from  K              // graph whose tasks it gets
	given K              // graph that the call makes or finds
}

func (x *Graphs[K, T]) roles(c *Call[K]) roles[K] {
	r := roles[K]{nodes: map[api.Role]K{}}
	to, from := c.Fn.Graphs()
	for _, u := range c.Uses {
		role := c.Fn.Ret
		if u.Param < len(c.Fn.Params) {
			role = c.Fn.Params[u.Param].Role
		}
		switch {
		case u.Kind == api.Node:
			r.nodes[role] = u.Key
		case u.Kind != api.Graph:
		case u.Param == from && !u.Made:
			r.from = u.Key
		case role.Makes():
			r.given = u.Key
		case role == api.Use && r.into == x.none && (to < 0 || u.Param == to):
			r.into = u.Key
		}
	}
	return r
}

// Apply follows a call that has succeeded. It calls task if the call makes a node or gives one another task.
func (x *Graphs[K, T]) Apply(c *Call[K], task func() T) {
	f, none := c.Fn, x.none
	r := x.roles(c)
	node := func(role api.Role) *Node[K, T] {
		if k, ok := r.nodes[role]; ok {
			return x.nodes[k]
		}
		return nil
	}
	used, made := node(api.Use), r.nodes[api.New]
	switch {
	case c.Part.Update:
		x.update(c, task)
	case c.ByStream:
		x.capture(c, task())
	case f.Capture == api.CaptureBegin && c.Stream != none:
		g := &Graph[K, T]{}
		if r.into != none {
			g = x.graph(r.into)
		}
		x.of[c.Stream], x.streams[c.Stream], x.tails[c.Stream] = g, true, x.tail(c, g)
	case f.Capture == api.CaptureEnd:
		if r.given == none {
			r.given = r.into
		}
		x.captured(c.Stream, r.given)
	case f.Edit == api.Link, f.Edit == api.Unlink:
		x.link(c)
	case f.Edit == api.Follow:
		x.follow(c)
	case r.nodes[api.End] != none:
		if n := node(api.End); n != nil {
			n.graph.remove(n)
			delete(x.nodes, n.handle)
		}
	case made != none && r.into != none:
		g := x.graph(r.into)
		n := x.add(g, task(), x.tail(c, g))
		x.name(made, n)
		n.run(x.of[r.from], &x.room)
		x.conditions(n, c)
	case f.Graph >= 0 || f.Edit == api.Enable:
		x.set(c, used, r.into, r.from, task)
	case r.nodes[api.Find] != none && used != nil && r.into != none:
		if n := x.graph(r.into).copied(used); n != nil {
			x.name(r.nodes[api.Find], n)
		}
	case r.given != none && used != nil:
		if used.child != nil {
			x.hold(r.given, used.child)
		}
	case c.Stream != none:
		x.queried(c, r.given, task)
	case r.given != none && r.into != none:
		x.graph(r.given).become(x.graph(r.into), &x.room)
	case r.from != none && r.into != none:
		x.graph(r.into).become(x.graph(r.from), &x.room)
	}
	for _, u := range c.Uses {
		if g := x.of[u.Key]; g != nil && u.Ended {
			delete(x.of, u.Key)
			x.forget(g)
		}
	}
}

// conditions adds to a node the graphs that the call has made for it, which it runs if a condition holds.
func (x *Graphs[K, T]) conditions(n *Node[K, T], c *Call[K]) {
	for _, u := range c.Uses {
		if u.Kind == api.Graph && u.Made {
			g := x.graph(u.Key)
			g.in = n.graph
			n.parts = append(n.parts, g)
		}
	}
}

// object returns the object of a call's task: the event that it records or awaits, or the graph that it runs.
func (c *Call[K]) object() (k K) {
	if c.Fn.Task == api.GraphRun {
		for _, u := range c.Uses {
			if u.Kind == api.Graph {
				k = u.Key
			}
		}
	}
	var none K
	if c.Event != none {
		return c.Event
	}
	return k
}

// capture adds the task of a call on a captured stream to the capture's graph.
func (x *Graphs[K, T]) capture(c *Call[K], task T) {
	g, kind, object := x.graph(c.Captured), c.Fn.Task, c.object()
	after := x.tails[c.Stream]
	if ev := x.events[object]; kind == api.Wait && ev.graph == g {
		after.nodes, after.lost = union(after.nodes, ev.nodes), after.lost || ev.lost
	}
	n := x.add(g, task, after)
	if c.Part.Member {
		n.member, n.call = true, c.Index
		x.members[c.Index] = n
	}
	n.mark = kind == api.Record || kind == api.Wait
	x.conditions(n, c)
	if kind == api.GraphRun {
		n.run(x.of[object], &x.room)
	}
	x.tails[c.Stream] = tail[K, T]{graph: g, nodes: []*Node[K, T]{n}}
	if kind == api.Record && object != x.none {
		x.events[object] = x.tails[c.Stream]
	}
}

// update gives a member of a task group another task.
func (x *Graphs[K, T]) update(c *Call[K], task func() T) {
	n := x.members[c.Part.Of]
	if n == nil {
		return
	}
	old := n.task
	n.task = task()
	if x.Similar == nil || !x.Similar(old, n.task) {
		n.graph.changed()
	}
}

// captured ends a stream's capture. Its graph gets the handle as.
func (x *Graphs[K, T]) captured(stream, as K) {
	g := x.of[stream]
	if g == nil {
		return
	}
	delete(x.of, stream)
	delete(x.streams, stream)
	delete(x.tails, stream)
	x.hold(as, g)
	for s := range x.streams {
		if x.of[s] == g {
			return // another stream is still captured into the graph
		}
	}
	gone := func(_ K, t tail[K, T]) bool { return t.graph == g }
	maps.DeleteFunc(x.tails, gone)
	maps.DeleteFunc(x.events, gone)
}

// queried takes the nodes that a stream's next task comes after from the driver's output. Handles that are new belong to the nodes that
// the capture has made.
func (x *Graphs[K, T]) queried(c *Call[K], as K, task func() T) {
	t, ok := x.tails[c.Stream]
	if !ok {
		return
	}
	x.hold(as, t.graph)
	var nodes []*Node[K, T]
	var unknown []K
	for _, u := range c.Uses {
		switch n := x.nodes[u.Key]; {
		case u.Kind != api.Node:
		case n != nil && n.graph == t.graph:
			nodes = append(nodes, n)
		default:
			unknown = append(unknown, u.Key)
		}
	}
	made := slices.DeleteFunc(withoutMarks(nil, t.nodes), func(n *Node[K, T]) bool { return n.handle != x.none })
	for i, k := range unknown {
		var n *Node[K, T]
		if len(made) == len(unknown) {
			n = made[i]
		} else {
			n = x.add(t.graph, task(), t)
		}
		x.name(k, n)
		nodes = append(nodes, n)
	}
	if len(nodes) > 0 {
		t.nodes, t.lost = nodes, false
		x.tails[c.Stream] = t
	}
}

// withoutMarks appends nodes as the driver knows them: a mark is replaced by the nodes before it.
func withoutMarks[K comparable, T any](to, nodes []*Node[K, T]) []*Node[K, T] {
	for _, n := range nodes {
		if n.mark {
			to = withoutMarks(to, n.after)
		} else {
			to = union(to, []*Node[K, T]{n})
		}
	}
	return to
}

func union[K comparable, T any](a, b []*Node[K, T]) []*Node[K, T] {
	a = slices.Clip(a)
	for _, n := range b {
		if !slices.Contains(a, n) {
			a = append(a, n)
		}
	}
	return a
}

// follow changes the nodes that a stream's next task comes after.
func (x *Graphs[K, T]) follow(c *Call[K]) {
	was, ok := x.tails[c.Stream]
	if !ok {
		return
	}
	t := x.tail(c, was.graph)
	if alone := c.Last != 0; !alone || t.lost {
		t.nodes, t.lost = union(was.nodes, t.nodes), t.lost || was.lost
	}
	x.tails[c.Stream] = t
}

// link adds or removes edges between nodes.
func (x *Graphs[K, T]) link(c *Call[K]) {
	var ends [][]*Node[K, T]
	for i := range c.Fn.Params {
		if p := &c.Fn.Params[i]; p.Role == api.Uses && p.Object == api.Node {
			ends = append(ends, x.listed(c, i))
		}
	}
	if len(ends) != 2 {
		return
	}
	for i := range min(len(ends[0]), len(ends[1])) {
		before, n := ends[0][i], ends[1][i]
		switch {
		case n == nil:
		case before == nil || before.graph != n.graph:
			n.lost = n.lost || c.Fn.Edit == api.Link
		case c.Fn.Edit == api.Link:
			n.after = union(n.after, ends[0][i:i+1])
		default:
			n.drop(before)
		}
		if n != nil {
			n.graph.changed()
		}
	}
}

// set gives a node another task, or enables or disables it: in its own graph, or in a copy.
func (x *Graphs[K, T]) set(c *Call[K], n *Node[K, T], into, from K, task func() T) {
	if g := x.of[into]; n != nil && g != nil && g != n.graph {
		n = g.copied(n)
	}
	switch {
	case n == nil:
		return
	case c.Fn.Edit == api.Enable:
		n.off = c.Last == 0
	case from != x.none:
		n.run(x.of[from], &x.room)
	default:
		n.task = task()
	}
	n.graph.changed()
}

// tail returns the nodes in a graph that a call lists as those to come after.
func (x *Graphs[K, T]) tail(c *Call[K], g *Graph[K, T]) tail[K, T] {
	t := tail[K, T]{graph: g}
	for i := range c.Fn.Params {
		for _, n := range x.listed(c, i) {
			if n == nil || n.graph != g {
				t.lost = true
			} else {
				t.nodes = append(t.nodes, n)
			}
		}
	}
	return t
}

// listed returns the nodes that a parameter lists, nil for each unknown one.
func (x *Graphs[K, T]) listed(c *Call[K], param int) (nodes []*Node[K, T]) {
	for _, k := range c.Nodes(param) {
		nodes = append(nodes, x.nodes[k])
	}
	return nodes
}
