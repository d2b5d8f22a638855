package stats_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// Kernels that the device finishes as fast as the host launches them were only short if they had device times.
func TestShortKernelsWithoutDeviceTimes(t *testing.T) {
	for name, c := range map[string]struct {
		launches   int
		pace, wait int64
		timed      bool
		want       bool
	}{
		"many":             {40, 5_000, 1_000, false, true},
		"with waits":       {40, 5_000, 100_000, false, false},
		"few":              {5, 5_000, 1_000, false, false},
		"slow host":        {40, 80_000, 1_000, false, false},
		"with device time": {40, 5_000, 1_000, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := program(t)
			now := int64(10_000)
			for range 12 {
				for i := range c.launches {
					var mods []testtrace.Mod
					if c.timed {
						mods = append(mods, task(now, now+c.pace-10))
					}
					b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+uint64(i%3), 8, testtrace.DeviceA, 64, testtrace.StreamA), mods...)
					now += c.pace
				}
				b.Call(0, now, now+c.wait, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				now += c.wait
			}
			var got *stats.Finding
			s := sums(t, b.Load(), "")
			for i := range s.Findings {
				if s.Findings[i].Kind == stats.ShortTasks {
					got = &s.Findings[i]
				}
			}
			if (got != nil) != c.want || got != nil && (got.Count != uint64(c.launches) || got.EveryNS < c.pace || got.EveryNS > c.pace+100 || got.Device != nil) {
				t.Errorf("%+v of %+v", got, s.Steps)
			}
		})
	}
}

// A thread that only launches is the queue if another thread waits for the device: the queue was named in no test.
func TestBoundByTheQueue(t *testing.T) {
	for name, c := range map[string]struct {
		own         int64 // between the launches
		waits, feed bool  // this thread waits for the device, another one does
		steps       bool  // that one makes the steps
		want        string
	}{
		"busy":                    {90_000, false, true, false, stats.ByQueue},
		"idle":                    {0, false, true, false, ""},
		"its own waits":           {90_000, true, true, false, stats.ByHost},
		"no other waits":          {90_000, false, false, false, stats.ByHost},
		"the other makes steps":   {90_000, false, true, true, stats.ByQueue},
		"idle, and another steps": {0, false, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := program(t)
			b.Call(0, 6_000, 6_100, "aclrtCreateEvent", testtrace.A(0x7ffe0000), testtrace.Outs("event", 0x9100))
			now := int64(10_000)
			for range 12 {
				from := now
				for i := range uint64(8) {
					now += 95_000
					b.Call(0, now, now+5_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(95_000-c.own))
					now += 5_000
				}
				if c.steps {
					b.Call(1, now, now+4_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), blocked(now-from))
				} else if c.feed {
					b.Call(1, now-10_000, now+5_000, "aclrtSynchronizeEvent", testtrace.A(0x9100), blocked(now-10_000-from))
				}
				if c.waits {
					b.Call(0, now+100, now+5_000, "aclrtSynchronizeEvent", testtrace.A(0x9100))
				}
				now += 5_000
			}
			s := sums(t, b.Load(), "")
			switch {
			case s.Bound == nil && c.want != "" || s.Bound != nil && s.Bound.By != c.want:
				t.Errorf("bound %+v, want %q; shares %+v", s.Bound, c.want, s.Shares)
			case s.Bound != nil && (s.Bound.Share < 0.5 || s.Bound.Share > 1 || s.Bound.Thread != "thread 4001 train"):
				t.Errorf("%+v", s.Bound)
			}
		})
	}
}

// The finding about a thread that only hands on launches led to a table of threads, which does not show why it waits.
func TestWaitingQueueLeadsToTheOtherThread(t *testing.T) {
	b := program(t)
	now := int64(10_000)
	for range 12 {
		b.Call(1, now, now+1_000, "aclrtGetDevice", testtrace.A(0x7ffe0000)) // the program
		for i := range uint64(6) {                                           // the queue
			now += 100_000
			b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(98_000))
		}
		now += 2_000
		b.Call(0, now, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		now += 4_000
	}
	s := sums(t, b.Load(), "")
	f := find(t, s, stats.Blocked)
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("acltrace cat --step %d --thread 4011 t.aclt", *f.Step); s.Shares.Driver == nil || !strings.Contains(text.String(), "only waits") || !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, &text)
	}
}

// The launches seemed to come from a loader's thread that pins batches and does more than the program's thread.
func TestLaunchesComeFromTheThreadThatMakesCallsForThem(t *testing.T) {
	for name, c := range map[string]struct {
		program, loader int64 // own time before each call
		calls           int   // of the program's thread, for 6 launches
		launches        bool  // these calls are launches, as on a thread of gradients
		want            string
	}{
		"a busier loader":           {60_000, 500_000, 6, false, "thread 4011"},
		"a program without a share": {1_000, 500_000, 6, false, "thread 4020"},
		"a program of few calls":    {400_000, 0, 1, false, "thread 4011"},
		"two threads that launch":   {5_000, 0, 5, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := program(t)
			loader, now := b.Thread(4020), int64(10_000)
			for range 12 {
				for i := range uint64(6) {
					now += 98_000
					switch {
					case int(i) < c.calls && c.launches:
						b.Call(1, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(90_000))
					case int(i) < c.calls:
						b.Call(1, now, now+1_000, "aclrtGetDevice", testtrace.A(0x7ffe0000), blocked(600_000/int64(c.calls)-c.program))
					}
					b.Call(0, now+1_000, now+2_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(90_000))
					now += 2_000
				}
				b.Call(loader, now-100_000, now-99_000, "aclrtGetDevice", testtrace.A(0x7ffe0000), blocked(600_000-c.loader))
				b.Call(0, now, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				now += 4_000
			}
			s := sums(t, b.Load(), "")
			if d := s.Shares.Driver; (d != nil) != (c.want != "") || d != nil && !strings.HasPrefix(d.Thread, c.want) {
				t.Errorf("launches from %+v, want %s; %+v", s.Shares.Driver, c.want, s.Shares)
			}
		})
	}
}

// Two late batches of twelve made every step "bound by the loader".
func TestRareLateBatchesAreNoBound(t *testing.T) {
	for _, late := range []int{2, 12} {
		b := program(t)
		now := int64(10_000)
		for i := range 12 {
			gap := int64(1_000)
			if i%6 == 5 || late == 12 {
				gap = 1_000_000
			}
			now += gap
			b.Call(0, now, now+1_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 64, 1), blocked(gap-1_000))
			for j := range uint64(4) {
				now += 10_000
				b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+j, 8, testtrace.DeviceA, 64, testtrace.StreamA))
			}
			b.Call(0, now+2_000, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			now += 4_000
		}
		if s := sums(t, b.Load(), ""); (s.Bound != nil && s.Bound.By == stats.ByLoader) != (late == 12) {
			t.Errorf("%d late batches: %+v", late, s.Bound)
		}
	}
}

// A thread that sleeps while another one computes and launches gradients had a late batch, or stalled: so did the first step of a training.
func TestNoBatchIsLateWhileOtherThreadsLaunch(t *testing.T) {
	for _, launches := range []bool{false, true} {
		b := program(t)
		now := int64(10_000)
		for i := range 12 {
			gap := int64(100_000)
			if i == 4 {
				gap = 2_000_000
			}
			for j := int64(1); j < 8; j++ {
				at := now + 10_000*j // the queue of the last step
				if launches {
					at = now + gap*j/8
				}
				b.Call(1, at, at+200, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
			}
			now += gap
			b.Call(0, now, now+1_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 64, 1), blocked(gap-1_000))
			for j := range uint64(4) {
				now += 10_000
				b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+j, 8, testtrace.DeviceA, 64, testtrace.StreamA))
			}
			b.Call(0, now+2_000, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			now += 4_000
		}
		s := sums(t, b.Load(), "")
		if late := slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.Stalls }); late == launches {
			t.Errorf("launches %v: %+v, %+v", launches, s.Findings, s.Steps)
		}
	}
}

// The thread of launches waited for the end of the last step, and "the program's own time" was all of that.
func TestNoOwnTimeAfterTheLastCallOfAThread(t *testing.T) {
	b := program(t)
	now := int64(10_000)
	for i := range 12 {
		b.Call(0, now, now+1_000, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, 0x5000, 64, 1, testtrace.StreamA), blocked(20_000))
		for j := range uint64(4) {
			now += 10_000
			b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+j, 8, testtrace.DeviceA, 64, testtrace.StreamA))
		}
		if now += 20_000; i == 11 {
			now += 9_000_000
		}
	}
	b.Call(1, now, now+1_000, "aclrtSynchronizeDevice", nil)
	b.Call(1, now+2_000, now+3_000, "aclrtGetDevice", testtrace.A(0x7ffe0000))
	s := sums(t, b.Load(), "")
	if s.Shares == nil || s.Shares.NS < 9_000_000/12 || s.Shares.OwnNS > 60_000 {
		t.Errorf("%+v, steps %+v", s.Shares, s.Steps)
	}
}

// Time between calls recorded by eBPF read as the program's own time, though the thread may have waited.
func TestOwnTimeByProbesMayBeWaiting(t *testing.T) {
	for _, by := range []string{"shim", "ebpf"} {
		b := testtrace.New(t)
		b.Meta(func(m *format.Meta) { m.CapturedBy = by })
		for now := int64(10_000); now < 1_000_000; now += 50_000 {
			b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
			b.Call(0, now+40_000, now+45_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		var text bytes.Buffer
		if err := report.StatsText(&text, "t.aclt", sums(t, b.Load(), ""), nil); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "which eBPF does not show") != (by == "ebpf") || !strings.Contains(text.String(), "own time") {
			t.Errorf("%s: %s", by, &text)
		}
	}
}

// A slow loader was no bound once the framework marked it: the end of the mark and a wait come between the loader and its copy.
func TestAMarkedLoaderIsTheBound(t *testing.T) {
	b := program(t)
	now := int64(10_000)
	call := func(gap int64, name string, args []uint64, mods ...testtrace.Mod) {
		now += gap
		b.Call(0, now, now+1_000, name, args, mods...)
		now += 1_000
	}
	for i := range uint64(12) {
		call(1_000, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "dataloader"), handle(i+1))
		call(400_000, "mstxRangeEnd", testtrace.A(i+1), blocked(390_000))
		call(1_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		call(1_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 64, 1))
		call(1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
		call(1_000, "aclrtMemcpy", testtrace.A(0x5000, 4, testtrace.DeviceA, 4, 2))
	}
	if s := sums(t, b.Load(), ""); s.Bound == nil || s.Bound.By != stats.ByLoader || s.Bound.Share < 0.9 || s.Bound.Blocked < 0.9 {
		t.Errorf("%+v, steps %+v", s.Bound, s.Steps)
	}
}

// The calls around a gap had the functions of the usual step: "between calls 42 (aclrtMemcpy) and 46 ()", where other calls were in that step.
func TestTheCallsAroundAGapHaveTheirFunctions(t *testing.T) {
	b := program(t)
	now := int64(10_000)
	call := func(gap int64, name string, args ...uint64) {
		now += gap
		b.Call(0, now, now+1_000, name, args)
		now += 1_000
	}
	for i := range 12 {
		call(1_000, "aclrtLaunchKernel", testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA)
		if i == 5 {
			call(1_000, "aclrtGetDevice", 0x7ffe0000)
			call(9_000_000, "aclrtSetDevice", 0)
		}
		call(1_000, "aclrtMemcpy", testtrace.DeviceA, 64, 0x5000, 64, 1)
		call(1_000, "aclrtMemcpy", 0x5000, 4, testtrace.DeviceA, 4, 2)
	}
	s := sums(t, b.Load(), "")
	for _, g := range s.Shares.Gaps {
		if g.LongNS > 1_000_000 && (g.After != "aclrtGetDevice" || g.Func != "aclrtSetDevice") {
			t.Errorf("%+v", g)
		}
	}
}

// The main thread of a training sleeps while another one computes gradients. It waited "for another thread, a file or a time to pass", though the marks of operators
// name the thread.
func TestWaitsForThePreparerOfOperators(t *testing.T) {
	for _, c := range []struct {
		by    uint32 // thread that prepares
		works int64  // before each launch
		named bool
	}{{0, 30_000, false}, {1, 30_000, true}, {1, 1_000, false}} { // the last main thread sleeps for itself
		s, by := testtrace.NewSequence(t), c.by
		s.Meta(func(m *format.Meta) { m.Tracer.GapNS = 50_000 })
		s.Stream(testtrace.StreamA)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x10, 0x20), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", testtrace.Function))
		for i := range 12 {
			s.Thread = 0
			s.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "step"), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
			s.Then("aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1))
			if s.Thread = by; i == 0 {
				s.PhaseOne("aclnnMm", 0x7000, nil)
			}
			s.Thread = 1
			s.Then("aclrtGetDevice", testtrace.A(0x7ffe0000), blocked(100_000-3*c.works))
			for range 3 {
				s.Thread = 1
				s.Now += c.works
				s.PhaseTwo("aclnnMm", 0x7100, func() {
					s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
				})
			}
			s.Thread = 0
			s.Now += 100_000 - 3*c.works
			s.Then("aclrtGetDevice", testtrace.A(0x7ffe0000), blocked(99_000))
			s.Then("mstxRangeEnd", testtrace.A(uint64(i+1)))
		}
		got := sums(t, s.Load(), "")
		i := slices.IndexFunc(got.Findings, func(f stats.Finding) bool { return f.Kind == stats.Blocked })
		if i < 0 {
			t.Fatalf("%+v", got.Findings)
		}
		f := got.Findings[i]
		var text bytes.Buffer
		if err := report.StatsText(&text, "x", got, nil); err != nil {
			t.Fatal(err)
		}
		if named := f.Thread == "thread 4011" && f.Count == 3 && f.Of == 3; named != c.named || strings.Contains(text.String(), "as for thread 4011, which prepares at least 3 of 3 operators a step") != named {
			t.Errorf("prepared on thread %d: %q %d of %d\n%s", by, f.Thread, f.Count, f.Of, &text)
		}
	}
}
