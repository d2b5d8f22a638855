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
	groups  map[K]*group[K]
	open    map[K]*group[K] // by stream: the group that gets the stream's tasks
	updates map[K]*update[K]
}

// A group is a task group: tasks of a capture that updates replace.
type group[K comparable] struct {
	in    K        // graph, or the stream that began the capture until that ends
	calls []uint64 // of the tasks
}

// An update is in progress on a stream.
type update[K comparable] struct {
	of   K // task group
	next int
}

// A Part is the part of a call's task in a task group.
type Part struct {
	Member bool   // the group has the task
	Update bool   // the task replaces that of call Of
	Of     uint64 // NoCall if it is unknown, or if the group has fewer tasks
}

// Replaces reports whether the task replaces that of a known call.
func (p Part) Replaces() bool { return p.Update && p.Of != NoCall }

// NoCall is the number of no call.
const NoCall = ^uint64(0)

// Active reports whether some stream is captured, or updates a task group.
func (c *Captures[K]) Active() bool { return len(c.streams)+len(c.updates) > 0 }

// Group returns the calls of the tasks in a task group, and the graph that has it, or the stream that began its capture until that ends.
func (c *Captures[K]) Group(k K) (calls []uint64, in K) {
	if g := c.groups[k]; g != nil {
		return g.calls, g.in
	}
	return nil, in
}

// Put records that a node is in a graph.
func (c *Captures[K]) Put(node, in K) {
	if c.nodes == nil {
		c.nodes = map[K]K{}
	}
	c.nodes[node] = in
}

// End removes a graph, and returns its nodes and task groups.
func (c *Captures[K]) End(graph K) (all []K) {
	all = c.take(graph)
	for k, g := range c.groups {
		if g.in == graph {
			delete(c.groups, k)
			all = append(all, k)
		}
	}
	return all
}

// take removes the nodes of a graph and returns them.
func (c *Captures[K]) take(graph K) (nodes []K) {
	for n, of := range c.nodes {
		if of == graph {
			delete(c.nodes, n)
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Apply follows a call that has succeeded. It returns the graph that takes the task of the call, or the stream that began the capture, or the task
// group that the task updates; none if the task runs. It does not read Call.Captured and Call.Part.
func (c *Captures[K]) Apply(call *Call[K]) (in K, part Part) {
	f := call.Fn
	if f.Graph >= 0 {
		return c.build(call), part
	}
	switch f.Capture {
	case api.GroupBegin, api.GroupEnd, api.UpdateBegin, api.UpdateEnd:
		c.group(call)
		return in, part
	}
	if u := c.updates[call.Stream]; u != nil && f.Task != api.NoTask {
		return u.of, c.replaced(u)
	}
	if in = c.capture(call); f.Task != api.NoTask {
		if g := c.open[call.Stream]; g != nil {
			g.calls, part.Member = append(g.calls, call.Index), true
		}
	}
	return in, part
}

// group follows a call that begins or ends a task group or an update.
func (c *Captures[K]) group(call *Call[K]) {
	if c.open == nil {
		c.groups, c.open, c.updates = map[K]*group[K]{}, map[K]*group[K]{}, map[K]*update[K]{}
	}
	k := slices.IndexFunc(call.Uses, func(u Use[K]) bool { return u.Kind == api.TaskGroup })
	switch s := call.Stream; call.Fn.Capture {
	case api.GroupBegin:
		c.open[s] = &group[K]{in: c.streams[s]}
	case api.GroupEnd:
		if k >= 0 && c.open[s] != nil {
			c.groups[call.Uses[k].Key] = c.open[s]
		}
		delete(c.open, s)
	case api.UpdateBegin:
		if k >= 0 {
			c.updates[s] = &update[K]{of: call.Uses[k].Key}
		}
	case api.UpdateEnd:
		delete(c.updates, s)
	}
}

// replaced returns the part of the next task of an update.
func (c *Captures[K]) replaced(u *update[K]) Part {
	p := Part{Update: true, Of: NoCall}
	if g := c.groups[u.of]; g != nil && u.next < len(g.calls) {
		p.Of = g.calls[u.next]
	}
	u.next++
	return p
}

// capture follows a call on a stream that may be captured. It returns the stream that began the capture.
func (c *Captures[K]) capture(call *Call[K]) (in K) {
	f := call.Fn
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
	if k < 0 {
		c.End(call.Stream)
	} else {
		for _, n := range c.take(call.Stream) {
			c.nodes[n] = call.Uses[k].Key
		}
		for _, g := range c.groups {
			if g.in == call.Stream {
				g.in = call.Uses[k].Key
			}
		}
	}
	for s, began := range c.streams {
		if began == call.Stream {
			delete(c.open, s)
		}
	}
	maps.DeleteFunc(c.streams, func(_, began K) bool { return began == call.Stream })
	maps.DeleteFunc(c.events, func(_, began K) bool { return began == call.Stream })
}
