package otelexport

import (
	"encoding/json"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// The roots of a recording that started under a span are its children, in both layouts. In a real Jaeger they form one
// trace with that span. Roots beyond the limit have traces of their own, with the span's ids as attributes.
func TestRecordingUnderASpan(t *testing.T) {
	for _, layout := range []string{Lanes, Nested} {
		t.Run(layout, func(t *testing.T) {
			tl := testtrace.Steps(t, 5, 20, func(s, l int) int64 { return 900 + int64(s*l%7) })
			tl.Reader.Meta().Env = map[string]string{"TRACEPARENT": "00-" + oteltest.Upstream + "-" + oteltest.Caller + "-01"}
			all, _ := written(t, tl, &Options{Layout: layout})
			oteltest.ByID(t, all)
			roots := 0
			for _, s := range all {
				if s.Trace != oteltest.Upstream || s.Parent == oteltest.NoSpan {
					t.Errorf("%+v", s)
				}
				if s.Attrs["acl.part"] != nil {
					if roots++; s.Parent != oteltest.Caller {
						t.Errorf("root %+v", s)
					}
				}
			}
			if roots < 5 {
				t.Errorf("%d roots", roots)
			}
			// With a small limit, only the first roots are in the parent's trace.
			some, _ := written(t, tl, &Options{Layout: layout, MaxSpans: 100})
			oteltest.ByID(t, some)
			in, out := 0, 0
			for _, s := range some {
				if s.Attrs["acl.part"] == nil {
					continue
				}
				named := s.Attrs["acl.parent_trace_id"] == oteltest.Upstream && s.Attrs["acl.parent_span_id"] == oteltest.Caller
				switch {
				case len(s.Links) > 0:
					t.Errorf("root %+v", s)
				case s.Trace == oteltest.Upstream && s.Parent == oteltest.Caller && !named:
					in++
				case s.Trace != oteltest.Upstream && s.Parent == oteltest.NoSpan && named:
					out++
				default:
					t.Errorf("root %+v", s)
				}
			}
			if in == 0 || out == 0 || in > out {
				t.Errorf("%d roots under the span and %d that name it", in, out)
			}
		})
	}
	j := oteltest.StartJaeger(t)
	tl := testtrace.Small(t)
	tl.Reader.Meta().Env = map[string]string{"TRACEPARENT": "00-" + oteltest.Upstream + "-" + oteltest.Caller + "-01"}
	res, err := send(t.Context(), tl, &Options{Endpoint: j.GRPC, Protocol: GRPC})
	if err != nil || res.FirstTraceID != oteltest.Upstream {
		t.Fatalf("%+v, %v", res, err)
	}
	if spans := j.Spans(t, oteltest.Upstream); len(spans) != res.Spans {
		t.Errorf("%d spans of %d", len(spans), res.Spans)
	}
	var services struct{ Data []string }
	if err := json.Unmarshal(oteltest.Get(t, j.Query+"/api/services"), &services); err != nil || len(services.Data) < 2 {
		t.Errorf("%v, %v", services, err)
	}
}
