package otelexport

import (
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// structures returns a batch as the generated structures of the protocol: what the encoder is compared with.
func (b *batch) structures() []*tracepb.ResourceSpans {
	out := make([]*tracepb.ResourceSpans, len(b.groups))
	for i := range b.groups {
		g := &b.groups[i]
		spans := make([]*tracepb.Span, len(g.spans))
		for j := range g.spans {
			spans[j] = g.spans[j].toProto()
		}
		out[i] = &tracepb.ResourceSpans{
			Resource:   &resourcepb.Resource{Attributes: keyValues(g.res.attrs)},
			ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scopeName}, Spans: spans, SchemaUrl: schemaURL}},
			SchemaUrl:  schemaURL,
		}
	}
	return out
}

func (s *span) toProto() *tracepb.Span {
	m := &tracepb.Span{
		TraceId: append([]byte(nil), s.trace[:]...), SpanId: append([]byte(nil), s.id[:]...), Name: s.name, Kind: tracepb.Span_SpanKind(s.kind),
		StartTimeUnixNano: uint64(s.start), EndTimeUnixNano: uint64(s.end), Attributes: keyValues(s.attrs),
	}
	if s.parent != (spanID{}) {
		m.ParentSpanId = append([]byte(nil), s.parent[:]...)
	}
	if s.link != (spanID{}) {
		m.Links = []*tracepb.Span_Link{{TraceId: append([]byte(nil), s.linkTrace[:]...), SpanId: append([]byte(nil), s.link[:]...)}}
	}
	if s.failed {
		m.Status = &tracepb.Status{Code: statusError, Message: s.message}
	}
	return m
}

func keyValues(attrs []attr) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(attrs))
	for i := range attrs {
		a := &attrs[i]
		v := &commonpb.AnyValue{}
		switch a.kind {
		case isNum:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: a.num}
		case isText:
			v.Value = textValue(a.str)
		case isTrue:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: true}
		case isList:
			list := &commonpb.ArrayValue{}
			for _, s := range a.list {
				list.Values = append(list.Values, &commonpb.AnyValue{Value: textValue(s)})
			}
			v.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list}
		}
		out[i] = &commonpb.KeyValue{Key: a.key, Value: v}
	}
	return out
}

func textValue(s string) *commonpb.AnyValue_StringValue {
	return &commonpb.AnyValue_StringValue{StringValue: s}
}
