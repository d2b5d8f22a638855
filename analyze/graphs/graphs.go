// Package graphs checks captured graphs: their captures, the updates of their tasks, and their runs.
//
// A Checker takes the calls of a Walk. Its findings are faults that a program may not notice: an update that overtakes a run, arguments that
// a graph keeps from its capture, records that are missing, memory that was freed. It reports only what the trace shows: work is unordered if
// nothing may order it, also nothing uncertain. A trace that lacks calls is not checked for order and counts.
//
// Memory is bounded by the number of live graphs and of their tasks in task groups; a run leaves nothing behind.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package graphs

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// A Kind says what a Finding is about.
type Kind string

const (
	KeptArguments   Kind = "kept_arguments"   // a task is released by the host in each run, or its kernel is updated elsewhere, but nothing updates it
	MisfitUpdate    Kind = "misfit_update"    // an update has another number of tasks than its group
	EarlyUpdate     Kind = "early_update"     // an update may change a task before an earlier run of it has ended
	LateUpdate      Kind = "late_update"      // a run may begin, or go on, before the update for it
	UnorderedInput  Kind = "unordered_input"  // a copy to memory of a graph on another stream, and no wait between it and the run
	MissingRecord   Kind = "missing_record"   // runs wait for more records than there are
	ExtraRecord     Kind = "extra_record"     // more records than waits: one is lost, or releases the next run too early
	FreedMemory     Kind = "freed_memory"     // a graph runs after memory that its tasks use was freed
	RefusedCall     Kind = "refused_call"     // a call during a capture failed since it is not allowed then
	UnjoinedStream  Kind = "unjoined_stream"  // a stream joined a capture, and nothing in the capture waits for its last task
	SlowUpdate      Kind = "slow_update"      // runs wait for records that the host makes after their launch
	CapturedStreams Kind = "captured_streams" // the streams of the live graphs are most of those that the device has
)

// A Finding is a fault of a captured graph: the first of its kind, and how many there are.
type Finding struct {
	Kind     Kind    `json:"-"`
	Count    uint64  `json:"-"`
	Call     uint64  `json:"-"`                   // task, update, copy, record or run
	Func     string  `json:"-"`                   // of Call
	Graph    string  `json:"graph,omitempty"`     // for example graph#49
	Kernel   string  `json:"kernel,omitempty"`    // of the task
	Stream   string  `json:"stream,omitempty"`    // of Call
	Thread   string  `json:"thread,omitempty"`    // of Call, if another one captures
	Other    *uint64 `json:"other,omitempty"`     // the call that it is not ordered with, that freed the memory, or that began the capture
	By       string  `json:"by,omitempty"`        // function of Other
	On       string  `json:"on,omitempty"`        // stream of Other
	Object   string  `json:"object,omitempty"`    // the event, word, memory or task group
	Now      string  `json:"now,omitempty"`       // what has the address of freed memory
	Task     *uint64 `json:"task,omitempty"`      // the captured call that uses freed memory
	TaskFunc string  `json:"task_func,omitempty"` // its function
	Code     int64   `json:"code,omitempty"`      // returned error
	Have     uint64  `json:"have,omitempty"`      // tasks in the update, records, or streams
	Want     uint64  `json:"want,omitempty"`      // tasks in the group, waits, or streams of the device
	WaitedNS int64   `json:"waited_ns,omitempty"` // time that runs waited for the host, in nanoseconds
	RunNS    int64   `json:"run_ns,omitempty"`    // time of these runs
	Graphs   uint64  `json:"graphs,omitempty"`    // live graphs
	Before   uint64  `json:"before,omitempty"`    // streams of live graphs before the capture
	Most     uint64  `json:"most,omitempty"`      // largest number of streams of live graphs
	// Holders are the graphs that have these streams after the capture, at most 8, those with most streams first.
	Holders []Holder `json:"holders,omitempty"`
}

// A Holder is the live graphs whose captures the same streams joined.
type Holder struct {
	Graphs  uint64   `json:"graphs"`           // number of graphs
	First   string   `json:"first"`            // the first of them
	Last    string   `json:"last"`             // the latest of them
	Streams uint64   `json:"streams"`          // of all of them
	Joined  []string `json:"joined,omitempty"` // streams that joined each of the captures

	order int // of First
}

// A Checker checks the graphs of a trace. A nil Checker finds nothing.
type Checker struct {
	w     *timeline.Walk
	whole bool // the trace lacks no calls
	hung  bool // a call never returned
	found map[Kind]*Finding

	captures map[*timeline.Object]*capture // by the stream that began them
	joined   map[*timeline.Object]*capture // by captured stream
	graphs   map[*timeline.Object]*graph
	groups   map[*timeline.Object]*taskGroup
	updates  map[*timeline.Object]*update // by stream
	signals  map[timeline.Signal]*external
	grouped  map[string]bool   // kernels that are the only task in a task group
	streams  map[uint32]uint64 // of live graphs, by process

	order *order.Order[*timeline.Object, reach]
	lanes []lane
	hosts []reach  // by process
	work  []uint64 // by process: one more than the latest call that moves or computes data, or updates a task
	next  int      // number of tracked lanes
	writes
}

// New returns a Checker, nil if the trace captures no graph.
func New(w *timeline.Walk) (*Checker, error) {
	captures, err := timeline.Has(w.Reader, w.Model, func(f *api.Func) bool { return f.Capture == api.CaptureBegin })
	if err != nil || !captures {
		return nil, err
	}
	return &Checker{
		w: w, whole: len(w.Reader.Gaps()) == 0, found: map[Kind]*Finding{}, captures: map[*timeline.Object]*capture{}, joined: map[*timeline.Object]*capture{},
		graphs: map[*timeline.Object]*graph{}, groups: map[*timeline.Object]*taskGroup{}, updates: map[*timeline.Object]*update{}, signals: map[timeline.Signal]*external{},
		grouped: map[string]bool{}, streams: map[uint32]uint64{}, order: order.New[*timeline.Object, reach](),
	}, nil
}

// Call takes the next call and its task, nil for none.
func (x *Checker) Call(h *timeline.HostCall, k *timeline.Task) error {
	if x == nil || h.Fn == nil || k == nil && h.Fn.Capture == api.NoCapture && h.Fn.Sync == api.NoSync && len(x.w.Uses()) == 0 && !h.Failed() {
		return nil
	}
	e := x.w.Event()
	if h.Wrong() {
		x.failed(h, e)
	}
	x.hung = x.hung || h.Hung()
	if h.Fn.Capture != api.NoCapture && e.Stream != nil {
		if err := x.boundary(h, e); err != nil {
			return err
		}
	}
	c := x.call(h, k, e)
	switch {
	case e.Part.Update:
		x.updated(h, e, c)
	case e.Captured != nil && e.Captured.Kind == api.Stream:
		x.captured(h, e)
	case k != nil:
		x.ran(h, k, e, c)
	}
	x.ends(h)
	return nil
}

// ends follows the end of objects.
func (x *Checker) ends(h *timeline.HostCall) {
	for _, u := range x.w.Uses() {
		o := u.Object
		if o.Ended != h.Index {
			continue
		}
		if g := x.graphs[o]; g != nil {
			x.end(o, g)
		}
		x.freed(h, o)
	}
}

// find adds a finding. set describes the first one of its kind.
func (x *Checker) find(kind Kind, call uint64, fn string, set func(f *Finding)) {
	f := x.found[kind]
	if f == nil {
		f = &Finding{Kind: kind, Call: call, Func: fn}
		set(f)
		x.found[kind] = f
	}
	f.Count++
}

// Findings returns the findings after the last call, in the order of their calls.
func (x *Checker) Findings() (all []Finding) {
	if x == nil {
		return nil
	}
	for o, g := range x.graphs {
		x.end(o, g)
	}
	for _, f := range x.found {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

// name names an object.
func name(o *timeline.Object) string { return timeline.Place(timeline.Use{Object: o}) }

// streamName names the stream of a call.
func streamName(o *timeline.Object) string {
	if o == nil {
		return "the default stream"
	}
	return name(o)
}

func (s *external) String() string {
	if s.Object != nil {
		return name(s.Object)
	}
	return s.memory
}
