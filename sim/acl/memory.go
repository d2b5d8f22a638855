package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/strict"
)

// allocPad is the padding of allocations.
const allocPad = 32

func (t *Thread) alloc(ptr *acl.Addr, size, pad uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	return t.allocOn(c.Device, ptr, size, pad)
}

func (t *Thread) allocOn(d *device.Device, ptr *acl.Addr, size, pad uint64) acl.Error {
	switch {
	case ptr == nil:
		return t.null("devPtr")
	case size == 0:
		return t.invalid("size is 0: want 1 byte or more")
	}
	if size > memory.MaxAlloc {
		return t.failWith(fail.New(fail.OutOfMemory, "allocate %s: out of device memory", human.Bytes(size)))
	}
	addr, f := t.allocDevice(d, space.RoundUp(size, memory.AllocUnit)+pad, memory.Block{Origin: memory.ByMalloc, Access: space.Read | space.Write})
	if f != nil {
		return t.failWith(f)
	}
	t.sim.Strict.Gets(&t.Strict, addr, size, strict.DeviceMemory)
	*ptr = addr
	return acl.ACL_SUCCESS
}

// allocDevice allocates device memory, at the wanted address if there is one.
func (t *Thread) allocDevice(d *device.Device, size uint64, b memory.Block) (uint64, *fail.Failure) {
	s := t.sim
	if f := s.outOfMemory(); f != nil {
		return 0, f
	}
	addr, f := t.placed(func(want uint64) (uint64, *fail.Failure) { return d.Memory.Alloc(size, want, b, s.Log) })
	if f == nil {
		s.MarkNew(space.Span{Addr: addr, Size: size})
	}
	return addr, f
}

// placed calls take with the wanted address: the thread's wish, else the next entry of Options.Place, else 0. A
// failed allocation consumes no entry.
func (t *Thread) placed(take func(want uint64) (uint64, *fail.Failure)) (uint64, *fail.Failure) {
	s := t.sim
	if t.wish != nil && *t.wish != 0 {
		want := *t.wish
		*t.wish = 0
		return take(want)
	}
	if len(s.opts.Place) == 0 {
		return take(0)
	}
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	want := uint64(0)
	if s.place.next < len(s.opts.Place) {
		want = s.opts.Place[s.place.next]
	}
	addr, f := take(want)
	if f == nil {
		s.place.next++
	}
	return addr, f
}

// Malloc allocates device memory, rounded up and padded as the runtime does it. The policy has no effect.
func (t *Thread) Malloc(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy) acl.Error {
	return t.alloc(devPtr, size, allocPad)
}

// MallocAlign32 allocates device memory without padding.
func (t *Thread) MallocAlign32(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy) acl.Error {
	return t.alloc(devPtr, size, 0)
}

// MallocWithCfg allocates device memory. Only the device id attribute has an effect.
func (t *Thread) MallocWithCfg(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy, cfg *acl.MallocConfig) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	d := c.Device
	attrs, e := t.mallocAttrs(cfg)
	if e != 0 {
		return e
	}
	for _, a := range attrs {
		if a.Attr != acl.ACL_RT_MEM_ATTR_DEVICE_ID {
			continue
		}
		if d, e = t.device(int32(a.Value[0])); e != 0 {
			return e
		}
		if err := d.Memory.Reserve(); err != nil {
			return t.fail(acl.ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d: %v", d.ID, err)
		}
	}
	return t.allocOn(d, devPtr, size, allocPad)
}

func (t *Thread) mallocAttrs(cfg *acl.MallocConfig) ([]acl.MallocAttribute, acl.Error) {
	if cfg == nil || cfg.NumAttrs == 0 {
		return nil, acl.ACL_SUCCESS
	}
	if cfg.Attrs == 0 {
		return nil, t.null("cfg->attrs")
	}
	if cfg.NumAttrs > 16 {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "cfg->numAttrs is %d: want at most 16", cfg.NumAttrs)
	}
	attrs := space.List((*acl.MallocAttribute)(space.Pointer(cfg.Attrs)), cfg.NumAttrs)
	for _, a := range attrs {
		if a.Attr < acl.ACL_RT_MEM_ATTR_RSV || a.Attr > acl.ACL_RT_MEM_ATTR_VA_FLAG {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "allocation attribute %d is unknown", a.Attr)
		}
	}
	return attrs, acl.ACL_SUCCESS
}

// Free frees device memory at once, even if tasks use it.
func (t *Thread) Free(devPtr acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return t.free(devPtr)
}

func (t *Thread) free(p acl.Addr) acl.Error {
	if p == 0 {
		return t.null("devPtr")
	}
	t.sim.Strict.Gone(&t.Strict, p, strict.DeviceMemory, strict.ManagedBytes)
	for _, d := range t.sim.Devices {
		if d.Memory.Free(p, memory.ByMalloc) {
			return acl.ACL_SUCCESS
		}
	}
	if t.sim.Managed.Free(p) {
		return acl.ACL_SUCCESS
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no device allocation begins at %#x", p)
}

// FreeWithDevSync waits for the device and frees device memory.
func (t *Thread) FreeWithDevSync(devPtr acl.Addr) acl.Error {
	if e := t.SynchronizeDevice(); e != 0 {
		return e
	}
	return t.free(devPtr)
}

// MallocHost allocates pinned host memory.
func (t *Thread) MallocHost(hostPtr *acl.Addr, size uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case hostPtr == nil:
		return t.null("hostPtr")
	case size == 0:
		return t.invalid("size is 0: want 1 byte or more")
	}
	a := uint64(0)
	if size <= memory.MaxAlloc {
		a = t.sim.Host.Alloc(size)
	}
	if a == 0 {
		return t.fail(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "allocate %s: out of host memory", human.Bytes(size))
	}
	t.sim.Strict.Gets(&t.Strict, a, size, strict.PinnedMemory)
	*hostPtr = a
	return acl.ACL_SUCCESS
}

// MallocHostWithCfg allocates pinned host memory; the attributes change nothing here.
func (t *Thread) MallocHostWithCfg(ptr *acl.Addr, size uint64, cfg *acl.MallocConfig) acl.Error {
	if _, e := t.mallocAttrs(cfg); e != 0 {
		return e
	}
	return t.MallocHost(ptr, size)
}

// FreeHost frees pinned host memory at once.
func (t *Thread) FreeHost(hostPtr acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return t.freeHost(hostPtr)
}

func (t *Thread) freeHost(p acl.Addr) acl.Error {
	if p == 0 {
		return t.null("hostPtr")
	}
	t.sim.Strict.Gone(&t.Strict, p, strict.PinnedMemory)
	if !t.sim.Host.Free(p) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no host allocation begins at %#x", p)
	}
	return acl.ACL_SUCCESS
}

// FreeHostWithDevSync waits for the device and frees pinned host memory.
func (t *Thread) FreeHostWithDevSync(hostPtr acl.Addr) acl.Error {
	if e := t.SynchronizeDevice(); e != 0 {
		return e
	}
	return t.freeHost(hostPtr)
}

// locationTypes maps memory kinds to location types.
var locationTypes = [...]acl.MemLocationType{device.Pageable: acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED, device.Pinned: acl.ACL_MEM_LOCATION_TYPE_HOST, device.OnDevice: acl.ACL_MEM_LOCATION_TYPE_DEVICE, device.InManaged: acl.ACL_MEM_LOCATION_TYPE_MANAGED}

func typeOf(l device.Location) acl.MemLocationType { return locationTypes[l.Kind] }

// side returns the location type for copies, which treat managed memory as device memory.
func side(l device.Location) acl.MemLocationType {
	if l.Kind == device.InManaged {
		return acl.ACL_MEM_LOCATION_TYPE_DEVICE
	}
	return typeOf(l)
}

// PointerGetAttributes returns the location of an address.
func (t *Thread) PointerGetAttributes(ptr acl.Addr, attributes *acl.PtrAttributes) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case ptr == 0:
		return t.null("ptr")
	case attributes == nil:
		return t.null("attributes")
	}
	l := t.sim.Locate(ptr)
	a := acl.PtrAttributes{Location: acl.MemLocation{Type: typeOf(l)}, PageSize: space.PageSize}
	if l.Device != nil {
		a.Location.Id, a.PageSize = uint32(l.Device.ID), memory.CommitStep
	}
	*attributes = a
	return acl.ACL_SUCCESS
}

// GetMemInfo returns the free and total device memory. There is no DDR memory.
func (t *Thread) GetMemInfo(attr acl.MemAttr, free, total *uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if free == nil || total == nil {
		return t.null("free or total")
	}
	switch attr {
	case acl.ACL_DDR_MEM, acl.ACL_DDR_MEM_HUGE, acl.ACL_DDR_MEM_NORMAL, acl.ACL_DDR_MEM_P2P_HUGE, acl.ACL_DDR_MEM_P2P_NORMAL:
		*free, *total = 0, 0
	case acl.ACL_HBM_MEM, acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL, acl.ACL_HBM_MEM_P2P_HUGE, acl.ACL_HBM_MEM_P2P_NORMAL,
		acl.ACL_HBM_MEM_HUGE1G, acl.ACL_HBM_MEM_P2P_HUGE1G:
		m := &c.Device.Memory
		m.Lock()
		*free, *total = m.Limit-m.Used, m.Limit
		m.Unlock()
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "memory kind %d is unknown", attr)
	}
	return acl.ACL_SUCCESS
}

// MemFlush checks cached device memory. There is no cache to write back or to drop.
func (t *Thread) MemFlush(devPtr acl.Addr, size uint64) acl.Error {
	d, e := t.owner(devPtr)
	if e != 0 {
		return e
	}
	if size == 0 || size > memory.MaxAlloc {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the cached memory is %d: want 1 to %d bytes", size, uint64(memory.MaxAlloc))
	}
	return t.refuse(d.Memory.Check(devPtr, size, 0))
}

// CmoAsync prefetches in stream order.
func (t *Thread) CmoAsync(src acl.Addr, size uint64, cmoType acl.CmoType, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case src == 0:
		return t.null("src")
	case size == 0:
		return t.invalid("size of the cached memory is 0: want 1 byte or more")
	case cmoType != acl.ACL_RT_CMO_TYPE_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cache operation %d is not simulated: want ACL_RT_CMO_TYPE_PREFETCH", cmoType)
	}
	return t.submit(s, device.Task{Kind: device.TaskCache, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		if err := s.Context.Device.Check(src, size, 0); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}
