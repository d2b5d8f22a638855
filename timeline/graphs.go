package timeline

import (
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

func newGraphs() *graphs {
	return &graphs{maxGraph, map[*Object]*graph{}, map[*Object]*node{}, map[*Object]tail{}, map[*Object]tail{}}
}

// Size returns how many tasks run with the graph, math.MaxUint64 if there are more.
func (g Graph) Size() uint64 { return g.g.size() }

// Tasks lists what runs with the graph, each task after those that it comes after. Of graphs that run graphs the list ends early where
// it would be much longer than the trace: it has fewer than Size tasks then.
func (g Graph) Tasks() []GraphTask { return g.g.tasks() }

func (g *graph) size() uint64 {
	if g.cut > 0 {
		return g.cut
	}
	total := uint64(0)
	for _, n := range g.nodes {
		total = sum(total, 1)
		for _, part := range n.inside() {
			total = sum(total, part.size())
		}
	}
	return total
}

// sum adds, and stays at the greatest number.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// Copies of graphs have their memory bounded by the length of the trace: all of them together may have maxGraph nodes, and copiesOf more for
// each node that a call has made. Graphs that run graphs twice double with every call.
const (
	maxGraph = 1 << 20
	copiesOf = 16
)

// changed has the visitor told anew of a graph, and of those that it is in.
func (g *graph) changed() {
	for ; g != nil; g = g.in {
		g.told = false
	}
}

// add gives a graph a node that a call has made.
func (x *graphs) add(g *graph, t *Task, behind tail) *node {
	x.room += copiesOf
	n := &node{graph: g, task: t, after: behind.nodes, lost: behind.lost}
	g.nodes = append(g.nodes, n)
	if g.cut > 0 {
		g.cut = sum(g.cut, 1)
	}
	g.changed()
	return n
}

// remove takes a node away, and with it what ties others to it.
func (g *graph) remove(n *node) {
	g.nodes = slices.DeleteFunc(g.nodes, func(k *node) bool { return k == n })
	for _, k := range g.nodes {
		k.drop(n)
	}
	g.changed()
}

// drop has a node no longer come behind another one. Others may share its list.
func (n *node) drop(before *node) {
	if i := slices.Index(n.after, before); i >= 0 {
		n.after = slices.Delete(slices.Clone(n.after), i, i+1)
	}
}

// inside are the graphs within a node.
func (n *node) inside() []*graph {
	if n.child != nil {
		return append([]*graph{n.child}, n.parts...)
	}
	return n.parts
}

// within gives a node what a graph has, to run as the node.
func (n *node) within(g *graph, room *int) {
	if g == nil {
		return
	}
	if n.child == nil {
		n.child = &graph{in: n.graph}
	}
	n.child.become(g, room)
}

// become makes a graph one like another. Where it had as many nodes, those go on as what they have become: whoever names one of the graph
// that they were made of means them.
func (g *graph) become(other *graph, room *int) {
	if g == other {
		return
	}
	were, known := g.nodes, g.copies
	*room += len(were)
	size := other.size() // before it changes, where it holds this one
	g.nodes, g.copies, g.cut = nil, map[*node]*node{}, 0
	for i, n := range other.nodes {
		if *room == 0 {
			g.cut = size
			break
		}
		*room--
		old := &node{}
		if len(were) == len(other.nodes) {
			old = were[i]
		}
		c := &node{graph: g, task: n.task, lost: n.lost, off: n.off, mark: n.mark}
		part := func(of, was *graph) *graph {
			if was == nil {
				was = &graph{handle: of.handle}
			}
			was.in = g
			was.become(of, room)
			if was.cut > 0 {
				g.cut = size
			}
			return was
		}
		if n.child != nil {
			c.child = part(n.child, old.child)
		}
		for k, p := range n.parts {
			var was *graph
			if k < len(old.parts) {
				was = old.parts[k]
			}
			c.parts = append(c.parts, part(p, was))
		}
		g.nodes, g.copies[n] = append(g.nodes, c), c
	}
	for _, n := range other.nodes {
		for _, a := range n.after {
			if c, to := g.copies[n], g.copies[a]; c != nil && to != nil {
				c.after = append(c.after, to)
			}
		}
	}
	if len(were) == len(g.nodes) {
		now := make(map[*node]*node, len(were))
		for i, n := range were {
			now[n] = g.nodes[i]
		}
		for of, n := range known {
			if g.copies[of] == nil && now[n] != nil {
				g.copies[of] = now[n]
			}
		}
	}
	g.changed()
}

// copied is what a node of the graph that this one was made of is here, nil where that is not known.
func (g *graph) copied(n *node) *node {
	if c := g.copies[n]; c != nil {
		return c
	}
	for _, k := range g.nodes {
		for _, p := range k.inside() {
			if c := p.copied(n); c != nil {
				return c
			}
		}
	}
	return nil
}

// apply follows a call that has succeeded.
func (x *graphs) apply(w *Walk, process uint32, e *Event) {
	f := e.Fn
	names := func(u Use) bool { return u.Object.Kind == api.Graph || u.Object.Kind == api.Node }
	if e.Captured == nil && (f.Task == api.GraphRun || f.Capture == api.NoCapture && f.Edit == api.NoEdit && !slices.ContainsFunc(e.Uses, names)) {
		return
	}
	// By their roles, the node that the call makes, is told, uses or ends; the graph that changes, that whose tasks it gets, the one that the call
	// makes or is told.
	nodes := map[api.Role]*Object{}
	var into, of, given *Object
	to, from := f.Graphs()
	for _, u := range e.Uses {
		role := f.Ret
		if u.Param < len(f.Params) {
			role = f.Params[u.Param].Role
		}
		switch {
		case u.Object.Kind == api.Node:
			nodes[role] = u.Object
		case u.Object.Kind != api.Graph:
		case u.Param == from && u.Object.Created != e.Call.Index:
			of = u.Object
		case role.Makes():
			given = u.Object
		case role == api.Use && into == nil && (to < 0 || u.Param == to):
			into = u.Object
		}
	}
	used := x.nodes[nodes[api.Use]]
	switch {
	case e.Captured != nil && e.Captured.Kind == api.Stream:
		x.capture(e, w.nodeTask(process, e))
	case f.Capture == api.CaptureBegin && e.Stream != nil:
		g := &graph{}
		if into != nil {
			g = x.graph(into)
		}
		x.of[e.Stream], x.tails[e.Stream] = g, x.tail(w, process, e, g)
	case f.Capture == api.CaptureEnd:
		if given == nil {
			given = into
		}
		x.captured(e.Stream, given)
	case f.Edit == api.Link, f.Edit == api.Unlink:
		x.link(w, process, e)
	case f.Edit == api.Follow:
		x.follow(w, process, e)
	case nodes[api.End] != nil:
		if n := x.nodes[nodes[api.End]]; n != nil {
			n.graph.remove(n)
			delete(x.nodes, n.handle)
		}
	case nodes[api.New] != nil && into != nil:
		g := x.graph(into)
		n := x.add(g, w.nodeTask(process, e), x.tail(w, process, e, g))
		x.name(nodes[api.New], n)
		n.within(x.of[of], &x.room)
		x.bodies(n, e)
	case f.Graph >= 0 || f.Edit == api.Enable:
		x.set(w, process, e, used, into, of)
	case nodes[api.Find] != nil && used != nil && into != nil:
		if c := x.graph(into).copied(used); c != nil {
			x.name(nodes[api.Find], c)
		}
	case given != nil && used != nil:
		if used.child != nil {
			x.hold(given, used.child)
		}
	case e.Stream != nil:
		x.tell(e, given)
	case given != nil && into != nil:
		x.graph(given).become(x.graph(into), &x.room)
	case of != nil && into != nil:
		x.graph(into).become(x.graph(of), &x.room)
	}
	for _, u := range e.Uses {
		if g := x.of[u.Object]; g != nil && u.Object.Ended == e.Call.Index {
			delete(x.of, u.Object)
			x.forget(g)
		}
	}
}

// name gives a node the handle that stands for it, hold a graph.
func (x *graphs) name(o *Object, n *node) { x.nodes[o], n.handle = n, o }

func (x *graphs) hold(o *Object, g *graph) {
	if o != nil && x.of[o] == nil {
		x.of[o], g.handle = g, o
	}
}

// graph is the one that a handle stands for.
func (x *graphs) graph(o *Object) *graph {
	if x.of[o] == nil {
		x.hold(o, &graph{})
	}
	return x.of[o]
}

// forget drops the handles of what is in a graph that is gone.
func (x *graphs) forget(g *graph) {
	x.room += len(g.nodes)
	for _, n := range g.nodes {
		delete(x.nodes, n.handle)
		for _, p := range n.inside() {
			if x.of[p.handle] == p {
				delete(x.of, p.handle)
			}
			x.forget(p)
		}
	}
}

// bodies takes note of the graphs that a call has made for its node, a condition.
func (x *graphs) bodies(n *node, e *Event) {
	for _, u := range e.Uses {
		if u.Object.Kind == api.Graph && u.Object.Created == e.Call.Index {
			g := x.graph(u.Object)
			g.in = n.graph
			n.parts = append(n.parts, g)
		}
	}
}

// capture puts the task of a call on a stream that is captured into its graph.
func (x *graphs) capture(e *Event, t *Task) {
	g := x.graph(e.Captured)
	behind := x.tails[e.Stream]
	if ev := x.events[t.Object]; t.Kind == api.Wait && ev.graph == g {
		behind.nodes, behind.lost = union(behind.nodes, ev.nodes), behind.lost || ev.lost
	}
	n := x.add(g, t, behind)
	n.mark = t.Kind == api.Record || t.Kind == api.Wait
	x.bodies(n, e)
	if t.Kind == api.GraphRun {
		n.within(x.of[t.Object], &x.room)
	}
	x.tails[e.Stream] = tail{graph: g, nodes: []*node{n}}
	if t.Kind == api.Record && t.Object != nil {
		x.events[t.Object] = x.tails[e.Stream]
	}
}

// captured ends the capture that a stream has begun, whose graph has a handle from here on.
func (x *graphs) captured(stream, as *Object) {
	g := x.of[stream]
	if g == nil {
		return
	}
	delete(x.of, stream)
	delete(x.tails, stream)
	x.hold(as, g)
	for o, other := range x.of {
		if other == g && o.Kind == api.Stream {
			return // it is captured into by that one too
		}
	}
	gone := func(_ *Object, t tail) bool { return t.graph == g }
	maps.DeleteFunc(x.tails, gone)
	maps.DeleteFunc(x.events, gone)
}

// tell takes the driver's word for the nodes that the next task of a stream comes behind. Some it names for the first time: those
// are the nodes that the capture has made.
func (x *graphs) tell(e *Event, as *Object) {
	t, ok := x.tails[e.Stream]
	if !ok {
		return
	}
	x.hold(as, t.graph)
	var told []*node
	var unknown []*Object
	for _, u := range e.Uses {
		switch n := x.nodes[u.Object]; {
		case u.Object.Kind != api.Node:
		case n != nil && n.graph == t.graph:
			told = append(told, n)
		default:
			unknown = append(unknown, u.Object)
		}
	}
	made := slices.DeleteFunc(seen(nil, t.nodes), func(n *node) bool { return n.handle != nil })
	for i, o := range unknown {
		var n *node
		if len(made) == len(unknown) {
			n = made[i]
		} else {
			n = x.add(t.graph, &Task{Index: -1, Fn: e.Fn, Call: e.Call.Index}, t)
		}
		x.name(o, n)
		told = append(told, n)
	}
	if len(told) > 0 {
		t.nodes, t.lost = told, false
		x.tails[e.Stream] = t
	}
}

// seen appends nodes as a driver has them: marks are none.
func seen(to, nodes []*node) []*node {
	for _, n := range nodes {
		if n.mark {
			to = seen(to, n.after)
		} else {
			to = union(to, []*node{n})
		}
	}
	return to
}

func union(a, b []*node) []*node {
	a = slices.Clip(a)
	for _, n := range b {
		if !slices.Contains(a, n) {
			a = append(a, n)
		}
	}
	return a
}

// follow changes what the next task of a stream comes behind.
func (x *graphs) follow(w *Walk, process uint32, e *Event) {
	was, ok := x.tails[e.Stream]
	if !ok {
		return
	}
	t := x.tail(w, process, e, was.graph)
	if alone := e.Call.Args[len(e.Call.Args)-1] != 0; !alone || t.lost {
		t.nodes, t.lost = union(was.nodes, t.nodes), t.lost || was.lost
	}
	x.tails[e.Stream] = t
}

// link puts nodes behind others, or takes that away.
func (x *graphs) link(w *Walk, process uint32, e *Event) {
	var ends [][]*node
	for i := range e.Fn.Params {
		if p := &e.Fn.Params[i]; p.Role == api.Uses && p.Object == api.Node {
			ends = append(ends, x.named(w, process, e, i))
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
			n.lost = n.lost || e.Fn.Edit == api.Link
		case e.Fn.Edit == api.Link:
			n.after = union(n.after, ends[0][i:i+1])
		default:
			n.drop(before)
		}
		if n != nil {
			n.graph.changed()
		}
	}
}

// set gives a node another task, or has it do nothing: in its own graph or in one that was made of that.
func (x *graphs) set(w *Walk, process uint32, e *Event, n *node, into, of *Object) {
	if g := x.of[into]; n != nil && g != nil && g != n.graph {
		n = g.copied(n)
	}
	switch {
	case n == nil:
		return
	case e.Fn.Edit == api.Enable:
		n.off = e.Call.Args[len(e.Call.Args)-1] == 0
	case of != nil:
		n.within(x.of[of], &x.room)
	default:
		n.task = w.nodeTask(process, e)
	}
	n.graph.changed()
}

// tail are the nodes of a graph that a call names as those to come behind.
func (x *graphs) tail(w *Walk, process uint32, e *Event, g *graph) tail {
	t := tail{graph: g}
	for i := range e.Fn.Params {
		for _, n := range x.named(w, process, e, i) {
			if n == nil || n.graph != g {
				t.lost = true
			} else {
				t.nodes = append(t.nodes, n)
			}
		}
	}
	return t
}

// named are the nodes of a list, nil for each that is not known.
func (x *graphs) named(w *Walk, process uint32, e *Event, param int) (nodes []*node) {
	p := &e.Fn.Params[param]
	if size, _ := p.Size.Bytes(e.Fn, e.Call.Args); p.Role != api.Uses || p.Object != api.Node || size == 0 || e.Call.Args[p.Word] == 0 {
		return nil
	}
	b, ok := e.text(param)
	for i := range e.Call.Data {
		if d := &e.Call.Data[i]; !ok && int(d.Param) == param && d.Item == 0 && d.Status == format.Whole && w.Reader != nil {
			b, _ = w.Reader.Blob(d.Blob)
		}
	}
	if len(b) < 8 {
		return []*node{nil}
	}
	for ; len(b) >= 8; b = b[8:] {
		nodes = append(nodes, x.nodes[w.s.Known(process, api.Node, word(b[:8]))])
	}
	return nodes
}

// tasks lists what runs with a graph, each behind what it comes after.
func (g *graph) tasks() []GraphTask {
	var l lister
	l.add(g, nil)
	return l
}

type lister []GraphTask

// add appends all of a graph behind some tasks, and returns its last ones.
func (l *lister) add(g *graph, behind []int) (ends []int) {
	at, waited := make(map[*node]int, len(g.nodes)), map[*node]bool{}
	var put func(n *node)
	put = func(n *node) {
		if _, known := at[n]; known || len(*l) == maxGraph {
			return
		}
		at[n] = -1 // while what comes before it is put there
		var after []int
		for _, a := range n.after {
			put(a)
			if k, ok := at[a]; ok && k >= 0 {
				after = append(after, k)
				waited[a] = true
			}
		}
		if len(after) == 0 {
			after = behind
		}
		t := GraphTask{Task: *n.task, Lost: n.lost}
		if n.off || n.child != nil {
			t.Kind = api.NoTask
		}
		if n.child != nil {
			after = l.add(n.child, after)
		}
		var parts []int
		for _, p := range n.parts {
			parts = append(parts, l.add(p, after)...)
			t.Object = p.handle
		}
		if t.After = after; n.parts != nil {
			t.After = parts
		}
		at[n] = len(*l)
		*l = append(*l, t)
	}
	for _, n := range g.nodes {
		put(n)
	}
	for _, n := range g.nodes {
		if k, ok := at[n]; ok && !waited[n] {
			ends = append(ends, k)
		}
	}
	if len(ends) == 0 {
		return behind
	}
	return ends
}
