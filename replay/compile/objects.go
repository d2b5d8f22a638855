package compile

import (
	"fmt"

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

// newSlot makes the slot that a new object's handle or address will be in.
func (p *compiler) newSlot(o *timeline.Object) uint32 {
	s := p.slot(fmt.Sprintf("%s %d", o.Kind, o.ID), o)
	p.bind(o, plan.Operand{Slot: s})
	return s
}

func (p *compiler) bind(o *timeline.Object, op plan.Operand) {
	p.objects.operands[o] = op
	p.objects.former[objectKey{o.Process, o.Kind, o.Handle}] = op
}

// object is the operand for a handle of an object.
func (p *callCompiler) object(o *timeline.Object) plan.Operand {
	if op, ok := p.objects.operands[o]; ok {
		return op
	}
	if op, ok := p.shareable(o); ok {
		return op
	}
	// A handle of what is gone is given again as such, for the same error.
	if op, ok := p.objects.former[objectKey{o.Process, o.Kind, o.Handle}]; ok && !p.ok {
		return op
	}
	if o.Kind == api.Context && p.objects.contexts.finds != nil && p.ok {
		return p.ownContext()
	}
	if p.ok {
		p.cant = fmt.Sprintf("its %s %#x is older than the trace, or was made by a call that can't be replayed", o.Kind, o.Handle)
	}
	return imm(o.Handle)
}

// constant reports whether a handle is none, or one that no call makes.
func (p *compiler) constant(kind api.Object, w uint64) bool {
	return w == 0 || kind == api.Stream && w <= p.Model.Constants
}

func (p *callCompiler) handle(i int, w uint64) (plan.Operand, error) {
	if p.constant(p.f.Params[i].Object, w) {
		return imm(w), nil
	}
	u, ok := p.e.Use(i)
	switch {
	case ok && u.Object.Kind == api.Descriptor && p.ok:
		return p.descriptor(w), nil
	case ok:
		op := p.object(u.Object)
		if p.f.Params[i].Role == api.Launch {
			if err := p.fillBuffers(i, u.Object); err != nil {
				return op, err
			}
		}
		return op, nil
	}
	// An allocation that is not live: the program has given back what it did not have, or no longer.
	if op, ok := p.objects.former[objectKey{p.owner(), p.f.Params[i].Object, w}]; ok {
		return op, nil
	}
	if p.ok {
		p.cant = fmt.Sprintf("its parameter %s, %#x, is nothing that the trace shows being made", p.f.Params[i].Name, w)
	}
	return imm(w), nil
}

// owner is the process that makes the call.
func (p *callCompiler) owner() uint32 { return p.procs[p.Threads[p.at.thread].Process].process }
