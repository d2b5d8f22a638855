package graph

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// capturer makes calls of captures with task groups. The value of a node is the number of its call, from 1.
type capturer struct {
	captures Captures[string]
	graphs   *Graphs[string, uint64]
	calls    uint64
	part     Part   // of the latest call
	in       string // that took its task
}

func (x *capturer) call(name, stream string, uses ...Use[string]) uint64 {
	x.calls++
	c := &Call[string]{Fn: acl.Model.Lookup(name), Index: x.calls, Stream: stream, Uses: uses, Nodes: func(int) []string { return nil }}
	c.Captured, c.Part = x.captures.Apply(c)
	c.ByStream = c.Captured == "main"
	x.part, x.in = c.Part, c.Captured
	x.graphs.Apply(c, func() uint64 { return x.calls })
	return x.calls
}

func (x *capturer) launch(stream string) uint64 { return x.call("aclrtLaunchKernel", stream) }

func (x *capturer) values() (values []uint64) {
	x.graphs.Known("graph").Each(func(call uint64, _ bool) { values = append(values, call) })
	return values
}

// The calls between the begin and the end of an update were taken for a capture of their own, and changed no graph.
func TestUpdateReplacesTheTasksOfAGroup(t *testing.T) {
	group := func(made bool) Use[string] {
		return Use[string]{Param: 1, Key: "group", Kind: api.TaskGroup, Made: made}
	}
	x := &capturer{graphs: New[string, uint64]()}
	x.call("aclmdlRICaptureBegin", "main")
	first := x.launch("main")
	x.call("aclmdlRICaptureTaskGrpBegin", "main")
	a, b := x.launch("main"), x.launch("main")
	if !x.part.Member || x.in != "main" {
		t.Errorf("a task in a group is %+v in %q", x.part, x.in)
	}
	x.call("aclmdlRICaptureTaskGrpEnd", "main", group(true))
	last := x.launch("main")
	if x.part.Member {
		t.Error("a task behind the group is in it")
	}
	if calls, in := x.captures.Group("group"); !slices.Equal(calls, []uint64{a, b}) || in != "main" {
		t.Errorf("the group has %d in %q", calls, in)
	}
	x.call("aclmdlRICaptureEnd", "main", Use[string]{Param: 1, Key: "graph", Kind: api.Graph})
	if _, in := x.captures.Group("group"); in != "graph" {
		t.Errorf("the group is in %q", in)
	}
	x.graphs.Changed("graph")
	second := b
	for _, similar := range []bool{true, false} {
		x.graphs.Similar = func(_, _ uint64) bool { return similar }
		x.call("aclmdlRICaptureTaskUpdateBegin", "updates", group(false))
		if !x.captures.Active() {
			t.Error("an update does not count")
		}
		k := x.launch("updates")
		if x.part != (Part{Update: true, Of: a}) || x.in != "group" {
			t.Errorf("the first task of an update is %+v in %q", x.part, x.in)
		}
		if got := x.values(); !slices.Equal(got, []uint64{first, k, second, last}) {
			t.Errorf("the graph has %d", got)
		}
		second = x.launch("updates")
		x.launch("updates")
		if x.part.Replaces() || !x.part.Update {
			t.Errorf("a task too many is %+v", x.part)
		}
		x.launch("main")
		if x.in != "" {
			t.Errorf("a task on another stream is in %q", x.in)
		}
		x.call("aclmdlRICaptureTaskUpdateEnd", "updates")
		if got := x.values(); !slices.Equal(got, []uint64{first, k, second, last}) || x.captures.Active() {
			t.Errorf("the graph has %d", got)
		}
		x.launch("updates")
		if x.in != "" {
			t.Errorf("a task after the update is in %q", x.in)
		}
		if changed := x.graphs.Changed("graph") != nil; changed == similar {
			t.Errorf("changed: %v", changed)
		}
	}
	if all := x.captures.End("graph"); !slices.Equal(all, []string{"group"}) || len(x.captures.groups) != 0 {
		t.Errorf("%q end with the graph", all)
	}
	x.call("aclmdlRIDestroy", "", Use[string]{Key: "graph", Kind: api.Graph, Ended: true})
	if len(x.graphs.members) != 0 {
		t.Error("the nodes are left")
	}
}

// A capture that fails to end takes no group along, and a group that never ended gets no later task.
func TestOpenGroupEndsWithItsCapture(t *testing.T) {
	x := &capturer{graphs: New[string, uint64]()}
	x.call("aclmdlRICaptureBegin", "main")
	x.call("aclmdlRICaptureTaskGrpBegin", "main")
	x.call("aclmdlRICaptureEnd", "main")
	if x.launch("main"); x.part.Member || x.in != "" {
		t.Errorf("%+v in %q", x.part, x.in)
	}
}
