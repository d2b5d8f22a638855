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
	// Peak is the call that reached it, null where nothing was allocated.
	Peak *PeakStats `json:"peak"`
	// HiddenSyncs are copies that were to be asynchronous, by functions, with pageable memory of the host: the runtime may
	// wait for the stream and copy before the call returns.
	HiddenSyncs []HiddenSync `json:"hidden_synchronizations"`
	// Ranges are the ranges of time that the program has named, and its marks, by domain and name.
	Ranges []RangeStats `json:"ranges"`
	// Retries count launches that failed and that the same thread repeated with success, by kernel and error.
	Retries []RetryStats `json:"retries"`

	t *timeline.Timeline
}

// PeakStats are the call after which most device memory was allocated.
type PeakStats struct {
	Call uint64 `json:"call"`
	Func string `json:"func"`
	Time int64  `json:"t_ns"`
}

// RangeStats are the ranges, or the marks, of one name. Those that the trace does not show the end of count to its end.
type RangeStats struct {
	Domain  string `json:"domain"`
	Name    string `json:"name"`
	Mark    bool   `json:"mark"`
	Count   uint64 `json:"count"`
	Open    uint64 `json:"open"` // without an end
	TotalNS int64  `json:"total_ns"`
	MinNS   int64  `json:"min_ns"`
	MaxNS   int64  `json:"max_ns"`
}

// HiddenSync are the copies of one function and direction that may have waited.
type HiddenSync struct {
	Func   string `json:"func"`
	Name   string `json:"name"`
	Count  uint64 `json:"count"`
	Bytes  uint64 `json:"bytes"`
	HostNS int64  `json:"host_ns"`
	First  uint64 `json:"first"` // call
}

// RetryStats are the repeated launches of one kernel after one error.
type RetryStats struct {
	Kernel string `json:"kernel"`
	Code   int64  `json:"code"`
	Name   string `json:"name"`
	Count  uint64 `json:"count"`
	First  uint64 `json:"first"` // the call that failed
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
	Device   int    `json:"device"` // -1 where it is not known
	// Nobody has measured the device: its tasks are bracketed by the calls around them. BusyAtMostNS is the time in which the
	// stream may have had work, IdleAtLeastNS the rest of the time from its first task to its last one's end, WaitedNS what
	// the host has spent in synchronizations that waited for its tasks.
	BusyAtMostNS  int64 `json:"busy_at_most_ns"`
	IdleAtLeastNS int64 `json:"idle_at_least_ns"`
	WaitedNS      int64 `json:"waited_ns"`
	// Bound is "host" where the stream had certainly nothing to do for half of its time or more, "device" where the host has
	// waited for it that long, else "" for what the brackets do not tell.
	Bound string `json:"bound"`
}

// bound judges a stream by what the brackets allow.
func (l *LaneStats) bound() string {
	span := l.BusyAtMostNS + l.IdleAtLeastNS
	switch {
	case span == 0:
		return ""
	case 2*l.IdleAtLeastNS >= span:
		return "host"
	case 2*l.WaitedNS >= span:
		return "device"
	}
	return ""
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
	s := &Stats{t: t, HiddenSyncs: []HiddenSync{}, Retries: []RetryStats{}, PeakDeviceBytes: t.PeakDevice, Functions: []FuncStats{}, Kernels: []TaskStats{}, Copies: []TaskStats{}, Streams: []LaneStats{}, Errors: []ErrStats{}}
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
	if t.PeakDevice > 0 {
		for i := range t.Calls {
			if c := &t.Calls[i]; c.Index == t.PeakCall {
				s.Peak = &PeakStats{c.Index, c.Name, c.Start}
				break
			}
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
		streams[i] = LaneStats{Stream: l.Name, Process: l.Process, Device: l.Device, WaitedNS: l.Waited}
	}
	until := make([]int64, len(t.Lanes)) // up to which a stream's time is accounted for
	hidden := map[[2]string]int{}
	for i := range t.Tasks {
		task := &t.Tasks[i]
		l := &streams[task.Lane]
		if l.Tasks == 0 {
			until[task.Lane] = task.From
		}
		l.Tasks++
		if idle := task.From - until[task.Lane]; idle > 0 {
			l.IdleAtLeastNS += idle
			until[task.Lane] = task.From
		}
		if busy := task.To - until[task.Lane]; busy > 0 {
			l.BusyAtMostNS += busy
			until[task.Lane] = task.To
		}
		if task.Pageable {
			k := [2]string{task.Fn.Name, task.Name}
			j, ok := hidden[k]
			if !ok {
				j = len(s.HiddenSyncs)
				hidden[k] = j
				s.HiddenSyncs = append(s.HiddenSyncs, HiddenSync{Func: k[0], Name: k[1], First: task.Call})
			}
			h := &s.HiddenSyncs[j]
			h.Count++
			h.Bytes += task.Bytes
			h.HostNS += host[task.Call]
		}
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
	for i := range streams {
		if !t.Lanes[i].Synchronous {
			streams[i].Bound = streams[i].bound()
		}
	}
	s.Streams = append(s.Streams, streams...)
	s.retries(t)
	s.ranges(t)
	return s
}

func (s *Stats) ranges(t *timeline.Timeline) {
	type key struct {
		domain, name string
		mark         bool
	}
	at := map[key]int{}
	s.Ranges = []RangeStats{}
	for i := range t.Ranges {
		r := &t.Ranges[i]
		k, d := key{r.Domain, r.Name, r.Mark}, r.To-r.From
		j, ok := at[k]
		if !ok {
			j = len(s.Ranges)
			at[k] = j
			s.Ranges = append(s.Ranges, RangeStats{Domain: r.Domain, Name: r.Name, Mark: r.Mark, MinNS: d})
		}
		rs := &s.Ranges[j]
		rs.Count++
		if r.Open {
			rs.Open++
		}
		rs.TotalNS, rs.MinNS, rs.MaxNS = rs.TotalNS+d, min(rs.MinNS, d), max(rs.MaxNS, d)
	}
	slices.SortFunc(s.Ranges, func(a, b RangeStats) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
	})
}

func (s *Stats) retries(t *timeline.Timeline) {
	if len(t.Retries) == 0 {
		return
	}
	names := map[uint64]string{}
	for _, r := range t.Retries {
		names[r.Done] = ""
	}
	for i := range t.Calls {
		if _, ok := names[t.Calls[i].Index]; ok {
			names[t.Calls[i].Index] = cmp.Or(t.Calls[i].Kernel, "unknown kernel")
		}
	}
	type key struct {
		kernel string
		code   int32
	}
	at := map[key]int{}
	for _, r := range t.Retries {
		k := key{names[r.Done], r.Code}
		i, ok := at[k]
		if !ok {
			i = len(s.Retries)
			at[k] = i
			s.Retries = append(s.Retries, RetryStats{Kernel: k.kernel, Code: int64(k.code), Name: t.Model.ErrorName(int64(k.code)), First: r.Failed})
		}
		s.Retries[i].Count++
	}
}

// Text writes the form for people.
func (s *Stats) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d calls in %s, %d failed, at most %s of device memory in use\n", s.Calls, Duration(s.SpanNS), s.Failed, Bytes(s.PeakDeviceBytes))
	if s.Peak != nil {
		fmt.Fprintf(w, "most device memory was in use after call %d, %s, at %s\n", s.Peak.Call, s.Peak.Func, Duration(s.Peak.Time))
	}
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
		fmt.Fprintln(t, "\ntasks\tlaunches\tcopies\tidle at least\tbusy at most\thost waited\tbound by\t  stream (bracketed, not measured)")
		for _, l := range s.Streams {
			fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\t%s\t  %s\n", l.Tasks, l.Launches, l.Copies, Duration(l.IdleAtLeastNS), Duration(l.BusyAtMostNS),
				Duration(l.WaitedNS), cmp.Or(l.Bound, "-"), l.Stream)
		}
	}
	if len(s.Ranges) > 0 {
		fmt.Fprintln(t, "\nranges\topen\ttotal\tmin\tmax\t  name")
		for _, r := range s.Ranges {
			name := r.Name
			if r.Domain != "" {
				name = r.Domain + ": " + name
			}
			if r.Mark {
				fmt.Fprintf(t, "%d\t-\t-\t-\t-\t  %s (mark)\n", r.Count, name)
				continue
			}
			fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t  %s\n", r.Count, r.Open, Duration(r.TotalNS), Duration(r.MinNS), Duration(r.MaxNS), name)
		}
	}
	if len(s.HiddenSyncs) > 0 {
		fmt.Fprintln(t, "\ncopies\tbytes\ttime in the call\tfirst call\t  hidden synchronization: asynchronous, of pageable memory")
		for _, h := range s.HiddenSyncs {
			fmt.Fprintf(t, "%d\t%s\t%s\t%d\t  %s %s\n", h.Count, Bytes(h.Bytes), Duration(h.HostNS), h.First, h.Func, h.Name)
		}
	}
	if len(s.Retries) > 0 {
		fmt.Fprintln(t, "\nretries\tfirst call\tcode\t  kernel launched again with success")
		for _, r := range s.Retries {
			fmt.Fprintf(t, "%d\t%d\t%d %s\t  %s\n", r.Count, r.First, r.Code, r.Name, r.Kernel)
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
