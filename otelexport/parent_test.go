package otelexport

import (
	"encoding/json"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// The roots of a recording that started under a span are its children, in both layouts. In a real Jaeger they form one
// trace with that span. Roots beyond the limit have traces of their own, linked to the span.
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
			some, _ := written(t, tl, &Options{Layout: layout, MaxSpans: 40})
			oteltest.ByID(t, some)
			in, out := 0, 0
			for _, s := range some {
				if s.Attrs["acl.part"] == nil {
					continue
				}
				linked := false
				for _, l := range s.Links {
					linked = linked || l == [2]string{oteltest.Upstream, oteltest.Caller}
				}
				switch {
				case s.Trace == oteltest.Upstream && s.Parent == oteltest.Caller && !linked:
					in++
				case s.Trace != oteltest.Upstream && s.Parent == oteltest.NoSpan && linked:
					out++
				default:
					t.Errorf("root %+v", s)
				}
			}
			if in == 0 || out == 0 || in > out {
				t.Errorf("%d roots under the span and %d linked to it", in, out)
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
