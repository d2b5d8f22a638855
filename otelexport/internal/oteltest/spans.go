// Package oteltest has test helpers for otelexport and its sub-packages: spans as a receiver decodes them, an OTLP
// receiver with chosen answers, and real collectors and Jaegers that run during one test. Only tests import it.
package oteltest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
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

// Text lists resources and spans, with times in nanoseconds since the begin of the trace.
func Text(spans []Span) string {
	var b strings.Builder
	resources := map[string]int{}
	for i := range spans {
		s := &spans[i]
		res := AttributeText(s.Resource) + " " + s.Scope + " " + s.Schema
		if _, known := resources[res]; !known {
			resources[res] = len(resources)
			fmt.Fprintf(&b, "resource %d:%s\n", resources[res], res)
		}
		fmt.Fprintf(&b, "%d %s %s %s %s %q %d %d", resources[res], s.Trace[:8], s.ID, strings.TrimLeft(s.Parent, "0"), s.Kind, s.Name, s.Start-testtrace.StartWall, s.End-s.Start)
		for _, l := range s.Links {
			fmt.Fprintf(&b, " link %s %s", l[0][:8], l[1])
		}
		if s.Status != "Unset" || s.Message != "" {
			fmt.Fprintf(&b, " %s %q", s.Status, s.Message)
		}
		fmt.Fprintf(&b, "%s\n", AttributeText(s.Attrs))
	}
	return b.String()
}

// AttributeText lists attributes by key.
func AttributeText(attrs map[string]any) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		fmt.Fprintf(&b, " %s=", k)
		switch v := attrs[k].(type) {
		case string, []any:
			fmt.Fprintf(&b, "%q", v)
		default:
			fmt.Fprint(&b, v)
		}
	}
	return b.String()
}
