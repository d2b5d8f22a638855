package access_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// BenchmarkFollow tracks device memory through a trace in which every launch has its arguments on the device.
func BenchmarkFollow(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Long(b, calls).Reader
	for b.Loop() {
		s := access.New(timeline.NewState(acl.Model), r)
		if err := s.Follow(); err != nil {
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
