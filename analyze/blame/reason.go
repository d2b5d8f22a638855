package blame

import (
	faults "github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A Source names the failed task.
type Source uint8

// The sources.
const (
	User     Source = iota // Options.Task
	Callback               // the program's callback for failed tasks
	Message                // the runtime's message
)

// A Hint names the failed task or kernel.
type Hint struct {
	Source Source
	Task   *format.TaskID // nil if unknown
	Kernel string         // "" if unknown
}

// An Unknown is a fact that is missing from the trace: the call that made Task, or the arguments for tasks in flight
// beyond the oldest Examined.
type Unknown struct {
	Task               *format.TaskID
	Examined, InFlight int
}

// ReasonKind is the kind of a Reason.
type ReasonKind uint8

// The kinds of reasons. They use the named fields.
const (
	SelfFailed      ReasonKind = iota // the call itself returned the error
	Unreturned                        // the trace ends while the call runs
	TaskNamed                         // Source names the task
	KernelNamed                       // the runtime's message names the kernel
	Waiting                           // the stream waits: Wait
	RunsFunction                      // the task is a function of the program
	CapturedLaunch                    // the message names Kernel, which Call of the capture launches, and memory at Addr that it uses; 0 for none
	GraphFault                        // the graph that it runs has a Fault
	ExceedsCapacity                   // a size exceeds its capacity: Exceeded
	ObjectEnded                       // the object at Param had ended before: Place
	BadArgument                       // Argument has a Finding
	SameMemory                        // Argument is in the same allocation as Addr, which the message names
	SameAddress                       // Argument is Addr, which the message names
	OddArgument                       // an argument differs from those of most launches of the kernel: Odd
)

// A Reason is evidence against a suspect.
type Reason struct {
	Kind     ReasonKind
	Source   Source
	Wait     *Wait
	Param    string
	Place    *Place
	Argument int // index in Suspect.Arguments
	Addr     Hex
	Odd      *Odd
	Exceeded *Exceeded
	Call     uint64
	Kernel   string
	Operator Operator // of Call
	Fault    *faults.Finding
}

// An Exceeded is a size among a call's arguments that exceeds its capacity.
type Exceeded struct {
	Size, Capacity string // parameters
	Value, Most    uint64
}

// A Wait is the object that a task waits for, else a value at Addr, else another stream.
type Wait struct {
	Object   string // event, notify or counter; "" for none
	Recorded bool   // Call recorded the object, or wrote the value, last, on Stream
	Call     uint64
	Stream   string
	Pending  bool   // the record's task is in flight too
	Addr     Hex    // 0 if not a value
	Graph    string // the wait is a task of this graph, "" for none,
	By       uint64 // captured by this call
	Reset    *Reset // last reset of the object or the value, nil for none
}

// A Reset is a task that took back the record that a Wait needs.
type Reset struct {
	Call    uint64
	InGraph bool // it is a task of the same graph: each run resets
}

// A Word locates an address among a call's arguments: the parameter itself, or a word in its data.
type Word struct {
	Self bool
	Item uint32 // of the parameter
	At   uint64 // byte in the item
}

// Finding is the error or remark about an argument.
type Finding uint8

// The findings.
const (
	NoFinding     Finding = iota
	ProgramMemory         // host memory of the program
	NoAllocation          // in no known allocation
	FreedBefore           // the allocation ended before the call; End may be meant instead
	FreedMeantime         // the allocation ended while the task may have run
	PastEnd               // one past the end, which is allowed
	BeyondEnd             // reaches Beyond bytes past the end
)

// objectName returns the name that all output uses for an object.
func objectName(o *timeline.Object) string { return timeline.Place(timeline.Use{Object: o}) }
