package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// stream returns a program's stream without a device.
func stream(id int32) *device.Stream { return &device.Stream{ID: id, Attached: &Recording{}} }

// begin returns a capture that began on a stream.
func begin(s *Models, origin *device.Stream) *Capture {
	c := &Capture{Graph: &Graph{}, Origin: origin, Lanes: map[*device.Stream]*Lane{}, Groups: map[*device.Stream]*TaskGroup{}}
	s.Captures.Begin(c)
	c.Join(origin)
	return c
}

func failed(t *testing.T, f *fail.Failure, code acl.Error, text string) {
	t.Helper()
	if f == nil || f.Code != fail.Code(code) || !strings.Contains(f.Text, text) {
		t.Errorf("%+v, want %d: %s", f, code, text)
	}
}

func TestConditionsCompareSignedValues(t *testing.T) {
	for cond, want := range map[acl.Condition][3]bool{ // for less, equal and greater
		acl.ACL_RT_EQUAL: {false, true, false}, acl.ACL_RT_NOT_EQUAL: {true, false, true}, acl.ACL_RT_GREATER: {false, false, true},
		acl.ACL_RT_GREATER_OR_EQUAL: {false, true, true}, acl.ACL_RT_LESS: {true, false, false}, acl.ACL_RT_LESS_OR_EQUAL: {true, true, false},
	} {
		if got := [3]bool{Compare(-1, 1, cond), Compare(2, 2, cond), Compare(1, -1, cond)}; got != want {
			t.Errorf("condition %d: %v", cond, got)
		}
	}
}

// Tasks of captured streams are kept by stream until the capture ends. A stream joins once.
func TestCaptureKeepsTasks(t *testing.T) {
	s := &Models{}
	a, b := stream(1), stream(2)
	c := begin(s, a)
	c.Join(b)
	c.Join(b)
	if len(c.Graph.Lanes) != 2 || recordingOf(b).Capture.Load() != c {
		t.Errorf("%d lanes", len(c.Graph.Lanes))
	}
	if m, n := c.NewMark(), c.NewMark(); m != 0 || n != 1 || c.Graph.Marks != 2 {
		t.Errorf("marks %d and %d of %d", m, n, c.Graph.Marks)
	}
	k, f := c.Add(b, device.Task{Kind: device.TaskRecord}, 1)
	if f != nil || k.Mark != 1 || k.Group != nil || !slices.Equal(c.Graph.Lanes[1].Tasks, []*GraphTask{k}) || len(c.Graph.Lanes[0].Tasks) != 0 {
		t.Errorf("%+v, %v", k, f)
	}
	g := &TaskGroup{}
	c.Groups[b] = g
	_, f = c.Add(b, device.Task{Kind: device.TaskRecord}, -1)
	failed(t, f, acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "want kernels only")
	if k, f := c.Add(b, device.Task{Kind: device.TaskKernel}, -1); f != nil || k.Group != g || !slices.Equal(g.Tasks, []*GraphTask{k}) {
		t.Errorf("%+v, %v", k, f)
	}
	_, f = c.Add(a, device.Task{Kind: device.TaskKernel}, -1)
	failed(t, f, acl.ACL_ERROR_STREAM_TASK_GROUP_INTR, "stream 1: a task group is open on another stream")
	c.Spoil(status.Failed(acl.ACL_ERROR_RT_PARAM_INVALID, "later"))
	_, f = c.Add(b, device.Task{Kind: device.TaskKernel}, -1)
	failed(t, f, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "failed earlier: stream 1: a task group")
	s.Captures.Stop(c)
	_, f = c.Add(b, device.Task{Kind: device.TaskKernel}, -1)
	failed(t, f, acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream 2 has ended")
	if c.Join(stream(3)); len(c.Graph.Lanes) != 2 || recordingOf(a).Capture.Load() != nil || recordingOf(b).Capture.Load() != nil {
		t.Error("a stream is in a capture that has ended")
	}
}

// A capture is active until it stops. Another one on its streams stays.
func TestActiveCaptures(t *testing.T) {
	s := &Models{}
	if s.Captures.List() != nil {
		t.Error("a capture is active")
	}
	a := stream(1)
	c, d := begin(s, a), begin(s, stream(2))
	ev := &Event{Captured: &Captured{Capture: c, Mark: 3}}
	if !slices.Equal(s.Captures.List(), []*Capture{c, d}) || !s.Captures.Into(d.Graph) || s.Captures.Into(&Graph{}) || ev.InCapture() != ev.Captured {
		t.Error("the wrong captures are active")
	}
	f := status.Failed(acl.ACL_ERROR_RT_PARAM_INVALID, "x")
	if s.Captures.Spoil(d.Graph, f); d.Invalid != f || c.Invalid != nil {
		t.Errorf("%v, %v", c.Invalid, d.Invalid)
	}
	recordingOf(a).Capture.Store(d)
	if s.Captures.Stop(c); !slices.Equal(s.Captures.List(), []*Capture{d}) || s.Captures.Into(c.Graph) || ev.InCapture() != nil || recordingOf(a).Capture.Load() != d {
		t.Error("the capture is still active")
	}
	if s.Captures.Stop(d); s.Captures.List() != nil {
		t.Error("a capture is still active")
	}
	if (&Event{}).InCapture() != nil {
		t.Error("an event that was not recorded is in a capture")
	}
}

// A stream has joined back if a stream that has joined back waits for its last task.
func TestStreamsJoinThroughOtherStreams(t *testing.T) {
	s := &Models{}
	a, b, x := stream(1), stream(2), stream(3)
	c := begin(s, a)
	add := func(s *device.Stream, kind device.TaskKind, mark int) {
		t.Helper()
		if _, f := c.Add(s, device.Task{Kind: kind, Name: "n"}, mark); f != nil {
			t.Fatal(f.Text)
		}
	}
	add(a, device.TaskKernel, -1)
	if u := c.Unjoined(); u != nil {
		t.Errorf("%+v", u)
	}
	c.Join(b)
	if u := c.Unjoined(); u == nil || *u != (Unjoined{Stream: b}) {
		t.Errorf("%+v", u)
	}
	c.Join(x)
	add(b, device.TaskWait, 5)
	add(b, device.TaskRecord, 0)
	add(x, device.TaskRecord, 5)
	if u := c.Unjoined(); u == nil || *u != (Unjoined{b, "event_record n", 2, 0}) && u.Stream != b {
		t.Errorf("%+v", u)
	}
	add(a, device.TaskWait, 0)
	if u := c.Unjoined(); u != nil { // x joins b, which joins a
		t.Errorf("%+v", u)
	}
	add(b, device.TaskKernel, -1)
	if u := c.Unjoined(); u == nil || u.Stream != b || u.Tasks != 3 || u.Joined != 2 || !strings.HasSuffix(u.Last, " n") {
		t.Errorf("%+v", u)
	}
}

// A model that is built task by task takes tasks until it is complete, or until the stream's part ends.
func TestBoundStream(t *testing.T) {
	b := &Bound{Graph: &Graph{ID: 4, Building: true}, Lane: &Lane{}}
	k := &GraphTask{}
	if f := b.Add(stream(7), k); f != nil || !slices.Equal(b.Lane.Tasks, []*GraphTask{k}) {
		t.Errorf("%v, %v", f, b.Lane.Tasks)
	}
	b.Ended = true
	failed(t, b.Add(stream(7), k), acl.ACL_ERROR_RT_STREAM_MODEL, "stream 7 is bound to model 4, which is complete")
	b.Ended, b.Graph.Building = false, false
	failed(t, b.Add(stream(7), k), acl.ACL_ERROR_RT_STREAM_MODEL, "stream 7 is bound to model 4, which is complete")
	if len(b.Lane.Tasks) != 1 {
		t.Error("a complete model has more tasks")
	}
}

// Tasks of a group are replaced in order, and the old ones end.
func TestGroupTasksAreReplacedInOrder(t *testing.T) {
	ended := []string{}
	task := func(name string) device.Task {
		return device.Task{Kind: device.TaskKernel, Name: name, Release: func() { ended = append(ended, name) }}
	}
	g := &Graph{}
	group := &TaskGroup{Graph: g}
	g.Lanes = []*Lane{{Tasks: []*GraphTask{{Task: task("b")}, {Task: task("a"), Group: group}}}, {Tasks: []*GraphTask{{Task: task("c"), Group: group}}}}
	if !group.Replace([]device.Task{task("x"), task("y")}) {
		t.Error("the group is gone")
	}
	if n := g.Lanes[0].Tasks[0].Name + g.Lanes[0].Tasks[1].Name + g.Lanes[1].Tasks[0].Name; n != "bxy" || !slices.Equal(ended, []string{"a", "c"}) {
		t.Errorf("%s, %q ended", n, ended)
	}
	g.Lanes = nil
	if group.Replace(nil) {
		t.Error("a group without tasks was replaced")
	}
}

func TestTaskType(t *testing.T) {
	for _, c := range []struct {
		task device.Task
		want acl.MdlRITaskType
	}{
		{device.Task{Kind: device.TaskKernel}, acl.ACL_MODEL_RI_TASK_KERNEL}, {device.Task{Kind: device.TaskRecord}, acl.ACL_MODEL_RI_TASK_EVENT_RECORD},
		{device.Task{Kind: device.TaskWait}, acl.ACL_MODEL_RI_TASK_EVENT_WAIT}, {device.Task{Kind: device.TaskReset}, acl.ACL_MODEL_RI_TASK_EVENT_RESET},
		{device.Task{Detail: &ValueTask{Waits: true}}, acl.ACL_MODEL_RI_TASK_VALUE_WAIT}, {device.Task{Detail: &ValueTask{}}, acl.ACL_MODEL_RI_TASK_VALUE_WRITE},
		{device.Task{}, acl.ACL_MODEL_RI_TASK_DEFAULT},
	} {
		if got := (&GraphTask{Task: c.task}).Type(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.task, got, c.want)
		}
	}
}

// The first use of an event settles its flag. An event is recorded or awaited across a graph's border once.
func TestEventsCrossTheBorderOnce(t *testing.T) {
	u := Use{}
	if !u.Settle(0) || u.Settle(1) || !u.Settle(0) {
		t.Error("the flag of an event has changed")
	}
	c := begin(&Models{}, stream(1))
	record, wait := &Event{Handle: 16}, &Event{Mark: &device.Mark{}}
	for i, o := range []*Outside{{Event: record, Record: true}, {Event: wait}} {
		if n, f := c.NewOutside(o); n != i || f != nil {
			t.Errorf("%d, %v", n, f)
		}
	}
	_, f := c.NewOutside(&Outside{Event: record})
	failed(t, f, acl.ACL_ERROR_RT_PARAM_INVALID, "event 0x10 already has")
	g := c.Graph
	marks := g.OutsideMarks()
	if len(marks) != 2 || marks[0] == wait.Mark || device.IsClosed(marks[0].Done) || marks[1] != wait.Mark {
		t.Fatalf("%v", marks)
	}
	record.Captured = &Captured{}
	later := &device.Mark{}
	if g.Recorded([]*device.Mark{marks[0], later}); wait.Last() == later {
		t.Error("an awaited event was recorded")
	}
	if g.Recorded(marks); record.Last() != marks[0] || record.Captured != nil || wait.Last() != marks[1] {
		t.Error("the events do not point at the execution")
	}
	st := stream(1)
	st.Context = &device.Context{}
	st.LastEnd.Store(70)
	g.Unrecorded(marks, st)
	if !device.IsClosed(marks[0].Done) || marks[0].Time != 70 {
		t.Errorf("%+v", marks[0])
	}
	st.LastEnd.Store(80)
	if g.Unrecorded(marks, st); marks[0].Time != 70 {
		t.Error("a record was completed twice")
	}
}

// A run moves from task to task, or to the target of a jump. It does not run a disabled task, and runs others as copies.
func TestLaneRun(t *testing.T) {
	a := &Lane{Tasks: []*GraphTask{{Task: device.Task{Name: "a", At: 5}}, {Task: device.Task{Name: "b"}, Disabled: true}}}
	b := &Lane{Tasks: []*GraphTask{{Task: device.Task{Name: "c"}}}}
	r := &laneRun{Execution: &Execution{graph: &Graph{}}, lane: a}
	if k := r.Task(); !r.Next() || k.Name != "a" || !k.Lent || k.At != 0 {
		t.Errorf("%+v", k)
	}
	r.Advance()
	if k := r.Task(); !r.Next() || k.Name != "" || !k.Lent || k.Kind != device.TaskGraph {
		t.Errorf("%+v", k)
	} else if d, f := k.Run(nil); d != 0 || f != nil {
		t.Errorf("%v, %v", d, f)
	}
	r.Jump = &Place{Lane: b}
	r.Advance()
	if k := r.Task(); !r.Next() || k.Name != "c" || r.Jump != nil {
		t.Errorf("%+v", k)
	}
	if r.Advance(); r.Next() {
		t.Error("there is a task after the last")
	}
}

// caller keeps the calls of a program's functions.
type caller struct{ calls []uint64 }

func (c *caller) Call(f uint64, args ...uint64) uint64 {
	c.calls = append(append(c.calls, f), args...)
	return 0
}

func (c *caller) CallAside(f uint64, args ...uint64) { c.Call(f, args...) }

// A graph that ends releases its tasks and their handles, unbinds its streams and calls the program.
func TestEndGraph(t *testing.T) {
	var calls caller
	s := &Models{}
	s.Init(nil, &calls, nil)
	if kinds := []space.Kind{s.Graphs.Kind, s.Groups.Kind, s.GraphTasks.Kind, s.Conditions.Kind, s.Labels.Kind, s.LabelLists.Kind}; !slices.Equal(kinds,
		[]space.Kind{space.KindGraph, space.KindGroup, space.KindGraphTask, space.KindCondition, space.KindLabel, space.KindLabelList}) {
		t.Errorf("%v", kinds)
	}
	ended := 0
	task := func() device.Task { return device.Task{Release: func() { ended++ }} }
	change, g := task(), &Graph{}
	k := &GraphTask{Task: task(), Change: &Change{Task: &change}, Graph: g}
	k.Handle = s.GraphTasks.Add(k)
	own, other := stream(1), stream(2)
	g.Lanes = []*Lane{{Stream: own, Tasks: []*GraphTask{k, {Task: task()}}}, {Stream: other}}
	g.Ended = []callback.Callback{{Func: 3, Arg: 4}}
	elsewhere := &Bound{Lane: &Lane{}}
	recordingOf(own).Bound.Store(&Bound{Graph: g, Lane: g.Lanes[0]})
	recordingOf(other).Bound.Store(elsewhere)
	s.EndGraph(g)
	if s.GraphTasks.Has(k.Handle) {
		t.Error("the handle of a task is left")
	}
	if ended != 3 || recordingOf(own).Bound.Load() != nil || recordingOf(other).Bound.Load() != elsewhere || !slices.Equal(calls.calls, []uint64{3, 4}) || g.Lanes != nil {
		t.Errorf("%d tasks ended, calls %v", ended, calls.calls)
	}
	if s.EndGraph(g); ended != 3 || len(calls.calls) != 2 {
		t.Error("a graph ended twice")
	}
}
