package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
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

// A sentence named a graph whose call took 10 us longer, and not the 4 ms that a thread was blocked longer. It called a kernel slower that was launched
// more often, from the time of its calls.
func TestDiffNamesLargeChanges(t *testing.T) {
	sample := func(ns, each float64) diff.Sample { return diff.Sample{N: 100, MedianNS: ns, PerStep: each} }
	d := &diff.Diff{By: "steps", Threshold: 0.05, Differs: true, Verdict: diff.Different, Changes: []diff.Change{
		{Kind: "step", A: sample(9e6, 1), B: sample(13e6, 1), Change: 0.5, Verdict: diff.Unclear},
		{Kind: "graph", Name: "graph: mlp", Metric: "host", A: sample(4e3, 1), B: sample(14e3, 1), Change: 2.5, Verdict: diff.Slower},
		{Kind: "kernel", Name: "mlp", Metric: "host", A: sample(1e5, 1), B: sample(1e6, 10), Change: 9, Verdict: diff.Slower, Often: true},
	}, Parts: []diff.Change{{Kind: "part", Name: stats.PartBlocked.String(), A: sample(7e5, 1), B: sample(5e6, 1), Change: 6, Verdict: diff.Slower}}}
	var b strings.Builder
	if err := report.DiffText(&b, d, false, &report.TextOptions{Width: 400}); err != nil {
		t.Fatal(err)
	}
	got, _, _ := strings.Cut(b.String(), "\n")
	const want = "kernel mlp (in calls) slower: 100 us to 1.00 ms a step (+900%), 10 times a step (was 1); blocked slower: 700 us to 5.00 ms a step (+600%); step +50%, not significant"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
