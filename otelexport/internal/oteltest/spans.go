// Package oteltest has test helpers for otelexport and its sub-packages: spans as a receiver decodes them, an OTLP
// receiver with chosen answers, and real collectors and Jaegers that run during one test. Only tests import it.
package oteltest

import (
	"bytes"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Ids of the trace and span that tests use as the parent.
const (
	Upstream = "0af7651916cd43dd8448eb211c80319c"
	Caller   = "b7ad6b7169203331"
)

// Span is a span as a receiver decodes it.
type Span struct {
	Trace, ID, Parent string
	Links             [][2]string // trace, span
	Name, Kind        string
	Start, End        int64
	Status, Message   string
	Attrs             map[string]any
	Resource          map[string]any
	Scope, Schema     string
}

func Flatten(td ptrace.Traces) (out []Span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				f := Span{
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

// Parse reads OTLP JSON lines with the collector's own unmarshaler.
func Parse(tb testing.TB, lines []byte) (out []Span) {
	tb.Helper()
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, Flatten(td)...)
	}
	return out
}

// CallOf returns the call number of a span of a call or task. A run of folded calls is neither.
func CallOf(all map[[2]string]Span, s Span) (call int64, task, ok bool) {
	if s.Attrs["acl.count"] != nil {
		return 0, false, false
	}
	if s.Attrs["acl.call"] == nil && (s.Attrs["acl.task"] != nil || s.Attrs["acl.kernel"] != nil) {
		s, task = all[Launch(s)], true
	}
	call, ok = s.Attrs["acl.call"].(int64)
	return call, task, ok
}

// Launch returns the trace and id of the call that a task is linked to, or else is under.
func Launch(s Span) [2]string {
	if len(s.Links) == 1 {
		return s.Links[0]
	}
	return [2]string{s.Trace, s.Parent}
}

// ByID indexes spans by trace and id. It fails if two share them.
func ByID(tb testing.TB, spans []Span) map[[2]string]Span {
	tb.Helper()
	m := map[[2]string]Span{}
	for _, s := range spans {
		k := [2]string{s.Trace, s.ID}
		if _, twice := m[k]; twice {
			tb.Fatalf("two spans have the id %s in trace %s", s.ID, s.Trace)
		}
		m[k] = s
	}
	return m
}

var NoSpan = pcommon.NewSpanIDEmpty().String()
