package graphs_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// used returns the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkChecker walks through a trace of graph runs, updates, records and copies, with and without checks, and reports processor time per call in
// the best round.
func BenchmarkChecker(b *testing.B) {
	const steps = 20_000
	p := newProgram(b)
	p.guarded(0x9000)
	for range steps {
		p.copy(side)
		p.record(event, side)
		p.wait(event, main)
		p.run(0x9000)
		p.update(0x9100, 1)
		p.write(1, updates)
		for range 4 {
			p.launch(mlp, main, weights)
		}
		p.sync(main)
	}
	r := p.Load().Reader
	b.Run("plain", func(b *testing.B) {
		benchmark(b, r, func(*timeline.Walk) *graphs.Checker { return nil })
	})
	b.Run("checked", func(b *testing.B) {
		benchmark(b, r, func(w *timeline.Walk) *graphs.Checker {
			x, err := graphs.New(w)
			if err != nil {
				b.Fatal(err)
			}
			return x
		})
	})
	b.Run("launches", func(b *testing.B) { // a trace without captures
		benchmark(b, testtrace.Long(b, 1_000_000).Reader, func(w *timeline.Walk) *graphs.Checker {
			x, err := graphs.New(w)
			if err != nil || x != nil {
				b.Fatal(err)
			}
			return x
		})
	})
}

func benchmark(b *testing.B, r *format.Reader, checker func(w *timeline.Walk) *graphs.Checker) {
	best, calls := time.Hour, uint64(0)
	for b.Loop() {
		began := used()
		w := timeline.NewWalk(r, acl.Model, nil)
		x := checker(w)
		if err := w.Run(&timeline.Visitor{Call: x.Call}); err != nil {
			b.Fatal(err)
		}
		if n := len(x.Findings()); n > 0 {
			b.Fatalf("%d findings", n)
		}
		best, calls = min(best, used()-began), w.Calls
	}
	b.ReportMetric(float64(best.Nanoseconds())/float64(calls), "cpu-ns/call")
}
