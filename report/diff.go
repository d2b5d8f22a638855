package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
)

// DiffText writes the comparison: one sentence that names the cause, then the changes. all includes changes without significance.
func DiffText(w io.Writer, d *diff.Diff, all bool, o *TextOptions) error {
	writeMarked(w, wrap(diffSentence(d), o.width(), 2)+"\n\n")
	var runs pairs
	for _, x := range []struct {
		name string
		r    *diff.Run
	}{{"A", &d.A}, {"B", &d.B}} {
		steps := ""
		if n := x.r.Steps.Count; n > 0 {
			steps = ", " + human.Plural(n, "step")
			if x.r.Steps.Typical < n {
				steps += fmt.Sprintf(", %s alike", human.Count(x.r.Steps.Typical))
			}
		}
		calls := human.Plural(x.r.Calls, "call")
		if d.Selection != "" {
			calls = human.Count(x.r.Calls) + " of " + human.Plural(x.r.CallsOf, "call")
		}
		runs.add(x.name, "%s: %s in %s%s", x.r.Path, calls, human.Duration(x.r.SpanNS), steps)
	}
	if d.Selection != "" {
		runs.add("selected", "%s", d.Selection)
	}
	if err := runs.write(w, o); err != nil {
		return err
	}
	if err := changesText(w, d, all, o); err != nil {
		return err
	}
	if err := operatorsText(w, d, all, o); err != nil {
		return err
	}
	if err := Wrapped(w, o, 0, func(w io.Writer) {
		onlyText(w, "only in B", d.New)
		onlyText(w, "only in A", d.Gone)
	}); err != nil {
		return err
	}
	if untimed(d) {
		Printf(w, "\nThe kernels have no device times: record both runs with --device-time all to compare them.\n")
	}
	selection := ""
	if d.Selection != "" {
		selection = d.Selection + " "
	}
	next := "acltrace diff -v " + selection + shell.Command(d.A.Path, d.B.Path)
	if d.Differs {
		next = "acltrace stats " + selection + shell.Command(d.B.Path)
	}
	nextText(w, next)
	return nil
}

// untimed reports whether a step's waits changed, nothing explains it, and kernels were not timed.
func untimed(d *diff.Diff) bool {
	c := d.Cause
	return !(d.A.Timed && d.B.Timed) && c != nil && c.Part == stats.PartWaiting.String() && c.Kind != "kernel" && c.Kind != "graph" && len(d.New)+len(d.Gone) == 0 &&
		slices.ContainsFunc(d.Changes, func(x diff.Change) bool { return (x.Kind == "kernel" || x.Kind == "graph") && x.Metric != "device" }) &&
		!slices.ContainsFunc(d.Changes, func(x diff.Change) bool { return x.Often || bytesText(&x) != "" })
}

// diffSentence says in one sentence what changed, and why.
func diffSentence(d *diff.Diff) string {
	threshold := human.Share(d.Threshold)
	step := stepChange(d)
	if c := d.Cause; c != nil && step != nil {
		text := sprintf("step %s %s (%s to %s, %s)", unsigned(c.StepNS), verdict(step.Verdict), human.Duration(int64(step.A.MedianNS)), human.Duration(int64(step.B.MedianNS)), human.Change(step.Change))
		if c.Part != "" {
			text += sprintf(": %s %s", partNames[c.Part], signed(c.PartNS))
		}
		switch {
		case c.Gap != nil:
			text += sprintf(" %s", movedPlace(c.Gap))
		case c.Kind == "kernel" || c.Kind == "graph":
			text += sprintf(", %s %s on the device", changeName(c.Kind, c.Name), signed(c.NS))
		case c.Kind != "" && c.Part != stats.PartWaiting.String():
			text += sprintf(", %s %s", changeName(c.Kind, c.Name), signed(c.NS))
		}
		for i := range d.Changes {
			if x := &d.Changes[i]; x.Kind == c.Kind && x.Name == c.Name && x.Often {
				if c.Part == stats.PartWaiting.String() {
					text += ", " + changeName(c.Kind, c.Name)
				} else {
					text += ","
				}
				text += sprintf(" %s a step (was %s)", timesText(x.B.PerStep), human.Times(x.A.PerStep))
			}
			if x := &d.Changes[i]; x.Kind == c.Kind && x.Name == c.Name {
				text += bytesText(x)
			}
		}
		return strings.Join(append([]string{text}, onlyParts(d)...), "; ")
	}
	if !d.Differs {
		lead := ""
		if d.Verdict == diff.Unclear {
			lead = "inconclusive: "
		}
		switch {
		case step != nil && step.Verdict == diff.Few:
			return lead + fmt.Sprintf("too few steps for a verdict: %s and %s, want at least %d", human.Count(step.A.N), human.Count(step.B.N), diff.Fewest)
		case step == nil && d.By == "steps" && slices.ContainsFunc(d.Changes, func(c diff.Change) bool { return c.Verdict == diff.Few }):
			return lead + fmt.Sprintf("too few steps for a verdict: %s and %s, want at least %d", human.Count(d.A.Steps.Typical), human.Count(d.B.Steps.Typical), diff.Fewest)
		case step == nil && len(d.Changes) > 0 && !testable(d):
			return lead + fmt.Sprintf("too few launches for a verdict, want at least %d of a kernel in both runs", diff.Fewest)
		case lead != "":
			return lead + doubtText(d) + ": record longer runs, or on a quieter machine"
		}
		return fmt.Sprintf("no significant difference (threshold %s)", threshold)
	}
	text := strings.Join(append(mainChanges(d), onlyParts(d)...), "; ")
	if step != nil {
		text += fmt.Sprintf("; step %s, within %s", human.Change(step.Change), threshold)
		if math.Abs(step.Change) >= d.Threshold {
			text = strings.TrimSuffix(text, ", within "+threshold) + ", not significant"
		}
	}
	return text
}

// mainChanges describes the first two changes that are no trifles beside the largest one.
func mainChanges(d *diff.Diff) (parts []string) {
	const trifle = 0.1
	rows := slices.DeleteFunc(slices.Concat(d.Changes, d.Parts), func(c diff.Change) bool {
		return !slices.Contains([]string{diff.Slower, diff.Faster, diff.More, diff.Fewer}, c.Verdict)
	})
	size := func(c *diff.Change) float64 { return math.Abs(c.B.MedianNS - c.A.MedianNS) }
	largest := 0.0
	for i := range rows {
		largest = max(largest, size(&rows[i]))
	}
	for i := range rows {
		c := &rows[i]
		timed := c.Verdict == diff.Slower || c.Verdict == diff.Faster
		if len(parts) == 2 || timed && size(c) < trifle*largest {
			continue
		}
		name, often := changeName(c.Kind, c.Name)+inCalls(c), ""
		if c.Often || !timed {
			often = sprintf(" %s a step (was %s)", timesText(c.B.PerStep), human.Times(c.A.PerStep))
		}
		switch {
		case !timed:
			parts = append(parts, changeName(c.Kind, c.Name)+often)
		case c.A.MedianNS == 0 || c.B.MedianNS == 0: // a change from nothing has no percentage
			parts = append(parts, sprintf("%s %s: %s a %s", name, changeWord(c), human.Duration(int64(max(c.A.MedianNS, c.B.MedianNS))), unit(d))+bytesText(c))
		default:
			if often != "" {
				often = "," + often
			}
			parts = append(parts, sprintf("%s %s: %s to %s a %s (%s)", name, verdict(c.Verdict), human.Duration(int64(c.A.MedianNS)), human.Duration(int64(c.B.MedianNS)), unit(d), human.Change(c.Change))+often+bytesText(c))
		}
	}
	return parts
}

// inCalls marks the time of tasks that were not measured: it is that of their calls.
func inCalls(c *diff.Change) string {
	if c.Kind != "step" && c.Kind != "part" && c.Kind != "function" && c.Metric == "host" {
		return " (in calls)"
	}
	return ""
}

// doubtText names the first change that may be chance.
func doubtText(d *diff.Diff) string {
	rows := slices.Concat(d.Changes, d.Parts)
	i := slices.IndexFunc(rows, func(c diff.Change) bool { return c.Kind == d.Doubts[0].Kind && c.Name == d.Doubts[0].Name })
	c := &rows[i]
	by := signed(int64(c.B.MedianNS - c.A.MedianNS))
	if c.A.MedianNS > 0 {
		by += ", " + human.Change(c.Change)
	}
	return sprintf("%s went from %s to %s a %s (%s), and chance may explain it (p %.2g; a change needs %v or less)", changeName(c.Kind, c.Name), human.Duration(int64(c.A.MedianNS)), human.Duration(int64(c.B.MedianNS)), unit(d), by, c.P, diff.Falsely)
}

const none = "-"

// changeText gives the relative change, none for a change from nothing.
func changeText(c *diff.Change) string {
	if c.A.MedianNS == 0 && c.B.MedianNS != 0 {
		return none
	}
	return human.Change(c.Change)
}

// bytesText gives the sizes of copies if they changed.
func bytesText(c *diff.Change) string {
	if a, b := float64(c.A.BytesEach), float64(c.B.BytesEach); math.Abs(b-a) <= 0.01*a {
		return ""
	}
	return fmt.Sprintf(", %s each (was %s)", human.Bytes(c.B.BytesEach), human.Bytes(c.A.BytesEach))
}

// onlyParts counts the kernels, or else the copy directions or functions, that only one run has.
func onlyParts(d *diff.Diff) (parts []string) {
	for _, x := range []struct {
		name string
		list []diff.Only
	}{{"B", d.New}, {"A", d.Gone}} {
		if len(x.list) == 0 {
			continue
		}
		n, kind := 0, x.list[0].Kind // operators come first, then kernels
		for i := range x.list {
			if x.list[i].Kind == kind {
				n++
			}
		}
		noun, where, _ := strings.Cut(kind, " ") // kernel in graphs
		parts = append(parts, strings.Join(strings.Fields(human.Plural(n, noun)+" "+where+" only in "+x.name), " "))
	}
	return parts
}

// stepChange returns the change of the step, nil without steps.
func stepChange(d *diff.Diff) *diff.Change {
	if len(d.Changes) > 0 && d.Changes[0].Kind == "step" {
		return &d.Changes[0]
	}
	return nil
}

// testable reports whether any change has enough samples.
func testable(d *diff.Diff) bool {
	for i := range d.Changes {
		if d.Changes[i].A.N >= diff.Fewest && d.Changes[i].B.N >= diff.Fewest {
			return true
		}
	}
	return false
}

func unit(d *diff.Diff) string {
	if d.By == "launches" {
		return "launch"
	}
	return "step"
}

// partNames has the words for the parts of a step.
var partNames = map[string]string{
	stats.PartWaiting.String(): "waiting", stats.PartLaunching.String(): "launching", stats.PartCopying.String(): "copying", stats.PartOther.String(): "other calls",
	stats.PartOwn.String(): "own time", stats.PartRecording.String(): "recording", stats.PartBlocked.String(): "blocked",
}

// changeName names a row: "kernel matmul", "copy DtoH", "aclrtMemcpy".
func changeName(kind, name string) string {
	switch kind {
	case "part":
		return partNames[name]
	case "function", "graph":
		return name
	case "kernel":
		return kind + " " + human.Kernel(name)
	case "kernel in graphs":
		return "kernel " + human.Kernel(name) + " in graphs"
	case "step":
		return kind
	}
	return kind + " " + name
}

// signed formats a change of a duration, unsigned its size.
func signed(ns int64) string {
	if ns > 0 {
		return "+" + human.Duration(ns)
	}
	return human.Duration(ns)
}

func unsigned(ns int64) string { return strings.TrimPrefix(human.Duration(ns), "-") }

// changeWord words a verdict. Time that a run lacks altogether is new or gone.
func changeWord(c *diff.Change) any {
	switch {
	case c.Verdict == diff.Slower && c.A.MedianNS == 0:
		return Bad("new")
	case c.Verdict == diff.Faster && c.B.MedianNS == 0:
		return Good("gone")
	}
	return verdict(c.Verdict)
}

// verdict words and marks a verdict.
func verdict(v string) any {
	switch v {
	case diff.Slower:
		return Bad(v)
	case diff.Faster:
		return Good(v)
	case diff.More:
		return "more often"
	case diff.Fewer:
		return "less often"
	}
	return v
}

// changesText writes the table of changes: the step, its parts, and what changed with significance, or all.
func changesText(w io.Writer, d *diff.Diff, all bool, o *TextOptions) error {
	t, hidden := newTable(w, o), 0
	spread := func(s *diff.Sample) string {
		if !all || s.N < 2 { // a single sample has no spread
			return ""
		}
		return human.Duration(int64(s.Q3NS-s.Q1NS) / 2)
	}
	row := func(c *diff.Change) {
		what := changeName(c.Kind, c.Name) + inCalls(c)
		if c.Kind == "part" {
			what = "  " + what
		}
		if c.Often {
			what += fmt.Sprintf(", %s a step (was %s)", human.Times(c.B.PerStep), human.Times(c.A.PerStep))
		}
		what += bytesText(c)
		word := changeWord(c)
		switch {
		case c.Verdict == diff.Same && c.Kind == "step" && !all:
			word = "within " + human.Share(d.Threshold)
		case (c.Verdict == diff.Same || c.Verdict == diff.Noise || c.Verdict == diff.Few) && !all:
			word = "-"
		}
		by := changeText(c)
		p := ""
		switch {
		case all && c.P < 1e-6:
			p = "<1e-6"
		case all:
			p = fmt.Sprintf("%.2g", c.P)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Duration(int64(c.A.MedianNS)), spread(&c.A), human.Duration(int64(c.B.MedianNS)), spread(&c.B),
			signed(int64(c.B.MedianNS-c.A.MedianNS)), by, p, word, what)
	}
	Printf(t, "\nA a %s\t+-\tB a %s\t+-\tchange\t\tp\tverdict\t  what\n", unit(d), unit(d))
	rows := 0
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Kind == "step" {
			row(c)
			for k := range d.Parts {
				if p := &d.Parts[k]; p.A.MedianNS != 0 || p.B.MedianNS != 0 {
					row(p)
				}
			}
			rows++
			continue
		}
		if !all && (c.Verdict == diff.Same || c.Verdict == diff.Noise || (c.Verdict == diff.Few || c.Verdict == diff.Inconclusive) && !d.Doubted(c)) {
			hidden++
			continue
		}
		row(c)
		rows++
	}
	if rows > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if hidden > 0 {
		Printf(w, "(%s without a significant change: -v shows them)\n", human.Plural(hidden, "more row"))
	}
	return nil
}

// operatorsText writes the table of operators: those that changed, or all.
func operatorsText(w io.Writer, d *diff.Diff, all bool, o *TextOptions) error {
	per := "in all"
	if d.By == "steps" {
		per = "a step"
	}
	device := func(u *diff.OperatorUse) string {
		if !u.Measured {
			return none
		}
		return human.Duration(int64(u.DeviceNS))
	}
	t, rows, hidden := newTable(w, o), 0, 0
	Printf(t, "\ncalls\tlaunches\tin calls\ton device\t  operator: A / B %s\n", per)
	for i := range d.Operators {
		x := &d.Operators[i]
		if !all && (rows == most || !d.Moved(x)) {
			hidden++
			continue
		}
		rows++
		Printf(t, "%s / %s\t%s / %s\t%s / %s\t%s / %s\t  %s", human.Times(x.A.Calls), human.Times(x.B.Calls), human.Times(x.A.Launches), human.Times(x.B.Launches),
			human.Duration(int64(x.A.HostNS)), human.Duration(int64(x.B.HostNS)), device(&x.A), device(&x.B), x.Name)
		if x.Only != "" {
			Printf(t, ", %s", x.Only)
		}
		Printf(t, "\n")
	}
	if rows > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if hidden > 0 {
		Printf(w, "(%s: -v shows them)\n", human.Plural(hidden, "more operator"))
	}
	return nil
}

// onlyText lists what only one run has.
func onlyText(w io.Writer, title string, list []diff.Only) {
	if len(list) == 0 {
		return
	}
	Printf(w, "\n%s\n", title)
	for _, x := range list[:min(most, len(list))] {
		Printf(w, "  %s, %s\n", changeName(x.Kind, x.Name), human.Plural(x.Count, "time"))
	}
	rest(w, len(list), "row")
}
