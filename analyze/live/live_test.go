package live_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/live"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// Streams have the same names as in stats: here the second stream is used first, by a wait.
func TestLiveNamesStreamsAsStats(t *testing.T) {
	b := testtrace.New(t)
	for i, s := range []uint64{testtrace.StreamA, testtrace.StreamB} {
		at := int64(i) * 1_000
		b.Call(0, at+100, at+200, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", s))
	}
	b.Call(0, 3_000, 3_100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	b.Call(0, 4_000, 4_900, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, 0, 1024, testtrace.StreamA))
	b.Call(0, 5_000, 5_100, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, 0, 1024, testtrace.StreamB))
	b.Call(2, 6_000, 6_010, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, 0, 1024, 0))
	tl := b.Load()
	s, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: "stream"})
	if err != nil {
		t.Fatal(err)
	}
	l := live.New(tl.Reader.Path(), nil, opens)
	top, err := l.Refresh()
	if err != nil || len(top.Streams) != len(s.Groups) || len(s.Groups) != 3 {
		t.Fatalf("%+v, %v, want %+v", top, err, s.Groups)
	}
	for i, g := range s.Groups {
		if x := top.Streams[i]; x.Name != g.Name || x.Process != g.Process || x.HostNS != g.HostNS {
			t.Errorf("%+v, want %+v", x, g)
		}
	}
	if g := s.Groups[0]; g.Name != "stream 2" || g.Object != "stream#1" {
		t.Errorf("%+v", g)
	}
	var text bytes.Buffer
	if err := report.TopText(&text, top, nil); err != nil || !strings.Contains(text.String(), "  stream 2 of process 4001\n") || !strings.Contains(text.String(), "  default stream of process 4002\n") {
		t.Errorf("%v, %s", err, &text)
	}
}

// Memory that was allocated before attach is unknown. Regression: top showed 0 B in use.
func TestLiveKnowsMemorySinceAttach(t *testing.T) {
	for _, attached := range []bool{false, true} {
		b := testtrace.New(t)
		if attached {
			b.Meta(func(m *format.Meta) { m.Window = format.WindowAttached })
		}
		b.Call(0, 1_000, 1_100, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
		top, err := live.New(b.Load().Reader.Path(), nil, opens).Refresh()
		if err != nil {
			t.Fatal(err)
		}
		want := "\ndevice memory: 1 MiB in use, at most 1 MiB\n"
		if attached {
			want = "\ndevice memory allocated since attach: 1 MiB in use, at most 1 MiB; earlier allocations are unknown\n"
		}
		var text bytes.Buffer
		if err := report.TopText(&text, top, nil); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%v, %s", err, &text)
		}
	}
}

// The memory of devices was summed up into one figure.
func TestLiveKnowsMemoryByDevice(t *testing.T) {
	top, err := live.New(testtrace.Job(t).Reader.Path(), nil, opens).Refresh()
	if err != nil || len(top.Devices) != 2 {
		t.Fatal(err, top)
	}
	const mib = 1 << 20
	for i, want := range []live.DeviceMemory{{4001, new(0), 0, 8 * mib, 8 * mib}, {5001, new(1), 1, (9 + testtrace.JobSteps) * mib, (9 + testtrace.JobSteps) * mib}} {
		m := top.Devices[i]
		if m.Rank == nil || *m.Rank != *want.Rank {
			t.Errorf("%+v", m)
		}
		if m.Rank = want.Rank; m != want {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
	var text bytes.Buffer
	if err := report.TopText(&text, top, nil); err != nil || !strings.Contains(text.String(), "\ndevice memory of device 1 by process 5001 of rank 1: 19 MiB in use, at most 19 MiB\ndevice memory of device 0 by process 4001 of rank 0: 8 MiB in use") {
		t.Errorf("%v, %s", err, &text)
	}
}

// Operators have the same sums as in stats, and their marks are no calls: they were listed among the functions. A selection chooses among operators too.
func TestLiveSumsUpOperators(t *testing.T) {
	r := testtrace.Operators(t).Reader
	for _, sel := range []timeline.Selection{{}, {Operators: []string{"aclnnM*"}}, {Funcs: []string{"aclrtLaunch*"}}} {
		s, err := stats.New(r, acl.Model, &stats.Options{By: "operator", Select: &sel})
		if err != nil {
			t.Fatal(err)
		}
		top, err := live.New(r.Path(), &sel, opens).Refresh()
		if err != nil || top.Calls != s.Calls || len(top.Functions) != len(s.Functions) {
			t.Errorf("%v: %v, %d calls, %d functions, want %d, %d", &sel, err, top.Calls, len(top.Functions), s.Calls, len(s.Functions))
		}
		want := []live.Sum{}
		for _, g := range s.Groups {
			if g.HostNS > 0 {
				want = append(want, live.Sum{Name: g.Name, Count: g.Calls, HostNS: g.HostNS, New: g.Calls, NewNS: g.HostNS})
			}
		}
		if !slices.Equal(top.Operators, want) {
			t.Errorf("%v: %+v, want %+v", &sel, top.Operators, want)
		}
		var text bytes.Buffer
		if err := report.TopText(&text, top, nil); err != nil || strings.Contains(text.String(), "  operator\n") != (len(want) > 0) || len(want) == 3 && !strings.Contains(text.String(), "  aclnnAdd\n") {
			t.Errorf("%v, %s", err, &text)
		}
	}
}

// A selection chooses the same calls as in stats, although the end of the trace is not known.
func TestLiveSelectsAsStats(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 1_100, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 2_000, 2_100, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "matmul"), testtrace.Outs("funcHandle", testtrace.Function))
	for i, s := range []uint64{testtrace.StreamA, testtrace.StreamB} {
		at := 10_000 * int64(i+1)
		b.Call(0, at, at+100, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", s))
		b.Call(0, at+1_000, at+9_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 2, testtrace.DeviceA, 16, s))
		b.Call(2, at+1_500, at+1_600, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, 0, 1024, 0))
		b.Call(0, at+9_100, at+9_200, "aclrtSynchronizeStream", testtrace.A(s))
		b.Call(0, at+9_300, at+9_400, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 1024, 0x1000, 1024, 1))
		b.Call(0, at+9_500, at+9_600, "aclrtSynchronizeStream", testtrace.A(s), testtrace.Fails(507015))
	}
	r := b.Load().Reader
	thread := r.Threads()[0].TID
	for _, sel := range []timeline.Selection{
		{},
		{Funcs: []string{"aclrtSync*"}},
		{Kernels: []string{"mat*"}},
		{Failed: true},
		{Longer: 2_000},
		{Thread: thread},
		{Stream: 1},
		{Lane: "stream 2"},
		{Lane: "default stream"},
		{Lane: "synchronous"},
	} {
		s, err := stats.New(r, acl.Model, &stats.Options{Select: &sel})
		if err != nil {
			t.Fatal(err)
		}
		top, err := live.New(r.Path(), &sel, opens).Refresh()
		if err != nil {
			t.Fatal(err)
		}
		if top.Calls != s.Calls || top.Failed != s.Failed || top.Selected != s.Selected {
			t.Errorf("%v: %d calls, %d failed, %+v, want %d, %d, %+v", &sel, top.Calls, top.Failed, top.Selected, s.Calls, s.Failed, s.Selected)
		}
		counts := map[string]uint64{}
		for _, f := range s.Functions {
			counts[f.Func] = f.Calls
		}
		for _, f := range top.Functions {
			if counts[f.Name] != f.Count {
				t.Errorf("%v: %d calls of %s, want %d", &sel, f.Count, f.Name, counts[f.Name])
			}
		}
		if len(top.Functions) != len(s.Functions) || len(top.Kernels) != len(s.Kernels) {
			t.Errorf("%v: %d functions, %d kernels, want %d, %d", &sel, len(top.Functions), len(top.Kernels), len(s.Functions), len(s.Kernels))
		}
	}
}

func opens(path string) (*format.Reader, *api.Model, error) {
	r, err := format.Open(path, nil)
	return r, acl.Model, err
}

func TestRefreshAddsNewCalls(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1000, 2000, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 2500, 2600, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 3000, 4000, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "Add<1>"), testtrace.Outs("funcHandle", testtrace.Function))
	path := b.Cut().Reader.Path()
	l := live.New(path, nil, opens)
	refresh := func() *live.Top {
		t.Helper()
		top, err := l.Refresh()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	if top := refresh(); !top.Recording || top.Calls != 3 || top.NewCalls != 3 || top.DeviceBytes != 1<<20 || top.FromNS != 1000 || top.ToNS != 4000 || len(top.Kernels) != 0 {
		t.Errorf("%+v", top)
	}
	if top := refresh(); top.Calls != 3 || top.NewCalls != 0 || top.Functions[0].New != 0 {
		t.Errorf("nothing has come: %+v", top)
	}
	// The kernel's name is in an earlier call.
	b.Call(0, 5000, 5100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 2, testtrace.DeviceA, 16, testtrace.StreamA))
	b.Call(0, 6000, 6200, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 2, testtrace.DeviceA, 16, testtrace.StreamA))
	b.Call(0, 7000, 7700, "aclrtMemcpy", testtrace.A(0x55550000, 4096, testtrace.DeviceA, 4096, 2))
	b.Call(0, 8000, 8100, "aclrtFree", testtrace.A(testtrace.DeviceA))
	b.Call(0, 9000, 9100, "aclrtFree", testtrace.A(testtrace.DeviceA), testtrace.Fails(107000))
	b.Cut()
	top := refresh()
	if top.Calls != 8 || top.NewCalls != 5 || top.Failed != 1 || top.DeviceBytes != 0 || top.PeakBytes != 1<<20 || top.FromNS != 4000 || top.ToNS != 9100 {
		t.Errorf("%+v", top)
	}
	if want := (live.Sum{Name: "Add<1>", Count: 2, HostNS: 300, New: 2, NewNS: 300}); len(top.Kernels) != 1 || top.Kernels[0] != want {
		t.Errorf("kernels %+v", top.Kernels)
	}
	if want := (live.Sum{Name: "DtoH", Count: 1, HostNS: 700, Bytes: 4096, New: 1, NewNS: 700, NewBytes: 4096}); len(top.Copies) != 1 || top.Copies[0] != want {
		t.Errorf("copies %+v", top.Copies)
	}
	if s := top.Streams; len(s) != 2 || s[0].Process != 4001 || s[1].Process != 4001 || top.Kernels[0].Process != 0 {
		t.Errorf("process ids of streams %+v, kernels %+v", s, top.Kernels)
	}
	if len(top.Streams) != 2 || top.Streams[0].Name != "synchronous" || top.Streams[1].Name != "stream 1" || top.Functions[0].Name != "aclrtMemcpy" {
		t.Errorf("%+v", top)
	}
	var text bytes.Buffer
	if err := report.TopText(&text, top, nil); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "live.txtar", "top", text.String())
	b.Gap(format.Gap{Thread: 1, From: 20_000, To: 21_500, Calls: 17, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: 1, From: 20_000, To: 21_500, Calls: 100, Reason: format.Detached}) // left out on request
	b.Load()
	if top := refresh(); top.Recording || top.Calls != 8 || top.Lost != 17 {
		t.Errorf("at the end: %+v", top)
	}
	// The sums cover the whole trace.
	whole := live.New(path, nil, opens)
	if at, err := whole.Refresh(); err != nil || at.Calls != 8 || len(at.Functions) != len(top.Functions) || at.PeakBytes != top.PeakBytes {
		t.Errorf("%+v, %v", at, err)
	}
}
