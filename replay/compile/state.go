package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// This file has the compiler's state. compiler holds the state for the whole trace, one struct for each concern; callCompiler holds one
// call's state. Each concern's file has the methods.

// A compiler turns a trace into a plan, one call at a time, in the order in which the calls began.
//
// An error of its methods means that the trace or a file can't be read, and ends the compilation. A call that can't be replayed is an entry
// in Plan.Found.
type compiler struct {
	*Plan
	*plan.Writer
	r        *format.Reader
	o        *Options
	dir      string // for files that the program had loaded, "" if nothing will be played
	files    int    // in dir
	state    *timeline.State
	accesses *access.Calls
	flow     *access.Flow   // of accesses
	thread   []int          // index into Plan.Threads, by the trace's thread
	process  map[uint32]int // index into Plan.procs, by the trace's process

	objects  objects
	pointers pointers
	graphs   graphs
	sharing  sharing
	ordering ordering
	visible  visibleState
	gaps     gaps
	faults   faults
	hosts    []*hostLaunch
	launches launches

	sorted     bool // file order is start order
	look       lookahead
	known      known
	sinceEmits int // calls compiled since the last emit

}

// known are facts that were looked up before.
type known struct {
	facts   []*facts                        // by api.ID
	kernels timeline.ByObject[numberedName] // last launch with the object
}

// numberedName is a name with its number in the plan.
type numberedName struct {
	name   string
	number uint32
}

// callCompiler compiles one call at a time.
type callCompiler struct {
	*compiler
	call
	lists
}

// call is the state of the call that is compiled.
type call struct {
	e     *timeline.Event
	c     *format.Call
	f     *api.Func
	a     *access.Call // its accesses; nil for a call that is not made
	facts *facts       // for f
	at    place
	ok    bool // the call succeeded

	data uint64     // offset in the plan's data for data that the call adds
	work *graphWork // for the task that the call puts into a graph, nil if it needs none
	temp uint64     // thread scratch memory in use, bytes
	cant string     // why the call can't be replayed, "" if it can
	stub Stub       // see Unsupported
	err  error      // from reading ahead

	doubtful uint8 // see doubtTask
	hosted   bool  // the task is a graph with host functions

	played []plan.Instruction // see eagerly
}

// lists are empty when a call begins, and keep their memory from call to call.
type lists struct {
	words   []plan.Operand // for all arguments
	before  []plan.Instruction
	after   []plan.Instruction
	relo    []plan.Reloc
	found   []plan.Reloc // see content
	guesses []plan.Reloc // that guesses would have
	spoils  []stretch    // overwritten after the call
	pending []pendingNumber
}

// stretch is a range in the plan's data.
type stretch struct{ from, to uint64 }

// ordering determines which calls must wait for other threads' calls.
type ordering struct {
	streams     map[memoryKey][]task
	laneOf      timeline.ByObject[int] // index into Plan.Streams
	defaults    map[timeline.LaneKey]int
	allocSpans  map[uint32][]allocSpan  // by process
	finders     timeline.ByObject[task] // the calls that found an object first
	inFlight    map[*timeline.Object][]inFlightCopy
	resultWaits []resultWait // by time
}

func newOrdering() ordering {
	return ordering{
		streams: map[memoryKey][]task{}, allocSpans: map[uint32][]allocSpan{},
		inFlight: map[*timeline.Object][]inFlightCopy{}, defaults: map[timeline.LaneKey]int{},
	}
}

// inFlightCopy is a copy to the host, asynchronous or in a graph, whose result the program has not waited for yet.
type inFlightCopy struct {
	off, end uint64
	until    int64
	shift    plan.Operand // distance by which the replay has moved the memory
	sure     bool         // the content is known, whether the copy is made or not
	guessed  bool         // the content depends on guesses
}

// resultWait is the time at which a thread had waited for a result in pinned memory.
type resultWait struct {
	time     int64
	owner    uint32
	from, to uint64
	at       place // of the wait
}

// task is a call that put work on a stream.
type task struct {
	at         place
	start, end int64
	call       uint64
}

// An allocSpan is device memory that a call allocates or frees.
type allocSpan struct {
	task
	o     *timeline.Object
	given bool
}

// outsiders are the objects that processes outside the trace may share.
type outsiders struct {
	memory  map[*timeline.Object]bool             // exported memory, with or without an address
	backing map[*timeline.Object]*timeline.Object // physical memory of mappings
	listed  map[*timeline.Object]bool             // in the findings
}

func newOutsiders() outsiders {
	return outsiders{map[*timeline.Object]bool{}, map[*timeline.Object]*timeline.Object{}, map[*timeline.Object]bool{}}
}

// sharing knows what processes pass to each other: keys, descriptors and memory.
type sharing struct {
	keys         map[string]plan.Operand     // by the key's recorded bytes
	imported     map[string]bool             // keys that recorded processes import
	importedFDs  map[uint64]uint64           // by importing call: the call that exported the descriptor, if known
	exportedFDs  map[uint64]*timeline.Object // by exporting call
	missingPeers map[*timeline.Object]bool   // shared with a process that is not in the trace
	tainted      map[*timeline.Object]bool   // memory that such a process may have written
	outsiders    outsiders
}

func newSharing() sharing {
	return sharing{
		keys: map[string]plan.Operand{}, imported: map[string]bool{}, exportedFDs: map[uint64]*timeline.Object{},
		missingPeers: map[*timeline.Object]bool{}, tainted: map[*timeline.Object]bool{}, outsiders: newOutsiders(),
	}
}

// visibleMemory is memory that program and device can both access without a call.
type visibleMemory struct {
	object  *timeline.Object
	content plan.Operand
	relocs  []plan.Reloc
	guesses []plan.Reloc // of words that may be addresses
	depends bool         // a task that depends on guesses may have written it since it was compared

	stale  bool           // the memory in the replay may have other content
	named  bool           // a task may have written it since it was compared
	base   plan.Operand   // content before that task
	flight map[uint64]int // tasks that may use it and were not waited for: the latest one, by stream
}

// doubtLevel says whether and how results depend on host-visible memory.
type doubtLevel uint8

// visibleState tracks host-visible memory.
type visibleState struct {
	of      map[*timeline.Object]*visibleMemory // made by visibleOf
	levels  map[*timeline.Object]doubtLevel     // of device memory too
	tasks   int                                 // tasks so far
	looked  map[uint32]bool                     // processes with a task since the last wait
	hosts   map[uint32]map[uint64]int           // by process: the latest host function on each stream, unless it was waited for
	hosted  map[*timeline.Object]bool           // device memory that may have data of host functions which the trace lacks
	awaited map[memoryKey]map[uint64]int        // by stream: tasks on other streams that it has waited for
	marks   map[memoryKey]map[uint64]int        // by event: tasks before its record, by stream
}

func newVisibleState() visibleState {
	return visibleState{of: map[*timeline.Object]*visibleMemory{}, levels: map[*timeline.Object]doubtLevel{}, looked: map[uint32]bool{}, hosts: map[uint32]map[uint64]int{}, hosted: map[*timeline.Object]bool{},
		awaited: map[memoryKey]map[uint64]int{}, marks: map[memoryKey]map[uint64]int{}}
}

// faults are the failed tasks that recorded calls reported.
type faults struct {
	codes []int32             // that such calls returned, in all processes
	of    map[uint32]*stopped // by process; only processes whose contexts stop
	wait  *api.Func           // waits for the device, nil if the model has no such function without arguments
}

// stopped is a process that has reported a failed task, and whose contexts stop at failed tasks.
type stopped struct {
	first, start int64  // the first call that reported it, and its start
	stream       uint64 // that this call names, noStream for none
	reported     bool   // a call has reported it, and no later wait for the device has succeeded

	// Before the first report:
	lanes   map[uint64]bool             // streams with tasks
	records map[*timeline.Object]uint64 // by event: the stream of its latest record
}

const noStream = ^uint64(0)
