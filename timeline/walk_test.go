package timeline_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// walk finds the steps in a trace and runs a Walk.
func walk(t testing.TB, tl *timeline.Timeline, o *timeline.WalkOptions, v *timeline.Visitor) *timeline.Walk {
	t.Helper()
	w := timeline.NewWalk(tl.Reader, acl.Model, o)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(v); err != nil {
		t.Fatal(err)
	}
	return w
}

// Each task is reported once, after its call and in the order of its lane. With a window, the reports are those of the whole
// trace that lie in the window.
func TestWalkReportsEachTaskOnce(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 6_000)} {
		t.Run(name, func(t *testing.T) {
			end := tl.End + 1
			for _, win := range [][2]int64{{0, 0}, {0, end / 2}, {end / 3, end / 2}, {end / 2, 0}, {12_000, 13_000}} {
				var calls []timeline.HostCall
				var tasks []timeline.Task
				last := map[int]int{}
				told := 0
				sel := selector(t, tl, &timeline.Selection{From: win[0], To: win[1]})
				w := walk(t, tl, &timeline.WalkOptions{Select: sel, OwnTimes: true}, &timeline.Visitor{
					Call: func(h *timeline.HostCall, k *timeline.Task) error {
						if (k != nil) != (h.Task >= 0) || k != nil && (k.Index != h.Task || k.Call != h.Index || k.Returned != h.End) {
							t.Fatalf("call %d has task %d and %v", h.Index, h.Task, k)
						}
						told = max(told, h.Task)
						c := *h
						if c.Raw == nil || c.Raw.Index != c.Index {
							t.Errorf("call %d comes with %+v", h.Index, c.Raw)
						}
						c.Raw, c.Step, c.During = nil, -1, -1
						calls = append(calls, c)
						return nil
					},
					Task: func(k *timeline.Task) error {
						if win[0] == 0 && k.Index > told {
							t.Errorf("task %d is told before its call", k.Index)
						}
						if i, ok := last[k.Lane]; ok && k.Index <= i {
							t.Errorf("task %d has ended after %d on lane %d", k.Index, i, k.Lane)
						}
						last[k.Lane] = k.Index
						tasks = append(tasks, *k)
						return nil
					},
				})
				to := cmp.Or(win[1], 1<<62)
				var wantCalls []timeline.HostCall
				var wantTasks []timeline.Task
				for i := range tl.Calls {
					if c := &tl.Calls[i]; c.Start < to && w.CallEnd(c) >= win[0] {
						wantCalls = append(wantCalls, *c)
					}
				}
				for i := range tl.Tasks {
					if k := &tl.Tasks[i]; k.From < to && k.To >= win[0] {
						wantTasks = append(wantTasks, *k)
					}
				}
				if !slices.Equal(calls, wantCalls) {
					t.Errorf("%v: %d calls, want %d", win, len(calls), len(wantCalls))
				}
				slices.SortFunc(tasks, func(a, b timeline.Task) int { return cmp.Compare(a.Index, b.Index) })
				same := func(a, b timeline.Task) bool {
					a.Object, b.Object, a.Step, b.Step = nil, nil, 0, 0 // objects differ between two readings
					return a == b
				}
				if !slices.EqualFunc(tasks, wantTasks, same) {
					t.Errorf("%v: tasks %+v, want %+v", win, tasks, wantTasks)
				}
				if w.Start != tl.Calls[0].Start || w.Calls != uint64(len(tl.Calls)) || win[1] == 0 && !slices.Equal(names(w.Lanes), names(tl.Lanes)) {
					t.Errorf("from %d, %d calls, lanes %+v", w.Start, w.Calls, w.Lanes)
				}
			}
		})
	}
}

func names(lanes []timeline.Lane) (out []string) {
	for i := range lanes {
		out = append(out, lanes[i].Name)
	}
	return out
}

// Waits that fail or never return name the stream, the device or the event that they wait for. An unknown stream makes no lane.
func TestObjectsOfFailedWaits(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 10, 11, "aclrtSetDevice", testtrace.A(1))
	b.Call(0, 12, 13, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 14, 15, "aclrtCreateEvent", testtrace.A(0x7ffe0010), testtrace.Outs("event", testtrace.Event))
	b.Call(0, 16, 17, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
	b.Call(0, 20, 30, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507015))
	b.Call(0, 31, 40, "aclrtSynchronizeDevice", nil, testtrace.Fails(507015))
	b.Call(0, 41, 50, "aclrtSynchronizeEvent", testtrace.A(testtrace.Event), testtrace.Fails(507015))
	b.Call(0, 51, 60, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB), testtrace.Fails(107003))
	b.Call(0, 61, 70, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
	tl := b.Load()
	stream, event := int32(tl.Tasks[0].Lane), int32(-1)
	for _, o := range tl.Objects {
		if o.Kind == api.Event {
			event = int32(o.ID)
		}
	}
	for i, want := range []int32{stream, 1, event, -1, stream} {
		if c := tl.Calls[4+i]; c.Waits != want {
			t.Errorf("call %d %s waits for %d, want %d", c.Index, c.Name, c.Waits, want)
		}
	}
	if len(tl.Lanes) != 1 || !tl.Tasks[0].Open {
		t.Errorf("%d lanes, the task %+v", len(tl.Lanes), tl.Tasks[0])
	}
}

// TestNothingWaits checks that a Walk gives up tasks that nothing waits for, with the end of the trace as their bound.
func TestNothingWaits(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Stream(strB)
	s.function(fn, "k")
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, strB))
	const launches = 140_000
	for range launches {
		s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, strA))
	}
	s.Then("aclrtSynchronizeStream", testtrace.A(strB))
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	synced := s.Now + 10
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	tl := s.Load()
	var ends []int64
	w := walk(t, tl, nil, &timeline.Visitor{Task: func(k *timeline.Task) error {
		first := tl.Lanes[k.Lane].Name == "stream 1"
		if first != (k.Index == 0) || k.Open != (k.To == tl.End) || k.Open != (!first && k.Index <= 1<<16) {
			t.Fatalf("%+v", k)
		}
		if !first {
			ends = append(ends, k.To)
		}
		return nil
	}})
	if len(ends) != launches || w.GivenUp != 1<<16 || ends[0] != tl.End || ends[launches-1] != synced {
		t.Errorf("%d tasks, %d given up", len(ends), w.GivenUp)
	}
}

// A call whose end was not seen, which may have been over at once, was drawn until the end of the trace.
func TestCallEnd(t *testing.T) {
	unseen := func(_ *api.Func, c *format.Call) { c.Flags = format.Unfinished | format.NoEnd }
	b := testtrace.New(t)
	b.Call(0, 1000, 1000, "aclrtSetDevice", testtrace.A(0), unseen)
	b.Call(1, 2000, 2500, "aclrtSetDevice", testtrace.A(0), testtrace.Hangs)
	b.Call(2, 3000, 9000, "aclrtSetDevice", testtrace.A(0))
	var ends []int64
	w := timeline.NewWalk(b.Load().Reader, acl.Model, nil)
	if err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, _ *timeline.Task) error {
		ends = append(ends, w.CallEnd(h))
		return nil
	}}); err != nil || !slices.Equal(ends, []int64{1000, 9000, 9000}) {
		t.Errorf("calls end at %d: %v", ends, err)
	}
}
