package acl

import (
	"fmt"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
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
	// notSynchronized are the flags of streams that the host never waits for.
	notSynchronized = acl.ACL_STREAM_PERSISTENT | acl.ACL_STREAM_CPU_SCHEDULE | acl.ACL_STREAM_DEVICE_USE_ONLY
)

// attachment is data that the program attached to a stream.
type attachment struct {
	graph.Recording
	settings    settings
	subscribers [callback.Services]*callback.Subscriber
	allocator   *streamAllocator
}

// attached returns the attachment of a stream. Streams inside executions have an empty one.
func attached(s *device.Stream) *attachment {
	if a, ok := s.Attached.(*attachment); ok {
		return a
	}
	return &attachment{}
}

// newStreamLocked creates a stream with a handle. The caller holds the device's lock.
func (m *Sim) newStreamLocked(c *device.Context, priority, flags uint32) (*device.Stream, *fail.Failure) {
	s, f := c.NewStream(priority, flags)
	if f != nil {
		return nil, f
	}
	s.Attached = &attachment{}
	if s.Handle = m.streams.Add(s); s.Handle == 0 {
		c.Drop(s)
		return nil, status.Failed(acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, "create a stream: the limit is reached")
	}
	return s, nil
}

// finish waits until earlier work is done, within a limit, and returns the stream's error.
func (t *Thread) finish(s *device.Stream, p device.Progress, limit time.Duration) acl.Error {
	if !s.Wait(&t.HostThread, p.Task, limit) && !mutant.Breaks("synchronize_timeout") {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d did not finish within %v", s.ID, limit)
	}
	if s.Progress().Aborts != p.Aborts {
		return t.fail(acl.ACL_ERROR_RT_STREAM_ABORT, "the tasks of stream %d were aborted", s.ID)
	}
	return t.result(s.Observe())
}

// stream returns the stream of a handle; for null, the default stream of the context.
func (t *Thread) stream(h acl.Stream) (*device.Stream, acl.Error) {
	c, e := t.context()
	if e != 0 {
		return nil, e
	}
	if h == 0 {
		return c.Default, acl.ACL_SUCCESS
	}
	s := t.sim.streams.Get(uint64(h))
	if s == nil {
		return nil, t.badHandle(space.KindStream, uint64(h))
	}
	if s.Context != c {
		if s.Context.Device != c.Device {
			t.sim.Strict.Single(&t.Strict, strict.WrongDevice, &s.Strict, "", s.Handle, "creates the stream", fmt.Sprintf("uses it while device %d is current; it is of device %d", c.Device.ID, s.Context.Device.ID))
		}
		return nil, t.fail(acl.ACL_ERROR_RT_STREAM_CONTEXT, "stream %#x belongs to context %#x, but the current context of the thread is %#x", s.Handle, s.Context.Handle, c.Handle)
	}
	return s, acl.ACL_SUCCESS
}

// timeout converts a timeout in milliseconds.
func (t *Thread) timeout(ms int32) (time.Duration, acl.Error) {
	switch {
	case ms == -1:
		return device.Forever, acl.ACL_SUCCESS
	case ms < -1:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout is %d: want milliseconds, or -1 for no limit", ms)
	}
	return time.Duration(ms) * time.Millisecond, acl.ACL_SUCCESS
}

// CreateStream creates a stream in the current context.
func (t *Thread) CreateStream(stream *acl.Stream) acl.Error {
	return t.CreateStreamWithConfig(stream, 0, 0)
}

// CreateStreamWithConfig creates a stream with a priority, clamped to the range, and flags. Unknown flags are
// dropped, and only notSynchronized has an effect.
func (t *Thread) CreateStreamWithConfig(stream *acl.Stream, priority, flag uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if stream == nil {
		return t.null("stream")
	}
	c.Device.Lock()
	if !mutant.Breaks("priority_out_of_range") {
		priority = min(priority, maxPriority)
	}
	s, f := t.sim.newStreamLocked(c, priority, flag&streamFlags)
	c.Device.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	*stream = acl.Stream(s.Handle)
	t.sim.reportStream(s, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	return acl.ACL_SUCCESS
}

// DestroyStream waits for the stream's work and ends it. It returns an unseen failure; the stream is gone in any
// case.
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
	if s == s.Context.Default {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %#x is the default stream of a context and can't be destroyed", s.Handle)
	}
	if c := attached(s).Capture.Load(); c != nil {
		f := status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: end the capture first", s.ID)
		c.Spoil(f)
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

// SynchronizeStreamWithTimeout waits for a stream's work, at most so many milliseconds.
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

// StreamQuery reports whether the work of a stream is done.
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

func (t *Thread) StreamGetId(stream acl.Stream, streamId *int32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	return put(t, "streamId", streamId, s.ID)
}

func (t *Thread) StreamGetPriority(stream acl.Stream, priority *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	return put(t, "priority", priority, s.Priority)
}

func (t *Thread) StreamGetFlags(stream acl.Stream, flags *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	return put(t, "flags", flags, s.Flags)
}

// StreamEnding reports the end of a stream to the program, and ends its capture.
func (m *Sim) StreamEnding(s *device.Stream) {
	m.reportStream(s, acl.ACL_RT_STREAM_STATE_DESTROY_PRE)
	if c := attached(s).Capture.Load(); c != nil {
		m.Captures.Stop(c)
		if c.Graph.Part || m.Graphs.Remove(c.Graph.Handle) != nil {
			m.EndGraph(c.Graph)
		}
	}
}

// StreamEnded ends the subscriptions and the handle of a finished stream.
func (m *Sim) StreamEnded(s *device.Stream) {
	m.unsubscribe(s, callback.Callbacks)
	m.unsubscribe(s, callback.HostFunctions)
	if !mutant.Breaks("destroyed_stream") {
		m.streams.Remove(s.Handle)
	}
}

// StreamAbort discards the work of a stream and ends running tasks.
func (t *Thread) StreamAbort(on acl.Stream) acl.Error {
	if on == 0 {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.absent("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case s.Flags&acl.ACL_STREAM_DEVICE_USE_ONLY != 0:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d was created with ACL_STREAM_DEVICE_USE_ONLY: it can't be aborted", s.ID)
	case attached(s).Capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured", s.ID)
	}
	if mutant.Breaks("other_streams_go_on") {
		return t.DeviceTaskAbort(s.Context.Device.ID, 0)
	}
	s.Abort()
	return acl.ACL_SUCCESS
}

// StreamStop stops a device-only stream. Host work never runs on one.
func (t *Thread) StreamStop(on acl.Stream) acl.Error {
	if on == 0 && !mutant.Breaks("stop_is_for_the_device") {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.absent("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if s.Flags&acl.ACL_STREAM_DEVICE_USE_ONLY == 0 {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d was created without ACL_STREAM_DEVICE_USE_ONLY", s.ID)
	}
	return acl.ACL_SUCCESS
}

// DeviceTaskAbort discards the work on all streams of a device. It waits at most so many milliseconds; 0 for no
// limit.
func (t *Thread) DeviceTaskAbort(deviceId int32, timeout uint32) acl.Error {
	d, e := t.knownDevice(deviceId)
	if e != 0 {
		return e
	}
	t.sim.observers.Report(&t.sim.observers.OnAbort, uint64(d.ID), uint64(acl.ACL_RT_DEVICE_TASK_ABORT_PRE), uint64(timeout))
	defer t.sim.observers.Report(&t.sim.observers.OnAbort, uint64(d.ID), uint64(acl.ACL_RT_DEVICE_TASK_ABORT_POST), uint64(timeout))
	var all sync.WaitGroup
	d.Lock()
	for _, s := range d.Streams {
		if s != nil && attached(s).Capture.Load() == nil {
			all.Go(s.Abort)
		}
	}
	d.Unlock()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	expired, stop := device.After(time.Duration(timeout) * time.Millisecond)
	defer stop()
	select {
	case <-done:
		return acl.ACL_SUCCESS
	case <-expired:
		return t.fail(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "the tasks of device %d did not finish within %d ms", d.ID, timeout)
	}
}
