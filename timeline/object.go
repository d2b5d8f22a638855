package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline/graph"
)

// currentDevice is the device and the context that a thread has selected. Its calls without a stream go there.
type currentDevice struct {
	device  int
	context *Object // nil: the device's own
	call    uint64  // that selected it
}

// NoDevice stands for a device that the trace does not tell.
const NoDevice = -1

// A LaneKey identifies a lane: a stream of the program, the default stream of a context or a device, or the calls without a stream.
type LaneKey struct {
	Process     uint32
	Stream      *Object // nil for a default stream
	Device      int     // NoDevice if unknown
	Context     *Object // of a default stream
	Synchronous bool    // no stream: the call itself does the work
}

// NoCall stands for a call that is not in the trace.
const NoCall = ^uint64(0)

// RetParam is the parameter number of the returned value.
const RetParam = api.RetParam

// An Object is a thing of the runtime's that the program names by a handle, or an allocation that it names by its
// addresses.
type Object struct {
	ID      int // from 1, in the order in which the trace shows them
	Kind    api.Object
	Handle  uint64 // handle, or first address; of a thread's own default stream the number of api.Model.StreamOf
	Size    uint64 // bytes of an allocation
	Process uint32
	Created uint64 // call that made it, NoCall for an object older than the trace
	Ended   uint64 // call that ended it, NoCall where none did
	Name    string // of a function: its kernel's
	Parent  *Object
	// Constant says that no call makes it: a thread's own default stream.
	Constant bool
	// NonBlocking says of a stream that its context's default one does not wait for it, see api.Model.NonBlocking.
	NonBlocking bool

	Hosted bool // memory that the program uses without a call, as its own
	Device int  // of what was made on one, NoDevice where that is not known

	exported *Object // of an import: what another process exported by the key
	lane     *lane   // of a stream, in a Walk
	held     int     // references besides the first, see api.Param.Held
}

// Exported returns what the processes share: of an object that was imported by a key the exported one, of any other the object itself.
func (o *Object) Exported() *Object {
	for o.exported != nil {
		o = o.exported
	}
	return o
}

// A Use is an object that a call names.
type Use struct {
	Param  int // number of the parameter, RetParam for the returned value
	Object *Object
	Offset uint64 // of an address in its allocation; of one of several handles that the call has stored, its place among them in bytes
	Field  uint32 // of a handle in a structure, where it stands there
}

// An Event is a call with its meaning.
type Event struct {
	Call   *format.Call
	Fn     *api.Func // nil where the model has no such function, or one with other arguments
	Uses   []Use
	Kernel string  // of a launch, "" where no name is known
	Stream *Object // that the call names; nil for a default stream and where there is none
	// Captured is the stream that began the capture in which the call's task went into a graph, or the graph itself,
	// where it does not run now; nil for a task that runs.
	Captured *Object
}

// A State is what is known of the runtime's objects at one moment of a trace.
type State struct {
	model  *api.Model
	byFunc []*funcHandlers // by api.ID
	live   map[key]*Object
	recent [256]struct { // of live, since most calls name what one before has named
		key
		o *Object
	}
	allocs      map[uint32]*ranges
	reserved    map[uint32]*ranges
	unpublished []unpublished
	deferred    []unpublished // of the young, those whose handle or addresses another object has for now
	captures    graph.Captures[*Object]
	graphCall   GraphCall // reused
	objects     int
	device      uint64    // bytes of live device allocations
	moved       []*Object // device memory that the latest call has made or ended, in this order
	ended       []*Object // objects that the current call ends if it succeeds
	event       Event
	current     map[uint32][]currentDevice // by thread, the one that holds last
	devices     map[uint32][]int           // that the threads of a process have chosen
	reader      *format.Reader             // nil: binaries are not looked into
	binaries    map[*Object]*kernelbin.File
	shared      map[string]uint64     // bytes of memory, by the keys that other processes open it with
	taken       map[string][]*Object  // what they have opened, of any process
	exported    map[string]*Object    // other objects than memory, by their keys
	found       map[*Object][]*Object // of a binary, a function or levels what was found by it, and ends with it
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
	until int64  // end of the making call
	maker uint32 // its thread
}

// A handler is what apply does about a parameter.
type handler func(s *State, process uint32, e *Event, i int)

// funcHandlers are the handlers of the parameters of a function.
type funcHandlers struct{ using, making []paramHandler }

type paramHandler struct {
	param int
	do    handler
}

func (o *Object) key() key { return key{o.Process, o.Kind, o.Handle} }

// slot returns the place of a key in State.recent.
func (k *key) slot() uint64 {
	return (k.handle + uint64(len(k.kind))) * 0x9e3779b97f4a7c15 >> 56
}

// ranges are the live allocations of a process, by address.
type ranges struct{ sorted []*Object }

type lane struct {
	key     LaneKey
	index   int
	pending []Task // tasks whose end is not known, and those behind them
	head    int    // of pending: the first that is left
	from    int64  // of the latest task
	// Tasks that no synchronization has been for: the first and the last, by their index; -1 for none.
	first, last int
}
