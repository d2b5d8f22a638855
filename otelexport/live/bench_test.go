package live

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// BenchmarkLive measures a call's cost for the recorder ("tell") and for the counter ("count"), with metrics only and
// with one step of a hundred sent to an address where nothing listens.
func BenchmarkLive(b *testing.B) {
	tl := testtrace.Long(b, 100_000)
	var calls []format.Call
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err != nil {
			b.Fatal(err)
		}
		calls = append(calls, *c.Clone())
		calls[len(calls)-1].Data = nil
	}
	begin := func(b *testing.B, o Options) *Follower {
		o.Model = acl.Model
		l, err := New(&o)
		if err != nil {
			b.Fatal(err)
		}
		l.rs.Meta = tl.Reader.Meta()
		if l.spans != nil {
			l.spans.x.Inherit()
		}
		for _, p := range tl.Reader.Processes() {
			l.Process(&p)
		}
		for _, t := range tl.Reader.Threads() {
			l.Thread(&t)
		}
		return l
	}
	each := func(b *testing.B, f func() time.Duration) {
		var took time.Duration
		n := 0
		for b.Loop() {
			took += f()
			n++
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(n*len(calls)), "cpu-ns/call")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("tell", func(b *testing.B) {
		each(b, func() time.Duration {
			l := begin(b, Options{})
			done := make(chan struct{})
			go func() {
				for x := range l.work {
					l.again(x)
				}
				close(done)
			}()
			began := testenv.CPUTime()
			for i := range calls {
				l.Call(&calls[i], false)
			}
			took := testenv.CPUTime() - began
			close(l.work)
			<-done
			return took
		})
	})
	for name, o := range map[string]Options{"count": {}, "count, and spans": {Spans: true, Every: 100, Endpoint: "http://127.0.0.1:1"}} {
		b.Run(name, func(b *testing.B) {
			each(b, func() time.Duration {
				l := begin(b, o)
				var batches []*batch
				done := make(chan struct{})
				go func() {
					for x := range l.work {
						batches = append(batches, x)
					}
					close(done)
				}()
				for i := range calls {
					l.Call(&calls[i], false)
				}
				l.Drained(1 << 62)
				close(l.work)
				<-done
				began := testenv.CPUTime()
				for _, x := range batches {
					x.until = 1 << 62
					if err := l.take(x); err != nil {
						b.Fatal(err)
					}
				}
				return testenv.CPUTime() - began
			})
		})
	}
}
