package acl

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// deviceSettings are what the program set for a device, and what the runtime keeps about it.
type deviceSettings struct {
	limits  sync.Map    // acl.DeviceLimit → uint64
	lost    atomic.Bool // by a fault
	satMode atomic.Int32

	// Under the device's lock.
	usage    usage
	syncAddr uint64 // of GetHardwareSyncAddr; syncEnds says which memory of the device it lies in
	syncEnds uint32
	cores    coreLimit
}

// of returns the settings of a device.
func (s *Sim) of(d *device.Device) *deviceSettings { return &s.perDevice[d.ID] }

// settings are what the program set for a stream.
type settings struct {
	stopOnFailure uint64
	overflow      uint32
	tag           uint32
	cacheOpInfo   uint32
	cores         coreLimit
}

// coreLimit bounds the cores in use: cube and vector. 0 stands for all.
type coreLimit [2]uint32

// Cores of the simulated device.
const (
	cubeCores   = 24
	vectorCores = 48
	cpuCores    = 6
	cacheSize   = 192 << 20
)

var allCores = coreLimit{cubeCores, vectorCores}

func (c coreLimit) or(o coreLimit) coreLimit {
	for i := range c {
		if c[i] == 0 {
			c[i] = o[i]
		}
	}
	return c
}

// set changes the settings of a stream.
func set(s *device.Stream, f func(*settings)) {
	s.Mu.Lock()
	f(&attached(s).settings)
	s.Mu.Unlock()
}

func get(s *device.Stream) settings {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return attached(s).settings
}

// SetStreamFailureMode says whether the streams of a context stop behind a task that fails: all do where one is told to, for
// good.
func (t *Thread) SetStreamFailureMode(on acl.Stream, mode uint64) acl.Error {
	s, e := t.stream(on)
	switch {
	case e != 0:
		return e
	case mode != acl.ACL_CONTINUE_ON_FAILURE && mode != acl.ACL_STOP_ON_FAILURE:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "failure mode %d is unknown", mode)
	case mode == acl.ACL_CONTINUE_ON_FAILURE && get(s).stopOnFailure == acl.ACL_STOP_ON_FAILURE:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d stops on failure, and can't be told to go on again", s.ID)
	}
	set(s, func(x *settings) { x.stopOnFailure = mode })
	if mode == acl.ACL_STOP_ON_FAILURE {
		s.Context.Stops.Store(true)
	}
	return acl.ACL_SUCCESS
}

// SetStreamOverflowSwitch says whether a stream detects overflows.
func (t *Thread) SetStreamOverflowSwitch(on acl.Stream, flag uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if flag > 1 {
		return t.invalid("overflow switch %d: 0 or 1", flag)
	}
	set(s, func(x *settings) { x.overflow = flag })
	return acl.ACL_SUCCESS
}

// GetStreamOverflowSwitch tells whether a stream detects overflows.
func (t *Thread) GetStreamOverflowSwitch(on acl.Stream, flag *uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if flag == nil {
		return t.null("flag")
	}
	*flag = get(s).overflow
	return acl.ACL_SUCCESS
}

// SetStreamAttribute sets an attribute of a stream.
func (t *Thread) SetStreamAttribute(on acl.Stream, stmAttrType acl.StreamAttr, value *acl.StreamAttrValue) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	word := uint32(value[0])
	switch stmAttrType {
	case acl.ACL_STREAM_ATTR_FAILURE_MODE:
		return t.SetStreamFailureMode(on, value[0])
	case acl.ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
		return t.SetStreamOverflowSwitch(on, word)
	case acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG:
		set(s, func(x *settings) { x.tag = word })
	case acl.ACL_STREAM_ATTR_CACHE_OP_INFO:
		if word > 1 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "operator cache switch %d: 0 or 1", word)
		}
		set(s, func(x *settings) { x.cacheOpInfo = word })
	case acl.ACL_STREAM_ATTR_PRIORITY:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the priority of a stream is set when it is made")
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream attribute %d is unknown", stmAttrType)
	}
	return acl.ACL_SUCCESS
}

// GetStreamAttribute reads an attribute of a stream.
func (t *Thread) GetStreamAttribute(on acl.Stream, stmAttrType acl.StreamAttr, value *acl.StreamAttrValue) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	x := get(s)
	v := acl.StreamAttrValue{}
	switch stmAttrType {
	case acl.ACL_STREAM_ATTR_FAILURE_MODE:
		v[0] = x.stopOnFailure
	case acl.ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
		v[0] = uint64(x.overflow)
	case acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG:
		v[0] = uint64(x.tag)
	case acl.ACL_STREAM_ATTR_CACHE_OP_INFO:
		v[0] = uint64(x.cacheOpInfo)
	case acl.ACL_STREAM_ATTR_PRIORITY:
		v[0] = uint64(s.Priority)
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream attribute %d is unknown", stmAttrType)
	}
	*value = v
	return acl.ACL_SUCCESS
}

// CreateStreamConfigHandle makes a set of options for CreateStreamV2, in the program's sight; 0 where there is no memory.
func (t *Thread) CreateStreamConfigHandle() acl.Addr {
	if e := t.ready(); e != 0 {
		return 0
	}
	const size = uint64(unsafe.Sizeof(acl.StreamConfigHandle{}))
	a := t.sim.text.Get(size)
	clear(space.Bytes(a, size))
	t.sim.settings.streamConfigs.Store(a, true)
	return a
}

func (t *Thread) streamConfig(h *acl.StreamConfigHandle) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if h == nil {
		return t.absent("handle")
	}
	if _, ok := t.sim.settings.streamConfigs.Load(space.AddressOf(h)); !ok {
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%#x was not made by aclrtCreateStreamConfigHandle, or was destroyed", space.AddressOf(h))
	}
	return acl.ACL_SUCCESS
}

// DestroyStreamConfigHandle ends a set of options.
func (t *Thread) DestroyStreamConfigHandle(handle *acl.StreamConfigHandle) acl.Error {
	if e := t.streamConfig(handle); e != 0 {
		return e
	}
	t.sim.settings.streamConfigs.Delete(space.AddressOf(handle))
	t.sim.text.Put(space.AddressOf(handle), uint64(unsafe.Sizeof(*handle)))
	return acl.ACL_SUCCESS
}

// SetStreamConfigOpt sets an option.
func (t *Thread) SetStreamConfigOpt(handle *acl.StreamConfigHandle, attr acl.StreamConfigAttr, attrValue acl.Addr, valueSize uint64) acl.Error {
	if e := t.streamConfig(handle); e != 0 {
		return e
	}
	if attrValue == 0 {
		return t.absent("attrValue")
	}
	want := uint64(8)
	if attr == acl.ACL_RT_STREAM_PRIORITY {
		want = 4
	}
	if valueSize != want {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "option %d has %d bytes, not %d", attr, want, valueSize)
	}
	to := space.AddressOf(handle)
	switch attr {
	case acl.ACL_RT_STREAM_WORK_ADDR_PTR:
	case acl.ACL_RT_STREAM_WORK_SIZE:
		to += 8
	case acl.ACL_RT_STREAM_FLAG:
		to += 16
	case acl.ACL_RT_STREAM_PRIORITY:
		to += 24
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream option %d is unknown", attr)
	}
	copy(space.Bytes(to, want), space.Bytes(attrValue, want))
	return acl.ACL_SUCCESS
}

// CreateStreamV2 makes a stream with a set of options; null stands for none.
func (t *Thread) CreateStreamV2(stream *acl.Stream, handle *acl.StreamConfigHandle) acl.Error {
	if handle == nil {
		return t.CreateStream(stream)
	}
	if e := t.streamConfig(handle); e != 0 {
		return e
	}
	if handle.Flag > math.MaxUint32 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream flags %#x are unknown", handle.Flag)
	}
	return t.CreateStreamWithConfig(stream, uint32(handle.Priority), uint32(handle.Flag))
}

// limits of the runtime that the program may change.
var deviceLimits = map[acl.DeviceLimit]uint64{
	acl.ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE: 1 << 10, acl.ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE: 1 << 10, acl.ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE: 32 << 10,
	acl.ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE: 1 << 20, acl.ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE: 1 << 20,
}

// DeviceSetLimit sets a limit of the current device, which changes nothing here.
func (t *Thread) DeviceSetLimit(limit acl.DeviceLimit, value uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if _, ok := deviceLimits[limit]; !ok || value == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "limit %d, value %d", limit, value)
	}
	t.sim.of(c.Device).limits.Store(limit, value)
	return acl.ACL_SUCCESS
}

// DeviceGetLimit reads a limit of the current device.
func (t *Thread) DeviceGetLimit(limit acl.DeviceLimit, value *uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	def, ok := deviceLimits[limit]
	switch {
	case value == nil:
		return t.null("value")
	case !ok:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "limit %d is unknown", limit)
	}
	if v, ok := t.sim.of(c.Device).limits.Load(limit); ok {
		def = v.(uint64)
	}
	*value = def
	return acl.ACL_SUCCESS
}

// coreArg checks a limit of cores.
func (t *Thread) coreArg(type_ acl.DevResLimitType) acl.Error {
	if type_ != acl.ACL_RT_DEV_RES_CUBE_CORE && type_ != acl.ACL_RT_DEV_RES_VECTOR_CORE {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "resource %d is unknown", type_)
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) coreValue(type_ acl.DevResLimitType, value uint32) acl.Error {
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	if value == 0 || value > allCores[type_] {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d cores: 1 to %d", value, allCores[type_])
	}
	return acl.ACL_SUCCESS
}

func (m *Sim) coreLimit(d *device.Device) coreLimit {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return m.of(d).cores.or(allCores)
}

// GetDeviceResLimit reads how many cores of a device the program uses.
func (t *Thread) GetDeviceResLimit(deviceId int32, type_ acl.DevResLimitType, value *uint32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	*value = t.sim.coreLimit(d)[type_]
	return acl.ACL_SUCCESS
}

// SetDeviceResLimit says how many cores of a device the program uses.
func (t *Thread) SetDeviceResLimit(deviceId int32, type_ acl.DevResLimitType, value uint32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if e := t.coreValue(type_, value); e != 0 {
		return e
	}
	d.Mu.Lock()
	t.sim.of(d).cores[type_] = value
	d.Mu.Unlock()
	return acl.ACL_SUCCESS
}

// ResetDeviceResLimit lets the program use all cores of a device again.
func (t *Thread) ResetDeviceResLimit(deviceId int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	d.Mu.Lock()
	t.sim.of(d).cores = coreLimit{}
	d.Mu.Unlock()
	return acl.ACL_SUCCESS
}

// GetStreamResLimit reads how many cores a stream uses: its own limit, else the device's.
func (t *Thread) GetStreamResLimit(on acl.Stream, type_ acl.DevResLimitType, value *uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	*value = get(s).cores.or(t.sim.coreLimit(s.Context.Device))[type_]
	return acl.ACL_SUCCESS
}

// SetStreamResLimit says how many cores a stream uses.
func (t *Thread) SetStreamResLimit(on acl.Stream, type_ acl.DevResLimitType, value uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if e := t.coreValue(type_, value); e != 0 {
		return e
	}
	set(s, func(x *settings) { x.cores[type_] = value })
	return acl.ACL_SUCCESS
}

// ResetStreamResLimit ends the limits of a stream.
func (t *Thread) ResetStreamResLimit(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	set(s, func(x *settings) { x.cores = coreLimit{} })
	return acl.ACL_SUCCESS
}

// UseStreamResInCurrentThread makes a stream's limits those of the thread.
func (t *Thread) UseStreamResInCurrentThread(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	t.cores = s
	return acl.ACL_SUCCESS
}

// UnuseStreamResInCurrentThread ends what UseStreamResInCurrentThread began.
func (t *Thread) UnuseStreamResInCurrentThread(on acl.Stream) acl.Error {
	if _, e := t.stream(on); e != 0 {
		return e
	}
	t.cores = nil
	return acl.ACL_SUCCESS
}

// GetResInCurrentThread reads how many cores the thread counts with.
func (t *Thread) GetResInCurrentThread(type_ acl.DevResLimitType, value *uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	if value == nil {
		return t.null("value")
	}
	l := t.sim.coreLimit(c.Device)
	if t.cores != nil {
		l = get(t.cores).cores.or(l)
	}
	*value = l[type_]
	return acl.ACL_SUCCESS
}

// Time that an operator may take: a multiple of opInterval up to 254 of them, after which it fails.
const (
	opInterval    = 17179869184 / 1000 * time.Nanosecond // about 17.2 ms, so that 254 are 4.3 s
	opIntervals   = 254
	opDefault     = 1091 * time.Second
	neverTimesOut = time.Duration(math.MaxInt64)
)

// setOpTimeout sets the time that an operator may take, rounded up to what the device can count; 0 is the longest.
func (t *Thread) setOpTimeout(d time.Duration) (time.Duration, acl.Error) {
	if e := t.ready(); e != 0 {
		return 0, e
	}
	if d == 0 {
		d = neverTimesOut
	} else {
		d = min((d+opInterval-1)/opInterval, opIntervals) * opInterval
	}
	t.sim.settings.opTimeout.Store(int64(d))
	return d, acl.ACL_SUCCESS
}

// SetOpExecuteTimeOut sets the time that an operator may take, in seconds.
func (t *Thread) SetOpExecuteTimeOut(timeout uint32) acl.Error {
	_, e := t.setOpTimeout(time.Duration(timeout) * time.Second)
	return e
}

// SetOpExecuteTimeOutWithMs sets the time that an operator may take, in milliseconds.
func (t *Thread) SetOpExecuteTimeOutWithMs(timeout uint32) acl.Error {
	_, e := t.setOpTimeout(time.Duration(timeout) * time.Millisecond)
	return e
}

// SetOpExecuteTimeOutV2 sets the time that an operator may take, in microseconds, and returns what came of it.
func (t *Thread) SetOpExecuteTimeOutV2(timeout uint64, actualTimeout *uint64) acl.Error {
	if actualTimeout == nil {
		return t.null("actualTimeout")
	}
	d, e := t.setOpTimeout(time.Duration(min(timeout, math.MaxInt64/1000)) * time.Microsecond)
	if e != 0 {
		return e
	}
	*actualTimeout = uint64(d / time.Microsecond)
	if d == neverTimesOut {
		*actualTimeout = math.MaxUint64
	}
	return acl.ACL_SUCCESS
}

// GetOpTimeOutInterval returns the unit of the time that an operator may take, in microseconds.
func (t *Thread) GetOpTimeOutInterval(interval *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if interval == nil {
		return t.null("interval")
	}
	*interval = uint64(opInterval / time.Microsecond)
	return acl.ACL_SUCCESS
}

// GetOpExecuteTimeout returns the time that an operator may take, in milliseconds.
func (t *Thread) GetOpExecuteTimeout(timeoutMs *uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if timeoutMs == nil {
		return t.null("timeoutMs")
	}
	d := time.Duration(t.sim.settings.opTimeout.Load())
	switch d {
	case 0:
		d = opDefault
	case neverTimesOut:
		*timeoutMs = math.MaxUint32
		return acl.ACL_SUCCESS
	}
	*timeoutMs = uint32(d / time.Millisecond)
	return acl.ACL_SUCCESS
}

// SetOpWaitTimeout sets how many seconds a stream waits for an event; 0 is for ever.
func (t *Thread) SetOpWaitTimeout(timeout uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	t.sim.settings.waitTimeout.Store(timeout)
	return acl.ACL_SUCCESS
}
