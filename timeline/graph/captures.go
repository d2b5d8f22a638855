package graph

import (
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// Captures determines which calls put their tasks into a graph. A stream that waits for an event of a captured stream is captured too, until
// the capture of the stream that began it ends. The zero value is ready to use.
type Captures[K comparable] struct {
	streams map[K]K // captured streams, to the stream that began the capture
	events  map[K]K // events recorded last in a capture, to that stream
	nodes   map[K]K // to their graph, or to that stream until the capture ends
}

// Active reports whether some stream is captured.
func (c *Captures[K]) Active() bool { return len(c.streams) > 0 }

// Put records that a node is in a graph.
func (c *Captures[K]) Put(node, in K) {
	if c.nodes == nil {
		c.nodes = map[K]K{}
	}
	c.nodes[node] = in
}

// End removes a graph, and returns its nodes.
func (c *Captures[K]) End(graph K) (nodes []K) {
	for n, of := range c.nodes {
		if of == graph {
			delete(c.nodes, n)
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Apply follows a call that has succeeded. It returns the graph that takes the task of the call, or the stream that began the capture; none if the
// task runs. It does not read Call.Captured.
func (c *Captures[K]) Apply(call *Call[K]) (in K) {
	f := call.Fn
	if f.Graph >= 0 {
		return c.build(call)
	}
	began, captured := c.streams[call.Stream]
	if captured {
		for _, u := range call.Uses {
			if u.Kind == api.Node && u.Made {
				c.Put(u.Key, began)
			}
		}
	}
	switch {
	case f.Capture == api.CaptureBegin:
		if c.streams == nil {
			c.streams, c.events = map[K]K{}, map[K]K{}
		}
		c.streams[call.Stream] = call.Stream
		return in
	case f.Capture == api.CaptureEnd:
		c.end(call)
		return in
	case f.Task == api.NoTask:
		return in
	}
	var none K
	if from, ok := c.events[call.Event]; ok && f.Task == api.Wait && !captured {
		c.streams[call.Stream] = from
		began, captured = from, true
	}
	if call.Event != none && f.Task == api.Record {
		if captured {
			c.events[call.Event] = began
		} else {
			delete(c.events, call.Event)
		}
	}
	return began
}

// build follows a call that makes a graph node or gives one another task. It returns the graph, or the node if its graph is unknown.
func (c *Captures[K]) build(call *Call[K]) (in K) {
	k := slices.IndexFunc(call.Uses, func(u Use[K]) bool { return u.Param == int(call.Fn.Graph) })
	if k < 0 {
		return in
	}
	u := call.Uses[k]
	if u.Kind != api.Graph {
		if graph, ok := c.nodes[u.Key]; ok {
			return graph
		}
		return u.Key // in a captured graph, or in a clone
	}
	for i := range call.Fn.Params {
		if call.Fn.Params[i].Role != api.New {
			continue
		}
		if k := slices.IndexFunc(call.Uses, func(u Use[K]) bool { return u.Param == i }); k >= 0 {
			c.Put(call.Uses[k].Key, u.Key)
		}
	}
	return u.Key
}

// end follows the call that ends a capture: its nodes belong to the graph that the call names.
func (c *Captures[K]) end(call *Call[K]) {
	k := slices.IndexFunc(call.Uses, func(u Use[K]) bool { return u.Kind == api.Graph })
	for _, n := range c.End(call.Stream) {
		if k >= 0 {
			c.nodes[n] = call.Uses[k].Key
		}
	}
	maps.DeleteFunc(c.streams, func(_, began K) bool { return began == call.Stream })
	maps.DeleteFunc(c.events, func(_, began K) bool { return began == call.Stream })
}
