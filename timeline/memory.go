package timeline

import "github.com/acltrace/acltrace/format"

// The shadow follows what device memory holds, as far as the trace tells, to show the arguments of kernels that lie
// there. It knows bytes only where every write that could have touched them is in a certain order, the last one's content
// is in the trace, and no kernel that got the address of the allocation could have changed them. It can't see what a
// kernel reaches through a pointer that lies in memory, nor other processes.
type shadow struct {
	r       *format.Reader
	late    map[uint64][]format.Data // what copies have read, recorded apart from their calls
	procs   map[uint32]*shadowProcess
	spoiled map[uint64]uint64 // calls that read the device, with the later call that may have been faster
	found   map[uint64]uint64 // spoiled, as this pass finds it
	unseen  string            // why nothing can be known in this trace
	cost    int               // bytes that are kept
	number  uint64            // of the latest write
	touches *Touches          // of the calls; an address may lie at any fourth byte: one too many only makes less known

	// of the call at hand
	bytes []byte
	known bool
	why   string
}

type shadowProcess struct {
	*order
	memory map[*Object]*memory
	any    []write      // that may have gone anywhere, the latest of each lane
	gaps   []format.Gap // to come
	off    string       // why nothing is known from here on
}

// memory is the shadow of an allocation.
type memory struct {
	near  []write // at most maxShadow long, by first byte
	wide  []write // longer ones, whose content is of no interest
	whole []write // by kernels, the latest of each lane
	reads []read  // by tasks that may not be over
}

// A write is something that has changed memory, or may have.
type write struct {
	lo, hi uint64 // offsets in the allocation
	stamp
	number uint64
	call   uint64
	known  bool
	bytes  []byte        // of the content, or
	blob   format.BlobID // what holds it, or
	fill   []byte        // what is repeated
}

type read struct {
	lo, hi uint64
	stamp
	call uint64
}

// TouchKind says how a call comes to memory.
type TouchKind uint8

// A Touch is memory that a call, or the task that it makes, comes to by an address that stands among its arguments.
type Touch struct {
	Addr  uint64
	Size  uint64 // bytes; 0 for what Names
	Kind  TouchKind
	Param int    // where the address stands: the parameter,
	Item  uint32 // the item of it, as in format.Data,
	At    uint64 // and the byte of what lies behind it.
	Self  bool   // The address is the argument itself
}

// Touches tells for the calls of a trace, in the order of their beginnings, which memory they come to. It does not
// follow pointers that lie in device memory. It belongs to the State that the calls are applied to; its memory grows
// with the argument lists that are alive.
type Touches struct {
	s     *State
	r     *format.Reader
	late  map[uint64][]format.Data // of calls, recorded apart from them
	step  int                      // bytes from one place of an address to the next
	lists map[*Object]*argWords
	buf   []Touch
}

// argWords are the addresses that an argument list has been given.
type argWords struct {
	words   []Touch
	buffers int  // that the program fills before the launch
	unknown bool // some of it is not in the trace
}
