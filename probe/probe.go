// Package probe is the capture side of acltrace: what sees the calls that a program makes, and hands them on.
//
// There are two kinds of probe. The shim (probe/shim, C) is loaded into the program and writes records into rings in a
// shared mapping, which a Session reads. The uprobes (probe/bpf, eBPF) lie in the kernel and need no cooperation of the
// program. Both give the same calls to a Sink, in the order of their ends within a thread; calls of different threads
// come in no particular order.
//
// Nothing here writes files of its own or knows what a function means beyond the sizes in its model.
package probe

import (
	"time"

	"github.com/acltrace/acltrace/api"
	"golang.org/x/sys/unix"
)

// Dir says on which side of a call a piece of memory was.
type Dir uint8

const (
	In  Dir = iota // what the call read
	Out            // what the call, or the task that it made, wrote
)

// Missing says why a piece of memory is not there.
type Missing uint8

const (
	Present Missing = iota
	// DeviceMemory lies on the device, where a probe does not read.
	DeviceMemory
	// Dropped was lost because the ring was full.
	Dropped
	// OverLimit is larger than what was asked to be kept.
	OverLimit
	// Unreadable gave a fault when it was read.
	Unreadable
	// NotSynchronized is the result of an asynchronous copy that the program never waited for.
	NotSynchronized
	// Overwritten is the result of an asynchronous copy whose memory was copied over before the program waited for it.
	Overwritten
	// TableFull is the result of an asynchronous copy when too many were pending.
	TableFull
	// UnknownSize is memory whose size nothing tells.
	UnknownSize
	// NotAsked was not to be captured (--payload none).
	NotAsked
	// Hashed was not kept; Bytes is its XXH3-128, low word first.
	Hashed
	// Freed is the result of an asynchronous copy whose memory was given back before the program waited for it.
	Freed
	// Unregistered is the same of memory of the program's own that it no longer shared with the runtime.
	Unregistered
	// Detached is the result of an asynchronous copy when nothing was recorded for a time before the program waited for it.
	Detached
	// Filtered takes a system call to read, in a program that has a filter of these.
	Filtered
	// Unawaited is the result of an asynchronous copy that uprobes have seen asked for.
	Unawaited
)

// TimeParam is the parameter number of an output that no parameter has: it says that a TaskTime of the call follows.
const TimeParam = api.TaskStartParam

// TaskParam is the parameter number of an output that no parameter has: the runtime's ids of the task that a call has
// made, stream id << 32 | task id.
const TaskParam = api.TaskParam

// MemoryParam is the parameter number of the content of memory that the program and the device access without a call: In before the call,
// Out after it. Item numbers the ranges of the process.
const MemoryParam = api.MemoryParam

// StackParam is the parameter number of what tells the stack that a call was made from: an output with a hash of it, and,
// with one of the calls that have the hash, the return addresses, innermost first, as a piece that the call has read.
const StackParam = api.StackParam

// MapsParam is the parameter number of a piece with the mappings of the process, as /proc/PID/maps has them, which comes
// with its first stack.
const MapsParam = api.MapsParam

// Piece is memory that belongs to a call: an output, a string, an argument block, a payload.
type Piece struct {
	Param   uint8 // number of the parameter
	Dir     Dir   // of the call
	Missing Missing
	// Early says of what a call read that an asynchronous copy from pinned memory may read it after it was captured, and find
	// it changed; and of a result that nobody looked whether another went to the same memory before it was captured.
	Early bool
	Item  uint32 // number within an array of buffers, 0 otherwise
	Addr  uint64 // in the program's address space
	Len   uint64 // bytes at Addr; len(Bytes) where the content is here
	Bytes []byte // valid until the Sink's method returns
}

// Call is one call as a probe saw it.
type Call struct {
	PID, TID   int
	Seq        uint64 // number within the thread
	Func       api.ID
	Start, End int64 // CLOCK_MONOTONIC, nanoseconds; End is 0 where the call never returned
	// Recording is how many nanoseconds the probe has kept the thread, for hashing and copying payloads, between the call before and this one.
	Recording int64
	Ret       uint64
	Words     []uint64
	Pieces    []Piece
}

// Unfinished reports whether the call never returned.
func (c *Call) Unfinished() bool { return c.End == 0 }

// Payload is a part of a piece of memory that is too large to come with its call, or that came later.
type Payload struct {
	PID, TID int
	Seq      uint64 // of the call
	Piece           // Len is the size of the whole
	Offset   uint64 // of Bytes in the whole; parts come in ascending order
	Time     int64  // CLOCK_MONOTONIC, nanoseconds, of the capture
	// Recording is how many nanoseconds of a thread of the program the part took. It is in Call.Recording too, of that thread's next call.
	Recording int64
}

// Gap is a number of calls of a thread that were lost.
type Gap struct {
	PID, TID int
	From, To int64 // CLOCK_MONOTONIC, nanoseconds
	Calls    uint64
	Reason   string
}

// Nested is the reason of a Gap whose calls were made inside other ones, as by a signal's handler.
const Nested = "inside another call"

// TaskTime is what a device says of a task that a call has put on a stream, by an event before it and one behind it.
type TaskTime struct {
	PID, TID int
	Seq      uint64 // of the call
	Device   int    // as its process numbers it, -1 where that is not known
	Stream   uint64 // handle
	// Issued and Closed are just before the two events were asked for, and Seen is when both were known to be complete:
	// CLOCK_MONOTONIC, nanoseconds.
	Issued, Closed, Seen int64
	// From and To are of the device's clock, in nanoseconds, cut to a microsecond; Elapsed is the time between the two, to a tick.
	From, To, Elapsed int64
}

// Untimed is why the time of a task on the device was not measured.
type Untimed uint8

const (
	// UntimedPool: the program had not waited for so many tasks that all pairs of events were in use.
	UntimedPool Untimed = iota
	// UntimedCapture: a stream of the process was being captured.
	UntimedCapture
	// UntimedLost: there was no room in the ring.
	UntimedLost
	// UntimedFailed: the runtime lacks what it takes, or has refused it. The process measures nothing more then.
	UntimedFailed
)

// Process is a process that maps the shim, or that uprobes were attached to.
type Process struct {
	PID, PPID int
	// ForkedFrom is the PID of the process that it was forked from after that had called the runtime, 0 for none.
	ForkedFrom int
	Start      int64 // CLOCK_MONOTONIC, nanoseconds
	Exe        string
	Argv       []string
	Local      int      // its id as this process sees it, 0 where it does not: in another container
	Variables  []string // of its environment, as far as they were asked for
	Libraries  []string // of the runtime, as far as that is known, and names of symbols that were asked for
}

// End says how a process of a session was last seen.
type End struct {
	PID      int
	Exe      string
	Args     []string
	Program  uint64        // a hash of its file and its script
	Lived    time.Duration // from its first call, as far as that is known
	Clean    bool          // it ended of its own will, by exit
	Code     int           // of its exit, NoCode where it is not known
	Signal   int           // that ended it, 0 for none and where it is not known
	Seen     int64         // when it was found to have ended, by CLOCK_MONOTONIC
	Replaced bool          // it is another program now, by exec
	Untraced bool          // the guard had kept it from being recorded
}

// NoCode is the exit code of a process that has not told it.
const NoCode = -1

// Sink takes what a probe sees. Its methods are called by one goroutine, and what they are given is valid until they return.
type Sink interface {
	Process(*Process) error
	Call(*Call) error
	Payload(*Payload) error
	Gap(*Gap) error
	TaskTime(*TaskTime) error
}

// Now is the current time of CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
