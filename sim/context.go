package sim

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
)

// context is a context of a device: the owner of streams, with a default stream of its own.
type context struct {
	handle uint64
	dev    *npu
	def    *stream
	ended  atomic.Bool
	// stops says that the first failure stops all streams, as one of them was told to; stopped is that failure.
	stops   atomic.Bool
	stopped atomic.Pointer[stop]

	mu       sync.Mutex
	streams  []*stream
	options  options
	overflow uint64 // address of the float status; 0 before anybody asked
}

// stop is the failure that has stopped the streams of a context, and the stream where it happened.
type stop struct {
	failure *failure
	stream  *stream
}

// failed notes a failure of a stream. It stops the streams of the context, where that is their mode.
func (c *context) failed(s *stream, f *failure) {
	if broken("stop_is_for_the_context") && s.get().stopOnFailure == 0 {
		return
	}
	if c.stops.Load() || broken("continue_on_failure") {
		c.stopped.CompareAndSwap(nil, &stop{f, s})
	}
}

// newContext opens the device if need be. The caller holds d.mu.
func (d *npu) newContext() (*context, *failure) {
	if err := d.mem.reserve(); err != nil {
		d.sim.log("device %d: %v; set ACLSIM_VA_BASE to an address with %d GiB free behind it", d.id, err, vaStride>>30)
		return nil, failed(acl.ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d: %v", d.id, err)
	}
	c := &context{dev: d}
	s, f := c.newStreamLocked(0, 0)
	if f != nil {
		return nil, f
	}
	c.def = s
	if c.handle = d.sim.contexts.Add(c); c.handle == 0 {
		d.release(s)
		return nil, failed(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many contexts")
	}
	d.contexts = append(d.contexts, c)
	return c, nil
}

// destroy ends a context and its streams, after their work or, by force, without what has not begun. The last context
// of a device takes the device's memory with it.
func (c *context) destroy(force bool) {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	streams := slices.Clone(c.streams)
	c.mu.Unlock()
	for _, s := range streams {
		s.close(force)
	}
	d := c.dev
	d.sim.contexts.Remove(c.handle)
	d.mu.Lock()
	d.contexts = slices.DeleteFunc(d.contexts, func(o *context) bool { return o == c })
	last := len(d.contexts) == 0
	d.mu.Unlock()
	if last && !broken("reset_frees_memory") {
		d.checkLeaks()
		d.mem.freeAll()
	}
}

// checkLeaks lets strict mode look for memory that is left.
func (d *npu) checkLeaks() {
	if d.sim.strict == nil {
		return
	}
	var live []device.Span
	for _, r := range d.mem.live.All() {
		live = append(live, r.Span)
	}
	d.sim.strict.AllGone(d.id, live, device.Span{Addr: d.mem.base, Size: d.mem.end - d.mem.base})
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
	d.mu.Lock()
	c, f := d.newContext()
	d.mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	if !broken("created_context_is_current") {
		t.current = c
	}
	t.sim.tellStream(c.def, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	*ctx = acl.Context(c.handle)
	return acl.ACL_SUCCESS
}

// DestroyContext ends a context made by CreateContext.
func (t *Thread) DestroyContext(ctx acl.Context) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	c := t.sim.contexts.Get(uint64(ctx))
	if c == nil {
		return t.badHandle(device.KindContext, uint64(ctx))
	}
	c.dev.mu.Lock()
	primary := c == c.dev.primary
	c.dev.mu.Unlock()
	if primary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "context %#x belongs to aclrtSetDevice: only aclrtResetDevice ends it", c.handle)
	}
	t.sim.strict.Resets(&t.strict)
	c.destroy(false)
	return acl.ACL_SUCCESS
}

// SetCurrentContext makes a context the thread's own.
func (t *Thread) SetCurrentContext(ctx acl.Context) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	c := t.sim.contexts.Get(uint64(ctx))
	if c == nil {
		return t.badHandle(device.KindContext, uint64(ctx))
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
	*ctx = acl.Context(c.handle)
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
	*stream = acl.Stream(c.def.handle)
	return acl.ACL_SUCCESS
}
