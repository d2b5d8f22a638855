package acl

import (
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

func (t *Thread) device(id int32) (*device.Device, acl.Error) {
	if id < 0 || int(id) >= len(t.sim.visible) {
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICEID, "invalid device %d: the process sees %s", id, human.Plural(len(t.sim.visible), "device"))
	}
	return t.sim.Devices[id], acl.ACL_SUCCESS
}

// knownDevice returns the device with an id. The thread needs no context.
func (t *Thread) knownDevice(id int32) (*device.Device, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	return t.device(id)
}

// SetDevice opens a device and makes its primary context current.
func (t *Thread) SetDevice(deviceId int32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	t.sim.reportDevice(d, acl.ACL_RT_DEVICE_STATE_SET_PRE)
	var made *device.Context
	d.Lock()
	if d.Primary == nil || mutant.Breaks("threads_share_default_context") {
		c, f := t.sim.newContext(d)
		if f != nil {
			d.Unlock()
			return t.failWith(f)
		}
		d.Primary, made = c, c
	}
	d.Refs++
	t.current = d.Primary
	d.Unlock()
	if made != nil {
		t.sim.reportStream(made.Default, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	}
	t.sim.reportDevice(d, acl.ACL_RT_DEVICE_STATE_SET_POST)
	return acl.ACL_SUCCESS
}

// ResetDevice drops one reference of SetDevice. The last reset waits for the primary context and ends it. Device
// memory is freed with the last context.
func (t *Thread) ResetDevice(deviceId int32) acl.Error { return t.reset(deviceId, false) }

// ResetDeviceForce drops all references of SetDevice and discards work that has not begun.
func (t *Thread) ResetDeviceForce(deviceId int32) acl.Error { return t.reset(deviceId, true) }

func (t *Thread) reset(deviceId int32, force bool) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	t.sim.reportDevice(d, acl.ACL_RT_DEVICE_STATE_RESET_PRE)
	defer t.sim.reportDevice(d, acl.ACL_RT_DEVICE_STATE_RESET_POST)
	d.Lock()
	if d.Refs == 0 {
		d.Unlock()
		return t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "device %d is not in use: call aclrtSetDevice first", deviceId)
	}
	if d.Refs--; d.Refs > 0 && !force {
		d.Unlock()
		return acl.ACL_SUCCESS
	}
	c := d.Primary
	d.Refs, d.Primary = 0, nil
	d.Unlock()
	t.sim.Strict.Resets(&t.Strict)
	t.sim.destroy(c, force)
	return acl.ACL_SUCCESS
}

// shutdown ends all contexts on the device.
func (m *Sim) shutdown(d *device.Device, force bool) {
	d.Lock()
	contexts := slices.Clone(d.Contexts)
	d.Refs, d.Primary = 0, nil
	d.Unlock()
	for _, c := range contexts {
		m.destroy(c, force)
	}
}

// ofContext stores a property of the current context. It checks the pointer first.
func ofContext[V any](t *Thread, name string, to *V, of func(*device.Context) V) acl.Error {
	if to == nil {
		return t.null(name)
	}
	c, e := t.context()
	if e != 0 {
		return e
	}
	*to = of(c)
	return acl.ACL_SUCCESS
}

// GetDevice returns the device of the current context.
func (t *Thread) GetDevice(deviceId *int32) acl.Error {
	return ofContext(t, "deviceId", deviceId, func(c *device.Context) int32 { return c.Device.ID })
}

// GetDeviceCount returns the number of devices.
func (t *Thread) GetDeviceCount(count *uint32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	return put(t, "count", count, uint32(len(t.sim.visible)))
}

// SynchronizeDevice waits for all streams in the current context.
func (t *Thread) SynchronizeDevice() acl.Error { return t.syncDevice(device.Forever) }

// SynchronizeDeviceWithTimeout waits for all streams in the current context, at most so many milliseconds.
func (t *Thread) SynchronizeDeviceWithTimeout(timeout int32) acl.Error {
	d, e := t.timeout(timeout)
	if e != 0 {
		return e
	}
	return t.syncDevice(d)
}

func (t *Thread) syncDevice(limit time.Duration) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	type mark struct {
		s *device.Stream
		p device.Progress
	}
	var marks []mark
	c.Lock()
	for _, s := range c.Streams {
		if s.Flags&notSynchronized == 0 {
			marks = append(marks, mark{s, s.Progress()})
		}
	}
	c.Unlock()
	var deadline time.Time
	if limit != device.Forever {
		deadline = time.Now().Add(limit)
	}
	first, since := acl.Error(acl.ACL_SUCCESS), t.Time
	for _, m := range marks {
		left := limit
		if limit != device.Forever {
			left = max(0, time.Until(deadline))
		}
		if e := t.finish(m.s, m.p, left); e == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT {
			return e
		} else if first == 0 {
			first = e
		}
	}
	t.sim.Waited(&t.HostThread, since)
	return first
}

// contextState is runtime data of a context, under its lock.
type contextState struct {
	options  options
	overflow uint64 // address of the float status; 0 until it is queried
}

func contextStateOf(c *device.Context) *contextState { return c.Attached.(*contextState) }

// newContext creates a context and opens the device. The caller holds d.mu.
func (m *Sim) newContext(d *device.Device) (*device.Context, *fail.Failure) {
	if err := d.Memory.Reserve(); err != nil {
		m.Log("device %d: %v; set ACLSIM_VA_BASE to an address with %d GiB free after it", d.ID, err, memory.ArenaStride>>30)
		return nil, status.Failed(acl.ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d: %v", d.ID, err)
	}
	c := &device.Context{Device: d, Attached: &contextState{}}
	s, f := m.newStreamLocked(c, 0, 0)
	if f != nil {
		return nil, f
	}
	c.Default = s
	if c.Handle = m.contexts.Add(c); c.Handle == 0 {
		m.streams.Remove(s.Handle)
		c.Drop(s)
		return nil, status.Failed(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create a context: the limit is reached")
	}
	d.Contexts = append(d.Contexts, c)
	return c, nil
}

// destroy ends a context and its streams after their work; with force, it discards work that has not begun. The last
// context frees the device's memory.
func (m *Sim) destroy(c *device.Context, force bool) {
	if !c.Ended.CompareAndSwap(false, true) {
		return
	}
	c.Lock()
	streams := slices.Clone(c.Streams)
	c.Unlock()
	for _, s := range streams {
		s.Close(force)
	}
	d := c.Device
	m.contexts.Remove(c.Handle)
	d.Lock()
	d.Contexts = slices.DeleteFunc(d.Contexts, func(o *device.Context) bool { return o == c })
	last := len(d.Contexts) == 0
	d.Unlock()
	if last && !mutant.Breaks("reset_frees_memory") {
		m.checkLeaks(d)
		d.Memory.FreeAll()
	}
}

// checkLeaks reports remaining memory to strict mode.
func (m *Sim) checkLeaks(d *device.Device) {
	if m.Strict == nil {
		return
	}
	var live []space.Span
	for _, r := range d.Memory.Live.All() {
		live = append(live, r.Span)
	}
	m.Strict.AllGone(d.ID, live, space.Span{Addr: d.Memory.Base, Size: d.Memory.End - d.Memory.Base})
}

// CreateContext creates a context on a device and makes it current.
func (t *Thread) CreateContext(ctx *acl.Context, deviceId int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if ctx == nil {
		return t.null("context")
	}
	d, e := t.device(deviceId)
	if e != 0 {
		return e
	}
	d.Lock()
	c, f := t.sim.newContext(d)
	d.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	if !mutant.Breaks("created_context_is_current") {
		t.current = c
	}
	t.sim.reportStream(c.Default, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	*ctx = acl.Context(c.Handle)
	return acl.ACL_SUCCESS
}

// namedContext returns the context of a handle. The thread needs none itself.
func (t *Thread) namedContext(h acl.Context) (*device.Context, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	c := t.sim.contexts.Get(uint64(h))
	if c == nil {
		return nil, t.badHandle(space.KindContext, uint64(h))
	}
	return c, acl.ACL_SUCCESS
}

// DestroyContext ends a context made by CreateContext.
func (t *Thread) DestroyContext(ctx acl.Context) acl.Error {
	c, e := t.namedContext(ctx)
	if e != 0 {
		return e
	}
	c.Device.Lock()
	primary := c == c.Device.Primary
	c.Device.Unlock()
	if primary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "context %#x belongs to aclrtSetDevice: only aclrtResetDevice ends it", c.Handle)
	}
	t.sim.Strict.Resets(&t.Strict)
	t.sim.destroy(c, false)
	return acl.ACL_SUCCESS
}

func (t *Thread) SetCurrentContext(ctx acl.Context) acl.Error {
	c, e := t.namedContext(ctx)
	if e != 0 {
		return e
	}
	t.current = c
	return acl.ACL_SUCCESS
}

// GetCurrentContext returns the thread's context.
func (t *Thread) GetCurrentContext(ctx *acl.Context) acl.Error {
	return ofContext(t, "context", ctx, func(c *device.Context) acl.Context { return acl.Context(c.Handle) })
}

// CtxGetCurrentDefaultStream returns the default stream of the current context.
func (t *Thread) CtxGetCurrentDefaultStream(stream *acl.Stream) acl.Error {
	return ofContext(t, "stream", stream, func(c *device.Context) acl.Stream { return acl.Stream(c.Default.Handle) })
}
