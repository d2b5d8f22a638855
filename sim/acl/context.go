package acl

import (
	"slices"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// contextState is what the runtime keeps about a context, under its lock.
type contextState struct {
	options  options
	overflow uint64 // address of the float status; 0 before anybody asked
}

func contextStateOf(c *device.Context) *contextState { return c.Attached.(*contextState) }

// newContext opens the device if need be. The caller holds d.mu.
func (m *Sim) newContext(d *device.Device) (*device.Context, *fail.Failure) {
	if err := d.Memory.Reserve(); err != nil {
		m.Log("device %d: %v; set ACLSIM_VA_BASE to an address with %d GiB free behind it", d.ID, err, memory.VaStride>>30)
		return nil, failed(acl.ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d: %v", d.ID, err)
	}
	c := &device.Context{Device: d, Attached: &contextState{}}
	s, f := m.newStreamLocked(c, 0, 0)
	if f != nil {
		return nil, f
	}
	c.Def = s
	if c.Handle = m.contexts.Add(c); c.Handle == 0 {
		m.streams.Remove(s.Handle)
		c.Drop(s)
		return nil, failed(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many contexts")
	}
	d.Contexts = append(d.Contexts, c)
	return c, nil
}

// destroy ends a context and its streams, after their work or, by force, without what has not begun. The last context
// of a device takes the device's memory with it.
func (m *Sim) destroy(c *device.Context, force bool) {
	if !c.Ended.CompareAndSwap(false, true) {
		return
	}
	c.Mu.Lock()
	streams := slices.Clone(c.Streams)
	c.Mu.Unlock()
	for _, s := range streams {
		s.Close(force)
	}
	d := c.Device
	m.contexts.Remove(c.Handle)
	d.Mu.Lock()
	d.Contexts = slices.DeleteFunc(d.Contexts, func(o *device.Context) bool { return o == c })
	last := len(d.Contexts) == 0
	d.Mu.Unlock()
	if last && !mutant.Breaks("reset_frees_memory") {
		m.checkLeaks(d)
		d.Memory.FreeAll()
	}
}

// checkLeaks lets strict mode look for memory that is left.
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

// CreateContext makes a context on a device and makes it current.
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
	d.Mu.Lock()
	c, f := t.sim.newContext(d)
	d.Mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	if !mutant.Breaks("created_context_is_current") {
		t.current = c
	}
	t.sim.tellStream(c.Def, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	*ctx = acl.Context(c.Handle)
	return acl.ACL_SUCCESS
}

// DestroyContext ends a context made by CreateContext.
func (t *Thread) DestroyContext(ctx acl.Context) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	c := t.sim.contexts.Get(uint64(ctx))
	if c == nil {
		return t.badHandle(space.KindContext, uint64(ctx))
	}
	c.Device.Mu.Lock()
	primary := c == c.Device.Primary
	c.Device.Mu.Unlock()
	if primary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "context %#x belongs to aclrtSetDevice: only aclrtResetDevice ends it", c.Handle)
	}
	t.sim.Strict.Resets(&t.Strict)
	t.sim.destroy(c, false)
	return acl.ACL_SUCCESS
}

// SetCurrentContext makes a context the thread's own.
func (t *Thread) SetCurrentContext(ctx acl.Context) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	c := t.sim.contexts.Get(uint64(ctx))
	if c == nil {
		return t.badHandle(space.KindContext, uint64(ctx))
	}
	t.current = c
	return acl.ACL_SUCCESS
}

// GetCurrentContext returns the thread's context.
func (t *Thread) GetCurrentContext(ctx *acl.Context) acl.Error {
	if ctx == nil {
		return t.null("context")
	}
	c, e := t.context()
	if e != 0 {
		return e
	}
	*ctx = acl.Context(c.Handle)
	return acl.ACL_SUCCESS
}

// CtxGetCurrentDefaultStream returns the default stream of the thread's context.
func (t *Thread) CtxGetCurrentDefaultStream(stream *acl.Stream) acl.Error {
	if stream == nil {
		return t.null("stream")
	}
	c, e := t.context()
	if e != 0 {
		return e
	}
	*stream = acl.Stream(c.Def.Handle)
	return acl.ACL_SUCCESS
}
