package html

import (
	"slices"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
)

const (
	maxTableRows = 300
	maxTroubles  = 100
)

// A table has rows of numbers and texts. page.js formats them by the kind of the column.
type table struct {
	Title   string   `json:"title"`
	Columns []column `json:"columns"`
	Rows    [][]any  `json:"rows"`
	LeftOut int      `json:"left_out"` // rows
}

type column struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // text, count, ns, moment, bytes or call
}

func (t *table) add(cells ...any) {
	if len(t.Rows) == maxTableRows {
		t.LeftOut++
		return
	}
	t.Rows = append(t.Rows, cells)
}

// tables returns the tables of a trace that have rows.
func tables(s *stats.Stats) []table {
	times := []column{{"host time", "ns"}}
	if s.Timed() {
		times = append(times, column{"time on the device", "ns"}, column{"median", "ns"}, column{"p99", "ns"}, column{"measured", "count"})
	}
	device := func(k *stats.Task) []any {
		switch {
		case !s.Timed():
			return []any{k.HostNS}
		case k.Measured == 0:
			return []any{k.HostNS, nil, nil, nil, 0}
		}
		return []any{k.HostNS, k.DeviceNS, k.P50NS, k.P99NS, k.Measured}
	}
	kernels := table{Title: "Kernels", Columns: append([]column{{"kernel", "text"}, {"launches", "count"}, {"in graphs", "count"}}, times...)}
	for i := range s.Kernels {
		k := &s.Kernels[i]
		kernels.add(append([]any{cut(human.Kernel(k.Name)), k.Count, k.InGraphs}, device(k)...)...)
	}
	graphs := table{Title: "Graphs", Columns: append([]column{{"kernels", "text"}, {"graphs", "count"}, {"runs", "count"}, {"launches", "count"}}, times...)}
	for i := range s.Graphs {
		g := &s.Graphs[i]
		graphs.add(append([]any{cut(g.Kernels), g.Graphs, g.Count, g.Launches}, device(&g.Task)...)...)
	}
	copies := table{Title: "Copies", Columns: append([]column{{"copies", "text"}, {"number", "count"}, {"bytes", "bytes"}}, times...)}
	for i := range s.Copies {
		k := &s.Copies[i]
		copies.add(append([]any{cut(k.Name), k.Count, k.Bytes}, device(k)...)...)
	}
	functions := table{Title: "Functions", Columns: []column{{"function", "text"}, {"calls", "count"}, {"failed", "count"}, {"host time", "ns"}, {"mean", "ns"}, {"median", "ns"}, {"p99", "ns"}, {"longest", "ns"}}}
	for i := range s.Functions {
		f := &s.Functions[i]
		functions.add(cut(f.Func), f.Calls, f.Failed, f.TotalNS, f.MeanNS, f.P50NS, f.P99NS, f.MaxNS)
	}
	ranks := table{Title: "Ranks", Columns: []column{{"rank", "count"}, {"collectives", "count"}, {"last", "count"}, {"waited for others", "ns"}, {"others waited", "ns"}, {"longest", "ns"}}}
	if s.Ranks != nil {
		for _, r := range s.Ranks.Ranks {
			ranks.add(r.Rank, r.Met, r.Last, r.Waited, r.Caused, r.Longest)
		}
	}
	threads := table{Title: "Threads in a typical step", Columns: []column{{"thread", "text"}, {"process", "call"}}}
	for _, p := range stats.AllParts {
		threads.Columns = append(threads.Columns, column{p.String(), "ns"})
	}
	for i := range s.Steps.Threads {
		th := &s.Steps.Threads[i]
		cells := []any{cut(th.Thread), th.Process}
		for _, p := range stats.AllParts {
			cells = append(cells, p.Of(&th.Parts))
		}
		threads.add(cells...)
	}
	return slices.DeleteFunc([]table{ranks, threads, kernels, graphs, copies, functions}, func(t table) bool { return len(t.Rows) == 0 })
}

// changes is the table of the differences from an earlier run.
func changes(d *diff.Diff) table {
	t := table{Title: "Changes", Columns: []column{{"kind", "text"}, {"name", "text"}, {"verdict", "text"}, {"before", "ns"}, {"now", "ns"}, {"a step before", "number"}, {"a step now", "number"}}}
	for _, list := range [][]diff.Change{d.Parts, d.Changes} {
		for i := range list {
			c := &list[i]
			t.add(c.Kind, cut(c.Name), c.Verdict, int64(c.A.MedianNS), int64(c.B.MedianNS), c.A.PerStep, c.B.PerStep)
		}
	}
	for _, x := range d.New {
		t.add(x.Kind, cut(x.Name), "new", nil, nil, nil, nil)
	}
	for _, x := range d.Gone {
		t.add(x.Kind, cut(x.Name), "gone", nil, nil, nil, nil)
	}
	return t
}

// troubles are failed calls, calls without an end, and lost calls.
type troubles struct{ t table }

func (x *troubles) call(w *timeline.Walk, h *timeline.HostCall) {
	what := ""
	switch {
	case h.Flags&format.Unfinished != 0:
		what = "did not return"
		if h.Hung() {
			what = timeline.NeverReturned
		}
	case h.Failed():
		what = "failed: " + w.Model.ErrorName(int64(int32(h.Ret)))
	default:
		return
	}
	if len(x.t.Rows) == maxTroubles {
		x.t.LeftOut++
		return
	}
	x.t.add(h.Index, h.Start, w.CallEnd(h)-h.Start, cut(h.Name), what, cut(w.ThreadName(h.Thread)), h.Step)
}

// table adds the gaps of a trace, and returns the table.
func (x *troubles) table(r *format.Reader) table {
	t := x.t
	t.Title = "Errors, unfinished calls and gaps"
	t.Columns = []column{{"call", "call"}, {"at", "moment"}, {"took", "ns"}, {"function", "text"}, {"what", "text"}, {"thread", "text"}, {"step", "call"}}
	for i, g := range r.Gaps() {
		if i == maxTroubles {
			t.LeftOut += len(r.Gaps()) - i
			break
		}
		what := human.Plural(g.Calls, "call") + " lost: "
		if g.Intended() {
			what = "not recorded: "
		}
		t.add(nil, g.From, max(g.To-g.From, 0), "", what+g.Reason.String(), "", nil)
	}
	return t
}
