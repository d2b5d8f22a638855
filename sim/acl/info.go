package acl

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// deviceAttrs are the attributes of the simulated device. What is not here the device does not know.
var deviceAttrs = map[acl.DevAttr]int64{
	acl.ACL_DEV_ATTR_AICPU_CORE_NUM: cpuCores, acl.ACL_DEV_ATTR_AICORE_CORE_NUM: cubeCores, acl.ACL_DEV_ATTR_CUBE_CORE_NUM: cubeCores,
	acl.ACL_DEV_ATTR_VECTOR_CORE_NUM: vectorCores, acl.ACL_DEV_ATTR_L2_CACHE_SIZE: cacheSize, acl.ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE: 192 << 10,
	acl.ACL_DEV_ATTR_MAX_BLOCK_PER_GRID: maxBlocks, acl.ACL_DEV_ATTR_SMP_ID: 0, acl.ACL_DEV_ATTR_IS_VIRTUAL: 0,
	acl.ACL_DEV_ATTR_CUST_OP_PRIVILEGE: 0, acl.ACL_DEV_ATTR_HD_CONNECT_TYPE: acl.ACL_HOST_DEVICE_CONNECT_TYPE_PCIE,
}

// GetDeviceInfo reads an attribute of a device.
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
	case acl.ACL_DEV_ATTR_PHY_CHIP_ID:
		v, ok = int64(d.ID), true
	}
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the simulated device has no attribute %d", attr)
	}
	*value = v
	return acl.ACL_SUCCESS
}

// GetDeviceCapability reads one of the figures of a device, in the way of the base library.
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
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "device figure %d is unknown", deviceInfo)
	}
	return acl.ACL_SUCCESS
}

// RtGetDeviceCapability tells that the simulated device has none of the optional features.
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

// DeviceGetStreamPriorityRange returns the priorities of streams.
func (t *Thread) DeviceGetStreamPriorityRange(leastPriority, greatestPriority *int32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if leastPriority != nil {
		*leastPriority = maxPriority
	}
	if greatestPriority != nil {
		*greatestPriority = 0
	}
	return acl.ACL_SUCCESS
}

// DeviceGetUuid returns an id that says what it is.
func (t *Thread) DeviceGetUuid(deviceId int32, uuid *acl.Uuid) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if uuid == nil {
		return t.null("uuid")
	}
	copy(uuid.Bytes[:], "acltrace sim")
	binary.BigEndian.PutUint32(uuid.Bytes[12:], uint32(d.ID))
	return acl.ACL_SUCCESS
}

// busID is the place of a device on a bus that is not there.
func busID(d *device.Device) string { return fmt.Sprintf("0000:%02X:00.0", 0xc0+d.ID) }

// DeviceGetPCIBusId stores the place of a device on the bus.
func (t *Thread) DeviceGetPCIBusId(deviceId int32, pciBusId *byte, size int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	switch id := busID(d); {
	case pciBusId == nil:
		return t.null("pciBusId")
	case int(size) <= len(id):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes are too few for %d and a NUL", size, len(id))
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
	for _, d := range t.sim.Devices {
		if strings.EqualFold(space.GoString(pciBusId), busID(d)) {
			*deviceId = d.ID
			return acl.ACL_SUCCESS
		}
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no device lies at %q", space.GoString(pciBusId))
}

// sameID answers for numberings of devices, which are all the same here.
func (t *Thread) sameID(from int32, to *int32) acl.Error {
	if _, e := t.knownDevice(from); e != 0 {
		return e
	}
	if to == nil {
		return t.null("the id")
	}
	*to = from
	return acl.ACL_SUCCESS
}

// GetLogicDevIdByUserDevId translates the id of a device.
func (t *Thread) GetLogicDevIdByUserDevId(userDevid int32, logicDevId *int32) acl.Error {
	return t.sameID(userDevid, logicDevId)
}

// GetUserDevIdByLogicDevId translates the id of a device.
func (t *Thread) GetUserDevIdByLogicDevId(logicDevId int32, userDevid *int32) acl.Error {
	return t.sameID(logicDevId, userDevid)
}

// GetLogicDevIdByPhyDevId translates the id of a device.
func (t *Thread) GetLogicDevIdByPhyDevId(phyDevId int32, logicDevId *int32) acl.Error {
	return t.sameID(phyDevId, logicDevId)
}

// GetPhyDevIdByLogicDevId translates the id of a device.
func (t *Thread) GetPhyDevIdByLogicDevId(logicDevId int32, phyDevId *int32) acl.Error {
	return t.sameID(logicDevId, phyDevId)
}

// GetUserDevIdByPhyDevId translates the id of a device.
func (t *Thread) GetUserDevIdByPhyDevId(phyDevId int32, userDevId *int32) acl.Error {
	return t.sameID(phyDevId, userDevId)
}

// GetPhyDevIdByUserDevId translates the id of a device.
func (t *Thread) GetPhyDevIdByUserDevId(userDevId int32, phyDevId *int32) acl.Error {
	return t.sameID(userDevId, phyDevId)
}

// DeviceGetBareTgid returns the number of the process.
func (t *Thread) DeviceGetBareTgid(pid *int32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if pid == nil {
		return t.null("pid")
	}
	*pid = int32(os.Getpid())
	return acl.ACL_SUCCESS
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d and itself", deviceId)
	}
	*value = acl.ACL_RT_DEVS_TOPOLOGY_HCCS
	return acl.ACL_SUCCESS
}

// DeviceCanAccessPeer tells whether a device can be given access to another one's memory.
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not its own peer", deviceId)
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
		return nil, nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not its own peer", id)
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x and have to be 0", flags)
	}
	me.Peers.Or(1 << other.ID)
	return acl.ACL_SUCCESS
}

// DeviceDisablePeerAccess ends what DeviceEnablePeerAccess began.
func (t *Thread) DeviceDisablePeerAccess(peerDeviceId int32) acl.Error {
	me, other, e := t.peer(peerDeviceId)
	if e != 0 {
		return e
	}
	me.Peers.And(^uint32(1 << other.ID))
	return acl.ACL_SUCCESS
}

// DevicePeerAccessStatus tells whether a device has access to another one's memory.
func (t *Thread) DevicePeerAccessStatus(deviceId, peerDeviceId int32, status *int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if _, e := t.device(peerDeviceId); e != 0 {
		return e
	}
	if status == nil {
		return t.null("status")
	}
	*status = int32(d.Peers.Load() >> peerDeviceId & 1)
	return acl.ACL_SUCCESS
}

// QueryDeviceStatus tells that a device is well.
func (t *Thread) QueryDeviceStatus(deviceId int32, deviceStatus *acl.DeviceStatus) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	if deviceStatus == nil {
		return t.null("deviceStatus")
	}
	*deviceStatus = acl.ACL_RT_DEVICE_STATUS_NORMAL
	return acl.ACL_SUCCESS
}

// GetMemUceInfo tells that no memory has a defect.
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

// GetErrorVerbose tells that a device has no error to report.
func (t *Thread) GetErrorVerbose(deviceId int32, errorInfo *acl.ErrorInfo) acl.Error {
	if _, e := t.knownDevice(deviceId); e != 0 {
		return e
	}
	if errorInfo == nil {
		return t.null("errorInfo")
	}
	*errorInfo = acl.ErrorInfo{}
	return acl.ACL_SUCCESS
}

// GetMemUsageInfo tells how much memory the program uses: one component, the program itself.
func (t *Thread) GetMemUsageInfo(deviceId int32, memUsageInfo *acl.MemUsageInfo, inputNum uint64, outputNum *uint64) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if memUsageInfo == nil || inputNum == 0 || outputNum == nil {
		return t.null("memUsageInfo or outputNum")
	}
	d.Memory.Mu.Lock()
	*memUsageInfo = acl.MemUsageInfo{CurMemSize: d.Memory.Used, MemPeakSize: d.Memory.Peak}
	d.Memory.Mu.Unlock()
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
	if streamCount == nil {
		return t.null("streamCount")
	}
	n := uint32(device.MaxStreams)
	c.Device.Mu.Lock()
	for _, s := range c.Device.Streams {
		if s != nil && !mutant.Breaks("available_streams") {
			n--
		}
	}
	c.Device.Mu.Unlock()
	*streamCount = n
	return acl.ACL_SUCCESS
}

// GetEventAvailNum returns how many events that synchronize can still be made.
func (t *Thread) GetEventAvailNum(eventCount *uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if eventCount == nil {
		return t.null("eventCount")
	}
	*eventCount = uint32(max(0, maxEvents-eventsInUse(t.sim)))
	return acl.ACL_SUCCESS
}

// eventsInUse is the number of events that there are.
func eventsInUse(s *Sim) int {
	if mutant.Breaks("available_events") {
		return 0
	}
	return s.events.Live()
}

// GetPrimaryCtxState tells whether the context of SetDevice is there.
func (t *Thread) GetPrimaryCtxState(deviceId int32, flags *uint32, active *int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if flags != nil {
		*flags = 0
	}
	if active != nil {
		*active = 0
		if d.Primary != nil {
			*active = 1
		}
	}
	return acl.ACL_SUCCESS
}

// CheckArchCompatibility tells whether binaries of a SoC run here.
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

// sysParams are the options of the process or of a context.
const sysParams = acl.ACL_OPT_ENABLE_KERNEL_EARLY_START + 1

// processSettings are what the program set for the whole process.
type processSettings struct {
	streamConfigs sync.Map      // addresses of sets of stream options
	opTimeout     atomic.Int64  // time that an operator may take; 0 if the program set none
	waitTimeout   atomic.Uint32 // seconds that a stream waits for an event; 0 for ever
	mu            sync.Mutex
	options       options
}

// options keeps values of options; the second of each pair says whether it was set.
type options [sysParams][2]int64

func (o *options) set(t *Thread, opt acl.SysParamOpt, value int64) acl.Error {
	if opt < 0 || opt >= sysParams || value < 0 || value > 1 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "option %d, value %d", opt, value)
	}
	o[opt] = [2]int64{value, 1}
	return acl.ACL_SUCCESS
}

func (o *options) get(t *Thread, opt acl.SysParamOpt, value *int64) acl.Error {
	switch {
	case opt < 0 || opt >= sysParams:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "option %d is unknown", opt)
	case value == nil:
		return t.null("value")
	case o[opt][1] == 0:
		return t.fail(acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "option %d was not set", opt)
	}
	*value = o[opt][0]
	return acl.ACL_SUCCESS
}

// CtxSetSysParamOpt sets an option of the context, which changes nothing here.
func (t *Thread) CtxSetSysParamOpt(opt acl.SysParamOpt, value int64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return contextStateOf(c).options.set(t, opt, value)
}

// CtxGetSysParamOpt reads an option of the context.
func (t *Thread) CtxGetSysParamOpt(opt acl.SysParamOpt, value *int64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return contextStateOf(c).options.get(t, opt, value)
}

// SetSysParamOpt sets an option of the process, which changes nothing here.
func (t *Thread) SetSysParamOpt(opt acl.SysParamOpt, value int64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	t.sim.settings.mu.Lock()
	defer t.sim.settings.mu.Unlock()
	return t.sim.settings.options.set(t, opt, value)
}

// GetSysParamOpt reads an option of the process.
func (t *Thread) GetSysParamOpt(opt acl.SysParamOpt, value *int64) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	t.sim.settings.mu.Lock()
	defer t.sim.settings.mu.Unlock()
	return t.sim.settings.options.get(t, opt, value)
}

// SetTsDevice accepts the only scheduler that there is.
func (t *Thread) SetTsDevice(tsId acl.TsId) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if tsId != acl.ACL_TS_ID_AICORE {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "scheduler %d: the simulated device has one", tsId)
	}
	return acl.ACL_SUCCESS
}

// DataTypeSize returns the size of an element; 0 where it is less than a byte or unknown.
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
