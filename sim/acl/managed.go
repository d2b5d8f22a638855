package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/strict"
)

// managedUnit is the advice for 2 MiB.
type managedUnit struct {
	readMostly bool
	preferred  acl.MemManagedLocation
	prefetched acl.MemManagedLocation
	accessedBy map[acl.MemManagedLocation]bool
}

// MemAllocManaged allocates memory that the host and all devices use at one address. aclrtFree frees it.
func (t *Thread) MemAllocManaged(ptr *acl.Addr, size uint64, flag uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	const global = 1
	switch {
	case ptr == nil:
		return t.null("ptr")
	case size == 0:
		return t.invalid("size is 0: want 1 byte or more")
	case size > memory.ManagedSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size is %d: want 1 byte to 3 TiB", size)
	case flag != global:
		return t.invalid("flag is %d: want %d", flag, global)
	}
	if f := t.sim.outOfMemory(); f != nil {
		return t.failWith(f)
	}
	a, f := t.placed(func(want uint64) (uint64, *fail.Failure) {
		if a := t.sim.Managed.Alloc(space.RoundUp(size, memory.Granularity), want); a != 0 {
			return a, nil
		}
		return 0, status.Failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "allocate %d bytes of managed memory: no address range is left", size)
	})
	if f != nil {
		return t.failWith(f)
	}
	t.sim.MarkKnown(a, space.RoundUp(size, memory.Granularity)) // marks of memory that was freed
	t.sim.Strict.Gets(&t.Strict, a, size, strict.ManagedBytes)
	*ptr = a
	return acl.ACL_SUCCESS
}

// managedUnits calls a function for each unit in a range.
func (t *Thread) managedUnits(ptr acl.Addr, size uint64, f func(*managedUnit)) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	m := &t.sim.Managed
	m.Lock()
	defer m.Unlock()
	r, ok := m.Live.Find(ptr)
	if !ok || size == 0 || !r.Holds(ptr, size) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x are not in one allocation of managed memory", size, ptr)
	}
	units, _ := r.Value.Attached.([]managedUnit)
	if units == nil {
		units = make([]managedUnit, r.Size/memory.Granularity)
		for i := range units {
			units[i].accessedBy = map[acl.MemManagedLocation]bool{}
		}
		r.Value.Attached = units
	}
	for i := (ptr - r.Addr) / memory.Granularity; i*memory.Granularity < ptr+size-r.Addr; i++ {
		f(&units[i])
	}
	return acl.ACL_SUCCESS
}

// place checks a location.
func (t *Thread) place(l acl.MemManagedLocation) acl.Error {
	switch acl.MemManagedLocationType(l.Type) {
	case acl.ACL_MEM_LOCATIONTYPE_HOST, acl.ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
	case acl.ACL_MEM_LOCATIONTYPE_HOST_NUMA:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the simulated host has no NUMA nodes")
	case acl.ACL_MEM_LOCATIONTYPE_DEVICE:
		if _, e := t.device(int32(l.Id)); e != 0 {
			return e
		}
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "location type %d is unknown", l.Type)
	}
	return acl.ACL_SUCCESS
}

// MemManagedAdvise stores advice about a range.
func (t *Thread) MemManagedAdvise(ptr acl.Addr, size uint64, advise acl.MemManagedAdviseType, location acl.MemManagedLocation) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if advise < acl.ACL_MEM_ADVISE_SET_READ_MOSTLY || advise > acl.ACL_MEM_ADVISE_UNSET_ACCESSED_BY {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "advice %d is unknown", advise)
	}
	if ptr%memory.Granularity != 0 || size%memory.Granularity != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x: want multiples of %d", size, ptr, memory.Granularity)
	}
	switch advise { // other advice has no location
	case acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, acl.ACL_MEM_ADVISE_SET_ACCESSED_BY, acl.ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
		if e := t.place(location); e != 0 {
			return e
		}
	}
	return t.managedUnits(ptr, size, func(u *managedUnit) {
		switch advise {
		case acl.ACL_MEM_ADVISE_SET_READ_MOSTLY, acl.ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
			u.readMostly = advise == acl.ACL_MEM_ADVISE_SET_READ_MOSTLY
		case acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
			u.preferred = location
		case acl.ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
			u.preferred = acl.MemManagedLocation{}
		case acl.ACL_MEM_ADVISE_SET_ACCESSED_BY:
			u.accessedBy[location] = true
		case acl.ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
			delete(u.accessedBy, location)
		}
	})
}

// Numbers that stand for places other than devices.
const (
	placeHost    = -1
	placeInvalid = -2
)

// placeNumber is a place as one number.
func placeNumber(l acl.MemManagedLocation) int32 {
	switch acl.MemManagedLocationType(l.Type) {
	case acl.ACL_MEM_LOCATIONTYPE_DEVICE:
		return int32(l.Id)
	case acl.ACL_MEM_LOCATIONTYPE_HOST, acl.ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
		return placeHost
	}
	return placeInvalid
}

// MemManagedGetAttr returns an attribute of a range, or the value for none if its parts differ.
func (t *Thread) MemManagedGetAttr(attribute acl.MemManagedRangeAttribute, ptr acl.Addr, size uint64, data acl.Addr, dataSize uint64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	switch {
	case data == 0:
		return t.null("data")
	case attribute < acl.ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY || attribute > acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "attribute %d is unknown", attribute)
	case attribute == acl.ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && (dataSize == 0 || dataSize%4 != 0 || dataSize > 1<<16),
		attribute != acl.ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && dataSize != 4:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "dataSize is %d: it does not match the attribute", dataSize)
	}
	if attribute == acl.ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY {
		var all map[acl.MemManagedLocation]bool
		e := t.managedUnits(ptr, size, func(u *managedUnit) {
			next := map[acl.MemManagedLocation]bool{}
			for l := range u.accessedBy {
				if all == nil || all[l] {
					next[l] = true
				}
			}
			all = next
		})
		if e != 0 {
			return e
		}
		out := space.List((*int32)(space.Pointer(data)), dataSize/4)
		n := 0
		for id := int32(placeHost); id < device.MaxDevices; id++ {
			for l := range all {
				if placeNumber(l) == id && n < len(out) {
					out[n] = id
					n++
				}
			}
		}
		for ; n < len(out); n++ {
			out[n] = placeInvalid
		}
		return acl.ACL_SUCCESS
	}
	value, first := int32(0), true
	e := t.managedUnits(ptr, size, func(u *managedUnit) {
		l := u.preferred
		if attribute >= acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION {
			l = u.prefetched
		}
		v, none := placeNumber(l), int32(placeInvalid)
		switch attribute {
		case acl.ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
			v, none = 0, 0
			if u.readMostly {
				v = 1
			}
		case acl.ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
			v, none = int32(l.Type), int32(acl.ACL_MEM_LOCATIONTYPE_INVALID)
		}
		if !first && v != value {
			v = none
		}
		value, first = v, false
	})
	if e != 0 {
		return e
	}
	*(*int32)(space.Pointer(data)) = value
	return acl.ACL_SUCCESS
}

// MemManagedGetAttrs returns several attributes.
func (t *Thread) MemManagedGetAttrs(attributes *acl.MemManagedRangeAttribute, numAttributes uint64, ptr acl.Addr, size uint64, data *acl.Addr, dataSizes *uint64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if attributes == nil || data == nil || dataSizes == nil || numAttributes == 0 || numAttributes > 64 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d attributes at %#x: want an address and 1 to 64", numAttributes, space.AddressOf(attributes))
	}
	for i, a := range space.List(attributes, numAttributes) {
		if e := t.MemManagedGetAttr(a, ptr, size, space.List(data, numAttributes)[i], space.List(dataSizes, numAttributes)[i]); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}

// prefetch submits a prefetch.
func (t *Thread) prefetch(s *device.Stream, ptr acl.Addr, size uint64, l acl.MemManagedLocation) acl.Error {
	if e := t.place(l); e != 0 {
		return e
	}
	if ptr%memory.Granularity != 0 || size%memory.Granularity != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x: want multiples of %d", size, ptr, memory.Granularity)
	}
	if e := t.managedUnits(ptr, size, func(u *managedUnit) { u.prefetched = l }); e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskCache, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		sim := s.Context.Device.Machine
		if sim.Managed.Check(ptr, size) != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch of %d bytes at %#x on stream %d: the managed memory was freed", size, ptr, s.ID)
		}
		return sim.CopyTime(model.HostToDevice, size), nil
	}})
}

// MemManagedPrefetchAsync moves managed memory in stream order.
func (t *Thread) MemManagedPrefetchAsync(ptr acl.Addr, size uint64, location acl.MemManagedLocation, flags uint32, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if flags != 0 {
		return t.invalid("flags are %#x: want 0", flags)
	}
	return t.prefetch(s, ptr, size, location)
}

// MemManagedPrefetchBatchAsync moves ranges of managed memory. Location k applies from the range with index k on.
func (t *Thread) MemManagedPrefetchBatchAsync(ptrs *acl.Addr, sizes *uint64, count uint64, prefetchLocs *acl.MemManagedLocation, prefetchLocIdxs *uint64, numPrefetchLocs, flags uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case flags != 0:
		return t.invalid("flags are %#x: want 0", flags)
	case ptrs == nil || sizes == nil || prefetchLocs == nil || prefetchLocIdxs == nil || count == 0 || count > 1<<20 || numPrefetchLocs == 0 || numPrefetchLocs > count:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d ranges and %d locations: want 1 or more ranges, and 1 to that many locations", count, numPrefetchLocs)
	}
	at := space.List(prefetchLocIdxs, numPrefetchLocs)
	for i, x := range at {
		if i == 0 && x != 0 || i > 0 && x <= at[i-1] || x >= count {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "prefetchLocIdxs[%d] is %d: want ascending indexes from 0", i, x)
		}
	}
	k := 0
	for i := range count {
		for k+1 < len(at) && at[k+1] <= i {
			k++
		}
		if e := t.prefetch(s, space.List(ptrs, count)[i], space.List(sizes, count)[i], space.List(prefetchLocs, numPrefetchLocs)[k]); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}
