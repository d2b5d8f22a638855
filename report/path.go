package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
)

// PathsText writes the mean of the critical paths of the trace in a file, as `acltrace stats --critical-path` does. If one is not nil, it writes that path.
func PathsText(w io.Writer, file string, s *path.Summary, one *path.Path, o *TextOptions) error {
	t := newTable(w, o)
	switch {
	case one != nil:
		pathText(t, s, one)
	case s.Paths == 0:
		Printf(t, "no critical path: %s\n", cmp.Or(s.Why, "the trace has no complete step"))
	case s.Longest.Whole:
		Printf(t, "no steps: %s\n", cmp.Or(s.Why, "-"))
		pathText(t, s, s.Longest)
	default:
		alike := "alike"
		if !s.Longest.Step.Typical {
			alike = "none alike"
		}
		Printf(t, "%s of process %d, %s: mean critical path %s\n", human.Plural(s.Paths, "step"), s.Process, alike, human.Duration(s.NS/int64(s.Paths)))
		entryText(t, s.Entries, s.NS, s.Paths)
		Printf(t, "\nlongest: step %d, %s\n", s.Longest.Step.Index, human.Duration(s.Longest.Step.To-s.Longest.Step.From))
	}
	if s.TooLong > 0 && (one == nil || !one.TooLong) {
		Printf(t, "%s left out: too many calls for a critical path\n", human.Plural(s.TooLong, "step"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	switch {
	case one == nil && s.Paths > 0 && !s.Longest.Whole:
		nextText(w, acltrace("stats", "--critical-path", "--step", fmt.Sprint(s.Longest.Step.Index), file))
	case one != nil && !one.Whole:
		nextText(w, acltrace("cat", "--step", fmt.Sprint(one.Step.Index), file))
	default:
		nextText(w, acltrace("stats", file))
	}
	return nil
}

// pathText writes one path: its sums, and its longest parts in the order of time.
func pathText(t *table, s *path.Summary, p *path.Path) {
	title := fmt.Sprintf("step %d", p.Step.Index)
	switch {
	case p.Whole:
		title = "the whole trace"
	case p.Step.Name != "":
		title += " " + p.Step.Name
	}
	ns := p.Step.To - p.Step.From
	if p.TooLong {
		Printf(t, "%s of process %d: too many calls for a critical path\n", title, s.Process)
		return
	}
	Printf(t, "critical path of %s of process %d: %s\n", title, s.Process, human.Duration(ns))
	entryText(t, p.Entries(0), ns, 1)
	parts := p.Parts()
	all := len(parts)
	slices.SortStableFunc(parts, func(a, b path.Part) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	parts = parts[:min(2*most, len(parts))]
	slices.SortFunc(parts, func(a, b path.Part) int { return cmp.Compare(a.From, b.From) })
	Printf(t, "\nat\ttime\tcall\t  longest parts in the order of time\n")
	for i := range parts {
		q, call := &parts[i], "-"
		if q.Call != timeline.NoCall {
			call = number(q.Call)
		}
		what := q.String()
		if q.Waits != "" {
			what += ", " + q.Waits
		}
		Printf(t, "%s\t%s\t%s\t  %s\n", human.Moment(q.From), atMost(q.To-q.From, q.AtMost), call, what)
	}
	if n := all - len(parts); n > 0 {
		t.Flush()
		Printf(t, "(%s: --json has all)\n", human.Plural(n, "shorter part"))
	}
}

// entryText writes the longest sums over a number of paths that took ns together.
func entryText(t *table, entries []path.Entry, ns int64, paths int) {
	Printf(t, "\na step\tshare\tsaves\ttimes\t  critical path\n")
	for _, e := range entries[:min(most, len(entries))] {
		Printf(t, "%s\t%s\t%s\t%.4g\t  %s\n", atMost(e.NS/int64(paths), e.AtMost), human.Share(float64(e.NS)/float64(max(ns, 1))), atMost(e.SavesNS/int64(paths), e.SavesAtMost),
			float64(e.Count)/float64(paths), &e)
	}
	t.Flush()
	if n := len(entries) - most; n > 0 {
		rest := int64(0)
		for _, e := range entries[most:] {
			rest += e.NS
		}
		Printf(t, "(%s, %s: --json has all)\n", human.Plural(n, "shorter entry"), human.Duration(rest/int64(paths)))
	}
}

func atMost(ns int64, atMost bool) string {
	if atMost {
		return "<= " + human.Duration(ns)
	}
	return human.Duration(ns)
}

// A PathWriter writes critical paths one by one as JSON, and their sums at the end.
type PathWriter struct{ *listWriter }

// NewPathWriter begins the document. Call Close at its end.
func NewPathWriter(w io.Writer) (*PathWriter, error) {
	l, err := newListWriter(w, "{\n  \"paths\": [")
	return &PathWriter{l}, err
}

type pathJSON struct {
	Step    *int         `json:"step"`               // number of the step, from 0; null for the whole trace
	Name    string       `json:"name,omitempty"`     // name of the step
	FromNS  int64        `json:"from_ns"`            // begin of the step
	NS      int64        `json:"ns"`                 // duration of the step
	Typical bool         `json:"typical"`            // the step is like most others
	TooLong bool         `json:"too_long,omitempty"` // the step has too many calls, and its path no parts
	OwnNS   int64        `json:"own_ns"`             // the program's own time on the path
	Entries []path.Entry `json:"entries"`            // sums of the parts, the longest first
	Parts   []partJSON   `json:"parts"`              // the path, ordered by time
}

type partJSON struct {
	*path.Subject
	Call   *uint64 `json:"call"`              // call number; for a task its launch; null for own, blocked and recording
	FromNS int64   `json:"from_ns"`           // begin of the part
	NS     int64   `json:"ns"`                // duration of the part
	AtMost bool    `json:"at_most,omitempty"` // tasks took at most this time
	Waits  string  `json:"waits,omitempty"`   // why the part follows work of another stream, in words
}

// Path adds a path.
func (w *PathWriter) Path(p *path.Path) error {
	parts := p.Parts()
	o := &pathJSON{Name: p.Step.Name, FromNS: p.Step.From, NS: p.Step.To - p.Step.From, Typical: p.Step.Typical, TooLong: p.TooLong, OwnNS: p.NS(path.Own), Entries: p.Entries(0),
		Parts: make([]partJSON, len(parts))}
	if !p.Whole {
		o.Step = &p.Step.Index
	}
	for i := range parts {
		q := &parts[i]
		o.Parts[i] = partJSON{Subject: &q.Subject, FromNS: q.From, NS: q.To - q.From, AtMost: q.AtMost, Waits: q.Waits}
		if q.Call != timeline.NoCall {
			o.Parts[i].Call = &q.Call
		}
	}
	return w.item(o)
}

// Close ends the document with the sums.
func (w *PathWriter) Close(s *path.Summary) error { return w.close(s) }
