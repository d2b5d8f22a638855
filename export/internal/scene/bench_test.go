package scene_test

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

type nothing struct{}

func (nothing) Slice(*scene.Slice) error                   { return nil }
func (nothing) Point(*scene.Counter, int64, float64) error { return nil }

// BenchmarkScene measures a walk whose viewer discards everything.
func BenchmarkScene(b *testing.B) {
	r := testtrace.Decoding(b, 2_000_000, true)
	best := time.Hour
	var events int
	for b.Loop() {
		s, err := scene.New(r, acl.Model, nil)
		if err != nil {
			b.Fatal(err)
		}
		began := testenv.CPUTime()
		if err := s.Walk(nothing{}); err != nil {
			b.Fatal(err)
		}
		best = min(best, testenv.CPUTime()-began)
		events = s.Drawn.Events()
	}
	b.ReportMetric(float64(events)/best.Seconds()/1e6, "Mevents/cpu-s")
	b.ReportMetric(float64(best.Nanoseconds())/2e6, "cpu-ns/call")
}
