package otelexport

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
)

func TestParents(t *testing.T) {
	good := "00-" + upstream + "-" + caller + "-01"
	for name, want := range map[string]struct {
		rest        string
		ok, sampled bool
	}{
		"traceparent=" + good:                                              {"", true, true},
		"generate traceparent=" + good + " batch 3":                        {"generate batch 3", true, true},
		"traceparent=" + good[:len(good)-1] + "0; infer":                   {"infer", true, false},
		"traceparent=00-1-2-01":                                            {"", false, false},
		"traceparent=":                                                     {"", false, false},
		"traceparent=00-" + fmt.Sprintf("%032d", 0) + "-" + caller + "-01": {"", false, false},
		good: {"", false, false},
	} {
		p, rest, ok := parentIn(name)
		if ok != want.ok || p.sampled != want.sampled || ok && rest != want.rest {
			t.Errorf("%q: %+v, %q, %t", name, p, rest, ok)
		}
		if ok && (fmt.Sprintf("%x", p.trace[:]) != upstream || fmt.Sprintf("%016x", uint64(p.id)) != caller) {
			t.Errorf("%q: %x %x", name, p.trace, p.id)
		}
	}
}

// The roots of a recording whose program was started under a span are its children, in both layouts, and in a real
// Jaeger they are one trace with the span above. What is more than a trace can show has traces of its own, linked to
// the span.
func TestRecordingUnderASpan(t *testing.T) {
	for _, layout := range []string{Lanes, Nested} {
		t.Run(layout, func(t *testing.T) {
			tl := testtrace.Steps(t, 5, 20, func(s, l int) int64 { return 900 + int64(s*l%7) })
			tl.Reader.Meta().Env = map[string]string{"TRACEPARENT": "00-" + upstream + "-" + caller + "-01"}
			all, _ := written(t, tl, &Options{Layout: layout})
			byID(t, all)
			roots := 0
			for _, s := range all {
				if s.Trace != upstream || s.Parent == noSpan {
					t.Errorf("%+v", s)
				}
				if s.Attrs["acl.part"] != nil {
					if roots++; s.Parent != caller {
						t.Errorf("root %+v", s)
					}
				}
			}
			if roots < 5 {
				t.Errorf("%d roots", roots)
			}
			// With room for little, only the first ones lie in the parent's trace.
			some, _ := written(t, tl, &Options{Layout: layout, MaxSpans: 40})
			byID(t, some)
			in, out := 0, 0
			for _, s := range some {
				if s.Attrs["acl.part"] == nil {
					continue
				}
				linked := false
				for _, l := range s.Links {
					linked = linked || l == [2]string{upstream, caller}
				}
				switch {
				case s.Trace == upstream && s.Parent == caller && !linked:
					in++
				case s.Trace != upstream && s.Parent == noSpan && linked:
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
	j := startJaeger(t)
	tl := testtrace.Small(t)
	tl.Reader.Meta().Env = map[string]string{"TRACEPARENT": "00-" + upstream + "-" + caller + "-01"}
	res, err := send(t.Context(), tl, &Options{Endpoint: j.grpc, Protocol: GRPC})
	if err != nil || res.FirstTraceID != upstream {
		t.Fatalf("%+v, %v", res, err)
	}
	if spans := j.trace(t, upstream); len(spans) != res.Spans {
		t.Errorf("%d spans of %d", len(spans), res.Spans)
	}
	var services struct{ Data []string }
	if err := json.Unmarshal(get(t, j.query+"/api/services"), &services); err != nil || len(services.Data) < 2 {
		t.Errorf("%v, %v", services, err)
	}
}
