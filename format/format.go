// Package format is the trace file: calls, the data that belongs to them, payloads, and what is needed to read them years later.
// It knows bytes, columns and a schema; what a call means is the business of package timeline. SPEC.md describes the file to the byte.
//
// A Writer is made by Create. Calls are given to it in the order of their threads, data and payloads as they come. It
// belongs to one goroutine at a time, which spares two locked instructions a call, as much as half of all else;
// payloads may come from any, and are hashed outside of locks. What has been flushed survives the death of the process,
// and Close makes the file whole. The Writer keeps nothing that it is handed.
//
// A Reader is made by Open, also from a file that was cut off or damaged: it gives what is whole and says what is not. It is safe for use
// from several goroutines, while an iterator belongs to one. A trace is untrusted input: no length in it is
// believed before it has been compared with a bound, and no content makes the Reader panic.
package format

import (
	"errors"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/format/container"
)

// InlineLimit is the length in bytes up to which data lies among the calls; anything longer is a blob.
const InlineLimit = 4096

// CallFlags are properties of one call.
type CallFlags uint8

const (
	Unfinished CallFlags = 1 << 0 // the call never returned; End is the last time known
	Truncated  CallFlags = 1 << 1 // some of the call's data was lost
)

// A Call is one call of a runtime function. The Writer takes it and the Reader gives it.
type Call struct {
	Index  uint64 // position in the file, from 0; identifies the call for ever. Set by Writer.Call
	Func   uint16 // id of the function in the Schema
	Thread uint32 // index into the thread table
	Start  int64  // nanoseconds of the recording host's CLOCK_MONOTONIC since Meta.StartMono
	End    int64  // the same clock; for an unfinished call the last time known
	Flags  CallFlags
	Ret    uint64   // return register as is; 0 when unfinished or void
	Args   []uint64 // one word for each argument slot; as many as the function's Words
	Outs   []Out    // at most one for each parameter, by ascending parameter
	Data   []Data   // what lay behind pointers, in the order it was written; Reader.DataOf has also what lies in later chunks
}

// An Out is a value of at most 8 bytes that the call wrote through a pointer.
type Out struct {
	Param uint8  // number of the parameter, from 0
	Value uint64 // zero-extended
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

// Dir tells whether a call read data or wrote it.
type Dir uint8

const (
	DirIn  Dir = 0 // the call read it
	DirOut Dir = 1 // the call wrote it
)

func (d Dir) String() string { return name(d, "in", "out") }

// Status tells how much of the data is in the trace.
type Status uint8

const (
	Whole    Status = 0 // all of it
	HashOnly Status = 1 // its hash and length, as those of Blob, whose content was not kept
	Missing  Status = 2 // nothing; Reason tells why
)

func (s Status) String() string { return name(s, "whole", "hash-only", "missing") }

// Reason tells why data or calls are missing.
type Reason uint8

const (
	NoReason          Reason = 0
	DeviceMemory      Reason = 1  // it lay on the device, where the recorder does not look
	Dropped           Reason = 2  // the ring was full and the policy is not to wait
	LimitReached      Reason = 3  // the size limit of the trace
	Unreadable        Reason = 4  // the memory could not be read any more
	NeverSynchronized Reason = 5  // the program never waited for the result
	Overwritten       Reason = 6  // the program changed the memory before it could be read
	LevelExcluded     Reason = 7  // the payload level leaves it out
	WriteFailed       Reason = 8  // the trace could not be written, as on a full disk
	Detached          Reason = 9  // recording was off
	RecorderLost      Reason = 10 // the recorder was killed or too slow
	FileDamaged       Reason = 11 // the file was damaged, and what was whole was recovered
	// TakenEarly is said of data that is there: the memory is pinned and the copy asynchronous, so that the device may have
	// read what the program wrote to it after the call.
	TakenEarly     Reason = 12
	TooManyPending Reason = 13 // more results were waited for, or more memory was pinned, than the recorder keeps in mind
	// Unchecked is said of results that are there: so many were waited for that the recorder did not look whether a later copy
	// went to the same memory before this one was read.
	Unchecked Reason = 14
	// Outdated is said of calls that a flight recorder has left out: newer ones took their place.
	Outdated Reason = 15
	// Freed and Unregistered are said of the result of an asynchronous copy whose memory the program gave back, or no longer shared
	// with the runtime, before it had waited for the copy.
	Freed        Reason = 16
	Unregistered Reason = 17
	// Unawaited is said of the result of an asynchronous copy where nothing of the recorder's is there when the program has waited for it.
	Unawaited Reason = 18
	// Filtered is said of memory that takes a system call to read, in a program that has a filter of these (seccomp).
	Filtered Reason = 19
	// Nested is said of calls that the program made inside other calls of the same thread, as a signal's handler does.
	Nested Reason = 20
)

func (r Reason) String() string {
	return name(r, "none", "device memory", "dropped", "limit reached", "unreadable", "never synchronized", "overwritten",
		"excluded by the payload level", "write failed", "detached", "recorder lost", "file damaged",
		"taken at the call, from memory that may have changed before it was copied", "too many results pending",
		"not checked for later copies to the same memory", "older than what the flight recorder keeps",
		"freed before the program waited for it", "unregistered before the program waited for it",
		"the result of an asynchronous copy, which this way of recording does not see",
		"it takes a system call to read, and the program has a filter of these (seccomp)",
		"made inside another call, as by a signal's handler")
}

func name[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}

// A BlobID names a payload in the trace: 1 and its index in the blob table, 0 for none.
type BlobID uint32

// Data is a piece of memory that belongs to a call: an argument block, a string, a structure, a payload.
type Data struct {
	Call   uint64 // Index of the call; Writer.Call needs none
	Time   int64  // when it was captured, on the clock of Call.Start. With Writer.Call, 0 stands for the call's Start
	Param  uint8  // number of the parameter, from 0
	Dir    Dir
	Status Status
	Reason Reason // for what is Missing, or TakenEarly or Unchecked
	Item   uint32 // number of the element where the parameter is an array of buffers, else 0
	Addr   uint64 // address in the traced program, 0 if unknown
	Len    uint64 // bytes
	// Group is for the Writer only and not stored: data of one function, parameter and group, as the kernel handle, is laid out together
	// and packs better. Any value is correct.
	Group uint64
	Bytes []byte // content of at most InlineLimit bytes; the Writer makes a blob of anything longer
	Blob  BlobID
}

// NoThread is the thread of a Gap that concerns all of them.
const NoThread = ^uint32(0)

// A Gap is a range of time in which calls are missing.
type Gap struct {
	Thread uint32 // index into the thread table, or NoThread
	From   int64  // nanoseconds, as Call.Start
	To     int64
	Calls  uint64 // number of calls lost, 0 if unknown
	Reason Reason
}

// Intended reports whether somebody asked for the calls to be left out: while recording was off, outside of the steps that were chosen, or by a
// flight recorder that has let go of them.
func (g *Gap) Intended() bool { return g.Reason == Detached || g.Reason == Outdated }

// Errors that Open and the Reader return, to be found with errors.As and errors.Is.
type (
	// ErrNotTrace is returned for a file that is something else.
	ErrNotTrace = container.ErrNotTrace
	// ErrVersion is returned for a trace of a newer major version.
	ErrVersion = container.ErrVersion
	// ErrCorrupt names the place in a file whose bytes are not what was written.
	ErrCorrupt = container.ErrCorrupt
	// A Recovery says what a file without a readable end still held.
	Recovery = container.Recovery
)

// ErrTruncated is returned for a file that ends before anything in it can be read.
var ErrTruncated = container.ErrTruncated

// ErrNotKept is returned for the content of a payload of which only hash and length were recorded.
var ErrNotKept = errors.New("only the hash of the payload was recorded")

// ErrNotWritten is returned for the content of a payload that was lost on its way into the trace, as on a full disk.
var ErrNotWritten = errors.New("content of a payload could not be written when the trace was made")
