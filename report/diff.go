package report

import (
	"fmt"
	"io"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/internal/human"
)

// verdict marks what is slower or faster.
func verdict(v string) any {
	switch v {
	case diff.Slower:
		return Bad(v)
	case diff.Faster:
		return Good(v)
	}
	return v
}

// DiffText writes the changes as a table.
func DiffText(w io.Writer, d *diff.Diff, o *TextOptions) error {
	run := func(name string, r *diff.Run) {
		Printf(w, "%s: %s: %s in %s", name, r.Path, human.Plural(r.Calls, "call"), human.Duration(r.SpanNS))
		if r.Steps.Count > 0 {
			Printf(w, ", %s, %s, %s like most", human.Plural(r.Steps.Count, "step"), r.Steps.Source, human.Count(r.Steps.Typical))
		}
		Printf(w, "\n")
	}
	run("A", &d.A)
	run("B", &d.B)
	if d.By == "launches" {
		Printf(w, "compared by launches: not both have steps\n")
	}
	t := newTable(w, o)
	sample := func(s *diff.Sample) layout {
		spread := "" // a single sample has no spread
		if s.N > 1 {
			spread = "+-" + human.Duration(int64(s.Q3NS-s.Q1NS)/2)
		}
		return layout(human.Duration(int64(s.MedianNS)) + "\t" + spread)
	}
	same, head := 0, false
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Verdict == diff.Same && !c.Often && c.Kind != "step" {
			same++
			continue
		}
		if !head {
			head = true
			per := "step"
			if d.By == "launches" {
				per = "launch"
			}
			Printf(t, "\nA a %s\t\tB a %s\t\tchange\tp\tverdict\t  what\n", per, per)
		}
		what := c.Kind
		if c.Name != "" {
			what += " " + c.Name
		}
		if c.Kind != "step" && c.Metric == "host" && c.Kind != "function" {
			what += " (in the calls)"
		}
		if c.Often {
			what += fmt.Sprintf(", %g times rather than %g", c.B.PerStep, c.A.PerStep)
		}
		p := fmt.Sprintf("%.2g", c.P)
		if c.P < 1e-6 {
			p = "<1e-6"
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t  %s\n", sample(&c.A), sample(&c.B), human.Change(c.Change), p, verdict(c.Verdict), what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if same > 0 {
		Printf(w, "(%s more within %s)\n", human.Count(same), human.Share(d.Threshold))
	}
	only := func(title string, list []diff.Only) {
		if len(list) == 0 {
			return
		}
		Printf(w, "\n%s\n", title)
		for _, x := range list[:min(most, len(list))] {
			Printf(w, "  %s %s, %s\n", x.Kind, x.Name, human.Plural(x.Count, "time"))
		}
		rest(w, len(list), "of them")
	}
	only("only in B", d.New)
	only("only in A", d.Gone)
	if d.Differs {
		_, err := Printf(w, "\nthe runs differ\n")
		return err
	}
	_, err := Printf(w, "\nno difference beyond %s that noise does not explain\n", human.Share(d.Threshold))
	return err
}
