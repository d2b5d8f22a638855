package otelexport

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	res, err := Write(&b, t.Reader, t.Model, o)
	if err != nil {
		tb.Fatal(err)
	}
	spans := parse(tb, b.Bytes())
	if res.Spans != len(spans) {
		tb.Fatalf("result says %d spans, %d were written", res.Spans, len(spans))
	}
	return spans, res
}

// callOf returns the number of the call that a span stands for, or whose task it is.
func callOf(all map[[2]string]flat, s flat) (call int64, task, ok bool) {
	if s.Attrs["acl.task"] != nil && len(s.Links) == 1 {
		s, task = all[s.Links[0]], true
	}
	call, ok = s.Attrs["acl.call"].(int64)
	return call, task, ok
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

// sent returns the spans of the requests that an exporter gives out, and looks at each request.
func sent(tb testing.TB, x *exporter, look func(b *batch, wire []byte)) (out []flat) {
	tb.Helper()
	var wire []byte
	err := x.run(func(b *batch) (*batch, error) {
		wire = b.request(wire[:0])
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		out = append(out, flatten(td)...)
		if look != nil {
			look(b, wire)
		}
		b.reset()
		return b, err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// roots returns the spans without a parent, by the numbers of their parts.
func roots(spans []flat) []flat {
	var out []flat
	for _, s := range spans {
		if s.Parent == noSpan {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b flat) int { return int(a.Attrs["acl.part"].(int64) - b.Attrs["acl.part"].(int64)) })
	return out
}

// verifyRoots checks that the traces are numbered and linked to the ones before and behind them.
func verifyRoots(tb testing.TB, spans []flat) []flat {
	tb.Helper()
	all := roots(spans)
	for i, r := range all {
		if r.Attrs["acl.part"] != int64(i+1) {
			tb.Errorf("root %d of %d: %v", i, len(all), r.Attrs)
		}
		var want [][2]string
		if i > 0 {
			want = append(want, [2]string{all[i-1].Trace, all[i-1].ID})
		}
		if i+1 < len(all) {
			want = append(want, [2]string{all[i+1].Trace, all[i+1].ID})
		}
		if d := cmp.Diff(want, r.Links); d != "" {
			tb.Errorf("links of root %d (-want +got):\n%s", i, d)
		}
	}
	return all
}

var noSpan = pcommon.NewSpanIDEmpty().String()
