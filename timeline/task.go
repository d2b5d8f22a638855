package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// ShortWait is the longest call that waits for nothing, in nanoseconds. The task that a longer call waits for ends with the wait.
const ShortWait = 5000

// A Task is work that a call has put on a stream, or a copy that the call itself did.
type Task struct {
	Call  uint64 // that made it
	Index int    // from 0, in the order of the calls; -1 in a graph
	Fn    *api.Func
	Name  string // the kernel as people read it, see Walk.Symbol, otherwise the kind and the direction of a copy
	Lane  int    // index into Walk.Lanes
	Step  int    // as HostCall.Step
	// Issued and Returned are the call's start and end, in nanoseconds since the trace began.
	Issued, Returned int64
	// From and To are the times on the device if Measured is true. Otherwise they are bounds. The task did not begin before From, when the call had
	// begun and the task before it on the stream may have ended. It ended by To, when the first synchronization that covers it returned.
	From, To         int64
	Bytes            uint64 // copied or filled
	Process          uint32
	Thread           uint32
	StreamID, TaskID uint32 // the runtime's numbers, known if HasID is true
	Blocks           uint32 // of a kernel, 0 if unknown
	Kind             api.Task
	HasID            bool
	Measured         bool
	// Object is the event for a Record, Wait or Reset, the graph for a GraphRun, nil for other tasks.
	Object *Object
	// Content is what a GraphRun runs, nil if it is unknown and for other tasks.
	Content *GraphContent
	// Open means that To is the end of the trace: the trace shows no end, or only after 131,072 more tasks.
	Open bool
	// Unpinned means that a copy uses host memory that is not pinned.
	Unpinned bool

	skip bool // not selected
	Origin
}

// Origin has numbers of the operator that launched a task, 0 if unknown.
type Origin struct {
	Operator int32 // see Walk.OperatorOf
	Shapes   int32 // of the tensors, see Walk.ShapesOf
}

// Duration returns the time on the device, in nanoseconds. If it was not measured, it is the longest possible one.
func (t *Task) Duration() (ns int64, measured bool) { return t.To - t.From, t.Measured }

// Pageable means that an asynchronous copy uses host memory that is not pinned. The runtime may wait for the stream and copy before the call returns.
func (t *Task) Pageable() bool { return t.Unpinned && t.Fn.Stream >= 0 }

// A Lane is a stream, a default stream, or the work that calls without a stream do themselves.
type Lane struct {
	Process     uint32
	Stream      *Object // nil: the default stream
	Synchronous bool    // no stream: done before the calls returned
	Name        string
	Tasks       int
	Device      int   // number in the process, NoDevice if unknown
	Waited      int64 // nanoseconds that the host has spent in synchronizations with tasks here
}

// A HostCall is a call on its thread, as viewers show it.
type HostCall struct {
	Index      uint64
	Fn         *api.Func
	Name       string
	Kernel     string // as people read it, see Walk.Symbol
	Start, End int64
	// Recording is the number of nanoseconds that the recorder took, to hash and copy payloads, between RecordingFrom and Start. RecordingFrom is
	// the end of the earlier calls of the thread. The program used the rest.
	Recording, RecordingFrom int64
	// Blocked is the part of the time since RecordingFrom, without Recording, in which the thread did not run. 0 also if it was not measured.
	Blocked int64
	Ret     uint64
	Task    int // Task.Index of its task on a lane, -1 for none
	Step    int // Step.Index of the step in which it began, -1 for none, and for a process that does not make the steps: see Walk.StepRule
	During  int // Step.Index of the step during which it began, for a call of any process, -1 for none
	// Retries is the failed launch just before on this thread that this call repeats with success, NoCall for none. RetriedCode is the error of the
	// failed launch.
	Retries     uint64
	RetriedCode int32
	Thread      uint32
	// Waits is the object of a synchronization or a poll: a Lane index for a stream, an Object.ID for an event, or a device number (NoDevice for
	// any). It is -1 for other calls.
	Waits    int32
	Complete bool // the poll returned complete
	Flags    format.CallFlags
	Raw      *format.Call // the recorded call; its Data may be missing. nil in a Timeline
}

// side is the memory on one side of a copy.
type side uint8

const (
	pageable side = iota // host memory that the runtime has not allocated
	pinned
	device
)

// Direction returns HtoD, DtoH, DtoD or HtoH for a copy, "" for other tasks.
func (k *Task) Direction() string {
	if k.Kind != api.Copy {
		return ""
	}
	return k.Name[len(k.Name)-4:]
}
