package otelexport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/google/go-cmp/cmp"
)

// program writes calls of a program with two streams and kernels of given names.
type program struct {
	*testtrace.Builder
	kernels map[string]uint64
}

func newProgram(t *testing.T, kernels ...string) *program {
	s := &program{testtrace.New(t), map[string]uint64{}}
	s.Call(0, 10, 20, "aclrtSetDevice", testtrace.A(0))
	s.Call(0, 30, 31, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamA))
	s.Call(0, 32, 33, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamB))
	s.Call(0, 34, 35, "aclrtCreateEvent", testtrace.A(0x7ffe0010), testtrace.Outs("event", testtrace.Event))
	for i, k := range kernels {
		s.kernels[k] = testtrace.Function + uint64(i)
		s.Call(0, 40+int64(i), 41+int64(i), "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", k), testtrace.Outs("funcHandle", s.kernels[k]))
	}
	return s
}

// launch launches a kernel; times are when the device measured it, if at all.
func (s *program) launch(at int64, kernel string, stream uint64, times ...int64) {
	var mods []testtrace.Mod
	if len(times) == 2 {
		mods = append(mods, func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(times[0])}, format.Out{Param: api.TaskEndParam, Value: uint64(times[1])})
		})
	}
	s.Call(0, at, at+10, "aclrtLaunchKernel", testtrace.A(s.kernels[kernel], 8, testtrace.DeviceB, 64, stream), mods...)
}

func (s *program) begin(at int64, id uint64, message string) {
	s.Call(0, at, at+1, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", message), func(_ *api.Func, c *format.Call) { c.Ret = id })
}

func (s *program) end(at int64, id uint64) { s.Call(0, at, at+1, "mstxRangeEnd", testtrace.A(id)) }

// drawn lists spans as "parent/name from to", in recording time. skip is the end of the prologue.
func drawn(spans []oteltest.Span, skip int64) map[string][2]int64 {
	all := map[[2]string]oteltest.Span{}
	for _, s := range spans {
		all[[2]string{s.Trace, s.ID}] = s
	}
	out := map[string][2]int64{}
	for _, s := range spans {
		if at := s.Start - testtrace.StartWall; at >= skip {
			out[all[[2]string{s.Trace, s.Parent}].Name+"/"+s.Name] = [2]int64{at, s.End - testtrace.StartWall}
		}
	}
	return out
}

// Regression: a task without a measured time was drawn until the synchronization that covered it, so kernels of 2 us had
// bars of 1.5 ms. It ends where its stream's order allows first, and its name says so.
func TestTasksEndAsEarlyAsTheyCan(t *testing.T) {
	s := newProgram(t, "k1", "k2", "k3", "k4", "k5")
	s.launch(100, "k1", testtrace.StreamA, 1000, 5000)
	s.launch(200, "k2", testtrace.StreamA)
	s.Call(0, 300, 310, "aclrtRecordEvent", testtrace.A(testtrace.Event, testtrace.StreamA))
	s.Call(0, 400, 410, "aclrtStreamWaitEvent", testtrace.A(testtrace.StreamB, testtrace.Event))
	s.launch(500, "k3", testtrace.StreamB)
	s.launch(600, "k4", testtrace.StreamB, 6000, 7000)
	s.Call(0, 700, 5_500, "aclrtSynchronizeEvent", testtrace.A(testtrace.Event))
	s.Call(0, 6_500, 8_000, "aclrtSynchronizeDevice", nil)
	s.Call(0, 8_100, 8_200, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	s.launch(9_000, "k5", testtrace.StreamA)
	tl := s.Load()
	spans, _ := written(t, tl, nil)
	event := "event#" + fmt.Sprint(tl.Tasks[2].Object.ID)
	want := map[string][2]int64{
		"recording/launch k1":         {100, 110},
		"launch k1/k1":                {1000, 5000},
		"recording/launch k2":         {200, 210},
		"launch k2/k2 (not measured)": {200, 5000},
		"recording/record " + event:   {300, 310},
		"record " + event + "/record " + event + " (not measured)":    {300, 5000},
		"recording/stream wait " + event:                              {400, 410},
		"stream wait " + event + "/wait " + event + " (not measured)": {400, 5000},
		"recording/launch k3":                                         {500, 510},
		"launch k3/k3 (not measured)":                                 {500, 5000},
		"recording/launch k4":                                         {600, 610},
		"launch k4/k4":                                                {6000, 7000},
		"recording/wait " + event:                                     {700, 5500},
		"recording/wait device 0":                                     {6500, 8000},
		"recording/wait stream 2":                                     {8100, 8200},
		"recording/launch k5":                                         {9000, 9010},
		"launch k5/k5 (end unknown)":                                  {9000, 9001},
	}
	if d := cmp.Diff(want, drawn(spans, 100)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	waited := map[string]any{}
	for _, s := range spans {
		if s.Attrs["acl.waited_for"] != nil {
			waited[s.Name] = s.Attrs["acl.waited_for"]
		}
		if s.Attrs["acl.end"] != nil != (s.Name == "k5 (end unknown)") {
			t.Errorf("%+v", s)
		}
	}
	// The last wait began after everything had ended.
	if d := cmp.Diff(map[string]any{"wait " + event: "k2", "wait " + event + " (not measured)": "k2", "wait device 0": "k4"}, waited); d != "" {
		t.Errorf("waited for (-want +got):\n%s", d)
	}

	// Without brackets the calls have the attributes of these tasks.
	some, _ := written(t, tl, &Options{Brackets: BracketsNone})
	for _, s := range some {
		if s.Attrs["acl.call"] == nil && (s.Attrs["acl.task"] != nil || s.Attrs["acl.kernel"] != nil) && s.Attrs["acl.device_ns"] == nil {
			t.Errorf("a bracket: %+v", s)
		}
		if s.Name == "launch k2" && (s.Attrs["acl.kernel"] != "k2" || s.Attrs["acl.stream"] != "stream 1" || s.Attrs["acl.blocks"] != int64(8) || s.Attrs["acl.at_most_ns"] != int64(500)) {
			t.Errorf("%+v", s)
		}
	}
	if len(some) != len(spans)-5 {
		t.Errorf("%d spans without brackets, %d with them", len(some), len(spans))
	}
}

// Spans name notifies as such. A wait resets its notify, so the next wait is for a later record, unlike one for an event.
func TestNotifiesAreNoEvents(t *testing.T) {
	const notify = 0x7801
	s := newProgram(t, "k1", "k2", "k3")
	s.Call(0, 50, 60, "aclrtCreateNotify", testtrace.A(0x7ffe0010, 0), testtrace.Outs("notify", notify))
	s.launch(100, "k1", testtrace.StreamA)
	s.Call(0, 200, 210, "aclrtRecordNotify", testtrace.A(notify, testtrace.StreamA))
	s.Call(0, 300, 310, "aclrtWaitAndResetNotify", testtrace.A(notify, testtrace.StreamB, 0))
	s.launch(400, "k2", testtrace.StreamB)
	s.Call(0, 500, 510, "aclrtWaitAndResetNotify", testtrace.A(notify, testtrace.StreamB, 0)) // before its record
	s.launch(600, "k3", testtrace.StreamA)
	s.Call(0, 700, 710, "aclrtRecordNotify", testtrace.A(notify, testtrace.StreamA))
	s.Call(0, 800, 9_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	s.Call(0, 9_100, 9_110, "aclrtNotifyBatchReset", testtrace.A(0x7ffe0020, 1), testtrace.Reads("notifies", 0, testtrace.Words(notify)))
	tl := s.Load()
	spans, _ := written(t, tl, nil)
	name := "notify#" + fmt.Sprint(tl.Tasks[1].Object.ID)
	type span struct {
		name              string
		object, waitedFor any
	}
	var got []span
	for _, x := range spans {
		if strings.Contains(x.Name, "otify") && x.Start-testtrace.StartWall >= 200 {
			got = append(got, span{x.Name, x.Attrs["acl.event"], x.Attrs["acl.waited_for"]})
		}
	}
	want := []span{
		{"record " + name, nil, nil}, {"stream wait " + name, nil, nil}, {"stream wait " + name, nil, nil}, {"record " + name, nil, nil}, {"aclrtNotifyBatchReset", nil, nil},
		{"record " + name + " (end unknown)", name, nil}, {"wait " + name + " (not measured)", name, "k1"}, {"wait " + name + " (not measured)", name, "k3"}, {"record " + name + " (end unknown)", name, nil},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A launch is under its innermost range, and ranges are under the ranges that contain them. Ranges that overlap do not
// contain each other.
func TestRangesContainCalls(t *testing.T) {
	s := newProgram(t, "k")
	s.begin(100, 1, "epoch")
	s.begin(110, 2, "forward")
	s.launch(120, "k", testtrace.StreamA, 1000, 1001)
	s.begin(140, 3, "across")
	s.end(150, 2)
	s.launch(160, "k", testtrace.StreamB, 1000, 1002)
	s.end(180, 3)
	s.Call(0, 190, 200, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	s.end(300, 1)
	s.Call(0, 400, 410, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	spans, _ := written(t, s.Load(), nil)
	got := map[string]int{}
	for name := range drawn(spans, 100) {
		got[name]++
	}
	want := map[string]int{}
	for _, name := range []string{"recording/epoch", "epoch/forward", "epoch/mstxRangeStartA", "forward/mstxRangeStartA", "epoch/across", "forward/launch k", "launch k/k", "across/launch k",
		"across/mstxRangeStartA", "across/mstxRangeEnd", "epoch/wait stream 1", "epoch/mstxRangeEnd", "recording/wait stream 2"} {
		want[name] = 1
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
