package timeline

import (
	"errors"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/graph"
	"github.com/acltrace/acltrace/timeline/step"
)

// StepRule returns how steps are known. Its Source is step.None if there are none, or if FindSteps was not called.
func (w *Walk) StepRule() *step.Rule {
	if w.steps == nil {
		return &w.noSteps
	}
	return w.steps.Rule()
}

// A Walk goes once through a trace and tells a Visitor what it holds, in the order of time. NewWalk prepares one, which reads little; Run
// goes, once. While it runs, and behind it, its fields may be read by the visitor's functions; it belongs to one goroutine.
//
// Its memory does not grow with the number of calls. It holds the chunks of the file that overlap in time, what lives
// (objects, streams, names), and the tasks and ranges whose end is not known yet, at most maxPending and maxAhead of
// them: some 100 MiB at the most.
type Walk struct {
	Reader *format.Reader
	Model  *api.Model
	// Start is when the first call began, End when the last one ended, as the index of the file has it, or a measured task so far.
	Start, End int64
	Calls      uint64 // that the index of the file counts
	Lanes      []Lane // that have been used so far: a lane is there before anything is told that names it
	// PeakDevice is the greatest sum of live device allocations so far, in bytes.
	PeakDevice uint64
	// GivenUp counts the tasks whose end the Walk has not waited for: see Task.Open.
	GivenUp uint64

	o      WalkOptions
	v      Visitor
	s      *State
	host   HostCall // the current call
	seen   int      // objects
	whole  int64    // until when the trace lacks no call that changes the meaning of later calls
	meter  meter
	depth  depths
	graphs *graph.Graphs[*Object, *Task] // nil if no visitor wants graphs

	ranges  rangeSource  // nil if nobody wants ranges
	steps   *step.Finder // nil if nobody wants steps, or there are none
	noSteps step.Rule    // StepRule if steps is nil

	names []string // of functions, by id

	threadTable
	laneTable
	taskQueue
	memoryUse
}

// threadTable are the threads so far.
type threadTable struct {
	threads []format.Thread
	until   []int64 // end of the thread's calls so far
}

// laneTable are the lanes so far.
type laneTable struct {
	lanes   map[LaneKey]*lane
	latest  *lane   // most recently used lane
	byIndex []*lane // as Walk.Lanes
	shown   int     // number of lanes that the visitor knows
}

// taskQueue are the tasks whose end is not known, and what decides on their ends.
type taskQueue struct {
	tasks   int // number of tasks so far
	pending int // tasks without an end, on all lanes
	wanted  int // of these, in the window
	records map[*Object]record
	failed  map[uint32]attempt // by thread, its latest launch if that failed
	ended   []*Task            // not yet reported
	single  Task               // a task that has ended with its call
}

// memoryUse is the device memory in use.
type memoryUse struct {
	used  map[place]uint64
	total uint64
}

// A rangeSource makes ranges of the calls that begin and end them. It returns nil for a call that does not make one known.
type rangeSource interface {
	note(process uint32, e *Event) (*Range, error)
}

// WalkOptions change what a Walk tells; nil stands for the zero value.
type WalkOptions struct {
	// From and To are a window, in nanoseconds since the beginning of the trace: calls, tasks, ranges and steps that
	// end before From or begin at To or later are not told, each by its own time. Points of counters are told from the
	// beginning, since what they count has begun there. To is 0 for no limit; behind it the Walk reads on only until
	// the tasks have ended that were issued before it.
	From, To int64
	Stacks   bool                  // calls have the data that Stacks learns from
	Progress func(done, total int) // called now and then with the number of calls

}

// A Visitor is told of the parts of a trace as they become known. What it is given is valid until it returns, and must not be changed. A
// function that is nil is not called; an error ends the Walk. The same trace is always told the same in the same order.
//
// Of one call it is told in this order: a Step that has ended before it, an Object and a Lane that it is the first to
// name, points of counters up to its start, the Range that it begins, the Call, and the Tasks whose times it has made
// known.
type Visitor struct {
	// Call is told of every call, by start, and of the task that it has put on a lane, nil for none. Unless it was
	// measured, when that ends is not known yet.
	Call func(*HostCall, *Task) error
	// Task is told of a task once its times are known: after its call, and in the order of the lane.
	Task func(*Task) error
	// Range is told of a range, or a moment, just before the call that begins it.
	Range func(*Range) error
	// Step is told of a step behind its last call and before the first call after it.
	Step func(*step.Step) error
	// Memory is told of changes of the device memory in use, Depth of the tasks that streams hold. All points together
	// are in the order of time.
	Memory func(*MemoryPoint) error
	Depth  func(*DepthPoint) error
	// Lane is told of a lane, by its index into Walk.Lanes, before anything else names it.
	Lane func(index int, l *Lane) error
	// Object is told of an object with the first call that names it. The object may be kept: it goes on changing.
	Object func(*Object) error
	// Graph is told of a graph before the call that runs it, and again before one that does when it has changed.
	Graph func(*Object, Graph) error
}

func newWalk(m *api.Model) *Walk {
	return &Walk{
		Model: m, o: WalkOptions{To: math.MaxInt64}, s: NewState(m), whole: math.MaxInt64, noSteps: step.Rule{Source: step.None},
		laneTable: laneTable{lanes: map[LaneKey]*lane{}}, memoryUse: memoryUse{used: map[place]uint64{}},
		taskQueue: taskQueue{records: map[*Object]record{}, failed: map[uint32]attempt{}},
	}
}

// errEnough ends a Walk without an error.
var errEnough = errors.New("enough")

// record is where on its lane an event was recorded last.
type record struct {
	lane *lane
	task int // its index
}

// attempt is a failed launch.
type attempt struct {
	fn     *api.Func
	kernel string
	stream *Object
	call   uint64
	code   int32
}

// within reports whether a time is in the window.
func (w *Walk) within(from, to int64) bool { return from < w.o.To && to >= w.o.From }

// place is the memory of a device, as a process uses it.
type place struct {
	process uint32
	device  int
}
