package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/graph"
)

// A GraphTask is a task of a graph. Its times mean nothing.
type GraphTask struct {
	Task        // Kind is api.NoTask if the node does nothing itself; Object of a condition is the graph that it runs
	After []int // indices of the tasks that precede it
	Lost  bool  // unknown tasks precede it too
}

// A Graph is the content of a graph at a moment of a Walk. It is valid until the Visitor's function returns. Its tasks may be kept.
type Graph struct {
	g *graph.Graph[*Object, *Task]
}

// Size returns the number of tasks that run with the graph, math.MaxUint64 if there are more.
func (g Graph) Size() uint64 { return g.g.Size() }

// Tasks lists the tasks that run with the graph, see graph.Graph.Tasks.
func (g Graph) Tasks() []GraphTask {
	var all []GraphTask
	for _, t := range g.g.Tasks() {
		k := GraphTask{Task: *t.Value, After: t.After, Lost: t.Lost}
		if t.Idle {
			k.Kind = api.NoTask
		}
		if t.Part != nil {
			k.Object = t.Part
		}
		all = append(all, k)
	}
	return all
}

// contents counts what runs with a graph.
type contents struct {
	kernels   map[string]uint64 // launches by kernel
	operators map[work]uint64   // launches by operator and shapes, "" for none
	reads     bool              // it copies to the host
}

// work is what a launch does.
type work struct{ operator, shapes string }

func (g Graph) contents(workOf func(*Task) work) contents {
	c := contents{kernels: map[string]uint64{}, operators: map[work]uint64{}}
	g.g.Running(func(t *Task) {
		if t.Kind == api.Kernel {
			c.kernels[t.Name]++
			c.operators[workOf(t)]++
		}
		c.reads = c.reads || t.Direction() == "DtoH"
	})
	return c
}

// A GraphCall is a call as package graph takes it.
type GraphCall = graph.Call[*Object]

// AffectsGraphs reports whether a call that has succeeded may change the content of graphs.
func (e *Event) AffectsGraphs() bool {
	if e.Captured != nil {
		return true
	}
	if e.Fn.Task == api.GraphRun {
		return false
	}
	if e.Fn.Capture != api.NoCapture || e.Fn.Edit != api.NoEdit {
		return true
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.Graph || u.Object.Kind == api.Node {
			return true
		}
	}
	return false
}

// GraphCall returns the call that was applied last, for package graph. It is valid until the next Apply.
func (s *State) GraphCall(e *Event) *GraphCall {
	c := &s.graphCall
	*c = GraphCall{Fn: e.Fn, Index: e.Call.Index, Uses: c.Uses[:0], Stream: e.Stream, Captured: e.Captured, ByStream: e.Captured != nil && e.Captured.Kind == api.Stream, Part: e.Part}
	for _, u := range e.Uses {
		o := u.Object
		c.Uses = append(c.Uses, graph.Use[*Object]{Param: u.Param, Key: o, Kind: o.Kind, Made: o.Created == e.Call.Index, Ended: o.Ended == e.Call.Index})
	}
	if e.Fn.Event >= 0 {
		if u, ok := e.Use(int(e.Fn.Event)); ok {
			c.Event = u.Object
		}
	}
	if n := len(e.Call.Args); n > 0 {
		c.Last = e.Call.Args[n-1]
	}
	c.Nodes = func(param int) []*Object { return s.listed(e, param, api.Node) }
	return c
}

// listed returns the objects of a kind that a parameter lists, nil for each unknown one.
func (s *State) listed(e *Event, param int, kind api.Object) (objects []*Object) {
	p := &e.Fn.Params[param]
	if size, _ := p.Size.Bytes(e.Fn, e.Call.Args); p.Role != api.Uses || p.Object != kind || size == 0 || e.Call.Args[p.Word] == 0 {
		return nil
	}
	b, ok := e.text(param)
	for i := range e.Call.Data {
		if d := &e.Call.Data[i]; !ok && int(d.Param) == param && d.Item == 0 && d.Status == format.Whole {
			b = s.content(d)
		}
	}
	if len(b) < 8 {
		return []*Object{nil}
	}
	for ; len(b) >= 8; b = b[8:] {
		objects = append(objects, s.Known(e.Process, kind, word(b[:8])))
	}
	return objects
}

// capture sets Event.Captured.
func (s *State) capture(e *Event) {
	if f := e.Fn; f.Graph >= 0 || e.Stream != nil && (f.Capture != api.NoCapture || s.captures.Active()) {
		e.Captured, e.Part = s.captures.Apply(s.GraphCall(e))
	}
	if e.Fn.Capture == api.CaptureEnd && e.Stream != nil {
		if g := e.Object(api.Graph); g != nil {
			s.graphOf[e.Stream] = g
		}
	}
}
