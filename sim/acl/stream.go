package acl

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

const (
	maxPriority = 7
	streamFlags = acl.ACL_STREAM_FAST_LAUNCH | acl.ACL_STREAM_FAST_SYNC | acl.ACL_STREAM_PERSISTENT |
		acl.ACL_STREAM_HUGE | acl.ACL_STREAM_CPU_SCHEDULE | acl.ACL_STREAM_DEVICE_USE_ONLY
	// notSynchronized are the flags of streams for which the host never waits.
	notSynchronized = acl.ACL_STREAM_PERSISTENT | acl.ACL_STREAM_CPU_SCHEDULE | acl.ACL_STREAM_DEVICE_USE_ONLY
)

// attachment is what the program has attached to the stream.
type attachment struct {
	settings    settings
	subscribers [services]*subscriber
	allocator   *streamAllocator
	capture     atomic.Pointer[capture]
	bound       atomic.Pointer[bound]
	update      atomic.Pointer[update]
}

// attached returns what the program has attached to a stream: nothing to one that runs a part of a model.
func attached(s *device.Stream) *attachment {
	if a, ok := s.Attached.(*attachment); ok {
		return a
	}
	return &attachment{}
}

// newStreamLocked makes a stream with a handle. The caller holds the device's lock.
func (m *Sim) newStreamLocked(c *device.Context, priority, flags uint32) (*device.Stream, *fail.Failure) {
	s, f := c.NewStream(priority, flags)
	if f != nil {
		return nil, f
	}
	s.Attached = &attachment{}
	if s.Handle = m.streams.Add(s); s.Handle == 0 {
		c.Drop(s)
		return nil, failed(acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, "too many streams")
	}
	return s, nil
}

// finish waits for the work up to a moment, within a limit, and returns the error of the stream.
func (t *Thread) finish(s *device.Stream, p device.Progress, limit time.Duration) acl.Error {
	if !s.Wait(&t.HostThread, p.Task, limit) && !mutant.Breaks("synchronize_timeout") {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d has not finished within %v", s.ID, limit)
	}
	if s.Progress().Aborts != p.Aborts {
		return t.fail(acl.ACL_ERROR_RT_STREAM_ABORT, "the work of stream %d was aborted", s.ID)
	}
	if f := s.Observe(); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// stream returns the stream of a handle, the default stream of the context for null.
func (t *Thread) stream(h acl.Stream) (*device.Stream, acl.Error) {
	c, e := t.context()
	if e != 0 {
		return nil, e
	}
	if h == 0 && mutant.Breaks("null_is_default_stream") {
		c = c.Device.Primary
	}
	if h == 0 {
		return c.Def, acl.ACL_SUCCESS
	}
	s := t.sim.streams.Get(uint64(h))
	if s == nil {
		return nil, t.badHandle(space.KindStream, uint64(h))
	}
	if s.Context != c && !mutant.Breaks("stream_of_another_context") {
		if s.Context.Device != c.Device {
			t.sim.Strict.Single(&t.Strict, strict.WrongDevice, &s.Strict, "", s.Handle, "makes the stream", fmt.Sprintf("uses it while device %d is current; it is of device %d", c.Device.ID, s.Context.Device.ID))
		}
		return nil, t.fail(acl.ACL_ERROR_RT_STREAM_CONTEXT, "stream %#x belongs to context %#x, the thread's is %#x", s.Handle, s.Context.Handle, c.Handle)
	}
	return s, acl.ACL_SUCCESS
}

// submit puts a task on a stream for the thread.
func (t *Thread) submit(s *device.Stream, k device.Task) acl.Error {
	if t.sim.opts.Faults != nil {
		spoilt := k // of its own, so that k need not be on the heap
		t.sim.spoil(s.Context.Device, &spoilt)
		k = spoilt
	}
	if c := t.sim.Strict; c != nil {
		k.Check = c.Submitted(&t.Strict, &s.Strict, k.Name)
	}
	if done, e := t.capture(s, k); done {
		return e
	}
	if done, e := t.build(s, k); done {
		return e
	}
	if done, e := t.updateTask(s, k); done {
		return e
	}
	t.sim.SpendCall(&t.HostThread, t.sim.Model.Host.Submit)
	k.Thread = t.tid
	id, f := s.Submit(&t.HostThread, k)
	if f != nil {
		k.End()
		return t.failWith(f)
	}
	t.made(id, s, nil)
	return acl.ACL_SUCCESS
}

// timeout checks a timeout in milliseconds.
func (t *Thread) timeout(ms int32) (time.Duration, acl.Error) {
	switch {
	case ms == -1:
		return device.Forever, acl.ACL_SUCCESS
	case ms < -1:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: -1 is for ever, else milliseconds", ms)
	}
	return time.Duration(ms) * time.Millisecond, acl.ACL_SUCCESS
}

// CreateStream makes a stream in the current context.
func (t *Thread) CreateStream(stream *acl.Stream) acl.Error {
	return t.CreateStreamWithConfig(stream, 0, 0)
}

// CreateStreamWithConfig makes a stream with a priority, the nearest one in the range, and flags, of which unknown ones are
// dropped. Of both nothing but notSynchronized changes anything here.
func (t *Thread) CreateStreamWithConfig(stream *acl.Stream, priority, flag uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if stream == nil {
		return t.null("stream")
	}
	c.Device.Mu.Lock()
	if !mutant.Breaks("priority_out_of_range") {
		priority = min(priority, maxPriority)
	}
	s, f := t.sim.newStreamLocked(c, priority, flag&streamFlags)
	c.Device.Mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	*stream = acl.Stream(s.Handle)
	t.sim.tellStream(s, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	return acl.ACL_SUCCESS
}

// DestroyStream waits for the work of a stream and ends it. A failure that no call has told yet is returned, and the stream
// is gone all the same.
func (t *Thread) DestroyStream(stream acl.Stream) acl.Error { return t.destroyStream(stream, false) }

// DestroyStreamForce ends a stream without the work that has not begun.
func (t *Thread) DestroyStreamForce(stream acl.Stream) acl.Error {
	return t.destroyStream(stream, true)
}

func (t *Thread) destroyStream(h acl.Stream, force bool) acl.Error {
	if h == 0 {
		return t.null("stream")
	}
	s, e := t.stream(h)
	if e != 0 {
		return e
	}
	if s == s.Context.Def {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %#x is the default stream of a context", s.Handle)
	}
	if c := attached(s).capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: end the capture first", s.ID)
		c.spoil(f)
		return t.failWith(f)
	}
	if f := s.Close(force); f != nil && !force {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// SynchronizeStream waits for the work of a stream.
func (t *Thread) SynchronizeStream(stream acl.Stream) acl.Error {
	return t.syncStream(stream, device.Forever)
}

// SynchronizeStreamWithTimeout waits for the work of a stream, for so many milliseconds at most.
func (t *Thread) SynchronizeStreamWithTimeout(stream acl.Stream, timeout int32) acl.Error {
	d, e := t.timeout(timeout)
	if e != 0 {
		return e
	}
	return t.syncStream(stream, d)
}

func (t *Thread) syncStream(h acl.Stream, limit time.Duration) acl.Error {
	s, e := t.stream(h)
	if e != 0 {
		return e
	}
	if e := t.notCaptured(s); e != 0 {
		return e
	}
	if s.Flags&notSynchronized != 0 {
		return acl.ACL_SUCCESS
	}
	if mutant.Breaks("synchronize_waits") {
		return acl.ACL_SUCCESS
	}
	since := t.Time
	e = t.finish(s, s.Progress(), limit)
	t.sim.Waited(&t.HostThread, since)
	return e
}

// StreamQuery tells whether the work of a stream is done.
func (t *Thread) StreamQuery(stream acl.Stream, status *acl.StreamStatus) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if status == nil {
		return t.null("status")
	}
	if e := t.notCaptured(s); e != 0 {
		return e
	}
	*status = acl.ACL_STREAM_STATUS_NOT_READY
	if mutant.Breaks("query") {
		*status = acl.ACL_STREAM_STATUS_COMPLETE
	}
	if s.Done.Load() < s.SubmittedTasks() || !t.sim.Clock.Past(&t.HostThread, time.Duration(s.LastEnd.Load())) {
		return acl.ACL_SUCCESS
	}
	if f := s.Blocked(); f != nil {
		return t.failWith(f)
	}
	t.sim.Strict.Done(&t.Strict, &s.Strict)
	*status = acl.ACL_STREAM_STATUS_COMPLETE
	return acl.ACL_SUCCESS
}

// StreamGetId returns the number of a stream.
func (t *Thread) StreamGetId(stream acl.Stream, streamId *int32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if streamId == nil {
		return t.null("streamId")
	}
	*streamId = s.ID
	return acl.ACL_SUCCESS
}

// StreamGetPriority returns the priority of a stream.
func (t *Thread) StreamGetPriority(stream acl.Stream, priority *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if priority == nil {
		return t.null("priority")
	}
	*priority = s.Priority
	return acl.ACL_SUCCESS
}

// StreamGetFlags returns the flags of a stream.
func (t *Thread) StreamGetFlags(stream acl.Stream, flags *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if flags == nil {
		return t.null("flags")
	}
	*flags = s.Flags
	return acl.ACL_SUCCESS
}

// StreamEnding tells the program that a stream is about to end, and ends its capture.
func (m *Sim) StreamEnding(s *device.Stream) {
	m.tellStream(s, acl.ACL_RT_STREAM_STATE_DESTROY_PRE)
	if c := attached(s).capture.Load(); c != nil {
		m.captures.stop(c)
		if c.graph.part || m.graphs.Remove(c.graph.handle) != nil {
			m.endGraph(c.graph)
		}
	}
}

// StreamEnded ends the subscriptions of a stream whose work is done, and its handle.
func (m *Sim) StreamEnded(s *device.Stream) {
	m.unsubscribe(s, callbacks)
	m.unsubscribe(s, hostFunctions)
	if !mutant.Breaks("destroyed_stream") {
		m.streams.Remove(s.Handle)
	}
}
