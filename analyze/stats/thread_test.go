package stats_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

func handle(v uint64) testtrace.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }

// TestWithinSteps has a thread that launches, and a thread whose waits begin before a step and end after it.
func TestWithinSteps(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(5) {
		at := 10_000 + 1200*i
		b.Call(1, at-100, at+400, "aclrtSynchronizeDevice", nil)
		b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), handle(uint64(i+1)))
		b.Call(0, at+20, at+120, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(at + 100)}, format.Out{Param: api.TaskEndParam, Value: uint64(at + 470)})
		})
		b.Call(0, at+150, at+200, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
		b.Call(0, at+200, at+500, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		b.Call(1, at+900, at+1100, "aclrtSynchronizeDevice", nil)
		b.Call(0, at+990, at+1000, "mstxRangeEnd", testtrace.A(uint64(i+1)))
	}
	b.Call(2, 40_000, 41_000, "aclrtSetDevice", testtrace.A(0)) // outside steps
	tl := b.Load()
	s := sums(t, tl, "")
	want := []stats.Thread{
		{Thread: "thread 4001 train", Process: 4001, Parts: stats.Parts{WaitingNS: 300, LaunchingNS: 100, CopyingNS: 50, OtherNS: 20, OwnNS: 530}, DeviceNS: 370},
		{Thread: "thread 4011", Process: 4001, Parts: stats.Parts{WaitingNS: 500, OwnNS: 500}},
	}
	if s.Steps.Source != "marked" || s.Steps.MeanNS != 1000 || fmt.Sprint(s.Steps.Threads) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", s.Steps, want)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a step  waiting", "1.00 us   300 ns     100 ns    50 ns        20 ns    530 ns         370 ns  thread 4001 train"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// The recorder's time between calls was counted as the program's own, in steps and in idle times. Streams that the
// recorder kept idle were called bound by the host.
func TestRecordingIsNotTheProgramsOwnTime(t *testing.T) {
	recorded := func(took, start, end int64) testtrace.Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.RecordingParam, Value: uint64(took)}, format.Out{Param: api.TaskStartParam, Value: uint64(start)}, format.Out{Param: api.TaskEndParam, Value: uint64(end)})
		}
	}
	b := testtrace.New(t)
	for i := range int64(5) {
		at := 10_000 + 1000*i
		b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
		b.Call(0, at+20, at+120, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA), recorded(0, at+20, at+220))
		b.Call(0, at+820, at+920, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), recorded(600, at+820, at+920))
		b.Call(0, at+990, at+1000, "mstxRangeEnd", testtrace.A(uint64(i+1)))
	}
	s := sums(t, b.Load(), "")
	want := stats.Thread{Thread: "thread 4001 train", Process: 4001, Parts: stats.Parts{LaunchingNS: 100, CopyingNS: 100, OtherNS: 20, RecordingNS: 600, OwnNS: 180}, DeviceNS: 300}
	if len(s.Steps.Threads) != 1 || s.Steps.Threads[0] != want {
		t.Errorf("%+v, want %+v", s.Steps.Threads, want)
	}
	if s.Recording.NS != 5*600 || len(s.Copies) != 1 || s.Copies[0].RecordingNS != 5*600 {
		t.Errorf("%+v, copies %+v", s.Recording, s.Copies)
	}
	for _, d := range s.Idle {
		if d.NS == 600 && (d.RecordingNS != 600 || d.InCallsNS != 0) || d.NS != 600 && d.RecordingNS != 0 {
			t.Errorf("%+v", d)
		}
	}
	for _, l := range s.Streams {
		if l.Tasks > 0 && (l.RecordingNS != 5*600 || l.Bound != "device") {
			t.Errorf("%+v", l)
		}
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"recording  3.00 us of the time of process 4001", "recording  own time", "600 ns    180 ns"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestWithinNoSteps has a trace without steps.
func TestWithinNoSteps(t *testing.T) {
	s := sums(t, testtrace.Deep(t), "")
	if len(s.Steps.Threads) > 0 || s.Steps.MeanNS != 0 {
		t.Errorf("%+v", s.Steps)
	}
}

// TestLastStep has a last step whose end does not show, as a kernel begins steps. It ends like the others, and counts as they do: findings said 29 of 30 steps. Later
// calls belong to no step.
func TestLastStep(t *testing.T) {
	b := testtrace.New(t)
	for i, name := range []string{"norm", "matmul", "add"} {
		b.Call(0, 1_000+int64(i)*100, 1_050+int64(i)*100, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
	}
	at := int64(10_000)
	for range 6 {
		for i := range uint64(3) { // the step begins with a kernel that occurs once a step, so the last step's end does not show
			b.Call(0, at, at+20, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 1, testtrace.DeviceA, 0, testtrace.StreamA))
			at += 300
		}
		at += 100
	}
	b.Call(0, at, at+100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	for range 30 {
		at += 6_000
		b.Call(0, at, at+5_000, "aclrtFree", testtrace.A(testtrace.DeviceA))
	}
	s := sums(t, b.Load(), "step")
	if s.Steps.Source != "found" || s.Steps.Count < 3 {
		t.Fatalf("%+v", s.Steps)
	}
	var rows []string
	for _, g := range s.Groups {
		rows = append(rows, fmt.Sprintf("%s: %d calls", g.Name, g.Calls))
		if g.SpanNS > 0 && g.HostNS > g.SpanNS {
			t.Errorf("%s took %d and was %d in calls", g.Name, g.SpanNS, g.HostNS)
		}
	}
	if last := rows[len(rows)-2:]; s.Steps.Typical != 6 || fmt.Sprint(last) != "[step 5: 3 calls no step: 34 calls]" {
		t.Errorf("%d typical steps, %q", s.Steps.Typical, rows)
	}
	if want := []stats.Thread{{Thread: "thread 4001 train", Process: 4001, Parts: stats.Parts{LaunchingNS: 60, OwnNS: 940}}}; s.Steps.MeanNS != 1000 || fmt.Sprint(s.Steps.Threads) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", s.Steps, want)
	}
}

// TestUnfinishedSums has a call that never returned: its time is in no sum.
func TestUnfinishedSums(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1000, 2000, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3000, 900_000, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
	s := sums(t, b.Cut(), "thread")
	if len(s.Groups) != 1 || s.Groups[0].Calls != 2 || s.Groups[0].HostNS != 1000 || s.Groups[0].WaitedNS != 0 {
		t.Errorf("%+v", s.Groups)
	}
}

// A profile's nested call is part of the outer call's time.
func TestNestedSums(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1000, 2000, "aclrtSynchronizeDevice", nil)
	b.Call(0, 1100, 1400, "aclrtSynchronizeStream", testtrace.A(0))
	b.Call(0, 1200, 1300, "aclrtSetDevice", testtrace.A(0))
	b.Call(1, 1250, 1350, "aclrtSynchronizeDevice", nil)
	b.Call(0, 2000, 2500, "aclrtSetDevice", testtrace.A(0))
	s, err := stats.New(b.Load().Reader, acl.Model, &stats.Options{By: "thread"})
	if err != nil || len(s.Groups) != 2 || s.Groups[0].HostNS != 1500 || s.Groups[0].Calls != 4 || s.Groups[1].HostNS != 100 {
		t.Errorf("%+v, %v", s.Groups, err)
	}
}

// statsOf sums up a profile.
func statsOf(t *testing.T, p *msprof.Profile, o *stats.Options) *stats.Stats {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.aclt")
	if _, err := msprof.Import(p, acl.Model, path); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := stats.New(r, acl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWithinProfile has nested calls named as in a profile. The sums by thread equal the step's.
func TestWithinProfile(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace_view.json")
	if err := os.WriteFile(trace, []byte(`[{"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "args": {"name": "Python"}},
{"ph": "M", "name": "process_name", "pid": 901, "tid": 0, "args": {"name": "CANN"}},
{"ph": "M", "name": "process_name", "pid": 902, "tid": 0, "args": {"name": "Ascend Hardware"}},
{"ph": "X", "name": "ProfilerStep#7", "pid": 900, "tid": 900, "ts": "1700000000000000.250", "dur": 900.5, "cat": "cpu_op", "args": {}},
{"ph": "X", "name": "AscendCL@aclrtSynchronizeStream", "pid": 901, "tid": 905, "ts": "1700000000000100.000", "dur": 12.5, "args": {"Thread Id": 905, "connection_id": 1}},
{"ph": "X", "name": "Runtime@StreamSynchronize", "pid": 901, "tid": 905, "ts": "1700000000000101.000", "dur": 10.0, "args": {"Thread Id": 905, "connection_id": 2}},
{"ph": "X", "name": "Node@launch", "pid": 901, "tid": 905, "ts": "1700000000000130.000", "dur": 7.25, "args": {"item_id": "MatMul", "connection_id": 3}},
{"ph": "s", "name": "HostToDevice3", "cat": "HostToDevice", "id": "3", "pid": 901, "tid": 905, "ts": "1700000000000132.000"},
{"ph": "f", "name": "HostToDevice3", "cat": "HostToDevice", "id": "3", "bp": "e", "pid": 902, "tid": 2, "ts": "1700000000000140.000"},
{"ph": "X", "name": "MatMul", "pid": 902, "tid": 2, "ts": "1700000000000140.000", "dur": 100.5, "args": {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": 41, "connection_id": 3}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := statsOf(t, &msprof.Profile{Trace: trace}, &stats.Options{By: "thread"})
	i := slices.IndexFunc(s.Groups, func(g stats.Group) bool { return g.Name == "thread 905" })
	if len(s.Steps.Threads) != 1 || s.Steps.Threads[0].WaitingNS != 12_500 || i < 0 || s.Groups[i].WaitedNS != 12_500 || s.Groups[i].HostNS != 19_750 {
		t.Errorf("in the step %+v, in all %+v", s.Steps.Threads, s.Groups)
	}
}

// A kernel table has no host times: no stream is bound by the host, and no idle time is the program's own.
func TestStatsOfTable(t *testing.T) {
	p, err := msprof.Find("../../import/msprof/testdata/kernel_details.csv")
	if err != nil {
		t.Fatal(err)
	}
	s := statsOf(t, p, nil)
	var text strings.Builder
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	if len(s.Idle) == 0 || strings.Contains(text.String(), "own time") || slices.ContainsFunc(s.Streams, func(l stats.Lane) bool { return l.Bound == "host" }) {
		t.Errorf("%+v\n%s", s.Streams, text.String())
	}
}
