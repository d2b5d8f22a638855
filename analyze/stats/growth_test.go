package stats_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// A single late allocation was growth. The bytes that a step adds were not said.
func TestGrowthIsARiseInSeveralStretches(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		more func(step int) int64 // bytes that the step allocates, or frees
		want float64              // bytes a step, 0 for no growth
	}{
		{"each step", func(int) int64 { return 1 << 16 }, 1 << 16},
		{"every fourth step", func(i int) int64 { return map[bool]int64{true: 1 << 18}[i%4 == 0] }, 1 << 16},
		{"every twelfth step", func(i int) int64 { return map[bool]int64{true: 12 << 16}[i%12 == 0] }, 1 << 16},
		{"late once", func(i int) int64 { return map[bool]int64{true: 1 << 22}[i == 45] }, 0},
		{"late twice", func(i int) int64 { return map[bool]int64{true: 1 << 22}[i == 35 || i == 60] }, 0},
		{"until a cache is full", func(i int) int64 { return map[bool]int64{true: 1 << 16}[i < 50] }, 0},
		{"saw", func(i int) int64 { return map[bool]int64{true: -9 << 16, false: 1 << 16}[i%10 == 9] }, 0},
		{"random", func(int) int64 { return 0 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testtrace.New(t)
			at, next := int64(1_000), uint64(0x125000000000)
			var held [][2]uint64
			malloc := func(n uint64) {
				b.Call(0, at, at+500, "aclrtMalloc", testtrace.A(0x7ffe0000, n, 0), testtrace.Outs("devPtr", next))
				held = append(held, [2]uint64{next, n})
				next, at = next+1<<24, at+1_000
			}
			free := func() {
				h := held[len(held)-1]
				b.Call(0, at, at+500, "aclrtFree", testtrace.A(h[0]))
				held, at = held[:len(held)-1], at+1_000
			}
			malloc(1 << 20)
			for i := range 80 {
				more := c.more(i)
				if c.name == "random" {
					for len(held) > 1 {
						free()
					}
					more = (1 + r.Int64N(40)) << 16
				}
				for ; more > 0; more -= 1 << 16 {
					malloc(1 << 16)
				}
				for ; more < 0; more += 1 << 16 {
					free()
				}
				b.Call(0, at, at+500, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
				b.Call(0, at+1_000, at+20_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				at += 21_000
			}
			s := sums(t, b.Load(), "")
			if s.Steps.Count != 80 {
				t.Fatalf("%+v", s.Steps)
			}
			if c.want == 0 {
				for _, f := range s.Findings {
					if f.Kind == stats.Grows {
						t.Errorf("%+v", f.Growth)
					}
				}
				return
			}
			g := find(t, s, stats.Grows).Growth
			if math.Abs(g.PerStep-c.want) > 0.1*c.want || g.PerStepLow <= 0 || g.PerStepLow > g.PerStep || g.PerStepHigh < g.PerStep {
				t.Errorf("%+v", g)
			}
			var text bytes.Buffer
			if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !strings.Contains(text.String(), "device memory of process 4001 grows by 6") || !strings.Contains(text.String(), " KiB a step: from ") {
				t.Errorf("%v, %s", err, &text)
			}
		})
	}
}

// A program that makes a stream or a graph in each step and ends none had no finding.
func TestObjectsThatPileUp(t *testing.T) {
	for _, c := range []struct {
		name         string
		makes, kills func(step int) bool
		want         bool
		late         bool // they are ended after the steps
	}{
		{"each step", func(int) bool { return true }, func(int) bool { return false }, true, false},
		{"every third step", func(i int) bool { return i%3 == 0 }, func(int) bool { return false }, true, false},
		{"half of them ended", func(int) bool { return true }, func(i int) bool { return i%2 == 0 }, true, false},
		{"all ended", func(int) bool { return true }, func(int) bool { return true }, false, false},
		{"until a pool is full", func(i int) bool { return i < 10 }, func(int) bool { return false }, false, false},
		{"each step, ended late", func(int) bool { return true }, func(int) bool { return false }, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testtrace.New(t)
			at, next := int64(1_000), uint64(0x7100)
			for i := range 60 {
				b.Call(0, at, at+500, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
				if c.makes(i) {
					next++
					b.Call(0, at+600, at+700, "aclrtCreateEvent", testtrace.A(0x7ffe0000), testtrace.Outs("event", next))
					b.Call(0, at+800, at+900, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamB, 1))
					b.Call(0, at+910, at+920, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamB, 0x7ffe0000), testtrace.Outs("modelRI", next+1<<20))
					if c.kills(i) {
						b.Call(0, at+930, at+940, "aclrtDestroyEvent", testtrace.A(next))
						b.Call(0, at+950, at+960, "aclmdlRIDestroy", testtrace.A(next+1<<20))
					}
				}
				b.Call(0, at+1_000, at+20_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				at += 21_000
			}
			for n := uint64(0x7101); c.late && n <= next; n++ {
				b.Call(0, at, at+10, "aclrtDestroyEvent", testtrace.A(n))
				b.Call(0, at+20, at+30, "aclmdlRIDestroy", testtrace.A(n+1<<20))
				at += 40
			}
			s := sums(t, b.Load(), "")
			if s.Steps.Count != 60 {
				t.Fatalf("%+v", s.Steps)
			}
			var got []string
			for _, f := range s.Findings {
				if f.Kind == stats.PilesUp {
					got = append(got, f.Name+" "+f.Func)
				}
			}
			if want := []string{"event aclrtCreateEvent", "graph aclmdlRICaptureEnd"}; c.want != slices.Equal(got, want) || !c.want && got != nil {
				t.Errorf("pile up: %q", got)
			}
		})
	}
}

// What a program frees at its end is no part of its last step: memory grew "from 6 MiB to 0 B".
func TestGrowthEndsBeforeTheProgram(t *testing.T) {
	b := testtrace.New(t)
	now := int64(1_000)
	for i := range uint64(60) {
		b.Call(0, now, now+500, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<16, 0), testtrace.Outs("devPtr", 0x125000000000+i<<24))
		b.Call(0, now+500, now+600, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, 0x700000, 64, 1, testtrace.StreamA))
		for k := range uint64(4) {
			b.Call(0, now+1_000+int64(k)*100, now+1_050+int64(k)*100, "aclrtLaunchKernel", testtrace.A(testtrace.Function+k, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		}
		now += 10_000
	}
	for i := range uint64(60) {
		b.Call(0, now, now+500, "aclrtFree", testtrace.A(0x125000000000+i<<24))
		now += 600
	}
	if g := find(t, sums(t, b.Load(), ""), stats.Grows).Growth; g.ToBytes <= g.FromBytes {
		t.Errorf("%+v", g)
	}
}
