package graph

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
)

// recorder gives calls to Captures and Graphs, as a timeline does. Objects are strings, and the value of a node is the number of its call.
type recorder struct {
	t        *testing.T
	captures Captures[string]
	graphs   *Graphs[string, int]
	calls    int
}

func record(t *testing.T) *recorder { return &recorder{t: t, graphs: New[string, int]()} }

// call makes a call with an object for each named parameter, and lists of nodes. It returns the number of the call.
func (r *recorder) call(name string, objects map[string]string, lists map[string][]string) int {
	r.t.Helper()
	f := cuda.Model.Lookup(name)
	c := &Call[string]{Fn: f, Nodes: func(i int) []string { return lists[f.Params[i].Name] }}
	for i := range f.Params {
		p := &f.Params[i]
		o := objects[p.Name]
		if o == "" {
			continue
		}
		c.Uses = append(c.Uses, Use[string]{Param: i, Key: o, Kind: p.Object, Made: p.Role == api.New, Ended: p.Role == api.End})
		switch i {
		case int(f.Stream):
			c.Stream = o
		case int(f.Event):
			c.Event = o
		}
	}
	r.calls++
	c.Captured, c.Part = r.captures.Apply(c)
	c.ByStream = c.Captured == "main"
	r.graphs.Apply(c, func() int { return r.calls })
	return r.calls
}

// want compares the tasks in a graph, as "value[after]".
func (r *recorder) want(graph string, want ...string) {
	r.t.Helper()
	var got []string
	for _, task := range r.graphs.Known(graph).Tasks() {
		got = append(got, fmt.Sprintf("%d%v", task.Value, task.After))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("graph %s has %q, want %q", graph, got, want)
	}
}

// A node that comes after nodes which the trace does not have, or which another graph has, is lost.
func TestUnknownDependencies(t *testing.T) {
	r := record(t)
	create := func(graph string) { r.call("cuGraphCreate", map[string]string{"phGraph": graph}, nil) }
	add := func(graph, node string, after ...string) {
		r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": node, "hGraph": graph}, map[string][]string{"dependencies": after})
	}
	create("g")
	create("other")
	add("g", "a")
	add("other", "b")
	add("g", "known", "a")
	add("g", "unknown", "a", "older")
	add("g", "foreign", "b")
	var lost []bool
	for _, task := range r.graphs.Known("g").Tasks() {
		lost = append(lost, task.Lost)
	}
	if !slices.Equal(lost, []bool{false, false, true, true}) {
		t.Errorf("lost: %v", lost)
	}
}

// A call that gives a node another task puts it into the node's graph, or the executable graph.
func TestChangedNodes(t *testing.T) {
	r := record(t)
	in := func(want, name string, objects map[string]string) {
		t.Helper()
		f := cuda.Model.Lookup(name)
		c := &Call[string]{Fn: f}
		for i := range f.Params {
			if o := objects[f.Params[i].Name]; o != "" {
				c.Uses = append(c.Uses, Use[string]{Param: i, Key: o, Kind: f.Params[i].Object})
			}
		}
		if got, _ := r.captures.Apply(c); got != want {
			t.Errorf("%s%v is in %q, want %q", name, objects, got, want)
		}
	}
	r.call("cuGraphCreate", map[string]string{"phGraph": "g"}, nil)
	r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": "n", "hGraph": "g"}, nil)
	in("g", "cuGraphKernelNodeSetParams_v2", map[string]string{"hNode": "n"})
	in("unknown", "cuGraphKernelNodeSetParams_v2", map[string]string{"hNode": "unknown"})
	in("exec", "cuGraphExecKernelNodeSetParams_v2", map[string]string{"hGraphExec": "exec", "hNode": "n"})
}

// A stream and a stream that waits for it are captured. Each task comes after the tasks that it waits for.
func TestCapturedTasksFollowTheirWaits(t *testing.T) {
	r := record(t)
	launch := func(stream string) { r.call("cuLaunchKernel", map[string]string{"hStream": stream}, nil) }
	launch("main")
	r.call("cuStreamBeginCapture_v2", map[string]string{"hStream": "main"}, nil)
	launch("main")  // 3
	launch("other") // not captured yet
	r.call("cuEventRecord", map[string]string{"hEvent": "event", "hStream": "main"}, nil)
	r.call("cuStreamWaitEvent", map[string]string{"hStream": "other", "hEvent": "event"}, nil)
	launch("other") // 7
	launch("main")  // 8
	r.call("cuStreamEndCapture", map[string]string{"hStream": "main", "phGraph": "graph"}, nil)
	launch("other") // not captured any more
	r.want("graph", "3[]", "5[0]", "6[1]", "7[2]", "8[1]")
	if r.captures.Active() || r.graphs.Known("main") != nil {
		t.Error("the capture goes on after its end")
	}
}

// A node is changed in a clone: the original keeps its task, and later clones of the original have it.
func TestChangedCloneLeavesTheOriginal(t *testing.T) {
	r := record(t)
	r.call("cuGraphCreate", map[string]string{"phGraph": "graph"}, nil)
	r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": "a", "hGraph": "graph"}, nil)
	r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": "b", "hGraph": "graph"}, map[string][]string{"dependencies": {"a"}})
	r.call("cuGraphInstantiateWithFlags", map[string]string{"phGraphExec": "exec", "hGraph": "graph"}, nil)
	if r.graphs.Changed("exec") == nil || r.graphs.Changed("exec") != nil {
		t.Error("a new graph is reported as changed once")
	}
	set := r.call("cuGraphExecKernelNodeSetParams_v2", map[string]string{"hGraphExec": "exec", "hNode": "b"}, nil)
	r.want("exec", "2[]", fmt.Sprintf("%d[0]", set))
	r.want("graph", "2[]", "3[0]")
	if r.graphs.Changed("exec") == nil {
		t.Error("a change is not reported")
	}
	r.call("cuGraphClone", map[string]string{"phGraphClone": "clone", "originalGraph": "graph"}, nil)
	r.call("cuGraphNodeFindInClone", map[string]string{"phNode": "a in clone", "hOriginalNode": "a", "hClonedGraph": "clone"}, nil)
	r.call("cuGraphDestroyNode", map[string]string{"hNode": "a in clone"}, nil)
	r.want("clone", "3[]")
	r.want("graph", "2[]", "3[0]")
}

// A graph runs as a node of another one. Later changes to it do not affect the copy in the node.
func TestChildGraphIsACopy(t *testing.T) {
	r := record(t)
	for _, g := range []string{"inner", "outer"} {
		r.call("cuGraphCreate", map[string]string{"phGraph": g}, nil)
	}
	r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": "a", "hGraph": "inner"}, nil)
	r.call("cuGraphAddChildGraphNode", map[string]string{"phGraphNode": "child", "hGraph": "outer", "childGraph": "inner"}, nil)
	r.call("cuGraphAddKernelNode_v2", map[string]string{"phGraphNode": "b", "hGraph": "inner"}, nil)
	r.want("outer", "3[]", "4[0]")
	if outer, inner := r.graphs.Known("outer").Size(), r.graphs.Known("inner").Size(); outer != 2 || inner != 2 {
		t.Errorf("sizes %d and %d, want 2 and 2", outer, inner)
	}
	var seen []int
	r.graphs.Known("outer").Each(func(task int, maybe bool) {
		if maybe {
			t.Error("a child graph runs without a condition")
		}
		seen = append(seen, task)
	})
	if !slices.Equal(seen, []int{4, 3}) {
		t.Errorf("the values are %v", seen)
	}
}
