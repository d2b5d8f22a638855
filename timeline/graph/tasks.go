package graph

// A Task is an entry in a list of graph tasks.
type Task[K comparable, T any] struct {
	Value T
	Idle  bool  // the node does nothing itself: it is disabled, or a graph runs in its place
	Part  K     // for a condition: the last graph that it runs
	After []int // indices of preceding tasks, which come earlier in the list
	Lost  bool  // unknown tasks precede it too
}

// Tasks lists the tasks that run with the graph, each after those that precede it. The list of a graph that runs other graphs ends early if it
// would be much longer than the trace: then it has fewer than Size tasks.
func (g *Graph[K, T]) Tasks() []Task[K, T] {
	var l lister[K, T]
	l.add(g, nil)
	return l
}

type lister[K comparable, T any] []Task[K, T]

// add appends all tasks of a graph after some tasks, and returns its last ones.
func (l *lister[K, T]) add(g *Graph[K, T], before []int) (ends []int) {
	at, waited := make(map[*Node[K, T]]int, len(g.nodes)), map[*Node[K, T]]bool{}
	var put func(n *Node[K, T])
	put = func(n *Node[K, T]) {
		if _, known := at[n]; known || len(*l) == maxNodes {
			return
		}
		at[n] = -1 // until the nodes before it are in the list
		var after []int
		for _, a := range n.after {
			put(a)
			if k, ok := at[a]; ok && k >= 0 {
				after = append(after, k)
				waited[a] = true
			}
		}
		if len(after) == 0 {
			after = before
		}
		t := Task[K, T]{Value: n.task, Lost: n.lost, Idle: n.off || n.child != nil}
		if n.child != nil {
			after = l.add(n.child, after)
		}
		var parts []int
		for _, p := range n.parts {
			parts = append(parts, l.add(p, after)...)
			t.Part = p.handle
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
		return before
	}
	return ends
}

// Lanes assigns each of n graph tasks to a lane: to the lane of a preceding task if that is still the last one there, otherwise to a new
// lane. after returns the tasks that precede a task. crossed numbers the tasks that tasks of other lanes wait for.
func Lanes(n int, after func(i int) []int) (lanes []int, crossed map[int]int32) {
	lanes, crossed = make([]int, n), map[int]int32{}
	var last []int // task on each lane
	for i := range n {
		at := -1
		for _, before := range after(i) {
			if last[lanes[before]] == before {
				at = lanes[before]
				break
			}
		}
		if at < 0 {
			at, last = len(last), append(last, i)
		}
		lanes[i], last[at] = at, i
		for _, before := range after(i) {
			if _, ok := crossed[before]; lanes[before] != at && !ok {
				crossed[before] = int32(len(crossed))
			}
		}
	}
	return lanes, crossed
}
