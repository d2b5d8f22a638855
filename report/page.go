package report

import (
	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
)

// A Sentence is a finding in words, for a page.
type Sentence struct {
	Cost    string         `json:"cost"` // "" if it has none
	Text    string         `json:"text"`
	Command string         `json:"command"` // shows it
	Finding *stats.Finding `json:"-"`
}

// Sentences returns the findings of a trace in words, in their order.
func Sentences(path string, s *stats.Stats) []Sentence {
	all := []Sentence{}
	for i := range s.Findings {
		f := &s.Findings[i]
		x := Sentence{Text: unmarked(findingText(s, f)), Command: command(path, s, f), Finding: f}
		if f.CostNS > 0 {
			x.Cost = human.Duration(f.CostNS)
		}
		all = append(all, x)
	}
	return all
}

// DiffSentence returns the result of a comparison in words.
func DiffSentence(d *diff.Diff) Sentence {
	return Sentence{Text: unmarked(diffSentence(d)), Command: acltrace("diff", d.A.Path, d.B.Path), Finding: &stats.Finding{}}
}

// Plain formats like Printf, for pages: names from a trace are escaped, and nothing is colored.
func Plain(format string, args ...any) string { return unmarked(sprintf(format, args...)) }

// Summary gives the rows that say what was recorded, and whether all of it is here.
func (in *Info) Summary(row RowFunc) {
	for _, part := range []func(RowFunc){in.programRows, in.deviceRows, in.completeRows, in.callRows, in.gapRows, in.processRows} {
		part(row)
	}
}
