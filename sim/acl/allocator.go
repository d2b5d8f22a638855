package acl

import (
	"sync"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// allocator describes an allocator of the program's, which operators that need memory on a stream would ask. No such operator
// is simulated: the runtime keeps what it is told and tells it.
type allocator struct {
	handle uint64
	mu     sync.Mutex
	parts  allocatorParts
}

// allocatorParts are the object and its functions.
type allocatorParts struct{ object, alloc, free, advise, address uint64 }

// AllocatorCreateDesc makes an empty description.
func (t *Thread) AllocatorCreateDesc() acl.AllocatorDesc {
	a := &allocator{}
	a.handle = t.sim.allocators.Add(a)
	return acl.AllocatorDesc(a.handle)
}

// AllocatorDestroyDesc ends a description. What streams were given of it stays.
func (t *Thread) AllocatorDestroyDesc(allocatorDesc acl.AllocatorDesc) acl.Error {
	if t.sim.allocators.Remove(uint64(allocatorDesc)) == nil {
		return t.badHandle(space.KindAllocator, uint64(allocatorDesc))
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) describe(h acl.AllocatorDesc, value uint64, set func(*allocatorParts)) acl.Error {
	a := t.sim.allocators.Get(uint64(h))
	switch {
	case a == nil:
		return t.badHandle(space.KindAllocator, uint64(h))
	case value == 0:
		return t.null("the object or the function")
	}
	a.mu.Lock()
	set(&a.parts)
	a.mu.Unlock()
	return acl.ACL_SUCCESS
}

// AllocatorSetObjToDesc sets the program's own object.
func (t *Thread) AllocatorSetObjToDesc(allocatorDesc acl.AllocatorDesc, allocator acl.Allocator) acl.Error {
	return t.describe(allocatorDesc, uint64(allocator), func(p *allocatorParts) { p.object = uint64(allocator) })
}

// AllocatorSetAllocFuncToDesc sets the function that allocates.
func (t *Thread) AllocatorSetAllocFuncToDesc(allocatorDesc acl.AllocatorDesc, func_ acl.Addr) acl.Error {
	return t.describe(allocatorDesc, func_, func(p *allocatorParts) { p.alloc = func_ })
}

// AllocatorSetFreeFuncToDesc sets the function that frees.
func (t *Thread) AllocatorSetFreeFuncToDesc(allocatorDesc acl.AllocatorDesc, func_ acl.Addr) acl.Error {
	return t.describe(allocatorDesc, func_, func(p *allocatorParts) { p.free = func_ })
}

// AllocatorSetAllocAdviseFuncToDesc sets the function that allocates at an address.
func (t *Thread) AllocatorSetAllocAdviseFuncToDesc(allocatorDesc acl.AllocatorDesc, func_ acl.Addr) acl.Error {
	return t.describe(allocatorDesc, func_, func(p *allocatorParts) { p.advise = func_ })
}

// AllocatorSetGetAddrFromBlockFuncToDesc sets the function that tells the address of a block.
func (t *Thread) AllocatorSetGetAddrFromBlockFuncToDesc(allocatorDesc acl.AllocatorDesc, func_ acl.Addr) acl.Error {
	return t.describe(allocatorDesc, func_, func(p *allocatorParts) { p.address = func_ })
}

// streamAllocator is what a stream was given.
type streamAllocator struct {
	desc  uint64
	parts allocatorParts
}

// AllocatorRegister gives a stream an allocator, in place of one that it had. All functions but that with an address have to be set.
func (t *Thread) AllocatorRegister(on acl.Stream, allocatorDesc acl.AllocatorDesc) acl.Error {
	if on == 0 {
		return t.null("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	a := t.sim.allocators.Get(uint64(allocatorDesc))
	if a == nil {
		return t.badHandle(space.KindAllocator, uint64(allocatorDesc))
	}
	a.mu.Lock()
	p := a.parts
	a.mu.Unlock()
	if p.object == 0 || p.alloc == 0 || p.free == 0 || p.address == 0 {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the description lacks its object or one of its functions")
	}
	s.Mu.Lock()
	attached(s).allocator = &streamAllocator{a.handle, p}
	s.Mu.Unlock()
	return acl.ACL_SUCCESS
}

// AllocatorUnregister takes the allocator of a stream away; there need be neither.
func (t *Thread) AllocatorUnregister(on acl.Stream) acl.Error {
	if s := t.sim.streams.Get(uint64(on)); s != nil {
		s.Mu.Lock()
		attached(s).allocator = nil
		s.Mu.Unlock()
	}
	return acl.ACL_SUCCESS
}

// AllocatorGetByStream tells which allocator a stream has.
func (t *Thread) AllocatorGetByStream(on acl.Stream, allocatorDesc *acl.AllocatorDesc, allocator *acl.Allocator, allocFunc, freeFunc, allocAdviseFunc, getAddrFromBlockFunc *acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if allocatorDesc == nil || allocator == nil || allocFunc == nil || freeFunc == nil || allocAdviseFunc == nil || getAddrFromBlockFunc == nil {
		return t.null("an output")
	}
	s.Mu.Lock()
	a := attached(s).allocator
	s.Mu.Unlock()
	if a == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "stream %d has no allocator of the program's", s.ID)
	}
	*allocatorDesc, *allocator = acl.AllocatorDesc(a.desc), acl.Allocator(a.parts.object)
	*allocFunc, *freeFunc, *allocAdviseFunc, *getAddrFromBlockFunc = a.parts.alloc, a.parts.free, a.parts.advise, a.parts.address
	return acl.ACL_SUCCESS
}
