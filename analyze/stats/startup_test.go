package stats_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// serving is a program that loads a binary and weights, runs its two kernels, captures two sizes, and makes 20 steps from 100,000 on. Each call takes 100 ns,
// and begins 400 ns after the one before. Before the copies of the weights it reads a file for 4,000 ns each.
func serving(t *testing.T, threads ...func(b *testtrace.Builder)) *testtrace.Builder {
	b := testtrace.New(t)
	for _, more := range threads {
		more(b)
	}
	now := int64(1_000)
	call := func(fn string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, now, now+100, fn, args, mods...)
		now += 500
	}
	launch := func(kernel, blocks uint64) {
		call("aclrtLaunchKernel", testtrace.A(testtrace.Function+kernel, blocks, testtrace.DeviceA, 0, testtrace.StreamA))
	}
	call("aclrtSetDevice", testtrace.A(0))
	call("aclrtMalloc", testtrace.A(0x7ffe0000, 1<<30, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	call("aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	call("aclrtBinaryLoadFromFile", testtrace.A(0x7ffe0100, 0, 0x7ffe0000), testtrace.Outs("binHandle", 0x6600))
	for i, name := range []string{"attention", "mlp"} {
		call("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
	}
	for range 3 {
		now += 4_000
		call("aclrtMemcpy", testtrace.A(testtrace.DeviceA, 50<<20, testtrace.HostA, 50<<20, 1))
	}
	launch(0, 8)
	launch(1, 8)
	call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	for size := range uint64(2) {
		launch(0, 1+size)
		call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		call("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		launch(0, 1+size)
		launch(1, 1+size)
		call("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000+size))
	}
	now = 100_000
	for i := range uint64(20) {
		call("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 4096, testtrace.HostA, 4096, 1, testtrace.StreamA))
		call("aclmdlRIExecuteAsync", testtrace.A(0x9000+i%2, testtrace.StreamA))
		call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	return b
}

// stats had no word for the time before the first step, which most of a short serving run is.
func TestStartUpByPhase(t *testing.T) {
	s := sums(t, serving(t).Load(), "")
	u := s.StartUp
	if s.Steps.Count != 20 || u == nil || u.NS != 99_000 {
		t.Fatalf("%d steps, start-up %+v", s.Steps.Count, u)
	}
	want := []stats.Phase{
		{Kind: stats.SetUp, NS: 100 + 2*500, OwnNS: 2 * 400, Calls: 3},
		{Kind: stats.LoadBinaries, NS: 3 * 500, OwnNS: 3 * 400, Calls: 3, Count: 1},
		{Kind: stats.BeforeCopies, NS: 4_400, OwnNS: 4_400}, // was counted to the copies
		{Kind: stats.Weights, NS: 100 + 2*4_500, OwnNS: 2 * 4_400, Calls: 3, Count: 3, Bytes: 150 << 20},
		{Kind: stats.FirstRuns, NS: 3 * 500, OwnNS: 3 * 400, Calls: 3, Count: 2},
		{Kind: stats.WarmUp, NS: 4 * 500, OwnNS: 4 * 400, Calls: 4, Count: 2},
		{Kind: stats.Captures, NS: 8 * 500, OwnNS: 8 * 400, Calls: 8, Count: 2},
		{Kind: stats.UntilStep, NS: 75_400, OwnNS: 75_400},
	}
	sum := int64(0)
	for _, p := range u.Phases {
		sum += p.NS
	}
	if sum != u.NS || !slices.Equal(u.Phases, want) {
		t.Errorf("phases take %d of %d:\n%+v, want\n%+v", sum, u.NS, u.Phases, want)
	}
	if c := u.Captures; len(c) != 2 || c[0].NS != 1_600 || c[0].Launches != 2 || c[0].Blocks != 2 || c[1].Blocks != 4 || c[0].Call >= c[1].Call {
		t.Errorf("captures %+v", u.Captures)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"phase: 99.0 us in all", "load of binaries: 1 binary", "150 MiB copies to the device: 3 copies", "first runs: 2 kernels", "warm-up: 2 runs", "captures: 2 captures"} {
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, &text)
		}
	}
}

// Calls of threads at the same time count once, and the wait of a helper thread for callbacks not at all.
func TestStartUpOfSeveralThreads(t *testing.T) {
	more := serving(t, func(b *testtrace.Builder) {
		b.Call(1, 1_020, 1_090, "aclrtGetDeviceCount", testtrace.A(0x7ffe0000))
		b.Call(1, 1_095, 95_000, "aclrtProcessReport", testtrace.A(100))
	})
	one, several := sums(t, serving(t).Load(), "").StartUp, sums(t, more.Load(), "").StartUp
	if several == nil || several.Phases[0].Calls != one.Phases[0].Calls+1 {
		t.Fatalf("%+v, and with more threads %+v", one, several)
	}
	if a, b := fmt.Sprint(one.Phases[1:]), fmt.Sprint(several.Phases[1:]); a != b {
		t.Errorf("%s, and with more threads %s", a, b)
	}
}
