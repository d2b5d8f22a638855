package graph

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
)

// world gives calls to Captures and Graphs. Names of streams begin with "s". A node's value is the number of its call, from 1.
type world struct {
	t        *testing.T
	captures Captures[string]
	graphs   *Graphs[string, int]
	calls    int
}

func newWorld(t *testing.T) *world { return &world{t: t, graphs: New[string, int]()} }

// do makes a call: "function parameter=object parameter=[node node] last=number". "+parameter=object" is a further object that the parameter makes,
// "parameter=[+node]" one that it finds.
func (w *world) do(call string) int {
	w.t.Helper()
	name, args, _ := strings.Cut(call, " ")
	f := cuda.Model.Lookup(name)
	if f == nil {
		w.t.Fatalf("no function %s", name)
	}
	lists := map[int][]string{}
	c := &Call[string]{Fn: f, Nodes: func(i int) []string { return lists[i] }}
	for args != "" {
		arg := args
		if i := strings.IndexByte(args, '['); i >= 0 && i < strings.IndexByte(args+" ", ' ') {
			end := strings.IndexByte(args, ']') + 1
			arg, args = args[:end], strings.TrimPrefix(args[end:], " ")
		} else {
			arg, args, _ = strings.Cut(args, " ")
		}
		param, object, _ := strings.Cut(arg, "=")
		if param == "last" {
			_, _ = fmt.Sscan(object, &c.Last)
			continue
		}
		param, made := strings.CutPrefix(param, "+")
		i := f.Param(param)
		if i < 0 {
			w.t.Fatalf("%s has no parameter %s", name, param)
		}
		p := &f.Params[i]
		if list, ok := strings.CutPrefix(object, "["); ok {
			for _, n := range strings.Fields(strings.TrimSuffix(list, "]")) {
				n, finds := strings.CutPrefix(n, "+")
				if finds {
					c.Uses = append(c.Uses, Use[string]{Param: i, Key: n, Kind: api.Node})
				} else {
					lists[i] = append(lists[i], n)
				}
			}
			continue
		}
		kind := p.Object
		if made {
			kind = api.Graph
		}
		c.Uses = append(c.Uses, Use[string]{Param: i, Key: object, Kind: kind, Made: made || p.Role == api.New, Ended: p.Role == api.End})
		switch i {
		case int(f.Stream):
			c.Stream = object
		case int(f.Event):
			c.Event = object
		}
	}
	if c.Stream == "" && f.Param("hStream") >= 0 { // of a query
		for _, u := range c.Uses {
			if f.Params[u.Param].Name == "hStream" {
				c.Stream = u.Key
			}
		}
	}
	w.calls++
	c.Captured, c.Part = w.captures.Apply(c)
	c.ByStream = strings.HasPrefix(c.Captured, "s")
	w.graphs.Apply(c, func() int { return w.calls })
	return w.calls
}

// all makes calls.
func (w *world) all(calls string) {
	w.t.Helper()
	for line := range strings.Lines(calls) {
		if line = strings.TrimSpace(line); line != "" {
			w.do(line)
		}
	}
}

// text describes a graph's tasks as "value[after]", with "?" after a lost one, "-" after an idle one, and the part that a condition runs last.
func (w *world) text(graph string) string {
	g := w.graphs.Known(graph)
	if g == nil {
		return "unknown"
	}
	var out []string
	for _, task := range g.Tasks() {
		s := fmt.Sprintf("%d%v", task.Value, task.After)
		if task.Lost {
			s += "?"
		}
		if task.Idle {
			s += "-"
		}
		out = append(out, s+task.Part)
	}
	return strings.Join(out, " ")
}

func (w *world) want(graph, want string) {
	w.t.Helper()
	if got := w.text(graph); got != want {
		w.t.Errorf("after call %d, %s has %q, want %q", w.calls, graph, got, want)
	}
}

// changed reports which of some graphs are reported as changed.
func (w *world) changed(graphs ...string) (out []string) {
	for _, g := range graphs {
		if k := w.graphs.Changed(g); k != nil {
			if k != w.graphs.Known(g) {
				w.t.Errorf("another graph than %s has changed", g)
			}
			out = append(out, g)
		}
	}
	return out
}

// diamond makes a graph with the nodes a, b after a, c after a, and d after both.
const diamond = `
	cuGraphCreate phGraph=g
	cuGraphAddKernelNode_v2 phGraphNode=a hGraph=g
	cuGraphAddKernelNode_v2 phGraphNode=b hGraph=g dependencies=[a]
	cuGraphAddKernelNode_v2 phGraphNode=c hGraph=g dependencies=[a]
	cuGraphAddKernelNode_v2 phGraphNode=d hGraph=g dependencies=[b c]
`

// Calls that change a graph after it was built change what runs before what.
func TestEditsChangeTheOrder(t *testing.T) {
	for _, c := range []struct{ name, calls, want string }{
		{"none", "", "2[] 3[0] 4[0] 5[1 2]"},
		{"an edge", "cuGraphAddDependencies hGraph=g from=[b] to=[c]", "2[] 3[0] 4[0 1] 5[1 2]"},
		{"an edge twice", "cuGraphAddDependencies hGraph=g from=[b b] to=[c c]", "2[] 3[0] 4[0 1] 5[1 2]"},
		{"edges", "cuGraphAddDependencies hGraph=g from=[b a] to=[c d]", "2[] 3[0] 4[0 1] 5[1 2 0]"},
		{"a short list", "cuGraphAddDependencies hGraph=g from=[b a] to=[c]", "2[] 3[0] 4[0 1] 5[1 2]"},
		{"without an edge", "cuGraphRemoveDependencies hGraph=g from=[b] to=[d]", "2[] 3[0] 4[0] 5[2]"},
		{"without a missing edge", "cuGraphRemoveDependencies hGraph=g from=[b] to=[c]", "2[] 3[0] 4[0] 5[1 2]"},
		{"without edges", "cuGraphRemoveDependencies hGraph=g from=[b c a] to=[d d b]", "2[] 3[] 4[0] 5[]"},
		{"after an unknown node", "cuGraphAddDependencies hGraph=g from=[older] to=[b]", "2[] 3[0]? 4[0] 5[1 2]"},
		{"not after an unknown node", "cuGraphRemoveDependencies hGraph=g from=[older] to=[b]", "2[] 3[0] 4[0] 5[1 2]"},
		{"an unknown node after", "cuGraphAddDependencies hGraph=g from=[b] to=[older]", "2[] 3[0] 4[0] 5[1 2]"},
		{"without a node", "cuGraphDestroyNode hNode=b", "2[] 4[0] 5[1]"},
		{"without an unknown node", "cuGraphDestroyNode hNode=older", "2[] 3[0] 4[0] 5[1 2]"},
		{"without a node, twice", "cuGraphDestroyNode hNode=b\ncuGraphDestroyNode hNode=b", "2[] 4[0] 5[1]"},
		{"another task", "cuGraphKernelNodeSetParams_v2 hNode=b", "2[] 6[0] 4[0] 5[1 2]"},
		{"another task of an unknown node", "cuGraphKernelNodeSetParams_v2 hNode=older", "2[] 3[0] 4[0] 5[1 2]"},
		{"an edge backwards", "cuGraphRemoveDependencies hGraph=g from=[b] to=[d]\ncuGraphAddDependencies hGraph=g from=[d] to=[b]", "2[] 4[0] 5[1] 3[0 2]"},
		{"a circle of edges", "cuGraphAddDependencies hGraph=g from=[d] to=[a]", "3[] 4[] 5[0 1] 2[2]"},
		{"node of another graph", "cuGraphCreate phGraph=h\ncuGraphAddKernelNode_v2 phGraphNode=x hGraph=h\ncuGraphAddDependencies hGraph=g from=[x] to=[b]", "2[] 3[0]? 4[0] 5[1 2]"},
	} {
		w := newWorld(t)
		w.all(diamond)
		w.all("cuGraphInstantiateWithFlags phGraphExec=e hGraph=g")
		w.calls--
		w.changed("g", "e")
		w.all(c.calls)
		if got := w.text("g"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		w.want("e", "2[] 3[0] 4[0] 5[1 2]")
		edited := c.want != "2[] 3[0] 4[0] 5[1 2]" || strings.Contains(c.name, "edge") || c.name == "not after an unknown node"
		if got := w.changed("g", "e"); (len(got) == 1 && got[0] == "g") != (edited && c.calls != "") {
			t.Errorf("%s: %q have changed", c.name, got)
		}
	}
}

// Calls on an executable graph change only that one. They name nodes by the handles of the graph that it was made from.
func TestExecutableEdits(t *testing.T) {
	w := newWorld(t)
	w.all(diamond + `
		cuGraphInstantiateWithFlags phGraphExec=e hGraph=g
		cuGraphInstantiateWithFlags phGraphExec=f hGraph=g
		cuGraphNodeSetEnabled hGraphExec=e hNode=b last=0
		cuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=c`)
	w.want("e", "2[] 3[0]- 9[0] 5[1 2]")
	w.want("f", "2[] 3[0] 4[0] 5[1 2]")
	var running []int
	w.graphs.Known("e").Running(func(n int) { running = append(running, n) })
	if !slices.Equal(running, []int{2, 9, 5}) {
		t.Errorf("%d run", running)
	}
	w.changed("e", "f", "g")
	w.do("cuGraphNodeSetEnabled hGraphExec=e hNode=b last=1")
	if got := w.changed("e", "f", "g"); !slices.Equal(got, []string{"e"}) {
		t.Errorf("%q have changed", got)
	}
	w.want("e", "2[] 3[0] 9[0] 5[1 2]")
	w.do("cuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=older")
	w.want("e", "2[] 3[0] 9[0] 5[1 2]")
	// An update brings the tasks of the graph, and the nodes' handles still work.
	w.all("cuGraphKernelNodeSetParams_v2 hNode=a\ncuGraphExecUpdate_v2 hGraphExec=e hGraph=g")
	w.want("e", "12[] 3[0] 4[0] 5[1 2]")
	w.do("cuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=d")
	w.want("e", "12[] 3[0] 4[0] 14[1 2]")
	// An update from a graph with as many nodes leaves the handles of the first graph usable.
	w.all("cuGraphClone phGraphClone=h originalGraph=g\ncuGraphExecUpdate_v2 hGraphExec=e hGraph=h\ncuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=d")
	w.want("e", "12[] 3[0] 4[0] 17[1 2]")
	w.all("cuGraphAddKernelNode_v2 phGraphNode=z hGraph=h\ncuGraphExecUpdate_v2 hGraphExec=e hGraph=h\ncuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=d")
	w.want("e", "12[] 3[0] 4[0] 5[1 2] 18[]")
	w.do("cuGraphExecDestroy hGraphExec=e")
	w.want("e", "unknown")
	w.want("f", "2[] 3[0] 4[0] 5[1 2]")
}

// A copy has its own lists: what is removed there stays in the original, and the other way round.
func TestClonesAreIndependent(t *testing.T) {
	w := newWorld(t)
	w.all(diamond + `
		cuGraphNodeSetEnabled hGraphExec=g hNode=c last=0
		cuGraphAddDependencies hGraph=g from=[older] to=[b]
		cuGraphClone phGraphClone=h originalGraph=g
		cuGraphNodeFindInClone phNode=d2 hOriginalNode=d hClonedGraph=h
		cuGraphNodeFindInClone phNode=none hOriginalNode=older hClonedGraph=h
		cuGraphNodeFindInClone phNode=b2 hOriginalNode=b hClonedGraph=h`)
	w.want("h", "2[] 3[0]? 4[0]- 5[1 2]")
	w.do("cuGraphRemoveDependencies hGraph=h from=[b2] to=[d2]")
	w.want("h", "2[] 3[0]? 4[0]- 5[2]")
	w.do("cuGraphDestroyNode hNode=c")
	w.want("g", "2[] 3[0]? 5[1]")
	w.want("h", "2[] 3[0]? 4[0]- 5[2]")
}

// A graph that has ended is unknown, as are its nodes, those of its copies in nodes, and the handles of these.
func TestEndedGraphs(t *testing.T) {
	w := newWorld(t)
	w.all(diamond + `
		cuGraphCreate phGraph=outer
		cuGraphAddChildGraphNode phGraphNode=child hGraph=outer childGraph=g
		cuGraphChildGraphNodeGetGraph hNode=child phGraph=inside
		cuGraphAddKernelNode_v2 phGraphNode=i hGraph=inside`)
	w.want("outer", "2[] 3[0] 4[0] 5[1 2] 9[] 7[3 4]-")
	w.do("cuGraphDestroy hGraph=outer")
	w.want("outer", "unknown")
	w.want("inside", "unknown")
	if len(w.graphs.nodes) != 4 || len(w.graphs.of) != 1 {
		t.Errorf("%d nodes and %d graphs are left", len(w.graphs.nodes), len(w.graphs.of))
	}
	w.do("cuGraphDestroy hGraph=g")
	if w.graphs.room != 1<<18+16*6+6 || len(w.graphs.nodes)+len(w.graphs.of) != 0 {
		t.Errorf("%d nodes and %d graphs are left, room for %d", len(w.graphs.nodes), len(w.graphs.of), w.graphs.room-maxNodes)
	}
}

// A graph inside a node changes with calls on its handle, and the outer graph with it.
func TestInnerGraphs(t *testing.T) {
	w := newWorld(t)
	w.all(`
		cuGraphCreate phGraph=g
		cuGraphAddKernelNode_v2 phGraphNode=a hGraph=g
		cuGraphCreate phGraph=outer
		cuGraphAddKernelNode_v2 phGraphNode=first hGraph=outer
		cuGraphAddChildGraphNode phGraphNode=child hGraph=outer dependencies=[first] childGraph=g
		cuGraphAddKernelNode_v2 phGraphNode=last hGraph=outer dependencies=[child]
		cuGraphChildGraphNodeGetGraph hNode=child phGraph=inside
		cuGraphChildGraphNodeGetGraph hNode=first phGraph=nothing`)
	w.want("outer", "4[] 2[0] 5[1]- 6[2]")
	w.want("inside", "2[]")
	w.want("nothing", "unknown")
	w.changed("outer", "inside", "g")
	w.do("cuGraphAddKernelNode_v2 phGraphNode=b hGraph=inside")
	if got := w.changed("outer", "inside", "g"); !slices.Equal(got, []string{"outer", "inside"}) {
		t.Errorf("%q have changed", got)
	}
	w.want("outer", "4[] 2[0] 9[0] 5[1 2]- 6[3]")
	if n := w.graphs.Known("outer").Size(); n != 5 {
		t.Errorf("size %d", n)
	}
	var running []int
	w.graphs.Known("outer").Running(func(n int) { running = append(running, n) })
	if !slices.Equal(running, []int{4, 2, 9, 6}) {
		t.Errorf("%d run", running)
	}
	// The executable graph's node gets another graph, and a node in it another task.
	w.all(`
		cuGraphInstantiateWithFlags phGraphExec=e hGraph=outer
		cuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=b`)
	w.want("e", "4[] 2[0] 11[0] 5[1 2]- 6[3]")
	w.do("cuGraphExecChildGraphNodeSetParams hGraphExec=e hNode=child childGraph=g")
	w.want("e", "4[] 2[0] 5[1]- 6[2]")
	w.want("outer", "4[] 2[0] 9[0] 5[1 2]- 6[3]")
	w.do("cuGraphExecChildGraphNodeSetParams hGraphExec=e hNode=child childGraph=unknown")
	w.want("e", "4[] 2[0] 5[1]- 6[2]")
	w.do("cuGraphExecUpdate_v2 hGraphExec=e hGraph=outer")
	w.want("e", "4[] 2[0] 9[0] 5[1 2]- 6[3]")
	// An update from a clone leaves the handles of the first graph usable, inside too.
	w.all("cuGraphClone phGraphClone=h originalGraph=outer\ncuGraphExecUpdate_v2 hGraphExec=e hGraph=h\ncuGraphExecKernelNodeSetParams_v2 hGraphExec=e hNode=b")
	w.want("e", "4[] 2[0] 17[0] 5[1 2]- 6[3]")
}

// The graphs that a condition runs come before its node, and may not run.
func TestConditionalGraphsPrecedeTheirNode(t *testing.T) {
	w := newWorld(t)
	w.all(`
		cuGraphCreate phGraph=g
		cuGraphAddKernelNode_v2 phGraphNode=a hGraph=g
		cuGraphAddNode_v2 phGraphNode=if hGraph=g dependencies=[a] +nodeParams=then +nodeParams=else
		cuGraphAddKernelNode_v2 phGraphNode=z hGraph=g dependencies=[if]
		cuGraphAddKernelNode_v2 phGraphNode=t1 hGraph=then
		cuGraphAddKernelNode_v2 phGraphNode=t2 hGraph=then dependencies=[t1]`)
	w.want("g", "2[] 5[0] 6[1] 3[2 0]else 4[3]")
	w.changed("g")
	w.do("cuGraphAddKernelNode_v2 phGraphNode=e hGraph=else")
	w.want("g", "2[] 5[0] 6[1] 7[0] 3[2 3]else 4[4]")
	if got := w.changed("g"); got == nil {
		t.Error("a change of a condition's graph is not reported")
	}
	var each []string
	w.graphs.Known("g").Each(func(n int, maybe bool) { each = append(each, fmt.Sprintf("%d %v", n, maybe)) })
	if want := []string{"2 false", "3 false", "4 false", "5 true", "6 true", "7 true"}; !slices.Equal(each, want) {
		t.Errorf("%q, want %q", each, want)
	}
	w.all("cuGraphInstantiateWithFlags phGraphExec=x hGraph=g\ncuGraphExecKernelNodeSetParams_v2 hGraphExec=x hNode=e\ncuGraphExecUpdate_v2 hGraphExec=x hGraph=g\ncuGraphExecKernelNodeSetParams_v2 hGraphExec=x hNode=t2")
	w.want("x", "2[] 5[0] 11[1] 7[0] 3[2 3]else 4[4]")
	if n := w.graphs.Known("x").Size(); n != 6 || !w.graphs.Known("x").Whole() {
		t.Errorf("size %d", n)
	}
}

// A stream is captured into a graph that is there, after the nodes that the call names.
func TestCaptureToGraph(t *testing.T) {
	w := newWorld(t)
	w.all(diamond + `
		cuStreamBeginCaptureToGraph hStream=s hGraph=g dependencies=[b older]
		cuLaunchKernel hStream=s
		cuLaunchKernel hStream=s
		cuStreamEndCapture hStream=s
		cuLaunchKernel hStream=s`)
	w.want("g", "2[] 3[0] 4[0] 5[1 2] 7[1]? 8[4]")
	// Two streams are captured into one graph, until the last one ends.
	w = newWorld(t)
	w.all(`
		cuGraphCreate phGraph=g
		cuStreamBeginCaptureToGraph hStream=s1 hGraph=g
		cuStreamBeginCaptureToGraph hStream=s2 hGraph=g
		cuLaunchKernel hStream=s1
		cuLaunchKernel hStream=s2
		cuStreamEndCapture hStream=s1
		cuLaunchKernel hStream=s1
		cuLaunchKernel hStream=s2`)
	w.want("g", "4[] 5[] 8[1]")
	w.do("cuStreamEndCapture hStream=s2 phGraph=g")
	if w.captures.Active() || len(w.graphs.tails)+len(w.graphs.streams) != 0 {
		t.Error("a capture goes on")
	}
	w.do("cuStreamEndCapture hStream=s3 phGraph=g3") // never begun here
	w.want("g3", "unknown")
	w.want("g", "4[] 5[] 8[1]")
}

// Streams join a capture by events, and leave it when it ends. An event that is recorded again elsewhere is not in the capture.
func TestCapturedEvents(t *testing.T) {
	w := newWorld(t)
	w.all(`
		cuStreamBeginCapture_v2 hStream=s
		cuLaunchKernel hStream=s
		cuEventRecord hEvent=e1 hStream=s
		cuEventRecord hEvent=e2 hStream=s
		cuEventRecord hEvent=e1 hStream=t
		cuStreamWaitEvent hStream=t hEvent=e1
		cuLaunchKernel hStream=t
		cuStreamWaitEvent hStream=u hEvent=e2
		cuLaunchKernel hStream=u
		cuEventRecord hEvent=e3 hStream=u
		cuLaunchKernel hStream=s
		cuStreamWaitEvent hStream=s hEvent=e3
		cuStreamEndCapture hStream=s phGraph=g
		cuLaunchKernel hStream=u
		cuStreamWaitEvent hStream=v hEvent=e3
		cuLaunchKernel hStream=v`)
	w.want("g", "2[] 3[0] 4[1] 8[2] 9[3] 10[4] 11[2] 12[6 5]")
	if w.captures.Active() || len(w.captures.events)+len(w.graphs.events)+len(w.graphs.tails) != 0 {
		t.Error("the capture is not forgotten")
	}
	// Each stream that waits for an event comes after its record only.
	w = newWorld(t)
	w.all(`
		cuStreamBeginCapture_v2 hStream=s
		cuEventRecord hEvent=e hStream=s
		cuStreamWaitEvent hStream=t hEvent=e
		cuLaunchKernel hStream=t
		cuStreamWaitEvent hStream=u hEvent=e
		cuLaunchKernel hStream=u
		cuStreamEndCapture hStream=s phGraph=g`)
	w.want("g", "2[] 3[0] 4[1] 5[0] 6[3]")
	// Two captures don't mix, even if an event of one is awaited in the other.
	w = newWorld(t)
	w.all(`
		cuStreamBeginCapture_v2 hStream=s1
		cuStreamBeginCapture_v2 hStream=s2
		cuEventRecord hEvent=e hStream=s1
		cuStreamWaitEvent hStream=s2 hEvent=e
		cuLaunchKernel hStream=s2
		cuStreamEndCapture hStream=s1 phGraph=g1
		cuLaunchKernel hStream=s2
		cuStreamEndCapture hStream=s2 phGraph=g2`)
	w.want("g1", "3[]")
	w.want("g2", "4[] 5[0] 7[1]")
}

// A graph that is launched on a captured stream runs as a node.
func TestCapturedLaunch(t *testing.T) {
	w := newWorld(t)
	w.all(diamond + `
		cuGraphInstantiateWithFlags phGraphExec=e hGraph=g
		cuStreamBeginCapture_v2 hStream=s
		cuGraphLaunch hGraphExec=e hStream=s
		cuLaunchKernel hStream=s
		cuStreamEndCapture hStream=s phGraph=h`)
	w.want("h", "2[] 3[0] 4[0] 5[1 2] 8[3]- 9[4]")
	w.do("cuGraphLaunch hGraphExec=e hStream=s")
	w.want("h", "2[] 3[0] 4[0] 5[1 2] 8[3]- 9[4]")
}

// The driver's answer about a capture gives the captured nodes handles, by which calls change them. Marks have none.
func TestQueriedCapture(t *testing.T) {
	w := newWorld(t)
	w.all(`
		cuStreamGetCaptureInfo_v2 hStream=s graph_out=none
		cuStreamBeginCapture_v2 hStream=s
		cuLaunchKernel hStream=s
		cuEventRecord hEvent=e hStream=s
		cuStreamGetCaptureInfo_v2 hStream=s graph_out=g dependencies_out=[+n]
		cuGraphAddKernelNode_v2 phGraphNode=x hGraph=g dependencies=[n]
		cuStreamUpdateCaptureDependencies hStream=s dependencies=[x] last=1
		cuLaunchKernel hStream=s`)
	w.want("none", "unknown")
	w.want("g", "3[] 4[0] 6[0] 8[2]")
	w.do("cuGraphKernelNodeSetParams_v2 hNode=n")
	w.want("g", "9[] 4[0] 6[0] 8[2]")
	// Other nodes than those that calls have made are new.
	w.do("cuStreamGetCaptureInfo_v2 hStream=s graph_out=g dependencies_out=[+p +q +x]")
	w.do("cuLaunchKernel hStream=s")
	w.want("g", "9[] 4[0] 6[0] 8[2] 10[3] 10[3] 11[2 4 5]")
	// Without nodes, nothing changes.
	w.do("cuStreamGetCaptureInfo_v2 hStream=s graph_out=g")
	w.do("cuLaunchKernel hStream=s")
	w.want("g", "9[] 4[0] 6[0] 8[2] 10[3] 10[3] 11[2 4 5] 13[6]")
	w.do("cuStreamEndCapture hStream=s phGraph=g")
	w.want("g", "9[] 4[0] 6[0] 8[2] 10[3] 10[3] 11[2 4 5] 13[6]")
}

// A program adds to, or replaces, the nodes that its next captured task comes after.
func TestFollowedNodes(t *testing.T) {
	for update, want := range map[string]string{
		"dependencies=[x] last=0":       "2[] 4[] 6[0 1]",
		"dependencies=[x] last=1":       "2[] 4[] 6[1]",
		"dependencies=[] last=1":        "2[] 4[] 6[]",
		"dependencies=[older x] last=0": "2[] 4[] 6[0 1]?",
		"dependencies=[older] last=1":   "2[] 4[] 6[0]?", // the program's node is unknown, so the last task is kept
		"dependencies=[x x] last=0":     "2[] 4[] 6[0 1]",
	} {
		w := newWorld(t)
		w.all(`
			cuStreamBeginCapture_v2 hStream=s
			cuLaunchKernel hStream=s
			cuStreamGetCaptureInfo_v2 hStream=s graph_out=g
			cuGraphAddKernelNode_v2 phGraphNode=x hGraph=g
			cuStreamUpdateCaptureDependencies hStream=s ` + update + `
			cuLaunchKernel hStream=s
			cuStreamUpdateCaptureDependencies hStream=t dependencies=[x] last=1
			cuLaunchKernel hStream=t`)
		if got := w.text("g"); got != want {
			t.Errorf("%s: %q, want %q", update, got, want)
		}
	}
}

// Nodes that a call on a captured stream makes belong to the graph that the capture becomes.
func TestCapturedNodesAreInTheGraph(t *testing.T) {
	var c Captures[string]
	apply := func(name string, uses ...Use[string]) string {
		in, _ := c.Apply(&Call[string]{Fn: cuda.Model.Lookup(name), Stream: "s", Uses: uses})
		return in
	}
	node := func(key string, made bool) Use[string] {
		return Use[string]{Param: 1, Key: key, Kind: api.Node, Made: made}
	}
	apply("cuLaunchKernel", node("before", true))
	apply("cuStreamBeginCapture_v2")
	if got := apply("cuLaunchKernel", node("n", true), node("used", false)); got != "s" || !c.Active() {
		t.Errorf("a captured task is in %q", got)
	}
	c.Put("m", "elsewhere")
	apply("cuStreamEndCapture", Use[string]{Param: 1, Key: "g", Kind: api.Graph})
	for graph, want := range map[string]string{"g": "[n]", "s": "[]", "elsewhere": "[m]", "none": "[]"} {
		if got := c.End(graph); fmt.Sprint(got) != want || c.End(graph) != nil {
			t.Errorf("%s had %q, want %s", graph, got, want)
		}
	}
	c.Apply(&Call[string]{Fn: cuda.Model.Lookup("cuGraphAddKernelNode_v2"), Uses: []Use[string]{{Param: 0, Key: "n", Kind: api.Node, Made: true}, {Param: 1, Key: "g", Kind: api.Graph}}})
	if got := c.End("g"); !slices.Equal(got, []string{"n"}) {
		t.Errorf("the graph had %q", got)
	}
	// A capture whose graph is unknown has no nodes.
	apply("cuStreamBeginCapture_v2")
	apply("cuLaunchKernel", node("n", true))
	apply("cuStreamEndCapture")
	if len(c.nodes) != 0 || c.Active() {
		t.Errorf("%v are left", c.nodes)
	}
}

// Graphs that run other graphs twice double with every call. Their copies end early, but their sizes are those of the whole graphs.
func TestDoublingGraphs(t *testing.T) {
	w := newWorld(t)
	w.graphs.room = 1000
	w.all("cuGraphCreate phGraph=g0\ncuGraphAddKernelNode_v2 phGraphNode=n hGraph=g0")
	size := uint64(1)
	for i := range 70 {
		w.do(fmt.Sprintf("cuGraphCreate phGraph=g%d", i+1))
		for k := range 2 {
			w.do(fmt.Sprintf("cuGraphAddChildGraphNode phGraphNode=n%d.%d hGraph=g%d childGraph=g%d", i, k, i+1, i))
		}
		size = 2 * sum(size, 1)
		if i >= 62 {
			size = math.MaxUint64
		}
		w.do(fmt.Sprintf("cuGraphInstantiateWithFlags phGraphExec=e%d hGraph=g%d", i+1, i+1))
		g, e := w.graphs.Known(fmt.Sprintf("g%d", i+1)), w.graphs.Known(fmt.Sprintf("e%d", i+1))
		if g.Size() != size || e.Size() != size || e.Whole() != (i < 6) {
			t.Errorf("after %d doublings the sizes are %d and %d, want %d; whole: %v", i+1, g.Size(), e.Size(), size, e.Whole())
		}
		if n := w.graphs.room; n < 0 || n > 1000+copiesOf*w.calls {
			t.Errorf("room for %d nodes after %d doublings", n, i+1)
		}
	}
	g, ran := w.graphs.Known("g5"), 0
	g.Running(func(int) { ran++ })
	if n := len(g.Tasks()); uint64(n) != g.Size() || ran != 1<<5 {
		t.Errorf("%d tasks of %d, %d run", n, g.Size(), ran)
	}
	// A node that is added later counts.
	e := w.graphs.Known("e30")
	was := e.Size()
	w.do("cuGraphAddKernelNode_v2 phGraphNode=late hGraph=e30")
	if e.Size() != was+1 {
		t.Errorf("size %d, want %d", e.Size(), was+1)
	}
	// Graphs that have ended leave room for new copies.
	w.do("cuGraphClone phGraphClone=cut originalGraph=g7")
	for i := range 69 {
		w.do(fmt.Sprintf("cuGraphDestroy hGraph=e%d", i+1))
	}
	w.do("cuGraphClone phGraphClone=whole originalGraph=g7")
	if w.graphs.Known("cut").Whole() || !w.graphs.Known("whole").Whole() || w.graphs.Known("whole").Size() != w.graphs.Known("cut").Size() {
		t.Errorf("copies of %d and %d nodes", w.graphs.Known("cut").Size(), w.graphs.Known("whole").Size())
	}
}

// A list of tasks is no longer than maxNodes, even if the graph is.
func TestLongLists(t *testing.T) {
	x := New[string, int]()
	for i := range 1023 {
		x.Add("inner", i)
	}
	g, ran := &Graph[string, int]{}, 0
	for range maxNodes/1024 + 1 {
		g.nodes = append(g.nodes, &Node[string, int]{child: x.Known("inner")})
	}
	g.Running(func(int) { ran++ })
	if n := len(g.Tasks()); n != maxNodes || ran != maxNodes/1024*1023 || g.Size() != maxNodes+1024 {
		t.Errorf("%d tasks of %d, %d run", n, g.Size(), ran)
	}
}

// Each task is on the lane of a task that precedes it if that is the last one there. Only tasks that other lanes wait for have a number.
func TestLanesOfManyTasks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	const n = 300
	after := make([][]int, n)
	for i := range after {
		for range r.IntN(3) {
			if i > 0 {
				after[i] = append(after[i], max(i-1-r.IntN(5), 0))
			}
		}
	}
	lanes, crossed := Lanes(n, func(i int) []int { return after[i] })
	last, waited := map[int]int{}, map[int]bool{}
	for i, lane := range lanes {
		before, used := last[lane]
		if used && !slices.Contains(after[i], before) || !used && lane != len(last) {
			t.Errorf("task %d is on lane %d after %d", i, lane, before)
		}
		for _, a := range after[i] {
			if !used && last[lanes[a]] == a {
				t.Errorf("task %d is not on the lane of %d", i, a)
			}
			if lanes[a] != lane {
				waited[a] = true
			}
		}
		last[lane] = i
	}
	numbers := slices.Sorted(maps.Values(crossed))
	for i, k := range numbers {
		if k != int32(i) {
			t.Errorf("the numbers are %d", numbers)
			break
		}
	}
	if !maps.EqualFunc(crossed, waited, func(int32, bool) bool { return true }) {
		t.Errorf("%v have a number, %v are waited for", crossed, waited)
	}
}
