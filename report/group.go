package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
)

// Groups writes the sums by step, thread, stream or kernel as a table.
func Groups(w io.Writer, by string, s *stats.Stats, o *TextOptions) error {
	selectedText(w, s)
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
	Printf(t, "%scalls\tfailed\tlaunches\tcopies\tbytes\tin calls\twaiting\ton the device\tprocess\t  %s\n", span(nil), by)
	for _, g := range s.Groups {
		process, device, name := "-", "-", g.Name
		if g.Process != 0 {
			process = strconv.Itoa(g.Process)
		}
		if g.DeviceNS != 0 {
			device = human.Duration(g.DeviceNS)
		}
		if g.Differs {
			name += " (differs)"
		}
		name = streamCell(name, g.Object)
		Printf(t, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", span(&g), human.Count(g.Calls), badCount(g.Failed), human.Count(g.Launches), human.Count(g.Copies), human.Bytes(g.Bytes), human.Duration(g.HostNS), human.Duration(g.WaitedNS),
			device, process, name)
	}
	return t.Flush()
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
	w   io.Writer
	csv *csv.Writer // nil for JSON
	sep string
}

// NewGroupWriter begins a list. selection is the text of the selection, "" for all calls. Call Close at its end.
func NewGroupWriter(w io.Writer, by, selection string, asCSV bool) (*GroupWriter, error) {
	g := &GroupWriter{w: w, sep: "\n"}
	if asCSV {
		g.csv = csv.NewWriter(w)
		return g, g.csv.Write([]string{"name", "process", "calls", "failed", "launches", "copies", "bytes", "host_ns", "waited_ns", "span_ns", "device_ns", "start_ns"})
	}
	head := fmt.Sprintf("{\n  \"by\": %q,\n", by)
	if selection != "" {
		text, err := json.Marshal(selection)
		if err != nil {
			return nil, err
		}
		head += fmt.Sprintf("  \"selection\": %s,\n", text)
	}
	_, err := fmt.Fprint(w, head+"  \"groups\": [")
	return g, err
}

func (w *GroupWriter) Group(g *stats.Group) error {
	if w.csv != nil {
		return w.csv.Write([]string{Escape(g.Name), strconv.Itoa(g.Process), number(g.Calls), number(g.Failed), number(g.Launches), number(g.Copies), number(g.Bytes),
			strconv.FormatInt(g.HostNS, 10), strconv.FormatInt(g.WaitedNS, 10), strconv.FormatInt(g.SpanNS, 10), strconv.FormatInt(g.DeviceNS, 10), strconv.FormatInt(g.StartNS, 10)})
	}
	b, err := json.Marshal(g)
	if err == nil {
		_, err = fmt.Fprintf(w.w, "%s    %s", w.sep, b)
	}
	w.sep = ",\n"
	return err
}

func (w *GroupWriter) Close() error {
	if w.csv != nil {
		w.csv.Flush()
		return w.csv.Error()
	}
	_, err := io.WriteString(w.w, "\n  ]\n}\n")
	return err
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
