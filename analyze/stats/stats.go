package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Stats are sums over a trace, as `acltrace stats --json` prints them. Times are nanoseconds. Percentiles of more than 512 times are off by
// less than 0.4%; all else is exact.
type Stats struct {
	format.Scope
	Calls     uint64     `json:"calls"`
	Failed    uint64     `json:"failed"`
	SpanNS    int64      `json:"span_ns"` // from the first call's start to the last one's end
	Steps     Steps      `json:"steps"`
	Functions []Function `json:"functions"`
	Kernels   []Task     `json:"kernels"`
	Copies    []Task     `json:"copies"`
	Streams   []Lane     `json:"streams"`
	Idle      []Idle     `json:"idle"` // the longest times in which streams had nothing to do, at most ten
	Errors    []Error    `json:"errors"`
	// Recording is the recorder's own time in the program's threads, which is in no call and not the program's.
	Recording Recording `json:"recording"`
	// PeakDeviceBytes is the greatest sum of live device allocations.
	PeakDeviceBytes uint64 `json:"peak_device_bytes"`
	// Peak is the call that reached it, null where nothing was allocated.
	Peak *Peak `json:"peak"`
	// HiddenSyncs are copies that were to be asynchronous, by functions, with pageable memory of the host: the runtime may
	// wait for the stream and copy before the call returns.
	HiddenSyncs []HiddenSync `json:"hidden_synchronizations"`
	// Ranges are the ranges of time that the program has named, and its marks, by domain and name.
	Ranges []Range `json:"ranges"`
	// Retries count launches that failed and that the same thread repeated with success, by kernel and error.
	Retries []Retry `json:"retries"`
	// GivenUp counts tasks without an end among the 131,072 tasks behind them: their brackets go to the end of the trace.
	GivenUp uint64 `json:"given_up,omitempty"`
	// Unfinished counts calls that never returned: they are in no sum of times.
	Unfinished uint64 `json:"unfinished,omitempty"`
	// Gaps counts the places where calls were lost, CallsLost those whose number is known.
	Gaps      int    `json:"gaps,omitempty"`
	CallsLost uint64 `json:"calls_lost,omitempty"`
	// Cut says that the file has no end, as after a crash of the recorder.
	Cut bool `json:"cut,omitempty"`
	// Ranks tell who waited for whom at the collectives of several ranks, null where the trace is of one.
	Ranks *ranks.Meetings `json:"ranks,omitempty"`
	// Groups are the sums that Options.By asks for.
	Groups []Group `json:"-"`
}

// Options change what New sums up; nil stands for the zero value.
type Options struct {
	// By asks for Groups by step, thread, stream or kernel: steps in the order of time and what is in none behind them,
	// else the one with the most time in calls first. Calls without a task are of no stream, and only launches are of a
	// kernel.
	By string
	// Top bounds Groups: those with the most time in calls, of steps those that took longest, and behind them the sum
	// of the others. 0 for no bound.
	Top int
	// Step, of sums by step, is told of each step as it ends, instead of Groups, which then has what is in none: so
	// many steps are not held.
	Step     func(*Group) error
	Progress func(done, total int) // called now and then with the number of calls
}

// Recording are how long the recorder kept threads of the program to hash and copy payloads, between calls.
type Recording struct {
	NS int64 `json:"ns"`
	// Copies sums up the payloads of copies, null if none was hashed or copied.
	Copies *format.RecordedCopies `json:"copies"`
}

// By are the groups that Options.By may name.
var By = []string{"step", "thread", "stream", "kernel"}

// Peak are the call after which most device memory was allocated.
type Peak struct {
	Call  uint64 `json:"call"`
	Func  string `json:"func"`
	Time  int64  `json:"t_ns"`
	Bytes uint64 `json:"bytes"` // that the call allocated
}

// Steps are the steps of the trace: how they are known, and how long they took.
type Steps struct {
	Source  string `json:"source"` // marked, found or none
	Count   int    `json:"count"`
	Typical int    `json:"typical"` // that are like most others; the times are of these
	P50NS   int64  `json:"p50_ns"`
	MinNS   int64  `json:"min_ns"`
	P99NS   int64  `json:"p99_ns"`
	MaxNS   int64  `json:"max_ns"`
	Why     string `json:"why,omitempty"` // there are none
	// MeanNS is how long a typical step took on average, and Threads are where that time went, the thread that was
	// longest in calls first. Stats have both.
	MeanNS  int64    `json:"mean_ns,omitempty"`
	Threads []Thread `json:"threads,omitempty"`
}

// Idle are a time in which a stream had nothing to do, and what the thread that ended it was doing.
type Idle struct {
	Stream  string `json:"stream"`
	Process uint32 `json:"process"`
	Time    int64  `json:"t_ns"`
	NS      int64  `json:"ns"`
	Next    string `json:"next"` // task that ended it
	Step    int    `json:"step"` // that it ended in, -1 for none
	// Call is the longest call of the thread in that time, null where it made none; InCallNS is its part of the time, InCallsNS that of
	// all calls of the thread, RecordingNS that of the recorder between them. The rest is the program's own.
	Call      *uint64 `json:"call"`
	Func      string  `json:"func"`
	InCallNS  int64   `json:"in_call_ns"`
	InCallsNS int64   `json:"in_calls_ns"`

	RecordingNS int64 `json:"recording_ns"`
}

// Range are the ranges, or the marks, of one name. Those that the trace does not show the end of count to its end.
type Range struct {
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

// Retry are the repeated launches of one kernel after one error.
type Retry struct {
	Kernel string `json:"kernel"`
	Code   int64  `json:"code"`
	Name   string `json:"name"`
	Count  uint64 `json:"count"`
	First  uint64 `json:"first"` // the call that failed
}

// Function are the calls of one function, measured on the host.
type Function struct {
	Func    string `json:"func"`
	Calls   uint64 `json:"calls"`
	Failed  uint64 `json:"failed"`
	TotalNS int64  `json:"total_ns"`
	MeanNS  int64  `json:"mean_ns"`
	MinNS   int64  `json:"min_ns"`
	P50NS   int64  `json:"p50_ns"`
	P99NS   int64  `json:"p99_ns"`
	MaxNS   int64  `json:"max_ns"`
	// RecordingNS is how long the recorder kept the threads after these calls, in no call, to hash and copy payloads.
	RecordingNS int64 `json:"recording_ns"`
}

// Task are the launches of one kernel, or the copies of one direction. HostNS is the time of the calls, RecordingNS the time
// that the recorder took after them.
type Task struct {
	Name        string `json:"name"`
	Count       uint64 `json:"count"`
	Bytes       uint64 `json:"bytes,omitempty"`
	HostNS      int64  `json:"host_ns"`
	RecordingNS int64  `json:"recording_ns,omitempty"`
	Streams     int    `json:"streams"`
	// Measured counts those whose time on the device was measured; DeviceNS adds these times up, and the others tell of them.
	Measured uint64 `json:"measured"`
	DeviceNS int64  `json:"device_ns"`
	P50NS    int64  `json:"device_p50_ns"`
	P99NS    int64  `json:"device_p99_ns"`
	MaxNS    int64  `json:"device_max_ns"`
	// Rate, of copies, is bytes per second: of those that were measured, or else of all by what brackets them. Then it
	// was that much or more.
	Rate        float64 `json:"bytes_per_s,omitempty"`
	RateAtLeast bool    `json:"bytes_per_s_at_least,omitempty"`
	Sizes       []Task  `json:"sizes,omitempty"` // of copies, by size class, the smallest first

	times         Histogram // measured
	measuredBytes uint64
	bracketNS     int64
	lanes         []bool
	sizes         [len(timeline.SizeClasses)]*Task
}

// issued takes in a task as its call tells of it, and the time of the call.
func (k *Task) issued(t *timeline.Task, host int64) {
	k.Count++
	k.Bytes += t.Bytes
	k.HostNS += host
	for t.Lane >= len(k.lanes) {
		k.lanes = append(k.lanes, false)
	}
	if !k.lanes[t.Lane] {
		k.lanes[t.Lane] = true
		k.Streams++
	}
}

// ended takes in the times of a task.
func (k *Task) ended(t *timeline.Task) {
	k.bracketNS += t.To - t.From
	if t.Measured {
		k.times.Add(t.To - t.From)
		k.measuredBytes += t.Bytes
	}
}

func (k *Task) finish() {
	k.Measured, k.DeviceNS = k.times.n, k.times.sum
	k.P50NS, k.P99NS, k.MaxNS = k.times.Percentile(50), k.times.Percentile(99), k.times.max
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

// Lane are the tasks of one stream.
type Lane struct {
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
	// RecordingNS is how long the recorder kept the threads that issued the tasks, each since its task before. The stream may have had
	// nothing to do for that long because of the recorder.
	RecordingNS int64 `json:"recording_ns"`
	// Bound is "host" where the stream had certainly nothing to do for half of its time or more, without what the recorder may have taken, "device" where the host has
	// waited for it that long or it is known to have worked, else "" for what the brackets do not tell, or nothing where the host's time
	// is not known.
	Bound string `json:"bound"`
}

// bound judges a stream by what the brackets allow.
func (l *Lane) bound() string {
	recording := min(l.RecordingNS, l.IdleAtLeastNS)
	idle := l.IdleAtLeastNS - recording
	span := l.BusyAtMostNS + idle
	switch {
	case span == 0:
		return ""
	case 2*idle >= span:
		return "host"
	case 2*l.WaitedNS >= span, l.Measured == l.Tasks:
		return "device"
	}
	return ""
}

// Untimed tells whether no call took any time: profiles that tell of the device alone have calls for its tasks, and nothing of the host's time.
func (s *Stats) Untimed() bool {
	return !slices.ContainsFunc(s.Functions, func(f Function) bool { return f.TotalNS > 0 })
}

// Error counts one error of one function.
type Error struct {
	Func  string `json:"func"`
	Code  int64  `json:"code"`
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

const (
	// longest is how many idle times are told.
	longest = 10
	// maxNames bounds the names of ranges that are told apart: programs number them.
	maxNames   = 10_000
	otherNames = "(other names)"
)

// New sums a trace up. What it holds does not grow with the number of calls, unless sums by step are asked for without Top and Step.
func New(r *format.Reader, m *api.Model, o *Options) (*Stats, error) {
	x := &summer{funcs: map[string]*funcSum{}, errors: map[errKey]*Error{}, kernels: map[string]*Task{}, copies: map[string]*Task{}, hidden: map[[2]string]int{},
		ranges: map[rangeKey]int{}, retries: map[retryKey]int{}, idles: timeline.NewIdles(longest),
		s: &Stats{HiddenSyncs: []HiddenSync{}, Retries: []Retry{}, Ranges: []Range{}, Functions: []Function{}, Kernels: []Task{}, Copies: []Task{},
			Streams: []Lane{}, Idle: []Idle{}, Errors: []Error{}}}
	if o == nil {
		o = &Options{}
	}
	if o.By != "" && !slices.Contains(By, o.By) {
		return nil, fmt.Errorf("no sums by %q: step, thread, stream or kernel", o.By)
	}
	var err error
	if x.w, err = timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress}); err != nil {
		return nil, err
	}
	x.within.w, x.within.named.model = x.w, x.w.Model
	v := &timeline.Visitor{Call: x.call, Task: x.task, Range: x.rangeOf, Step: x.step, Memory: x.memory}
	if o.By != "" {
		x.groups = newGroups(o, x.w)
	}
	if err := x.w.Run(v); err != nil {
		return nil, err
	}
	if x.s.Ranks, err = ranks.Compare(r, m, longest); err != nil {
		return nil, err
	}
	c, err := r.Counts()
	if err != nil {
		return nil, err
	}
	x.s.Scope = r.Completeness().Scope()
	x.s.Unfinished, x.s.Gaps, x.s.CallsLost, x.s.Cut = c.Unfinished, len(r.Gaps()), c.GapCalls, !r.Complete()
	return x.finish()
}

// A summer sums up what a Walk tells.
type summer struct {
	w       *timeline.Walk
	s       *Stats
	byID    []*funcSum // of the functions that the model knows
	funcs   map[string]*funcSum
	errors  map[errKey]*Error
	kernels map[string]*Task
	copies  map[string]*Task
	lanes   []laneSum
	hidden  map[[2]string]int
	ranges  map[rangeKey]int
	retries map[retryKey]int
	idles   *timeline.Idles
	threads []latest
	steps   Histogram
	within  within
	groups  *groups
}

type funcSum struct {
	Function
	times Histogram
}

type errKey struct {
	name string
	code int64
}

type rangeKey struct {
	domain, name string
	mark         bool
}

type retryKey struct {
	kernel string
	code   int32
}

type laneSum struct {
	Lane
	until     int64 // up to which the stream's time is accounted for
	recording int64 // of the thread that issued its latest task, up to that
	thread    uint32
}

// latest is the latest call of a thread, and how long the recorder has kept the thread so far.
type latest struct {
	recording int64
	fn        *funcSum
	tasks     [2]*Task
}

// recorded takes in how long the recorder has kept a thread after the call before this one.
func (x *summer) recorded(h *timeline.HostCall) *latest {
	for int(h.Thread) >= len(x.threads) {
		x.threads = append(x.threads, latest{})
	}
	l := &x.threads[h.Thread]
	if h.Recording == 0 {
		return l
	}
	x.s.Recording.NS += h.Recording
	l.recording += h.Recording
	if l.fn != nil {
		l.fn.RecordingNS += h.Recording
	}
	for _, t := range l.tasks {
		if t != nil {
			t.RecordingNS += h.Recording
		}
	}
	return l
}

func (x *summer) function(h *timeline.HostCall) *funcSum {
	id := 0
	if h.Fn != nil {
		id = int(h.Fn.ID)
		if id < len(x.byID) && x.byID[id] != nil {
			return x.byID[id]
		}
	}
	f := x.funcs[h.Name]
	if f == nil {
		f = &funcSum{Function: Function{Func: h.Name}}
		x.funcs[h.Name] = f
	}
	if h.Fn != nil {
		for id >= len(x.byID) {
			x.byID = append(x.byID, nil)
		}
		x.byID[id] = f
	}
	return f
}

func (x *summer) call(h *timeline.HostCall, k *timeline.Task) error {
	s := x.s
	s.Calls++
	f, l := x.function(h), x.recorded(h)
	f.Calls++
	l.fn, l.tasks = f, [2]*Task{}
	if h.Failed() {
		f.Failed++
		s.Failed++
		key := errKey{h.Name, int64(int32(h.Ret))}
		if x.errors[key] == nil {
			x.errors[key] = &Error{Func: h.Name, Code: key.code, Name: x.w.Model.ErrorName(key.code)}
		}
		x.errors[key].Count++
	}
	if h.Flags&format.Unfinished == 0 {
		f.times.Add(h.End - h.Start)
	}
	if h.Retries != timeline.NoCall {
		x.retry(h)
	}
	if k != nil {
		l.tasks = x.issued(h, k, l)
	}
	x.within.call(h, k)
	if x.groups != nil {
		x.groups.call(h, k)
	}
	return nil
}

func (x *summer) retry(h *timeline.HostCall) {
	s := x.s
	key := retryKey{cmp.Or(h.Kernel, "unknown kernel"), h.RetriedCode}
	i, ok := x.retries[key]
	if !ok {
		i = len(s.Retries)
		x.retries[key] = i
		s.Retries = append(s.Retries, Retry{Kernel: key.kernel, Code: int64(key.code), Name: x.w.Model.ErrorName(int64(key.code)), First: h.Retries})
	}
	s.Retries[i].Count++
}

// issued takes in a task with its call, and returns the sums that they are part of.
func (x *summer) issued(h *timeline.HostCall, k *timeline.Task, by *latest) [2]*Task {
	for k.Lane >= len(x.lanes) {
		x.lanes = append(x.lanes, laneSum{})
	}
	l, host := &x.lanes[k.Lane], h.End-h.Start
	if h.Flags&format.Unfinished != 0 {
		host = 0
	}
	if k.Pageable {
		key := [2]string{k.Fn.Name, k.Name}
		j, ok := x.hidden[key]
		if !ok {
			j = len(x.s.HiddenSyncs)
			x.hidden[key] = j
			x.s.HiddenSyncs = append(x.s.HiddenSyncs, HiddenSync{Func: key[0], Name: key[1], First: k.Call})
		}
		hs := &x.s.HiddenSyncs[j]
		hs.Count++
		hs.Bytes += k.Bytes
		hs.HostNS += host
	}
	switch k.Kind {
	case api.Kernel:
		l.Launches++
	case api.Copy:
		l.Copies++
	}
	if l.thread == h.Thread {
		l.RecordingNS += by.recording - l.recording
	}
	l.thread, l.recording = h.Thread, by.recording
	sums := x.taskStats(k)
	for _, t := range sums {
		if t != nil {
			t.issued(k, host)
		}
	}
	return sums
}

// taskStats returns the sums that a task is part of: of its name, and of the size of a copy.
func (x *summer) taskStats(k *timeline.Task) [2]*Task {
	group := x.kernels
	switch k.Kind {
	case api.Kernel:
	case api.Copy:
		group = x.copies
	default:
		return [2]*Task{}
	}
	t := group[k.Name]
	if t == nil {
		t = &Task{Name: k.Name}
		group[k.Name] = t
	}
	if k.Kind != api.Copy {
		return [2]*Task{t}
	}
	class := timeline.SizeClass(k.Bytes)
	if t.sizes[class] == nil {
		t.sizes[class] = &Task{Name: timeline.SizeClasses[class].Name}
	}
	return [2]*Task{t, t.sizes[class]}
}

// task takes in the times of a task. Those of a stream come in its order.
func (x *summer) task(k *timeline.Task) error {
	l := &x.lanes[k.Lane]
	if l.Tasks == 0 {
		l.until = k.From
	}
	l.Tasks++
	if k.Measured {
		l.Measured++
	}
	if idle := k.From - l.until; idle > 0 {
		l.IdleAtLeastNS += idle
		l.until = k.From
	}
	if busy := k.To - l.until; busy > 0 {
		l.BusyAtMostNS += busy
		l.until = k.To
	}
	for _, t := range x.taskStats(k) {
		if t != nil {
			t.ended(k)
		}
	}
	if !x.w.Lanes[k.Lane].Synchronous {
		x.idles.Task(k)
	}
	return nil
}

func (x *summer) memory(p *timeline.MemoryPoint) error {
	if s := x.s; p.Total > s.PeakDeviceBytes {
		s.PeakDeviceBytes, s.Peak = p.Total, &Peak{p.Call.Index, p.Call.Name, p.Call.Start, p.Object.Size}
	}
	return nil
}

func (x *summer) step(p *timeline.Step) error {
	x.within.step(p)
	if x.groups != nil {
		if err := x.groups.stepped(p); err != nil {
			return err
		}
	}
	if p.Open {
		return nil
	}
	x.s.Steps.Count++
	if p.Typical {
		x.steps.Add(p.To - p.From)
	}
	return nil
}

func (x *summer) rangeOf(r *timeline.Range) error {
	s, d := x.s, r.To-r.From
	key := rangeKey{r.Domain, r.Name, r.Mark}
	j, ok := x.ranges[key]
	if !ok && len(x.ranges) >= maxNames {
		key.name = otherNames
		j, ok = x.ranges[key]
	}
	if !ok {
		j = len(s.Ranges)
		x.ranges[key] = j
		s.Ranges = append(s.Ranges, Range{Domain: key.domain, Name: key.name, Mark: r.Mark, MinNS: d})
	}
	rs := &s.Ranges[j]
	rs.Count++
	if r.Open {
		rs.Open++
	}
	rs.TotalNS, rs.MinNS, rs.MaxNS = rs.TotalNS+d, min(rs.MinNS, d), max(rs.MaxNS, d)
	return nil
}

// SumSteps sums steps up by how long the typical ones took.
func SumSteps(w *timeline.Walk, count int, typical *Histogram) Steps {
	return Steps{Source: string(w.Steps.Source), Why: w.Steps.Why, Count: count, Typical: int(typical.n), P50NS: typical.Percentile(50), MinNS: typical.min,
		P99NS: typical.Percentile(99), MaxNS: typical.max}
}

func (x *summer) finish() (*Stats, error) {
	s, w := x.s, x.w
	if s.Calls > 0 {
		s.SpanNS = w.End - w.Start
	}
	s.GivenUp = w.GivenUp
	s.Recording.Copies = w.Reader.Meta().Tracer.Copies
	s.Steps = SumSteps(w, s.Steps.Count, &x.steps)
	s.Steps.Threads, s.Steps.MeanNS = x.within.list()
	for _, f := range x.funcs {
		if d := &f.times; d.n > 0 {
			f.TotalNS, f.MeanNS, f.MinNS, f.MaxNS, f.P50NS, f.P99NS = d.sum, d.sum/int64(d.n), d.min, d.max, d.Percentile(50), d.Percentile(99)
		}
		s.Functions = append(s.Functions, f.Function)
	}
	slices.SortFunc(s.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), cmp.Compare(a.Func, b.Func))
	})
	for _, e := range x.errors {
		s.Errors = append(s.Errors, *e)
	}
	slices.SortFunc(s.Errors, func(a, b Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Func, b.Func), cmp.Compare(a.Code, b.Code))
	})
	collect := func(g map[string]*Task) []Task {
		out := []Task{}
		for _, k := range g {
			k.finish()
			out = append(out, *k)
		}
		slices.SortFunc(out, func(a, b Task) int {
			return cmp.Or(cmp.Compare(b.DeviceNS, a.DeviceNS), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
		})
		return out
	}
	s.Kernels, s.Copies = collect(x.kernels), collect(x.copies)
	for i, l := range w.Lanes {
		var sum Lane
		if i < len(x.lanes) {
			sum = x.lanes[i].Lane
		}
		sum.Stream, sum.Process, sum.Device, sum.WaitedNS = l.Name, l.Process, l.Device, l.Waited
		if sum.Bound = sum.bound(); l.Synchronous || (sum.Bound == "host" && s.Untimed()) {
			sum.Bound = ""
		}
		s.Streams = append(s.Streams, sum)
	}
	slices.SortFunc(s.Ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
	})
	idles, err := x.idles.Longest(w.Reader)
	if err != nil {
		return nil, err
	}
	for _, d := range idles {
		l := &w.Lanes[d.Lane]
		g := Idle{Stream: l.Name, Process: l.Process, Time: d.From, NS: d.To - d.From, Next: d.Task.Name, Step: d.Task.Step, InCallNS: d.InCallNS, InCallsNS: d.InCallsNS, RecordingNS: d.RecordingNS}
		if d.Call != timeline.NoCall {
			g.Call, g.Func = &d.Call, d.Func
		}
		s.Idle = append(s.Idle, g)
	}
	if x.groups != nil {
		s.Groups = x.groups.list()
	}
	return s, nil
}
