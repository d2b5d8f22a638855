package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Stats are sums over a trace, as `acltrace stats --json` prints them. Times are nanoseconds.
type Stats struct {
	Calls     uint64      `json:"calls"`
	Failed    uint64      `json:"failed"`
	SpanNS    int64       `json:"span_ns"` // from the first call's start to the last one's end
	Functions []FuncStats `json:"functions"`
	Kernels   []TaskStats `json:"kernels"`
	Copies    []TaskStats `json:"copies"`
	Streams   []LaneStats `json:"streams"`
	Errors    []ErrStats  `json:"errors"`
	// PeakDeviceBytes is the greatest sum of live device allocations.
	PeakDeviceBytes uint64 `json:"peak_device_bytes"`
}

// FuncStats are the calls of one function, measured on the host.
type FuncStats struct {
	Func    string `json:"func"`
	Calls   uint64 `json:"calls"`
	Failed  uint64 `json:"failed"`
	TotalNS int64  `json:"total_ns"`
	MeanNS  int64  `json:"mean_ns"`
	MinNS   int64  `json:"min_ns"`
	P50NS   int64  `json:"p50_ns"`
	P99NS   int64  `json:"p99_ns"`
	MaxNS   int64  `json:"max_ns"`
}

// TaskStats are the launches of one kernel, or the copies of one direction. The host's time is that of the calls; what
// the device took is not measured.
type TaskStats struct {
	Name    string `json:"name"`
	Count   uint64 `json:"count"`
	Bytes   uint64 `json:"bytes,omitempty"`
	HostNS  int64  `json:"host_ns"`
	Streams int    `json:"streams"`
}

// LaneStats are the tasks of one stream.
type LaneStats struct {
	Stream   string `json:"stream"`
	Process  uint32 `json:"process"`
	Tasks    uint64 `json:"tasks"`
	Launches uint64 `json:"launches"`
	Copies   uint64 `json:"copies"`
}

// ErrStats counts one error of one function.
type ErrStats struct {
	Func  string `json:"func"`
	Code  int64  `json:"code"`
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// NewStats sums a trace up.
func NewStats(t *timeline.Timeline) *Stats {
	s := &Stats{PeakDeviceBytes: t.PeakDevice, Functions: []FuncStats{}, Kernels: []TaskStats{}, Copies: []TaskStats{}, Streams: []LaneStats{}, Errors: []ErrStats{}}
	times := map[string][]int64{}
	funcs := map[string]*FuncStats{}
	errs := map[string]*ErrStats{}
	host := map[uint64]int64{} // of calls with a task
	for i := range t.Calls {
		c := &t.Calls[i]
		s.Calls++
		f := funcs[c.Name]
		if f == nil {
			f = &FuncStats{Func: c.Name}
			funcs[c.Name] = f
		}
		f.Calls++
		if c.Failed() {
			f.Failed++
			s.Failed++
			code := int64(int32(c.Ret))
			k := fmt.Sprint(c.Name, code)
			if errs[k] == nil {
				errs[k] = &ErrStats{Func: c.Name, Code: code, Name: t.Model.ErrorName(code)}
			}
			errs[k].Count++
		}
		if c.Task >= 0 {
			host[c.Index] = c.End - c.Start
		}
		if c.Flags&format.Unfinished == 0 {
			times[c.Name] = append(times[c.Name], c.End-c.Start)
		}
	}
	if len(t.Calls) > 0 {
		s.SpanNS = t.End - t.Calls[0].Start
	}
	for name, f := range funcs {
		if d := times[name]; len(d) > 0 {
			slices.Sort(d)
			for _, v := range d {
				f.TotalNS += v
			}
			f.MeanNS, f.MinNS, f.MaxNS = f.TotalNS/int64(len(d)), d[0], d[len(d)-1]
			f.P50NS, f.P99NS = d[(len(d)-1)/2], d[(len(d)-1)*99/100]
		}
		s.Functions = append(s.Functions, *f)
	}
	slices.SortFunc(s.Functions, func(a, b FuncStats) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), cmp.Compare(a.Func, b.Func))
	})
	for _, e := range errs {
		s.Errors = append(s.Errors, *e)
	}
	slices.SortFunc(s.Errors, func(a, b ErrStats) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Code, b.Code))
	})
	type lanes map[int]bool
	kernels, copies := map[string]*TaskStats{}, map[string]*TaskStats{}
	used := map[*TaskStats]lanes{}
	streams := make([]LaneStats, len(t.Lanes))
	for i, l := range t.Lanes {
		streams[i] = LaneStats{Stream: l.Name, Process: l.Process}
	}
	for i := range t.Tasks {
		task := &t.Tasks[i]
		l := &streams[task.Lane]
		l.Tasks++
		var group map[string]*TaskStats
		switch task.Kind {
		case api.Kernel:
			group = kernels
			l.Launches++
		case api.Copy:
			group = copies
			l.Copies++
		default:
			continue
		}
		k := group[task.Name]
		if k == nil {
			k = &TaskStats{Name: task.Name}
			group[task.Name], used[k] = k, lanes{}
		}
		k.Count++
		k.Bytes += task.Bytes
		k.HostNS += host[task.Call]
		used[k][task.Lane] = true
	}
	collect := func(g map[string]*TaskStats) []TaskStats {
		out := []TaskStats{}
		for _, k := range g {
			k.Streams = len(used[k])
			out = append(out, *k)
		}
		slices.SortFunc(out, func(a, b TaskStats) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
		return out
	}
	s.Kernels, s.Copies = collect(kernels), collect(copies)
	s.Streams = append(s.Streams, streams...)
	return s
}

// Text writes the form for people.
func (s *Stats) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d calls in %s, %d failed, at most %s of device memory in use\n", s.Calls, Duration(s.SpanNS), s.Failed, Bytes(s.PeakDeviceBytes))
	fmt.Fprintln(t, "\ncalls\tfailed\ttotal\tmean\tp50\tp99\tmax\t  function")
	for _, f := range s.Functions {
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t  %s\n", f.Calls, f.Failed, Duration(f.TotalNS), Duration(f.MeanNS), Duration(f.P50NS), Duration(f.P99NS), Duration(f.MaxNS), f.Func)
	}
	if len(s.Kernels) > 0 {
		fmt.Fprintln(t, "\nlaunches\tstreams\ttime in the call\t  kernel")
		for _, k := range s.Kernels {
			fmt.Fprintf(t, "%d\t%d\t%s\t  %s\n", k.Count, k.Streams, Duration(k.HostNS), k.Name)
		}
	}
	if len(s.Copies) > 0 {
		fmt.Fprintln(t, "\ncopies\tbytes\ttime in the call\t  direction")
		for _, k := range s.Copies {
			fmt.Fprintf(t, "%d\t%s\t%s\t  %s\n", k.Count, Bytes(k.Bytes), Duration(k.HostNS), k.Name)
		}
	}
	if len(s.Streams) > 0 {
		fmt.Fprintln(t, "\ntasks\tlaunches\tcopies\t  stream")
		for _, l := range s.Streams {
			fmt.Fprintf(t, "%d\t%d\t%d\t  %s\n", l.Tasks, l.Launches, l.Copies, l.Stream)
		}
	}
	if len(s.Errors) > 0 {
		fmt.Fprintln(t, "\nerrors\tcode\t  function")
		for _, e := range s.Errors {
			fmt.Fprintf(t, "%d\t%d %s\t  %s\n", e.Count, e.Code, e.Name, e.Func)
		}
	}
	return t.Flush()
}
