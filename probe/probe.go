// Package probe defines the contract between the probes that capture a program's calls and their consumer: Sink, and the
// records that a Sink gets.
//
// Two packages call a Sink. probe/ring reads the shared memory that the shim (probe/shim, C) writes inside the program.
// probe/uprobe runs eBPF programs (probe/bpf) in the kernel and needs no cooperation from the program. Both deliver a
// thread's calls in the order in which they end. Calls from different threads have no order. Package record implements
// Sink.
//
// The package holds data types only. It reads no program and writes no file.
package probe

import (
	"time"

	"github.com/acltrace/acltrace/api"
	"golang.org/x/sys/unix"
)

// Dir is the direction of a piece of memory, seen from the call.
type Dir uint8

const (
	In  Dir = iota // read by the call
	Out            // written by the call, or by the task that it created
)

// Missing is the reason why a piece has no content.
type Missing uint8

const (
	Present Missing = iota
	// DeviceMemory is on the device, and probes read host memory only.
	DeviceMemory
	// Dropped: the ring was full.
	Dropped
	// OverLimit: larger than the payload limit.
	OverLimit
	// Unreadable: reading it faulted.
	Unreadable
	// NotSynchronized: an asynchronous copy's result that the program never waited for.
	NotSynchronized
	// Overwritten: an asynchronous copy's result that another copy replaced before the program waited.
	Overwritten
	// TableFull: an asynchronous copy's result, with too many copies pending.
	TableFull
	// UnknownSize: the probe can't determine the size.
	UnknownSize
	// NotAsked: capture was switched off (--payload none).
	NotAsked
	// Hashed: only a hash was kept. Bytes is the XXH3-128, low word first.
	Hashed
	// Freed: an asynchronous copy's result in memory that was freed before the program waited.
	Freed
	// Unregistered: like Freed, for host memory that the program unregistered.
	Unregistered
	// Detached: an asynchronous copy's result, with recording paused between the copy and the wait.
	Detached
	// Filtered: reading it takes a system call, and the program filters system calls.
	Filtered
	// Unawaited: an asynchronous copy's result under uprobes, which do not follow waits.
	Unawaited
)

// Param numbers of pieces that belong to no parameter.
const (
	// TimeParam announces a TaskTime for the call.
	TimeParam = api.TaskStartParam
	// TaskParam is an output: the runtime's ids for the task that the call created, stream id << 32 | task id.
	TaskParam = api.TaskParam
	// MemoryParam is memory that program and device access without a call: In before the call, Out after it. Item numbers the
	// process's memory ranges.
	MemoryParam = api.MemoryParam
	// StackParam is an output with a hash of the caller's stack. The first call with a hash also has an In piece: the return
	// addresses, innermost first.
	StackParam = api.StackParam
	// MapsParam is the content of /proc/PID/maps. It comes with a process's first stack.
	MapsParam = api.MapsParam
)

// Piece is memory that belongs to a call, for example an output, a string, an argument block or a payload.
type Piece struct {
	Param   uint8 // parameter number
	Dir     Dir
	Missing Missing
	// Early: the content may differ from the data that the device saw. An In piece in pinned memory was captured before the
	// asynchronous copy read it. An Out piece may hold the result of a later copy to the same memory.
	Early bool
	Item  uint32 // number of a part, for example a buffer in an array; 0: the parameter itself
	Addr  uint64 // in the program's address space
	Len   uint64 // size in the program; len(Bytes) if the content is present
	Bytes []byte // valid until the Sink's method returns
}

// Call is one recorded call.
type Call struct {
	PID, TID   int
	Seq        uint64 // index within the thread
	Func       api.ID
	Start, End int64 // CLOCK_MONOTONIC, nanoseconds; End is 0 if the call never returned
	// NoEnd: the call has no end because that was not seen. It may be over: left by an exception or longjmp, or in a function
	// whose return has no probe.
	NoEnd bool
	// Cut: the call has no end because the recording ended first. Its thread was still in it.
	Cut bool
	// Kept: the probe has answered the call, and the runtime did not get it.
	Kept bool
	// Blocked is the time in nanoseconds for which the thread did not run since its previous call, of gaps over GapNS.
	Blocked int64
	// Recording is the time in nanoseconds that the probe spent in the thread on payloads since the thread's previous call.
	Recording int64
	Ret       uint64
	Words     []uint64
	Pieces    []Piece
}

// GapNS is the least time between two calls of a thread, in nanoseconds, that is divided into running and not running.
const GapNS = 50_000

// Unfinished reports whether the call never returned.
func (c *Call) Unfinished() bool { return c.End == 0 }

// Payload is content that arrives apart from its call: it is large, or it became available later.
type Payload struct {
	PID, TID int
	Seq      uint64 // Call.Seq
	Piece           // Len is the whole size
	Offset   uint64 // position of Bytes in the whole; parts arrive in ascending order
	Time     int64  // capture time, CLOCK_MONOTONIC, nanoseconds
	// Recording is the time in nanoseconds that the capture took. The Recording of that thread's next call includes it.
	Recording int64
}

// Gap counts calls of a thread that were lost.
type Gap struct {
	PID, TID int
	From, To int64 // CLOCK_MONOTONIC, nanoseconds
	Calls    uint64
	Reason   string
}

const (
	// RingFull is the Gap reason for calls that found no room.
	RingFull = "ring full"
	// Nested is the Gap reason for calls made inside other calls, for example by a signal handler.
	Nested = "inside another call"
	// NoRing is the Gap reason for calls of threads without a ring. TID is 0; PID is 0 if the process is unknown.
	NoRing = "no ring"
)

// TaskTime is the device time of a task, measured by one event before it and one after it.
type TaskTime struct {
	PID, TID int
	Seq      uint64 // Call.Seq of the call that created the task
	Device   int    // device number in the process, -1 if unknown
	Stream   uint64 // handle
	// Issued and Closed are the times just before the two events were recorded. Seen is the time when both were complete.
	// CLOCK_MONOTONIC, nanoseconds.
	Issued, Closed, Seen int64
	// From and To are the events' timestamps on the device clock: nanoseconds with a resolution of a microsecond. Elapsed is
	// the difference with the resolution of the device clock, in nanoseconds.
	From, To, Elapsed int64
}

// Untimed is the reason why a task has no TaskTime.
type Untimed uint8

const (
	// UntimedPool: all event pairs were in use by tasks that the program had not waited for.
	UntimedPool Untimed = iota
	// UntimedCapture: the process was capturing a stream.
	UntimedCapture
	// UntimedLost: the ring was full.
	UntimedLost
	// UntimedFailed: the runtime lacks the functions or failed. The process measures no more tasks.
	UntimedFailed
)

// Process is a process that loaded the shim or that runs into uprobes.
type Process struct {
	PID, PPID int
	// ForkedFrom is the PID of the recorded process that forked it after a call to the runtime; 0 for none.
	ForkedFrom int
	Start      int64 // CLOCK_MONOTONIC, nanoseconds
	Exe        string
	Argv       []string
	Local      int      // PID in this process's namespace, 0 if not visible there
	Variables  []string // recorded environment variables
	Libraries  []string // libraries of the runtime and of operators that are known, and symbols that the program looked up
}

// End describes how a process ended.
type End struct {
	PID       int
	Exe       string
	Args      []string
	Program   uint64        // hash of the executable and the script
	Lived     time.Duration // since its first call, if known
	Clean     bool          // by exit
	Code      int           // exit code, NoCode if unknown
	Signal    int           // fatal signal, 0 if none or unknown
	Seen      int64         // when the end was noticed, CLOCK_MONOTONIC
	Replaced  bool          // became another program by exec
	Libraries []string      // as in Process
	Excluded  bool          // excluded by the crash guard
	InShim    bool          // a thread was in code of the shim
}

// NoCode is an unknown exit code.
const NoCode = -1

// Sink receives the records. One goroutine calls its methods. Arguments are valid until the method returns.
type Sink interface {
	Process(*Process) error
	Call(*Call) error
	Payload(*Payload) error
	Gap(*Gap) error
	TaskTime(*TaskTime) error
}

// Now returns the time of CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
