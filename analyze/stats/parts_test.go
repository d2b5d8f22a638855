package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// blocked makes a call follow a time in which its thread did not run.
func blocked(ns int64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.BlockedParam, Value: uint64(ns)})
	}
}

// ran gives the task of a call a measured time.
func ran(from, to int64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(from)}, format.Out{Param: api.TaskEndParam, Value: uint64(to)})
		slices.SortFunc(c.Outs, func(a, b format.Out) int { return int(a.Param) - int(b.Param) })
	}
}

// anySteps returns a trace of steps with random calls on up to two threads: gaps of all lengths, some of them blocked or the recorder's, stalls, copies of
// several sizes on two streams, runs of a graph, allocations, and sometimes ranges that mark the steps with time between them.
func anySteps(t *testing.T, seed uint64) *stats.Stats {
	r := rand.New(rand.NewPCG(seed, 7))
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) { m.Tracer.GapNS = 50_000 })
	b.Call(0, 1_000, 2_000, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 4_000, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	for i := range uint64(4) {
		at := 5_000 + int64(i)*100
		b.Call(0, at, at+50, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", fmt.Sprintf("k%d", i)), testtrace.Outs("funcHandle", testtrace.Function+i))
	}
	b.Call(0, 6_000, 6_100, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
	for i := range uint64(2) {
		at := 6_200 + int64(i)*100
		b.Call(0, at, at+50, "aclrtLaunchKernel", testtrace.A(testtrace.Function+i, 8, testtrace.DeviceB, 64, testtrace.StreamA))
	}
	b.Call(0, 6_500, 6_600, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000))
	b.Call(0, 6_700, 6_800, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamB))
	now := [2]int64{10_000, 10_000} // by thread
	timed := r.IntN(3) == 0
	free := int64(0) // until then the latest measured kernel ran
	launcher := uint32(r.IntN(2))
	marks := r.IntN(3) == 0
	type op struct {
		thread uint32
		kind   int
		size   uint64
		gap    int64
	}
	var ops []op
	for range 3 + r.IntN(12) {
		o := op{thread: launcher, kind: r.IntN(10), size: 1 << (3 + r.IntN(20)), gap: 1 << r.IntN(18)}
		if o.kind >= 4 {
			o.thread = uint32(r.IntN(2))
		}
		ops = append(ops, o)
	}
	call := func(thread uint32, gap, took int64, name string, args []uint64, mods ...testtrace.Mod) {
		at := now[thread] + gap
		now[thread] = at + took
		b.Call(thread, at, at+took, name, args, mods...)
	}
	for step := range 8 + r.IntN(30) {
		if marks {
			now[0] += int64(r.IntN(500_000))
			call(0, 10, 10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "step"), handle(uint64(step+1)))
		}
		for _, o := range ops {
			gap := o.gap + int64(r.IntN(100))
			if r.IntN(60) == 0 {
				gap += int64(r.IntN(3_000_000)) // a stall
			}
			var mods []testtrace.Mod
			if r.IntN(10) == 0 {
				mods = append(mods, func(_ *api.Func, c *format.Call) {
					c.Outs = append(c.Outs, format.Out{Param: api.RecordingParam, Value: uint64(r.Int64N(gap + 1))})
				})
			}
			if gap > 50_000 && r.IntN(2) == 0 {
				mods = append(mods, blocked(r.Int64N(2*gap)))
			}
			took := int64(50 + r.IntN(5_000))
			switch o.kind {
			case 8:
				call(o.thread, gap, took, "aclmdlRIExecuteAsync", testtrace.A(0x9000, testtrace.StreamA), mods...)
			case 9:
				stream := uint64(testtrace.StreamA)
				if o.gap&1 == 0 {
					stream = testtrace.StreamB
				}
				call(o.thread, gap, took, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, o.size, testtrace.HostA, o.size, 1, stream), mods...)
			case 0, 1, 2, 3:
				if timed {
					from := max(free, now[o.thread]+gap)
					free = from + int64(1+r.IntN(50_000))
					mods = append(mods, ran(from, free))
				}
				call(o.thread, gap, took, "aclrtLaunchKernel", testtrace.A(testtrace.Function+uint64(o.kind), 8, testtrace.DeviceB, 64, testtrace.StreamA), mods...)
			case 4:
				call(o.thread, gap, took, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, o.size, 0x5000, o.size, 1), mods...)
			case 5:
				call(o.thread, gap, took, "aclrtMemcpy", testtrace.A(0x5000, o.size, testtrace.DeviceA, o.size, 2), mods...)
			case 6:
				call(o.thread, gap, took, "aclrtMalloc", testtrace.A(0x7ffe0000, o.size, 0), append([]testtrace.Mod{testtrace.Outs("devPtr", testtrace.DeviceB+uint64(step)<<30)}, mods...)...)
			case 7:
				call(o.thread, gap, took, "aclrtGetDevice", testtrace.A(0x7ffe0000), mods...)
			}
		}
		if step%7 != 6 || marks {
			call(launcher, 100, int64(500+r.IntN(50_000)), "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		if marks {
			now[0] = max(now[0], now[1])
			call(0, 10, 10, "mstxRangeEnd", testtrace.A(uint64(step+1)))
		}
		now[1-launcher] = max(now[1-launcher], now[launcher]-int64(r.IntN(100_000)))
	}
	return sums(t, b.Load(), "")
}

// No part exceeds its whole, and what is said of a step follows from steps alone: "139 ms in 6 of 30 steps" of 179 ms in all, one stall of 80 ms averaged over four gaps, and copies
// of "688 KiB each" for 8, 8 and 2,048 KiB.
func TestNoPartExceedsItsWhole(t *testing.T) {
	with, stalls, drivers, sources := 0, 0, 0, map[string]int{}
	for seed := range uint64(150) {
		s := anySteps(t, seed)
		fail := func(what string, of ...any) { t.Errorf("seed %d: %s: %+v", seed, what, of) }
		calls := map[string]uint64{}
		for _, f := range s.Functions {
			calls[f.Func] += f.Calls
		}
		whole := func(what string, p *stats.Parts, ns int64) {
			sum := int64(0)
			for _, part := range stats.AllParts {
				of := part.Of(p)
				if sum += of; of < 0 {
					fail(what, p)
				}
			}
			if sum > ns || sum < ns-int64(len(stats.AllParts)) {
				fail(what+": the parts are no whole", sum, ns, p)
			}
		}
		for _, d := range s.Idle {
			if d.InCallsNS+d.RecordingNS+d.BlockedNS > d.NS {
				fail("idle time", d)
			}
		}
		busy := int64(0) // no stream is busy for longer than the trace
		for _, l := range s.Streams {
			if busy += l.BusyAtMostNS; l.BusyAtMostNS > s.SpanNS || l.IdleAtLeastNS > s.SpanNS {
				fail("stream", l, s.SpanNS)
			}
		}
		inGraphs, runs := int64(0), int64(0)
		for _, g := range s.Graphs {
			if runs += g.AtMostNS; g.DeviceNS > g.AtMostNS {
				fail("graph", g)
			}
		}
		for _, k := range s.Kernels {
			inGraphs += k.InGraphsNS
		}
		if runs > busy || inGraphs > runs {
			fail("runs of graphs", runs, inGraphs, busy)
		}
		for _, k := range s.Copies {
			if k.RateAtLeast && float64(k.Bytes)/k.Rate*1e9 > float64(busy+1) {
				fail("copies take longer than their streams are busy", k, busy)
			}
		}
		for i := range s.Devices {
			if d := &s.Devices[i]; d.BusyAtMostNS > d.SpanNS || d.SpanNS > s.SpanNS+100_000 {
				fail("device", d, s.SpanNS)
			}
		}
		sh := s.Shares
		if sh == nil || sh.Steps == 0 {
			continue
		}
		with++
		sources[s.Steps.Source]++
		whole("shares", &sh.Parts, sh.NS)
		if sh.NS*sh.Steps > s.SpanNS {
			fail("the steps exceed the trace", sh.NS, sh.Steps, s.SpanNS)
		}
		for i := range s.Steps.Threads {
			whole("thread "+s.Steps.Threads[i].Thread, &s.Steps.Threads[i].Parts, s.Steps.MeanNS)
		}
		if l := s.Steps.Longest; l != nil {
			whole("longest step", &l.Parts, l.NS)
			if l.Gap != nil && l.Gap.NS > l.OwnNS+l.BlockedNS+l.RecordingNS {
				fail("gap of the longest step", l.Gap, l)
			}
		}
		gaps, blocked := int64(0), int64(0)
		for i := range sh.Gaps {
			g := &sh.Gaps[i]
			gaps, blocked = gaps+g.NS, blocked+g.BlockedNS
			if g.BlockedNS > g.NS || g.Steps > sh.Steps || g.LongNS*g.Steps > (g.NS+1)*sh.Steps || g.Call != nil && g.Next != nil && *g.Call >= *g.Next {
				fail("gap", g)
			}
		}
		if rounding := int64(len(stats.AllParts)); gaps > sh.OwnNS+sh.BlockedNS+rounding || blocked > sh.BlockedNS+rounding {
			fail("the gaps exceed the time between calls", gaps, sh.OwnNS+sh.BlockedNS, blocked, sh.BlockedNS)
		}
		if p := sh.Spread; p != nil && (p.NS > sh.OwnNS+int64(len(stats.AllParts)) || uint64((p.Gaps-1)*sh.Steps) > calls[p.Func]) {
			fail("own time before calls of one function", p, sh.OwnNS, calls[p.Func])
		}
		if sh.Driver != nil {
			drivers++
			whole("driver", &sh.Driver.Parts, sh.NS)
		}
		if b := s.Bound; b != nil && (b.Share < 0 || b.Share > 1 || b.Waits > 1 || b.EveryNS < 0) {
			fail("bound", b)
		}
		for _, f := range s.Findings {
			switch {
			case f.Share < 0 || f.Share > 1, f.CostNS < 0, f.CostNS > 2*s.SpanNS, f.Of > 0 && uint64(f.Steps) > f.Of, f.Func != "" && f.Count > calls[f.Func] && f.Kind != stats.EmptiesCache:
				fail("finding", f)
			case f.Kind == stats.Copies && uint64(f.EachNS)*f.Count > uint64(f.CostNS)+uint64(sh.Steps):
				fail("copies", f)
			case f.Kind == stats.Copies && f.Count > 0 && f.Bytes%f.Count != 0:
				fail("unlike copies are averaged", f)
			case f.Kind == stats.Stalls:
				if stalls++; f.CostNS != f.NS*f.Steps || 2*f.Steps >= sh.Steps {
					fail("stall", f, sh)
				}
			}
		}
	}
	if with < 75 || sources["marked"] == 0 || sources["found"] == 0 || stalls == 0 {
		t.Errorf("%d of 150 traces have steps, %v, %d stalls, %d drivers", with, sources, stalls, drivers)
	}
}
