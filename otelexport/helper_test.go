package otelexport

import (
	"bytes"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/timeline"
)

// flat is a span as a receiver sees it.
type flat struct {
	Trace, ID, Parent string
	Links             [][2]string // trace, span
	Name, Kind        string
	Start, End        int64
	Status, Message   string
	Attrs             map[string]any
	Resource          map[string]any
	Scope, Schema     string
}

func flatten(td ptrace.Traces) (out []flat) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				f := flat{
					Trace: s.TraceID().String(), ID: s.SpanID().String(), Parent: s.ParentSpanID().String(), Name: s.Name(), Kind: s.Kind().String(),
					Start: int64(s.StartTimestamp()), End: int64(s.EndTimestamp()), Status: s.Status().Code().String(), Message: s.Status().Message(),
					Attrs: s.Attributes().AsRaw(), Resource: rs.Resource().Attributes().AsRaw(), Scope: ss.Scope().Name(), Schema: ss.SchemaUrl(),
				}
				for _, l := range s.Links().All() {
					f.Links = append(f.Links, [2]string{l.TraceID().String(), l.SpanID().String()})
				}
				if s.Attributes().Len() != len(f.Attrs) || s.Events().Len() > 0 {
					panic("a key twice, or an event")
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// parse reads OTLP JSON lines by the collector's own reader.
func parse(tb testing.TB, lines []byte) (out []flat) {
	tb.Helper()
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, flatten(td)...)
	}
	return out
}

// written returns the spans that Write makes of a timeline.
func written(tb testing.TB, t *timeline.Timeline, o *Options) ([]flat, *Result) {
	tb.Helper()
	var b bytes.Buffer
	res, err := Write(&b, t, o)
	if err != nil {
		tb.Fatal(err)
	}
	spans := parse(tb, b.Bytes())
	if res.Spans != len(spans) {
		tb.Fatalf("result says %d spans, %d were written", res.Spans, len(spans))
	}
	return spans, res
}

// byID indexes spans by trace and id, and fails where two share them.
func byID(tb testing.TB, spans []flat) map[[2]string]flat {
	tb.Helper()
	m := map[[2]string]flat{}
	for _, s := range spans {
		k := [2]string{s.Trace, s.ID}
		if _, twice := m[k]; twice {
			tb.Fatalf("two spans have the id %s in trace %s", s.ID, s.Trace)
		}
		m[k] = s
	}
	return m
}

var noSpan = pcommon.NewSpanIDEmpty().String()
