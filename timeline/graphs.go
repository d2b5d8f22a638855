package timeline

import (
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// A GraphTask is a task of a graph. Its times mean nothing.
type GraphTask struct {
	Task
	// After are those that it comes after, by their places in the graph, where Nodes says that. Else it comes after those before it on its lane.
	After []int
	Nodes bool
	node  *Object   // that it is, nil where none is known
	parts []*Object // graphs that run before it where a condition says so
}

// maxGraph bounds the tasks of a graph: one that holds itself again and again grows without end.
const maxGraph = 1 << 20

// appendGraph appends all of another graph behind some tasks, and returns the last ones of it.
func appendGraph(to, from []GraphTask, behind []int) (all []GraphTask, ends []int) {
	if len(to)+len(from) > maxGraph {
		return to, behind
	}
	first := len(to)
	last := map[int]int{}         // by lane
	recorded := map[*Object]int{} // by event
	waited := map[int]bool{}
	for i := range from {
		t := from[i]
		t.node = nil
		var after []int
		switch r, ok := recorded[t.Object]; {
		case t.Nodes:
			for _, k := range t.After {
				after = append(after, first+k)
			}
		case ok && t.Kind == api.Wait:
			after = append(after, r)
			fallthrough
		default:
			if k, ok := last[t.Lane]; ok {
				after = append(after, k)
			}
			if last[t.Lane] = first + i; t.Kind == api.Record {
				recorded[t.Object] = first + i
			}
		}
		for _, k := range after {
			waited[k] = true
		}
		if len(after) == 0 {
			after = behind
		}
		t.After, t.Nodes = after, true
		to = append(to, t)
	}
	for k := first; k < len(to); k++ {
		if !waited[k] {
			ends = append(ends, k)
		}
	}
	if len(ends) == 0 {
		ends = behind
	}
	return to, ends
}

// compose follows what calls put into graphs as nodes, and which graphs are made of others.
func (w *Walk) compose(process uint32, e *Event) error {
	f := e.Fn
	var node *Object
	for _, u := range e.Uses {
		if u.Object.Kind != api.Node || u.Param >= len(f.Params) {
			continue
		}
		if role := f.Params[u.Param].Role; role == api.New || role == api.Use && f.Graph >= 0 {
			node = u.Object
		}
	}
	into, from := f.Graphs()
	if into < 0 {
		into, from = -1, -1
		for i := range f.Params {
			switch p := &f.Params[i]; {
			case p.Object == api.Graph && p.Role == api.New:
				into = i
			case p.Object == api.Graph && p.Role == api.Use && from < 0:
				from = i
			}
		}
		if into < 0 {
			into, from = from, -1
		}
	}
	graph, of := e.Captured, (*Object)(nil)
	if u, ok := e.Use(into); ok && graph == nil {
		graph = u.Object
	}
	for _, u := range e.Uses {
		if u.Param == from && u.Object.Kind == api.Graph && u.Object != graph && u.Object.Created != e.Call.Index {
			of = u.Object
		}
	}
	switch {
	case graph == nil || graph.Kind != api.Graph:
		return nil
	case node != nil:
		w.node(process, e, graph, node, of)
	case of != nil:
		w.graphs[graph] = w.instance(of)
	default:
		return nil
	}
	return w.v.Graph(graph, w.graphs[graph])
}

// node puts the task of a call into a graph, or in the place of the one that the node was.
func (w *Walk) node(process uint32, e *Event, graph, node, child *Object) {
	tasks := w.graphs[graph]
	c := e.Call
	t := Task{Call: c.Index, Index: -1, Fn: e.Fn, Kind: api.System, Process: process, Thread: c.Thread, Issued: c.Start, Returned: c.End} // for the order alone
	if e.Fn.Task != api.NoTask {
		w.task(process, e, &t)
	}
	if k := slices.IndexFunc(tasks, func(g GraphTask) bool { return g.node == node }); k >= 0 {
		if child == nil {
			tasks[k].Task = t
		}
		return
	}
	after := w.named(process, e, tasks)
	if child != nil {
		tasks, after = appendGraph(tasks, w.graphs[child], after)
	}
	tasks = append(tasks, GraphTask{Task: t, Nodes: true, After: after, node: node})
	for _, u := range e.Uses {
		if u.Object.Kind == api.Graph && u.Object.Created == e.Call.Index {
			tasks[len(tasks)-1].parts = append(tasks[len(tasks)-1].parts, u.Object)
		}
	}
	w.graphs[graph] = tasks
}

// named are the tasks of a graph that a call names by their nodes.
func (w *Walk) named(process uint32, e *Event, tasks []GraphTask) (at []int) {
	for i := range e.Fn.Params {
		if p := &e.Fn.Params[i]; p.Role != api.Uses || p.Object != api.Node {
			continue
		}
		b, _ := e.text(i)
		for ; len(b) >= 8; b = b[8:] {
			o := w.s.Known(process, api.Node, binary.LittleEndian.Uint64(b))
			if k := slices.IndexFunc(tasks, func(g GraphTask) bool { return o != nil && g.node == o }); k >= 0 {
				at = append(at, k)
			}
		}
	}
	return at
}

// instance is what another graph gets that is made of one: parts that a condition runs are in it once.
func (w *Walk) instance(of *Object) []GraphTask {
	from := w.graphs[of]
	to := make([]GraphTask, 0, len(from))
	at := make([]int, len(from)) // where each has come to
	for i := range from {
		t := from[i]
		t.After = nil
		for _, k := range from[i].After {
			t.After = append(t.After, at[k])
		}
		var ends []int
		for _, part := range t.parts {
			var last []int
			to, last = appendGraph(to, w.instance(part), t.After)
			ends = append(ends, last...)
			t.Object = part
		}
		if t.parts != nil {
			t.After, t.parts = ends, nil
		}
		at[i] = len(to)
		to = append(to, t)
	}
	return to
}
