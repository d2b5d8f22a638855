package api

import (
	"slices"
	"strings"
)

// Func describes one runtime function: its signature and, embedded, its meaning, how it is replayed and how it is
// captured.
type Func struct {
	ID       ID
	Name     string
	Layer    string // Layer.Name
	Return   string // C type
	Params   []Param
	RetWidth uint16 // size of the returned value in bytes
	RetVoid  bool
	RetError bool  // the returned value is the runtime's error code, 0 for success
	Pending  int32 // Runtime.Pending or Runtime.Idle for a call that returns it, which is not a failure; otherwise 0
	// Simulated reports whether the simulator has the function. If so, the generated interface has a method for it, or another function performs it.
	Simulated bool
	Since     string // first release known to have it
	Doc       string // one sentence
	Words     uint8  // argument word count
	Form      *Form  // nil unless the function is a form
	// Location is the place of the new physical memory, nil if the call has no such parameter.
	Location *Location

	Meaning
	ReplayRules
	CaptureRules

	// Operator says where an entry mark is in an operator. Names is then the operator's name. The parameter with the object Executor
	// is its executor, or for OperatorPhaseOne the address at which it is stored.
	Operator OperatorMark
	// Operand says what a function does with the arguments of operators.
	Operand Operand
	// Question: the program asks whether something is there or possible. An error that says no is an answer: see Answered.
	Question bool
	refusals []int32 // ascending error codes that are no failures of the program: see Answered; from Model.Init
}

// Meaning is a call's effect on the runtime's objects, streams and threads. Fields that hold a parameter's number are -1 for
// none.
type Meaning struct {
	Ret       Role // of the returned value; Value for an error code or a plain number
	RetObject Object
	Task      Task
	Sync      Sync
	Capture   Capture // on the stream that the call names
	Edit      Edit    // to a graph
	// Initializes: the call sets the runtime up, for a process or for a thread.
	Initializes bool
	// PollsCallbacks: the call waits for a stream's host callback, and runs it on the calling thread. It fails if there is
	// none.
	PollsCallbacks bool
	// ParamSizes: the call returns the offset and the size of a kernel parameter.
	ParamSizes bool
	// Subscribes is the function with PollsCallbacks that serves the thread that a parameter names, "" for none.
	Subscribes string
	// Collective: the call is a rank's part of a collective. No rank works before the call has begun on every rank.
	Collective bool
	// Composite: the call makes other calls to the same runtime, which are recorded too. It puts nothing on a stream itself.
	Composite bool
	// Annotation: the call gives information to tools and does nothing else. Range says whether it marks time; Names is its
	// message, and a range is an object.
	Annotation bool
	Range      Range
	// HostCallback: the function is the program's, and the runtime has called it. Its parameters are the function and its
	// argument. It is Composite and an Annotation.
	HostCallback bool
	// Shares: the call handles a key by which processes share an object.
	Shares Share
	// Entry is the parameter with a kernel's number in the binary that the call uses.
	Entry int8
	// Selects is the parameter with the context or device that the calling thread uses from now on. Device is the parameter
	// with the new object's device.
	Selects, Device int8
	// Stack: Selects is pushed onto the thread's selections, or the top is popped. Otherwise Selects replaces the top.
	Stack Stack
	// Stream is the parameter with the stream for the task or the wait, Event the one with the event or notify.
	Stream, Event int8
	// OwnStream: no stream means the thread's own default stream.
	OwnStream bool
	// Graph is the parameter with the graph, or the graph node, that gets the task. The task then runs with the graph, and
	// Stream does not apply.
	Graph int8
	// Names is the parameter with the name for the new object, or else for the first object that the call uses.
	Names int8
}

// EntryMark reports whether only the entry of the function is recorded: as a call without a duration and a result.
func (f *Func) EntryMark() bool { return f.Operator != NoOperatorMark }

// Location is a structure that a parameter points to and that names a device or another place of memory.
type Location struct {
	Param    uint8
	Type, ID Member
	OnDevice uint8 // value of Type for a device, which ID then numbers
}

// ReplayRules say how a replay makes a call and compares its results.
type ReplayRules struct {
	// SkipOnReplay: the call changes nothing and its result is valid in its own run only. A replay leaves it out.
	SkipOnReplay bool
	// ReplayError is the reason why a replay can't make the call, "" if it can.
	ReplayError string
	// RetVolatile: the returned value may differ from run to run.
	RetVolatile bool
	// Stops are the parameter values with which the call makes a context stop at a failed task. Later calls then report it from a
	// moment on that depends on the device.
	Stops Kinds
	// Keeps are the members that a replay keeps from the JSON object in the call's File parameter. It removes other members,
	// which may name files. If Keeps is nil, the file stays as recorded.
	Keeps []string
	// StandIn is the function that makes a similar object instead of importing one, if the exporting process is not
	// replayed; "" for none.
	StandIn string
}

// CaptureRules say how a call is recorded. Only the generator reads them, except Modelled, RunsCallbacks, Rank and Ranks.
type CaptureRules struct {
	// Modelled reports whether the semantics are known. Calls to other functions are counted by name and not recorded.
	Modelled bool `yaml:"-"`
	// RunsCallbacks: the call may run functions of the program before it returns. A callback may throw an exception through the
	// call, so a probe must not replace the call's return address. True for functions with a Callback parameter or
	// PollsCallbacks.
	RunsCallbacks bool `yaml:"runs_callbacks"`
	// Ends is `all` if the call ends everything, or the parameter with the device that it resets.
	Ends string
	// Last is the fact about the thread's own last calls that the call returns: LastTask, LastError or LastErrorOnce. The shim
	// makes calls itself, so it corrects the result.
	Last string
	// Finds is the parameter with the function name that the call looks up. The result, the version and the flags follow it.
	// Passes is the parameter with the id of a table that holds functions without names.
	Finds, Passes string
	// Contextless: the call returns a kernel that belongs to no context. Its parameters have a query of their own.
	Contextless bool
	// Answers is PARAM=VALUE: outputs after PARAM are valid only if the call has stored VALUE there.
	Answers string
	// Offers is PARAM=VALUE: the call then asks whether the runtime takes descriptions of operators. The shim may say yes in its place, and keep the
	// descriptions: see Kept.
	Offers string
	// Kept: the call gives the runtime a description for which a call with Offers has asked.
	Kept bool
	// Rank is the parameter with the rank of the process in the communicator that the call makes, Ranks the one with the number of ranks. Rank is "" if
	// there is none, Ranks also if all ranks of the job are in the communicator.
	Rank, Ranks string
	// Link is the name that the library exports if it is not the function's name: a mangled one.
	Link string `yaml:"symbol"`
	// Inject is the function's module and slot in an injection's tables, nil if it has none.
	Inject []int
}

// Values for CaptureRules.Last.
const (
	LastTask      = "task"
	LastError     = "error"
	LastErrorOnce = "error once" // the call also clears the error
)

// Describes returns the parameter with the description of an operator's task, -1 for none: see OperatorInfo.
func (f *Func) Describes() int {
	return slices.IndexFunc(f.Params, func(p Param) bool { return p.Object == OperatorInfo })
}

// Symbol is the name that the runtime's library exports. Forms, named FUNCTION:FORM, share it.
func (f *Func) Symbol() string {
	if f.Link != "" {
		return f.Link
	}
	symbol, _, _ := strings.Cut(f.Name, ":")
	return symbol
}

// Failed reports whether a returned value is an error.
func (f *Func) Failed(ret uint64) bool {
	return f.RetError && int32(ret) != 0 && (f.Pending == 0 || int32(ret) != f.Pending)
}

// Answered reports whether a returned error is an answer, and no failure of the program: a Question's no, or the reply to a repeated
// initialization or end of the runtime. The call had no effect, as with every error.
func (f *Func) Answered(ret uint64) bool {
	_, found := slices.BinarySearch(f.refusals, int32(ret))
	return found && f.Failed(ret)
}

// Wrong reports whether a returned error is a failure of the program.
func (f *Func) Wrong(ret uint64) bool { return f.Failed(ret) && !f.Answered(ret) }

// Allocates returns the parameter for the memory that a function allocates, nil if it allocates none.
func (f *Func) Allocates() *Param {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == New && p.Object.Memory() && p.Object != Reservation {
			return p
		}
	}
	return nil
}

// SaysHost reports whether a call's words declare a parameter's memory to be host memory. The declaration decides
// if the address does not.
func (f *Func) SaysHost(param int, words []uint64) bool {
	return f.Params[param].Hosts.Has(f, words)
}

// NeedsData reports whether a call's objects and sizes follow only from its captured data, and not from its words.
func (f *Func) NeedsData() bool {
	return f.Names >= 0 || f.Shares != NoShare || f.Location != nil || slices.ContainsFunc(f.Params, func(p Param) bool {
		return p.Role == Uses || p.ListsHandles() || p.Inside() || p.ItemSizes >= 0 || p.CopyDesc != nil || p.Handles()
	})
}

// LooksUp reports whether a parameter, or RetParam, gives the handles of objects that may be known already.
func (f *Func) LooksUp(param int) bool {
	if param == RetParam {
		return f.Ret == Find
	}
	return param >= 0 && param < len(f.Params) && (f.Params[param].Role == Find || f.Params[param].ListsHandles())
}

// Plain reports whether the function can be called with its words alone: each word and the result fit one integer register
// or stack slot. Structures by value and floating point numbers are passed in other ways.
func (f *Func) Plain() bool {
	float := func(t string) bool { return t == "float" || t == "double" }
	if float(f.Return) {
		return false
	}
	for i := range f.Params {
		if p := &f.Params[i]; p.Words != 1 || float(p.Type) {
			return false
		}
	}
	return true
}

// A Form is a function with one tag value in its structure parameter. Except to the runtime, each form is a separate
// function.
type Form struct {
	Param int8  // with the structure
	Tag   int64 // value
}

// Graphs returns the parameters with the graph that a call changes and with the graph whose tasks it adds. Both are -1 for
// other calls.
func (f *Func) Graphs() (into, from int) {
	into, from = -1, -1
	for i := range f.Params {
		switch p := &f.Params[i]; {
		case p.Object != Graph:
		case p.Role == New:
			return -1, -1
		case p.Role == Use && into < 0:
			into = i
		case p.Role == Use:
			from = i
		}
		if p := &f.Params[i]; into >= 0 && p.Has(Graph) {
			from = i
		}
	}
	if from < 0 || f.Capture != NoCapture {
		return -1, -1
	}
	return into, from
}

// Param returns the number of the parameter with the given name, -1 if there is none.
func (f *Func) Param(name string) int {
	for i := range f.Params {
		if f.Params[i].Name == name {
			return i
		}
	}
	return -1
}
