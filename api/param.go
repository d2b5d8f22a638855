package api

import "slices"

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

// Param describes one parameter of a function: its place in the signature and, embedded, its meaning, the memory that it
// points to, and how a replay treats it.
type Param struct {
	Name string
	Type string // in C
	// Word is the number of the first argument word. Words is their number: a structure that is passed by value has one for
	// every 8 bytes.
	Word, Words uint8
	Width       uint16 // bytes of the value
	Role        Role
	Object      Object // of handles and allocations
	// Before is the number of arguments that a Callback gets before the program's own argument.
	Before uint8
	// Cookie marks an Opaque that the runtime returns as it is and never dereferences.
	Cookie bool
	// RefCounted marks a Find that returns a counted reference: each one has to be ended.
	RefCounted bool
	// HostVisible marks an allocation that the program accesses without a call.
	HostVisible bool
	// Flags marks the flags of the stream that the call makes, or of the record of an event.
	Flags bool
	// Hosts says which values of another parameter declare the memory of a Reads or Writes to be the host's.
	Hosts Kinds

	Memory
	ParamReplay
}

// Memory describes the memory that a parameter points to.
type Memory struct {
	Size Size
	// Elem is the number of bytes of the value of an Out, InOut, New, Find, Buffer or Struct, and of one element of a List.
	Elem uint32
	// ItemType is the C type of one element of a List.
	ItemType string
	// ItemSizes marks an array of pointers to payloads. It is the array parameter with their sizes, -1 for no such array.
	ItemSizes int8
	// ItemCount is the parameter with the number of items, valid unless ItemSizes is -1.
	ItemCount int8
	// Always marks an InOut that a failed call may store, too. It is recorded after success and failure.
	Always bool
	// Fields are the known pointers and handles in a Struct.
	Fields []Field
	// CopyDesc locates the description of a copy in a Struct, nil for none. Host memory that the copy reads is item
	// BlockFrom, host memory that it writes item BlockTo: the rows without the gaps between them.
	CopyDesc *CopyDesc
}

// ParamReplay says how a replay passes a parameter and compares its output.
type ParamReplay struct {
	// Volatile marks an output that may differ from run to run: times, ids, free memory. A replay counts it and does not
	// compare it.
	Volatile bool
	// Machine marks an output that describes the machine and its devices. If it differs on another machine, a replay
	// reports that, but not as a difference.
	Machine bool
	// Addresses marks memory whose 8-byte words may be device addresses.
	Addresses bool
	// OmitOnReplay marks an argument that a replay replaces by 0: options that only the recorded program can use.
	OmitOnReplay bool
	// Token is the size of opaque structures in the memory, a multiple of 8, 0 for none. A call stores such a structure and
	// the program passes it on unchanged: to other calls, in arguments of kernels, or in copies to the device. Its content
	// is valid in its own run only.
	Token uint32
	// RangeQuery marks an output with the extent of the memory that contains another parameter. It is larger if the replay
	// maps the memory itself.
	RangeQuery bool
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
