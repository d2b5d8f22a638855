package otelexport

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline/step"
)

func TestATraceForEachStep(t *testing.T) {
	const steps = 5
	tl := testtrace.Steps(t, steps, 20, func(step, launch int) int64 { return 100 + int64(step*launch%7) })
	list := tl.Steps().List
	if len(list) != steps {
		t.Fatalf("the story has %d steps", len(list))
	}
	whole, all := written(t, tl, &Options{NoSteps: true})
	if all.Traces != 1 || all.StepTraceID != "" {
		t.Errorf("without steps: %+v", all)
	}
	for _, limit := range []int{DefaultMaxSpans, 20} {
		spans, res := written(t, tl, &Options{MaxSpans: limit})
		perTrace := map[string]int{}
		stepOf := map[string]any{}
		for _, s := range spans {
			perTrace[s.Trace]++
			if s.Parent == oteltest.NoSpan {
				stepOf[s.Trace] = s.Attrs["acl.step"]
				if i, ok := s.Attrs["acl.step"].(int64); ok != (s.Name == "step") || limit == DefaultMaxSpans && ok &&
					(s.Start != testtrace.StartWall+list[i].From || s.End != testtrace.StartWall+list[i].To || s.Attrs["acl.step.source"] != "found") {
					t.Errorf("root %+v", s)
				}
			}
		}
		calls := 0
		for _, s := range spans {
			i, ok := s.Attrs["acl.call"].(int64)
			if !ok {
				continue
			}
			calls++
			var want any
			if n := tl.Steps().At(tl.Calls[i].Start); n >= 0 {
				want = int64(n)
			}
			if stepOf[s.Trace] != want {
				t.Errorf("call %d lies in the trace of step %v, want %v", i, stepOf[s.Trace], want)
			}
		}
		if calls != len(tl.Calls) {
			t.Errorf("%d calls, want %d", calls, len(tl.Calls))
		}
		all := verifyRoots(t, spans)
		for _, r := range all {
			if perTrace[r.Trace] > limit {
				t.Errorf("%d spans in a trace, at most %d", perTrace[r.Trace], limit)
			}
			if (r.Attrs["acl.cut"] == true) != (limit < DefaultMaxSpans && perTrace[r.Trace] > 0 && cut(all, r)) {
				t.Errorf("root %+v", r)
			}
		}
		if len(all) != res.Traces || limit == DefaultMaxSpans && res.Traces != 1+steps || limit < DefaultMaxSpans && res.Traces < 3*steps {
			t.Errorf("%d traces for %d steps", res.Traces, steps)
		}
		if i, ok := stepOf[res.StepTraceID].(int64); !ok || i != int64(slices.IndexFunc(list, func(s step.Step) bool { return s.Typical })) {
			t.Errorf("the step to be shown is %v", stepOf[res.StepTraceID])
		}
		if perTrace[whole[0].Trace] != 0 {
			t.Error("a trace of a step has the id of the whole recording's")
		}
	}
}

// cut reports whether the step has more than one root.
func cut(all []oteltest.Span, r oteltest.Span) bool {
	n := 0
	for _, o := range all {
		if o.Attrs["acl.step"] == r.Attrs["acl.step"] {
			n++
		}
	}
	return n > 1
}
