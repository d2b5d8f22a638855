package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/acltrace/acltrace/api"
)

// A Group is what the calls of one step, thread, stream or kernel sum up to. Times are nanoseconds on the host.
type Group struct {
	Name     string `json:"name"`
	Process  int    `json:"process"` // id of the process, 0 where the group is of several
	Calls    uint64 `json:"calls"`
	Failed   uint64 `json:"failed"`
	Launches uint64 `json:"launches"`
	Copies   uint64 `json:"copies"`
	Bytes    uint64 `json:"bytes"` // copied or filled
	HostNS   int64  `json:"host_ns"`
	// WaitedNS is the part of HostNS in calls that wait for the device.
	WaitedNS int64 `json:"waited_ns"`
	// SpanNS is how long a step took, by the clock, and DeviceNS what was measured of its tasks on the device, of all streams.
	SpanNS   int64 `json:"span_ns,omitempty"`
	DeviceNS int64 `json:"device_ns"`
	Differs  bool  `json:"differs,omitempty"` // the step is not like most others

	order int // steps are in the order of time
}

// By returns the sums by step, thread, stream or kernel: steps in the order of time and what is in none behind them, else the one with
// the most time in calls first. Calls without a task are of no stream, and only launches are of a kernel.
func (s *Stats) By(what string) ([]Group, error) {
	t := s.t
	threads, procs := t.Reader.Threads(), t.Reader.Processes()
	pid := func(p uint32) int {
		if int(p) < len(procs) {
			return procs[p].PID
		}
		return 0
	}
	groups := map[string]*Group{}
	for i := range t.Calls {
		c := &t.Calls[i]
		g := Group{}
		switch what {
		case "thread":
			g.Name = fmt.Sprintf("thread#%d", c.Thread)
			if int(c.Thread) < len(threads) {
				th := threads[c.Thread]
				g.Process, g.Name = pid(th.Process), fmt.Sprintf("thread %d", th.TID)
				if th.Name != "" {
					g.Name += " " + th.Name
				}
			}
		case "step":
			steps := t.Steps()
			n := steps.At(c.Start)
			if g.Name, g.order = "no step", len(steps.List); n >= 0 {
				step := &steps.List[n]
				g.Name, g.order, g.SpanNS, g.Differs = fmt.Sprintf("step#%d", n), n, step.To-step.From, !step.Typical
				if step.Name != "" {
					g.Name += " " + step.Name
				}
			}
		case "stream":
			if c.Task < 0 {
				continue
			}
			l := &t.Lanes[t.Tasks[c.Task].Lane]
			g.Name, g.Process = l.Name, pid(l.Process)
		case "kernel":
			if c.Fn == nil || c.Fn.Task != api.Kernel {
				continue
			}
			g.Name = cmp.Or(c.Kernel, "unknown kernel")
		default:
			return nil, fmt.Errorf("no sums by %q: step, thread, stream or kernel", what)
		}
		key := fmt.Sprint(g.Process, g.Name)
		if groups[key] == nil {
			groups[key] = &g
		}
		into := groups[key]
		into.Calls++
		if c.Failed() {
			into.Failed++
		}
		into.HostNS += c.End - c.Start
		if c.Fn != nil && (c.Fn.Sync == api.SyncDevice || c.Fn.Sync == api.SyncStream || c.Fn.Sync == api.SyncEvent) {
			into.WaitedNS += c.End - c.Start
		}
		if c.Task >= 0 {
			k := &t.Tasks[c.Task]
			into.Bytes += k.Bytes
			if k.Measured {
				into.DeviceNS += k.To - k.From
			}
			switch k.Kind {
			case api.Kernel:
				into.Launches++
			case api.Copy:
				into.Copies++
			}
		}
	}
	out := []Group{}
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Groups writes sums for people.
func Groups(w io.Writer, by string, groups []Group) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	span := func(g *Group) string {
		switch {
		case by != "step":
			return ""
		case g == nil:
			return "took\t"
		case g.SpanNS == 0:
			return "-\t"
		}
		return Duration(g.SpanNS) + "\t"
	}
	fmt.Fprintf(t, "%scalls\tfailed\tlaunches\tcopies\tbytes\tin calls\twaiting\ton the device\tprocess\t  %s\n", span(nil), by)
	for _, g := range groups {
		process, device, name := "-", "-", clip(g.Name)
		if g.Process != 0 {
			process = strconv.Itoa(g.Process)
		}
		if g.DeviceNS != 0 {
			device = Duration(g.DeviceNS)
		}
		if g.Differs {
			name += " (differs)"
		}
		fmt.Fprintf(t, "%s%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t  %s\n", span(&g), g.Calls, g.Failed, g.Launches, g.Copies, Bytes(g.Bytes), Duration(g.HostNS), Duration(g.WaitedNS),
			device, process, name)
	}
	return t.Flush()
}

// GroupsCSV writes sums as comma-separated values with a line of names, which are those of the JSON form.
func GroupsCSV(w io.Writer, groups []Group) error {
	rows := [][]string{{"name", "process", "calls", "failed", "launches", "copies", "bytes", "host_ns", "waited_ns", "span_ns", "device_ns"}}
	for _, g := range groups {
		rows = append(rows, []string{g.Name, strconv.Itoa(g.Process), number(g.Calls), number(g.Failed), number(g.Launches), number(g.Copies), number(g.Bytes),
			strconv.FormatInt(g.HostNS, 10), strconv.FormatInt(g.WaitedNS, 10), strconv.FormatInt(g.SpanNS, 10), strconv.FormatInt(g.DeviceNS, 10)})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// CSV writes the functions as comma-separated values with a line of names, which are those of the JSON form.
func (s *Stats) CSV(w io.Writer) error {
	rows := [][]string{{"func", "calls", "failed", "total_ns", "mean_ns", "min_ns", "p50_ns", "p99_ns", "max_ns"}}
	for _, f := range s.Functions {
		row := []string{f.Func, number(f.Calls), number(f.Failed)}
		for _, v := range []int64{f.TotalNS, f.MeanNS, f.MinNS, f.P50NS, f.P99NS, f.MaxNS} {
			row = append(row, strconv.FormatInt(v, 10))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func number(v uint64) string { return strconv.FormatUint(v, 10) }
