package timeline

import (
	"slices"

	"github.com/acltrace/acltrace/api"
)

func (c *captures) put(node, in *Object) {
	if c.nodes == nil {
		c.nodes = map[*Object]*Object{}
	}
	c.nodes[node] = in
}

// node marks a call that puts its task into a graph, as a node of it.
func (c *captures) node(e *Event) {
	u, ok := e.Use(int(e.Fn.Graph))
	if !ok {
		return
	}
	e.Captured = u.Object
	if u.Object.Kind == api.Node {
		if e.Captured = c.nodes[u.Object]; e.Captured == nil {
			e.Captured = u.Object // of a graph that was captured, or of a clone
		}
		return
	}
	for i := range e.Fn.Params {
		if e.Fn.Params[i].Role != api.New {
			continue
		}
		if made, ok := e.Use(i); ok {
			c.put(made.Object, u.Object)
		}
	}
}

// apply follows a call that has succeeded, and marks a task that does not run.
func (c *captures) apply(e *Event) {
	f := e.Fn
	if f.Graph >= 0 {
		c.node(e)
		return
	}
	if f.Capture == api.NoCapture && len(c.streams) == 0 || e.Stream == nil {
		return
	}
	for _, u := range e.Uses {
		if began := c.streams[e.Stream]; began != nil && u.Object.Kind == api.Node && u.Object.Created == e.Call.Index {
			c.put(u.Object, began) // the capture has made it
		}
	}
	switch f.Capture {
	case api.CaptureBegin:
		if c.streams == nil {
			c.streams, c.events = map[*Object]*Object{}, map[*Object]*Object{}
		}
		c.streams[e.Stream] = e.Stream
		return
	case api.CaptureEnd:
		for n, in := range c.nodes {
			if in == e.Stream {
				delete(c.nodes, n)
				if k := slices.IndexFunc(e.Uses, func(u Use) bool { return u.Object.Kind == api.Graph }); k >= 0 {
					c.nodes[n] = e.Uses[k].Object
				}
			}
		}
		for s, began := range c.streams {
			if began == e.Stream {
				delete(c.streams, s)
			}
		}
		for ev, began := range c.events {
			if began == e.Stream {
				delete(c.events, ev)
			}
		}
		return
	}
	if f.Task == api.NoTask {
		return
	}
	var event *Object
	if f.Event >= 0 {
		if u, ok := e.Use(int(f.Event)); ok {
			event = u.Object
		}
	}
	if began := c.events[event]; began != nil && f.Task == api.Wait && c.streams[e.Stream] == nil {
		c.streams[e.Stream] = began
	}
	began := c.streams[e.Stream]
	e.Captured = began
	if event != nil && f.Task == api.Record {
		if began != nil {
			c.events[event] = began
		} else {
			delete(c.events, event)
		}
	}
}
