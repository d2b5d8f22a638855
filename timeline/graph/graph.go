// Package graph follows runtime graphs: those that streams capture, those that calls build node by node, and their clones.
//
// Captures determines which calls put their tasks into a graph instead of running them. Graphs holds the nodes in all graphs, their order, and
// one value per node. Both take one Call after the other, in the order in which the calls began. Tasks lists a graph in an order in which it can
// run; Lanes distributes it to streams.
//
// The package is generic, since it lies below package timeline. K identifies a runtime object (a pointer that is nil for none); T is a node's
// value. A timeline.State has Captures, and a timeline.Walk has Graphs with tasks. The replay compiler has Graphs with the copies that it
// compares. What-if analyses and exporters get graph tasks from the Walk.
//
// The package reads no trace. The number of calls that make nodes bounds its memory, see Graphs.
package graph

import (
	"math"
	"slices"
)

// A Graph holds the nodes in a graph. It changes with the calls that its Graphs takes.
type Graph[K comparable, T any] struct {
	nodes  []*Node[K, T]
	copies map[*Node[K, T]]*Node[K, T] // by node in the graph that this one is a copy of
	in     *Graph[K, T]                // that contains this one
	handle K
	shown  bool   // see Graphs.Changed
	cut    uint64 // number of tasks if there was no room to copy all, otherwise 0
}

// A Node is a graph node.
type Node[K comparable, T any] struct {
	graph  *Graph[K, T]
	handle K
	task   T // shared with the node's copies
	after  []*Node[K, T]
	lost   bool           // it comes after further nodes, which are unknown
	child  *Graph[K, T]   // that runs as this node
	parts  []*Graph[K, T] // that it runs if a condition holds
	off    bool           // disabled
	mark   bool           // a captured event, which is not a node for the driver
	member bool           // of a task group
	call   uint64         // that captured the member
}

// Size returns the number of tasks that run with the graph, math.MaxUint64 if there are more.
func (g *Graph[K, T]) Size() uint64 {
	if g.cut > 0 {
		return g.cut
	}
	total := uint64(0)
	for _, n := range g.nodes {
		total = sum(total, 1)
		for _, part := range n.inside() {
			total = sum(total, part.Size())
		}
	}
	return total
}

// Whole reports whether all nodes in the graph and its parts are known here. It is false if there was no room to copy them.
func (g *Graph[K, T]) Whole() bool { return g.cut == 0 }

// Each visits the node values, those in the graph before those in its parts. maybe is true for a part that runs only if a condition
// holds.
func (g *Graph[K, T]) Each(visit func(task T, maybe bool)) { g.each(false, visit) }

func (g *Graph[K, T]) each(maybe bool, visit func(task T, maybe bool)) {
	for _, n := range g.nodes {
		visit(n.task, maybe)
	}
	for _, n := range g.nodes {
		if n.child != nil {
			n.child.each(maybe, visit)
		}
		for _, part := range n.parts {
			part.each(true, visit)
		}
	}
}

// Running visits the values of the nodes that run with the graph and do something themselves, as many as Tasks lists at most.
func (g *Graph[K, T]) Running(visit func(task T)) {
	left := maxNodes
	g.running(&left, visit)
}

func (g *Graph[K, T]) running(left *int, visit func(task T)) {
	for _, n := range g.nodes {
		if *left == 0 {
			return
		}
		*left--
		if !n.off && n.child == nil {
			visit(n.task)
		}
		for _, part := range n.inside() {
			part.running(left, visit)
		}
	}
}

// sum adds numbers; the result stays at the maximum.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// changed marks a graph, and those that it is in, for Graphs.Changed.
func (g *Graph[K, T]) changed() {
	for ; g != nil; g = g.in {
		g.shown = false
	}
}

// remove removes a node, and the edges to it.
func (g *Graph[K, T]) remove(n *Node[K, T]) {
	g.nodes = slices.DeleteFunc(g.nodes, func(k *Node[K, T]) bool { return k == n })
	for _, k := range g.nodes {
		k.drop(n)
	}
	g.changed()
}

// drop removes the edge from another node. Other nodes may share the list.
func (n *Node[K, T]) drop(before *Node[K, T]) {
	if i := slices.Index(n.after, before); i >= 0 {
		n.after = slices.Delete(slices.Clone(n.after), i, i+1)
	}
}

func (n *Node[K, T]) inside() []*Graph[K, T] {
	if n.child != nil {
		return append([]*Graph[K, T]{n.child}, n.parts...)
	}
	return n.parts
}

// run makes the node run a copy of a graph.
func (n *Node[K, T]) run(g *Graph[K, T], room *int) {
	if g == nil {
		return
	}
	if n.child == nil {
		n.child = &Graph[K, T]{in: n.graph}
	}
	n.child.become(g, room)
}

// become replaces the nodes by copies from another graph. If both have as many nodes, nodes in the graph that this one was copied from keep
// their counterparts.
func (g *Graph[K, T]) become(other *Graph[K, T], room *int) {
	if g == other {
		return
	}
	were, known := g.nodes, g.copies
	*room += len(were)
	size := other.Size() // now, since it may hold this one
	g.nodes, g.copies, g.cut = nil, map[*Node[K, T]]*Node[K, T]{}, 0
	for i, n := range other.nodes {
		if *room == 0 {
			g.cut = size
			break
		}
		*room--
		old := &Node[K, T]{}
		if len(were) == len(other.nodes) {
			old = were[i]
		}
		c := &Node[K, T]{graph: g, task: n.task, lost: n.lost, off: n.off, mark: n.mark}
		part := func(of, was *Graph[K, T]) *Graph[K, T] {
			if was == nil {
				was = &Graph[K, T]{handle: of.handle}
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
			var was *Graph[K, T]
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
		now := make(map[*Node[K, T]]*Node[K, T], len(were))
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

// copied returns the counterpart of a node in the graph that this one was copied from, nil if it is unknown.
func (g *Graph[K, T]) copied(n *Node[K, T]) *Node[K, T] {
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
