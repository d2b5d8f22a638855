package spans

import (
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// A script replays recorded visitor calls, without a walk.
type script struct {
	tl    *timeline.Timeline
	tells []func(v *timeline.Visitor) error
}

func listen(tb testing.TB, tl *timeline.Timeline) *script {
	tb.Helper()
	s := &script{tl: tl}
	add := func(f func(v *timeline.Visitor) error) error { s.tells = append(s.tells, f); return nil }
	w := timeline.NewWalk(tl.Reader, tl.Model, nil)
	err := w.Run(&timeline.Visitor{
		Lane: func(i int, l *timeline.Lane) error {
			l = &timeline.Lane{Process: l.Process, Name: l.Name, Device: l.Device}
			return add(func(v *timeline.Visitor) error { return v.Lane(i, l) })
		},
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			call := *h
			if k != nil {
				task := *k
				k = &task
			}
			return add(func(v *timeline.Visitor) error { return v.Call(&call, k) })
		},
		Task: func(k *timeline.Task) error {
			task := *k
			return add(func(v *timeline.Visitor) error { return v.Task(&task) })
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkEncode encodes the events from a recorded walk.
func BenchmarkEncode(b *testing.B) {
	s := listen(b, testtrace.Long(b, 100_000))
	spans, size, began := 0, 0, testenv.CPUTime()
	b.ReportAllocs()
	for b.Loop() {
		x, err := New(s.tl.Reader, s.tl.Model, &Options{NoSteps: true, MaxSpans: -1})
		if err != nil {
			b.Fatal(err)
		}
		x.out.sink = func(y *otlp.Batch) (*otlp.Batch, error) {
			spans += y.Spans
			for _, m := range y.Messages() {
				size += len(m.ProtoReflect().GetUnknown())
			}
			y.Reset()
			return y, nil
		}
		v := x.visitor()
		for _, tell := range s.tells {
			if err := tell(v); err != nil {
				b.Fatal(err)
			}
		}
		if err := x.finish(); err != nil {
			b.Fatal(err)
		}
	}
	oteltest.Report(b, spans, began)
	b.ReportMetric(float64(size)/float64(spans), "bytes/span")
}
