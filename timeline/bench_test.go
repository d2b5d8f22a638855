package timeline_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// used returns the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWalk walks through 10^6 calls, nearly all launches, and reports processor time per call in the best round.
func BenchmarkWalk(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Long(b, calls).Reader
	nothing := func(*timeline.HostCall, *timeline.Task) error { return nil }
	for name, v := range map[string]*timeline.Visitor{
		"calls":  {Call: nothing},
		"depths": {Call: nothing, Depth: func(*timeline.DepthPoint) error { return nil }},
	} {
		b.Run(name, func(b *testing.B) {
			best := time.Hour
			for b.Loop() {
				began := used()
				w := timeline.NewWalk(r, acl.Model, nil)
				if err := w.Run(v); err != nil {
					b.Fatal(err)
				}
				best = min(best, used()-began)
			}
			b.ReportMetric(float64(best.Nanoseconds())/calls, "cpu-ns/call")
		})
	}
}

// BenchmarkLoad reports bytes and time per call for a timeline with 10^6 calls, nearly all launches.
func BenchmarkLoad(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Long(b, calls).Reader
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tl, err := timeline.Load(r, acl.Model)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/calls, "bytes/call")
		runtime.KeepAlive(tl)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/call")
}

// BenchmarkSteps reports the time to find 2,500 steps with 400 launches each.
func BenchmarkSteps(b *testing.B) {
	const steps, launches = 2500, 400
	r := testtrace.Steps(b, steps, launches, func(step, launch int) int64 { return 100 + int64(step*launch%13) }).Reader
	best := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i, find := range []bool{false, true} {
			began := used()
			w := timeline.NewWalk(r, acl.Model, nil)
			if find {
				if err := w.FindSteps(); err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			if err := w.Run(&timeline.Visitor{Step: func(s *step.Step) error { n++; return nil }}); err != nil || n != steps*i {
				b.Fatalf("%d steps: %v", n, err)
			}
			best[i] = min(best[i], used()-began)
		}
	}
	b.ReportMetric(float64((best[1]-best[0]).Nanoseconds())/steps/launches, "cpu-ns/launch")
}
