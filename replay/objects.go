package replay

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// objects maps the recorded handles and addresses to operands of the plan.
type objects struct {
	operands  map[*timeline.Object]plan.Operand
	former    map[objectKey]plan.Operand // of the last object with the handle, alive or not
	regions   map[memoryKey]region       // scratch memory in place of program memory that the runtime keeps using
	buffers   map[*timeline.Object][]buffer
	ownMemory map[uint32]*timeline.Object // by process: host memory that no call allocated
	hostMaps  map[memoryKey]int           // index into findings.maps

	contexts          contexts
	tokens            tokens
	numbered          map[numberPlace]*numbered
	counted           int                          // calls that make objects of api.Model.Numbers
	reporters         map[uint64]int               // threads that process reports, by pthread_t
	exceptionHandlers map[uint32]*exceptionHandler // by process
}

func newObjects(m *api.Model) objects {
	return objects{
		operands: map[*timeline.Object]plan.Operand{}, former: map[objectKey]plan.Operand{}, regions: map[memoryKey]region{},
		buffers: map[*timeline.Object][]buffer{}, ownMemory: map[uint32]*timeline.Object{}, hostMaps: map[memoryKey]int{},
		contexts: newContexts(m), numbered: map[numberPlace]*numbered{}, reporters: map[uint64]int{},
		exceptionHandlers: map[uint32]*exceptionHandler{},
	}
}

type objectKey struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// memoryKey is an address, or a handle, in a process.
type memoryKey struct {
	process uint32
	addr    uint64
}

// buffer is memory behind a placeholder of an argument list.
type buffer struct {
	addr, size uint64
	slot       uint32
}

// region is a piece of scratch memory.
type region struct{ at, size uint64 }
