package api

import (
	"fmt"
	"slices"
)

// Role says how a call uses a parameter or a returned value.
type Role uint8

const (
	// Value is a number that a replay passes unchanged.
	Value Role = iota
	// Use is a handle to an existing object.
	Use
	// New points to where the call stores a new object's handle or a new allocation's address. As a returned
	// value it is the handle itself.
	New
	// Find points to where the call stores an object's handle, which may be known already. The same arguments give the
	// same handle.
	Find
	// End is a handle or an address. The call ends its object.
	End
	// Place is the address at which the caller provides memory. The call makes it an object, and the address is the handle.
	Place
	// Launch is a handle to an argument list. The call consumes the list and the bytes for its placeholders.
	Launch
	// Address is an address on the device or the host. The call does not access it.
	Address
	// Reads is a payload on the host or the device. The call or its task reads it.
	Reads
	// Writes is memory that the call or its task overwrites. The trace can't predict the content.
	Writes
	// Fills is memory that the call or its task overwrites with a value from other arguments.
	Fills
	// In is host memory that the call reads before it returns.
	In
	// Args is host memory with kernel arguments. The call reads it and patches placeholders, so it is captured
	// before the call.
	Args
	// DevArgs is a device address with kernel arguments, read when the kernel runs.
	DevArgs
	// ArgArray is an array with pointers to kernel arguments. The kernel's binary has their sizes.
	ArgArray
	// List points to a structure {pointer to elements, size_t count}. The elements are captured.
	List
	// String is NUL-terminated text that the call reads. It is not a path: a replay passes it as recorded.
	String
	// File is a NUL-terminated path to a file that the call reads. The content is captured as item 1. A replay passes a path
	// in its own folder with that content.
	File
	// Out points to where the call stores a fixed-size value.
	Out
	// Text points to where the call stores a NUL-terminated string, or is a returned string.
	Text
	// Buffer points to where the call stores an address in host memory. The memory belongs to the object, and the program
	// fills it before the launch.
	Buffer
	// Scratch is the caller's host memory. The runtime uses it until the object ends.
	Scratch
	// Opaque is a pointer that only the program can interpret.
	Opaque
	// Callback is the address of a program function that the runtime calls.
	Callback
	// InOut points to a fixed-size value that the call reads and then overwrites.
	InOut
	// Answer is host memory that the call overwrites before it returns. Other arguments give its size. With an object kind it is
	// an array of 8-byte handles, and the objects may be known already.
	Answer
	// Uses is an array with 8-byte handles to existing objects. The call reads it.
	Uses
	// Struct is a structure with pointers or handles, passed by pointer or by value. The data at its pointers is captured as
	// items from 1 in field order. For a launch it is captured before the call, and item 1 is the argument block.
	Struct
	// Map is an address in a reserved range. The call maps memory there, which is an allocation from then on.
	Map
	// Image is host memory with a binary. The binary states its own size.
	Image
	// Packed is a list in host memory that points to one block with kernel arguments. The block is captured before
	// the call as item 1.
	Packed
	// OutHandles points to where the call stores an address in runtime memory. Object handles with 8 bytes are stored
	// there, and the objects may be known already.
	OutHandles
	// Target is a NUL-terminated path to a file that the call writes. A replay passes a path in its own folder.
	Target
)

// The names are stored in traces.
var roleNames = []string{"value", "use", "new", "find", "end", "place", "launch", "address", "reads", "writes", "fills",
	"in", "args", "devargs", "array", "list", "string", "file", "out", "text", "buffer", "scratch", "opaque",
	"callback", "inout", "answer", "uses", "struct", "map", "image", "packed", "finds", "target"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// Makes reports whether the call makes or returns the object, if a parameter has this role.
func (r Role) Makes() bool { return r == New || r == Find || r == Place || r == Map }

// ParseRole returns the role with the given name.
func ParseRole(name string) (Role, bool) {
	i := slices.Index(roleNames, name)
	return Role(max(i, 0)), i >= 0
}

// unmarshal sets the constant with a name.
func unmarshal[T ~uint8](to *T, names []string, name []byte) error {
	i := slices.Index(names, string(name))
	if i < 0 {
		return fmt.Errorf("no %T %q", *to, name)
	}
	*to = T(i)
	return nil
}

// Object is an object kind: a handle or an address identifies such an object.
type Object string

// Object kinds with a meaning outside a runtime's own tables. A runtime may have more.
const (
	Device    Object = "device" // device memory
	Host      Object = "host"   // pinned host memory
	Stream    Object = "stream"
	Event     Object = "event"
	Context   Object = "context"
	Binary    Object = "binary"
	Function  Object = "function"
	ArgsList  Object = "args"
	Graph     Object = "graph"      // captured or built tasks that run together
	Node      Object = "node"       // in a graph
	GraphTask Object = "graph task" // handle of a captured task
	Notify    Object = "notify"     // an event that its waiter resets, also in another process
	// Counter is a notify with a value.
	Counter Object = "counting notify"
	// TaskGroup is captured tasks whose arguments can change.
	TaskGroup Object = "task group"
	// Registered is host memory that the program registers for the device. It may lie in a Host allocation, which stays
	// unchanged. The registration is then an alias for that part.
	Registered Object = "registered memory"
	// Mapped is a device address for host memory. It ends with the registration.
	Mapped Object = "mapped host memory"
	// Owned is memory that belongs to the runtime or a binary. The program gets its address and never frees it. If the size is
	// unknown, the object covers its first address only.
	Owned Object = "runtime memory"
	// Span is a named time range, identified by the number that the beginning call returns.
	Span Object = "range"
	// SharedMemory is physical memory, identified by a number that all processes share.
	SharedMemory Object = "shared memory"
	// Thread is a pthread_t, Process an array of process ids. The system owns both.
	Thread  Object = "thread"
	Process Object = "process"
	// Array is memory without an address.
	Array Object = "array"
	// MipmappedArray holds several arrays, which end with it.
	MipmappedArray Object = "mipmapped array"
	// Descriptor is a file descriptor. Processes have different numbers for one file, and no recorded call connects them.
	Descriptor Object = "descriptor"
	// Reservation is a device address range without memory.
	Reservation Object = "reservation"
	// Exception describes a failed task. No call makes one: the runtime passes it to a Callback parameter with this kind, and it
	// is valid during the callback.
	Exception Object = "exception"
	// Executor is an operator with its arguments. Phase one makes it, and phase two ends it. No call of the runtime uses it.
	Executor Object = "executor"
	// OperatorInfo is a description of an operator in host memory: see package opinfo.
	OperatorInfo Object = "operator info"
	// Physical is device memory without an address.
	Physical Object = "physical memory"
)

// Memory reports whether such objects are address ranges.
func (o Object) Memory() bool {
	return o == Device || o.OnHost() || o == Mapped || o == Owned || o == Reservation
}

// OnHost reports whether such objects are host memory, at the addresses that the program uses.
func (o Object) OnHost() bool { return o == Host || o == Registered }

// Task is the work that a call puts on a stream.
type Task uint8

const (
	NoTask Task = iota
	Kernel
	Copy
	Fill
	Record // an event
	Wait   // for an event
	Reset  // an event
	Reduce // one memory block into another
	HostFunc
	GraphRun // all tasks in a graph or a model
	System   // other device or scheduler work: caches, markers, jumps, status, random numbers
)

var taskNames = []string{"", "kernel", "copy", "fill", "record", "wait", "reset", "reduce", "host", "graph", "system"}

func (t Task) String() string { return taskNames[t] }

// Works reports whether the task computes or moves data for the program.
func (t Task) Works() bool {
	switch t {
	case Kernel, Copy, Fill, Reduce, GraphRun:
		return true
	}
	return false
}

// UnmarshalText sets the Task with the given name.
func (t *Task) UnmarshalText(name []byte) error { return unmarshal(t, taskNames, name) }

// Sync says which work is complete when a call returns without error.
type Sync uint8

const (
	NoSync Sync = iota
	SyncDevice
	SyncStream
	SyncEvent
	// PollStream and PollEvent return at once. The first Out parameter holds the status. Without one, the returned value is 0
	// or Runtime.Pending.
	PollStream
	PollEvent
)

// Polls reports whether the call only asks.
func (s Sync) Polls() bool { return s == PollStream || s == PollEvent }

// Wait returns SyncStream for PollStream and SyncEvent for PollEvent; others are returned unchanged.
func (s Sync) Wait() Sync {
	switch s {
	case PollStream:
		return SyncStream
	case PollEvent:
		return SyncEvent
	}
	return s
}

var syncNames = []string{"", "device", "stream", "event", "poll stream", "poll event"}

func (s Sync) String() string { return syncNames[s] }

// UnmarshalText sets the Sync with the given name.
func (s *Sync) UnmarshalText(name []byte) error { return unmarshal(s, syncNames, name) }

// Capture says that a call begins or ends a capture, a task group in it, or an update of a task group. During a capture, a stream's tasks go into a
// graph and do not run. During an update, the k-th task of the stream replaces the k-th task of the group.
type Capture uint8

const (
	NoCapture Capture = iota
	CaptureBegin
	CaptureEnd
	GroupBegin
	GroupEnd
	UpdateBegin
	UpdateEnd
)

var captureNames = []string{"", "begin", "end", "group begin", "group end", "update begin", "update end"}

func (c Capture) String() string { return captureNames[c] }

// UnmarshalText sets the Capture with the given name.
func (c *Capture) UnmarshalText(name []byte) error { return unmarshal(c, captureNames, name) }

// Edit is the change that a call makes to a graph, apart from its nodes' tasks.
type Edit uint8

const (
	NoEdit Edit = iota
	Link        // makes the nodes in the second list depend on those in the first
	Unlink      // removes such dependencies
	// Follow sets the nodes that the next task of a captured stream depends on. If the call's last number is 0, it adds them
	// to the present ones.
	Follow
	Enable // enables or disables a node by the call's last number
)

var editNames = []string{"", "link", "unlink", "follow", "enable"}

func (e Edit) String() string { return editNames[e] }

// UnmarshalText sets the Edit with the given name.
func (e *Edit) UnmarshalText(name []byte) error { return unmarshal(e, editNames, name) }

// Range says whether a call marks a moment, or one end of a time range, for tools.
type Range uint8

const (
	NoRange Range = iota
	Mark
	RangeBegin
	RangeEnd
)

var rangeNames = []string{"", "mark", "begin", "end"}

func (r Range) String() string { return rangeNames[r] }

// UnmarshalText sets the Range with the given name.
func (r *Range) UnmarshalText(name []byte) error { return unmarshal(r, rangeNames, name) }

// OperatorMark says which boundary of an operator an entry mark is. Phases and inner operators nest on a thread, and an end ends the one that began
// last.
type OperatorMark uint8

const (
	NoOperatorMark OperatorMark = iota
	OperatorPhaseOne
	OperatorPhaseTwo
	OperatorInner // an operator that phase one is made of begins
	OperatorRun   // phase two runs its executor on a stream
	OperatorEnd   // of a phase or an inner operator
	// Generated operators have other functions, and no end: phase one is from the first to the second on a thread.
	GeneratedPhaseOne
	GeneratedWorkspace
	GeneratedPhaseTwo
)

var operatorMarkNames = []string{"", "phase one", "phase two", "inner", "run", "end", "generated phase one", "generated workspace", "generated phase two"}

func (o OperatorMark) String() string { return operatorMarkNames[o] }

// UnmarshalText sets the OperatorMark with the given name.
func (o *OperatorMark) UnmarshalText(name []byte) error { return unmarshal(o, operatorMarkNames, name) }

// Operand says what a call does with the arguments of the next operator on its thread, and with the executors that a framework keeps. The names of the
// parameters are those of libnnopbase.
type Operand uint8

// What calls do with operands.
const (
	NoOperand      Operand = iota
	OtherOperand           // ends them, asks for their properties, and so on
	TensorOperand          // makes a tensor, of viewDims, dataType, stride, offset, format, storageDims and tensorData
	ListOperand            // makes a list of tensors, in value
	AddressOperand         // adds the address of a tensor's storage, for an executor that is kept
	KeptOperand            // looks up an executor that is kept, by a key in the first parameter; null if there is none
)

var operandNames = []string{"", "other", "tensor", "list", "address", "kept"}

func (o Operand) String() string { return operandNames[o] }

// UnmarshalText sets the Operand with the given name.
func (o *Operand) UnmarshalText(name []byte) error { return unmarshal(o, operandNames, name) }

// Stack is a call's effect on the thread's context stack.
type Stack uint8

const (
	Replace Stack = iota
	Push
	Pop
)

// UnmarshalText sets the Stack with the given name, "" for Replace.
func (s *Stack) UnmarshalText(name []byte) error {
	return unmarshal(s, []string{"", "push", "pop"}, name)
}

// Share says how a call uses the key to a shared object.
type Share uint8

const (
	NoShare Share = iota
	Export        // makes a key for an object
	Import        // makes an object from another process's key
	Unshare       // ends the object that a key imported
)

var shareNames = []string{"", "export", "import", "end"}

func (s Share) String() string { return shareNames[s] }

// UnmarshalText sets the Share with the given name.
func (s *Share) UnmarshalText(name []byte) error { return unmarshal(s, shareNames, name) }
