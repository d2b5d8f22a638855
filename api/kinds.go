package api

import (
	"fmt"
	"slices"
)

// Role says what a parameter (or a returned value) is to a recorder and a replayer.
type Role uint8

const (
	// Value is a number that is passed on as it is.
	Value Role = iota
	// Use is a handle of an existing object.
	Use
	// New is a pointer to where the call stores the handle of the object, or the address of the allocation, that it
	// makes. As a returned value: the handle itself.
	New
	// Find is a pointer to where the call stores the handle of an object that may be known already: the same
	// question has the same answer.
	Find
	// End is a handle or an address whose object the call ends.
	End
	// Place is a handle that is the address of memory which the caller provides, and which the call makes an object.
	Place
	// Launch is a handle of an argument list that the call consumes, with the bytes behind its placeholders.
	Launch
	// Address is an address, of the device or the host, that the call does not look behind.
	Address
	// Reads is memory that the call, or the task that it makes, reads: a payload. It lies on the host or the device.
	Reads
	// Writes is memory that the call, or the task that it makes, overwrites with what the trace can't foresee.
	Writes
	// Fills is memory that the call, or the task that it makes, overwrites with a value from its other arguments.
	Fills
	// In is host memory that the call reads before it returns.
	In
	// Args is host memory with the arguments of a kernel, read by the call, and patched by it where there are
	// placeholders. It is captured before the call.
	Args
	// DevArgs is an address of device memory with the arguments of a kernel, read when the kernel runs.
	DevArgs
	// ArgArray is an array of pointers to the arguments of a kernel, whose sizes the kernel's binary knows.
	ArgArray
	// List is a pointer to a structure {elements pointer, number of elements size_t}; the elements are captured.
	List
	// String is a NUL-terminated string that the call reads and that is no path: a replay passes it as recorded.
	String
	// File is a NUL-terminated path of a file that the call reads; the content is captured too, as item 1. A replay passes the path of a
	// file in its own folder with that content.
	File
	// Out is a pointer to where the call stores a value of fixed size.
	Out
	// Text is a pointer to where the call stores a NUL-terminated string, or a returned string.
	Text
	// Buffer is a pointer to where the call stores the address of host memory that belongs to the object and that
	// the program fills before the launch.
	Buffer
	// Scratch is host memory of the caller's that the runtime uses while the object lives.
	Scratch
	// Opaque is a pointer with a meaning to the program alone.
	Opaque
	// Callback is the address of a function of the program's that the runtime calls.
	Callback
	// InOut is a pointer to a value of fixed size that the call reads and then overwrites.
	InOut
	// Answer is host memory that the call overwrites before it returns, of a size that its other arguments tell.
	Answer
	// Uses is an array of handles of existing objects, 8 bytes each, that the call reads.
	Uses
	// Struct is a structure with pointers or handles in it that the call reads, behind a pointer or by value. What its
	// pointers lead to is captured with it, as items from 1 in the order of the fields. Of a launch it is captured before
	// the call, and item 1 is the block of arguments.
	Struct
	// Map is an address in a reserved range where the call puts memory: an allocation from then on.
	Map
	// Image is host memory with a binary that the call reads, which tells its own size.
	Image
	// Packed is host memory with a list that leads to the arguments of a kernel as one block, which is captured before the call
	// as item 1.
	Packed
	// Finds is a pointer to where the call stores the address of memory of the runtime's with handles, 8 bytes each, of objects that may be known
	// already.
	OutHandles
	// Target is a NUL-terminated path of a file that the call writes. A replay passes a path in its own folder.
	Target
)

var roleNames = [...]string{"value", "use", "new", "find", "end", "place", "launch", "address", "reads", "writes", "fills",
	"in", "args", "devargs", "array", "list", "string", "file", "out", "text", "buffer", "scratch", "opaque",
	"callback", "inout", "answer", "uses", "struct", "map", "image", "packed", "finds", "target"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// Makes reports whether parameters of the role stand for an object that the call makes or answers with.
func (r Role) Makes() bool { return r == New || r == Find || r == Place || r == Map }

// ParseRole returns the role with the given name.
func ParseRole(s string) (Role, bool) {
	for i, n := range roleNames {
		if n == s {
			return Role(i), true
		}
	}
	return 0, false
}

// Object is the kind of thing that a handle or an address stands for.
type Object string

// Kinds of objects that the core has to know. A runtime may have more.
const (
	Device   Object = "device" // device memory
	Host     Object = "host"   // host pinned memory
	Stream   Object = "stream"
	Event    Object = "event"
	Context  Object = "context"
	Binary   Object = "binary"
	Function Object = "function"
	ArgsList Object = "args"
	Graph    Object = "graph"  // what a capture records, and what runs as one
	Node     Object = "node"   // of a graph
	Notify   Object = "notify" // an event that is reset by whoever waited for it, also of another process
	// Counter is a notify with a value.
	Counter Object = "counting notify"
	// Registered is host memory that the program registers for the device: its own, or a part of a Host allocation. The allocation then stays
	// what it is, and the registration is an alias of that part.
	Registered Object = "registered memory"
	// Mapped is host memory as the device addresses it. It ends with the registration of the host memory.
	Mapped Object = "mapped host memory"
	// Owned is memory of the runtime's or of a binary, which the program is told the address of and never frees. Where the
	// size is not told it stands for its first address alone.
	Owned Object = "runtime memory"
	// Span is a range of time that a program has named, by the number that the call which begins it returns.
	Span Object = "range"
	// SharedMemory is physical memory by a number that is the same in all processes.
	SharedMemory Object = "shared memory"
	// Thread and Process are no objects of the runtime's but of the system: a parameter holds a pthread_t, or ids of processes.
	Thread  Object = "thread"
	Process Object = "process"
	// Grid is memory that has no address.
	Array Object = "array"
	// Levels is several arrays, each of which ends with it.
	MipmappedArray Object = "mipmapped array"
	// Descriptor is a file of the process by its number. Another process knows it by another number, and how it got there no call tells.
	Descriptor Object = "descriptor"
	// Reservation is a range of device addresses without memory.
	Reservation Object = "reservation"
	// Exception describes the failure of a task. No call makes one: the runtime gives it to a function of the program's, for as long as that runs. Such a
	// Callback parameter has this kind, too.
	Exception Object = "exception"
	// Physical is device memory without an address.
	Physical Object = "physical memory"
)

// Memory reports whether objects of the kind are ranges of addresses.
func (o Object) Memory() bool {
	return o == Device || o.OnHost() || o == Mapped || o == Owned || o == Reservation
}

// OnHost reports whether objects of the kind are ranges of the host's memory, by the addresses that the program uses.
func (o Object) OnHost() bool { return o == Host || o == Registered }

// Task is what a call puts on a stream.
type Task uint8

const (
	NoTask Task = iota
	Kernel
	Copy
	Fill
	Record // of an event
	Wait   // for an event
	Reset  // of an event
	Reduce // of one block of memory into another
	HostFunc
	GraphRun // of all that a graph or a model holds
	System   // other work of the device's or its scheduler's: caches, markers, jumps, status, random numbers
)

var taskNames = [...]string{"", "kernel", "copy", "fill", "record", "wait", "reset", "reduce", "host", "graph", "system"}

func (t Task) String() string { return taskNames[t] }

// Works reports whether the task takes the device's time for the program's own purpose: it computes or moves data.
func (t Task) Works() bool {
	switch t {
	case Kernel, Copy, Fill, Reduce, GraphRun:
		return true
	}
	return false
}

// ParseTask returns the task with the given name.
func ParseTask(s string) (Task, bool) {
	for i, n := range taskNames {
		if n == s {
			return Task(i), true
		}
	}
	return 0, false
}

// Sync is what a call has waited for when it returns without error.
type Sync uint8

const (
	NoSync Sync = iota
	SyncDevice
	SyncStream
	SyncEvent
	// PollStream and PollEvent return at once and tell by their first Out parameter whether it is complete; without one by
	// returning 0 or Model.Pending.
	PollStream
	PollEvent
)

var syncNames = [...]string{"", "device", "stream", "event", "poll stream", "poll event"}

func (s Sync) String() string { return syncNames[s] }

// ParseSync returns the synchronization with the given name.
func ParseSync(s string) (Sync, bool) {
	for i, n := range syncNames {
		if n == s {
			return Sync(i), true
		}
	}
	return 0, false
}

// Capture says that a call begins or ends a time in which the tasks of a stream are kept in a graph, and do not run.
type Capture uint8

const (
	NoCapture Capture = iota
	CaptureBegin
	CaptureEnd
)

var captureNames = [...]string{"", "begin", "end"}

func (c Capture) String() string { return captureNames[c] }

// ParseCapture returns the Capture with the given name.
func ParseCapture(s string) (Capture, bool) {
	for i, n := range captureNames {
		if n == s {
			return Capture(i), true
		}
	}
	return 0, false
}

// Edit is what a call changes in a graph beside the tasks of its nodes.
type Edit uint8

const (
	NoEdit Edit = iota
	Link        // puts nodes, its second list, behind others, its first
	Unlink      // takes that away
	// Follow says which nodes the next task of a stream comes behind, whose tasks are kept in a graph: these alone where the call's last
	// number is not 0, else these too.
	Follow
	Enable // says by its last number whether a node does what it is for
)

var editNames = [...]string{"", "link", "unlink", "follow", "enable"}

func (e Edit) String() string { return editNames[e] }

// ParseEdit returns the Edit with the given name.
func ParseEdit(s string) (Edit, bool) {
	i := slices.Index(editNames[:], s)
	return Edit(max(i, 0)), i >= 0
}

// Range says what a call tells tools of the time: nothing, a moment, or an end of a range of it.
type Range uint8

const (
	NoRange Range = iota
	Mark
	RangeBegin
	RangeEnd
)

var rangeNames = [...]string{"", "mark", "begin", "end"}

func (r Range) String() string { return rangeNames[r] }

// ParseRange returns the Range with the given name.
func ParseRange(s string) (Range, bool) {
	for i, n := range rangeNames {
		if n == s {
			return Range(i), true
		}
	}
	return 0, false
}

// Stack is what a call does to what its thread has selected before.
type Stack uint8

const (
	Replace Stack = iota
	Push
	Pop
)

// ParseStack returns the Stack with the given name, "" for Replace.
func ParseStack(s string) (Stack, bool) {
	i := slices.Index([]string{"", "push", "pop"}, s)
	return Stack(max(i, 0)), i >= 0
}

// Share says what a call does with the key of something that processes share.
type Share uint8

const (
	NoShare Share = iota
	Export        // makes a key of what it is given
	Import        // makes an object of the key of another process
	Unshare       // ends what was imported by the key
)

var shareNames = [...]string{"", "export", "import", "end"}

func (s Share) String() string { return shareNames[s] }

// ParseShare returns the Share with the given name.
func ParseShare(s string) (Share, bool) {
	for i, n := range shareNames {
		if n == s {
			return Share(i), true
		}
	}
	return 0, false
}
