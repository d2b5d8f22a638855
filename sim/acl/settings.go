package acl

import (
	"cmp"
	"math"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// set changes the settings of a stream.
func set(s *device.Stream, f func(*settings)) {
	s.Lock()
	f(&attached(s).settings)
	s.Unlock()
}

func get(s *device.Stream) settings {
	s.Lock()
	defer s.Unlock()
	return attached(s).settings
}

// SetStreamFailureMode sets the failure mode of a stream. If one stream stops on failure, all streams in the context
// do, permanently.
func (t *Thread) SetStreamFailureMode(on acl.Stream, mode uint64) acl.Error {
	s, e := t.stream(on)
	switch {
	case e != 0:
		return e
	case mode != acl.ACL_CONTINUE_ON_FAILURE && mode != acl.ACL_STOP_ON_FAILURE:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "failure mode %d is unknown", mode)
	case mode == acl.ACL_CONTINUE_ON_FAILURE && get(s).stopOnFailure == acl.ACL_STOP_ON_FAILURE:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d stops on failure: the mode can't be changed back", s.ID)
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
		return t.invalid("overflow switch is %d: want 0 or 1", flag)
	}
	set(s, func(x *settings) { x.overflow = flag })
	return acl.ACL_SUCCESS
}

// GetStreamOverflowSwitch reports whether a stream detects overflows.
func (t *Thread) GetStreamOverflowSwitch(on acl.Stream, flag *uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return put(t, "flag", flag, get(s).overflow)
}

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
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "operator cache switch is %d: want 0 or 1", word)
		}
		set(s, func(x *settings) { x.cacheOpInfo = word })
	case acl.ACL_STREAM_ATTR_PRIORITY:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the priority of a stream can't be changed: set it when the stream is created")
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream attribute %d is unknown", stmAttrType)
	}
	return acl.ACL_SUCCESS
}

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

// CreateStreamConfigHandle creates an option set for CreateStreamV2 that the program can read; 0 without memory.
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
		return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "stream configuration %#x was destroyed, or not created by aclrtCreateStreamConfigHandle", space.AddressOf(h))
	}
	return acl.ACL_SUCCESS
}

// DestroyStreamConfigHandle ends an option set.
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream option %d has %d bytes, but got %d", attr, want, valueSize)
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

// CreateStreamV2 creates a stream with an option set; null for the defaults.
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

// deviceLimits are the defaults of adjustable limits.
var deviceLimits = map[acl.DeviceLimit]uint64{
	acl.ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE: 1 << 10, acl.ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE: 1 << 10, acl.ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE: 32 << 10,
	acl.ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE: 1 << 20, acl.ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE: 1 << 20,
}

// DeviceSetLimit sets a device limit without effect.
func (t *Thread) DeviceSetLimit(limit acl.DeviceLimit, value uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if _, ok := deviceLimits[limit]; !ok || value == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "limit %d with value %d: want a known limit and a value above 0", limit, value)
	}
	t.sim.of(c.Device).limits.Store(limit, value)
	return acl.ACL_SUCCESS
}

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

// coreArg checks a core type.
func (t *Thread) coreArg(type_ acl.DevResLimitType) acl.Error {
	if type_ != acl.ACL_RT_DEV_RES_CUBE_CORE && type_ != acl.ACL_RT_DEV_RES_VECTOR_CORE {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "resource type %d is unknown", type_)
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) coreValue(type_ acl.DevResLimitType, value uint32) acl.Error {
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	if value == 0 || value > allCores[type_] {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d cores: want 1 to %d", value, allCores[type_])
	}
	return acl.ACL_SUCCESS
}

func (m *Sim) coreLimit(d *device.Device) coreLimit {
	d.Lock()
	defer d.Unlock()
	return m.of(d).cores.or(allCores)
}

// GetDeviceResLimit returns a device's core limit.
func (t *Thread) GetDeviceResLimit(deviceId int32, type_ acl.DevResLimitType, value *uint32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if e := t.coreArg(type_); e != 0 {
		return e
	}
	return put(t, "value", value, t.sim.coreLimit(d)[type_])
}

// SetDeviceResLimit limits the cores used on a device.
func (t *Thread) SetDeviceResLimit(deviceId int32, type_ acl.DevResLimitType, value uint32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	if e := t.coreValue(type_, value); e != 0 {
		return e
	}
	d.Lock()
	t.sim.of(d).cores[type_] = value
	d.Unlock()
	return acl.ACL_SUCCESS
}

// ResetDeviceResLimit removes a device's core limits.
func (t *Thread) ResetDeviceResLimit(deviceId int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	d.Lock()
	t.sim.of(d).cores = coreLimit{}
	d.Unlock()
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
	return put(t, "value", value, get(s).cores.or(t.sim.coreLimit(s.Context.Device))[type_])
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

// ResetStreamResLimit removes a stream's core limits.
func (t *Thread) ResetStreamResLimit(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	set(s, func(x *settings) { x.cores = coreLimit{} })
	return acl.ACL_SUCCESS
}

// UseStreamResInCurrentThread applies a stream's core limits to the thread.
func (t *Thread) UseStreamResInCurrentThread(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	t.cores = s
	return acl.ACL_SUCCESS
}

// UnuseStreamResInCurrentThread ends UseStreamResInCurrentThread.
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
	l := t.sim.coreLimit(c.Device)
	if t.cores != nil {
		l = get(t.cores).cores.or(l)
	}
	return put(t, "value", value, l[type_])
}

// setOpTimeout sets the operator timeout, rounded up to the device's interval; 0 for the longest.
func (t *Thread) setOpTimeout(d time.Duration) (time.Duration, acl.Error) {
	if e := t.ready(); e != 0 {
		return 0, e
	}
	if d == 0 {
		d = kernel.NeverTimesOut
	} else {
		d = min((d+kernel.OpInterval-1)/kernel.OpInterval, kernel.OpIntervals) * kernel.OpInterval
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

// SetOpExecuteTimeOutV2 sets the operator timeout in microseconds and returns the rounded value.
func (t *Thread) SetOpExecuteTimeOutV2(timeout uint64, actualTimeout *uint64) acl.Error {
	if actualTimeout == nil {
		return t.null("actualTimeout")
	}
	d, e := t.setOpTimeout(time.Duration(min(timeout, math.MaxInt64/1000)) * time.Microsecond)
	if e != 0 {
		return e
	}
	*actualTimeout = uint64(d / time.Microsecond)
	if d == kernel.NeverTimesOut {
		*actualTimeout = math.MaxUint64
	}
	return acl.ACL_SUCCESS
}

// GetOpTimeOutInterval returns the interval of operator timeouts, in microseconds.
func (t *Thread) GetOpTimeOutInterval(interval *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return put(t, "interval", interval, uint64(kernel.OpInterval/time.Microsecond))
}

// GetOpExecuteTimeout returns the time that an operator may take, in milliseconds.
func (t *Thread) GetOpExecuteTimeout(timeoutMs *uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	d := cmp.Or(time.Duration(t.sim.settings.opTimeout.Load()), kernel.OpDefault)
	if d == kernel.NeverTimesOut {
		return put(t, "timeoutMs", timeoutMs, math.MaxUint32)
	}
	return put(t, "timeoutMs", timeoutMs, uint32(d/time.Millisecond))
}

// SetOpWaitTimeout sets how many seconds a stream waits for an event; 0 is for ever.
func (t *Thread) SetOpWaitTimeout(timeout uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	t.sim.settings.waitTimeout.Store(timeout)
	return acl.ACL_SUCCESS
}

// overflowSize is the size of a float status. Its first word is not 0 after an overflow; simulated kernels report
// none.
const overflowSize = 64

// GetOverflowStatus stores the device's float status in device memory, in stream order.
func (t *Thread) GetOverflowStatus(out acl.Addr, size uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case out == 0:
		return t.null("outputAddr")
	case size < overflowSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "outputSize is %d: want %d or more", size, overflowSize)
	}
	return t.submit(s, device.Task{Kind: device.TaskOverflow, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		if err := s.Context.Device.Check(out, overflowSize, space.Write); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "float status on stream %d: %v", s.ID, err)
		}
		clear(space.Bytes(out, overflowSize))
		s.Context.Device.Machine.MarkKnown(out, overflowSize)
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// ResetOverflowStatus clears the device's float status in stream order.
func (t *Thread) ResetOverflowStatus(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskOverflow, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// NpuGetFloatOverFlowStatus stores the float status as operators see it.
func (t *Thread) NpuGetFloatOverFlowStatus(outputAddr acl.Addr, outputSize uint64, checkMode uint32, stream acl.Stream) acl.Error {
	return t.GetOverflowStatus(outputAddr, outputSize, stream)
}

// NpuClearFloatOverFlowStatus clears the float status as operators see it.
func (t *Thread) NpuClearFloatOverFlowStatus(checkMode uint32, stream acl.Stream) acl.Error {
	return t.ResetOverflowStatus(stream)
}

// CtxGetFloatOverflowAddr returns the device address of the context's float status.
func (t *Thread) CtxGetFloatOverflowAddr(overflowAddr *acl.Addr) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if overflowAddr == nil {
		return t.absent("overflowAddr")
	}
	c.Lock()
	defer c.Unlock()
	x := contextStateOf(c)
	if x.overflow == 0 {
		a, f := t.sim.allocOwn(c.Device, overflowSize)
		if f != nil {
			return t.failWith(f)
		}
		x.overflow = a
	}
	*overflowAddr = x.overflow
	return acl.ACL_SUCCESS
}

// SetDeviceSatMode sets the overflow mode, saturation or infinity, without effect.
func (t *Thread) SetDeviceSatMode(mode acl.FloatOverflowMode) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if mode != acl.ACL_RT_OVERFLOW_MODE_SATURATION && mode != acl.ACL_RT_OVERFLOW_MODE_INFNAN {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "overflow mode %d is unknown", mode)
	}
	t.sim.of(c.Device).satMode.Store(int32(mode))
	return acl.ACL_SUCCESS
}

func (t *Thread) GetDeviceSatMode(mode *acl.FloatOverflowMode) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	return put(t, "mode", mode, acl.FloatOverflowMode(t.sim.of(c.Device).satMode.Load()))
}
