package timeline

import (
	"errors"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/graph"
	"github.com/acltrace/acltrace/timeline/operator"
	"github.com/acltrace/acltrace/timeline/order"
	"github.com/acltrace/acltrace/timeline/step"
)

// StepRule returns the rule that determines steps. Its Source is step.None if there are no steps, or if FindSteps was not called.
func (w *Walk) StepRule() *step.Rule {
	if w.steps.Finder == nil {
		return &w.steps.none
	}
	return w.steps.Rule()
}

// A Walk runs once through a trace and reports its contents to a Visitor, in the order of time. NewWalk reads the trace's index only. Call
// Run once. Visitor functions may read the exported fields during and after Run. A Walk belongs to one goroutine.
//
// Its memory does not grow with the number of calls. It holds the chunks of the file that overlap in time, live objects, streams and names, at
// most maxPending tasks without an end, and at most maxAhead open ranges: about 100 MiB at most.
type Walk struct {
	Reader *format.Reader
	Model  *api.Model
	// Start is the begin of the first call. End is the end of the last call by the index, or of a later measured task.
	Start, End int64
	Calls      uint64 // by the index, with marks
	Lanes      []Lane // used so far; a lane is added before anything that names it is reported
	// PeakDevice is the largest device memory in use so far, in bytes, see State.DeviceMemory.
	PeakDevice uint64
	// GivenUp is the number of tasks whose end the Walk has stopped to wait for, see Task.Open.
	GivenUp uint64

	o      WalkOptions
	sel    *Selector
	v      Visitor
	s      *State
	now    current
	seen   int   // objects reported
	whole  int64 // until this time the trace lacks no call that changes the meaning of later calls
	meter  meter
	depth  depths
	graphs knownGraphs

	ahead lookAhead
	steps stepState

	names   nameTable
	threads threadTable
	lanes   laneTable
	queue   taskQueue
	use     memoryUse
}

// lookAhead knows the ends of what begins.
type lookAhead struct {
	ranges    rangeSource     // nil if no ranges are needed
	operators *operatorsAhead // nil if no parts of operators are needed
	shapes    *shapesAhead    // nil if no shapes are needed, or there are none
}

// knownGraphs are the graphs of the trace and their roles.
type knownGraphs struct {
	*graph.Graphs[*Object, *Task]
	roles graphRoles
}

// current is the current call and its meaning.
type current struct {
	host     HostCall
	event    *Event
	skip     bool // the call's task is not reported
	selected bool // see Walk.Selected
	marks    uint64
	shapes   int32 // of the latest launch: Task.Shapes
}

// nameTable holds the names of functions and kernels so far.
type nameTable struct {
	functions []string // by id
	kernels   kernelNames
}

// threadTable holds the threads so far.
type threadTable struct {
	list   []format.Thread
	before []before // by thread
}

// before is what came before the next call of a thread.
type before struct {
	until              int64  // end of its latest call that was reported, math.MaxInt64 for none
	recording, blocked uint64 // nanoseconds before marks that were not reported
}

// laneTable holds the lanes so far.
type laneTable struct {
	byKey  map[LaneKey]*lane
	names  LaneNames
	list   []*lane // in the order of Walk.Lanes
	latest *lane   // most recently used lane
	shown  int     // number of lanes reported
}

// taskQueue holds the tasks with an unknown end, and the state that determines their ends.
type taskQueue struct {
	order   taskOrder
	tasks   int                // so far
	pending int                // tasks without an end, on all lanes
	wanted  int                // those that are reported
	failed  map[uint32]attempt // by thread: its latest launch, if that failed
	ended   []*Task            // not reported yet
	single  Task               // the current call's task, if it has ended
}

// memoryUse counts the device memory in use.
type memoryUse struct {
	byPlace map[place]uint64
	total   uint64
}

// A rangeSource makes ranges from the calls that begin and end them. It returns nil for a call that does not complete one.
type rangeSource interface {
	note(e *Event) (*Range, error)
}

// WalkOptions are the options for NewWalk; nil means the defaults.
type WalkOptions struct {
	// Select is the calls to report, nil for all, with the ranges and steps that overlap its window. A task is reported if its call is selected.
	// Counter points are reported from the beginning, since counts start there. After the last selected call, the Walk reads on until its task has
	// ended, and the step if the Visitor has Step.
	Select *Selector
	// OwnTimes compares tasks with From and To of the Selection by their own times, not by those of their calls.
	OwnTimes bool
	Stacks   bool                  // load the data that Stacks needs with each call
	Progress func(done, total int) // called now and then with numbers of calls
	Shapes   bool                  // find the shapes of launches: see Walk.ShapesOf
	Untimed  bool                  // measured times are not read: a task ends with the first wait for it
}

// A Visitor gets the parts of a trace as they become known. Arguments are valid until the function returns, and must not be changed. A nil
// function is skipped; an error ends the Walk. The same trace always gives the same calls in the same order.
//
// For one call in the trace, the order is: a Step that has ended before it, an Object and a Lane that it names first, and counter points up to its
// start. Then come the Range that it begins, the Call, and the Tasks whose times are known now.
type Visitor struct {
	// All means that Call and Step also get what is not selected. Walk.Selected distinguishes.
	All bool
	// Marks means that Call also gets the marks of operators.
	Marks bool
	// Call gets every call, by start, and the task that it has put on a lane, or nil. The end of the task is unknown unless it was measured.
	Call func(*HostCall, *Task) error
	// Task gets a task when its times are known: after its call, and in the order of the lane.
	Task func(*Task) error
	// Range gets a range, or a moment, just before the call that begins it.
	Range func(*Range) error
	// Operator gets a part of an operator just before the call that begins it. Its end is known. A live Walk reports none.
	Operator func(*operator.Part) error
	// Step gets a step after its last call, before the first call that follows.
	Step func(*step.Step) error
	// Memory gets changes in device memory use, Depth changes in the number of tasks on a stream. Both share one order, by time.
	Memory func(*MemoryPoint) error
	Depth  func(*DepthPoint) error
	// Lane gets a lane and its index into Walk.Lanes, before anything that names it.
	Lane func(index int, l *Lane) error
	// Object gets an object at the first call that names it. The object may be kept, and keeps changing.
	Object func(*Object) error
	// Graph gets a graph before the call that runs it first, and again before a run after changes.
	Graph func(*Object, Graph) error
}

func newWalk(m *api.Model) *Walk {
	graphs := graph.New[*Object, *Task]()
	graphs.Similar = func(old, task *Task) bool { return old.Name == task.Name && old.Blocks == task.Blocks }
	return &Walk{
		Model: m, sel: everything(), s: NewState(m), whole: math.MaxInt64, steps: stepState{none: step.Rule{Source: step.None}}, graphs: knownGraphs{Graphs: graphs},
		lanes: laneTable{byKey: map[LaneKey]*lane{}}, use: memoryUse{byPlace: map[place]uint64{}},
		queue: taskQueue{order: taskOrder{Order: order.New[*Object, struct{}]()}, failed: map[uint32]attempt{}},
	}
}

// ErrEnough ends a Walk without an error, if a function of the Visitor returns it.
var ErrEnough = errors.New("enough")

// attempt is a failed launch.
type attempt struct {
	fn     *api.Func
	kernel string
	stream *Object
	call   uint64
	code   int32
}

// Selected reports whether the call or the step that the Visitor gets is selected.
func (w *Walk) Selected() bool { return w.now.selected }

// Marks returns the number of marks of operators so far, among what is selected.
func (w *Walk) Marks() uint64 { return w.now.marks }

// Selector returns the Selector of the Walk.
func (w *Walk) Selector() *Selector { return w.sel }

// within reports whether a period overlaps the window.
func (w *Walk) within(from, to int64) bool { return from < w.sel.to && to >= w.sel.from }

// place identifies the memory of a device that a process uses.
type place struct {
	process uint32
	device  int
}
