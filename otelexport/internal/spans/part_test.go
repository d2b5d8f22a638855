package spans

import (
	"encoding/hex"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline/step"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Users are shown the first typical step, whichever step ends first, or a step that differs if all do.
func TestStepToShow(t *testing.T) {
	differs, typical := &step.Step{}, &step.Step{Typical: true}
	for want, parts := range map[byte][]part{
		0: {{number: 1, first: true}, {number: 2, ended: typical}},
		1: {{number: 2, first: true, ended: differs}, {number: 1, first: true, ended: differs}, {number: 3, first: true, ended: differs}},
		5: {{number: 1, first: true, ended: differs}, {number: 6, first: true, ended: typical}, {number: 5, first: true, ended: typical}, {number: 4, ended: typical},
			{number: 2, first: true, ended: differs}},
	} {
		x := &Encoder{}
		for _, p := range parts {
			p.Trace[0] = byte(p.number)
			x.result.noteStep(&p)
		}
		id := ""
		if want > 0 {
			id = hex.EncodeToString(append([]byte{want}, make([]byte, 15)...))
		}
		if x.result.StepTraceID != id {
			t.Errorf("%q, want part %d", x.result.StepTraceID, want)
		}
	}
}

// A step with more calls than are held is emitted from its begin. Its critical path is marked on the calls that are still held, and on all roots.
func TestStepWithMoreCallsThanAreHeld(t *testing.T) {
	const steps, launches = 4, 500
	tl := testtrace.Steps(t, steps, launches, func(int, int) int64 { return 1000 })
	x, err := New(tl.Reader, tl.Model, &Options{MaxSpans: -1})
	if err != nil {
		t.Fatal(err)
	}
	x.out.maxNodes, x.out.maxHeld = 100, 200
	var all []oteltest.Span
	err = x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b.Request(nil))
		all = append(all, oteltest.Flatten(td)...)
		b.Reset()
		return b, err
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, marked, roots := map[any]int{}, map[string]bool{}, 0
	for _, s := range all {
		if s.Attrs["acl.critical_path"] != nil {
			roots++
		}
		if s.Attrs["code.function.name"] != nil {
			calls[s.Attrs["acl.call"]]++
		}
		if s.Attrs["acl.critical"] == true {
			marked[s.Trace] = true
		}
	}
	for i := range tl.Calls {
		if n := calls[int64(tl.Calls[i].Index)]; n != 1 {
			t.Errorf("%d spans of call %d", n, tl.Calls[i].Index)
		}
	}
	// A step has 503 calls in six parts. When the fourth, fifth and sixth one begin, the oldest one is emitted.
	if roots != 6*steps || len(marked) != 3*steps {
		t.Errorf("%d roots with a critical path, %d traces with marks", roots, len(marked))
	}
}
