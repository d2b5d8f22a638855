package timeline_test

import (
	"runtime"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/story"
)

// BenchmarkLoad reports what a timeline of 10^6 calls, nearly all of them launches, takes: bytes a call and time.
func BenchmarkLoad(b *testing.B) {
	const calls = 1_000_000
	r := story.Long(b, calls).Reader
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

// BenchmarkFollow is a State with the shadow over a trace where every launch has its arguments on the device.
func BenchmarkFollow(b *testing.B) {
	const calls = 1_000_000
	r := story.Long(b, calls).Reader
	for b.Loop() {
		s := timeline.NewState(acl.Model)
		if err := s.Follow(r); err != nil {
			b.Fatal(err)
		}
		for c, err := range r.CallsByStart(nil) {
			if err != nil {
				b.Fatal(err)
			}
			s.Apply(r.Threads()[c.Thread].Process, c)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/call")
}

// BenchmarkSteps finds 2,500 steps of 400 launches.
func BenchmarkSteps(b *testing.B) {
	const steps, launches = 2500, 400
	r := story.Steps(b, steps, launches, func(step, launch int) int64 { return 100 + int64(step*launch%13) }).Reader
	for b.Loop() {
		b.StopTimer()
		tl, err := timeline.Load(r, acl.Model)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if n := len(tl.Steps().List); n != steps {
			b.Fatalf("%d steps", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/steps/launches, "ns/launch")
}
