package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// Groups writes the sums by step, thread, stream, kernel, operator or shape as a table.
func Groups(w io.Writer, by string, s *stats.Stats, o *TextOptions) error {
	selectedText(w, s.Calls, &s.Selected)
	t := newTable(w, o)
	span := func(g *stats.Group) layout {
		switch {
		case by != "step":
			return ""
		case g == nil:
			return "start\ttook\t"
		case g.SpanNS == 0:
			return "-\t-\t"
		}
		return layout(human.Moment(g.StartNS) + "\t" + human.Duration(g.SpanNS) + "\t")
	}
	Printf(t, "%scalls\tfailed\tlaunches\tin graphs\tcopies\tbytes\tin calls\twaiting\ton the device\tprocess\trank\t  %s\n", span(nil), by)
	for _, g := range s.Groups {
		process, rank, device, inside, name := "-", "-", "-", "-", g.Name
		if g.InGraphs != 0 {
			inside = human.Count(g.InGraphs)
		}
		if g.Process != 0 {
			process = strconv.Itoa(g.Process)
		}
		if g.Rank != nil {
			rank = strconv.Itoa(*g.Rank)
		}
		if g.DeviceNS != 0 {
			device = human.Duration(g.DeviceNS)
		}
		if g.Differs {
			name += " (differs)"
		}
		switch by {
		case "kernel":
			name = human.Kernel(name)
		case "shape":
			name = strings.TrimSpace(name + " " + g.Shapes)
		}
		name = streamCell(name, g.Object)
		Printf(t, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", span(&g), human.Count(g.Calls), badCount(g.Failed), human.Count(g.Launches), inside, human.Count(g.Copies), human.Bytes(g.Bytes), human.Duration(g.HostNS), human.Duration(g.WaitedNS),
			device, process, rank, name)
	}
	if err := t.Flush(); err != nil || by != "shape" {
		return err
	}
	for i := range s.Groups {
		if s.Groups[i].Shapes != "" {
			return nil
		}
	}
	Printf(w, "the trace has no shapes: record with --operators shapes, and with CANN 8.5 or newer\n")
	return nil
}

// streamCell names a stream as viewers do, and as cat does if that is known: "stream 1 (stream#3)".
func streamCell(name, object string) string {
	if object == "" {
		return name
	}
	return name + " (" + object + ")"
}

// A GroupWriter writes sums one by one, as JSON or as comma-separated values. The column names are the JSON keys.
type GroupWriter struct {
	csv  *csv.Writer // nil for JSON
	json *listWriter
}

// NewGroupWriter begins a list. Call Close at its end.
func NewGroupWriter(w io.Writer, by string, asCSV bool) (g *GroupWriter, err error) {
	if asCSV {
		g = &GroupWriter{csv: csv.NewWriter(w)}
		return g, g.csv.Write([]string{"name", "process", "calls", "failed", "launches", "copies", "bytes", "host_ns", "waited_ns", "span_ns", "device_ns", "start_ns", "in_graphs", "shapes", "rank"})
	}
	g = &GroupWriter{}
	g.json, err = newListWriter(w, fmt.Sprintf("{\n  \"by\": %q,\n  \"groups\": [", by))
	return g, err
}

func (w *GroupWriter) Group(g *stats.Group) error {
	if w.csv == nil {
		return w.json.item(g)
	}
	rank := ""
	if g.Rank != nil {
		rank = strconv.Itoa(*g.Rank)
	}
	return w.csv.Write([]string{Escape(g.Name), strconv.Itoa(g.Process), number(g.Calls), number(g.Failed), number(g.Launches), number(g.Copies), number(g.Bytes),
		strconv.FormatInt(g.HostNS, 10), strconv.FormatInt(g.WaitedNS, 10), strconv.FormatInt(g.SpanNS, 10), strconv.FormatInt(g.DeviceNS, 10), strconv.FormatInt(g.StartNS, 10), number(g.InGraphs), Escape(g.Shapes), rank})
}

// groupsJSON follows the groups.
type groupsJSON struct {
	format.Scope
	stats.Selected
	stats.Missing
}

// Close ends the list of the sums of s.
func (w *GroupWriter) Close(s *stats.Stats) error {
	if w.csv == nil {
		return w.json.close(&groupsJSON{s.Scope, s.Selected, s.Missing})
	}
	w.csv.Flush()
	return w.csv.Error()
}

// StatsCSV writes the functions as comma-separated values. The column names are the JSON keys.
func StatsCSV(w io.Writer, s *stats.Stats) error {
	rows := [][]string{{"func", "calls", "failed", "total_ns", "mean_ns", "min_ns", "p50_ns", "p99_ns", "max_ns"}}
	for _, f := range s.Functions {
		row := []string{Escape(f.Func), number(f.Calls), number(f.Failed)}
		for _, v := range []int64{f.TotalNS, f.MeanNS, f.MinNS, f.P50NS, f.P99NS, f.MaxNS} {
			row = append(row, strconv.FormatInt(v, 10))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func number(v uint64) string { return strconv.FormatUint(v, 10) }
