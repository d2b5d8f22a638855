package sim

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
	"golang.org/x/sys/unix"
)

// Managed memory has one address for the host and for all devices. Here it has one place too: nothing moves, and what the
// program says about places is kept and told.
const (
	// managedBase is where managed memory begins (documented), managedSize how much of it a process may have.
	managedBase = 0x90000000000
	managedSize = 3 << 40
)

// managedMemory is the managed memory of the process. Lookups take no lock.
type managedMemory struct {
	live device.Regions[*managedBlock]
	any  atomic.Bool

	mu     sync.Mutex // for changes
	cursor uint64
}

// managedBlock is one allocation, with what the program said about each unit of it.
type managedBlock struct {
	device.Span
	units []managedUnit // under the lock
}

// managedUnit is what is known about 2 MiB.
type managedUnit struct {
	readMostly bool
	preferred  acl.MemManagedLocation
	prefetched acl.MemManagedLocation
	accessedBy map[acl.MemManagedLocation]bool
}

func (m *managedMemory) check(addr, n uint64) bool {
	r, ok := m.live.Find(addr)
	return ok && r.Holds(addr, n)
}

// owns tells whether an address is one of managed memory that was allocated.
func (m *managedMemory) owns(addr uint64) bool {
	return m.any.Load() && addr >= managedBase && addr < managedBase+managedSize && m.check(addr, 1)
}

func (m *managedMemory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.live.All() {
		device.Unmap(r.Addr, r.Size)
	}
	m.live.Clear()
	m.cursor = 0
}

// free ends an allocation.
func (m *managedMemory) free(addr uint64) bool {
	if !m.any.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.live.Remove(addr)
	if ok {
		device.Unmap(r.Addr, r.Size)
	}
	return ok
}

// alloc finds addresses behind those that were given out last, or takes the wanted ones if they are free. Those that something else in
// the process lies at are passed over.
func (m *managedMemory) alloc(size, want uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cursor == 0 {
		m.cursor = managedBase
	}
	if want >= managedBase && want%granularity == 0 && want < managedBase+managedSize {
		m.cursor = want
	}
	for tries := 0; size <= managedSize && tries < 1<<14; tries++ {
		if m.cursor+size > managedBase+managedSize {
			m.cursor = managedBase
		}
		at := m.cursor
		m.cursor += size
		if c := m.live.At(at); c.OK() && c.Get().Addr < at+size {
			m.cursor = c.Get().End()
			continue
		}
		if device.MapAt(at, size, unix.PROT_READ|unix.PROT_WRITE) == nil {
			b := &managedBlock{Span: device.Span{Addr: at, Size: size}, units: make([]managedUnit, size/granularity)}
			for i := range b.units {
				b.units[i].accessedBy = map[acl.MemManagedLocation]bool{}
			}
			m.live.Insert(device.Region[*managedBlock]{Span: b.Span, V: b})
			m.any.Store(true)
			return at
		}
	}
	return 0
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
		return t.invalid("an allocation of 0 bytes")
	case size > managedSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "an allocation of %d bytes: 1 to 3 TiB can be had", size)
	case flag != global:
		return t.invalid("flag is %d and has to be %d", flag, global)
	}
	if f := t.sim.outOfMemory(); f != nil {
		return t.failWith(f)
	}
	a, f := t.placed(func(want uint64) (uint64, *failure) {
		if a := t.sim.managed.alloc(device.RoundUp(size, granularity), want); a != 0 {
			return a, nil
		}
		return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses for %d bytes of managed memory", size)
	})
	if f != nil {
		return t.failWith(f)
	}
	t.sim.strict.Gets(&t.strict, a, size, strict.ManagedBytes)
	*ptr = a
	return acl.ACL_SUCCESS
}

// managedUnits calls a function for each unit of a range of managed memory.
func (t *Thread) managedUnits(ptr acl.Addr, size uint64, f func(*managedUnit)) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	m := &t.sim.managed
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.live.Find(ptr)
	if !ok || size == 0 || !r.Holds(ptr, size) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x do not lie in one allocation of managed memory", size, ptr)
	}
	for i := (ptr - r.Addr) / granularity; i*granularity < ptr+size-r.Addr; i++ {
		f(&r.V.units[i])
	}
	return acl.ACL_SUCCESS
}

// place checks a place of managed memory.
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

// MemManagedAdvise says where managed memory is used.
func (t *Thread) MemManagedAdvise(ptr acl.Addr, size uint64, advise acl.MemManagedAdviseType, location acl.MemManagedLocation) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if advise < acl.ACL_MEM_ADVISE_SET_READ_MOSTLY || advise > acl.ACL_MEM_ADVISE_UNSET_ACCESSED_BY {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "advice %d is unknown", advise)
	}
	if ptr%granularity != 0 || size%granularity != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x: both have to be multiples of %d", size, ptr, granularity)
	}
	switch advise { // the others look at no place
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

// MemManagedGetAttr reads what was said about managed memory; where its parts differ, the answer is that there is none.
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "dataSize is %d", dataSize)
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
		out := device.List((*int32)(device.Pointer(data)), dataSize/4)
		n := 0
		for id := int32(placeHost); id < MaxDevices; id++ {
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
	*(*int32)(device.Pointer(data)) = value
	return acl.ACL_SUCCESS
}

// MemManagedGetAttrs reads several attributes of managed memory.
func (t *Thread) MemManagedGetAttrs(attributes *acl.MemManagedRangeAttribute, numAttributes uint64, ptr acl.Addr, size uint64, data *acl.Addr, dataSizes *uint64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if attributes == nil || data == nil || dataSizes == nil || numAttributes == 0 || numAttributes > 64 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d attributes at %#x", numAttributes, device.AddressOf(attributes))
	}
	for i, a := range device.List(attributes, numAttributes) {
		if e := t.MemManagedGetAttr(a, ptr, size, device.List(data, numAttributes)[i], device.List(dataSizes, numAttributes)[i]); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}

// prefetch puts the prefetch of managed memory on a stream.
func (t *Thread) prefetch(s *stream, ptr acl.Addr, size uint64, l acl.MemManagedLocation) acl.Error {
	if e := t.place(l); e != 0 {
		return e
	}
	if ptr%granularity != 0 || size%granularity != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x: both have to be multiples of %d", size, ptr, granularity)
	}
	if e := t.managedUnits(ptr, size, func(u *managedUnit) { u.prefetched = l }); e != 0 {
		return e
	}
	return t.submit(s, task{kind: taskCache, run: func(s *stream) (time.Duration, *failure) {
		sim := s.ctx.dev.sim
		if !sim.managed.check(ptr, size) {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch of %d bytes at %#x on stream %d: the managed memory was freed", size, ptr, s.id)
		}
		return sim.copyTime(model.HostToDevice, size), nil
	}})
}

// MemManagedPrefetchAsync moves managed memory to a place in the order of a stream.
func (t *Thread) MemManagedPrefetchAsync(ptr acl.Addr, size uint64, location acl.MemManagedLocation, flags uint32, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if flags != 0 {
		return t.invalid("flags are %#x and have to be 0", flags)
	}
	return t.prefetch(s, ptr, size, location)
}

// MemManagedPrefetchBatchAsync moves ranges of managed memory: those from the kth index on to the kth place.
func (t *Thread) MemManagedPrefetchBatchAsync(ptrs *acl.Addr, sizes *uint64, count uint64, prefetchLocs *acl.MemManagedLocation, prefetchLocIdxs *uint64, numPrefetchLocs, flags uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case flags != 0:
		return t.invalid("flags are %#x and have to be 0", flags)
	case ptrs == nil || sizes == nil || prefetchLocs == nil || prefetchLocIdxs == nil || count == 0 || count > 1<<20 || numPrefetchLocs == 0 || numPrefetchLocs > count:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d ranges and %d places", count, numPrefetchLocs)
	}
	at := device.List(prefetchLocIdxs, numPrefetchLocs)
	for i, x := range at {
		if i == 0 && x != 0 || i > 0 && x <= at[i-1] || x >= count {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the index of place %d is %d: they begin with 0 and ascend", i, x)
		}
	}
	k := 0
	for i := range count {
		for k+1 < len(at) && at[k+1] <= i {
			k++
		}
		if e := t.prefetch(s, device.List(ptrs, count)[i], device.List(sizes, count)[i], device.List(prefetchLocs, numPrefetchLocs)[k]); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}
