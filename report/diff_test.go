package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/report"
)

// A kernel that the first run lacks in its steps was slower by 0%, and two kernels in graphs were "kernel in graphses".
func TestDiffOfWhatOneRunLacks(t *testing.T) {
	d := &diff.Diff{By: "steps", Differs: true, Verdict: diff.Different, Changes: []diff.Change{
		{Kind: "step", A: diff.Sample{MedianNS: 1000}, B: diff.Sample{MedianNS: 1000}, Verdict: diff.Same},
		{Kind: "kernel", Name: "add", B: diff.Sample{MedianNS: 20}, Verdict: diff.Slower}},
		Gone: []diff.Only{{Kind: "kernel in graphs", Name: "mul", Count: 1}, {Kind: "kernel in graphs", Name: "add", Count: 1}}}
	var text bytes.Buffer
	if err := report.DiffText(&text, d, false, nil); err != nil || !strings.Contains(text.String(), "kernel add new: 20 ns a step; 2 kernels in graphs only in A; ") {
		t.Errorf("%v: %s", err, &text)
	}
}
