package stats_test

import (
	"slices"
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

// A program that waits and copies large results was said to copy nothing then.
func TestAWaitForAResultIsForACopy(t *testing.T) {
	for bytes, want := range map[uint64]stats.FindingKind{8: stats.SyncReads, 1 << 16: "", 0: stats.Synchronizes} {
		b := program(t)
		now := int64(10_000)
		call := func(took int64, name string, args ...uint64) {
			b.Call(0, now, now+took, name, args)
			now += took + 100
		}
		for range 12 {
			call(1_000, "aclrtMemcpy", testtrace.DeviceA, 64, 0x5000, 64, 1)
			for i := range uint64(4) {
				call(500, "aclrtLaunchKernel", testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA)
				call(9_000, "aclrtSynchronizeStream", testtrace.StreamA)
				if bytes > 0 {
					call(1_000, "aclrtMemcpy", 0x5000, bytes, testtrace.DeviceA, bytes, 2)
				}
			}
		}
		s := sums(t, b.Load(), "")
		if f := find(t, s, stats.Waits); f.For != want {
			t.Errorf("copies of %d bytes: waits for %q, want %q", bytes, f.For, want)
		}
		for _, f := range s.Findings {
			if f.Kind == stats.Synchronizes && want != stats.Synchronizes {
				t.Errorf("copies of %d bytes: %+v", bytes, f)
			}
		}
	}
}

// A thread that ran graphs and waited for the thread of its launches "hands on the launches of" one that only served callbacks.
func TestDriverHasWork(t *testing.T) {
	const other = 1 // thread; thread 0 makes the steps
	for name, c := range map[string]struct{ launches, queued uint64 }{
		"another thread launches more": {1, 6},
		"only one thread has work":     {6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := program(t)
			now := int64(10_000)
			for range 12 {
				from := now
				for i := range c.launches {
					b.Call(0, now+9_000, now+10_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(8_000))
					now += 10_000
				}
				for i := range c.queued {
					b.Call(other, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA))
					now += 8_000
				}
				b.Call(0, now, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), blocked(int64(c.queued)*8_000))
				now += 3_000
				if c.queued == 0 {
					b.Call(other, from, now, "aclrtProcessReport", testtrace.A(100))
				}
			}
			s := sums(t, b.Load(), "")
			if s.Shares == nil || s.Steps.Count < 10 || s.Shares.Driver != nil {
				t.Errorf("%d steps, launches from %+v, shares %+v", s.Steps.Count, s.Shares.Driver, s.Shares)
			}
		})
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

// The wait of empty_cache may end a step, and then its frees begin the next one. It was an explicit synchronization.
func TestEmptiedCacheEndsSteps(t *testing.T) {
	for want, frees := range map[stats.FindingKind]bool{stats.EmptiesCache: true, stats.Synchronizes: false} {
		b := program(t)
		now := int64(10_000)
		for range 12 {
			for i := range uint64(4) {
				b.Call(0, now, now+500, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA))
				now += 600
			}
			b.Call(0, now, now+900, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<16, 0), testtrace.Outs("devPtr", testtrace.DeviceB))
			b.Call(0, now+1_000, now+20_000, "aclrtSynchronizeDevice", testtrace.A())
			now += 20_100
			if frees {
				b.Call(0, now, now+700, "aclrtFree", testtrace.A(testtrace.DeviceB))
			}
			now += 800
		}
		s := sums(t, b.Load(), "")
		if !frees {
			if f := find(t, s, stats.Waits); f.For != want {
				t.Errorf("waits are for %q, want %q", f.For, want)
			}
			continue
		}
		if f := find(t, s, want); f.Steps < 10 || f.Count != uint64(f.Steps) || f.Func != "aclrtFree" || find(t, s, stats.Waits).For != "" {
			t.Errorf("%+v", f)
		}
	}
}

// A wait at the end of each step names what it is for: reading the loss in each step had no name and no remedy.
func TestWaitsSayWhatTheyAreFor(t *testing.T) {
	for want, copies := range map[stats.FindingKind]bool{stats.SyncReads: true, stats.Synchronizes: false} {
		b := program(t)
		now := int64(10_000)
		for range 12 {
			for i := range uint64(4) {
				b.Call(0, now, now+500, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA))
				now += 600
			}
			b.Call(0, now, now+20_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			now += 20_100
			if copies {
				b.Call(0, now, now+100, "aclrtMemcpy", testtrace.A(0x5000, 4, testtrace.DeviceA, 4, 2))
				now += 200
			}
		}
		if f := find(t, sums(t, b.Load(), ""), stats.Waits); f.For != want {
			t.Errorf("waits are for %q, want %q", f.For, want)
		}
	}
}

// queued makes a trace of a thread that launches, and mostly waits for the next launch. other adds calls of other threads at the begin of a step; the thread
// makes the launches late by its result.
func queued(t *testing.T, waits uint32, afterCopy bool, other func(b *testtrace.Builder, step int, now int64) int64) *stats.Stats {
	b := program(t)
	now := int64(10_000)
	for step := range 12 {
		late, then := other(b, step, now), int64(0)
		if afterCopy {
			late, then = 0, late
		}
		now += late
		b.Call(0, now, now+500, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, 0x700000, 64, 1, testtrace.StreamA), blocked(late))
		now += 500
		for i := range uint64(6) {
			now += 100_000 + then
			b.Call(0, now, now+1_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA), blocked(90_000+then))
			now, then = now+1_000, 0
		}
		b.Call(waits, now, now+3_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), blocked(590_000))
		now += 3_000
	}
	return sums(t, b.Load(), "")
}

// The time after a thread's last call is in no recording: a thread with calls in an early step alone "runs its own code for 100% of a step".
func TestThreadWithoutCallsHasNoTime(t *testing.T) {
	s := queued(t, 0, false, func(b *testtrace.Builder, step int, now int64) int64 {
		if step == 1 {
			b.Call(1, now, now+100, "aclrtGetDevice", testtrace.A(0x7ffe0000))
		}
		return 1_000
	})
	if s.Shares.Driver != nil || s.Bound != nil || len(s.Steps.Threads) != 1 {
		t.Errorf("driver %+v, bound %+v, threads %+v", s.Shares.Driver, s.Bound, s.Steps.Threads)
	}
}

// A thread that waits for the device and launches nothing hands no launches on: it did so for the thread that launches.
func TestThreadThatOnlyWaitsHandsNothingOn(t *testing.T) {
	s := queued(t, 1, false, func(*testtrace.Builder, int, int64) int64 { return 1_000 })
	if s.Shares.Driver != nil || len(s.Steps.Threads) != 2 {
		t.Errorf("driver %+v, threads %+v", s.Shares.Driver, s.Steps.Threads)
	}
}

// A batch that is late is a finding of the thread that copies it, though its launches come from another thread.
func TestLateBatchOfAQueue(t *testing.T) {
	s := queued(t, 0, false, func(b *testtrace.Builder, step int, now int64) int64 {
		for i := range int64(8) { // the program
			b.Call(1, now+i*80_000, now+i*80_000+100, "aclrtGetDevice", testtrace.A(0x7ffe0000))
		}
		if step == 7 {
			return 5_000_000
		}
		return 1_000
	})
	if f := find(t, s, stats.Stalls); s.Shares.Driver == nil || *f.Step != 7 || f.Steps != 1 || !f.Gap.Copy || f.NS < 4_000_000 {
		t.Errorf("driver %+v, stall %+v", s.Shares.Driver, f)
	}
}

// A thread that waits for an event before it copies a batch does not wait for the batch: the time before was said to be one before a copy to the device. Nor does it
// if the copies of other steps have the place of another call.
func TestTimeBeforeOtherCallsDelaysNoCopy(t *testing.T) {
	for _, first := range []string{"aclrtSynchronizeEvent", "aclrtGetDevice"} {
		s := queued(t, 0, false, func(b *testtrace.Builder, step int, now int64) int64 {
			for i := range int64(8) { // the program
				b.Call(1, now+i*80_000, now+i*80_000+100, "aclrtGetDevice", testtrace.A(0x7ffe0000))
			}
			late := int64(1_000)
			if step == 7 {
				late = 5_000_000
			}
			for i := range int64(4) {
				if first == "aclrtSynchronizeEvent" && i == 0 {
					b.Call(0, now+late, now+late+100, first, testtrace.A(0x9100), blocked(late))
				}
				if first == "aclrtGetDevice" && step == 7 {
					b.Call(0, now+late+i*200, now+late+i*200+100, first, testtrace.A(0x7ffe0000), blocked(late))
				}
			}
			return late + 1_000
		})
		for _, f := range s.Findings {
			if f.Gap != nil && f.Gap.Copy {
				t.Errorf("%s: %s %+v", first, f.Kind, f.Gap)
			}
		}
		if l := s.Steps.Longest; l.Index != 7 || l.Gap == nil || l.Gap.Func != first || l.Gap.Copy {
			t.Errorf("%s: %+v", first, l)
		}
	}
}

// A step whose origin of the launches saves a checkpoint is named by its copies: it was a gap of that thread.
func TestCheckpointOfAQueue(t *testing.T) {
	s := queued(t, 0, true, func(b *testtrace.Builder, step int, now int64) int64 {
		for i := range int64(8) {
			b.Call(1, now+i*80_000, now+i*80_000+100, "aclrtGetDevice", testtrace.A(0x7ffe0000))
		}
		if step != 7 {
			return 1_000
		}
		b.Call(1, now+700_000, now+800_000, "aclrtMemcpy", testtrace.A(0x5000, 1<<16, testtrace.DeviceA, 1<<16, 2))
		return 5_000_000
	})
	if f := find(t, s, stats.SlowSteps); s.Shares.Driver == nil || *f.Step != 7 || !s.Steps.Longest.More.Copies() {
		t.Errorf("driver %+v, %+v", s.Shares.Driver, f)
	}
}

// A loop that synchronized once a step and then copied a batch was told to pin its memory.
func TestCopyAfterSynchronizing(t *testing.T) {
	b := program(t)
	now := int64(10_000)
	call := func(took int64, name string, args ...uint64) {
		b.Call(0, now, now+took, name, args)
		now += took
	}
	for range 20 {
		call(500, "aclrtSynchronizeStream", testtrace.StreamA)
		call(20_000, "aclrtMemcpy", testtrace.DeviceA, 1<<16, 0x5000, 1<<16, 1)
		for i := range uint64(12) {
			call(500, "aclrtLaunchKernel", testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA)
		}
		now += 500_000
		call(400_000, "aclrtSynchronizeDevice")
	}
	s := sums(t, b.Load(), "")
	if f := find(t, s, stats.Waits); f.For != stats.Synchronizes {
		t.Errorf("%+v", f)
	}
	if f := find(t, s, stats.PageableCopies); f.EachNS != 20_500 && f.EachNS != 20_000 {
		t.Errorf("%+v", f)
	}
}

// Training that reads its loss once a step, after the gradients of four batches, had a step for each batch and no word about the read.
func TestOneReadOfAccumulatedGradients(t *testing.T) {
	for _, c := range []struct {
		wait  int64 // of the read, in a step of 1 ms
		reads bool  // otherwise it only waits
		want  []stats.FindingKind
	}{
		{87_000, true, []stats.FindingKind{stats.SyncReads}},
		{87_000, false, nil}, // the bound of a step
		{20_000, true, nil},
		{400_000, true, []stats.FindingKind{stats.Waits}}, // says so
	} {
		b := program(t)
		now := int64(10_000)
		call := func(took int64, name string, args ...uint64) {
			b.Call(0, now, now+took, name, args)
			now += took
		}
		for range 20 {
			begun := now
			for batch := range 4 {
				call(500, "aclrtMemcpyAsync", testtrace.DeviceA, 1<<16, testtrace.HostA, 1<<16, 1, testtrace.StreamA)
				for i := range uint64(12) {
					call(500, "aclrtLaunchKernel", testtrace.Function+i, 8, testtrace.DeviceA, 64, testtrace.StreamA)
					if batch > 0 && i%2 > 0 {
						call(500, "aclrtLaunchKernel", testtrace.Function+20, 8, testtrace.DeviceA, 64, testtrace.StreamA)
					}
				}
			}
			for i := range uint64(5) {
				call(500, "aclrtLaunchKernel", testtrace.Function+30+i, 8, testtrace.DeviceA, 64, testtrace.StreamA)
			}
			now = begun + 1_000_000 - c.wait
			call(c.wait-1_000, "aclrtSynchronizeStream", testtrace.StreamA)
			if c.reads {
				call(900, "aclrtMemcpy", 0x5000, 4, testtrace.DeviceA, 4, 2)
			}
		}
		s := sums(t, b.Load(), "")
		var got []stats.FindingKind
		for i := range s.Findings {
			if k := s.Findings[i].Kind; k == stats.SyncReads || k == stats.Synchronizes || k == stats.Waits {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, c.want) || s.Steps.Count < 19 || s.Steps.Count > 20 {
			t.Errorf("%d steps by %s, wait %d ns, reads %v: %v, want %v", s.Steps.Count, s.Steps.By, c.wait, c.reads, got, c.want)
		}
	}
}

// Waits of an output thread for copies to the host were counted as explicit synchronization, if the thread that launches had waited in between.
func TestWaitsForOutputsAreNotExplicit(t *testing.T) {
	const steps, streamB, inputs, output = 12, 0x5503, 0x7702, 0x7703
	b := program(t)
	outputs := b.Thread(4012)
	now := int64(10_000)
	call := func(thread uint32, took int64, name string, args ...uint64) {
		b.Call(thread, now, now+took, name, args)
		now += took + 100
	}
	launch := func(f uint64) {
		call(0, 500, "aclrtLaunchKernel", testtrace.Function+f, 8, testtrace.DeviceA, 64, testtrace.StreamA)
	}
	for range steps {
		launch(0)
		call(0, 100, "aclrtRecordEvent", inputs, testtrace.StreamA)
		call(0, 20_000, "aclrtSynchronizeStream", testtrace.StreamA)
		launch(1)
		launch(2)
		call(1, 500, "aclrtMemcpyAsync", testtrace.HostA, 8, testtrace.DeviceA, 8, 2, streamB)
		call(1, 100, "aclrtRecordEvent", output, streamB)
		call(0, 100, "aclrtSynchronizeEvent", inputs)
		launch(3)
		call(outputs, 50_000, "aclrtSynchronizeEvent", output)
		launch(4)
	}
	s := sums(t, b.Load(), "")
	want := func(f stats.Finding) bool {
		return f.Kind == stats.Waits && f.For == stats.Synchronizes && f.Count == uint64(s.Steps.Typical) && f.Func == "aclrtSynchronizeStream"
	}
	if !slices.ContainsFunc(s.Findings, want) || slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.Synchronizes }) {
		t.Errorf("%d steps: %+v", s.Steps.Count, s.Findings)
	}
}

// A wait for a graph that copies its results to the host was an explicit synchronization after which nothing is copied.
func TestWaitsForGraphsThatReadAreNotExplicit(t *testing.T) {
	for _, reads := range []bool{true, false} {
		b := program(t)
		now := int64(10_000)
		call := func(took int64, name string, args []uint64, mods ...testtrace.Mod) {
			b.Call(0, now, now+took, name, args, mods...)
			now += took + 100
		}
		launch := func() {
			call(500, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA))
		}
		call(100, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
		launch()
		if reads {
			call(500, "aclrtMemcpyAsync", testtrace.A(testtrace.HostA, 8, testtrace.DeviceA, 8, 2, testtrace.StreamA))
		}
		call(100, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9900))
		for range 12 {
			for range 2 {
				call(500, "aclmdlRIExecuteAsync", testtrace.A(0x9900, testtrace.StreamA))
				call(20_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				launch()
			}
		}
		s := sums(t, b.Load(), "")
		explicit := slices.ContainsFunc(s.Findings, func(f stats.Finding) bool {
			return f.Kind == stats.Synchronizes || f.Kind == stats.Waits && f.For == stats.Synchronizes
		})
		if s.Steps.Count < 10 || explicit == reads {
			t.Errorf("the graph copies to the host: %v: %d steps, findings %+v", reads, s.Steps.Count, s.Findings)
		}
	}
}
