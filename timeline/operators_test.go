package timeline_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

// A walk reports the parts of operators before the calls in them, and to which operator each task belongs, also in a graph.
func TestTasksBelongToOperators(t *testing.T) {
	tl := testtrace.Operators(t)
	w := timeline.NewWalk(tl.Reader, acl.Model, nil)
	var parts, tasks []string
	calls, graph := 0, map[string]uint64{}
	err := w.Run(&timeline.Visitor{
		Operator: func(p *operator.Part) error {
			parts = append(parts, fmt.Sprintf("%s on %d at depth %d for %d", p, p.Thread, p.Depth, p.To-p.From))
			return nil
		},
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			if calls++; h.Fn.EntryMark() {
				t.Errorf("call %d is a mark", h.Index)
			}
			if k != nil {
				tasks = append(tasks, w.OperatorOf(k))
			}
			if k != nil && k.Kind == api.GraphRun {
				for _, o := range k.Content.Operators() {
					graph[o.Name] += o.Count
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantParts := []string{
		"aclnnAddGetWorkspaceSize on 0 at depth 0 for 60", "Add on 0 at depth 1 for 20", "aclnnMulGetWorkspaceSize on 0 at depth 0 for 20",
		"aclnnAdd on 1 at depth 0 for 60", "aclnnMul on 1 at depth 0 for 60", "aclnnMul on 1 at depth 0 for 60",
		"aclnnAdd on 1 at depth 0 for 60", "aclnnAdd on 1 at depth 0 for 60",
		"Cast, phase one on 1 at depth 0 for 20", "Cast on 1 at depth 0 for 30",
	}
	if !slices.Equal(parts, wantParts) {
		t.Errorf("got  %q\nwant %q", parts, wantParts)
	}
	if want := []string{"aclnnAdd", "aclnnMul", "aclnnMul", "", "", "", "", "Cast"}; !slices.Equal(tasks, want) {
		t.Errorf("tasks belong to %q, want %q", tasks, want)
	}
	if want := map[string]uint64{"aclnnAdd": 6, "": 3}; !reflect.DeepEqual(graph, want) {
		t.Errorf("runs of graphs launch %v, want %v", graph, want)
	}
	if uint64(calls)+w.Marks() != w.Calls || w.Marks() == 0 {
		t.Errorf("%d calls and %d marks, want %d", calls, w.Marks(), w.Calls)
	}
}

// Calls are selected by the operator, with its marks.
func TestSelectedOperators(t *testing.T) {
	tl := testtrace.Operators(t)
	for _, tt := range []struct {
		glob string
		want int
	}{{"aclnnMul", 2 + 2*4}, {"aclnnA*", 4 + 3*4}, {"Cast", 4}, {"Add", 0}} {
		w := walkOf(t, tl, timeline.Selection{Operators: []string{tt.glob}})
		n := 0
		if err := w.Run(&timeline.Visitor{Marks: true, Call: func(*timeline.HostCall, *timeline.Task) error { n++; return nil }}); err != nil || n != tt.want {
			t.Errorf("%s: %d calls, %v, want %d", tt.glob, n, err, tt.want)
		}
	}
}

func walkOf(t *testing.T, tl *timeline.Timeline, s timeline.Selection) *timeline.Walk {
	t.Helper()
	sel, err := timeline.NewSelector(tl.Reader, acl.Model, &s)
	if err != nil {
		t.Fatal(err)
	}
	return timeline.NewWalk(tl.Reader, acl.Model, &timeline.WalkOptions{Select: sel})
}

// The recorder's time and the time in which a thread did not run are those of the next call, if marks come before it.
func TestTimesBeforeMarks(t *testing.T) {
	s := testtrace.NewSequence(t)
	times := func(recording, blocked uint64) testtrace.Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.RecordingParam, Value: recording}, format.Out{Param: api.BlockedParam, Value: blocked})
		}
	}
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Now += 1_000
	s.Then("InitL2Phase1Context", testtrace.A(0x10, 0x20), testtrace.Text("name", "aclnnAdd"), times(100, 500))
	s.Now += 1_000
	s.Then("OpDfxGuardEnd", testtrace.A(0), times(50, 200))
	s.Now += 1_000
	s.Then("aclrtSetDevice", testtrace.A(0), times(30, 60))
	tl := s.Load()
	for _, tt := range []struct {
		marks bool
		want  []int64
	}{{false, []int64{180, 760}}, {true, []int64{30, 60}}} {
		var got []int64
		err := timeline.NewWalk(tl.Reader, acl.Model, nil).Run(&timeline.Visitor{Marks: tt.marks, Call: func(h *timeline.HostCall, _ *timeline.Task) error {
			got = []int64{h.Recording, h.Blocked}
			return nil
		}})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("with marks %v: %v, %v, want %v", tt.marks, got, err, tt.want)
		}
	}
}

// A launch has the shapes in the next description by its thread, also in a graph, with names that only the trace has. It has none without a
// description, or if the Walk was not asked for them.
func TestLaunchesHaveShapes(t *testing.T) {
	const add, mul = "AddMine(float16[1,16]) -> float16[1,16]", "Mul(float16[2,16]) -> float16[2,16]"
	for _, wanted := range []bool{true, false} {
		w := timeline.NewWalk(testtrace.Shapes(t).Reader, acl.Model, &timeline.WalkOptions{Shapes: wanted})
		var tasks []string
		graph := map[string]uint64{}
		err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
			if k != nil && k.Kind == api.Kernel {
				tasks = append(tasks, w.OperatorOf(k)+" "+w.ShapesOf(k))
			}
			if k != nil && k.Kind == api.GraphRun {
				for _, o := range k.Content.Operators() {
					graph[o.Name+" "+o.Shapes] += o.Count
				}
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		want, inGraph := []string{"aclnnAdd " + add, "aclnnMul " + mul, "aclnnMul " + mul, " ", "Cast "}, map[string]uint64{"aclnnAdd " + add: 6, " ": 3}
		if !wanted {
			want, inGraph = []string{"aclnnAdd ", "aclnnMul ", "aclnnMul ", " ", "Cast "}, map[string]uint64{"aclnnAdd ": 6, " ": 3}
		}
		if !slices.Equal(tasks, want) || !maps.Equal(graph, inGraph) {
			t.Errorf("shapes %t: tasks %q, in graphs %v", wanted, tasks, graph)
		}
	}
}
