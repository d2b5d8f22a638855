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
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
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

// groups gather sums by one thing.
type groups struct {
	by      string
	w       *timeline.Walk
	threads []format.Thread
	numbers []*Group // by thread, lane or step
	kernels map[string]*Group
	none    Group // in no step
}

func newGroups(by string, w *timeline.Walk) *groups {
	return &groups{by: by, w: w, threads: w.Reader.Threads(), kernels: map[string]*Group{}}
}

// of returns the group of what is done by a thread, on a lane, in a step, of a kernel; nil for none.
func (g *groups) of(thread uint32, lane, step int, kernel string) *Group {
	n := -1
	switch g.by {
	case "thread":
		n = min(int(thread), len(g.threads))
	case "stream":
		n = lane
	case "step":
		if n = step; n < 0 {
			return &g.none
		}
	case "kernel":
		if kernel == "" {
			return nil
		}
		if g.kernels[kernel] == nil {
			g.kernels[kernel] = &Group{Name: kernel}
		}
		return g.kernels[kernel]
	}
	if n < 0 {
		return nil
	}
	for n >= len(g.numbers) {
		g.numbers = append(g.numbers, nil)
	}
	if g.numbers[n] == nil {
		g.numbers[n] = &Group{}
	}
	return g.numbers[n]
}

func (g *groups) call(h *timeline.HostCall, k *timeline.Task) {
	lane, kernel := -1, ""
	if k != nil {
		lane = k.Lane
	}
	if h.Fn != nil && h.Fn.Task == api.Kernel {
		kernel = cmp.Or(h.Kernel, "unknown kernel")
	}
	into := g.of(h.Thread, lane, h.Step, kernel)
	if into == nil {
		return
	}
	into.Calls++
	if h.Failed() {
		into.Failed++
	}
	into.HostNS += h.End - h.Start
	if h.Fn != nil && (h.Fn.Sync == api.SyncDevice || h.Fn.Sync == api.SyncStream || h.Fn.Sync == api.SyncEvent) {
		into.WaitedNS += h.End - h.Start
	}
	if k == nil {
		return
	}
	into.Bytes += k.Bytes
	switch k.Kind {
	case api.Kernel:
		into.Launches++
	case api.Copy:
		into.Copies++
	}
}

func (g *groups) task(k *timeline.Task) {
	kernel := ""
	if k.Kind == api.Kernel {
		kernel = k.Name
	}
	if !k.Measured {
		return
	}
	if into := g.of(k.Thread, k.Lane, k.Step, kernel); into != nil {
		into.DeviceNS += k.To - k.From
	}
}

func (g *groups) step(p *timeline.Step) {
	if g.by != "step" || p.Index >= len(g.numbers) || g.numbers[p.Index] == nil {
		return
	}
	into := g.numbers[p.Index]
	if p.Open {
		n := &g.none
		n.Calls, n.Failed, n.Launches, n.Copies, n.Bytes = n.Calls+into.Calls, n.Failed+into.Failed, n.Launches+into.Launches, n.Copies+into.Copies, n.Bytes+into.Bytes
		n.HostNS, n.WaitedNS, n.DeviceNS = n.HostNS+into.HostNS, n.WaitedNS+into.WaitedNS, n.DeviceNS+into.DeviceNS
		g.numbers[p.Index] = nil
		return
	}
	into.SpanNS, into.Differs = p.To-p.From, !p.Typical
	if into.Name = fmt.Sprintf("step#%d", p.Index); p.Name != "" {
		into.Name += " " + p.Name
	}
}

// list returns the groups in their order.
func (g *groups) list() []Group {
	out := []Group{}
	procs := g.w.Reader.Processes()
	pid := func(p uint32) int {
		if int(p) < len(procs) {
			return procs[p].PID
		}
		return 0
	}
	for i, x := range g.numbers {
		if x == nil {
			continue
		}
		switch g.by {
		case "thread":
			x.Name = fmt.Sprintf("thread#%d", i)
			if i < len(g.threads) {
				th := g.threads[i]
				if x.Process, x.Name = pid(th.Process), fmt.Sprintf("thread %d", th.TID); th.Name != "" {
					x.Name += " " + th.Name
				}
			}
		case "stream":
			x.Name, x.Process = g.w.Lanes[i].Name, pid(g.w.Lanes[i].Process)
		case "step":
			x.order = i
		}
		out = append(out, *x)
	}
	for _, x := range g.kernels {
		out = append(out, *x)
	}
	if g.none.Calls > 0 {
		g.none.Name, g.none.order = "no step", len(g.numbers)
		out = append(out, g.none)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Name, b.Name))
	})
	return out
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
