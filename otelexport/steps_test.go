package otelexport

import (
	"fmt"
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
	spans, res := written(t, tl, nil)
	perTrace := map[string]int{}
	stepOf := map[string]any{}
	for _, s := range spans {
		perTrace[s.Trace]++
		if s.Parent == oteltest.NoSpan {
			stepOf[s.Trace] = s.Attrs["acl.step"]
			name := "recording"
			i, ok := s.Attrs["acl.step"].(int64)
			if ok {
				name = fmt.Sprintf("step %d", i)
			}
			if s.Name != name || ok && (s.Start != testtrace.StartWall+list[i].From || s.End != testtrace.StartWall+list[i].To || s.Attrs["acl.step.source"] != "found") {
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
	for _, r := range verifyRoots(t, spans) {
		if r.Attrs["acl.cut"] != nil {
			t.Errorf("root %+v", r)
		}
	}
	if res.Traces != 1+steps || len(stepOf) != res.Traces {
		t.Errorf("%d traces for %d steps", res.Traces, steps)
	}
	if i, ok := stepOf[res.StepTraceID].(int64); !ok || i != int64(slices.IndexFunc(list, func(s step.Step) bool { return s.Typical })) {
		t.Errorf("the step to be shown is %v", stepOf[res.StepTraceID])
	}
	if perTrace[whole[0].Trace] != 0 {
		t.Error("a trace of a step has the id of the whole recording's")
	}
}

// Regression: the calls after the last step were in a trace "step 5" of a recording with the steps 0 to 4.
func TestNoStepForTheEnd(t *testing.T) {
	b := newProgram(t, "k1", "k2")
	at := int64(100_000)
	for range 5 {
		b.launch(at, "k1", testtrace.StreamA, at+10, at+500)
		b.launch(at+100, "k2", testtrace.StreamA, at+500, at+700)
		b.Call(0, at+200, at+800, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		at += 1_000
	}
	b.launch(at, "k1", testtrace.StreamA, at+10, at+500)
	tl := b.Load()
	if n := len(tl.Steps().List); n != 5 {
		t.Fatalf("%d steps", n)
	}
	spans, _ := written(t, tl, nil)
	roots := map[string]int{}
	for _, s := range spans {
		if s.Parent == oteltest.NoSpan {
			roots[s.Name]++
		}
	}
	if roots["step 4"] != 1 || roots["step 5"] != 0 || roots["recording"] == 0 {
		t.Errorf("roots %v", roots)
	}
}
