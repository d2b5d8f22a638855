package sim

import (
	"unsafe"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
)

// ReserveMemAddress takes addresses without memory.
func (t *Thread) ReserveMemAddress(virPtr *acl.Addr, size, alignment uint64, expectPtr acl.Addr, flags uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case virPtr == nil:
		return t.null("virPtr")
	case size == 0 && !broken("zero_sizes"):
		return t.invalid("a reservation of 0 bytes")
	case size > maxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a reservation of %d bytes", size)
	case (alignment != 0 || expectPtr != 0) && !broken("alignment_is_reserved"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "alignment is %d, expectPtr %#x: both have to be 0", alignment, expectPtr)
	case flags > 1:
		return t.invalid("flags are %#x: 0, or 1 for huge pages", flags)
	}
	addr, f := t.placed(func(want uint64) (uint64, *failure) { return c.dev.mem.reserveRange(size, want) })
	if f != nil {
		return t.failWith(f)
	}
	*virPtr = addr
	return acl.ACL_SUCCESS
}

// owner returns the device whose address it is.
func (t *Thread) owner(addr acl.Addr) (*npu, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if addr == 0 {
		return nil, t.null("the address")
	}
	if d := t.sim.locate(addr).dev; d != nil {
		return d, acl.ACL_SUCCESS
	}
	return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no address of a device", addr)
}

// ReleaseMemAddress ends a reservation in which nothing is mapped.
func (t *Thread) ReleaseMemAddress(virPtr acl.Addr) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	if err := d.mem.releaseRange(virPtr); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
	}
	return acl.ACL_SUCCESS
}

// physicalProp checks what physical memory is wanted, and returns its device and its unit.
func (t *Thread) physicalProp(p *acl.PhysicalMemProp) (*npu, uint64, acl.Error) {
	if _, e := t.context(); e != 0 {
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
		return nil, 0, t.invalid("allocation type %d, reserve %d: both have to be 0", p.AllocationType, p.Reserve)
	}
	switch attr := p.MemAttr; attr {
	case acl.ACL_HBM_MEM_HUGE1G, acl.ACL_HBM_MEM_P2P_HUGE1G, acl.ACL_MEM_HUGE1G, acl.ACL_MEM_P2P_HUGE1G:
		return d, giant, acl.ACL_SUCCESS
	case acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL, acl.ACL_HBM_MEM_P2P_HUGE, acl.ACL_HBM_MEM_P2P_NORMAL,
		acl.ACL_MEM_NORMAL, acl.ACL_MEM_HUGE, acl.ACL_MEM_P2P_NORMAL, acl.ACL_MEM_P2P_HUGE:
		return d, granularity, acl.ACL_SUCCESS
	default:
		return nil, 0, t.invalid("memory kind %d can't be had as physical memory", attr)
	}
}

// MemGetAllocationGranularity returns the unit of physical memory.
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
	d, unit, e := t.physicalProp(prop)
	if e != 0 {
		return e
	}
	switch {
	case handle == nil:
		return t.null("handle")
	case size == 0:
		return t.invalid("0 bytes of physical memory")
	case flags != 0:
		return t.invalid("flags are %#x and have to be 0", flags)
	case (size > maxAlloc || size%unit != 0) && !broken("physical_memory_in_units"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of physical memory: no multiple of %d", size, unit)
	}
	p, f := newPhysical(d, size)
	if f != nil {
		return t.failWith(f)
	}
	p.prop = *(*[32]byte)(unsafe.Pointer(prop))
	if p.handle = t.sim.physicals.Add(p); p.handle == 0 {
		t.drop(p)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many physical allocations")
	}
	*handle = acl.DrvMemHandle(p.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) drop(p *physical) {
	p.dev.mem.mu.Lock()
	defer p.dev.mem.mu.Unlock()
	p.release()
}

func (t *Thread) physical(h acl.DrvMemHandle) (*physical, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	p := t.sim.physicals.Get(uint64(h))
	if p == nil {
		return nil, t.badHandle(device.KindPhysical, uint64(h))
	}
	return p, acl.ACL_SUCCESS
}

// FreePhysical drops a reference of physical memory. What is mapped stays until it is unmapped.
func (t *Thread) FreePhysical(handle acl.DrvMemHandle) acl.Error {
	p, e := t.physical(handle)
	if e != 0 {
		return e
	}
	if p.retained.Add(-1) < 0 {
		if t.sim.physicals.Remove(p.handle) == nil {
			return t.badHandle(device.KindPhysical, p.handle)
		}
		if p.shared != nil && p.shared.own {
			t.sim.shares.withdraw(p.shared)
		}
	}
	if broken("freed_while_mapped") {
		t.drop(p)
	}
	t.drop(p)
	return acl.ACL_SUCCESS
}

// MapMem maps physical memory into a reservation. The device may read and write it from then on.
func (t *Thread) MapMem(virPtr acl.Addr, size, offset uint64, handle acl.DrvMemHandle, flags uint64) acl.Error {
	return t.mapMem(virPtr, size, offset, handle, flags, device.Read|device.Write)
}

// MemMapNoAccess maps physical memory into a reservation, to be made accessible by aclrtMemSetAccess.
func (t *Thread) MemMapNoAccess(virPtr acl.Addr, size, offset uint64, handle acl.DrvMemHandle, flags uint64) acl.Error {
	access := uint32(0)
	if broken("mapped_without_access") {
		access = device.Read | device.Write
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
		return t.invalid("0 bytes to map")
	case flags != 0:
		return t.invalid("flags are %#x and have to be 0", flags)
	case offset != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "offset is %d and has to be 0", offset)
	case size != p.size && !broken("mapped_as_a_whole"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of a physical allocation of %d: it is mapped as a whole", size, p.size)
	case virPtr%granularity != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no multiple of %d", virPtr, granularity)
	case d != p.dev:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x was reserved on device %d, the memory is of device %d", virPtr, d.id, p.dev.id)
	}
	if err := d.mem.mapPhysical(virPtr, p, access); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "can't map: %v", err)
	}
	t.sim.strict.Gets(&t.strict, virPtr, size, strict.MappingMemory)
	return acl.ACL_SUCCESS
}

// UnmapMem ends the mapping that begins at an address.
func (t *Thread) UnmapMem(virPtr acl.Addr) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	t.sim.strict.Gone(&t.strict, virPtr, strict.MappingMemory)
	if err := d.mem.unmapPhysical(virPtr); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
	}
	return acl.ACL_SUCCESS
}

// MemSetAccess says what the device may do with mappings.
func (t *Thread) MemSetAccess(virPtr acl.Addr, size uint64, desc *acl.MemAccessDesc, count uint64) acl.Error {
	d, e := t.owner(virPtr)
	if e != 0 {
		return e
	}
	switch {
	case desc == nil:
		return t.absent("desc")
	case size == 0 || size > maxAlloc || count == 0 || count > uint64(len(t.sim.devices)):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "access for %d bytes in %d descriptions", size, count)
	}
	for _, a := range device.List(desc, count) {
		access := uint32(0)
		switch a.Flags {
		case acl.ACL_RT_MEM_ACCESS_FLAGS_NONE:
		case acl.ACL_RT_MEM_ACCESS_FLAGS_READ:
			access = device.Read
		case acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE:
			access = device.Read | device.Write
		default:
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "access flags %d are unknown", a.Flags)
		}
		if a.Location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE || int32(a.Location.Id) != d.id {
			return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "access for another place than the memory's own device is not simulated")
		}
		if err := d.mem.setAccess(virPtr, size, access); err != nil {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
		}
	}
	return acl.ACL_SUCCESS
}

// mapping returns the mapping that an address lies in.
func (t *Thread) mapping(addr acl.Addr) (device.Region[block], *npu, acl.Error) {
	d, e := t.owner(addr)
	if e != 0 {
		return device.Region[block]{}, nil, e
	}
	r, ok := d.mem.live.Find(addr)
	if !ok || r.V.how != byMap {
		return r, nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %#x", addr)
	}
	return r, d, acl.ACL_SUCCESS
}

// MemGetAccess tells what a device may do with a mapping.
func (t *Thread) MemGetAccess(virPtr acl.Addr, location *acl.MemLocation, flag *uint64) acl.Error {
	r, d, e := t.mapping(virPtr)
	if e != 0 {
		return e
	}
	if location == nil || flag == nil {
		return t.null("location or flag")
	}
	if location.Type != acl.ACL_MEM_LOCATION_TYPE_DEVICE || int32(location.Id) != d.id {
		*flag = uint64(acl.ACL_RT_MEM_ACCESS_FLAGS_NONE)
		return acl.ACL_SUCCESS
	}
	*flag = uint64(r.V.access)
	return acl.ACL_SUCCESS
}

// MemRetainAllocationHandle returns the handle of what is mapped at an address, with a reference of its own.
func (t *Thread) MemRetainAllocationHandle(virPtr acl.Addr, handle *acl.DrvMemHandle) acl.Error {
	r, d, e := t.mapping(virPtr)
	if e != 0 {
		return e
	}
	if handle == nil {
		return t.null("handle")
	}
	p := r.V.phys
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	if t.sim.physicals.Get(p.handle) != p {
		p.handle = t.sim.physicals.Add(p)
		p.retained.Store(0)
	} else {
		p.retained.Add(1)
	}
	p.refs.Add(1)
	*handle = acl.DrvMemHandle(p.handle)
	return acl.ACL_SUCCESS
}

// MemGetAllocationPropertiesFromHandle returns what physical memory was allocated with.
func (t *Thread) MemGetAllocationPropertiesFromHandle(handle acl.DrvMemHandle, prop *acl.PhysicalMemProp) acl.Error {
	p, e := t.physical(handle)
	if e != 0 {
		return e
	}
	if prop == nil {
		return t.null("prop")
	}
	*prop = *(*acl.PhysicalMemProp)(unsafe.Pointer(&p.prop))
	return acl.ACL_SUCCESS
}

// MemGetAddressRange returns the allocation, or the mapping, that an address lies in.
func (t *Thread) MemGetAddressRange(ptr acl.Addr, pbase *acl.Addr, psize *uint64) acl.Error {
	d, e := t.owner(ptr)
	if e != 0 {
		return e
	}
	r, ok := d.mem.live.Find(ptr)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", d.mem.notLive(ptr, 1))
	}
	if pbase != nil {
		*pbase = r.Addr
	}
	if psize != nil {
		*psize = r.Size
	}
	return acl.ACL_SUCCESS
}
