package timeline

// A GraphTask is a task of a graph. Its times mean nothing.
type GraphTask struct {
	Task        // its Kind is api.NoTask where the node has none and is there for the order alone; its Object, of a condition, a part that it runs
	After []int // the tasks that it comes after, by their places, all of which are before its own
	Lost  bool  // it comes after nodes besides that nothing in the trace tells of
}

// graphs follows what calls make of graphs: what nodes there are, with what tasks, and what each comes behind.
type graphs struct {
	room   int                // nodes that copies may still have
	of     map[*Object]*graph // also by the stream whose capture goes on
	nodes  map[*Object]*node
	tails  map[*Object]tail // by stream that is captured: what its next task comes behind
	events map[*Object]tail // what the last record in a capture stands for
}

type tail struct {
	graph *graph
	nodes []*node
	lost  bool // and nodes that nothing tells of
}

type graph struct {
	nodes  []*node
	copies map[*node]*node // of the nodes of the graph that it was made of
	in     *graph          // that it is a part of
	handle *Object
	told   bool   // the visitor knows what is in it
	cut    uint64 // tasks that it has, where there was no room to copy all of them; else 0
}

// A Graph is what a graph holds at a moment of a Walk. It is valid until the Visitor's function returns; its tasks may be kept.
type Graph struct{ g *graph }

type node struct {
	graph  *graph
	handle *Object
	task   *Task // never changed: copies have it too
	after  []*node
	lost   bool     // and nodes that nothing tells of
	child  *graph   // that runs as this node
	parts  []*graph // that it runs, as a condition says
	off    bool     // it does nothing
	mark   bool     // an event of a capture, for the order alone: a driver has no node for it
}
