// Package format reads and writes trace files: calls, their data, payloads, and the schema to read them years later.
// It knows bytes, columns and a schema; package timeline gives calls their meaning. SPEC.md describes the file to the byte.
//
// Create makes a Writer. It takes the calls of a thread in order, and data and payloads as they come. It
// belongs to one goroutine at a time, which saves two locked instructions a call, up to half of the remaining cost.
// Payloads may come from any goroutine, and are hashed outside locks. Flushed data survives the death of the process,
// and Close completes the file. The Writer keeps no reference to its arguments.
//
// Open makes a Reader, also for a truncated or damaged file: it returns the whole parts and lists the damage. It is safe for use
// from several goroutines; an iterator belongs to one. A trace is untrusted input: every length is compared with a bound
// before it is trusted, and no content makes the Reader panic. All other packages read and write traces through this one.
//
// Stability: Files stay readable by all later versions, see SPEC.md. Before version 1.0 of acltrace, exported names may change with a line in
// CHANGELOG.md.
package format

import (
	"errors"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/format/container"
)

// InlineLimit is the largest length in bytes of data stored among the calls; longer data is a blob.
const InlineLimit = 4096

// CallFlags are properties of one call.
type CallFlags uint8

const (
	Unfinished CallFlags = 1 << 0 // the call never returned; End is the last time known
	Truncated  CallFlags = 1 << 1 // some data of the call was lost
	NoEnd      CallFlags = 1 << 2 // with Unfinished: the end was not seen, so the call may be over
	Cut        CallFlags = 1 << 3 // with Unfinished and NoEnd: the recording ended during the call, at End
	Profiled   CallFlags = 1 << 4 // a range of a profile begins or ends here: the program did not make the call
	Kept       CallFlags = 1 << 5 // the recorder answered the call, and the runtime did not get it
)

// A Call is one call of a runtime function. The Writer takes calls and the Reader returns them.
type Call struct {
	Index  uint64 // position in the file, from 0; the call's identity. Set by Writer.Call
	Func   uint16 // id of the function in the Schema
	Thread uint32 // index into the thread table
	Start  int64  // nanoseconds of the recording host's CLOCK_MONOTONIC since Meta.StartMono
	End    int64  // the same clock; for an unfinished call the last time known
	Flags  CallFlags
	Ret    uint64   // unchanged return register; 0 if unfinished or void
	Args   []uint64 // one word for each argument slot, Function.Words in all
	Outs   []Out    // at most one for each parameter, by ascending parameter
	Data   []Data   // memory behind pointers, in the order of recording; Reader.Data also has data from later chunks
}

// An Out is a value of at most 8 bytes that the call wrote through a pointer.
type Out struct {
	Param uint8  // number of the parameter, from 0
	Value uint64 // zero-extended
}

// Content returns the memory behind a parameter, nil if the trace lacks it or has it apart from the calls.
func (c *Call) Content(param int) []byte {
	for i := range c.Data {
		if d := &c.Data[i]; int(d.Param) == param && d.Item == 0 && d.Status == Whole {
			return d.Bytes
		}
	}
	return nil
}

// Clone returns a copy that shares no memory with c.
func (c *Call) Clone() *Call {
	d := *c
	d.Args = slices.Clone(c.Args)
	d.Outs = slices.Clone(c.Outs)
	d.Data = slices.Clone(c.Data)
	for i := range d.Data {
		d.Data[i].Bytes = slices.Clone(d.Data[i].Bytes)
	}
	return &d
}

// Dir is the direction of data.
type Dir uint8

const (
	DirIn  Dir = 0 // the call read it
	DirOut Dir = 1 // the call wrote it
)

func (d Dir) String() string { return name(d, "in", "out") }

// Status is the completeness of data.
type Status uint8

const (
	Whole    Status = 0 // all of it
	HashOnly Status = 1 // hash and length, as a Blob without content
	Missing  Status = 2 // nothing; see Reason
)

func (s Status) String() string { return name(s, "whole", "hash-only", "missing") }

// Reason is a cause of missing data or calls.
type Reason uint8

const (
	NoReason          Reason = 0
	DeviceMemory      Reason = 1  // the data was on the device, which the recorder does not read
	Dropped           Reason = 2  // the ring was full and the policy is to drop
	LimitReached      Reason = 3  // the size limit of the trace
	Unreadable        Reason = 4  // the memory was no longer readable
	NeverSynchronized Reason = 5  // the program never waited for the result
	Overwritten       Reason = 6  // the program changed the memory before it could be read
	LevelExcluded     Reason = 7  // the payload level leaves it out
	WriteFailed       Reason = 8  // the trace could not be written, as on a full disk
	Detached          Reason = 9  // recording was off
	RecorderLost      Reason = 10 // the recorder was killed or too slow
	FileDamaged       Reason = 11 // the file was damaged, and its whole parts were recovered
	// TakenEarly marks present data: the memory is pinned and the copy asynchronous, so the device may have
	// read later stores of the program.
	TakenEarly     Reason = 12
	TooManyPending Reason = 13 // more results were pending, or more memory was pinned, than the recorder tracks
	// Unchecked marks present results: so many were pending that the recorder did not check for a later copy
	// to the same memory before this one was read.
	Unchecked Reason = 14
	// Outdated marks calls that a flight recorder dropped for newer ones.
	Outdated Reason = 15
	// Freed and Unregistered mark the result of an asynchronous copy whose memory the program freed or
	// unregistered before it had waited for the copy.
	Freed        Reason = 16
	Unregistered Reason = 17
	// Unawaited marks the result of an asynchronous copy without a recorder in the thread that waits.
	Unawaited Reason = 18
	// Filtered marks memory that takes a system call to read, in a program that filters system calls (seccomp).
	Filtered Reason = 19
	// Nested marks calls made inside other calls of the same thread, as by a signal handler.
	Nested Reason = 20
	// NoBlobFile: the content is in a blob file, which a Reader does not have. It is not stored.
	NoBlobFile Reason = 21
)

func (r Reason) String() string {
	return name(r, "none", "device memory", "dropped", "limit reached", "unreadable", "never synchronized", "overwritten",
		"excluded by the payload level", "write failed", "detached", "recorder lost", "file damaged",
		"taken at the call, from memory that may have changed before it was copied", "too many results pending",
		"not checked for later copies to the same memory", "older than what the flight recorder keeps",
		"freed before the program waited for it", "unregistered before the program waited for it",
		"the result of an asynchronous copy, which this way of recording does not see",
		"it takes a system call to read, and the program has a filter of these (seccomp)",
		"made inside another call, as by a signal's handler",
		"it is in the file of payloads, which is not there")
}

func name[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}

// A BlobID identifies a payload in the trace: 1 + its index in the blob table, 0 for none.
type BlobID uint32

// Data is a piece of memory recorded with a call: an argument block, a string, a structure, a payload.
type Data struct {
	Call   uint64 // Index of the call; Writer.Call needs none
	Time   int64  // capture time, on the clock of Call.Start. With Writer.Call, 0 means the call's Start
	Param  uint8  // number of the parameter, from 0
	Dir    Dir
	Status Status
	Reason Reason // for Missing, TakenEarly or Unchecked data
	Item   uint32 // element number if the parameter is an array of buffers, else 0
	Addr   uint64 // address in the traced program, 0 if unknown
	Len    uint64 // bytes
	// Group is for the Writer only and not stored. Data with one function, parameter and group, such as a kernel handle, is stored together
	// and packs better. Any value is correct.
	Group uint64
	Bytes []byte // content up to InlineLimit bytes; the Writer makes a blob of longer content
	Blob  BlobID
	// Aside says that also short content belongs into the blob file, if there is one: it is the program's data, and no part of the call's
	// description. If a Reader has no such file, the status is Missing.
	Aside bool
}

// NoThread is the thread of a Gap in all threads.
const NoThread = ^uint32(0)

// A Gap is a time range with missing calls.
type Gap struct {
	Thread uint32 // index into the thread table, or NoThread
	From   int64  // nanoseconds, as Call.Start
	To     int64
	Calls  uint64 // number of calls lost, 0 if unknown
	Reason Reason
}

// Intended reports if the calls were left out on request: while recording was off, outside the selected steps, or dropped by a
// flight recorder.
func (g *Gap) Intended() bool { return g.Reason == Detached || g.Reason == Outdated }

// Errors of Open and the Reader, for errors.As and errors.Is.
type (
	// ErrNotTrace is returned for a file with another format.
	ErrNotTrace = container.ErrNotTrace
	// ErrVersion is returned for a trace of a newer major version.
	ErrVersion = container.ErrVersion
	// ErrCorrupt is a damaged place in a file.
	ErrCorrupt = container.ErrCorrupt
	// A Recovery describes a file without a readable end.
	Recovery = container.Recovery
)

// ErrTruncated is returned for a file that ends before its first chunk.
var ErrTruncated = container.ErrTruncated

// ErrNotKept is returned for a payload that was recorded as hash and length only.
var ErrNotKept = errors.New("only the hash of the payload was recorded")

// ErrNotWritten is returned for a payload that could not be written, as on a full disk.
var ErrNotWritten = errors.New("content of a payload could not be written when the trace was made")
