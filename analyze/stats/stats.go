// Package stats sums up a trace: functions, kernels, copies, streams, idle times, steps, and groups by step, thread, stream, kernel or operator.
//
// New reads the trace once, in the order of its calls, in bounded memory. acltrace stats calls it, and package diff shares its
// steps and its Histogram. Package report prints the sums. This package writes nothing.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
	"github.com/acltrace/acltrace/timeline/step"
)

// Stats sums up a trace, as `acltrace stats --json` prints it. Times are nanoseconds. Percentiles over more than 512 times
// have an error below 0.4%. All other values are exact.
type Stats struct {
	format.Scope
	Selected
	Calls     uint64     `json:"calls"`     // number of selected calls
	Failed    uint64     `json:"failed"`    // calls that returned an error, without those in answered
	Answered  uint64     `json:"answered"`  // questions that an error answered with no, and repeated initializations
	SpanNS    int64      `json:"span_ns"`   // from the first start to the last end of a call
	Steps     Steps      `json:"steps"`     // steps and their durations
	Functions []Function `json:"functions"` // sums by function, longest total first
	Kernels   []Task     `json:"kernels"`   // sums by kernel, longest first: on the device, then in calls
	Copies    []Task     `json:"copies"`    // sums by copy direction, in the same order
	Streams   []Lane     `json:"streams"`   // sums by stream
	Graphs    []GraphSum `json:"graphs"`    // sums by role of graphs, in the same order
	Answer
	Idle   []Idle  `json:"idle"`   // longest idle times on streams, at most ten
	Errors []Error `json:"errors"` // returned errors by function and code, most frequent first
	// Recording is the recorder's time in the program's threads, between calls. It is not the program's own time.
	Recording Recording `json:"recording"`
	// PeakDeviceBytes is the most device memory in use on all devices by all processes together; physical memory counts from its creation, mapped or not.
	PeakDeviceBytes uint64 `json:"peak_device_bytes"`
	// Peak is the call that reached the maximum, nil if nothing was allocated.
	Peak *Peak `json:"peak"`
	// DeviceMemory is the most memory in use on each device by each process, most first.
	DeviceMemory []DeviceMemory `json:"device_memory"`
	// HiddenSyncs are asynchronous copies with pageable host memory, by function: they may have waited for the stream.
	HiddenSyncs []HiddenSync `json:"hidden_synchronizations"`
	// Ranges are the program's named ranges and marks, by domain and name.
	Ranges []Range `json:"ranges"`
	// Retries are failed launches that the same thread repeated with success, by kernel and error.
	Retries []Retry `json:"retries"`
	Missing
	// Ranks are the waits at collectives, nil for a single rank and for a selection.
	Ranks *ranks.Meetings `json:"ranks,omitempty"`
	// Groups are the sums by Options.By.
	Groups []Group `json:"-"`
}

// Answer is the first screen of the statistics.
type Answer struct {
	// Findings are likely reasons for lost time and wrong results.
	Findings []Finding `json:"findings"`
	// DeviceTimes is true if the program was recorded with device times.
	DeviceTimes bool     `json:"device_times"`
	Imported    bool     `json:"imported,omitempty"`  // the trace was a profiler's: arguments and errors are not known
	Divided     bool     `json:"gaps_divided"`        // the recording divided the time between calls into running and blocked
	Probes      bool     `json:"by_probes,omitempty"` // recorded by eBPF, which does not divide this time
	StartUp     *StartUp `json:"start_up"`            // time before the first typical step, nil if there is none, and for a selection
	Shares      *Shares  `json:"shares"`              // nil if no call has a duration
	Bound       *Bound   `json:"bound"`               // what most of a typical step waits for, nil if the trace does not show it
	Devices     []Device `json:"devices"`             // sums over the streams of each device
	// Asked are processes that ended by a signal that asks programs to end, as SIGTERM.
	Asked []Asked `json:"asked_to_end,omitempty"`
}

// Missing counts calls and ends of tasks that the trace does not have.
type Missing struct {
	// GivenUp is tasks without a known end; they count as busy up to the trace's end.
	GivenUp    uint64 `json:"given_up,omitempty"`
	Unfinished uint64 `json:"unfinished,omitempty"` // calls that never returned; times do not include them
	Gaps       int    `json:"gaps,omitempty"`       // times with lost calls
	CallsLost  uint64 `json:"calls_lost,omitempty"` // calls known to be lost
	Cut        bool   `json:"cut,omitempty"`        // the file has no end, as if the recorder crashed
}

// Selected describes the calls in the sums. Selection is empty for all calls. If the selection is not a whole period, Stats has no
// Streams, Devices, Idle, Ranges, Shares and Steps.Threads: other calls and tasks are part of these times.
type Selected struct {
	Selection string `json:"selection,omitempty"` // flags that select calls
	CallsOf   uint64 `json:"calls_of,omitempty"`  // calls in the trace, if calls are selected
	Marks     uint64 `json:"marks,omitempty"`     // marks of operators among what is selected; they are not counted as calls
}

// Options choose New's sums. nil means the zero value.
type Options struct {
	Select *timeline.Selection // calls, nil for all
	// By selects Groups by step, thread, stream, kernel, operator or function. Steps are in time order, and calls outside steps follow.
	// Kernels are ordered by measured time on the device, then like other groups by time in calls. Calls without a task have no stream. Only launches have a kernel.
	By string
	// Top limits Groups to those with the most time in calls, or to the longest steps. The sum of the others follows. 0
	// means no limit.
	Top int
	// Step receives each step as it ends, if By is "step". Groups then has only the calls outside steps, and steps take
	// no memory.
	Step     func(*Group) error
	Progress func(done, total int) // called now and then with the calls read and the total
}

// Recording is the time that the program's threads spent in the recorder between calls, to hash and copy payloads.
type Recording struct {
	NS int64 `json:"ns"` // time in the recorder, all threads of all processes
	// Copies are the recorded copies of the whole trace, nil if there are none.
	Copies *format.RecordedCopies `json:"copies"`
	// Processes are the processes with a time in the recorder, if the trace has several processes.
	Processes []ProcessRecording `json:"processes,omitempty"`
}

// ProcessRecording is the time that the threads of a process spent in the recorder.
type ProcessRecording struct {
	Process int   `json:"process"`        // process id
	Rank    *int  `json:"rank,omitempty"` // rank of the process
	NS      int64 `json:"ns"`             // time in the recorder
	SpanNS  int64 `json:"span_ns"`        // from the first start to the last end of its calls

	first, end int64
}

// Much reports whether the recorder took more than a hundredth of the time of the trace, or of a process.
func (s *Stats) Much() bool {
	if len(s.Recording.Processes) > 0 {
		return slices.ContainsFunc(s.Recording.Processes, func(p ProcessRecording) bool { return p.SpanNS > 0 && 100*p.NS > p.SpanNS })
	}
	return s.SpanNS > 0 && 100*s.Recording.NS > s.SpanNS
}

// By has the values for Options.By.
var By = []string{"step", "thread", "stream", "kernel", "operator", "shape", "function"}

// DeviceMemory is the most memory that a process has used on a device.
type DeviceMemory struct {
	Process   int    `json:"process"`        // process id
	Rank      *int   `json:"rank,omitempty"` // rank of the process
	Device    int    `json:"device"`         // device number, -1 if not known
	PeakBytes uint64 `json:"peak_bytes"`     // most memory in use
	Call      uint64 `json:"call"`           // call number
	Func      string `json:"func"`           // function

	process uint32 // process ids of two hosts may be alike
}

// SameProcess reports whether one process used both memories.
func (m *DeviceMemory) SameProcess(o *DeviceMemory) bool { return m.process == o.process }

// Peak is the call that reached PeakDeviceBytes.
type Peak struct {
	Call  uint64 `json:"call"`  // call number
	Func  string `json:"func"`  // function
	Time  int64  `json:"t_ns"`  // start of the call
	Bytes uint64 `json:"bytes"` // allocated by the call
}

// Steps sums up a trace's steps.
type Steps struct {
	Source  string `json:"source"`            // marked, found or none
	By      string `json:"by,omitempty"`      // what separates them: ranges and their name, waits, copies to the host, copies of inputs, a kernel or a task
	Process int    `json:"process,omitempty"` // process id, if the trace has several processes
	Rank    *int   `json:"rank,omitempty"`    // rank of that process
	Count   int    `json:"count"`             // number of whole steps
	Typical int    `json:"typical"`           // steps that are like most others; the times are theirs
	P50NS   int64  `json:"p50_ns"`            // median duration
	MinNS   int64  `json:"min_ns"`            // shortest duration
	P99NS   int64  `json:"p99_ns"`            // 99th percentile of durations
	MaxNS   int64  `json:"max_ns"`            // longest duration
	Why     string `json:"why,omitempty"`     // reason for no steps
	// Unrecorded is the number of other steps: ranges mark them, and the recording left their calls out.
	Unrecorded int `json:"unrecorded,omitempty"`
	// WarmUpNS is the duration of the first step if it takes more than ten times the median: it is not typical. 0 if it does not.
	WarmUpNS int64      `json:"warm_up_ns,omitempty"`
	Eager    int        `json:"eager,omitempty"`               // steps that run no graph, if others do
	Kinds    []StepKind `json:"kinds,omitempty"`               // steps by the graph that they run, most first, if they differ; only in stats
	Outside  uint64     `json:"launches_in_no_step,omitempty"` // launches of the process before, between and after whole steps, as for warm-up
	Inside   uint64     `json:"-"`                             // launches of the process in whole steps
	MeanNS   int64      `json:"mean_ns,omitempty"`             // mean duration of typical steps; only in stats
	Threads  []Thread   `json:"threads,omitempty"`             // shares of mean_ns by thread: the thread that makes the steps, then most time in calls first; only in stats
	Longest  *LongStep  `json:"longest,omitempty"`             // longest typical step, on the thread that made it; only in stats
}

// Idle is a time without work on a stream, and the activity of the thread that ended it.
type Idle struct {
	Stream    string  `json:"stream"`         // stream name
	Process   int     `json:"process"`        // process id
	Rank      *int    `json:"rank,omitempty"` // rank of the process
	Time      int64   `json:"t_ns"`           // begin of the idle time
	NS        int64   `json:"ns"`             // its duration
	Next      string  `json:"next"`           // name of the task that ended it
	Step      int     `json:"step"`           // whole step of that task, -1 for none, and for a process that does not make the steps
	Thread    string  `json:"thread"`         // name of the thread that launched that task
	Call      *uint64 `json:"call"`           // longest call meanwhile on that thread, nil for none
	Func      string  `json:"func"`           // function of that call
	InCallNS  int64   `json:"in_call_ns"`     // part of the time in that call
	InCallsNS int64   `json:"in_calls_ns"`    // part of the thread's time in calls

	RecordingNS int64 `json:"recording_ns"` // part of the time in the recorder; the rest is the program's own

	BlockedNS int64 `json:"blocked_ns"` // part of the rest in which the thread did not run

	Mostly FindingKind `json:"mostly"` // longest part of the time: other_calls, recording, blocked or own_time
}

// mostly returns the longest part of an idle time.
func (d *Idle) mostly() FindingKind {
	switch own := d.NS - d.InCallsNS - d.RecordingNS; {
	case 2*d.BlockedNS > own && own > d.InCallsNS:
		return Blocked
	case d.RecordingNS > max(own, d.InCallsNS):
		return Recorder
	case d.Call == nil || own > d.InCallsNS:
		return OwnTime
	}
	return OtherCalls
}

// Range sums up ranges or marks with one name. Ranges without an end count to the trace's end.
type Range struct {
	Domain  string `json:"domain"`   // domain of the markers, empty for the default one
	Name    string `json:"name"`     // name of the ranges or marks
	Mark    bool   `json:"mark"`     // they are marks, which have no duration
	Count   uint64 `json:"count"`    // number of ranges or marks
	Open    uint64 `json:"open"`     // number without an end
	TotalNS int64  `json:"total_ns"` // summed duration; ranges without an end count to the trace's end
	MinNS   int64  `json:"min_ns"`   // shortest duration
	MaxNS   int64  `json:"max_ns"`   // longest duration
}

// HiddenSync sums up copies by one function in one direction that may have waited.
type HiddenSync struct {
	Func   string `json:"func"`    // function
	Name   string `json:"name"`    // copy HtoD or copy DtoH
	Count  uint64 `json:"count"`   // number of copies
	Bytes  uint64 `json:"bytes"`   // copied bytes
	HostNS int64  `json:"host_ns"` // time in these calls
	First  uint64 `json:"first"`   // number of the first call
}

// Retry sums up one kernel's repeated launches after one error.
type Retry struct {
	Kernel string `json:"kernel"` // kernel name
	Code   int64  `json:"code"`   // error of the failed launch
	Name   string `json:"name"`   // error name
	Count  uint64 `json:"count"`  // number of failed launches that were repeated
	First  uint64 `json:"first"`  // number of the first failed call
}

// Function sums up one function's calls. Times are on the host.
type Function struct {
	Func        string `json:"func"`         // function name
	Calls       uint64 `json:"calls"`        // number of calls, with unfinished ones
	Failed      uint64 `json:"failed"`       // calls that returned an error
	TotalNS     int64  `json:"total_ns"`     // summed duration on the host
	MeanNS      int64  `json:"mean_ns"`      // mean duration
	MinNS       int64  `json:"min_ns"`       // shortest duration
	P50NS       int64  `json:"p50_ns"`       // median duration
	P99NS       int64  `json:"p99_ns"`       // 99th percentile of durations
	MaxNS       int64  `json:"max_ns"`       // longest duration
	RecordingNS int64  `json:"recording_ns"` // time in the recorder after these calls
}

// Task sums up one kernel's launches, or copies in one direction. HostNS is the calls' time, RecordingNS
// the recorder's time after them.
type Task struct {
	Name        string  `json:"name"`                           // kernel, copy direction, or size class
	Demangled   string  `json:"demangled,omitempty"`            // kernel's name in the C++ source
	Count       uint64  `json:"count"`                          // launches or copies
	Bytes       uint64  `json:"bytes,omitempty"`                // copied bytes
	HostNS      int64   `json:"host_ns"`                        // time in the calls
	RecordingNS int64   `json:"recording_ns,omitempty"`         // time in the recorder after these calls
	Streams     int     `json:"streams"`                        // number of streams with these tasks
	Measured    uint64  `json:"measured"`                       // tasks with a measured time on the device
	DeviceNS    int64   `json:"device_ns"`                      // summed duration of the measured tasks
	P50NS       int64   `json:"device_p50_ns"`                  // median duration of the measured tasks
	P99NS       int64   `json:"device_p99_ns"`                  // 99th percentile of the measured durations
	MaxNS       int64   `json:"device_max_ns"`                  // longest duration of the measured tasks
	Rate        float64 `json:"bytes_per_s,omitempty"`          // bytes per second, from measured copies; a lower bound if none is measured
	RateAtLeast bool    `json:"bytes_per_s_at_least,omitempty"` // bytes_per_s is a lower bound
	Sizes       []Task  `json:"sizes,omitempty"`                // copies by size class, smallest first, with the same keys

	InGraphs uint64 `json:"in_graphs,omitempty"` // launches of the kernel by runs of graphs; they are not in the other values
	// InGraphsNS is an estimate of their time on the device: each takes the mean of the measured launches outside graphs. 0 if none is measured. All
	// together are at most the time of the runs.
	InGraphsNS int64 `json:"in_graphs_by_mean_ns,omitempty"`

	times         Histogram // measured tasks only
	measuredBytes uint64
	bracketNS     int64 // sum over streams: time in which a task may have been there
	lanes         []laneUse
	sizes         [len(timeline.SizeClasses)]*Task
	work          uint64 // of eagerSteps
}

// laneUse is the use of a lane by the tasks of a Task.
type laneUse struct {
	seen  bool
	until int64 // bracketNS counts until then
}

// issued adds a task when its call is known. host is the call's duration.
func (k *Task) issued(t *timeline.Task, host int64) {
	k.Count++
	k.Bytes += t.Bytes
	k.HostNS += host
	if l := grow.At(&k.lanes, t.Lane); !l.seen {
		l.seen = true
		k.Streams++
	}
}

// ended adds a task's times. Tasks of a stream run one after another, so the time between the calls that bracket several of them counts once.
func (k *Task) ended(t *timeline.Task) {
	l := grow.At(&k.lanes, t.Lane)
	k.bracketNS += max(0, t.To-max(t.From, l.until))
	l.until = max(l.until, t.To)
	if t.Measured {
		k.times.Add(t.To - t.From)
		k.measuredBytes += t.Bytes
	}
}

func (k *Task) finish() {
	k.Measured, k.DeviceNS = k.times.n, k.times.sum
	if k.Measured > 0 {
		k.InGraphsNS = int64(float64(k.DeviceNS) / float64(k.Measured) * float64(k.InGraphs))
	}
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

// Lane sums up one stream's tasks.
type Lane struct {
	Stream        string `json:"stream"`           // stream name
	Object        string `json:"object,omitempty"` // its name in cat: stream#3; a default stream has none
	Process       int    `json:"process"`          // process id
	Rank          *int   `json:"rank,omitempty"`   // rank of the process
	Tasks         uint64 `json:"tasks"`            // number of tasks
	Launches      uint64 `json:"launches"`         // number of kernel launches
	Copies        uint64 `json:"copies"`           // number of copies
	Device        int    `json:"device"`           // device number, -1 if not known
	Measured      uint64 `json:"measured"`         // tasks with a measured time; other tasks are bracketed by calls
	BusyAtMostNS  int64  `json:"busy_at_most_ns"`  // time in which it may have had work; exact if all tasks are measured
	IdleAtLeastNS int64  `json:"idle_at_least_ns"` // remaining time between first and last task
	WaitedNS      int64  `json:"waited_ns"`        // time in synchronizations that waited for its tasks
	RecordingNS   int64  `json:"recording_ns"`     // time in the recorder between its tasks' calls, in which it may have been idle
	Bound         string `json:"bound"`            // "host" if idle for half its time or more, without recording_ns; "device" if the host waited that long, or all tasks are measured; otherwise empty
}

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

// Untimed reports whether no call has a duration, as in a device-only profile.
func (s *Stats) Untimed() bool {
	return !slices.ContainsFunc(s.Functions, func(f Function) bool { return f.TotalNS > 0 })
}

// Timed reports whether any task has a measured time on its device.
func (s *Stats) Timed() bool {
	return slices.ContainsFunc(s.Devices, func(d Device) bool { return d.Measured > 0 })
}

// Error counts one function's error.
type Error struct {
	Func  string `json:"func"`  // function
	Code  int64  `json:"code"`  // returned error
	Name  string `json:"name"`  // error name
	Count uint64 `json:"count"` // number of calls that returned it
}

const (
	// longest limits the idle times and waits in Stats.
	longest = 10
	// maxNames limits the range names that are kept apart: programs number them.
	maxNames   = 10_000
	otherNames = "(other names)"
)

// New sums up a trace. Its memory does not grow with the number of calls, unless Options.By asks for all steps.
func New(r *format.Reader, m *api.Model, o *Options) (*Stats, error) {
	x := &summer{funcs: map[string]*funcSum{}, errors: map[errKey]*Error{}, kernels: map[string]*Task{}, copies: map[string]*Task{}, hidden: map[[2]string]int{},
		ranges: map[rangeKey]int{}, retries: map[retryKey]int{}, idles: timeline.NewIdles(longest),
		s: &Stats{HiddenSyncs: []HiddenSync{}, DeviceMemory: []DeviceMemory{}, Retries: []Retry{}, Ranges: []Range{}, Functions: []Function{}, Kernels: []Task{}, Copies: []Task{},
			Streams: []Lane{}, Graphs: []GraphSum{}, Idle: []Idle{}, Errors: []Error{}}}
	if o == nil {
		o = &Options{}
	}
	if o.By != "" && !slices.Contains(By, o.By) {
		return nil, fmt.Errorf("no sums by %q: want %s", o.By, strings.Join(By, ", "))
	}
	sel, err := timeline.NewSelector(r, m, o.Select)
	if err != nil {
		return nil, err
	}
	x.s.Selection, x.part = sel.String(), !sel.Contiguous()
	x.w = timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Progress: o.Progress, Shapes: o.By == "shape"})
	if err := x.w.FindSteps(); err != nil {
		return nil, err
	}
	x.within = NewSplitter(x.w)
	process := x.w.StepRule().Process
	x.startUp.process, x.habits.process, x.operators.process = process, process, process
	x.w.OperatorEnded(func(p *operator.Part) { x.operators.part(x.w, p) })
	v := &timeline.Visitor{All: x.s.Selection != "", Call: x.call, Task: x.task, Range: x.rangeOf, Step: x.step, Memory: x.memory}
	if x.s.Selection == "" {
		if x.checker, err = graphs.New(x.w); err != nil {
			return nil, err
		}
	}
	if o.By != "" {
		x.groups = newGroups(o, x.w)
		if o.By == "operator" {
			v.Operator = x.operator
		}
	}
	if err := x.w.Run(v); err != nil {
		return nil, err
	}
	x.s.Marks = x.w.Marks()
	complete := r.Completeness()
	x.s.Scope, x.s.Cut = complete.Scope(), !r.Complete() && !complete.Recording
	if x.s.Selection != "" {
		if x.s.CallsOf, err = timeline.CallsIn(r, m); err != nil {
			return nil, err
		}
	} else if x.s.Ranks, err = ranks.Compare(r, m, longest); err != nil {
		return nil, err
	}
	from, to := sel.Window()
	for _, g := range complete.Lost {
		if g.From < to && g.To >= from {
			x.s.Gaps++
			x.s.CallsLost += g.Calls
		}
	}
	return x.finish()
}

// A summer collects sums from a Walk.
type summer struct {
	w       *timeline.Walk
	s       *Stats
	part    bool       // the selection is not a whole period
	first   int64      // start of the first call
	end     int64      // of the calls
	byID    []*funcSum // the model's functions
	funcs   map[string]*funcSum
	errors  map[errKey]*Error
	kernels map[string]*Task
	copies  map[string]*Task
	graphs  graphSums
	lanes   []laneSum
	hidden  map[[2]string]int
	ranges  map[rangeKey]int
	retries map[retryKey]int
	idles   *timeline.Idles
	threads []latest
	steps   Histogram
	latest  stepLaunches
	within  *Splitter
	clues
	eager   eagerSteps
	kinds   stepKinds
	groups  *groups
	checker *graphs.Checker // nil for a selection, and without captured graphs
}

// clues are collected for the findings and for idle times.
type clues struct {
	spent   []ProcessRecording // by process
	open    *int               // index of the step that the trace does not end, nil for none
	samples stepSamples
	inUse   uint64 // device memory
	living  living
	odd     oddSteps
	habits  habits
	devices devices
	startUp startUp
	firsts  firstCalls
	noEnds  uint64 // calls whose end was not seen

	operators operatorHabits
}

type funcSum struct {
	Function
	times Histogram
	open  []openCall // that never returned
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
	until     int64 // accounted for until then
	recording int64 // recorder's time in thread up to its latest task
	thread    uint32
}

// latest has a thread's latest call, and the recorder's time in the thread so far.
type latest struct {
	recording int64
	fn        *funcSum
	tasks     [2]*Task
}

// recorded adds the recorder's time between the thread's previous call and this one.
func (x *summer) recorded(h *timeline.HostCall) *latest {
	l := grow.At(&x.threads, int(h.Thread))
	if h.Recording == 0 {
		return l
	}
	if x.w.Selected() {
		x.s.Recording.NS += h.Recording
		x.process(h).NS += h.Recording
	}
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

// process returns the times of a selected call's process.
func (x *summer) process(h *timeline.HostCall) *ProcessRecording {
	p := grow.At(&x.spent, int(x.w.Process(h.Thread)))
	if p.end == 0 {
		p.first, p.end = h.Start, h.Start+1
	}
	return p
}

func (x *summer) function(h *timeline.HostCall) *funcSum {
	known := new(*funcSum)
	if h.Fn != nil {
		if known = grow.At(&x.byID, int(h.Fn.ID)); *known != nil {
			return *known
		}
	}
	f := x.funcs[h.Name]
	if f == nil {
		f = &funcSum{Function: Function{Func: h.Name}}
		x.funcs[h.Name] = f
	}
	*known = f
	return f
}

func (x *summer) call(h *timeline.HostCall, k *timeline.Task) error {
	if h.Profiled() {
		return nil
	}
	s, l := x.s, x.recorded(h)
	x.within.Call(h, k, x.w.Selected())
	if x.s.Selection == "" {
		x.startUp.call(x.w, h, k)
	}
	x.habits.call(x.w, h, k)
	if h.Fn != nil && !h.Failed() && x.w.Process(h.Thread) == x.habits.process {
		x.eager.unused.call(h)
	}
	x.operators.launched(x.w, h, k)
	x.living.call(x.w, h)
	if !x.w.Selected() {
		l.fn, l.tasks = nil, [2]*Task{}
		return nil
	}
	if s.Calls++; s.Calls == 1 {
		x.first = h.Start
	}
	end := x.w.CallEnd(h)
	x.end = max(x.end, end)
	p := x.process(h)
	p.end = max(p.end, end)
	f := x.function(h)
	f.Calls++
	l.fn, l.tasks = f, [2]*Task{}
	if h.Failed() && !h.Wrong() {
		s.Answered++
	}
	if h.Wrong() {
		f.Failed++
		s.Failed++
		key := errKey{h.Name, int64(int32(h.Ret))}
		if x.errors[key] == nil {
			x.errors[key] = &Error{Func: h.Name, Code: key.code, Name: x.w.Model.ErrorName(key.code)}
		}
		x.errors[key].Count++
		x.firsts.fail(x.w, h)
	} else if len(x.firsts.short) > 0 && h.Fn != nil && (h.Fn.Task == api.Kernel || h.Fn.Task == api.GraphRun) {
		x.firsts.launched(x.w.Reader.ProcessOf(h.Thread))
	}
	if h.Flags&format.Unfinished == 0 {
		f.times.Add(h.End - h.Start)
	} else {
		x.unfinished(h, f)
	}
	if h.Retries != timeline.NoCall {
		x.retry(h)
	}
	if k != nil {
		l.tasks = x.issued(h, k, l)
		x.launched(k)
	}
	if x.groups != nil {
		x.groups.call(h, k)
	}
	return x.checker.Call(h, k)
}

// operator adds a part of an operator that begins at a selected call.
func (x *summer) operator(p *operator.Part) error {
	if x.w.Selected() {
		x.groups.operator(p)
	}
	return nil
}

// launched counts the launches of the process that makes the steps, in steps and outside. The run of a graph counts as its launches.
func (x *summer) launched(k *timeline.Task) {
	n := uint64(0)
	switch {
	case x.w.Lanes[k.Lane].Process != x.w.StepRule().Process:
	case k.Kind == api.Kernel:
		n = 1
	case k.Kind == api.GraphRun && k.Content != nil:
		n = k.Content.Launches
	}
	if k.Step < 0 {
		x.s.Steps.Outside += n
		return
	}
	if x.latest.step != k.Step {
		x.latest = stepLaunches{step: k.Step}
	}
	x.latest.n += n
	x.s.Steps.Inside += n
}

// stepLaunches are the launches in a step.
type stepLaunches struct {
	step int
	n    uint64
}

// unfinished adds a call that has not returned. One during which the recording ended is as good as any other.
func (x *summer) unfinished(h *timeline.HostCall, f *funcSum) {
	x.s.Unfinished++
	switch {
	case h.Flags&format.Cut != 0:
	case h.Flags&format.NoEnd != 0:
		if x.noEnds++; x.firsts.noEnd == nil {
			x.firsts.noEnd = &firstCall{call: h.Index, fn: h.Name}
		}
	case h.Hung() && len(f.open) < maxOpen:
		f.open = append(f.open, openCall{h.Index, h.Start, x.w.Process(h.Thread)})
	}
}

func (x *summer) retry(h *timeline.HostCall) {
	s := x.s
	key := retryKey{cmp.Or(x.w.Symbol(h.Kernel), "unknown kernel"), h.RetriedCode}
	i, ok := x.retries[key]
	if !ok {
		i = len(s.Retries)
		x.retries[key] = i
		s.Retries = append(s.Retries, Retry{Kernel: key.kernel, Code: int64(key.code), Name: x.w.Model.ErrorName(int64(key.code)), First: h.Retries})
	}
	s.Retries[i].Count++
}

// issued adds a task with its call, and returns the sums with the task.
func (x *summer) issued(h *timeline.HostCall, k *timeline.Task, by *latest) [2]*Task {
	l, host := x.lane(k.Lane), h.End-h.Start
	if h.Flags&format.Unfinished != 0 {
		host = 0
	}
	if k.Pageable() {
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
		if k.Process == x.w.StepRule().Process {
			x.kinds.eager.copied(k)
		}
	case api.GraphRun:
		x.graphs.issued(k, host)
		if k.Process == x.w.StepRule().Process {
			x.kinds.ran(k)
		}
		x.inGraphs(k)
		x.startUp.graphRun(k)
	}
	if l.thread == h.Thread {
		l.RecordingNS += by.recording - l.recording
	}
	l.thread, l.recording = h.Thread, by.recording
	sums := x.taskStats(k)
	if k.Kind == api.Kernel {
		x.eager.launched(k.Step, sums[0], 1, false)
		if k.Process == x.w.StepRule().Process {
			x.kinds.eager.launched(k.Step, sums[0].Name, sums[0].work)
		}
	}
	for _, t := range sums {
		if t != nil {
			t.issued(k, host)
		}
	}
	return sums
}

// taskStats returns the sums for a task's name, and for a copy's size class.
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
		if t = (&Task{Name: x.w.Symbol(k.Name), work: workOf(k.Name)}); t.Name != k.Name {
			t.Demangled = k.Name
		}
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

// lane returns the sums for a lane of the walk.
func (x *summer) lane(i int) *laneSum { return grow.At(&x.lanes, i) }

// task adds a task's times. Tasks on a stream arrive in order. A task of a damaged trace may arrive without its call.
func (x *summer) task(k *timeline.Task) error {
	l := x.lane(k.Lane)
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
	if k.Kind == api.GraphRun {
		x.graphs.of(k).ended(k)
	}
	if l := &x.w.Lanes[k.Lane]; !l.Synchronous {
		x.idles.Task(k)
		x.devices.task(l, k)
	}
	return nil
}

func (x *summer) memory(p *timeline.MemoryPoint) error {
	switch {
	case p.Process != x.w.StepRule().Process:
	case p.Freed:
		x.inUse -= p.Object.Size
	default:
		x.inUse += p.Object.Size
	}
	from, _ := x.w.Selector().Window()
	x.s.DeviceMemory = AddDeviceMemory(x.s.DeviceMemory, x.w, p, from)
	x.startUp.memory(p)
	if s := x.s; p.Total > s.PeakDeviceBytes || p.Time < from { // the memory in use when the window begins
		s.PeakDeviceBytes, s.Peak = p.Total, &Peak{p.Call.Index, p.Call.Name, p.Call.Start, p.Object.Size}
	}
	return nil
}

// AddDeviceMemory takes the memory in use on one device into the list of all. At the time from, the list begins anew.
func AddDeviceMemory(list []DeviceMemory, w *timeline.Walk, p *timeline.MemoryPoint, from int64) []DeviceMemory {
	i := slices.IndexFunc(list, func(m DeviceMemory) bool { return m.process == p.Process && m.Device == p.Device })
	if i < 0 {
		i = len(list)
		list = append(list, DeviceMemory{Process: w.PID(p.Process), Rank: rankOf(w, p.Process), Device: p.Device, process: p.Process})
	}
	if m := &list[i]; p.Bytes > m.PeakBytes || p.Time < from {
		m.PeakBytes, m.Call, m.Func = p.Bytes, p.Call.Index, p.Call.Name
	}
	return list
}

func (x *summer) step(p *step.Step) error {
	from, to := x.w.Selector().Window()
	whole := x.w.Selected() && p.From >= from && p.To <= to
	_, counts := x.within.Step(p, whole)
	x.habits.step(p.Index, counts)
	x.operators.step(p.Index, counts)
	x.startUp.stepped(p)
	if x.groups != nil {
		if err := x.groups.stepped(p); err != nil {
			return err
		}
	}
	if p.Open {
		x.open = new(p.Index)
	}
	if p.Unrecorded && whole {
		x.s.Steps.Unrecorded++
	}
	whole = whole && !p.Open && !p.Unrecorded
	x.eager.stepped(p, whole)
	x.eager.unused.steps++
	x.kinds.stepped(p, whole)
	if !whole {
		return nil
	}
	x.s.Steps.Count++
	switch {
	case p.WarmUp:
		x.s.Steps.WarmUpNS = p.To - p.From
	case !p.Typical:
		x.odd.add(p)
	default:
		x.steps.Add(p.To - p.From)
		if counts { // else memory may have been freed since the step
			x.samples.Add(stepSample{p.Index, p.To - p.From, x.inUse, x.living.n})
		}
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

// All returns the number of steps with those that were not recorded. Their indexes are below it.
func (s *Steps) All() int { return s.Count + s.Unrecorded }

// SumSteps sums up count steps, given the durations of the typical ones.
func SumSteps(w *timeline.Walk, count int, typical *Histogram) Steps {
	rule := w.StepRule()
	s := Steps{Source: string(rule.Source), By: rule.By(), Why: rule.Why, Count: count, Typical: int(typical.n), P50NS: typical.Percentile(50), MinNS: typical.min,
		P99NS: typical.Percentile(99), MaxNS: typical.max}
	if count > 0 && len(w.Reader.Processes()) > 1 {
		s.Process, s.Rank = w.PID(rule.Process), rankOf(w, rule.Process)
	}
	return s
}

func (x *summer) finish() (*Stats, error) {
	s, w := x.s, x.w
	switch {
	case s.Selection != "":
		s.SpanNS = x.end - x.first
	case s.Calls > 0:
		s.SpanNS = w.End - w.Start
	}
	s.Imported = w.Reader.Meta().CapturedBy == "msprof"
	s.GivenUp, s.DeviceTimes = w.GivenUp, w.Reader.Meta().DeviceTime != nil
	s.Divided, s.Asked, s.Probes = x.within.divided, x.asked(), w.Reader.Meta().CapturedBy == "ebpf"
	s.Recording.Copies = w.Reader.Meta().Tracer.Copies
	for i, p := range x.spent {
		if p.NS > 0 && len(w.Reader.Processes()) > 1 {
			p.SpanNS = p.end - p.first
			p.Process, p.Rank = ProcessOf(w, uint32(i))
			s.Recording.Processes = append(s.Recording.Processes, p)
		}
	}
	slices.SortStableFunc(s.DeviceMemory, func(a, b DeviceMemory) int { return cmp.Compare(b.PeakBytes, a.PeakBytes) })
	x.within.End()
	was := s.Steps
	s.Steps = SumSteps(w, s.Steps.Count, &x.steps)
	if s.Steps.Unrecorded, s.Steps.WarmUpNS = was.Unrecorded, was.WarmUpNS; s.Steps.Count > 0 {
		if x.latest.step < s.Steps.All() || s.Selection != "" {
			x.latest.n = 0 // the latest step is whole
		}
		s.Steps.Outside, s.Steps.Inside = was.Outside+x.latest.n, was.Inside-x.latest.n
	}
	if x.kinds.graphs > 0 {
		s.Steps.Eager = s.Steps.Count - x.kinds.graphs
	}
	s.Steps.Kinds = x.kinds.list(x.startUp.graphs)
	if !x.part {
		s.Bound = x.within.bound()
		s.Steps.Threads, s.Steps.MeanNS = x.within.list()
		s.Shares, s.Devices, s.StartUp = x.within.shares(), x.devices.list(w), x.startUp.list()
		if s.Bound != nil {
			s.Bound.late(s.Devices, int64(s.Bound.Share*float64(x.within.took)))
		}
		if x.within.longest.NS > 0 {
			s.Steps.Longest = x.within.long()
		}
	}
	if s.Steps.Count == 0 && s.Steps.Why == "" {
		s.Steps.Why = "no whole step is selected"
	}
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
			return cmp.Or(cmp.Compare(b.DeviceNS, a.DeviceNS), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(b.Count+b.InGraphs, a.Count+a.InGraphs), cmp.Compare(a.Name, b.Name))
		})
		return out
	}
	s.Graphs = x.graphs.list()
	s.Kernels, s.Copies = collect(x.kernels), collect(x.copies)
	s.capInGraphs()
	if x.groups != nil {
		s.Groups = x.groups.list()
	}
	if x.part {
		s.Ranges, s.Devices = []Range{}, []Device{}
		s.Findings = x.findings()
		return s, nil
	}
	if err := x.streams(); err != nil {
		return nil, err
	}
	s.Findings = x.findings()
	return s, nil
}

// objectName names the stream of a lane, "" for a default stream.
func objectName(l *timeline.Lane) string {
	if l.Stream == nil {
		return ""
	}
	return timeline.Place(timeline.Use{Object: l.Stream})
}

// streams adds up the lanes, and the times in which they were idle.
func (x *summer) streams() error {
	s, w := x.s, x.w
	for i, l := range w.Lanes {
		var sum Lane
		if i < len(x.lanes) {
			sum = x.lanes[i].Lane
		}
		if s.Selection != "" && sum.Tasks == 0 {
			continue
		}
		sum.Stream, sum.Object, sum.Process, sum.Device, sum.WaitedNS, sum.Rank = l.Name, objectName(&l), w.PID(l.Process), l.Device, l.Waited, rankOf(w, l.Process)
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
		return err
	}
	for _, d := range idles {
		l := &w.Lanes[d.Lane]
		g := Idle{Stream: l.Name, Process: w.PID(l.Process), Rank: rankOf(w, l.Process), Time: d.From, NS: d.To - d.From, Next: d.Task.Name, Step: d.Task.Step, Thread: w.ThreadName(d.Task.Thread), InCallNS: d.InCallNS, InCallsNS: d.InCallsNS, RecordingNS: d.RecordingNS, BlockedNS: d.BlockedNS}
		if d.Call != timeline.NoCall {
			g.Call, g.Func = &d.Call, d.Func
		}
		if g.Mostly = g.mostly(); x.open != nil && g.Step == *x.open {
			g.Step = -1
		}
		s.Idle = append(s.Idle, g)
		for j := range s.Devices {
			// The task that ends the stream's idle time ends the device's, too. Other streams may have been busy before.
			v := &s.Devices[j]
			if o := v.LongestIdle; o != nil && v.Device == l.Device && v.Process == g.Process && o.Time+o.NS == g.Time+g.NS && g.NS < 2*o.NS && (o.Next == "" || o.Time == g.Time) {
				at, ns := o.Time, o.NS
				*o = g
				o.Time, o.NS = at, ns
			}
		}
	}
	return nil
}
