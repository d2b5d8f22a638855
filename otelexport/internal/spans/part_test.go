package spans

import (
	"encoding/hex"
	"testing"

	"github.com/acltrace/acltrace/timeline/step"
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
