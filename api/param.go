package api

import "slices"

// Size is the byte count of memory that a parameter points to: Unit times the values of the parameters in Mul. A size with a Pitch is a
// block of rows. Its Mul is {width, height}, and Pitch is the parameter with the distance between two rows, in bytes.
type Size struct {
	Unit  uint64
	Mul   []uint8
	Pitch int8 // parameter, -1 for contiguous memory
	// Stored: the call's words do not determine the size. A parameter in Mul points to a factor that the call stores, or
	// further factors are in memory.
	Stored bool
}

// Bytes computes the size from a call's words. It returns false if the size overflows or is Stored.
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
	// Word is the index of the first argument word, Words their count. A structure passed by value has a word for every 8
	// bytes.
	Word, Words uint8
	Width       uint16 // in bytes
	Role        Role
	Object      Object // for handles and allocations
	// Before counts the arguments that a Callback gets before the program's own argument.
	Before uint8
	// Cookie marks an Opaque that the runtime returns unchanged and never dereferences.
	Cookie bool
	// RefCounted marks a Find that returns a counted reference. The program has to end each one.
	RefCounted bool
	// HostVisible marks an allocation that the program accesses without a call.
	HostVisible bool
	// Flags marks the flags for a new stream, or for the record of an event.
	Flags bool
	// Hosts lists the values of another parameter that declare a Reads or Writes to be host memory.
	Hosts Kinds

	Memory
	ParamReplay
}

// Memory describes the memory that a parameter points to.
type Memory struct {
	Size Size
	// Elem is the size in bytes of the value for an Out, InOut, New, Find, Buffer or Struct, and of one element for a List.
	Elem uint32
	// ItemType is the C type of a List element.
	ItemType string
	// ItemSizes marks an array of pointers to payloads. It is the array parameter with their sizes, -1 for no such array.
	ItemSizes int8
	// ItemCount is the parameter with the item count, valid unless ItemSizes is -1.
	ItemCount int8
	// Always marks an InOut that failed calls may store, too. It is recorded after success and failure.
	Always bool
	// Fields are the known pointers and handles in a Struct.
	Fields []Field
	// CopyDesc locates a copy's description in a Struct, nil for none. Host memory that the copy reads is item CopyFrom,
	// host memory that it writes is item CopyTo. Items hold the rows without the gaps between them.
	CopyDesc *CopyDesc
}

// ParamReplay says how a replay passes a parameter and compares its output.
type ParamReplay struct {
	// Volatile marks an output that may differ from run to run: times, ids, free memory. A replay counts it and does not
	// compare it.
	Volatile bool
	// Machine marks an output that describes the machine and its devices. If it differs on another machine, a replay reports
	// that, but not as a difference.
	Machine bool
	// Addresses marks memory whose 8-byte words may be device addresses.
	Addresses bool
	// OmitOnReplay marks an argument that a replay replaces by 0: options that only the recorded program can use.
	OmitOnReplay bool
	// Token is the size of opaque structures in the memory, a multiple of 8, 0 for none. A call stores such a structure and
	// the program passes it on unchanged: to other calls, in kernel arguments, or in copies to the device. Its content is
	// valid in its own run only.
	Token uint32
	// RangeQuery marks an output with the extent of the memory at another parameter. It is larger if the replay
	// maps the memory itself.
	RangeQuery bool
}

// Kinds is a set of parameter values, one bit for each number below 16. No bits mean no parameter.
type Kinds struct {
	Param uint8
	Bits  uint16
}

// Has reports whether a call's words have one of the values.
func (k Kinds) Has(f *Func, words []uint64) bool {
	if k.Bits == 0 {
		return false
	}
	w := uint32(words[f.Params[k.Param].Word])
	return w < 16 && k.Bits>>w&1 != 0
}

// ArgItems is added to the item numbers for a Field with Args.
const ArgItems = 16

// Items of a Struct with a CopyDesc.
const (
	CopyFrom = 1
	CopyTo   = 2
)

// A CopyDesc holds the field offsets by which a structure describes a copy of rows. Absent fields have the offset
// NoField.
type CopyDesc struct {
	From, To             CopyEnd
	Width, Height, Depth uint32 // bytes, rows, planes
}

// Shifted returns the description for a structure that contains this one at an offset in bytes.
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

// NoField is the offset of an absent field.
const NoField = ^uint32(0)

// A CopyEnd is one end of a copy. All fields are offsets.
type CopyEnd struct {
	Kind         uint32 // memory kind, a 4-byte number: HostEnd, DeviceEnd, ArrayEnd or UnifiedEnd
	Host, Device uint32 // address
	Array        uint32 // handle
	X, Y, Z      uint32 // start: bytes, rows, planes
	Pitch, Rows  uint32 // bytes per row, rows per plane
}

// Memory kinds. Other kinds are ignored.
const (
	HostEnd    = 1
	DeviceEnd  = 2
	ArrayEnd   = 3
	UnifiedEnd = 4 // host or device, depending on the address
)

// A Field is a pointer or a handle in a structure. Its value is valid in its own run only.
type Field struct {
	Offset uint32 // bytes
	Object Object // for a handle
	Item   uint32 // item with the captured data of a pointer, 0 for a handle
	String bool   // the data is a string, without its NUL
	New    bool   // the call stores the data: 8-byte handles to new Objects
	Type   string // C type of a data element, "" for none
	// Args: the pointer leads to an array with pointers to kernel arguments, with items from ArgItems+1 on. Packed: the data is one
	// block with kernel arguments, found through a list. Callback marks a program function, OmitOnReplay its argument. A
	// replay can't use these two.
	Args, Packed, Callback, OmitOnReplay bool
	// Stored: the call also stores a New field itself. If Item is 0, it stores the address of Unit bytes of new memory.
	// Otherwise it stores the address where the runtime keeps the handles.
	Stored bool
	// List is the size of an element if the pointer leads to a structure {pointer to elements, size_t count}. The data are
	// the elements.
	List uint32
	// Unit is the byte count for other data. It is multiplied by the member Count if that has a size. If the member Unless
	// has a size and is not 0, or If has a size and is 0, the memory is on the device.
	Unit              uint64
	Count, Unless, If Member
	// Tag and Case apply to a union member, if Tag has a size. The member is valid if Tag has the value Case.
	Tag  Member
	Case uint64
}

// Counts reports whether the field is valid in the structure with the content b.
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

// Numbers that a trace uses instead of a parameter. No function has so many parameters.
const (
	MemoryParam = 248 // content of memory that is accessed without a call, before a task or after a wait
	// RecordingParam is the time in nanoseconds for which the recorder delayed the thread since its previous call, to hash and
	// copy payloads.
	RecordingParam = 249
	// BlockedParam is the time in nanoseconds for which the thread did not run since its previous call.
	BlockedParam = 252
	// TaskStartParam and TaskEndParam are the device times for the call's task, in nanoseconds on the clock that the
	// call's own times use. They occur together.
	TaskStartParam = 250
	TaskEndParam   = 251
	MapsParam      = 252 // process mappings as in /proc/PID/maps, with the first stack
	StackParam     = 253 // call stack: an output with its hash, and once the return addresses
	TaskParam      = 254 // the runtime's ids for the call's task: stream id << 32 | task id
	RetParam       = 255 // returned value
)

// Handles reports whether the parameter is a structure with handles in it.
func (p *Param) Handles() bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Object != "" })
}

// ListsHandles reports whether the call stores an array of handles, which may be known already.
func (p *Param) ListsHandles() bool {
	return p.Role == OutHandles || p.Role == Answer && p.Object != ""
}

// Inside reports whether the call stores new handles where a pointer in the structure leads.
func (p *Param) Inside() bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.New })
}

// Has reports whether the parameter is a structure that holds the handle of an existing object o.
func (p *Param) Has(o Object) bool {
	return slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Object == o && !f.New })
}

// Out reports whether the call stores at most one word where the parameter points to.
func (p *Param) Out() bool {
	switch p.Role {
	case New, Find, Buffer:
		return true
	case Out, InOut:
		return p.Elem <= 8
	}
	return false
}

// Names reports whether the parameter is a handle to an existing object, and not an address.
func (p *Param) Names() bool {
	switch p.Role {
	case Use, Launch, End:
		return !p.Object.Memory()
	}
	return false
}
