package otelexport

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
	"github.com/acltrace/acltrace/timeline"
	"go.opentelemetry.io/collector/pdata/ptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// written returns the spans that Write writes.
func written(tb testing.TB, t *timeline.Timeline, o *Options) ([]oteltest.Span, *Result) {
	tb.Helper()
	var b bytes.Buffer
	res, err := Write(&b, t.Reader, t.Model, o)
	if err != nil {
		tb.Fatal(err)
	}
	spans := oteltest.Parse(tb, b.Bytes())
	if res.Spans != len(spans) {
		tb.Fatalf("result says %d spans, %d were written", res.Spans, len(spans))
	}
	return spans, res
}

// sent returns the spans of all requests of an encoder. look sees each request.
func sent(tb testing.TB, x *spans.Encoder, look func(b *otlp.Batch, wire []byte)) (out []oteltest.Span) {
	tb.Helper()
	var wire []byte
	err := x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
		wire = b.Request(wire[:0])
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		out = append(out, oteltest.Flatten(td)...)
		if look != nil {
			look(b, wire)
		}
		b.Reset()
		return b, err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func write(w io.Writer, tl *timeline.Timeline, o *Options) (*Result, error) {
	return Write(w, tl.Reader, tl.Model, o)
}

func send(ctx context.Context, tl *timeline.Timeline, o *Options) (*Result, error) {
	return Send(ctx, tl.Reader, tl.Model, o)
}

func encoder(tb testing.TB, tl *timeline.Timeline, o *Options) *spans.Encoder {
	tb.Helper()
	if o == nil {
		o = &Options{}
	}
	x, err := spans.New(tl.Reader, tl.Model, o.spans())
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// serve starts a receiver and returns options to reach it.
func serve(tb testing.TB, r *oteltest.Receiver, protocol string) *Options {
	return &Options{Endpoint: r.Serve(tb, protocol), Protocol: protocol}
}

// accept is a Receiver.Answer that takes every request.
func accept(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// partialSuccess is the response of a receiver that rejects some spans.
func partialSuccess(rejected int64, message string) *coltracepb.ExportTraceServiceResponse {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

// rootSpans returns the spans without a parent, by part number.
func rootSpans(spans []oteltest.Span) []oteltest.Span {
	var out []oteltest.Span
	for _, s := range spans {
		if s.Parent == oteltest.NoSpan {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b oteltest.Span) int { return int(a.Attrs["acl.part"].(int64) - b.Attrs["acl.part"].(int64)) })
	return out
}

// verifyRoots checks that the traces are numbered, and name the previous and next one.
func verifyRoots(tb testing.TB, spans []oteltest.Span) []oteltest.Span {
	tb.Helper()
	all := rootSpans(spans)
	for i, r := range all {
		var previous, next any
		if i > 0 {
			previous = all[i-1].Trace
		}
		if i+1 < len(all) {
			next = all[i+1].Trace
		}
		if r.Attrs["acl.part"] != int64(i+1) || r.Attrs["acl.previous_trace_id"] != previous || r.Attrs["acl.next_trace_id"] != next || len(r.Links) > 0 {
			tb.Errorf("root %d of %d: %+v", i, len(all), r)
		}
	}
	return all
}
