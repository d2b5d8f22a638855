// Package api is the model of the traced runtimes: every function once, with its signature and what it means.
//
// The tables of one layer of a runtime lie in a folder of their own (api/acl, api/rt for the library below it, api/hccl for
// the collectives above, api/mstx for what programs tell tools, and api/program for what of the program's the runtime calls):
// functions.tsv holds the signatures as a machine extracted them, semantics.yaml what a prototype can't say, ids.lock the
// numeric ids, which are only ever appended. The layers of a runtime are one Model.
// internal/cmd/apigen turns them into the Go tables that this package describes, and into the C of the shim, the
// player and the simulator's face. Values of this package are constant after init and may be read from anywhere.
// Nothing here calls a runtime or knows one by name.
package api

import (
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
)

// ID is the number of a function within its runtime. It is written to trace files, so it never changes and is never
// used again. 0 is no function.
type ID uint16

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

// Size is the number of bytes behind a pointer: Unit times the values of the parameters in Mul. A size with a Pitch is
// a block of rows: Mul is {width, height} and Pitch the parameter with the distance of two rows, in bytes.
type Size struct {
	Unit  uint64
	Mul   []uint8
	Pitch int8 // parameter number, -1 where the memory is contiguous
	// Stored says that the words of the call don't tell the size: a parameter in Mul is a pointer to where the call stores the
	// factor, or there are more factors than Mul has, which lie in memory.
	Stored bool
}

// Bytes returns the number of bytes, given the words of a call, and false where it would not fit or where only what the
// call has stored tells it.
func (s Size) Bytes(f *Func, words []uint64) (uint64, bool) {
	if s.Stored {
		return 0, false
	}
	n := s.Unit
	for _, p := range s.Mul {
		w := words[f.Params[p].Word]
		if n != 0 && w > (1<<63)/n {
			return 0, false
		}
		n *= w
	}
	return n, true
}

// Param describes one parameter of a function.
type Param struct {
	Name string
	Type string // in C
	// Word is the number of the first argument word, Words how many there are: a structure that is passed by value
	// takes as many words as it has eightbytes.
	Word, Words uint8
	Width       uint16 // bytes of the value
	Role        Role
	Object      Object // of handles and allocations
	Size        Size   // of what lies behind the pointer, for roles that have it
	// Elem is the size in bytes of what the pointer of an Out, InOut, New, Find, Buffer or Struct parameter points to, and of one
	// element of a List.
	Elem uint32
	// ItemType is the C type of one element of a List.
	ItemType string
	// ItemSizes marks an array of pointers to payloads: it is the array parameter with their sizes, -1 where there is
	// no array.
	ItemSizes int8
	// ItemCount is the parameter with the number of items, meaningful where ItemSizes is not -1.
	ItemCount int8
	// Volatile marks an output that another run may answer otherwise: times, ids, free memory. A replay counts it
	// and does not compare it.
	Volatile bool
	// Before is how many arguments a Callback gets before what the program has it given.
	Before uint8
	// Machine marks an output that tells of the machine and its devices: another one may answer otherwise, and a replay
	// there says so without calling it a difference.
	Machine bool
	// HostVisible marks memory that the program uses without a call, as its own.
	HostVisible bool
	// Addresses marks memory whose 8-byte words may be device addresses.
	Addresses bool
	// OmitOnReplay marks what a replay leaves out, with 0 in its place: options that only the program that made the call can use.
	OmitOnReplay bool
	// Token is the size of the structures behind the pointer, a multiple of 8, where nobody but the runtime knows what is in them: what a call has
	// stored the program hands on as it is, to other calls, in arguments of kernels or in what it copies to the device, and it stands for something
	// else in another run. 0 for other memory.
	Token uint32
	// Always marks an InOut that a call which fails may store, too. It is recorded whether the call fails or not.
	Always bool
	// RangeQuery marks an output that says how far the memory reaches that another parameter lies in: further where a replay maps it itself.
	RangeQuery bool
	// Cookie marks an Opaque that the runtime gives back as it is and never looks behind.
	Cookie bool
	// RefCounted marks a Find whose answer is a reference to the object: as many calls have to end it.
	RefCounted bool
	// Fields are the pointers and handles in a Struct, as far as the model knows them.
	Fields []Field
	// Hosts says by which values of another parameter the call declares the memory of a Reads or Writes to be the host's.
	Hosts Kinds
	// CopyDesc says where a Struct describes a copy, nil where it describes none. What the copy reads from the host's memory is
	// item BlockFrom, what it brings there item BlockTo: the rows without the gaps between them.
	CopyDesc *CopyDesc
}

// Kinds are values of a parameter: a bit for each number below 16, none for no parameter.
type Kinds struct {
	Param uint8
	Bits  uint16
}

// ArgItems is the number before those of the items of a Field with Args.
const ArgItems = 16

// Items of a Struct with a Block.
const (
	BlockFrom = 1
	BlockTo   = 2
)

// A CopyDesc is a copy of rows of bytes, as a structure describes it: offsets of its fields, all of which are words. A field that it lacks
// has the offset NoField.
type CopyDesc struct {
	From, To             CopyEnd
	Width, Height, Depth uint32 // of the copy: bytes, rows, planes
}

// Shifted is the block of a structure that has this one's within it, so many bytes from its beginning.
func (b *CopyDesc) Shifted(by uint32) *CopyDesc {
	c := *b
	for _, at := range []*uint32{&c.Width, &c.Height, &c.Depth,
		&c.From.Kind, &c.From.Host, &c.From.Device, &c.From.Array, &c.From.X, &c.From.Y, &c.From.Z, &c.From.Pitch, &c.From.Rows,
		&c.To.Kind, &c.To.Host, &c.To.Device, &c.To.Array, &c.To.X, &c.To.Y, &c.To.Z, &c.To.Pitch, &c.To.Rows} {
		if *at != NoField {
			*at += by
		}
	}
	return &c
}

// NoField is the offset of a field that a structure lacks.
const NoField = ^uint32(0)

// A CopyEnd is one end of a Block.
type CopyEnd struct {
	Kind         uint32 // of what kind of memory it is, a number of 4 bytes: HostSide, DeviceSide
	Host, Device uint32 // its address
	Array        uint32 // or its handle
	X, Y, Z      uint32 // where it begins: bytes, rows, planes
	Pitch, Rows  uint32 // bytes of a row and rows of a plane
}

// Kinds of memory of a Side. What is none of them is not looked at.
const (
	HostSide    = 1
	DeviceSide  = 2
	ArraySide   = 3
	UnifiedSide = 4 // the address tells
)

// A Field is a place in a structure that is worth something in its own run alone: a pointer, or a handle.
type Field struct {
	Offset uint32 // bytes
	Object Object // of a handle
	Item   uint32 // under which the data behind a pointer is captured, 0 for a handle
	String bool   // the data is a string, without its NUL
	New    bool   // the data is what the call stores: handles of Objects that it makes, 8 bytes each
	Type   string // of an element of the data, "" where it has none
	// Args says that the data are the arguments of a kernel behind an array of pointers: items from ArgItems+1 on. Packed says that it is
	// the block of them that a list leads to. Callback marks a function of the program's, OmitOnReplay what such a function is given: both
	// are worth nothing to a replay.
	Args, Packed, Callback, OmitOnReplay bool
	// Stored says of a New field that the call stores it too: the address of handles in memory of the runtime's or, where Item is 0, that of
	// memory of so many bytes.
	Stored bool
	// Unit is the number of bytes of other data, times the value of the member Count where that has a size. The member Unless,
	// where it has a size, says by a value other than 0 that the memory is the device's.
	Unit          uint64
	Count, Unless Member
	// Tag and Case say of a member of a union when it counts: where the member Tag, if it has a size, has the value Case.
	Tag  Member
	Case uint64
}

// Counts reports whether the field is one of the structure that these bytes are.
func (f *Field) Counts(b []byte) bool {
	if f.Tag.Size == 0 {
		return true
	}
	v := uint64(0)
	for k := f.Tag.Size; k > 0; k-- {
		if int(f.Tag.Offset+k) > len(b) {
			return false
		}
		v = v<<8 | uint64(b[f.Tag.Offset+k-1])
	}
	return v == f.Case
}

// Numbers that stand for no parameter, in what a trace keeps of a call. No function has so many.
const (
	MemoryParam = 248 // content of memory that the program and the device access without a call, before a task or after a wait
	// RecordingParam is how many nanoseconds the recorder has kept the thread between its call before and this one, to hash and copy
	// payloads. That time is not the program's own.
	RecordingParam = 249
	// TaskStartParam and TaskEndParam are the time of the task that the call has made, as the device spent it: nanoseconds on
	// the clock of the call's own times. They come together.
	TaskStartParam = 250
	TaskEndParam   = 251
	MapsParam      = 252 // the mappings of the process, as /proc/PID/maps has them, beside its first stack
	StackParam     = 253 // the stack that the call was made from: an output with its hash, and once the return addresses
	TaskParam      = 254 // the runtime's ids of the task that the call has made: stream id << 32 | task id
	RetParam       = 255 // the returned value
)

// Handles reports whether the parameter is a structure with handles in it.
func (p *Param) Handles() bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Object != "" })
}

// Inside reports whether the call stores handles of what it makes behind a pointer in the structure.
func (p *Param) Inside() bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.New })
}

// Has reports whether the parameter is a structure with the handle of an object that the call uses.
func (p *Param) Has(o Object) bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Object == o && !f.New })
}

// Out reports whether the call stores something behind the parameter that fits one word.
func (p *Param) Out() bool {
	switch p.Role {
	case New, Find, Buffer:
		return true
	case Out, InOut:
		return p.Elem <= 8
	}
	return false
}

// Names reports whether the parameter is the handle of an object that the call uses, and not an address.
func (p *Param) Names() bool {
	switch p.Role {
	case Use, Launch, End:
		return !p.Object.Memory()
	}
	return false
}

// Func describes one function of a runtime.
type Func struct {
	ID     ID
	Name   string
	Layer  string // name of a Layer
	Return string // C type
	Params []Param
	// Ret is the role of the returned value; Value where it is an error code or a plain number.
	Ret       Role
	RetObject Object
	RetWidth  uint16 // bytes of the returned value
	RetVoid   bool
	// RetError says that the returned value is the runtime's error code, 0 for success.
	RetError bool
	// RetVolatile marks a returned value that another run may answer otherwise.
	RetVolatile bool
	// Pending is Model.Pending, for a function that answers with it: that is no failure. 0 for any other.
	Pending int32
	Task    Task
	Sync    Sync
	Capture Capture // of the stream that the call names
	Edit    Edit    // of a graph
	// Initializes says that the call sets the runtime up, for a process or for a thread.
	Initializes bool
	// PollsCallbacks says that the call waits for a function of the program's that a stream is to call and runs it, on the thread that makes
	// the call. It fails where none has come.
	PollsCallbacks bool
	// Subscribes is the function that reports (see Reports) to the thread that a parameter of the call names, "" for none.
	Subscribes string
	// Collective says that the call is a rank's part of a collective whose work is done on no rank before the call has begun on every rank.
	Collective bool
	// Composite says that the call encloses others of the same runtime, which are recorded too: it puts nothing on a stream itself.
	Composite bool
	// SkipOnReplay says that the call changes nothing and that its answer is worth something in its own run alone: a replay leaves it out.
	SkipOnReplay bool
	// ReplayError is why a replay can't make the call, "" where it can.
	ReplayError string
	// Keeps are the members that a replay keeps of the JSON object in the call's File parameter. It removes the others, which may name
	// files. If Keeps is nil, the content of the file stays as recorded.
	Keeps []string
	// Annotation says that the call tells tools something and does nothing else. Range says whether that is of the time; its
	// message is what Names says, and a range is an object.
	Annotation bool
	Range      Range
	// HostCallback says that it is no function of the runtime's but one of the program's that the runtime has called: its parameters are
	// the function and what it was given. It is Outer, and it Notes.
	HostCallback bool
	// Shares says that the call has to do with what processes share by keys. StandIn is the function that makes something alike for a
	// call that Imports, where the other process isn't there; "" for none.
	Shares  Share
	StandIn string
	// Entry is the parameter with the number of a kernel in the binary that the call uses, -1 where there is none.
	Entry int8
	// Selects is the parameter with what the calling thread uses from here on, a context or the number of a device; Device
	// the one with the device of what the call makes; -1 where there is none.
	Selects, Device int8
	// Stack is what the call does to what its thread has selected: it puts that of Selects on top of it, or takes the top away.
	// Without it Selects takes the top's place.
	Stack Stack
	// Stream is the parameter that names the stream of the task or the wait, Event the one that names the event or
	// notify; -1 where there is none.
	Stream, Event int8
	// OwnStream says that no stream means the thread's own default stream.
	OwnStream bool
	// Graph is the parameter with the graph, or the node of one, that the call puts its task into: it runs each time
	// that the graph does. -1 where it is put on a stream.
	Graph int8
	// Names is the parameter with the name of the object that the call makes, else of the first one that it uses; -1 where
	// there is none.
	Names int8
	// Form says what the function is a form of, nil where it is none.
	Form *Form
	// Modelled says that the semantics are known. A function without them passes through a recorder uncounted in
	// detail: only its name and number of calls are kept.
	Modelled bool
	// Simulated says that the simulator has it, and that it has a method in the runtime's generated interface.
	Simulated bool
	Since     string // first release known to have it
	Doc       string // one sentence
	Words     uint8  // number of argument words
}

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

// Enum is one enumeration type of a runtime.
type Enum struct {
	Type   string
	Values []EnumValue // in the order of declaration; several names may share a value
}

// EnumValue is one name of an enumeration.
type EnumValue struct {
	Name  string
	Value int64
}

// Layout is what is shown of a structure: some of its members or, where one says by its value what the others are, that one
// and those that it says.
type Layout struct {
	Type    string
	Size    uint32 // bytes
	Members []Member
	Tag     *Member            // an enumeration
	Cases   map[int64][]Member // by the value of Tag
	Prefix  string             // that the names of Tag's values share
}

// Member is a member of a structure, a number without a sign.
type Member struct {
	Name         string
	Object       Object // of a handle
	Type         string
	Offset, Size uint32 // bytes; Size is at most 8
}

// Window is a range of addresses that the runtime's driver owns: what lies in it is device memory unless the runtime
// has given it out as host memory.
type Window struct{ From, To uint64 }

// Layer is one of the libraries, or sets of libraries, that make up a runtime.
type Layer struct {
	Name string // "acl", "rt"
	// Libraries are the names of its files, without versions, those that programs are linked to first.
	Libraries []string
	// Outer says that its functions are: they call those of other layers.
	Outer bool
	// Errors is the C type of its error codes, a signed number of 32 bits.
	Errors string
}

// Simulator is how the simulator of a runtime is known.
type Simulator struct {
	Library string // its library's file, in the folder of acltrace's libraries
	Symbol  string // that its library exports, and the vendor's does not
	Kernels string // variable of the environment with the files of its kernel libraries
	// KernelSymbol is exported by every kernel library. A library without it is not searched for kernels.
	KernelSymbol string `yaml:"kernel_symbol"`
	Loaded       string // variable of the environment with the file that it appends the kernel libraries to that it loads (internal/kernellib)
	// Beside is the variable of the environment that has it, if it is 1, look for a kernel library beside each binary that a program
	// loads; "" for one that does not. A replay never sets it: the paths in a trace are a stranger's.
	Beside string
	Base   string // variable of the environment with the first address of device memory, in hexadecimal
	Place  string // variable of the environment with the file that says where allocations go
	// Strict is the variable of the environment that has it look for mistakes, where it is 1, and Findings the one with the file that
	// it appends them to; "" for one that finds none.
	Strict, Findings string
	Uninitialised    string // variable of the environment that has it report, if it is 1, results of memory that nothing has written; "" for one that can't
	Model            string // variable of the environment with its cost model: a name, a file or the content of a file; "" for one without
	Clock            string // variable of the environment that has it run in virtual time, if it is "virtual"; "" for one that can't
	Prefix           string // of all its variables
	// Settings are the variables that acltrace sim sets, without the prefix.
	Settings []string
	// Replayed are the variables that a trace may set in a replay, each with a regular expression for its whole value. None is a path.
	Replayed map[string]string
}

// maxVariable is the size of the largest value of a variable that a trace may set.
const maxVariable = 64 << 10

// CheckVariable returns an error unless a trace may set a variable of the simulator to a value in a replay.
func (s *Simulator) CheckVariable(name, value string) error {
	syntax, ok := s.Replayed[name]
	switch {
	case !ok:
		return errors.New("a trace can't set it")
	case len(value) > maxVariable:
		return fmt.Errorf("%d bytes: at most %d are allowed", len(value), maxVariable)
	}
	// (?s): a value in JSON may have several lines.
	if !regexp.MustCompile(`(?s)\A(?:` + syntax + `)\z`).MatchString(value) {
		return errors.New("a trace can't set it to this value")
	}
	return nil
}

// Decides reports whether a replay sets a variable itself, or leaves it out, whatever the trace says.
func (s *Simulator) Decides(name string) bool {
	return name != "" && slices.Contains([]string{s.Kernels, s.Loaded, s.Beside, s.Place, s.Strict, s.Findings, s.Uninitialised}, name)
}

// Faults is how a runtime tells a program that a task has failed on the device.
type Faults struct {
	Codes  [2]int32 // the least and the greatest error code of the device
	Except []int32  // codes between them that describe a call, and no task
	// Stream and Task are functions that answer with the runtime's ids of the stream and the task that failed, while it tells the
	// program of it; "" for none.
	Stream, Task string
	// Message is a regular expression whose groups stream, task, flip and kernel are what a message tells of the task.
	Message string
}

// Accelerator is what a runtime's devices are called, who makes them, and the preset of package sim/model for one of them.
type Accelerator struct{ Kind, Vendor, Costs string }

// Installed says which files on a machine tell the versions of a runtime and its driver: the first that is there does. And which
// ones tell that the machine has a device.
type Installed struct {
	Homes   []string // variables of the environment with a folder of the runtime
	Folders []string // of the runtime, where no variable names one
	Runtime []string // files in such a folder
	Driver  []string // files of the driver
	Devices []string // patterns
	// Carried is what a file holds, each alone, that has code for the devices in it.
	Carried []string
}

// Model is everything known about one runtime.
type Model struct {
	Name        string // "acl"
	Accelerator Accelerator
	// Shim is the file of the library that is loaded into programs in order to record them.
	Shim      string
	Installed Installed
	Layers    []Layer // the one that programs call first
	Funcs     []Func  // by ascending ID
	Enums     []Enum
	Layouts   []Layout    // those that are shown as what they are
	Errors    []EnumValue // the first name of a code is its main one
	Device    Window
	// Environment are the variables that say how a program ran, and prefixes of their names, which end in "_".
	Environment []string
	// Exhausted are the least and the greatest error code that say that the call was sound and something was used up.
	Exhausted [2]int32
	// Pending is the error code that says that what was asked about is not complete, 0 where none does.
	Pending int32
	// Refused is the error code that calls of a function return which a stream calls, 0 where they are allowed.
	Refused int32
	// Constants is the greatest handle that is a constant of the runtime's, as a default stream is: the same in every run.
	Constants uint64
	// OwnStream is the one of them that stands for the thread's own default stream, 0 where there is none.
	OwnStream uint64
	// NonBlocking is the bit in the flags of a stream that the default stream of its context has nothing to do with. What is put on that stream waits
	// for what was put on the other ones before, and they for it. 0 where default streams wait for no others.
	NonBlocking uint64
	// Numbers are the kinds of objects that kernels know by the handle, a number of 8 bytes among their arguments.
	Numbers []Object
	// DeviceName is the function whose answer, a text, is the name of the device; "" for none.
	DeviceName string
	Simulator  Simulator
	Faults     Faults

	byID   []*Func
	byName map[string]*Func
	errs   map[int64]string
	enums  map[string]map[int64]string
}

// Checksum tells models apart whose functions have other numbers or other arguments: what the one has recorded the other would
// misread.
func (m *Model) Checksum() uint64 {
	h := fnv.New64a()
	for i := range m.Funcs {
		fmt.Fprintln(h, m.Funcs[i].ID, m.Funcs[i].Name, m.Funcs[i].Words)
	}
	return h.Sum64()
}

// Init builds the lookup tables; the generated tables call it once.
func (m *Model) Init() *Model {
	m.byName = make(map[string]*Func, len(m.Funcs))
	m.byID = make([]*Func, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		f := &m.Funcs[i]
		m.byID[f.ID], m.byName[f.Name] = f, f
		if f.Sync == PollStream || f.Sync == PollEvent {
			f.Pending = m.Pending
		}
	}
	m.errs = make(map[int64]string, len(m.Errors))
	for _, e := range m.Errors {
		if _, ok := m.errs[e.Value]; !ok {
			m.errs[e.Value] = e.Name
		}
	}
	m.enums = make(map[string]map[int64]string, len(m.Enums))
	for _, e := range m.Enums {
		names := make(map[int64]string, len(e.Values))
		for _, v := range e.Values {
			if _, ok := names[v.Value]; !ok {
				names[v.Value] = v.Name
			}
		}
		m.enums[e.Type] = names
	}
	return m
}

// DeviceFault reports whether an error code says that a task has failed on the device, and not what a call was given.
func (m *Model) DeviceFault(code int32) bool {
	return m.Faults.Codes[0] <= code && code <= m.Faults.Codes[1] && code != 0 && !slices.Contains(m.Faults.Except, code)
}

// ownStream is set in the number of a thread's own default stream, and in no handle.
const ownStream = 1 << 63

// StreamOf is a number for the stream that a handle means to a thread which calls the function: 0 is the default stream of a context or a
// device, and the thread's own default stream has one that no handle is.
func (m *Model) StreamOf(f *Func, handle uint64, thread uint32) uint64 {
	switch {
	case m.OwnStream != 0 && (handle == m.OwnStream || handle == 0 && f.OwnStream):
		return ownStream | uint64(thread)
	case handle <= m.Constants:
		return 0
	}
	return handle
}

// StreamHandle is the handle of a stream that has a number of StreamOf, to the thread that it belongs to.
func (m *Model) StreamHandle(number uint64) uint64 {
	if number&ownStream != 0 {
		return m.OwnStream
	}
	return number
}

// KeepsVisible reports whether recordings keep the content of managed and registered memory. A runtime whose default streams wait for others
// orders tasks in ways that the planner does not follow for such memory.
func (m *Model) KeepsVisible() bool { return m.OwnStream == 0 }

// Waiter returns the first function that waits in the given way and takes nothing but what it waits for, nil where there is none.
func (m *Model) Waiter(s Sync) *Func {
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Sync == s && (f.Words == 0 && s == SyncDevice || f.Words == 1 && f.Stream == 0) {
			return f
		}
	}
	return nil
}

// Fill returns the first function that sets device memory to a byte, on a stream or by itself, with the parameter that is the byte; nil and -1
// if there is none. Of its other values all are sizes in bytes.
func (m *Model) Fill(onStream bool) (f *Func, value int) {
	for i := range m.Funcs {
		f, value = &m.Funcs[i], -1
		if f.Task != Fill || !f.Plain() || !f.RetError || (f.Stream >= 0) != onStream {
			continue
		}
		fills := slices.IndexFunc(f.Params, func(q Param) bool { return q.Role == Fills })
		if fills < 0 {
			continue
		}
		size := f.Params[fills].Size
		if size.Unit != 1 || len(size.Mul) != 1 || size.Pitch >= 0 {
			continue
		}
		for k := range f.Params {
			if q := &f.Params[k]; q.Role == Value && q.Type != f.Params[size.Mul[0]].Type {
				value = k
			}
		}
		if value >= 0 {
			return f, value
		}
	}
	return nil, -1
}

// Upload returns the first function that puts the copy of a number of bytes from the host to the device on a stream, with the words that it
// takes where they are not the addresses and the stream; nil where there is none.
func (m *Model) Upload(n uint64) (f *Func, words []uint64) {
	for i := range m.Funcs {
		f, words = &m.Funcs[i], make([]uint64, m.Funcs[i].Words)
		roles := map[Role]int{}
		for k := range f.Params {
			q := &f.Params[k]
			if q.ItemSizes >= 0 || q.Words != 1 || q.Size.Pitch >= 0 {
				roles[q.Role]++
			}
			roles[q.Role]++
			if q.Role != Value {
				continue
			}
			if words[q.Word] = n; q.Type != "size_t" {
				words[q.Word] = m.enumValue(q.Type, "_HOST_TO_DEVICE")
			}
			if words[q.Word] == 0 {
				roles[Value] = 1 << 8
			}
		}
		if f.Task == Copy && f.Stream >= 0 && f.RetError && f.Plain() && roles[Reads] == 1 && roles[Writes] == 1 && roles[Use] == 1 && roles[Value] < 1<<8 && len(f.Params) == 3+roles[Value] {
			return f, words
		}
	}
	return nil, nil
}

// enumValue returns the value of an enumeration whose name ends so, 0 where there is none.
func (m *Model) enumValue(ctype, suffix string) uint64 {
	for _, e := range m.Enums {
		if e.Type != ctype {
			continue
		}
		for _, v := range e.Values {
			if strings.HasSuffix(v.Name, suffix) {
				return uint64(v.Value)
			}
		}
	}
	return 0
}

// Func returns the function with the given id, nil where there is none.
func (m *Model) Func(id ID) *Func {
	if int(id) < len(m.byID) {
		return m.byID[id]
	}
	return nil
}

// Libraries returns the names of the runtime's libraries, without those of outer layers.
func (m *Model) Libraries() []string {
	var names []string
	for _, l := range m.Layers {
		if !l.Outer {
			names = append(names, l.Libraries...)
		}
	}
	return names
}

// Library reports whether a file name is that of a library of the runtime, whatever its version.
func (m *Model) Library(file string) bool {
	l := m.LayerOf(file)
	return l != nil && !l.Outer
}

// ErrorType reports whether a C type is that of a layer's error codes.
func (m *Model) ErrorType(ctype string) bool {
	return slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Errors == ctype })
}

// LayerOf returns the layer that a file name, whatever its version, is a library of, nil for none.
func (m *Model) LayerOf(file string) *Layer {
	for i := range m.Layers {
		for _, n := range m.Layers[i].Libraries {
			if rest, ok := strings.CutPrefix(file, n); ok && strings.Trim(rest, ".0123456789") == "" && rest != "." {
				return &m.Layers[i]
			}
		}
	}
	return nil
}

// Lookup returns the function with the given name, nil where there is none.
func (m *Model) Lookup(name string) *Func { return m.byName[name] }

// ErrorName returns the name of an error code, or the number where it has none.
func (m *Model) ErrorName(code int64) string {
	if n, ok := m.errs[code]; ok {
		return n
	}
	return fmt.Sprint(code)
}

// Counted reports whether calls of a function are counted by name. Of any other that a recorder does not know it sees at most that the program
// asks for it.
func (m *Model) Counted(name string) bool {
	f := m.Lookup(name)
	return f != nil && !f.Modelled
}

// Layout returns what is shown of a structure type, nil where nothing is.
func (m *Model) Layout(ctype string) *Layout {
	for i := range m.Layouts {
		if m.Layouts[i].Type == ctype {
			return &m.Layouts[i]
		}
	}
	return nil
}

// EnumName returns the name of a value of an enumeration type, "" where it has none.
func (m *Model) EnumName(ctype string, v int64) string { return m.enums[ctype][v] }
