package acl

import (
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// ReserveMemAddress takes addresses without memory. A requested address follows the newest document of the function: a multiple of 1 GiB, and
// out of memory if it is taken. A replay's own wish has precedence.
func (t *Thread) ReserveMemAddress(virPtr *acl.Addr, size, alignment uint64, expectPtr acl.Addr, flags uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case virPtr == nil:
		return t.null("virPtr")
	case size == 0:
		return t.invalid("size of the reservation is 0: want 1 byte or more")
	case size > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the reservation is %d: too large", size)
	case alignment != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "alignment is %d: want 0", alignment)
	case expectPtr%memory.Giant != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "expectPtr is %#x: want 0 or a multiple of 1 GiB", expectPtr)
	case flags > 1:
		return t.invalid("flags are %#x: want 0, or 1 for huge pages", flags)
	}
	addr, f := t.placed(func(want uint64) (uint64, *fail.Failure) {
		if want == 0 && expectPtr != 0 {
			return c.Device.Memory.ReserveAt(size, expectPtr)
		}
		return c.Device.Memory.ReserveRange(size, want)
	})
	if f != nil {
		return t.failWith(f)
	}
	*virPtr = addr
	return acl.ACL_SUCCESS
}

// owner returns the device that an address belongs to.
func (t *Thread) owner(addr acl.Addr) (*device.Device, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if addr == 0 {
		return nil, t.null("the address")
	}
	if d := t.sim.Locate(addr).Device; d != nil {
		return d, acl.ACL_SUCCESS
	}
	return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is not an address of a device", addr)
}

// ReleaseMemAddress ends a reservation in which nothing is mapped.
func (t *Thread) ReleaseMemAddress(virPtr acl.Addr) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	return t.refuse(d.Memory.ReleaseRange(virPtr))
}

// physicalProp checks the properties of physical memory, and returns its device and granularity. The thread needs no context.
func (t *Thread) physicalProp(p *acl.PhysicalMemProp) (*device.Device, uint64, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, 0, e
	}
	if p == nil {
		return nil, 0, t.null("prop")
	}
	if p.Location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE {
		return nil, 0, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "physical memory of the host (location type %d) is not simulated", p.Location.Type)
	}
	d, e := t.device(int32(p.Location.Id))
	if e != 0 {
		return nil, 0, e
	}
	if p.AllocationType != 0 || p.Reserve != 0 {
		return nil, 0, t.invalid("allocation type is %d, reserve is %d: want 0 for both", p.AllocationType, p.Reserve)
	}
	switch attr := p.MemAttr; attr {
	case acl.ACL_HBM_MEM_HUGE1G, acl.ACL_HBM_MEM_P2P_HUGE1G, acl.ACL_MEM_HUGE1G, acl.ACL_MEM_P2P_HUGE1G:
		return d, memory.Giant, acl.ACL_SUCCESS
	case acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL, acl.ACL_HBM_MEM_P2P_HUGE, acl.ACL_HBM_MEM_P2P_NORMAL,
		acl.ACL_MEM_NORMAL, acl.ACL_MEM_HUGE, acl.ACL_MEM_P2P_NORMAL, acl.ACL_MEM_P2P_HUGE:
		return d, memory.Granularity, acl.ACL_SUCCESS
	default:
		return nil, 0, t.invalid("memory kind %d is not supported for physical memory", attr)
	}
}

// MemGetAllocationGranularity returns the granularity of physical memory. Programs query it before they select a device.
func (t *Thread) MemGetAllocationGranularity(prop *acl.PhysicalMemProp, option acl.MemGranularityOptions, out *uint64) acl.Error {
	_, unit, e := t.physicalProp(prop)
	if e != 0 {
		return e
	}
	switch {
	case out == nil:
		return t.null("granularity")
	case option != acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != acl.ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "granularity option %d is unknown", option)
	}
	*out = unit
	return acl.ACL_SUCCESS
}

// MallocPhysical allocates memory that has no address yet.
func (t *Thread) MallocPhysical(handle *acl.DrvMemHandle, size uint64, prop *acl.PhysicalMemProp, flags uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	d, unit, e := t.physicalProp(prop)
	if e != 0 {
		return e
	}
	switch {
	case handle == nil:
		return t.null("handle")
	case size == 0:
		return t.invalid("size of the physical memory is 0: want 1 byte or more")
	case flags != 0:
		return t.invalid("flags are %#x: want 0", flags)
	case (size > memory.MaxAlloc || size%unit != 0) && !mutant.Breaks("physical_memory_in_units"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the physical memory is %d: want a multiple of %d", size, unit)
	}
	if f := t.sim.outOfMemory(); f != nil {
		return t.failWith(f)
	}
	p, f := memory.NewPhysical(&d.Memory, size)
	if f != nil {
		return t.failWith(f)
	}
	t.sim.MarkPhysical(p)
	p.Prop = *(*[32]byte)(unsafe.Pointer(prop))
	if p.Handle = t.sim.physicals.Add(p); p.Handle == 0 {
		t.drop(p)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "allocate physical memory: the limit of allocations is reached")
	}
	*handle = acl.DrvMemHandle(p.Handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) drop(p *memory.Physical) {
	p.Memory.Lock()
	defer p.Memory.Unlock()
	p.Release()
}

func (t *Thread) physical(h acl.DrvMemHandle) (*memory.Physical, acl.Error) {
	return find(t, &t.sim.physicals, uint64(h))
}

// FreePhysical drops a reference to physical memory. Mappings stay valid.
func (t *Thread) FreePhysical(handle acl.DrvMemHandle) acl.Error {
	p, e := t.physical(handle)
	if e != 0 {
		return e
	}
	if p.Retained.Add(-1) < 0 {
		if t.sim.physicals.Remove(p.Handle) == nil {
			return t.badHandle(space.KindPhysical, p.Handle)
		}
		if p.Shared != nil && p.Shared.Own {
			t.sim.Shares.Withdraw(p.Shared)
		}
	}
	if mutant.Breaks("freed_while_mapped") {
		t.drop(p)
	}
	t.drop(p)
	return acl.ACL_SUCCESS
}

// MapMem maps physical memory into a reservation. The device may read and write it from then on.
func (t *Thread) MapMem(virPtr acl.Addr, size, offset uint64, handle acl.DrvMemHandle, flags uint64) acl.Error {
	return t.mapMem(virPtr, size, offset, handle, flags, space.Read|space.Write)
}

// MemMapNoAccess maps physical memory into a reservation, to be made accessible by aclrtMemSetAccess.
func (t *Thread) MemMapNoAccess(virPtr acl.Addr, size, offset uint64, handle acl.DrvMemHandle, flags uint64) acl.Error {
	access := uint32(0)
	if mutant.Breaks("mapped_without_access") {
		access = space.Read | space.Write
	}
	return t.mapMem(virPtr, size, offset, handle, flags, access)
}

func (t *Thread) mapMem(virPtr acl.Addr, size, offset uint64, handle acl.DrvMemHandle, flags uint64, access uint32) acl.Error {
	p, e := t.physical(handle)
	if e != 0 {
		return e
	}
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	switch {
	case size == 0:
		return t.invalid("size of the mapping is 0: want that of the physical memory")
	case flags != 0:
		return t.invalid("flags are %#x: want 0", flags)
	case offset != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "offset is %d: want 0", offset)
	case size != p.Size && !mutant.Breaks("mapped_as_a_whole"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the mapping is %d: want %d, the size of the physical memory", size, p.Size)
	case virPtr%memory.Granularity != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not a multiple of %d", virPtr, memory.Granularity)
	case &d.Memory != p.Memory:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is reserved on device %d, but the memory is on device %d", virPtr, d.ID, p.Memory.ID)
	}
	if err := d.Memory.MapPhysical(virPtr, p, access); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "map physical memory: %v", err)
	}
	t.sim.Strict.Gets(&t.Strict, virPtr, size, strict.MappingMemory)
	return acl.ACL_SUCCESS
}

// UnmapMem ends the mapping that begins at an address.
func (t *Thread) UnmapMem(virPtr acl.Addr) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	t.sim.Strict.Gone(&t.Strict, virPtr, strict.MappingMemory)
	return t.refuse(d.Memory.UnmapPhysical(virPtr))
}

// MemSetAccess sets the device's access to mappings.
func (t *Thread) MemSetAccess(virPtr acl.Addr, size uint64, desc *acl.MemAccessDesc, count uint64) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	switch {
	case desc == nil:
		return t.absent("desc")
	case size == 0 || size > memory.MaxAlloc || count == 0 || count > uint64(len(t.sim.Devices)):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes with %d access descriptions: want 1 or more of both, and at most one description a device", size, count)
	}
	for _, a := range space.List(desc, count) {
		access := uint32(0)
		switch a.Flags {
		case acl.ACL_RT_MEM_ACCESS_FLAGS_NONE:
		case acl.ACL_RT_MEM_ACCESS_FLAGS_READ:
			access = space.Read
		case acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE:
			access = space.Read | space.Write
		default:
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "access flags %d are unknown", a.Flags)
		}
		if a.Location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE || int32(a.Location.Id) != d.ID {
			return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "access for another location than the device of the memory is not simulated")
		}
		if e := t.refuse(d.Memory.SetAccess(virPtr, size, access)); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}

// mapping returns the mapping at an address.
func (t *Thread) mapping(addr acl.Addr) (space.Region[memory.Block], *device.Device, acl.Error) {
	d, e := t.owner(addr)
	if e != 0 {
		return space.Region[memory.Block]{}, nil, e
	}
	r, ok := d.Memory.Live.Find(addr)
	if !ok || r.Value.Origin != memory.ByMap {
		return r, nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %#x", addr)
	}
	return r, d, acl.ACL_SUCCESS
}

// MemGetAccess returns a device's access to a mapping.
func (t *Thread) MemGetAccess(virPtr acl.Addr, location *acl.MemLocation, flag *uint64) acl.Error {
	r, d, e := t.mapping(virPtr)
	if e != 0 {
		return e
	}
	if location == nil || flag == nil {
		return t.null("location or flag")
	}
	if location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE || int32(location.Id) != d.ID {
		*flag = uint64(acl.ACL_RT_MEM_ACCESS_FLAGS_NONE)
		return acl.ACL_SUCCESS
	}
	*flag = uint64(r.Value.Access)
	return acl.ACL_SUCCESS
}

// MemRetainAllocationHandle returns a new reference to the physical memory at an address.
func (t *Thread) MemRetainAllocationHandle(virPtr acl.Addr, handle *acl.DrvMemHandle) acl.Error {
	r, d, e := t.mapping(virPtr)
	if e != 0 {
		return e
	}
	if handle == nil {
		return t.null("handle")
	}
	p := r.Value.Physical
	d.Memory.Lock()
	defer d.Memory.Unlock()
	if t.sim.physicals.Get(p.Handle) != p {
		p.Handle = t.sim.physicals.Add(p)
		p.Retained.Store(0)
	} else {
		p.Retained.Add(1)
	}
	p.Refs.Add(1)
	*handle = acl.DrvMemHandle(p.Handle)
	return acl.ACL_SUCCESS
}

// MemGetAllocationPropertiesFromHandle returns the properties of physical memory.
func (t *Thread) MemGetAllocationPropertiesFromHandle(handle acl.DrvMemHandle, prop *acl.PhysicalMemProp) acl.Error {
	p, e := t.physical(handle)
	if e != 0 {
		return e
	}
	return put(t, "prop", prop, *(*acl.PhysicalMemProp)(unsafe.Pointer(&p.Prop)))
}

// MemGetAddressRange returns the allocation or mapping at an address.
func (t *Thread) MemGetAddressRange(ptr acl.Addr, pbase *acl.Addr, psize *uint64) acl.Error {
	d, e := t.owner(ptr)
	if e != 0 {
		return e
	}
	r, ok := d.Memory.Live.Find(ptr)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", d.Memory.NotLive(ptr, 1))
	}
	offer(pbase, r.Addr)
	offer(psize, r.Size)
	return acl.ACL_SUCCESS
}
