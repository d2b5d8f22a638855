package timeline_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

func selector(t testing.TB, tl *timeline.Timeline, s *timeline.Selection) *timeline.Selector {
	t.Helper()
	x, err := timeline.NewSelector(tl.Reader, acl.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A Walk with each condition, and with all of them, is compared to a plain search in the whole trace. Tasks are those of the calls.
func TestSelectionEqualsAPlainSearch(t *testing.T) {
	steps := testtrace.Steps(t, 12, 6, func(step, launch int) int64 { return 2_000 + int64(100*step+launch*7%50) })
	mixed := testtrace.Steps(t, 12, 6, func(step, _ int) int64 { return 2_000 + int64(100*(step*5%12)) })
	deep := testtrace.Deep(t)
	slow := func(tl *timeline.Timeline, h *timeline.HostCall, from, to int) bool { // one of the three longest of the steps from from to to
		at, longer := tl.Steps().At(h.Start), 0
		if at < from || at > to {
			return false
		}
		for i, s := range tl.Steps().List {
			if own := tl.Steps().List[at]; i >= from && i <= to && s.To-s.From > own.To-own.From {
				longer++
			}
		}
		return longer < 3
	}
	long := func(tl *timeline.Timeline, h *timeline.HostCall, ns int64) bool {
		if h.Flags&format.Unfinished != 0 {
			return tl.End-h.Start > ns
		}
		return h.End-h.Start > ns
	}
	launches := func(h *timeline.HostCall) bool { return h.Fn != nil && h.Fn.Task == api.Kernel }
	for _, c := range []struct {
		name string
		tl   *timeline.Timeline
		s    timeline.Selection
		want func(tl *timeline.Timeline, h *timeline.HostCall) bool
	}{
		{"all", steps, timeline.Selection{}, func(*timeline.Timeline, *timeline.HostCall) bool { return true }},
		{"calls", steps, timeline.Selection{Calls: &human.Numbers{First: 30, Last: 41}}, func(_ *timeline.Timeline, h *timeline.HostCall) bool { return h.Index >= 30 && h.Index <= 41 }},
		{"no such call", steps, timeline.Selection{Calls: &human.Numbers{First: 30_000, Last: 30_001}}, func(*timeline.Timeline, *timeline.HostCall) bool { return false }},
		{"one step", steps, timeline.Selection{Steps: &human.Numbers{First: 3, Last: 3}}, func(tl *timeline.Timeline, h *timeline.HostCall) bool { return tl.Steps().At(h.Start) == 3 }},
		{"first steps", steps, timeline.Selection{Steps: &human.Numbers{First: 0, Last: 4}}, func(tl *timeline.Timeline, h *timeline.HostCall) bool {
			at := tl.Steps().At(h.Start)
			return at >= 0 && at <= 4
		}},
		{"more steps than there are", steps, timeline.Selection{Steps: &human.Numbers{First: 9, Last: 400}}, func(tl *timeline.Timeline, h *timeline.HostCall) bool { return tl.Steps().At(h.Start) >= 9 }},
		{"slowest steps", mixed, timeline.Selection{Slowest: 3}, func(tl *timeline.Timeline, h *timeline.HostCall) bool { return slow(tl, h, 0, 100) }},
		{"slowest of some steps", mixed, timeline.Selection{Slowest: 3, Steps: &human.Numbers{First: 2, Last: 7}}, func(tl *timeline.Timeline, h *timeline.HostCall) bool { return slow(tl, h, 2, 7) }},
		{"function", steps, timeline.Selection{Funcs: []string{"aclrtSync*", "aclrtMall?c"}}, func(_ *timeline.Timeline, h *timeline.HostCall) bool {
			return strings.HasPrefix(h.Name, "aclrtSync") || h.Name == "aclrtMalloc"
		}},
		{"kernel", steps, timeline.Selection{Kernels: []string{"*"}}, func(_ *timeline.Timeline, h *timeline.HostCall) bool { return launches(h) }},
		{"kernel by name", deep, timeline.Selection{Kernels: []string{"Add<?>"}}, func(_ *timeline.Timeline, h *timeline.HostCall) bool {
			return launches(h) && h.Kernel == "Add<1>"
		}},
		{"failed", deep, timeline.Selection{Failed: true}, func(_ *timeline.Timeline, h *timeline.HostCall) bool { return h.Failed() }},
		{"longer", deep, timeline.Selection{Longer: 900}, func(tl *timeline.Timeline, h *timeline.HostCall) bool { return long(tl, h, 900) }},
		{"all together", steps, timeline.Selection{Steps: &human.Numbers{First: 2, Last: 9}, Kernels: []string{"*"}, Calls: &human.Numbers{First: 25, Last: 70}}, func(tl *timeline.Timeline, h *timeline.HostCall) bool {
			at := tl.Steps().At(h.Start)
			return at >= 2 && at <= 9 && launches(h) && h.Index >= 25 && h.Index <= 70
		}},
	} {
		for _, most := range []int{0, 3} {
			t.Run(fmt.Sprint(c.name, " ", most), func(t *testing.T) {
				c.s.Most = most
				var want, wantTasks []uint64
				for i := range c.tl.Calls {
					if h := &c.tl.Calls[i]; c.want(c.tl, h) && (most == 0 || len(want) < most) {
						want = append(want, h.Index)
					}
				}
				for i := range c.tl.Tasks {
					if k := &c.tl.Tasks[i]; slices.Contains(want, k.Call) {
						wantTasks = append(wantTasks, k.Call)
					}
				}
				var got, others, tasks []uint64
				sel := selector(t, c.tl, &c.s)
				var w *timeline.Walk
				walk(t, c.tl, &timeline.WalkOptions{Select: sel}, &timeline.Visitor{
					Call: func(h *timeline.HostCall, _ *timeline.Task) error { got = append(got, h.Index); return nil },
					Task: func(k *timeline.Task) error { tasks = append(tasks, k.Call); return nil },
				})
				slices.Sort(tasks)
				slices.Sort(wantTasks)
				if !slices.Equal(got, want) || !slices.Equal(tasks, wantTasks) || sel.Taken() != uint64(len(want)) && c.name != "all" {
					t.Errorf("calls %v, want %v; tasks %v, want %v; %d taken", got, want, tasks, wantTasks, sel.Taken())
				}
				// With All, the other calls of the period come too.
				got = nil
				w = timeline.NewWalk(c.tl.Reader, acl.Model, &timeline.WalkOptions{Select: selector(t, c.tl, &c.s)})
				err := w.Run(&timeline.Visitor{All: true, Call: func(h *timeline.HostCall, _ *timeline.Task) error {
					if w.Selected() {
						got = append(got, h.Index)
					} else {
						others = append(others, h.Index)
					}
					return nil
				}})
				if err != nil || !slices.Equal(got, want) || c.name != "all" && len(want) > 0 && want[0] > 0 && !slices.Contains(others, want[0]-1) {
					t.Errorf("%v: calls %v, others %v", err, got, others)
				}
			})
		}
	}
}

// TestSelectedSteps checks that selected steps come whole, although the Walk ends early, and that the index bounds what is read for numbers of calls.
func TestSelectedSteps(t *testing.T) {
	tl := testtrace.Steps(t, 12, 6, func(step, launch int) int64 { return 2_000 + int64(100*step+launch*7%50) })
	all := tl.Steps().List
	for _, c := range []struct {
		s    timeline.Selection
		want []step.Step
	}{
		{timeline.Selection{Steps: &human.Numbers{First: 4, Last: 6}}, all[4:7]},
		{timeline.Selection{Steps: &human.Numbers{First: 0, Last: 0}, Kernels: []string{"*"}}, all[:1]},
		{timeline.Selection{From: all[2].From + 1, To: all[3].To}, all[2:4]},
	} {
		var got []step.Step
		last := int64(0)
		walk(t, tl, &timeline.WalkOptions{Select: selector(t, tl, &c.s)}, &timeline.Visitor{
			All:  true,
			Call: func(h *timeline.HostCall, _ *timeline.Task) error { last = h.Start; return nil },
		})
		latest := int64(0)
		for i := range tl.Calls {
			if h := &tl.Calls[i]; h.Start < c.want[len(c.want)-1].To {
				latest = h.Start
			}
		}
		if last != latest {
			t.Errorf("%s: read until %d, want %d", &c.s, last, latest)
		}
		w := timeline.NewWalk(tl.Reader, acl.Model, &timeline.WalkOptions{Select: selector(t, tl, &c.s)})
		if err := cmp.Or(w.FindSteps(), w.Run(&timeline.Visitor{Step: func(s *step.Step) error { got = append(got, *s); return nil }})); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, steps %+v, want %+v", &c.s, err, got, c.want)
		}
	}
}

// TestSelectedLanes selects by the names of lanes: the calls whose tasks are there, and those that wait for a stream or a default stream.
func TestSelectedLanes(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(1, 1_100, 2_500, "aclrtSetDevice", testtrace.A(1))
	b.Call(0, 3_000, 3_700, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 4_200, 4_300, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 4_400, 4_500, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamB))
	b.Call(0, 5_000, 5_100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB)) // the first use: stream 1
	for i := range int64(3) {
		at := 6_000 + i*1_000
		b.Call(0, at, at+50, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
		b.Call(0, at+100, at+150, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamB))
		b.Call(0, at+200, at+250, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, 0, 1024, 0))
		b.Call(1, at+300, at+350, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, 0))
		b.Call(0, at+400, at+450, "aclrtMemcpy", testtrace.A(testtrace.HostA, 4096, testtrace.DeviceA+512, 4096, 2))
	}
	b.Call(0, 10_000, 10_100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	b.Call(1, 10_200, 10_300, "aclrtSynchronizeStream", testtrace.A(0))
	tl := b.Load()
	for name, want := range map[string][]uint64{
		"stream 1":                   {5, 7, 12, 17},
		"stream 2":                   {6, 11, 16, 21},
		"default stream":             {8, 13, 18},
		"default stream of device 1": {9, 14, 19, 22},
		"synchronous":                {10, 15, 20},
	} {
		var got []uint64
		s := &timeline.Selection{Lane: name}
		walk(t, tl, &timeline.WalkOptions{Select: selector(t, tl, s)}, &timeline.Visitor{Call: func(h *timeline.HostCall, _ *timeline.Task) error {
			got = append(got, h.Index)
			return nil
		}})
		var lines bytes.Buffer
		if err := report.Lines(&lines, tl.Reader, acl.Model, &report.LineOptions{Selection: *s}); err != nil || strings.Count(lines.String(), "\n") != len(want) {
			t.Errorf("%s: %v, lines\n%s", name, err, &lines)
		}
		if !slices.Equal(got, want) || s.String() != "--stream '"+name+"'" && s.String() != "--stream "+name || s.Contiguous() {
			t.Errorf("%s: calls %v, want %v", s, got, want)
		}
	}
	_, err := timeline.NewSelector(tl.Reader, acl.Model, &timeline.Selection{Lane: "stream 3"})
	if want := `no stream "stream 3": the trace has stream 1, stream 2, default stream, default stream of device 1, synchronous`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestImpossibleSelections(t *testing.T) {
	tl := testtrace.Steps(t, 12, 6, func(step, launch int) int64 { return 2_000 })
	for want, s := range map[string]timeline.Selection{
		"no step 12: the trace has the steps 0 to 11":    {Steps: &human.Numbers{First: 12, Last: 12}},
		"no function of the trace is named aclrtNothing": {Funcs: []string{"aclrtMalloc", "aclrtNothing"}},
	} {
		if _, err := timeline.NewSelector(tl.Reader, acl.Model, &s); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", &s, err, want)
		}
	}
	deep := testtrace.Deep(t)
	if _, err := timeline.NewSelector(deep.Reader, acl.Model, &timeline.Selection{Steps: &human.Numbers{}}); err == nil || !strings.Contains(err.Error(), "no step 0: the trace has no steps: ") {
		t.Error(err)
	}
}

func TestSelectionText(t *testing.T) {
	s := timeline.Selection{Calls: &human.Numbers{First: 7, Last: 9}, Steps: &human.Numbers{First: 3, Last: 3}, From: 1_500_000, To: 2_000_000_000, Funcs: []string{"a*", "b"}, Kernels: []string{"k"},
		Failed: true, Longer: 1_000, Thread: 12, Stream: 2, Task: &format.TaskID{Stream: 47, Task: 12}, Most: 5}
	if got, want := s.String(), "--call 7:9 --step 3 --from 1.5ms --to 2s --func 'a*' --func b --kernel k --failed --longer-than 1us --thread 12 --stream 2 --task 47:12 -n 5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
