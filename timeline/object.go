package timeline

import (
	"cmp"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline/graph"
	"github.com/acltrace/acltrace/timeline/operator"
)

// currentDevice is the device and the context that a thread has selected. Its calls without a stream go there.
type currentDevice struct {
	device  int
	context *Object // nil: the device's own
	call    uint64  // that selected it
}

// NoDevice means that the device is unknown.
const NoDevice = -1

// DeviceName returns a name such as "npu:0", without a number for NoDevice.
func DeviceName(m *api.Model, device int) string {
	name := cmp.Or(m.Accelerator.Kind, "device")
	if device == NoDevice {
		return name
	}
	return fmt.Sprintf("%s:%d", name, device)
}

// A LaneKey identifies a lane: a stream of the program, the default stream of a context or a device, or the calls without a stream.
type LaneKey struct {
	Process     uint32
	Stream      *Object // nil for a default stream
	Device      int     // NoDevice if unknown
	Context     *Object // of a default stream
	Synchronous bool    // no stream: the call itself does the work
}

// NoCall means a call that is not in the trace.
const NoCall = ^uint64(0)

// RetParam is the parameter number for the returned value.
const RetParam = api.RetParam

// An Object is a runtime object that the program names by a handle, or an allocation that it names by addresses.
type Object struct {
	ID      int // from 1, in the order of appearance in the trace
	Kind    api.Object
	Handle  uint64 // handle, or first address; for a thread's default stream: the number from api.Model.StreamOf
	Size    uint64 // for an allocation, in bytes
	Process uint32
	Created uint64 // call that made it, NoCall for an object older than the trace
	Ended   uint64 // call that ended it, NoCall if none did
	Name    string // for a function: its kernel's name
	Parent  *Object
	// Constant means that no call makes the object: it is a thread's default stream.
	Constant bool
	// NonBlocking means that the context's default stream does not wait for the stream, see api.Model.NonBlocking.
	NonBlocking bool

	Hosted bool // memory that the program accesses without a call, like its own
	Device int  // device number, NoDevice if unknown

	// Former is the object that had the handle before a call ended it, if the object is made by a later use of the handle alone.
	Former *Object

	handleName string  // for a launched function without a Name: see launchName
	occupies   bool    // device memory counts it
	physical   *Object // physical memory of a mapping, or of a further handle
	references int     // to physical memory: live objects with this as physical

	exported *Object // for an import: the object that another process exported by the key
	lane     *lane   // for a stream, in a Walk
	held     int     // references besides the first, see api.Param.RefCounted
}

// Exported returns the object that processes share: the exported one for an object that was imported by a key, otherwise the object itself.
func (o *Object) Exported() *Object {
	for o.exported != nil {
		o = o.exported
	}
	return o
}

// A Use is an object that a call names.
type Use struct {
	Param  int // parameter number, RetParam for the returned value
	Object *Object
	Offset uint64 // bytes from the start of the allocation, or of the array of handles that the call has stored
	Field  uint32 // offset of a handle in a structure
}

// An Event is a call with its meaning.
type Event struct {
	Call    *format.Call
	Process uint32    // that made the call
	Fn      *api.Func // nil if the model lacks the function, or has it with other arguments
	Uses    []Use
	Kernel  string // for a launch, "" if unknown
	// Operator is the outermost operator that is open on the thread, with the marks that begin and end it; "" for none.
	Operator string
	Phase    operator.Phase // of Operator, 0 for none
	Stream   *Object        // named by the call; nil for a default stream and if there is none
	// Captured is set if a graph takes the task of the call, so that it does not run now. It is the graph, or the stream that began the capture
	// while that goes on, or the task group that the call updates.
	Captured *Object
	Part     graph.Part     // of the task in a task group
	Begun    *operator.Part // part of an operator that begins with the call, nil for none
	operands int32          // Walk.Shapes of the operator that it is in

	names *opinfo.Names // hashed.names
}

// A State holds the runtime objects at one moment in a trace.
type State struct {
	model  *api.Model
	byFunc []*funcHandlers // by api.ID
	live   map[key]*Object
	recent [256]struct { // a cache for live, since most calls use an object that an earlier call has used
		key
		o *Object
	}
	formers     map[key]*Object // latest objects that ended, by their handles; no memory
	allocs      map[uint32]*ranges
	reserved    map[uint32]*ranges
	unpublished []unpublished
	deferred    []unpublished // unpublished objects whose handle or addresses belong to another object until then
	captures    graph.Captures[*Object]
	graphCall   GraphCall // reused
	objects     int
	changes     uint64 // see Changes
	memory      deviceMemory
	ended       []*Object // objects that the current call ends if it succeeds
	event       Event
	current     map[uint32][]currentDevice // by thread: a stack, whose last element is current
	devices     map[uint32][]int           // by process: devices that its threads have selected
	reader      *format.Reader             // nil if binaries are not read
	hosts       []int                      // by process: number of its machine
	binaries    map[*Object]*kernelbin.File
	exchange
	marks
	graphOf map[*Object]*Object   // by stream: the newest graph that was captured from it
	found   map[*Object][]*Object // objects that were found through a binary, a function or an array, and end with it
}

// marks are the open ranges and operators that the program has marked.
type marks struct {
	unnumbered unnumbered
	operators  operators
}

// exchange has the objects that processes share, by the key that exports them.
type exchange struct {
	shared   map[string]uint64    // sizes of memory in bytes
	taken    map[string][]*Object // imported memory
	exported map[string]*Object   // exported objects other than memory
}

type key struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// unpublished is an object whose making call has not returned. Other threads cannot know it yet: if they use its handle or its addresses, they
// mean an earlier object, which was ended during that call or was made and ended during it.
type unpublished struct {
	o     *Object
	until int64  // when the making call returns
	maker uint32 // its thread
}

// A handler handles one parameter of a call for Apply.
type handler func(s *State, e *Event, i int)

// funcHandlers are the parameter handlers for a function.
type funcHandlers struct{ using, making []paramHandler }

type paramHandler struct {
	param int
	do    handler
}

func (o *Object) key() key { return key{o.Process, o.Kind, o.Handle} }

// slot returns the index of a key in State.recent.
func (k *key) slot() uint64 {
	return (k.handle + uint64(len(k.kind))) * 0x9e3779b97f4a7c15 >> 56
}

// ranges are the live allocations in a process, sorted by address.
type ranges struct{ sorted []*Object }

type lane struct {
	key     LaneKey
	index   int
	pending []Task // tasks with an unknown end, and the tasks after them
	head    int    // index of the first one left in pending
	from    int64  // begin of the latest task
	// The first and the last task index that no synchronization has covered, -1 for none.
	first, last int
}
