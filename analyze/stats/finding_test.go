package stats_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// training has 20 steps in 2 ms each: a launch, 500 us of the program itself, a copy to the host in 100 us, and a wait of 1 ms.
// change adds calls to a step before its wait, and returns how much later that is.
func training(t *testing.T, change func(b *testtrace.Builder, step int, now int64) int64) *stats.Stats {
	t.Helper()
	b := testtrace.New(t)
	now := int64(10_000)
	b.Call(0, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 2_000, 2_500, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 4_000, 4_500, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "train"), testtrace.Outs("funcHandle", testtrace.Function))
	for i := range 20 {
		b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), task(now, now+1_900_000))
		b.Call(0, now+501_000, now+601_000, "aclrtMemcpy", testtrace.A(testtrace.HostA, 4096, testtrace.DeviceA, 4096, 2))
		at := now + 601_000
		if change != nil {
			at += change(b, i, at)
		}
		b.Call(0, at+10_000, at+1_010_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		now = at + 1_399_000
	}
	return sums(t, b.Load(), "")
}

// task gives a task a measured time.
func task(from, to int64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(from)}, format.Out{Param: api.TaskEndParam, Value: uint64(to)})
	}
}

// find returns the finding of a kind, or fails.
func find(t *testing.T, s *stats.Stats, kind stats.FindingKind) *stats.Finding {
	t.Helper()
	for i := range s.Findings {
		if s.Findings[i].Kind == kind {
			return &s.Findings[i]
		}
	}
	t.Fatalf("no finding %s in %+v", kind, s.Findings)
	return nil
}

// place returns a gap without the example.
func place(g stats.Gap) stats.Gap {
	g.Step, g.Call, g.Next = nil, nil, nil
	return g
}

func TestSharesAreFindings(t *testing.T) {
	s := training(t, nil)
	if sh := s.Shares; s.Steps.Source != "found" || sh.Steps < 15 || sh.Thread != "thread 4001 train" || sh.WaitingNS != 1_000_000 || sh.CopyingNS != 100_000 || sh.LaunchingNS != 1_000 ||
		sh.OwnNS+sh.InCallsNS() != sh.NS {
		t.Errorf("%+v, %+v", s.Steps, sh)
	}
	wait, own := find(t, s, stats.Waits), find(t, s, stats.OwnTime)
	if wait.Func != "aclrtSynchronizeStream" || fmt.Sprintf("%.2f", wait.Share) != "0.50" || wait.CostNS != s.Shares.Steps*1_000_000 || wait.EachNS != 1_000_000 {
		t.Errorf("%+v", wait)
	}
	if fmt.Sprintf("%.2f", own.Share) != "0.44" || own.Step == nil {
		t.Errorf("%+v", own)
	}
	// A step begins when the one before it has ended its wait: 389 us before its launch.
	if g := s.Shares.Gaps; len(g) != 3 || place(g[0]) != (stats.Gap{Before: 2, After: "aclrtLaunchKernel", Func: "aclrtMemcpy", NS: 500_000, Steps: 20, LongNS: 500_000}) || *g[0].Next != *g[0].Call+1 || g[1].Before != 1 || g[1].After != "" || g[1].Func != "aclrtLaunchKernel" {
		t.Errorf("%+v", g)
	}
	if d := s.Devices; len(d) != 1 || d[0].Device != 0 || d[0].Process != 4001 || d[0].Tasks != 20 || d[0].Measured != 20 || d[0].BusyAtMostNS != 20*1_900_000 || d[0].IdleNS() != 19*100_000 || d[0].IdleTimes != 19 {
		t.Errorf("%+v", d)
	}
	// Copies take 5% of a step, and the device idles for 5% of its time: no findings.
	for _, f := range s.Findings {
		if f.Kind != stats.Waits && f.Kind != stats.OwnTime {
			t.Errorf("%+v", f)
		}
	}
	if !slices.IsSortedFunc(s.Findings, func(a, b stats.Finding) int { return int(b.CostNS - a.CostNS) }) {
		t.Errorf("not by cost: %+v", s.Findings)
	}
}

// Calls in all steps were divided by the number of typical steps: "2.1 times a step".
func TestCallsAreCountedInTheStepsOfTheMean(t *testing.T) {
	s := training(t, func(b *testtrace.Builder, i int, at int64) int64 {
		if i != 7 {
			return 0
		}
		for k := range int64(3) { // unlike the others
			b.Call(0, at+k*2_000, at+k*2_000+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+uint64(k%7)+1, 1, testtrace.DeviceA, 0, testtrace.StreamA))
			b.Call(0, at+k*2_000+1_000, at+k*2_000+2_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		return 6_000
	})
	f := find(t, s, stats.Waits)
	if n := uint64(s.Shares.Steps); n < 15 || int(n) == s.Steps.Count || f.Func != "aclrtSynchronizeStream" || f.Count != n || f.EachNS != 1_000_000 {
		t.Errorf("%+v in %d of %d steps", f, n, s.Steps.Count)
	}
}

func TestSlowStepIsAFinding(t *testing.T) {
	s := training(t, func(_ *testtrace.Builder, i int, _ int64) int64 {
		if i == 13 {
			return 60_000_000
		}
		return 0
	})
	f, l := find(t, s, stats.SlowSteps), s.Steps.Longest
	if *f.Step != l.Index || l.NS != 62_000_000 || f.Count != 1 || f.CostNS != 60_000_000 || l.OwnNS != 60_000_000+899_000 {
		t.Errorf("%+v, %+v", f, l)
	}
	if g := l.Gap; g == nil || place(*g) != (stats.Gap{Before: 3, After: "aclrtMemcpy", Func: "aclrtSynchronizeStream", NS: 60_010_000}) || *g.Step != l.Index || *g.Next != l.Call.Call {
		t.Errorf("%+v", g)
	}
	if l.Call.Func != "aclrtSynchronizeStream" || l.Call.NS != 1_000_000 {
		t.Errorf("%+v", l.Call)
	}
}

// The time of one slow step was a second finding: "54% of step time is the program's own time", in a mean over all steps.
func TestSlowStepIsOneFinding(t *testing.T) {
	s := training(t, func(b *testtrace.Builder, i int, at int64) int64 {
		b.Call(0, at, at+8_000_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		if i == 13 {
			return 68_000_000
		}
		return 8_000_000
	})
	find(t, s, stats.SlowSteps)
	for _, f := range s.Findings {
		if f.Kind == stats.OwnTime {
			t.Errorf("%+v, and the longest step is %+v", f, s.Steps.Longest)
		}
	}
}

func TestMemoryThatGrowsIsAFinding(t *testing.T) {
	leak := func(leaks bool) func(b *testtrace.Builder, i int, at int64) int64 {
		return func(b *testtrace.Builder, i int, at int64) int64 {
			addr := uint64(0x125000000000 + i<<24)
			b.Call(0, at, at+1_000, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<16, 0), testtrace.Outs("devPtr", addr))
			if !leaks || i%2 == 0 {
				b.Call(0, at+1_000, at+2_000, "aclrtFree", testtrace.A(addr))
			}
			if !leaks && i%2 == 1 { // more in some steps, but not more and more
				b.Call(0, at+2_000, at+3_000, "aclrtFree", testtrace.A(addr))
			}
			return 3_000
		}
	}
	f := find(t, training(t, leak(true)), stats.Grows)
	if g := f.Growth; f.Bytes != g.ToBytes-g.FromBytes || g.ToBytes < 9<<16 || g.FromBytes > 1<<20+4<<16 || g.Steps < 10 {
		t.Errorf("%+v", f.Growth)
	}
	for _, f := range training(t, leak(false)).Findings {
		if f.Kind == stats.Grows {
			t.Errorf("memory that is freed grows: %+v", f.Growth)
		}
	}
}

func TestFailedAndLostCallsComeFirst(t *testing.T) {
	s := training(t, func(b *testtrace.Builder, i int, at int64) int64 {
		if i == 4 || i == 9 {
			b.Call(1, at, at+100, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<16, 0), testtrace.Fails(207001))
		}
		if i == 19 {
			b.Call(1, at+200, at+300, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
			b.Gap(format.Gap{Thread: 1, From: at, To: at + 10, Calls: 17, Reason: format.Dropped})
		}
		return 0
	})
	var kinds []stats.FindingKind
	for _, f := range s.Findings[:min(3, len(s.Findings))] {
		kinds = append(kinds, f.Kind)
	}
	if !slices.Equal(kinds, []stats.FindingKind{stats.FailedCalls, stats.Unfinished, stats.LostCalls}) {
		t.Errorf("%+v", s.Findings)
	}
	if f := s.Findings[0]; f.Count != 2 || f.Func != "aclrtMalloc" || f.Code != 207001 || *f.Call != 4+4*3+2 {
		t.Errorf("%+v, call %d", f, *f.Call)
	}
	if f := s.Findings[2]; f.Count != 17 {
		t.Errorf("%+v", f)
	}
}

// TestIdleDeviceIsAFinding has a device that waits for the program in few long times, and one that waits between short kernels.
func TestIdleDeviceIsAFinding(t *testing.T) {
	device := func(kernel, every, pause int64) *stats.Stats {
		b := testtrace.New(t)
		b.Call(0, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
		b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
		now := int64(10_000)
		for i := range 200 {
			b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), task(now, now+kernel))
			if now += every; i%50 == 49 {
				now += pause
			}
		}
		b.Call(0, now, now+1_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		return sums(t, b.Load(), "")
	}
	if f := find(t, device(3_000, 10_000, 0), stats.ShortTasks); f.NS != 3_000 || f.EveryNS < 9_900 || f.EveryNS > 10_000 || f.Count != 200 || fmt.Sprintf("%.2f", f.Share) != "0.70" {
		t.Errorf("%+v", f)
	}
	if f := find(t, device(9_900, 10_000, 5_000_000), stats.IdleDevice); f.Device.Device != 0 || fmt.Sprintf("%.2f", f.Share) != "0.88" || f.CostNS != f.Device.IdleNS() {
		t.Errorf("%+v", f)
	}
}

// A pause in two of 20 steps was reported as a mean of each step, with the function that the last step had there. Pauses before all launches had no
// place at all, and polls were other calls.
func TestOwnTimeNamesItsPlace(t *testing.T) {
	steps := func(pause func(step, call int) int64) string {
		b := testtrace.New(t)
		b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
		b.Call(0, 4_000, 4_500, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "train"), testtrace.Outs("funcHandle", testtrace.Function))
		now := int64(10_000)
		for i := range 20 {
			for k := range 10 {
				now += pause(i, k)
				b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, uint64(k+1), testtrace.DeviceA, 0, testtrace.StreamA))
				now += 1_000
			}
			now += pause(i, 10)
			if i == 19 {
				b.Call(0, now, now+100, "aclrtSetDevice", testtrace.A(0))
				now += 100
			}
			for range 3 {
				b.Call(0, now, now+100, "aclrtStreamQuery", testtrace.A(testtrace.StreamA, 0x7ffe0000))
				now += 100
			}
			b.Call(0, now, now+5_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			now += 5_000
		}
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	for want, pause := range map[string]func(step, call int) int64{
		"1.00 ms in 2 of 20 steps: step 5, between calls 75 and 76 (both aclrtLaunchKernel)": func(step, call int) int64 {
			if step%10 == 5 && call == 4 {
				return 1_000_000
			}
			return 0
		},
		"9.95 us before each of 10 calls a step to aclrtLaunchKernel": func(step, call int) int64 { return 10_000 },
		"20.0 us a step: in step 19 between calls 277 (aclrtLaunchKernel) and 278 (aclrtSetDevice)": func(step, call int) int64 {
			return int64(call / 10 * 20_000)
		},
		"106 us  33% of step time waits": func(step, call int) int64 { return int64(call / 10 * 1_000) },
	} {
		if text := steps(pause); !strings.Contains(text, want) {
			t.Errorf("want %q:\n%s", want, text)
		}
	}
}

// The longest idle time of a stream was reported as that of the device, which had work on another stream, and with the longest call in it, even if the
// program itself took nearly all of the time.
func TestLongestIdleTimeOfTheDevice(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 4_000, 4_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamB))
	launch := func(at int64, stream uint64) {
		b.Call(0, at, at+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, stream), task(at, at+90_000))
	}
	launch(10_000, testtrace.StreamB)
	for i := range int64(100) {
		at := 11_000 + i*100_000
		if i >= 50 {
			at += 400_000
		}
		if i == 50 {
			b.Call(0, at-350_000, at-349_000, "aclrtSetDevice", testtrace.A(0))
		}
		launch(at, testtrace.StreamA)
	}
	launch(10_500_000, testtrace.StreamB)
	s := sums(t, b.Load(), "")
	if d := s.Devices[0].LongestIdle; d == nil || d.NS != 410_000 || d.Stream != "stream 2" || d.Mostly != stats.OwnTime || d.Func != "aclrtSetDevice" {
		t.Errorf("%+v", d)
	}
	if s.Idle[0].NS < 10_000_000 {
		t.Errorf("%+v: want the idle time of the other stream", s.Idle[0])
	}
}

// Steps with an evaluation are unlike most, and had no finding, however long they took.
func TestOddStepsAreAFinding(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	now := int64(10_000)
	call := func(name string, args ...uint64) {
		b.Call(0, now, now+1_000, name, args)
		now += 1_000
	}
	for i := range 20 {
		for k := range 24 {
			if k < 12 || i%7 == 6 { // the others are the evaluation
				call("aclrtLaunchKernel", testtrace.Function+uint64(k), 1, testtrace.DeviceA, 0, testtrace.StreamA)
			}
		}
		if i%7 == 6 {
			now += 1_000_000
		}
		call("aclrtSynchronizeStream", testtrace.StreamA)
	}
	s := sums(t, b.Load(), "")
	if f := find(t, s, stats.OddSteps); f.Count != 2 || f.NS != 2*1_025_000 || f.EachNS != 1_025_000 || *f.Step != 6 || f.CostNS != f.NS-2*s.Steps.P50NS {
		t.Errorf("%+v", f)
	}
	// Calls outside steps are the larger part of this trace.
	s.SpanNS *= 100
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), "; those alike cover 0.") || !strings.Contains(text.String(), "2 steps unlike most: 2.05 ms, the longest is step 6 with 1.02 ms; the median is 13.0 us") {
		t.Errorf("%v: %s", err, &text)
	}
}

// The command for a step that waits longer lists its calls, which do not show the kernel it waits for.
func TestSlowStepThatWaitsShowsItsCriticalPath(t *testing.T) {
	b := testtrace.New(t)
	now := int64(10_000)
	for i := range 20 {
		wait := int64(100_000)
		if i == 11 {
			wait = 900_000
		}
		b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), task(now, now+wait-500))
		b.Call(0, now+2_000, now+3_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+8, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(0, now+4_000, now+wait, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		now += wait + 1_000
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil || !strings.Contains(text.String(), "  acltrace stats --critical-path --step 11 t.aclt\n") {
		t.Errorf("%v: %s", err, &text)
	}
}

// The call that ran when a recording was stopped had never returned, which was the first finding about each attached process. A thread that serves
// callbacks counted too.
func TestOnlyCallsThatHangAreAFinding(t *testing.T) {
	for _, c := range []struct {
		end  int64
		p    format.Process
		hung bool
	}{
		{60_000, format.Process{PID: 4001}, false},
		{900_000, format.Process{PID: 4001}, true},
		{60_000, format.Process{PID: 4001, End: 900_000, Killed: true, Signal: int(syscall.SIGTERM)}, true},
		{60_000, format.Process{PID: 4001, End: 60_000, Killed: true, Signal: int(syscall.SIGTERM)}, false},
		{60_000, format.Process{PID: 4001, End: 60_000, Killed: true, Signal: int(syscall.SIGSEGV)}, true},
	} {
		b := testtrace.New(t)
		b.Call(0, 1_000, 31_000, "aclrtSynchronizeDevice", nil)
		b.Call(0, 40_000, 41_000, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
		b.Process(0, c.p)
		b.Meta(func(m *format.Meta) { m.EndNS = c.end })
		b.Call(1, 50_000, 50_000, "aclrtProcessReport", testtrace.A(100), testtrace.Hangs) // which waits by design
		s := sums(t, b.Cut(), "")
		if hung := slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.Unfinished && *f.Call == 1 && f.Count == 1 }); hung != c.hung {
			t.Errorf("%+v: %v, %+v", c, hung, s.Findings)
		}
	}
}

// A job of two processes had two findings about an idle "device 0". A device that had tasks idled at least 100% of its time.
func TestIdleDeviceNamesItsProcess(t *testing.T) {
	s := training(t, nil)
	idle := stats.Device{Process: 4002, SpanNS: 100}
	s.Devices = append(s.Devices, idle)
	s.Findings = []stats.Finding{{Kind: stats.IdleDevice, CostNS: 100, Share: 0.998, Device: &idle}}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), "device 0 of process 4002 idled at least 99% of its time") {
		t.Errorf("%v: %s", err, &text)
	}
}

// The longest step was shorter than the 99th percentile: the last step, which has what follows, was in one of them.
func TestTheLongestStepIsNotShorterThanOthers(t *testing.T) {
	s := training(t, nil)
	s.Steps.P99NS, s.Steps.MaxNS, s.Steps.Longest.NS, s.Steps.Longest.Index = 2_000, 2_000, 1_000, 3
	for _, want := range []string{"p99 2.00 us, longest 2.00 us\n", "p99 2.00 us, longest 2.00 us (step 3)\n"} {
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("want %q, %v: %s", want, err, &text)
		}
		s.Steps.Longest.NS = s.Steps.MaxNS
	}
}

// A program that crashed in its own code had no finding. A signal that asks it to end is none.
func TestKilledProcessIsAFinding(t *testing.T) {
	for signal, want := range map[syscall.Signal]string{syscall.SIGSEGV: "process 4001 was killed by SIGSEGV\n         acltrace blame t.aclt\n", syscall.SIGTERM: ""} {
		b := testtrace.New(t)
		b.Call(0, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
		b.Process(0, format.Process{PID: 4001, Killed: true, Signal: int(signal)})
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil || !strings.Contains(text.String(), want) || strings.Contains(text.String(), "killed") != (want != "") {
			t.Errorf("%s: %v: %s", signal, err, &text)
		}
	}
}

// A device is busy while any of its streams has a task. Times were added up, and a device with two streams was busy for 130% of its time.
func TestBusyDevice(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 1_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 3_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 4_000, 4_500, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamB))
	const n = 10_000 // more than are kept apart
	for i := range int64(n) {
		at := 10_000 + i*10_000
		b.Call(0, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), task(at+1_000, at+6_000))
		b.Call(0, at+200, at+300, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamB), task(at+3_000, at+8_000))
	}
	s := sums(t, b.Load(), "")
	if d := s.Devices; len(d) != 1 || d[0].BusyAtMostNS != n*7_000 || d[0].SpanNS != n*10_000-3_000 || d[0].IdleTimes != n-1 {
		t.Errorf("%+v", d)
	}
}

func TestSumsByFunction(t *testing.T) {
	groups := sums(t, testtrace.Deep(t), "function").Groups
	at := slices.IndexFunc(groups, func(g stats.Group) bool { return g.Name == "aclrtLaunchKernelWithHostArgs" })
	if at < 0 || groups[at].Calls != 2 || groups[at].Failed != 1 || groups[at].Launches != 1 || groups[0].Name != "aclrtSynchronizeStream" {
		t.Errorf("%+v", groups)
	}
}

// A copy that ran on from before the first step had no count in steps, and its mean was a division by zero.
func TestPartWithoutCalls(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(4) {
		at := 10_000 + 1000*i
		b.Call(0, at, at+16, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
		b.Call(0, at+17, at+19, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(0, at+20, at+30, "mstxRangeEnd", testtrace.A(uint64(i+1)))
		b.Call(0, at+40, at+1000+15, "aclrtMemcpy", testtrace.A(testtrace.HostA, 4096, testtrace.DeviceA, 4096, 2))
	}
	s := sums(t, b.Load(), "")
	if f := find(t, s, stats.Copies); f.Count != 0 || f.Func != "" {
		t.Errorf("%+v", f)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), "of step time is spent in copies\n") {
		t.Errorf("%v: %s", err, &text)
	}
}

// The copies of one size were named as if they were all, and a copy to the host as one to the device.
func TestLargestPartOfCopies(t *testing.T) {
	for _, c := range []struct {
		others int // copies of another size and direction, in a step
		want   string
	}{{0, "is spent in copies: aclrtMemcpy DtoH 3 times a step, each 100 ns and 4 KiB\n"}, {2, "is spent in copies, the largest part in aclrtMemcpy DtoH 3 times a step, each 100 ns and 4 KiB\n"}} {
		b := testtrace.New(t)
		for i := range int64(4) {
			at := 10_000 + 1000*i
			b.Call(0, at, at+16, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
			b.Call(0, at+17, at+19, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
			for k := range int64(3) {
				b.Call(0, at+100*k+100, at+100*k+200, "aclrtMemcpy", testtrace.A(testtrace.HostA, 4096, testtrace.DeviceA, 4096, 2))
			}
			for k := range int64(c.others) {
				b.Call(0, at+100*k+500, at+100*k+600, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1))
			}
			b.Call(0, at+900, at+990, "mstxRangeEnd", testtrace.A(uint64(i+1)))
		}
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil || !strings.Contains(text.String(), c.want) {
			t.Errorf("%v: %s", err, &text)
		}
	}
}

// The first finding was a wait for the device, and its command showed a path without tasks.
func TestWaitsWithoutDeviceTimesComeLast(t *testing.T) {
	untimed := func(given bool) (*stats.Stats, string) {
		b := testtrace.New(t)
		if given {
			b.Meta(func(m *format.Meta) { m.DeviceTime = &format.DeviceTime{} })
		}
		for i := range int64(20) {
			at := 10_000 + i*10_000
			b.Call(0, at, at+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
			b.Call(0, at+2_000, at+9_900, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		s := sums(t, b.Load(), "")
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
			t.Fatal(err)
		}
		return s, text.String()
	}
	for _, given := range []bool{false, true} {
		s, text := untimed(given)
		last := s.Findings[len(s.Findings)-1]
		if s.Findings[0].Kind != stats.OwnTime || last.Kind != stats.Waits || last.CostNS < s.Findings[0].CostNS {
			t.Errorf("%+v", s.Findings)
		}
		if strings.Contains(text, "record with --device-time all") == given || strings.Contains(text, "stats --critical-path") || !strings.Contains(text, "--func aclrtSynchronizeStream t.aclt") {
			t.Errorf("given %v:\n%s", given, text)
		}
	}
	if s := training(t, nil); s.Findings[0].Kind != stats.Waits {
		t.Errorf("with device times: %+v", s.Findings)
	}
}

// "100% of kernel time is attention" was said of a trace that had no time of the kernel that all others waited for.
func TestWaitsNameUnmeasuredKernels(t *testing.T) {
	for _, all := range []bool{false, true} {
		b := testtrace.New(t)
		b.Meta(func(m *format.Meta) { m.DeviceTime = &format.DeviceTime{Every: 1} })
		for i, name := range []string{"attention", "k1", "k2", "k3", "k4"} {
			b.Call(0, int64(1+2*i), int64(2+2*i), "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
		}
		for i := range int64(20) {
			at := 10_000 + i*10_000
			for k := range int64(5) {
				var mods []testtrace.Mod
				if all || k == 0 {
					mods = append(mods, task(at+1000*k+500, at+1000*k+1500))
				}
				b.Call(0, at+100*k, at+100*k+50, "aclrtLaunchKernel", testtrace.A(testtrace.Function+uint64(k), 1, testtrace.DeviceA, 0, testtrace.StreamA), mods...)
			}
			b.Call(0, at+600, at+9_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil {
			t.Fatal(err)
		}
		want := "waits for the device, in aclrtSynchronizeStream, and copies nothing then: synchronize only where results are read; not measured: k1, k2, k3, 1 more"
		if all {
			want = "; 20% of the device's work is attention\n"
		}
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, strings.TrimSpace(want)) || all == strings.Contains(got, "not measured") {
			t.Errorf("all measured %v:\n%s", all, &text)
		}
	}
}

// The longest step was explained by its longest call, a wait as in every step, and not by the copies that only this step has. Its longest gap was named,
// though each step has that gap.
func TestSlowStepIsExplainedByWhatGrew(t *testing.T) {
	calls := func(b *testtrace.Builder, n int, now, gap, each int64) int64 {
		for i := range int64(n) {
			b.Call(0, now+gap+i*(gap+each), now+(i+1)*(gap+each), "aclrtGetDevice", testtrace.A(0x7ffe0000))
		}
		return int64(n) * (gap + each)
	}
	for name, c := range map[string]struct {
		change func(b *testtrace.Builder, i int, now int64) int64
		want   string
	}{
		"calls of one step": {func(b *testtrace.Builder, i int, now int64) int64 {
			if i != 12 {
				return 0
			}
			return calls(b, 16, now, 0, 300_000)
		}, "16 calls of aclrtGetDevice took 4.80 ms, usually none"},
		"more calls than usual": {func(b *testtrace.Builder, i int, now int64) int64 {
			if i != 12 {
				return calls(b, 2, now, 0, 200_000)
			}
			return calls(b, 32, now, 0, 200_000)
		}, "32 calls of aclrtGetDevice took 6.40 ms, usually 2 with 400 us"},
		"a large copy in place of a small one": {func(b *testtrace.Builder, i int, now int64) int64 {
			bytes, took := uint64(4<<10), int64(100_000)
			if i == 12 {
				bytes, took = 16<<20, 4_800_000
			}
			b.Call(0, now, now+took, "aclrtMemcpy", testtrace.A(0x5000, bytes, testtrace.DeviceA, bytes, 2))
			return took
		}, "3.2 times the median: call 54, aclrtMemcpy, took 4.80 ms\n acltrace cat --step 12 t.aclt"},
		"a small copy beside the calls": {func(b *testtrace.Builder, i int, now int64) int64 {
			if i != 12 {
				return 0
			}
			b.Call(1, now, now+1_000, "aclrtMemcpy", testtrace.A(0x5000, 4, testtrace.DeviceA, 4, 2))
			return calls(b, 16, now, 0, 300_000)
		}, "16 calls of aclrtGetDevice took 4.80 ms, usually none\n acltrace cat --step 12 --func aclrtGetDevice t.aclt"},
		"gaps of one step": {func(b *testtrace.Builder, i int, now int64) int64 {
			took := calls(b, 1, now, 1_500_000, 100)
			if i == 12 {
				took += calls(b, 4, now+took, 1_400_000, 100)
			}
			return took
		}, "1.40 ms without a call between"},
	} {
		t.Run(name, func(t *testing.T) {
			s := training(t, c.change)
			f := find(t, s, stats.SlowSteps)
			var text bytes.Buffer
			if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(text.String()), " "); *f.Step != 12 || !strings.Contains(got, strings.Join(strings.Fields(c.want), " ")) {
				t.Errorf("step %d, %+v %+v: no %q in\n%s", *f.Step, s.Steps.Longest, s.Steps.Longest.More, c.want, &text)
			}
		})
	}
}

// Steps that are shorter than most cost nothing: the cost of twelve short evaluations and a long one was negative.
func TestOddStepsHaveACost(t *testing.T) {
	b := testtrace.New(t)
	now := int64(10_000)
	call := func(took int64, name string, args ...uint64) {
		b.Call(0, now, now+took, name, args)
		now += took
	}
	batch := func(launches int, took int64) {
		call(1_000, "aclrtMemcpyAsync", testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA)
		for k := range launches {
			call(1_000, "aclrtLaunchKernel", testtrace.Function+uint64(k), 1, testtrace.DeviceA, 0, testtrace.StreamA)
		}
		call(took, "aclrtSynchronizeStream", testtrace.StreamA)
	}
	for i := range 20 {
		batch(30, 100_000)
		for e := range i % 5 / 4 * 3 {
			batch(8, map[bool]int64{true: 1_000_000, false: 1_000}[i == 14 && e == 1])
		}
	}
	s := sums(t, b.Load(), "")
	if f := find(t, s, stats.OddSteps); f.Count != 12 || f.CostNS != f.EachNS-s.Steps.P50NS || f.CostNS <= 0 {
		t.Errorf("%+v", f)
	}
}

// Each step copies its inputs, whose size follows the batch. The longest step was said to copy more if no other had its size.
func TestLongestStepCopiesAnotherSize(t *testing.T) {
	for bytes, more := range map[uint64]bool{96: false, 1 << 20: true} {
		s := training(t, func(b *testtrace.Builder, i int, at int64) int64 {
			n, took := 32+uint64(i%3)*8, int64(50_000)
			if i == 9 {
				n, took = bytes, 5_000_000
			}
			b.Call(1, at, at+9_000, "aclrtMemcpy", testtrace.A(0x5000, 1<<20, testtrace.DeviceA, n, 2))
			return took
		})
		if m := s.Steps.Longest.More; (m != nil && m.Copies()) != more {
			t.Errorf("%d bytes: %+v", bytes, m)
		}
	}
}

// A checkpoint in one step is named by the copies that no other step makes, on any thread.
func TestLongestStepNamesItsOwnCopies(t *testing.T) {
	save := func(all bool) *stats.Stats {
		return training(t, func(b *testtrace.Builder, i int, at int64) int64 {
			if i == 9 || all {
				for k := range int64(5) {
					b.Call(1, at+k*10_000, at+k*10_000+9_000, "aclrtMemcpy", testtrace.A(0x5000, 1<<16, testtrace.DeviceA, 1<<16, 2))
				}
			}
			if i == 9 {
				return 5_000_000
			}
			return 50_000
		})
	}
	if m := save(false).Steps.Longest.More; m == nil || m.Calls != 5 || m.Direction != "DtoH" || m.Bytes != 5<<16 || m.Func != "aclrtMemcpy" || m.UsualCalls != 0 {
		t.Errorf("%+v", m)
	}
	if m := save(true).Steps.Longest.More; m != nil {
		t.Errorf("all steps copy: %+v", m)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", save(false), nil); err != nil || !regexp.MustCompile(`; 5 calls of aclrtMemcpy DtoH by thread \S+\s+took 45.0 us\s+for 320 KiB, usually none`).MatchString(text.String()) ||
		!strings.Contains(text.String(), "acltrace cat --step 9 --func aclrtMemcpy t.aclt") {
		t.Errorf("%v: %s", err, &text)
	}
}

// A loop whose last pieces were in no step read as if all of it was: "61 steps" of 72.
func TestLaunchesInNoStepAreCounted(t *testing.T) {
	b := testtrace.New(t)
	at := int64(1000)
	call := func(name string, args ...uint64) {
		b.Call(0, at, at+100, name, args)
		at += 1000
	}
	for range 10 {
		call("aclrtLaunchKernel", testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA)
		call("aclrtLaunchKernel", testtrace.Function+1, 1, testtrace.DeviceA, 0, testtrace.StreamA)
		call("aclrtSynchronizeStream", testtrace.StreamA)
	}
	for range 5 { // another loop, on a stream for which nothing waits
		call("aclrtLaunchKernel", testtrace.Function+2, 1, testtrace.DeviceA, 0, testtrace.StreamB)
	}
	s := sums(t, b.Load(), "")
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	if st := s.Steps; st.Count != 10 || st.Inside != 20 || st.Outside != 5 || !strings.Contains(text.String(), "; 5 launches in no step") {
		t.Errorf("%+v\n%s", st, &text)
	}
}
