package stats_test

import (
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// program begins a trace that divides gaps, with two kernels and some memory.
func program(t *testing.T) *testtrace.Builder {
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) { m.Tracer.GapNS = 50_000 })
	b.Call(0, 1_000, 2_000, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 4_000, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 5_000, 5_100, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	return b
}

// What people do in each step is named, with the steps, the times a step and a call of it: it was hidden in tables or missing.
func TestHabitsAreFindings(t *testing.T) {
	const steps = 12
	b := program(t)
	now := int64(10_000)
	call := func(took int64, name string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, now, now+took, name, args, mods...)
		now += took + 100
	}
	launch := func(f uint64) {
		call(500, "aclrtLaunchKernel", testtrace.A(testtrace.Function+f, 8, testtrace.DeviceA, 64, testtrace.StreamA))
	}
	for range steps {
		launch(0)
		for range 3 { // .item()
			call(2_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			call(1_000, "aclrtMemcpy", testtrace.A(0x5000, 8, testtrace.DeviceA, 8, 2))
		}
		launch(1)
		call(30_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 1<<20, 0x700000, 1<<20, 1))
		launch(2)
		for i := range 2 { // torch.npu.synchronize()
			call(4_000, "aclrtSynchronizeDevice", testtrace.A())
			launch(3 + uint64(i))
		}
		call(900, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<16, 0), testtrace.Outs("devPtr", testtrace.DeviceB))
		launch(5)
		call(3_000, "aclrtSynchronizeDevice", testtrace.A())                // empty_cache()
		call(100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA)) // and its other streams and events
		call(100, "aclrtSynchronizeEvent", testtrace.A(0x9100))
		call(2_500, "aclrtFree", testtrace.A(testtrace.DeviceB))
		call(100, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
		launch(6)
		call(100, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9900))
		call(100, "aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, 0x9910)) // no capture
		call(100, "aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
	}
	s := sums(t, b.Load(), "")
	got := map[stats.FindingKind]*stats.Finding{}
	for i := range s.Findings {
		got[s.Findings[i].Kind] = &s.Findings[i]
	}
	for kind, times := range map[stats.FindingKind]uint64{stats.SyncReads: 3, stats.PageableCopies: 1, stats.Synchronizes: 2, stats.EmptiesCache: 1, stats.Allocates: 1, stats.Recaptures: 1} {
		f := got[kind]
		if f == nil || f.Steps < steps-3 || f.Count != times*uint64(f.Steps) || f.Of != uint64(s.Shares.Steps) || f.CostNS <= 0 || f.Call == nil || f.Step == nil || f.Func == "" {
			t.Errorf("%s %d times a step: %+v", kind, times, f)
		}
	}
}

// A step is bound by what the thread does from which the launches come: a thread that only hands them on read as the one whose own time is the limit.
func TestBoundFollowsTheLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		own, batch int64 // of the thread from which the launches come, and the time before its copy, in which it does not run
		by         string
		hands      bool
	}{
		"host":   {own: 700_000, by: stats.ByHost, hands: true},
		"loader": {own: 50_000, batch: 800_000, by: stats.ByLoader, hands: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := program(t)
			now := int64(10_000)
			for range 12 {
				if c.batch > 0 {
					now += c.batch
				}
				b.Call(1, now, now+5_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 1<<16, 0x700000, 1<<16, 1), blocked(c.batch))
				now += 5_000
				for i := range uint64(6) { // the queue: this thread waits for the other one
					now += c.own / 6
					b.Call(1, now-200, now-100, "aclrtGetDevice", testtrace.A(0x7ffe0000))
					gap := c.own / 6
					if i == 0 {
						gap += c.batch
					}
					b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(gap-2_000))
					now += 1_000
				}
				b.Call(1, now, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				now += 3_000
			}
			s := sums(t, b.Load(), "")
			if s.Bound == nil || s.Bound.By != c.by || s.Bound.Share <= 0 || s.Bound.Share > 1 || (s.Bound.Launcher != "") != c.hands || s.Bound.Thread == s.Bound.Launcher {
				t.Errorf("bound %+v, shares %+v", s.Bound, s.Shares)
			}
		})
	}
}
