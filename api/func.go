package api

import (
	"slices"
	"strings"
)

// Func describes one function of a runtime: its signature and, embedded, its meaning, how it is replayed and how it is captured.
type Func struct {
	ID       ID
	Name     string
	Layer    string // name of a Layer
	Return   string // C type
	Params   []Param
	RetWidth uint16 // bytes of the returned value
	RetVoid  bool
	RetError bool  // the returned value is the runtime's error code, 0 for success
	Pending  int32 // Model.Pending for a function that returns it, which is no failure; 0 for any other
	// Simulated reports whether the simulator has the function. Then it is a method of the runtime's generated interface.
	Simulated bool
	Since     string // first release known to have it
	Doc       string // one sentence
	Words     uint8  // number of argument words
	Form      *Form  // nil unless the function is a form of another one

	Meaning
	ReplayRules
	CaptureRules
}

// Meaning is the effect of a call on the runtime's objects, streams and threads. Fields with the number of a parameter are
// -1 for none.
type Meaning struct {
	Ret       Role // of the returned value; Value for an error code or a plain number
	RetObject Object
	Task      Task
	Sync      Sync
	Capture   Capture // of the stream that the call names
	Edit      Edit    // of a graph
	// Initializes: the call sets the runtime up, for a process or for a thread.
	Initializes bool
	// PollsCallbacks: the call waits for a function of the program that a stream calls, and runs it on the calling thread.
	// It fails if there is none.
	PollsCallbacks bool
	// ParamSizes: the call returns the offset and the size of one parameter of a kernel.
	ParamSizes bool
	// Subscribes is the function with PollsCallbacks that serves the thread named by a parameter of the call, "" for none.
	Subscribes string
	// Collective: the call is a rank's part of a collective. No rank works before the call has begun on every rank.
	Collective bool
	// Composite: the call makes other calls of the same runtime, which are recorded too. It puts nothing on a stream itself.
	Composite bool
	// Annotation: the call gives information to tools and does nothing else. Range says whether it marks time; Names is
	// its message, and a range is an object.
	Annotation bool
	Range      Range
	// HostCallback: the function is the program's, and the runtime has called it. Its parameters are the function and its
	// argument. It is Composite and an Annotation.
	HostCallback bool
	// Shares: the call handles a key by which processes share something.
	Shares Share
	// Entry is the parameter with the number of a kernel in the binary that the call uses.
	Entry int8
	// Selects is the parameter with the context or device that the calling thread uses from now on. Device is the parameter
	// with the device of the object that the call makes.
	Selects, Device int8
	// Stack: Selects is pushed onto the thread's selections, or the top is popped. Otherwise Selects replaces the top.
	Stack Stack
	// Stream is the parameter with the stream of the task or the wait, Event the one with the event or notify.
	Stream, Event int8
	// OwnStream: no stream means the thread's own default stream.
	OwnStream bool
	// Graph is the parameter with the graph, or the node of one, that gets the task. The task then runs with the graph, and
	// Stream does not apply.
	Graph int8
	// Names is the parameter with the name of the object that the call makes, or else of the first one that it uses.
	Names int8
}

// ReplayRules say how a replay makes a call and compares its results.
type ReplayRules struct {
	// SkipOnReplay: the call changes nothing and its result is valid in its own run only. A replay leaves it out.
	SkipOnReplay bool
	// ReplayError is the reason why a replay can't make the call, "" if it can.
	ReplayError string
	// RetVolatile: the returned value may differ from run to run.
	RetVolatile bool
	// Keeps are the members that a replay keeps of the JSON object in the call's File parameter. It removes the others,
	// which may name files. If Keeps is nil, the file stays as recorded.
	Keeps []string
	// StandIn is the function that makes a similar object in place of a call that imports one, if the exporting process is
	// not replayed; "" for none.
	StandIn string
}

// CaptureRules say how the shim records a call. Only the generator reads them, except Modelled.
type CaptureRules struct {
	// Modelled reports whether the semantics are known. Calls of other functions are counted by name and not recorded.
	Modelled bool `yaml:"-"`
	// Ends is `all` if the call ends everything, or the parameter with the number of the device that it resets.
	Ends string
	// Tells is the fact about the thread's own last calls that the call returns: LastTask, LastError or LastErrorOnce. The
	// shim makes calls itself, so it corrects the result.
	Tells string
	// Finds is the parameter with the name of a function that the call looks up. Passes is the parameter with the id of a
	// table of functions without names.
	Finds, Passes string
	// Answers is PARAM=VALUE: outputs after PARAM are valid only if the call has stored VALUE there.
	Answers string
	// Inject is the module and the slot of the function in the tables of an injection, nil if it has none.
	Inject []int
}

// Values of CaptureRules.Tells.
const (
	LastTask      = "task"
	LastError     = "error"
	LastErrorOnce = "error once" // the call also clears the error
)

// Symbol is the name by which the runtime's library has the function: that of a form is the function's, and NAME:FORM its own.
func (f *Func) Symbol() string {
	symbol, _, _ := strings.Cut(f.Name, ":")
	return symbol
}

// Failed reports whether a returned value says that the call has failed.
func (f *Func) Failed(ret uint64) bool {
	return f.RetError && int32(ret) != 0 && (f.Pending == 0 || int32(ret) != f.Pending)
}

// SaysHost reports whether the words of a call declare the memory of a parameter to be the host's. It decides where the address does not.
func (f *Func) SaysHost(param int, words []uint64) bool {
	k := f.Params[param].Hosts
	if k.Bits == 0 {
		return false
	}
	w := uint32(words[f.Params[k.Param].Word])
	return w < 16 && k.Bits>>w&1 != 0
}

// NeedsData reports whether it is data of its calls that says what they name and how much they move, and not their words alone.
func (f *Func) NeedsData() bool {
	return f.Names >= 0 || f.Shares != NoShare || slices.ContainsFunc(f.Params, func(p Param) bool {
		return p.Role == Uses || p.Role == OutHandles || p.Inside() || p.ItemSizes >= 0 || p.CopyDesc != nil || p.Handles()
	})
}

// Plain reports whether the function can be called with its words alone: each fits one integer register or one place on the
// stack, as does the result. Structures that are passed by value and floating point numbers go other ways.
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

// A Form is what a tag in a structure makes of a function that is given it: a function of its own to all but the runtime.
type Form struct {
	Param int8  // with the structure
	Tag   int64 // its value
}

// Graphs are the parameters with a graph that changes and the one whose tasks it gets; -1 each where the call is none such.
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

// Param returns the number of the parameter with the given name, -1 where there is none.
func (f *Func) Param(name string) int {
	for i := range f.Params {
		if f.Params[i].Name == name {
			return i
		}
	}
	return -1
}
