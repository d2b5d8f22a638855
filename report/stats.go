package report

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Stats are sums over a trace, as `acltrace stats --json` prints them. Times are nanoseconds.
type Stats struct {
	Calls     uint64      `json:"calls"`
	Failed    uint64      `json:"failed"`
	SpanNS    int64       `json:"span_ns"` // from the first call's start to the last one's end
	Steps     StepStats   `json:"steps"`
	Functions []FuncStats `json:"functions"`
	Kernels   []TaskStats `json:"kernels"`
	Copies    []TaskStats `json:"copies"`
	Streams   []LaneStats `json:"streams"`
	Idle      []IdleStats `json:"idle"` // the longest times in which streams had nothing to do, at most ten
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
	Call  uint64 `json:"call"`
	Func  string `json:"func"`
	Time  int64  `json:"t_ns"`
	Bytes uint64 `json:"bytes"` // that the call allocated
}

// StepStats are the steps of the trace: how they are known, and how long they took.
type StepStats struct {
	Source  string `json:"source"` // marked, found or none
	Count   int    `json:"count"`
	Typical int    `json:"typical"` // that are like most others; the times are of these
	P50NS   int64  `json:"p50_ns"`
	MinNS   int64  `json:"min_ns"`
	P99NS   int64  `json:"p99_ns"`
	MaxNS   int64  `json:"max_ns"`
	Why     string `json:"why,omitempty"` // there are none
}

// IdleStats are a time in which a stream had nothing to do, and what the thread that ended it was doing.
type IdleStats struct {
	Stream  string `json:"stream"`
	Process uint32 `json:"process"`
	Time    int64  `json:"t_ns"`
	NS      int64  `json:"ns"`
	Next    string `json:"next"` // task that ended it
	Step    int    `json:"step"` // that it ended in, -1 for none
	// Call is the longest call of the thread in that time, null where it made none; InCallNS is its part of the time, InCallsNS that of
	// all calls of the thread. The rest is the program's own.
	Call      *uint64 `json:"call"`
	Func      string  `json:"func"`
	InCallNS  int64   `json:"in_call_ns"`
	InCallsNS int64   `json:"in_calls_ns"`
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

// TaskStats are the launches of one kernel, or the copies of one direction. HostNS is the time of the calls.
type TaskStats struct {
	Name    string `json:"name"`
	Count   uint64 `json:"count"`
	Bytes   uint64 `json:"bytes,omitempty"`
	HostNS  int64  `json:"host_ns"`
	Streams int    `json:"streams"`
	// Measured counts those whose time on the device was measured; DeviceNS adds these times up, and the others tell of them.
	Measured uint64 `json:"measured"`
	DeviceNS int64  `json:"device_ns"`
	P50NS    int64  `json:"device_p50_ns"`
	P99NS    int64  `json:"device_p99_ns"`
	MaxNS    int64  `json:"device_max_ns"`
	// Rate, of copies, is bytes per second: of those that were measured, or else of all by what brackets them. Then it was that much or more.
	Rate        float64     `json:"bytes_per_s,omitempty"`
	RateAtLeast bool        `json:"bytes_per_s_at_least,omitempty"`
	Sizes       []TaskStats `json:"sizes,omitempty"` // of copies, by size class, the smallest first

	times         []int64 // measured
	measuredBytes uint64
	bracketNS     int64
	lanes         map[int]bool
	sizes         [len(timeline.SizeClasses)]*TaskStats
}

// add takes in a task and the time of its call.
func (k *TaskStats) add(t *timeline.Task, host int64) {
	k.Count++
	k.Bytes += t.Bytes
	k.HostNS += host
	if k.lanes == nil {
		k.lanes = map[int]bool{}
	}
	k.lanes[t.Lane] = true
	k.bracketNS += t.To - t.From
	if t.Measured {
		k.DeviceNS += t.To - t.From
		k.times = append(k.times, t.To-t.From)
		k.measuredBytes += t.Bytes
	}
}

func (k *TaskStats) finish() {
	k.Streams, k.Measured = len(k.lanes), uint64(len(k.times))
	if len(k.times) > 0 {
		slices.Sort(k.times)
		k.P50NS, k.P99NS, k.MaxNS = percentile(k.times, 50), percentile(k.times, 99), k.times[len(k.times)-1]
	}
	switch {
	case k.measuredBytes > 0 && k.DeviceNS > 0:
		k.Rate = float64(k.measuredBytes) / float64(k.DeviceNS) * 1e9
	case k.Bytes > 0 && k.bracketNS > 0:
		k.Rate, k.RateAtLeast = float64(k.Bytes)/float64(k.bracketNS)*1e9, true
	}
	for _, c := range k.sizes {
		if c != nil {
			c.finish()
			k.Sizes = append(k.Sizes, *c)
		}
	}
}

// percentile of sorted times.
func percentile(sorted []int64, p int) int64 { return sorted[(len(sorted)-1)*p/100] }

// LaneStats are the tasks of one stream.
type LaneStats struct {
	Stream   string `json:"stream"`
	Process  uint32 `json:"process"`
	Tasks    uint64 `json:"tasks"`
	Launches uint64 `json:"launches"`
	Copies   uint64 `json:"copies"`
	Device   int    `json:"device"`   // -1 where it is not known
	Measured uint64 `json:"measured"` // tasks; others are bracketed by the calls around them
	// BusyAtMostNS is the time in which the stream may have had work, and had where all tasks are measured, IdleAtLeastNS the rest of
	// the time from its first task to its last one's end, WaitedNS what the host has spent in synchronizations that waited for its
	// tasks.
	BusyAtMostNS  int64 `json:"busy_at_most_ns"`
	IdleAtLeastNS int64 `json:"idle_at_least_ns"`
	WaitedNS      int64 `json:"waited_ns"`
	// Bound is "host" where the stream had certainly nothing to do for half of its time or more, "device" where the host has
	// waited for it that long or it is known to have worked, else "" for what the brackets do not tell.
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
	case 2*l.WaitedNS >= span, l.Measured == l.Tasks:
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

// longest is how many idle times are told.
const longest = 10

// NewStats sums a trace up.
func NewStats(t *timeline.Timeline) *Stats {
	s := &Stats{t: t, HiddenSyncs: []HiddenSync{}, Retries: []RetryStats{}, PeakDeviceBytes: t.PeakDevice, Functions: []FuncStats{}, Kernels: []TaskStats{}, Copies: []TaskStats{}, Streams: []LaneStats{},
		Idle: []IdleStats{}, Errors: []ErrStats{}}
	if len(t.Calls) > 0 {
		s.SpanNS = t.End - t.Calls[0].Start
	}
	s.functions(t)
	s.tasks(t)
	s.peak(t)
	s.steps(t)
	s.idle(t)
	s.retries(t)
	s.ranges(t)
	return s
}

func (s *Stats) functions(t *timeline.Timeline) {
	times := map[string][]int64{}
	funcs := map[string]*FuncStats{}
	type key struct {
		name string
		code int64
	}
	errs := map[key]*ErrStats{}
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
			k := key{c.Name, int64(int32(c.Ret))}
			if errs[k] == nil {
				errs[k] = &ErrStats{Func: c.Name, Code: k.code, Name: t.Model.ErrorName(k.code)}
			}
			errs[k].Count++
		}
		if c.Flags&format.Unfinished == 0 {
			times[c.Name] = append(times[c.Name], c.End-c.Start)
		}
	}
	for name, f := range funcs {
		if d := times[name]; len(d) > 0 {
			slices.Sort(d)
			for _, v := range d {
				f.TotalNS += v
			}
			f.MeanNS, f.MinNS, f.MaxNS = f.TotalNS/int64(len(d)), d[0], d[len(d)-1]
			f.P50NS, f.P99NS = percentile(d, 50), percentile(d, 99)
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
}

// tasks sums up what was put on streams.
func (s *Stats) tasks(t *timeline.Timeline) {
	host := make([]int64, len(t.Tasks)) // time of the calls
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Task >= 0 {
			host[c.Task] = c.End - c.Start
		}
	}
	kernels, copies := map[string]*TaskStats{}, map[string]*TaskStats{}
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
		if task.Measured {
			l.Measured++
		}
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
			h.HostNS += host[i]
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
			group[task.Name] = k
		}
		k.add(task, host[i])
		if task.Kind == api.Copy {
			class := timeline.SizeClass(task.Bytes)
			if k.sizes[class] == nil {
				k.sizes[class] = &TaskStats{Name: timeline.SizeClasses[class].Name}
			}
			k.sizes[class].add(task, host[i])
		}
	}
	collect := func(g map[string]*TaskStats) []TaskStats {
		out := []TaskStats{}
		for _, k := range g {
			k.finish()
			out = append(out, *k)
		}
		slices.SortFunc(out, func(a, b TaskStats) int {
			return cmp.Or(cmp.Compare(b.DeviceNS, a.DeviceNS), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
		})
		return out
	}
	s.Kernels, s.Copies = collect(kernels), collect(copies)
	for i := range streams {
		if !t.Lanes[i].Synchronous {
			streams[i].Bound = streams[i].bound()
		}
	}
	s.Streams = append(s.Streams, streams...)
}

func (s *Stats) peak(t *timeline.Timeline) {
	for p := range t.Memory() {
		if c := &t.Calls[p.Call]; c.Index == t.PeakCall && p.Total == t.PeakDevice {
			s.Peak = &PeakStats{c.Index, c.Name, c.Start, p.Object.Size}
			return
		}
	}
}

func (s *Stats) steps(t *timeline.Timeline) {
	steps := t.Steps()
	s.Steps = StepStats{Source: string(steps.Source), Count: len(steps.List), Why: steps.Why}
	var d []int64
	for _, x := range steps.List {
		if x.Typical {
			d = append(d, x.To-x.From)
		}
	}
	if s.Steps.Typical = len(d); len(d) > 0 {
		slices.Sort(d)
		s.Steps.P50NS, s.Steps.MinNS, s.Steps.P99NS, s.Steps.MaxNS = percentile(d, 50), d[0], percentile(d, 99), d[len(d)-1]
	}
}

func (s *Stats) idle(t *timeline.Timeline) {
	for _, d := range t.Idles(longest) {
		l := &t.Lanes[d.Lane]
		g := IdleStats{Stream: l.Name, Process: l.Process, Time: d.From, NS: d.To - d.From, Next: t.Tasks[d.Task].Name, Step: t.Steps().At(d.To), InCallNS: d.InCallNS, InCallsNS: d.InCallsNS}
		if d.Call >= 0 {
			g.Call, g.Func = &t.Calls[d.Call].Index, t.Calls[d.Call].Name
		}
		s.Idle = append(s.Idle, g)
	}
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
