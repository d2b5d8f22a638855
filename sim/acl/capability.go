package acl

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// usage measures how busy the cores of a device are, from one question to the next.
type usage struct {
	asked time.Duration // device time of the last question
	busy  time.Duration // of all kernels until then
}

// GetDeviceUtilizationRate tells which part of the time since the last question the cores of a device were busy, in percent. Kernels are
// not told apart: cube and vector cores have the same figure. The memory has none (documented).
func (t *Thread) GetDeviceUtilizationRate(deviceId int32, utilizationInfo *acl.UtilizationInfo) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if utilizationInfo == nil {
		return t.null("utilizationInfo")
	}
	now, busy := t.sim.Clock.Now(&t.HostThread), time.Duration(d.Busy.Load())
	d.Mu.Lock()
	was := t.sim.of(d).usage
	t.sim.of(d).usage = usage{now, busy}
	d.Mu.Unlock()
	rate := int32(0)
	if now > was.asked {
		rate = int32(min(100, 100*(busy-was.busy)/(now-was.asked)))
	}
	*utilizationInfo = acl.UtilizationInfo{CubeUtilization: rate, VectorUtilization: rate, MemoryUtilization: -1}
	return acl.ACL_SUCCESS
}

// atomics answers that devices share no atomic operations with the host or with each other: none is simulated.
func (t *Thread) atomics(capabilities *uint32, operations *acl.AtomicOperation, count uint32, devices ...int32) acl.Error {
	for _, id := range devices {
		if _, e := t.knownDevice(id); e != 0 {
			return e
		}
	}
	if capabilities == nil || operations == nil || count == 0 || count > 1024 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d operations", count)
	}
	for _, o := range space.List(operations, uint64(count)) {
		known := o >= acl.ACL_RT_ATOMIC_OPERATION_INTEGER_ADD && o <= acl.ACL_RT_ATOMIC_OPERATION_FLOAT_MAX ||
			o >= acl.ACL_RT_ATOMIC_OPERATION_DMA_ADD && o <= acl.ACL_RT_ATOMIC_OPERATION_DMA_MAX ||
			o >= acl.ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_ADD && o <= acl.ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH
		if !known {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "operation %d is unknown", o)
		}
	}
	clear(space.List(capabilities, uint64(count)))
	return acl.ACL_SUCCESS
}

// DeviceGetHostAtomicCapabilities tells which atomic operations a device has on host memory.
func (t *Thread) DeviceGetHostAtomicCapabilities(capabilities *uint32, operations *acl.AtomicOperation, count uint32, deviceId int32) acl.Error {
	return t.atomics(capabilities, operations, count, deviceId)
}

// DeviceGetP2PAtomicCapabilities tells which atomic operations a device has on another one's memory.
func (t *Thread) DeviceGetP2PAtomicCapabilities(capabilities *uint32, operations *acl.AtomicOperation, count uint32, srcDeviceId, dstDeviceId int32) acl.Error {
	return t.atomics(capabilities, operations, count, srcDeviceId, dstDeviceId)
}

// HostMemMapCapabilities tells which parts of a device reach registered host memory: its cores and its copy engines.
func (t *Thread) HostMemMapCapabilities(deviceId uint32, hacType acl.HacType, capabilities *acl.HostMemMapCapability) acl.Error {
	if _, e := t.knownDevice(int32(deviceId)); e != 0 {
		return e
	}
	switch {
	case capabilities == nil:
		return t.null("capabilities")
	case hacType < acl.ACL_RT_HAC_TYPE_STARS || hacType > acl.ACL_RT_HAC_TYPE_CCU:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "engine %d is unknown", hacType)
	}
	*capabilities = acl.ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED
	switch hacType {
	case acl.ACL_RT_HAC_TYPE_AIC, acl.ACL_RT_HAC_TYPE_AIV, acl.ACL_RT_HAC_TYPE_PCIEDMA, acl.ACL_RT_HAC_TYPE_SDMA:
		*capabilities = acl.ACL_RT_HOST_MEM_MAP_SUPPORTED
	}
	return acl.ACL_SUCCESS
}

// Kinds of memory in CheckMemType.
const (
	memDevice   = 0x2
	memDvpp     = 0x8
	memReserved = 0x10
)

// CheckMemType tells whether all addresses are of the kinds of memory that are named.
func (t *Thread) CheckMemType(addrList *acl.Addr, size, memType uint32, checkResult *uint32, reserve uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case addrList == nil || size == 0 || checkResult == nil:
		return t.null("addrList or checkResult")
	case reserve != 0 || memType == 0 || memType&^(memDevice|memDvpp|memReserved) != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "memory kinds %#x, reserve %d", memType, reserve)
	}
	*checkResult = 1
	for _, a := range space.List(addrList, uint64(size)) {
		kind := uint32(0)
		if d := t.sim.Locate(a).Device; d != nil {
			if r, ok := d.Memory.Live.Find(a); ok && r.V.How != memory.ByMap {
				kind = memDevice
			} else if _, ok := d.Memory.Taken.Find(a); ok {
				kind = memReserved
			}
		}
		if kind&memType == 0 {
			*checkResult = 0
		}
	}
	return acl.ACL_SUCCESS
}

// MemUceRepair has nothing to repair: the memory of a simulated device has no defects.
func (t *Thread) MemUceRepair(deviceId int32, memUceInfoArray *acl.MemUceInfo, arraySize uint64) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d has no defect to repair in %d ranges", deviceId, arraySize)
}

// RepairError has nothing to repair.
func (t *Thread) RepairError(deviceId int32, errorInfo *acl.ErrorInfo) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	if errorInfo == nil {
		return t.null("errorInfo")
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d has no error to repair", deviceId)
}

// GetHardwareSyncAddr returns memory in which the cores of a device tell each other how far they are.
func (t *Thread) GetHardwareSyncAddr(addr *acl.Addr) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if addr == nil {
		return t.absent("addr")
	}
	d := c.Device
	d.Mu.Lock()
	defer d.Mu.Unlock()
	own := t.sim.of(d)
	if ends := d.Memory.Ends.Load(); own.syncAddr == 0 || own.syncEnds != ends {
		a, f := t.sim.allocOwn(d, space.PageSize)
		if f != nil {
			return t.failWith(f)
		}
		own.syncAddr, own.syncEnds = a, ends
	}
	*addr = own.syncAddr
	return acl.ACL_SUCCESS
}

// maxMarker is the size of a marker of the program's in a profile (documented).
const maxMarker = 18

// ProfTrace puts a marker on a stream, as a task that does nothing else.
func (t *Thread) ProfTrace(userdata acl.Addr, length int32, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case userdata == 0:
		return t.null("userdata")
	case length <= 0 || length > maxMarker:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a marker of %d bytes: 1 to %d", length, maxMarker)
	}
	return t.submit(s, device.Task{Kind: device.TaskMarker, Name: string(space.Bytes(userdata, uint64(length))), Run: func(*device.Stream) (time.Duration, *fail.Failure) { return 0, nil }})
}

// MemP2PMap checks that a device may reach another one's memory, which needs no further preparation here.
func (t *Thread) MemP2PMap(devPtr acl.Addr, size uint64, dstDevId int32, flags uint64) acl.Error {
	d, e := t.owner(devPtr)
	if e != 0 {
		return e
	}
	to, e := t.device(dstDevId)
	if e != 0 {
		return e
	}
	switch {
	case flags != 0 || size == 0 || size > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes, flags %#x", size, flags)
	case to == d:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the memory lies on device %d itself", d.ID)
	}
	if err := to.Check(devPtr, size, space.Read); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
	}
	return acl.ACL_SUCCESS
}

// MallocForTaskScheduler allocates device memory like any other, which all parts of the device reach. A policy that is unknown is one
// of the runtime's choice (documented).
func (t *Thread) MallocForTaskScheduler(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy, cfg *acl.MallocConfig) acl.Error {
	if policy < 0 || policy > acl.ACL_MEM_MALLOC_HUGE1G_ONLY_P2P {
		policy = acl.ACL_MEM_MALLOC_HUGE_FIRST
	}
	return t.MallocWithCfg(devPtr, size, policy, cfg)
}

// FunctionGetAvailDynUbufPerBlock answers that kernels have no dynamic buffer: those of the simulated device are not SIMT (documented).
func (t *Thread) FunctionGetAvailDynUbufPerBlock(func_ acl.Addr, flags uint32, dynamicUbufSize *uint64) acl.Error {
	if _, e := t.liveFunction(acl.FuncHandle(func_)); e != 0 {
		return e
	}
	switch {
	case flags != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x and have to be 0", flags)
	case dynamicUbufSize == nil:
		return t.null("dynamicUbufSize")
	}
	*dynamicUbufSize = 0
	return acl.ACL_SUCCESS
}

// cacheDescSize is the size of a descriptor of cached memory: its address and its size.
const cacheDescSize = 64

// CmoGetDescSize returns the size of a descriptor of cached memory.
func (t *Thread) CmoGetDescSize(size *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if size == nil {
		return t.absent("size")
	}
	*size = cacheDescSize
	return acl.ACL_SUCCESS
}

// CmoSetDesc writes a descriptor to device memory.
func (t *Thread) CmoSetDesc(cmoDesc, src acl.Addr, size uint64) acl.Error {
	d, e := t.owner(cmoDesc)
	if e != 0 {
		return e
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	if src == 0 || size == 0 {
		return t.invalid("%d bytes of the cache at %#x", size, src)
	}
	if err := d.Memory.Check(cmoDesc, cacheDescSize, space.Write); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
	}
	b := space.Bytes(cmoDesc, cacheDescSize)
	clear(b)
	binary.LittleEndian.PutUint64(b, src)
	binary.LittleEndian.PutUint64(b[8:], size)
	return acl.ACL_SUCCESS
}

// CmoAsyncWithDesc does what a descriptor says when the task runs.
func (t *Thread) CmoAsyncWithDesc(cmoDesc acl.Addr, cmoType acl.CmoType, on acl.Stream, reserve acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if _, e := t.owner(cmoDesc); e != 0 {
		return e
	}
	switch {
	case reserve != 0:
		return t.invalid("reserve has to be null")
	case cmoType != acl.ACL_RT_CMO_TYPE_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cache operation %d: the device prefetches only", cmoType)
	}
	return t.submit(s, device.Task{Kind: device.TaskCache, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		d := s.Context.Device
		if err := d.Check(cmoDesc, cacheDescSize, space.Read); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		b := space.Bytes(cmoDesc, cacheDescSize)
		if err := d.Check(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), 0); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		return d.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// RegisterCpuFunc refuses kernels of the AI CPU: a binary of other kernels has none (documented).
func (t *Thread) RegisterCpuFunc(handle acl.BinHandle, funcName, kernelName *byte, funcHandle *acl.FuncHandle) acl.Error {
	if _, e := t.binary(handle, funcHandle); e != 0 {
		return e
	}
	if slices.Contains([]*byte{funcName, kernelName}, nil) {
		return t.null("funcName or kernelName")
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the binary holds no kernels of the AI CPU")
}
