package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// AllocatorCreateDesc makes an empty description.
func (t *Thread) AllocatorCreateDesc() acl.AllocatorDesc {
	a := &allocator{}
	a.handle = t.sim.allocators.Add(a)
	return acl.AllocatorDesc(a.handle)
}

// AllocatorDestroyDesc ends a description. Streams keep their copies.
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

// AllocatorSetGetAddrFromBlockFuncToDesc sets the function that returns a block's address.
func (t *Thread) AllocatorSetGetAddrFromBlockFuncToDesc(allocatorDesc acl.AllocatorDesc, func_ acl.Addr) acl.Error {
	return t.describe(allocatorDesc, func_, func(p *allocatorParts) { p.address = func_ })
}

// AllocatorRegister sets or replaces the allocator of a stream. All functions are required except the one that
// allocates at an address.
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
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the allocator description lacks its object or a function")
	}
	s.Lock()
	attached(s).allocator = &streamAllocator{a.handle, p}
	s.Unlock()
	return acl.ACL_SUCCESS
}

// AllocatorUnregister removes the allocator of a stream, if any.
func (t *Thread) AllocatorUnregister(on acl.Stream) acl.Error {
	if s := t.sim.streams.Get(uint64(on)); s != nil {
		s.Lock()
		attached(s).allocator = nil
		s.Unlock()
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) AllocatorGetByStream(on acl.Stream, allocatorDesc *acl.AllocatorDesc, allocator *acl.Allocator, allocFunc, freeFunc, allocAdviseFunc, getAddrFromBlockFunc *acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if allocatorDesc == nil || allocator == nil || allocFunc == nil || freeFunc == nil || allocAdviseFunc == nil || getAddrFromBlockFunc == nil {
		return t.null("an output")
	}
	s.Lock()
	a := attached(s).allocator
	s.Unlock()
	if a == nil {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "stream %d has no registered allocator", s.ID)
	}
	*allocatorDesc, *allocator = acl.AllocatorDesc(a.desc), acl.Allocator(a.parts.object)
	*allocFunc, *freeFunc, *allocAdviseFunc, *getAddrFromBlockFunc = a.parts.alloc, a.parts.free, a.parts.advise, a.parts.address
	return acl.ACL_SUCCESS
}

// MemPoolCreate makes a pool.
func (t *Thread) MemPoolCreate(h *acl.MemPool, props *acl.MemPoolProps) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.null("memPool")
	case props == nil:
		return t.null("poolProps")
	case props.Location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "location type of the pool is %d: want ACL_MEM_LOCATION_TYPE_DEVICE", props.Location.Type)
	}
	d, e := t.device(int32(props.Location.Id))
	if e != 0 {
		return e
	}
	p := &memPool{dev: d, max: props.MaxSize, attrs: map[acl.MemPoolAttr]uint64{}}
	if p.handle = t.sim.pools.Add(p); p.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create a memory pool: the limit is reached")
	}
	*h = acl.MemPool(p.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) pool(h acl.MemPool) (*memPool, acl.Error) {
	return find(t, &t.sim.pools, uint64(h))
}

// MemPoolDestroy ends a pool. Its memory lives on until it is freed.
func (t *Thread) MemPoolDestroy(memPool acl.MemPool) acl.Error {
	_, e := end(t, &t.sim.pools, uint64(memPool))
	return e
}

// wide reports whether an attribute has 8 bytes rather than 4.
func wide(a acl.MemPoolAttr) bool { return a >= acl.ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD }

func (t *Thread) poolAttr(h acl.MemPool, attr acl.MemPoolAttr, value acl.Addr) (*memPool, acl.Error) {
	p, e := t.pool(h)
	if e != 0 {
		return nil, e
	}
	switch {
	case value == 0:
		return nil, t.absent("value")
	case attr < acl.ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES || attr > acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "pool attribute %d is unknown", attr)
	}
	return p, acl.ACL_SUCCESS
}

// MemPoolSetAttr sets a pool attribute. High-water marks can only be set to 0.
func (t *Thread) MemPoolSetAttr(memPool acl.MemPool, attr acl.MemPoolAttr, value acl.Addr) acl.Error {
	p, e := t.poolAttr(memPool, attr, value)
	if e != 0 {
		return e
	}
	v := uint64(*(*uint32)(space.Pointer(value)))
	if wide(attr) {
		v = *(*uint64)(space.Pointer(value))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch attr {
	case acl.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "pool attribute %d is read-only", attr)
	case acl.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		if v != 0 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "pool attribute %d can only be set to 0", attr)
		}
		p.high = p.used
	default:
		p.attrs[attr] = v
	}
	return acl.ACL_SUCCESS
}

// MemPoolGetAttr stores a pool attribute.
func (t *Thread) MemPoolGetAttr(memPool acl.MemPool, attr acl.MemPoolAttr, value acl.Addr) acl.Error {
	p, e := t.poolAttr(memPool, attr, value)
	if e != 0 {
		return e
	}
	p.mu.Lock()
	v := p.attrs[attr]
	switch attr {
	case acl.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		v = p.used
	case acl.ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		v = p.high
	}
	p.mu.Unlock()
	if wide(attr) {
		*(*uint64)(space.Pointer(value)) = v
	} else {
		*(*uint32)(space.Pointer(value)) = uint32(v)
	}
	return acl.ACL_SUCCESS
}

// MemPoolMallocAsync allocates pool memory. The address is returned at once and may be used by later work on the
// stream.
func (t *Thread) MemPoolMallocAsync(ptr *acl.Addr, size uint64, memPool acl.MemPool, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	p, e := t.pool(memPool)
	if e != 0 {
		return e
	}
	switch {
	case ptr == nil:
		return t.null("ptr")
	case size == 0 || size > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size is %d: want 1 to %d bytes", size, uint64(memory.MaxAlloc))
	case s.Context.Device != p.dev:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the pool belongs to device %d, but the stream to device %d", p.dev.ID, s.Context.Device.ID)
	case attached(s).Capture.Load() != nil || attached(s).Bound.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is being captured: allocations and frees of memory pools can't be captured", s.ID)
	}
	size = space.RoundUp(size, memory.AllocUnit)
	p.mu.Lock()
	if p.max != 0 && size > p.max-min(p.max, p.used) {
		p.mu.Unlock()
		return t.failWith(fail.New(fail.OutOfMemory, "allocate %d bytes: the memory pool has %d bytes, %d of them in use", size, p.max, p.used))
	}
	p.used += size
	p.high = max(p.high, p.used)
	p.mu.Unlock()
	addr, f := t.allocDevice(p.dev, size, memory.Block{Origin: memory.ByPool, Access: space.Read | space.Write, Owner: p})
	if f != nil {
		p.freed(size)
		return t.failWith(f)
	}
	t.sim.Strict.Gets(&t.Strict, addr, size, strict.PoolMemory)
	*ptr = addr
	return acl.ACL_SUCCESS
}

func (p *memPool) freed(size uint64) {
	p.mu.Lock()
	p.used -= size
	p.mu.Unlock()
}

// MemPoolFreeAsync frees pool memory in stream order.
func (t *Thread) MemPoolFreeAsync(ptr acl.Addr, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	d, e := t.owner(ptr)
	if e != 0 {
		return e
	}
	r, ok := d.Memory.Live.Find(ptr)
	switch {
	case !ok || r.Addr != ptr || r.Value.Origin != memory.ByPool:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no allocation of a pool begins at %#x", ptr)
	case attached(s).Capture.Load() != nil || attached(s).Bound.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is being captured: allocations and frees of memory pools can't be captured", s.ID)
	}
	if mutant.Breaks("free_in_order") {
		d.Memory.Free(ptr, memory.ByPool)
		return acl.ACL_SUCCESS
	}
	return t.submit(s, device.Task{Kind: device.TaskFree, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		t.sim.Strict.TaskFrees(&s.Strict, ptr)
		if !d.Memory.Free(ptr, memory.ByPool) {
			return 0, status.Failed(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %d: memory %#x was freed already", s.ID, ptr)
		}
		r.Value.Owner.(*memPool).freed(r.Size)
		return 0, nil
	}})
}

// MemPoolTrimTo checks the pool. It has no unused memory to free.
func (t *Thread) MemPoolTrimTo(memPool acl.MemPool, minBytesToKeep uint64) acl.Error {
	_, e := t.pool(memPool)
	return e
}
