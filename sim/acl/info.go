package acl

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
)

// deviceAttrs are the supported device attributes.
var deviceAttrs = map[acl.DevAttr]int64{
	acl.ACL_DEV_ATTR_AICPU_CORE_NUM: cpuCores, acl.ACL_DEV_ATTR_AICORE_CORE_NUM: cubeCores, acl.ACL_DEV_ATTR_CUBE_CORE_NUM: cubeCores,
	acl.ACL_DEV_ATTR_VECTOR_CORE_NUM: vectorCores, acl.ACL_DEV_ATTR_L2_CACHE_SIZE: cacheSize, acl.ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE: 192 << 10,
	acl.ACL_DEV_ATTR_MAX_BLOCK_PER_GRID: kernel.MaxBlocks, acl.ACL_DEV_ATTR_SMP_ID: 0, acl.ACL_DEV_ATTR_SUPER_POD_SERVER_ID: 0, acl.ACL_DEV_ATTR_SUPER_POD_ID: 0, acl.ACL_DEV_ATTR_IS_VIRTUAL: 0,
	acl.ACL_DEV_ATTR_CUST_OP_PRIVILEGE: 0, acl.ACL_DEV_ATTR_HD_CONNECT_TYPE: acl.ACL_HOST_DEVICE_CONNECT_TYPE_PCIE,
}

// GetDeviceInfo returns a device attribute.
func (t *Thread) GetDeviceInfo(deviceId uint32, attr acl.DevAttr, value *int64) acl.Error {
	d, e := t.knownDevice(int32(deviceId))
	if e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	v, ok := deviceAttrs[attr]
	switch attr {
	case acl.ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
		v, ok = int64(d.Memory.Limit), true
	case acl.ACL_DEV_ATTR_PHY_CHIP_ID, acl.ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
		v, ok = int64(d.ID), true
	}
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the simulated device has no attribute %d", attr)
	}
	*value = v
	return acl.ACL_SUCCESS
}

// GetDeviceCapability returns a device figure (interface of the base library).
func (t *Thread) GetDeviceCapability(deviceId uint32, deviceInfo acl.DeviceInfo, value *int64) acl.Error {
	if _, e := t.knownDevice(int32(deviceId)); e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	switch deviceInfo {
	case acl.ACL_DEVICE_INFO_AI_CORE_NUM:
		*value = cubeCores
	case acl.ACL_DEVICE_INFO_VECTOR_CORE_NUM:
		*value = vectorCores
	case acl.ACL_DEVICE_INFO_L2_SIZE:
		*value = cacheSize
	default:
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "device information %d is unknown", deviceInfo)
	}
	return acl.ACL_SUCCESS
}

// RtGetDeviceCapability reports that no optional feature is supported.
func (t *Thread) RtGetDeviceCapability(deviceId int32, devFeatureType acl.DevFeatureType, value *int32) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	switch {
	case value == nil:
		return t.null("value")
	case devFeatureType != acl.ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV && devFeatureType != acl.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "feature %d is unknown", devFeatureType)
	}
	*value = acl.ACL_DEV_FEATURE_NOT_SUPPORT
	return acl.ACL_SUCCESS
}

// DeviceGetStreamPriorityRange returns the range of stream priorities.
func (t *Thread) DeviceGetStreamPriorityRange(leastPriority, greatestPriority *int32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	offer(leastPriority, maxPriority)
	offer(greatestPriority, 0)
	return acl.ACL_SUCCESS
}

// DeviceGetUuid returns an id that names the simulator.
func (t *Thread) DeviceGetUuid(deviceId int32, uuid *acl.Uuid) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	var id acl.Uuid
	copy(id.Bytes[:], "acltrace sim")
	binary.BigEndian.PutUint32(id.Bytes[12:], uint32(t.sim.visible[d.ID]))
	return put(t, "uuid", uuid, id)
}

// busID is the fictitious bus id of a device.
func busID(machine int32) string { return fmt.Sprintf("0000:%02X:00.0", 0xc0+machine) }

// DeviceGetPCIBusId stores a device's bus id.
func (t *Thread) DeviceGetPCIBusId(deviceId int32, pciBusId *byte, size int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	switch id := busID(t.sim.visible[d.ID]); {
	case pciBusId == nil:
		return t.null("pciBusId")
	case int(size) <= len(id):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "buffer of %d bytes is too small for an id with %d bytes and a NUL", size, len(id))
	default:
		space.PutText(space.List(pciBusId, uint64(size)), id)
	}
	return acl.ACL_SUCCESS
}

// DeviceGetByPCIBusId returns the device at a place on the bus.
func (t *Thread) DeviceGetByPCIBusId(pciBusId *byte, deviceId *int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if pciBusId == nil || deviceId == nil {
		return t.null("pciBusId or deviceId")
	}
	for id, machine := range t.sim.visible {
		if strings.EqualFold(space.GoString(pciBusId), busID(machine)) {
			*deviceId = int32(id)
			return acl.ACL_SUCCESS
		}
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no device has the PCI bus id %q", space.GoString(pciBusId))
}

// GetLogicDevIdByUserDevId converts the process's id of a device to the machine's. Logical and physical ids are equal here.
func (t *Thread) GetLogicDevIdByUserDevId(userDevid int32, logicDevId *int32) acl.Error {
	if _, e := t.knownDevice(userDevid); e != 0 {
		return e
	}
	return put(t, "the id", logicDevId, t.sim.visible[userDevid])
}

// GetUserDevIdByLogicDevId converts the machine's id of a device to the process's.
func (t *Thread) GetUserDevIdByLogicDevId(logicDevId int32, userDevid *int32) acl.Error {
	user := slices.Index(t.sim.visible, logicDevId)
	if user < 0 {
		return t.fail(acl.ACL_ERROR_RT_INVALID_DEVICEID, "the process does not see device %d", logicDevId)
	}
	return put(t, "the id", userDevid, int32(user))
}

// GetLogicDevIdByPhyDevId returns a device that the process sees.
func (t *Thread) GetLogicDevIdByPhyDevId(phyDevId int32, logicDevId *int32) acl.Error {
	if !slices.Contains(t.sim.visible, phyDevId) {
		return t.fail(acl.ACL_ERROR_RT_INVALID_DEVICEID, "the process does not see device %d", phyDevId)
	}
	return put(t, "the id", logicDevId, phyDevId)
}

// Visible returns the devices of a machine that ASCEND_RT_VISIBLE_DEVICES names: ids with commas, read up to the first other character or invalid
// id (CANN 9.1, environment variables). torch_npu takes an empty list, and one that does not ascend, for no device.
func Visible(list string, devices int) []int32 {
	ids := []int32{}
	for text := range strings.SplitSeq(list, ",") {
		digits := strings.TrimLeft(text, "0123456789")
		id, err := strconv.Atoi(text[:len(text)-len(digits)])
		if err == nil && len(ids) > 0 && id <= int(ids[len(ids)-1]) {
			return []int32{}
		}
		if err != nil || id >= devices {
			break
		}
		ids = append(ids, int32(id))
		if digits != "" {
			break
		}
	}
	return ids
}

// DeviceGetBareTgid returns the process id.
func (t *Thread) DeviceGetBareTgid(pid *int32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return put(t, "pid", pid, int32(os.Getpid()))
}

// GetDevicesTopo returns how two devices are linked.
func (t *Thread) GetDevicesTopo(deviceId, otherDeviceId uint32, value *uint64) acl.Error {
	for _, id := range []uint32{deviceId, otherDeviceId} {
		if _, e := t.knownDevice(int32(id)); e != 0 {
			return e
		}
	}
	switch {
	case value == nil:
		return t.null("value")
	case deviceId == otherDeviceId:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not a peer of itself", deviceId)
	}
	*value = acl.ACL_RT_DEVS_TOPOLOGY_HCCS
	return acl.ACL_SUCCESS
}

// DeviceCanAccessPeer reports whether peer access can be enabled.
func (t *Thread) DeviceCanAccessPeer(canAccessPeer *int32, deviceId, peerDeviceId int32) acl.Error {
	for _, id := range []int32{deviceId, peerDeviceId} {
		if _, e := t.knownDevice(id); e != 0 {
			return e
		}
	}
	switch {
	case canAccessPeer == nil:
		return t.absent("canAccessPeer")
	case deviceId == peerDeviceId:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not a peer of itself", deviceId)
	}
	*canAccessPeer = 1
	return acl.ACL_SUCCESS
}

// peer returns the current device and another one.
func (t *Thread) peer(id int32) (me, other *device.Device, e acl.Error) {
	c, e := t.context()
	if e != 0 {
		return nil, nil, e
	}
	if other, e = t.device(id); e != 0 {
		return nil, nil, e
	}
	if other == c.Device {
		return nil, nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not a peer of itself", id)
	}
	return c.Device, other, acl.ACL_SUCCESS
}

// DeviceEnablePeerAccess gives the current device access to another one's memory.
func (t *Thread) DeviceEnablePeerAccess(peerDeviceId int32, flags uint32) acl.Error {
	me, other, e := t.peer(peerDeviceId)
	if e != 0 {
		return e
	}
	if flags != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x: want 0", flags)
	}
	me.Peers.Or(1 << other.ID)
	return acl.ACL_SUCCESS
}

// DeviceDisablePeerAccess ends DeviceEnablePeerAccess.
func (t *Thread) DeviceDisablePeerAccess(peerDeviceId int32) acl.Error {
	me, other, e := t.peer(peerDeviceId)
	if e != 0 {
		return e
	}
	me.Peers.And(^uint32(1 << other.ID))
	return acl.ACL_SUCCESS
}

// DevicePeerAccessStatus reports whether peer access is enabled.
func (t *Thread) DevicePeerAccessStatus(deviceId, peerDeviceId int32, status *int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if _, e := t.device(peerDeviceId); e != 0 {
		return e
	}
	return put(t, "status", status, int32(d.Peers.Load()>>peerDeviceId&1))
}

// QueryDeviceStatus reports a healthy device.
func (t *Thread) QueryDeviceStatus(deviceId int32, deviceStatus *acl.DeviceStatus) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	return put(t, "deviceStatus", deviceStatus, acl.ACL_RT_DEVICE_STATUS_NORMAL)
}

// GetMemUceInfo reports no memory errors.
func (t *Thread) GetMemUceInfo(deviceId int32, memUceInfoArray *acl.MemUceInfo, arraySize uint64, retSize *uint64) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	if memUceInfoArray == nil || arraySize == 0 || retSize == nil {
		return t.null("memUceInfoArray or retSize")
	}
	*retSize = 0
	return acl.ACL_SUCCESS
}

// GetErrorVerbose reports no device error.
func (t *Thread) GetErrorVerbose(deviceId int32, errorInfo *acl.ErrorInfo) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	return put(t, "errorInfo", errorInfo, acl.ErrorInfo{})
}

// GetMemUsageInfo reports the program's memory as the only component.
func (t *Thread) GetMemUsageInfo(deviceId int32, memUsageInfo *acl.MemUsageInfo, inputNum uint64, outputNum *uint64) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if memUsageInfo == nil || inputNum == 0 || outputNum == nil {
		return t.null("memUsageInfo or outputNum")
	}
	d.Memory.Lock()
	*memUsageInfo = acl.MemUsageInfo{CurMemSize: d.Memory.Used, MemPeakSize: d.Memory.Peak}
	d.Memory.Unlock()
	copy(space.Bytes(space.AddressOf(memUsageInfo), 32), "APP")
	*outputNum = 1
	return acl.ACL_SUCCESS
}

// GetStreamAvailableNum returns how many streams can still be made.
func (t *Thread) GetStreamAvailableNum(streamCount *uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	n := uint32(device.MaxStreams)
	c.Device.Lock()
	for _, s := range c.Device.Streams {
		if s != nil && !mutant.Breaks("available_streams") {
			n--
		}
	}
	c.Device.Unlock()
	return put(t, "streamCount", streamCount, n)
}

// GetEventAvailNum returns how many events that synchronize can still be made.
func (t *Thread) GetEventAvailNum(eventCount *uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return put(t, "eventCount", eventCount, uint32(max(0, graph.MaxEvents-eventsInUse(t.sim))))
}

// eventsInUse returns the number of live events.
func eventsInUse(s *Sim) int {
	if mutant.Breaks("available_events") {
		return 0
	}
	return s.events.Live()
}

// GetPrimaryCtxState reports whether the primary context is active.
func (t *Thread) GetPrimaryCtxState(deviceId int32, flags *uint32, active *int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	d.Lock()
	defer d.Unlock()
	offer(flags, 0)
	offer(active, 0)
	if d.Primary != nil {
		offer(active, 1)
	}
	return acl.ACL_SUCCESS
}

// CheckArchCompatibility reports whether binaries for a SoC run here.
func (t *Thread) CheckArchCompatibility(socVersion *byte, canCompatible *int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if socVersion == nil || canCompatible == nil {
		return t.absent("socVersion or canCompatible")
	}
	*canCompatible = 0
	if strings.HasPrefix(space.GoString(socVersion), "Ascend910B") {
		*canCompatible = 1
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) setOption(o *options, opt acl.SysParamOpt, value int64) acl.Error {
	if opt < 0 || opt >= sysParams || value < 0 || value > 1 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "system option %d with value %d: want a known option and 0 or 1", opt, value)
	}
	o[opt] = [2]int64{value, 1}
	return acl.ACL_SUCCESS
}

func (t *Thread) getOption(o *options, opt acl.SysParamOpt, value *int64) acl.Error {
	switch {
	case opt < 0 || opt >= sysParams:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "system option %d is unknown", opt)
	case value == nil:
		return t.null("value")
	case o[opt][1] == 0:
		return t.fail(acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "system option %d was not set", opt)
	}
	*value = o[opt][0]
	return acl.ACL_SUCCESS
}

// CtxSetSysParamOpt sets a context option without effect.
func (t *Thread) CtxSetSysParamOpt(opt acl.SysParamOpt, value int64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	c.Lock()
	defer c.Unlock()
	return t.setOption(&contextStateOf(c).options, opt, value)
}

// CtxGetSysParamOpt returns a context option.
func (t *Thread) CtxGetSysParamOpt(opt acl.SysParamOpt, value *int64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	c.Lock()
	defer c.Unlock()
	return t.getOption(&contextStateOf(c).options, opt, value)
}

// SetSysParamOpt sets a process option without effect.
func (t *Thread) SetSysParamOpt(opt acl.SysParamOpt, value int64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	t.sim.settings.mu.Lock()
	defer t.sim.settings.mu.Unlock()
	return t.setOption(&t.sim.settings.options, opt, value)
}

// GetSysParamOpt returns a process option; 0 if it was not set. Only options of contexts have no default.
func (t *Thread) GetSysParamOpt(opt acl.SysParamOpt, value *int64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	t.sim.settings.mu.Lock()
	defer t.sim.settings.mu.Unlock()
	o := t.sim.settings.options
	if !t.sim.opts.Documented && opt >= 0 && opt < sysParams {
		o[opt][1] = 1
	}
	return t.getOption(&o, opt, value)
}

// SetTsDevice accepts the only scheduler that there is.
func (t *Thread) SetTsDevice(tsId acl.TsId) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if tsId != acl.ACL_TS_ID_AICORE {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "task scheduler %d is out of range: the device has 1", tsId)
	}
	return acl.ACL_SUCCESS
}

// DataTypeSize returns the size of an element; 0 if it is unknown or below a byte.
func (t *Thread) DataTypeSize(dataType acl.DataType) uint64 { return dataTypeSize(dataType) }

func dataTypeSize(d acl.DataType) uint64 {
	switch d {
	case acl.ACL_INT8, acl.ACL_UINT8, acl.ACL_BOOL:
		return 1
	case acl.ACL_FLOAT16, acl.ACL_BF16, acl.ACL_INT16, acl.ACL_UINT16:
		return 2
	case acl.ACL_FLOAT, acl.ACL_INT32, acl.ACL_UINT32, acl.ACL_COMPLEX32:
		return 4
	case acl.ACL_DOUBLE, acl.ACL_INT64, acl.ACL_UINT64, acl.ACL_COMPLEX64:
		return 8
	case acl.ACL_COMPLEX128:
		return 16
	}
	return 0
}

// toHalf rounds to the nearest, ties to even.
func toHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, exp, man := uint16(b>>16&0x8000), int(b>>23&0xff)-127+15, b&0x7fffff
	switch {
	case exp == 0xff-127+15 && man != 0:
		return sign | 0x7e00
	case exp >= 31:
		return sign | 0x7c00
	case exp <= -11:
		return sign
	}
	shift := 13
	if exp <= 0 {
		man |= 0x800000
		shift += 1 - exp
		exp = 0
	}
	h := uint32(exp)<<10 + man>>shift
	if rest, half := man&(1<<shift-1), uint32(1)<<(shift-1); rest > half || rest == half && h&1 != 0 {
		h++
	}
	return sign | uint16(h)
}

func fromHalf(h uint16) float32 {
	sign, exp, man := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case exp == 31:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case exp == 0:
		f := float32(man) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | man<<13)
}

// GetDeviceUtilizationRate returns the busy time of the cores since the previous query, in percent. Cube and vector
// cores have the same figure. Memory has none (documented).
func (t *Thread) GetDeviceUtilizationRate(deviceId int32, utilizationInfo *acl.UtilizationInfo) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if utilizationInfo == nil {
		return t.null("utilizationInfo")
	}
	now, busy := t.sim.Clock.Now(&t.HostThread), time.Duration(d.Busy.Load())
	d.Lock()
	was := t.sim.of(d).usage
	t.sim.of(d).usage = usage{now, busy}
	d.Unlock()
	rate := int32(0)
	if now > was.asked {
		rate = int32(min(100, 100*(busy-was.busy)/(now-was.asked)))
	}
	*utilizationInfo = acl.UtilizationInfo{CubeUtilization: rate, VectorUtilization: rate, MemoryUtilization: -1}
	return acl.ACL_SUCCESS
}

// atomics reports that no atomic operations between devices or with the host are supported.
func (t *Thread) atomics(capabilities *uint32, operations *acl.AtomicOperation, count uint32, devices ...int32) acl.Error {
	for _, id := range devices {
		if _, e := t.knownDevice(id); e != 0 {
			return e
		}
	}
	if capabilities == nil || operations == nil || count == 0 || count > 1024 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d operations: want 1 to 1024, and pointers that are not null", count)
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

// DeviceGetHostAtomicCapabilities reports a device's atomic operations on host memory.
func (t *Thread) DeviceGetHostAtomicCapabilities(capabilities *uint32, operations *acl.AtomicOperation, count uint32, deviceId int32) acl.Error {
	return t.atomics(capabilities, operations, count, deviceId)
}

// DeviceGetP2PAtomicCapabilities reports a device's atomic operations on another device's memory.
func (t *Thread) DeviceGetP2PAtomicCapabilities(capabilities *uint32, operations *acl.AtomicOperation, count uint32, srcDeviceId, dstDeviceId int32) acl.Error {
	return t.atomics(capabilities, operations, count, srcDeviceId, dstDeviceId)
}

// HostMemMapCapabilities reports whether an engine reaches registered host memory; cores and copy engines do.
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

// Memory kinds in CheckMemType.
const (
	memDevice   = 0x2
	memDvpp     = 0x8
	memReserved = 0x10
)

// CheckMemType reports whether all addresses have one of the given memory kinds.
func (t *Thread) CheckMemType(addrList *acl.Addr, size, memType uint32, checkResult *uint32, reserve uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case addrList == nil || size == 0 || checkResult == nil:
		return t.null("addrList or checkResult")
	case reserve != 0 || memType == 0 || memType&^(memDevice|memDvpp|memReserved) != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "memory kinds %#x with reserve %d: want known kinds and reserve 0", memType, reserve)
	}
	*checkResult = 1
	for _, a := range space.List(addrList, uint64(size)) {
		kind := uint32(0)
		if d := t.sim.Locate(a).Device; d != nil {
			if r, ok := d.Memory.Live.Find(a); ok && r.Value.Origin != memory.ByMap {
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

// MemUceRepair rejects all ranges, since memory has no defects.
func (t *Thread) MemUceRepair(deviceId int32, memUceInfoArray *acl.MemUceInfo, arraySize uint64) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d has no memory error to repair in %d ranges", deviceId, arraySize)
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

// GetHardwareSyncAddr returns memory for synchronization between the cores of a device.
func (t *Thread) GetHardwareSyncAddr(addr *acl.Addr) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if addr == nil {
		return t.absent("addr")
	}
	d := c.Device
	d.Lock()
	defer d.Unlock()
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

// maxMarker is the largest profile marker (documented).
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the marker is %d: want 1 to %d bytes", length, maxMarker)
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes with flags %#x: want 1 byte or more, and flags 0", size, flags)
	case to == d:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the memory is on device %d itself", d.ID)
	}
	return t.refuse(to.Check(devPtr, size, space.Read))
}

// FunctionGetAvailDynUbufPerBlock returns 0, since kernels here are not SIMT (documented).
func (t *Thread) FunctionGetAvailDynUbufPerBlock(func_ acl.Addr, flags uint32, dynamicUbufSize *uint64) acl.Error {
	if _, e := t.liveFunction(acl.FuncHandle(func_)); e != 0 {
		return e
	}
	switch {
	case flags != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x: want 0", flags)
	case dynamicUbufSize == nil:
		return t.null("dynamicUbufSize")
	}
	*dynamicUbufSize = 0
	return acl.ACL_SUCCESS
}

// cacheDescSize is the size of a cache descriptor: an address and a size.
const cacheDescSize = 64

// CmoGetDescSize returns the size of a cache descriptor.
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
		return t.invalid("cached memory of %d bytes at %#x: want an address and 1 byte or more", size, src)
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

// CmoAsyncWithDesc performs the operation in a descriptor when the task runs.
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
		return t.invalid("reserve is not null: want null")
	case cmoType != acl.ACL_RT_CMO_TYPE_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cache operation %d is not simulated: want ACL_RT_CMO_TYPE_PREFETCH", cmoType)
	}
	return t.submit(s, device.Task{Kind: device.TaskCache, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		d := s.Context.Device
		if err := d.Check(cmoDesc, cacheDescSize, space.Read); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		b := space.Bytes(cmoDesc, cacheDescSize)
		if err := d.Check(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), 0); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		return d.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// RegisterCpuFunc rejects AI CPU kernels, which no binary here has (documented).
func (t *Thread) RegisterCpuFunc(handle acl.BinHandle, funcName, kernelName *byte, funcHandle *acl.FuncHandle) acl.Error {
	if _, e := t.binary(handle, funcHandle); e != 0 {
		return e
	}
	if slices.Contains([]*byte{funcName, kernelName}, nil) {
		return t.null("funcName or kernelName")
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the binary has no kernels of the AI CPU")
}
