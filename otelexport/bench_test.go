package otelexport

import (
	"context"
	"testing"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// BenchmarkWalk measures the walk alone.
func BenchmarkWalk(b *testing.B) {
	tl := testtrace.Long(b, 25_000)
	calls, began := 0, testenv.CPUTime()
	for b.Loop() {
		w := timeline.NewWalk(tl.Reader, tl.Model, nil)
		if err := w.Run(&timeline.Visitor{Call: func(*timeline.HostCall, *timeline.Task) error { calls++; return nil }}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(calls)/(testenv.CPUTime()-began).Seconds()/1e6, "Mcalls/cpu-s")
}

// BenchmarkWrite measures Write, with discarded output.
func BenchmarkWrite(b *testing.B) {
	tl := testtrace.Long(b, 25_000)
	spans, began := 0, testenv.CPUTime()
	for b.Loop() {
		res, err := write(nothing{}, tl, &Options{NoSteps: true, MaxSpans: -1})
		if err != nil {
			b.Fatal(err)
		}
		spans += res.Spans
	}
	oteltest.Report(b, spans, began)
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkYardsticks encodes the same known spans by other means: the generated structs, the collector's pdata, and
// the SDK with an exporter that discards.
func BenchmarkYardsticks(b *testing.B) {
	var all []known
	for _, s := range sent(b, encoder(b, testtrace.Long(b, 25_000), &Options{NoSteps: true, MaxSpans: -1}), nil) {
		k := known{Span: s}
		for key, v := range s.Attrs {
			switch v := v.(type) {
			case int64:
				k.attrs = append(k.attrs, attribute.Int64(key, v))
			case bool:
				k.attrs = append(k.attrs, attribute.Bool(key, v))
			case string:
				k.attrs = append(k.attrs, attribute.String(key, v))
			}
		}
		all = append(all, k)
	}
	const request = otlp.MaxRequestSpans
	each := func(b *testing.B, f func(spans []known) error) {
		spans, began := 0, testenv.CPUTime()
		b.ReportAllocs()
		for b.Loop() {
			for at := 0; at < len(all); at += request {
				part := all[at:min(at+request, len(all))]
				if err := f(part); err != nil {
					b.Fatal(err)
				}
				spans += len(part)
			}
		}
		oteltest.Report(b, spans, began)
	}
	b.Run("structures", func(b *testing.B) {
		each(b, func(spans []known) error {
			_, err := proto.Marshal(structures(spans))
			return err
		})
	})
	b.Run("pdata", func(b *testing.B) {
		each(b, func(spans []known) error {
			_, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(pdata(spans))
			return err
		})
	})
	b.Run("sdk", func(b *testing.B) {
		each(b, func(spans []known) error {
			tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}, sdktrace.WithBlocking()))
			tracer := tp.Tracer(otlp.ScopeName)
			for i := range spans {
				s := &spans[i]
				_, sp := tracer.Start(context.Background(), s.Name, trace.WithTimestamp(time.Unix(0, s.Start)), trace.WithAttributes(s.attrs...))
				sp.End(trace.WithTimestamp(time.Unix(0, s.End)))
			}
			return tp.Shutdown(context.Background())
		})
	})
}

// known is a span with its attributes as a list.
type known struct {
	oteltest.Span
	attrs []attribute.KeyValue
}

type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// structures returns spans as generated structs of the protocol.
func structures(spans []known) *coltracepb.ExportTraceServiceRequest {
	ss := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: otlp.ScopeName}, SchemaUrl: otlp.SchemaURL}
	for i := range spans {
		s := &spans[i]
		m := &tracepb.Span{TraceId: []byte(s.Trace[:16]), SpanId: []byte(s.ID[:8]), ParentSpanId: []byte(s.Parent[:min(8, len(s.Parent))]), Name: s.Name, Kind: otlp.Internal,
			StartTimeUnixNano: uint64(s.Start), EndTimeUnixNano: uint64(s.End)}
		for _, a := range s.attrs {
			kv := &commonpb.KeyValue{Key: string(a.Key), Value: &commonpb.AnyValue{}}
			switch a.Value.Type() {
			case attribute.INT64:
				kv.Value.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
			case attribute.BOOL:
				kv.Value.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
			default:
				kv.Value.Value = &commonpb.AnyValue_StringValue{StringValue: a.Value.AsString()}
			}
			m.Attributes = append(m.Attributes, kv)
		}
		for _, l := range s.Links {
			m.Links = append(m.Links, &tracepb.Span_Link{TraceId: []byte(l[0][:16]), SpanId: []byte(l[1][:8])})
		}
		ss.Spans = append(ss.Spans, m)
	}
	return &coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{Resource: &resourcepb.Resource{}, ScopeSpans: []*tracepb.ScopeSpans{ss}}}}
}

// pdata returns spans as the collector's pdata.
func pdata(spans []known) ptrace.Traces {
	td := ptrace.NewTraces()
	ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	ss.Scope().SetName(otlp.ScopeName)
	for i := range spans {
		s, d := &spans[i], ss.Spans().AppendEmpty()
		d.SetTraceID(pcommon.TraceID([]byte(s.Trace[:16])))
		d.SetSpanID(pcommon.SpanID([]byte(s.ID[:8])))
		d.SetName(s.Name)
		d.SetKind(ptrace.SpanKindInternal)
		d.SetStartTimestamp(pcommon.Timestamp(s.Start))
		d.SetEndTimestamp(pcommon.Timestamp(s.End))
		d.Attributes().EnsureCapacity(len(s.attrs))
		for _, a := range s.attrs {
			switch key := string(a.Key); a.Value.Type() {
			case attribute.INT64:
				d.Attributes().PutInt(key, a.Value.AsInt64())
			case attribute.BOOL:
				d.Attributes().PutBool(key, a.Value.AsBool())
			default:
				d.Attributes().PutStr(key, a.Value.AsString())
			}
		}
		for _, l := range s.Links {
			link := d.Links().AppendEmpty()
			link.SetTraceID(pcommon.TraceID([]byte(l[0][:16])))
			link.SetSpanID(pcommon.SpanID([]byte(l[1][:8])))
		}
	}
	return td
}
