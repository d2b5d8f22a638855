package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Task is what a call has put on a stream, or a copy that the call did itself.
type Task struct {
	Call  uint64 // number of the call that made it
	Index int    // from 0, in the order of the calls; -1 of one that was put into a graph
	Fn    *api.Func
	Name  string // of the kernel, else of the kind, with the direction of a copy
	Lane  int    // index into Walk.Lanes
	Step  int    // HostCall.Step of the call
	// Issued is the start of the call, Returned its end, in nanoseconds since the beginning of the trace.
	Issued, Returned int64
	// From and To are when the device did it, where Measured says so. Else they bracket that time: not before the call began and
	// the task before it on the stream could end, not after the first synchronization that covers it.
	From, To         int64
	Bytes            uint64 // copied or filled
	Process          uint32
	Thread           uint32
	StreamID, TaskID uint32 // the runtime's own numbers, where HasID says that they are known
	Blocks           uint32 // of a kernel: how many run it, 0 where that is not known
	Kind             api.Task
	HasID            bool
	Measured         bool
	// Object is the event that a Record, Wait or Reset names, and the graph that a GraphRun runs; nil for others.
	Object *Object
	// Open says that nothing in the trace shows the end, or only after 131,072 more tasks: To is the end of the trace.
	Open bool
	// Pageable says that a copy was to be asynchronous and has memory of the host that is not pinned: the runtime may
	// wait for the stream and copy before the call returns.
	Pageable bool
}

// Lane is a stream, the default stream of a process, or what its calls have done themselves without a stream.
type Lane struct {
	Process     uint32
	Stream      *Object // nil: the default stream
	Synchronous bool    // no stream: done before the calls returned
	Name        string
	Tasks       int
	Device      int   // its number in the process, NoDevice where that is not known
	Waited      int64 // nanoseconds that the host has spent in synchronizations that waited for its tasks
}

// A HostCall is a call on the thread that made it, as much as a viewer shows.
type HostCall struct {
	Index      uint64
	Fn         *api.Func
	Name       string
	Kernel     string
	Start, End int64
	// Recording is how many nanoseconds of the time since RecordingFrom, the end of the thread's calls before, the recorder has taken the
	// thread for hashing and copying payloads: the rest up to Start is the program's own.
	Recording, RecordingFrom int64
	Ret                      uint64
	Task                     int // Task.Index of what it has put on a lane, -1 for none
	Step                     int // Step.Index of the step that it began in, -1 for none
	// Retries is the launch that has failed on this thread just before and that this call has done with success, NoCall for none;
	// RetriedCode its error.
	Retries     uint64
	RetriedCode int32
	Thread      uint32
	// Waits is what a synchronization, or a poll, is about: the Lane of a stream, the ID of an event's Object, or the number of a
	// device, NoDevice for any; -1 for other calls.
	Waits    int32
	Complete bool // the poll has said so
	Flags    format.CallFlags
	Raw      *format.Call // the call as the trace has it, but for its Data, which may be missing; nil in a Timeline
}

// side is what an address of a copy is.
type side uint8

const (
	pageable side = iota // host memory that the runtime has not given out
	pinned
	device
)
