package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// objects maps recorded handles and addresses to plan operands.
type objects struct {
	operands  timeline.ByObject[plan.Operand]
	former    map[objectKey]plan.Operand // last object with the handle, alive or not
	regions   map[memoryKey]region       // scratch memory for program memory that the runtime keeps using
	buffers   map[*timeline.Object][]buffer
	ownMemory map[uint32]*timeline.Object // by process: host memory that no call allocated
	hostMaps  map[memoryKey]int           // index into findings.maps

	contexts          contexts
	tokens            map[*access.Token]slot // with the first word, the others follow; see tokens.go
	numbered          map[*access.NumberPlace]*numbered
	reporters         map[uint64]int               // threads that process reports, by pthread_t
	exceptionHandlers map[uint32]*exceptionHandler // by process

	fresh       map[*timeline.Object]bool             // physical memory that no task has used
	freshMapped map[*timeline.Object]*timeline.Object // its mappings, with the memory
}

func newObjects(m *api.Model) objects {
	return objects{
		former: map[objectKey]plan.Operand{}, regions: map[memoryKey]region{},
		buffers: map[*timeline.Object][]buffer{}, ownMemory: map[uint32]*timeline.Object{}, hostMaps: map[memoryKey]int{},
		contexts: newContexts(m), tokens: map[*access.Token]slot{}, numbered: map[*access.NumberPlace]*numbered{}, reporters: map[uint64]int{},
		exceptionHandlers: map[uint32]*exceptionHandler{},
		fresh:             map[*timeline.Object]bool{}, freshMapped: map[*timeline.Object]*timeline.Object{},
	}
}

type objectKey struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// A memoryKey is an address or a handle in a process.
type memoryKey struct {
	process uint32
	addr    uint64
}

// A buffer is the memory for a placeholder in an argument list.
type buffer struct {
	addr, size uint64
	slot       uint32
}

// A region is a range in scratch memory.
type region struct{ at, size uint64 }

// contexts gives threads the contexts that no recorded call made: the CUDA runtime obtains a device's primary context from an unnamed
// function, which may also make it current.
type contexts struct {
	finds, selects *api.Func    // return the primary context, and make a context current; nil if a model has neither
	slots          map[int]slot // with the first device's context handle, by thread
	current        map[int]bool // threads that have a current context
}

type slot = uint32

func newContexts(m *api.Model) contexts {
	c := contexts{slots: map[int]slot{}, current: map[int]bool{}}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		switch {
		case f.Device >= 0 && len(f.Params) == 2 && f.Params[0].Role == api.Find && f.Params[0].Object == api.Context:
			c.finds = f
		case c.selects == nil && f.Selects == 0 && f.Words == 1 && f.Params[0].Role == api.Use && f.Params[0].Object == api.Context:
			c.selects = f
		}
	}
	return c
}

// An exceptionHandler is a function that the program registered for exceptions.
type exceptionHandler struct {
	name string // "" if it was registered before the trace began
	left int    // calls that read an exception
	fate int    // index into findings.doubts, once there is such a call
}

// numbered has the words that a kernel's launches have in one position.
type numbered struct{ words []numberWord }

// A numberWord is a word that may be an object's number.
type numberWord struct {
	reloc int             // in Plan.relocs, -1 if its call is not made
	to    []*plan.Operand // by kind, nil for a word that stays unchanged
	made  []uint64        // call
	say   Relocated
}

// A pendingNumber is a word in the current call, with its index in callCompiler.relo.
type pendingNumber struct {
	of   *numbered
	word int
	relo int
}
