package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

type noRuntime struct{}

func (noRuntime) TaskFailed(*device.Stream, *device.Task, *fail.Failure) {}
func (noRuntime) StreamEnding(*device.Stream)                            {}
func (noRuntime) StreamEnded(*device.Stream)                             {}

// running has a device in virtual time, two streams, and the names of the tasks that ran.
type running struct {
	t      *testing.T
	d      *device.Device
	a, b   *device.Stream
	thread *device.HostThread
	log    strings.Builder
	ran    []string
}

func newRunning(t *testing.T) *running {
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	x, s := &running{t: t, thread: &device.HostThread{}}, &device.Machine{}
	s.Start(device.Options{VABase: 0x2000_0000_0000, Devices: 1, Memory: 1 << 30, Model: m, Virtual: true, Log: io.Writer(&x.log), Runtime: noRuntime{}})
	x.d = s.Devices[0]
	s.Clock.Join(x.thread)
	c := &device.Context{Device: x.d}
	for _, to := range []**device.Stream{&x.a, &x.b} {
		st, f := c.NewStream(0, 0)
		if f != nil {
			t.Fatal(f.Text)
		}
		st.Attached = &Recording{}
		*to = st
	}
	t.Cleanup(func() {
		x.a.Close(true)
		x.b.Close(true)
		s.Close()
	})
	return x
}

// task returns a task of a graph that takes 20 ns.
func (x *running) task(name string) *GraphTask {
	return &GraphTask{Task: device.Task{Kind: device.TaskHost, Name: name, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
		x.ran = append(x.ran, name)
		return device.Tick, nil
	}}}
}

func (x *running) fails(name string) *GraphTask {
	return &GraphTask{Task: device.Task{Kind: device.TaskHost, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
		return 0, status.Failed(acl.ACL_ERROR_RT_PARAM_INVALID, "%s", name)
	}}}
}

// submit submits runs to a stream.
func (x *running) submit(s *device.Stream, all ...device.Task) {
	x.t.Helper()
	for _, k := range all {
		if _, f := s.Submit(x.thread, k); f != nil {
			x.t.Fatal(f.Text)
		}
	}
}

// want waits for both streams, and compares the tasks that ran and the failure of the first stream.
func (x *running) want(ran, failure string) {
	x.t.Helper()
	for _, s := range []*device.Stream{x.a, x.b} {
		s.Wait(x.thread, s.SubmittedTasks(), device.Forever)
	}
	got := ""
	if f := x.a.Observe(); f != nil {
		got = f.Text
	}
	if all := strings.Join(x.ran, " "); all != ran || !strings.Contains(got, failure) || (got == "") != (failure == "") {
		x.t.Errorf("%q ran, failure %q; want %q and %q", all, got, ran, failure)
	}
	x.ran = nil
}

// word allocates a word of device memory.
func (x *running) word(value uint64) space.Span {
	x.t.Helper()
	if err := x.d.Memory.Reserve(); err != nil {
		x.t.Skip(err)
	}
	at, f := x.d.Memory.Alloc(ConditionSize, 0, memory.Block{Origin: memory.ByRuntime, Access: space.Read | space.Write}, x.t.Logf)
	if f != nil {
		x.t.Fatal(f.Text)
	}
	space.List((*uint64)(space.Pointer(at)), 1)[0] = value
	return space.Span{Addr: at, Size: ConditionSize}
}

// Lanes run at the same time, except that one waits for a record of the other. A graph runs again, and the next task waits for all its lanes.
func TestGraphRunsItsLanes(t *testing.T) {
	x := newRunning(t)
	g := &Graph{Marks: 1}
	g.Lanes = []*Lane{{Stream: x.a, Tasks: []*GraphTask{{Task: WaitMark(Inside(0))}, x.task("after")}},
		{Stream: x.b, Tasks: []*GraphTask{x.task("one"), x.task("two"), {Task: RecordMark(Inside(0))}, x.task("three"), x.task("last")}}}
	x.submit(x.a, g.Run(nil), x.task("next").Task, g.Run(nil))
	x.want("one two three after last next one two three after last", "")
	if g.Current != nil || g.free != x.a.Time {
		t.Errorf("a run is left, the last one ended at %v", g.free)
	}
	begun := x.a.Time
	x.submit(x.b, g.Run(nil))
	x.submit(x.a, g.Run(nil)) // waits for the run on the other stream
	x.want("one two three after last one two three after last", "")
	if took := g.free - begun; took < 8*device.Tick {
		t.Errorf("two runs of 80 ns took %v", took)
	}
	x.submit(x.a, (&Graph{}).Run(nil), (&Graph{Lanes: []*Lane{{Stream: x.a}}}).Run(nil), x.task("x").Task)
	x.want("x", "")
}

// A failed task ends its lane. Lanes that wait for its record go on, the stream receives the failure, and the next run starts anew.
func TestGraphFails(t *testing.T) {
	x := newRunning(t)
	g := &Graph{Marks: 1}
	g.Lanes = []*Lane{{Stream: x.a, Tasks: []*GraphTask{{Task: WaitMark(Inside(0))}, x.task("after")}},
		{Stream: x.b, Tasks: []*GraphTask{x.task("one"), x.fails("wrong"), x.task("not"), {Task: RecordMark(Inside(0))}}}}
	x.submit(x.a, g.Run(nil))
	x.want("one after", "wrong")
	g.Lanes[1].Tasks[1].Disabled = true
	x.submit(x.a, g.Run(nil))
	x.want("one not after", "")
	outside := []*device.Mark{{Done: make(chan struct{})}, nil}
	at := func(n int) func(*Execution) *device.Mark {
		return func(x *Execution) *device.Mark { return x.Outside[n] }
	}
	g = &Graph{Lanes: []*Lane{{Stream: x.a, Tasks: []*GraphTask{x.fails("again"), {Task: RecordMark(at(0))}}},
		{Stream: x.b, Tasks: []*GraphTask{{Task: WaitMark(at(1))}, x.task("no record")}}}}
	x.submit(x.a, g.Run(outside))
	x.want("no record", "again")
	if f := outside[0].Failure; !outside[0].Complete() || f == nil || f.Text != "again" || outside[0].Time%device.Tick != 0 || outside[0].Time == 0 {
		t.Errorf("%+v", outside[0])
	}
}

// A lane that another one starts runs once in each run of the graph. It begins at that time.
func TestLaneStartsAnother(t *testing.T) {
	x := newRunning(t)
	later := &Lane{Stream: x.b, Tasks: []*GraphTask{x.task("later")}, Later: true}
	start := &GraphTask{Task: device.Task{Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		Running(s).Execution.Start(s, later)
		return 0, nil
	}}}
	g := &Graph{Lanes: []*Lane{{Stream: x.a, Tasks: []*GraphTask{x.task("first"), start, start, x.task("second")}}, later}}
	x.submit(x.a, g.Run(nil), g.Run(nil))
	x.want("first second later first second later", "")
	g.Lanes[0].Tasks = []*GraphTask{x.task("only")}
	x.submit(x.a, g.Run(nil))
	x.want("only", "")
}

// The run of a built model is stopped by an abort, and by its stream. Its failure says so.
func TestBuiltModelHalts(t *testing.T) {
	x := newRunning(t)
	g := &Graph{ID: 6, Built: true}
	never := &device.Mark{Done: make(chan struct{})}
	wait := WaitMark(func(*Execution) *device.Mark { return never })
	halt := &GraphTask{Task: device.Task{Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		e := Running(s).Execution
		e.Aborted.Store(true)
		e.Halt()
		e.Halt()
		return 0, nil
	}}}
	g.Lanes = []*Lane{{Stream: x.a, Tasks: []*GraphTask{{Task: wait}, x.task("not")}}, {Stream: x.b, Tasks: []*GraphTask{x.task("one"), halt, x.task("nor")}}}
	x.submit(x.a, g.Run(nil), x.task("next").Task)
	x.want("one next", "the run of model 6 was aborted")
	g.Lanes = []*Lane{{Stream: x.a, Tasks: []*GraphTask{{Task: wait}, x.task("not")}}}
	x.submit(x.a, g.Run(nil))
	x.a.Wait(x.thread, x.a.SubmittedTasks(), time.Millisecond)
	x.a.Abort()
	g.Lanes = []*Lane{{Stream: x.a, Tasks: []*GraphTask{x.task("again")}}}
	x.submit(x.a, g.Run(nil))
	x.want("again", "")
}

// A word chooses the part of a model that runs. Each run of the model begins with the initial value, also in parts of parts.
func TestConditionChoosesAPart(t *testing.T) {
	x := newRunning(t)
	part := func(name string) *Graph {
		return &Graph{Part: true, Lanes: []*Lane{{Stream: x.b, Tasks: []*GraphTask{x.task(name)}}}}
	}
	for _, c := range []struct {
		kind  acl.MdlRICondTaskType
		value uint64
		parts int
		want  string
	}{
		{acl.ACL_MODEL_RI_COND_TYPE_IF, 0, 1, ""}, {acl.ACL_MODEL_RI_COND_TYPE_IF, 1, 1, "p0"}, {acl.ACL_MODEL_RI_COND_TYPE_IF, 1 << 40, 2, "p0"}, {acl.ACL_MODEL_RI_COND_TYPE_IF, 0, 2, "p1"},
		{acl.ACL_MODEL_RI_COND_TYPE_SWITCH, 0, 3, "p0"}, {acl.ACL_MODEL_RI_COND_TYPE_SWITCH, 2, 3, "p2"}, {acl.ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 3, ""},
		{acl.ACL_MODEL_RI_COND_TYPE_WHILE, 0, 1, ""},
	} {
		g := &Graph{Device: x.d, Lanes: []*Lane{{Stream: x.a}}}
		cond := &Condition{Graph: g, Word: x.word(c.value), Ends: x.d.Memory.Ends.Load(), Kind: c.kind}
		for i := range c.parts {
			cond.Parts = append(cond.Parts, part(fmt.Sprintf("p%d", i)))
		}
		g.Conditions = []*Condition{cond}
		g.Lanes[0].Tasks = []*GraphTask{x.task("before"), {Task: cond.Task()}, x.task("behind")}
		x.submit(x.a, g.Run(nil))
		x.want(strings.Join(strings.Fields("before "+c.want+" behind"), " "), "")
	}

	// A loop in a loop.
	g := &Graph{Device: x.d, ID: 3, Lanes: []*Lane{{Stream: x.a}}}
	loop := func(in *Graph, n uint64) *Condition {
		c := &Condition{Graph: in, Word: x.word(0), Ends: x.d.Memory.Ends.Load(), Kind: acl.ACL_MODEL_RI_COND_TYPE_WHILE, Assign: true, Initial: n}
		in.Conditions = append(in.Conditions, c)
		in.Lanes[0].Tasks = append(in.Lanes[0].Tasks, &GraphTask{Task: c.Task()})
		return c
	}
	down := func(c *Condition) *GraphTask {
		return &GraphTask{Task: device.Task{Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			space.List((*uint64)(space.Pointer(c.Word.Addr)), 1)[0]--
			return 0, nil
		}}}
	}
	outer := loop(g, 2)
	body := part("outer")
	outer.Parts = []*Graph{body}
	body.Device = x.d
	inner := loop(body, 3)
	inner.Parts = []*Graph{part("inner")}
	inner.Parts[0].Lanes[0].Tasks = append(inner.Parts[0].Lanes[0].Tasks, down(inner))
	body.Lanes[0].Tasks = append(body.Lanes[0].Tasks, down(outer))
	for range 2 {
		x.submit(x.a, g.Run(nil))
		x.want("outer inner inner inner outer", "") // the inner word is set when the model starts
	}
	if g.Complete() {
		t.Error("parts that were not captured are complete")
	}
	body.Captured.Store(true)
	if g.Complete() {
		t.Error("a part of a part is complete")
	}
	inner.Parts[0].Captured.Store(true)
	if !g.Complete() {
		t.Error("the model is not complete")
	}

	// A failure ends the loop.
	inner.Parts[0].Lanes[0].Tasks = []*GraphTask{x.fails("wrong")}
	x.submit(x.a, g.Run(nil))
	x.want("outer", "wrong")

	// The value depends on a kernel that did not run.
	x.d.Machine.Taint(inner.Word, &memory.Mark{Why: "gather"})
	inner.Assign, inner.Parts[0].Lanes[0].Tasks = false, []*GraphTask{x.task("endless")}
	x.submit(x.a, g.Run(nil))
	x.want("outer outer", "")
	if want := "the condition of model 0 depends on output of kernel \"gather\""; strings.Count(x.log.String(), want) != 1 {
		t.Errorf("logged: %s", &x.log)
	}
	x.d.Machine.Mark(inner.Word.Addr, 8, 1) // a caller's reason is no kernel
	space.List((*uint64)(space.Pointer(inner.Word.Addr)), 1)[0] = 1
	inner.Parts[0].Lanes[0].Tasks = append(inner.Parts[0].Lanes[0].Tasks, down(inner))
	x.submit(x.a, g.Run(nil))
	x.want("outer endless outer", "")
	outer.Ends++
	x.submit(x.a, g.Run(nil))
	x.want("", "the condition of model 3 on stream 0 is in freed device memory")
}

// A model that ends frees its words and spoils captures into its parts.
func TestEndOfConditions(t *testing.T) {
	x, s := newRunning(t), &Models{}
	s.Init(nil, &caller{}, nil)
	g, part := &Graph{Device: x.d}, &Graph{}
	part.Handle = s.Graphs.Add(part)
	c := &Condition{Graph: g, Word: x.word(0), Ends: x.d.Memory.Ends.Load(), Parts: []*Graph{part}}
	old := &Condition{Graph: g, Word: x.word(0), Ends: c.Ends + 1}
	for _, k := range []*Condition{c, old} {
		k.Handle = s.Conditions.Add(k)
		g.Conditions = append(g.Conditions, k)
	}
	capture := begin(s, x.a)
	capture.Graph = part
	s.EndGraph(g)
	if s.Conditions.Has(c.Handle) || s.Conditions.Has(old.Handle) || s.Graphs.Has(part.Handle) || len(g.Conditions) != 0 {
		t.Error("a handle is left")
	}
	failed(t, capture.Invalid, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "was destroyed")
	if x.d.Memory.Check(c.Word.Addr, 8, space.Read) == nil || x.d.Memory.Check(old.Word.Addr, 8, space.Read) != nil {
		t.Error("the word is left, or memory was freed that is not the word's any more")
	}
}

// A task reads a number of 4 or 8 bytes in memory that its device may access.
func TestReadNumber(t *testing.T) {
	x := newRunning(t)
	w := x.word(1<<63 | 5)
	for wide, want := range map[bool]int64{false: 5, true: -1<<63 + 5} {
		if n, f := ReadNumber(x.a, w.Addr, wide); f != nil || n != want {
			t.Errorf("wide=%t: %d, %v", wide, n, f)
		}
	}
	if n, f := ReadNumber(x.a, w.Addr+4, false); f != nil || n != -1<<31 {
		t.Errorf("%d, %v", n, f)
	}
	for _, at := range []uint64{w.Addr + 8, 0x1000} {
		_, f := ReadNumber(x.b, at, false)
		failed(t, f, acl.ACL_ERROR_RT_SYS_DMA, "condition value of stream 1: ")
	}
	_, f := ReadNumber(x.a, w.Addr+4, true)
	failed(t, f, acl.ACL_ERROR_RT_SYS_DMA, "condition value of stream 0: ")
}

// The last record of an event that processes share is done once the shared number has reached it, also after an overflow, and has its failure.
func TestSharedEvents(t *testing.T) {
	x := newRunning(t)
	shared := &memory.Shared{Slot: &memory.Slot{}}
	ev := EventOf(x.d, shared)
	if ev.Device != x.d || ev.Flags != acl.ACL_EVENT_IPC || ev.External() || ev.Shared != shared || !(&Event{Flags: acl.ACL_EVENT_EXTERNAL}).External() {
		t.Errorf("%+v", ev)
	}
	var got []bool
	for _, c := range [][2]uint32{{0, 0}, {1, 0}, {1, 1}, {1<<31 + 2, 1 << 31}, {2, 1<<32 - 1}, {1<<32 - 1, 2}} {
		shared.Issued.Store(c[0])
		shared.Word.Store(c[1])
		done, f := ev.SharedDone()
		if got = append(got, done); f != nil {
			t.Errorf("%v: %v", c, f)
		}
	}
	if want := []bool{true, false, true, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("done: %v, want %v", got, want)
	}
	shared.Code.Store(507015)
	done, f := ev.SharedDone()
	if failed(t, f, acl.Error(507015), "recorded on a stream that has failed"); !done {
		t.Error("a failed record is not done")
	}
	failed(t, (&Event{Handle: 32}).Late(x.b, 7), acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "stream 1: the wait for event 0x20 timed out after 7 s")
	expired := make(chan time.Time)
	close(expired)
	if done, f := ev.AwaitShared(9, nil, expired); done || f != nil {
		t.Errorf("a wait whose time is over: %t, %v", done, f)
	}
}
