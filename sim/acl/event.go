package acl

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// event marks a place in a stream's work. Each record makes a new mark: who waits for an event waits for the mark that
// it had when the wait was called.
type event struct {
	handle uint64
	id     uint32
	dev    *device.Device
	flags  uint32
	how    string       // the function that made it
	waits  atomic.Int64 // waits of streams that are not done

	order             sync.Mutex // held while a record is put on a stream, so that the last mark is the last record
	mu                sync.Mutex
	mark              *device.Mark // the last one; nil before the first record and after a reset
	captured          *captured
	recorded, awaited use
	built             *builtMark     // the last record in a model that is built by hand
	level             device.Signal  // of an external event
	shared            *memory.Shared // of an event for several processes
}

const (
	createEvent         = "aclrtCreateEvent"
	createEventWithFlag = "aclrtCreateEventWithFlag"
	createEventEx       = "aclrtCreateEventExWithFlag"

	// maxEvents is the number of events of a device that synchronize.
	maxEvents  = 65536
	eventFlags = acl.ACL_EVENT_SYNC | acl.ACL_EVENT_CAPTURE_STREAM_PROGRESS | acl.ACL_EVENT_TIME_LINE | acl.ACL_EVENT_DEVICE_USE_ONLY |
		acl.ACL_EVENT_EXTERNAL | acl.ACL_EVENT_IPC
)

func (t *Thread) newEvent(h *acl.Event, flag uint32, how string) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.null("event")
	case flag == 0 || flag&^eventFlags != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event flags %#x are unknown", flag)
	case flag&acl.ACL_EVENT_EXTERNAL != 0 && flag != acl.ACL_EVENT_EXTERNAL && !mutant.Breaks("external_flag_alone"):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event flags %#x: an external event has no other flag", flag)
	case flag&acl.ACL_EVENT_IPC != 0 && (flag != acl.ACL_EVENT_IPC || how != createEventEx):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event flags %#x by %s: an event for several processes is made by %s and has no other flag", flag, how, createEventEx)
	}
	ev := &event{dev: c.Device, flags: flag, how: how}
	if flag == acl.ACL_EVENT_IPC {
		x, f := t.sim.Shares.Offer(memory.SlotEvent, c.Device.ID, true, nil)
		if f != nil {
			return t.failWith(f)
		}
		ev.shared = x
	}
	e = t.addEvent(ev, h)
	if e != 0 {
		t.sim.unshare(ev.shared)
	}
	return e
}

// addEvent makes a handle for an event.
func (t *Thread) addEvent(ev *event, h *acl.Event) acl.Error {
	ev.handle = t.sim.events.Add(ev)
	if ev.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_NO_EVENT_RESOURCE, "too many events")
	}
	ev.id = uint32(ev.handle >> 4 & (space.MaxHandles - 1))
	if ev.id >= maxEvents && ev.flags&acl.ACL_EVENT_SYNC != 0 {
		t.sim.events.Remove(ev.handle)
		return t.fail(acl.ACL_ERROR_RT_NO_EVENT_RESOURCE, "there are %d events already", maxEvents)
	}
	*h = acl.Event(ev.handle)
	return acl.ACL_SUCCESS
}

// CreateEvent makes an event for timing and for the order of streams.
func (t *Thread) CreateEvent(event *acl.Event) acl.Error {
	return t.newEvent(event, acl.ACL_EVENT_SYNC|acl.ACL_EVENT_TIME_LINE, createEvent)
}

// CreateEventWithFlag makes an event for what the flags say.
func (t *Thread) CreateEventWithFlag(event *acl.Event, flag uint32) acl.Error {
	return t.newEvent(event, flag, createEventWithFlag)
}

// CreateEventExWithFlag makes an event for what the flags say, one that is recorded again and again.
func (t *Thread) CreateEventExWithFlag(event *acl.Event, flag uint32) acl.Error {
	return t.newEvent(event, flag, createEventEx)
}

func (t *Thread) event(h acl.Event) (*event, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	ev := t.sim.events.Get(uint64(h))
	if ev == nil {
		return nil, t.badHandle(space.KindEvent, uint64(h))
	}
	return ev, acl.ACL_SUCCESS
}

func (ev *event) last() *device.Mark {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return ev.mark
}

// DestroyEvent ends an event and does not wait for it.
func (t *Thread) DestroyEvent(event acl.Event) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if t.sim.events.Remove(uint64(event)) != nil {
		t.sim.unshare(ev.shared)
	}
	return acl.ACL_SUCCESS
}

// RecordEvent lets an event stand for the work that a stream has so far.
func (t *Thread) RecordEvent(event acl.Event, on acl.Stream) acl.Error {
	return t.RecordEventWithFlag(event, on, acl.ACL_EVENT_RECORD_DEFAULT)
}

// RecordEventWithFlag is RecordEvent; with ACL_EVENT_RECORD_EXTERNAL the stream is captured, and each execution of its graph records
// the event for those outside.
func (t *Thread) RecordEventWithFlag(event acl.Event, on acl.Stream, flag uint32) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if ev.dev != s.Context.Device {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x belongs to device %d, the stream to %d", ev.handle, ev.dev.ID, s.Context.Device.ID)
	}
	if e := t.eventUse(ev, &ev.recorded, flag); e != 0 {
		return e
	}
	if flag == acl.ACL_EVENT_RECORD_EXTERNAL {
		return t.captureOutside(ev, s, &outside{ev, true})
	}
	if ev.external() {
		return t.submit(s, device.Task{Kind: device.TaskRecord, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			ev.level.Told(s)
			ev.level.Set()
			return 0, nil
		}})
	}
	if ev.shared != nil {
		return t.recordShared(ev, s)
	}
	if c := attached(s).capture.Load(); c != nil {
		if e := t.capturable(ev); e != 0 {
			return e
		}
		return t.captureRecord(c, ev, s)
	}
	if b := attached(s).bound.Load(); b != nil {
		return t.buildRecord(b, ev, s)
	}
	m := &device.Mark{Done: make(chan struct{})}
	if mutant.Breaks("record_captures_earlier_work") { // it stands for all that the stream will have
		ev.mark = m
		return acl.ACL_SUCCESS
	}
	ev.order.Lock()
	defer ev.order.Unlock()
	e = t.submit(s, device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		m.Time = s.Time / device.Tick * device.Tick
		if mutant.Breaks("elapsed_time") || mutant.Breaks("timestamp") {
			m.Time = device.Uptime
		}
		if !mutant.Breaks("synchronize_failed_work") {
			m.Failure = s.Blocked()
		}
		s.Context.Device.Machine.Strict.Tells(&s.Strict, &m.Known)
		close(m.Done)
		return 0, nil
	}})
	if e == 0 && (ev.last() == nil || !mutant.Breaks("record_again")) {
		ev.mu.Lock()
		ev.mark, ev.captured = m, nil
		ev.mu.Unlock()
	}
	return e
}

// ResetEvent makes an event as if never recorded, in the order of the stream.
func (t *Thread) ResetEvent(event acl.Event, on acl.Stream) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if ev.external() {
		return t.submit(s, device.Task{Kind: device.TaskReset, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			ev.level.Clear()
			return 0, nil
		}})
	}
	if (ev.how != createEventWithFlag || ev.flags&acl.ACL_EVENT_SYNC == 0) && !mutant.Breaks("ex_event_can_not_be_reset") {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made by %s with flags %#x: it can't be reset", ev.handle, ev.how, ev.flags)
	}
	m := ev.last()
	return t.submit(s, device.Task{Kind: device.TaskReset, Detail: ev, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
		ev.mu.Lock()
		if ev.mark == m && !mutant.Breaks("reset") {
			ev.mark = nil
		}
		ev.mu.Unlock()
		return 0, nil
	}})
}

// external tells whether an event is a flag between streams and graphs: its records, waits and resets are tasks that a graph
// repeats, and tie no stream to a capture.
func (ev *event) external() bool { return ev.flags == acl.ACL_EVENT_EXTERNAL }

func (t *Thread) waitExternal(s *device.Stream, ev *event, timeout int32) acl.Error {
	return t.submit(s, device.Task{Kind: device.TaskWait, Run: ev.level.Heard, Begin: func(s *device.Stream) *device.Waiting {
		return ev.level.Wait(false, time.Duration(timeout)*time.Second, func() *fail.Failure { return ev.late(s, timeout) })
	}})
}

// late is the failure of a stream that waited too long for an event.
func (ev *event) late(s *device.Stream, timeout int32) *fail.Failure {
	return failed(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "stream %d waited %d s for event %#x", s.ID, timeout, ev.handle)
}

// eventFree refuses to ask for an event whose record was captured, and spoils the capture.
func (t *Thread) eventFree(ev *event) acl.Error {
	r := ev.inCapture()
	if r == nil || mutant.Breaks("captured_event") {
		return acl.ACL_SUCCESS
	}
	f := failed(acl.ACL_ERROR_RT_EVENT_CAPTURED, "event %#x was recorded in a capture that has not ended", ev.handle)
	r.capture.spoil(f)
	return t.failWith(f)
}

// eventDone tells whether what an event stands for is done.
func (t *Thread) eventDone(ev *event) (bool, acl.Error) {
	if ev.external() {
		return false, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is external: the host can't ask for it", ev.handle)
	}
	if e := t.eventFree(ev); e != 0 {
		return false, e
	}
	if ev.shared != nil {
		done, f := ev.sharedDone()
		if f != nil {
			return true, t.failWith(f)
		}
		if done {
			t.sim.Strict.HearsOthers(nil)
		}
		return done, acl.ACL_SUCCESS
	}
	m := ev.last()
	if m == nil {
		return !mutant.Breaks("never_recorded"), acl.ACL_SUCCESS
	}
	if mutant.Breaks("pending_event") {
		return true, acl.ACL_SUCCESS
	}
	if !m.Complete() || !t.sim.Clock.Past(&t.HostThread, m.Time) {
		return false, acl.ACL_SUCCESS
	}
	t.sim.Strict.Knows(&t.Strict, &m.Known)
	if m.Failure != nil {
		return true, t.failWith(m.Failure)
	}
	return true, acl.ACL_SUCCESS
}

// QueryEvent tells whether what an event stands for is done, in the old way.
func (t *Thread) QueryEvent(event acl.Event, status *acl.EventStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if status == nil {
		return t.null("status")
	}
	if ev.how == createEventEx && !mutant.Breaks("ex_event_has_no_old_status") {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made by %s: aclrtQueryEventStatus asks for it", ev.handle, ev.how)
	}
	done, e := t.eventDone(ev)
	*status = acl.ACL_EVENT_STATUS_NOT_READY
	if done {
		*status = acl.ACL_EVENT_STATUS_COMPLETE
	}
	return e
}

// QueryEventStatus tells whether what an event stands for is done.
func (t *Thread) QueryEventStatus(event acl.Event, status *acl.EventRecordedStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if status == nil {
		return t.null("status")
	}
	done, e := t.eventDone(ev)
	*status = acl.ACL_EVENT_RECORDED_STATUS_NOT_READY
	if done {
		*status = acl.ACL_EVENT_RECORDED_STATUS_COMPLETE
	}
	return e
}

// QueryEventWaitStatus tells whether all streams that were told to wait for an event have done so.
func (t *Thread) QueryEventWaitStatus(event acl.Event, status *acl.EventWaitStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	switch {
	case status == nil:
		return t.null("status")
	case (ev.how == createEventEx || ev.flags&acl.ACL_EVENT_SYNC == 0) && !mutant.Breaks("ex_event_has_no_wait_status"):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made by %s with flags %#x: it has no wait status", ev.handle, ev.how, ev.flags)
	}
	*status = acl.ACL_EVENT_WAIT_STATUS_COMPLETE
	if ev.waits.Load() > 0 {
		*status = acl.ACL_EVENT_WAIT_STATUS_NOT_READY
	} else if m := ev.last(); m != nil && m.Complete() {
		t.sim.Strict.Knows(&t.Strict, &m.Known)
	}
	return acl.ACL_SUCCESS
}

// SynchronizeEvent waits for what an event stands for.
func (t *Thread) SynchronizeEvent(event acl.Event) acl.Error {
	return t.syncEvent(event, device.Forever)
}

// SynchronizeEventWithTimeout waits for what an event stands for, for so many milliseconds at most.
func (t *Thread) SynchronizeEventWithTimeout(event acl.Event, timeout int32) acl.Error {
	d, e := t.timeout(timeout)
	if e != 0 {
		return e
	}
	return t.syncEvent(event, d)
}

func (t *Thread) syncEvent(h acl.Event, limit time.Duration) acl.Error {
	ev, e := t.event(h)
	if e != 0 {
		return e
	}
	if ev.external() {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is external: the host can't wait for it", ev.handle)
	}
	if e := t.eventFree(ev); e != 0 {
		return e
	}
	if ev.shared != nil {
		expired, stop := device.After(max(0, limit))
		if limit == 0 {
			expired = time.After(0)
		}
		defer stop()
		done, f := ev.awaitShared(ev.shared.Issued.Load(), nil, expired)
		switch {
		case !done:
			return t.fail(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "event %#x is not complete within %v", ev.handle, limit)
		case f != nil:
			return t.failWith(f)
		}
		t.sim.Strict.HearsOthers(nil)
		return acl.ACL_SUCCESS
	}
	m := ev.last()
	if m == nil || mutant.Breaks("synchronize_waits_for_event") {
		return acl.ACL_SUCCESS
	}
	since := t.Time
	if !m.Complete() && !t.sim.Clock.Wait(&t.HostThread, m.Done, limit) && !mutant.Breaks("event_timeout") {
		return t.fail(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "event %#x is not complete within %v", ev.handle, limit)
	}
	t.sim.Clock.Reach(&t.HostThread, m.Time)
	t.sim.Waited(&t.HostThread, since)
	t.sim.Strict.Knows(&t.Strict, &m.Known)
	if m.Failure != nil {
		return t.failWith(m.Failure)
	}
	return acl.ACL_SUCCESS
}

// stamp is the device time of an event.
func (t *Thread) stamp(h acl.Event) (time.Duration, acl.Error) {
	ev, e := t.event(h)
	if e != 0 {
		return 0, e
	}
	m := ev.last()
	switch {
	case ev.flags&acl.ACL_EVENT_TIME_LINE == 0 && !mutant.Breaks("time_needs_the_flag"):
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %#x was made without ACL_EVENT_TIME_LINE", ev.handle)
	case m == nil:
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %#x was not recorded", ev.handle)
	case !m.Complete() && !mutant.Breaks("time_of_pending_event"):
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, "event %#x is not complete", ev.handle)
	}
	t.sim.Strict.Knows(&t.Strict, &m.Known)
	return m.Time, acl.ACL_SUCCESS
}

// EventElapsedTime returns the device time between two events in milliseconds.
func (t *Thread) EventElapsedTime(ms *float32, startEvent, endEvent acl.Event) acl.Error {
	if ms == nil {
		return t.null("ms")
	}
	a, e := t.stamp(startEvent)
	if e != 0 {
		return e
	}
	b, e := t.stamp(endEvent)
	if e != 0 {
		return e
	}
	if b < a && !mutant.Breaks("reversed_events") {
		return t.fail(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event is %v before the start event", a-b)
	}
	*ms = float32(float64(b-a) / float64(time.Millisecond))
	return acl.ACL_SUCCESS
}

// EventGetTimestamp returns the device time of an event in microseconds.
func (t *Thread) EventGetTimestamp(event acl.Event, timestamp *uint64) acl.Error {
	if timestamp == nil {
		return t.null("timestamp")
	}
	at, e := t.stamp(event)
	if e != 0 {
		return e
	}
	*timestamp = uint64(at / time.Microsecond)
	return acl.ACL_SUCCESS
}

// GetEventId returns the number of an event.
func (t *Thread) GetEventId(event acl.Event, eventId *uint32) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if eventId == nil {
		return t.null("eventId")
	}
	*eventId = ev.id
	return acl.ACL_SUCCESS
}

// StreamWaitEvent lets the later work of a stream wait for an event.
func (t *Thread) StreamWaitEvent(stream acl.Stream, event acl.Event) acl.Error {
	return t.StreamWaitEventWithTimeout(stream, event, int32(min(t.sim.settings.waitTimeout.Load(), math.MaxInt32)))
}

// StreamWaitEventWithTimeout lets the later work of a stream wait for an event, for so many seconds at most; 0 is for ever.
// An event that was never recorded is not waited for.
func (t *Thread) StreamWaitEventWithTimeout(on acl.Stream, event acl.Event, timeout int32) acl.Error {
	return t.waitEvent(on, event, timeout, acl.ACL_EVENT_WAIT_DEFAULT)
}

func (t *Thread) waitEvent(on acl.Stream, event acl.Event, timeout int32, flag uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if timeout < 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: 0 is for ever, else seconds", timeout)
	}
	if e := t.eventUse(ev, &ev.awaited, flag); e != 0 {
		return e
	}
	switch {
	case flag == acl.ACL_EVENT_WAIT_EXTERNAL:
		return t.captureOutside(ev, s, &outside{ev, false})
	case ev.external():
		return t.waitExternal(s, ev, timeout)
	case ev.shared != nil:
		return t.waitShared(s, ev, timeout)
	case ev.flags&acl.ACL_EVENT_SYNC == 0 && !mutant.Breaks("wait_needs_the_flag"):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made without ACL_EVENT_SYNC: no stream can wait for it", ev.handle)
	}
	if done, e := t.captureWait(s, ev); done {
		return e
	}
	if b := attached(s).bound.Load(); b != nil {
		return t.buildWait(b, ev, s)
	}
	m := ev.last()
	count := int64(1)
	if mutant.Breaks("wait_status") {
		count = 0
	}
	ev.waits.Add(count)
	release := func() { ev.waits.Add(-count) }
	return t.submit(s, device.Task{Kind: device.TaskWait, Release: release,
		Begin: func(s *device.Stream) *device.Waiting {
			if mutant.Breaks("wait_is_for_the_last_record") {
				m = ev.last()
			}
			if mutant.Breaks("stream_waits_for_event") {
				m = nil
			}
			if m == nil && mutant.Breaks("wait_for_never_recorded") {
				return (&device.Mark{Done: make(chan struct{})}).Wait(0, nil)
			}
			if m == nil {
				return nil
			}
			return m.Wait(time.Duration(timeout)*time.Second, func() *fail.Failure { return ev.late(s, timeout) })
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			if m != nil {
				s.Time = max(s.Time, m.Time)
				s.Context.Device.Machine.Strict.Hears(&s.Strict, &m.Known)
			}
			return 0, nil
		}})
}

// StreamWaitEventWithFlag is StreamWaitEventWithTimeout; with ACL_EVENT_WAIT_EXTERNAL the stream is captured, and each execution of its
// graph waits for the last record outside.
func (t *Thread) StreamWaitEventWithFlag(on acl.Stream, event acl.Event, timeout, flag uint32) acl.Error {
	switch {
	case flag == acl.ACL_EVENT_WAIT_EXTERNAL && timeout != 0:
		return t.invalid("timeout %d: a wait for an event outside a graph has none, which is 0", timeout)
	case timeout > math.MaxInt32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: 0 is for ever, else seconds up to %d", timeout, math.MaxInt32)
	}
	return t.waitEvent(on, event, int32(timeout), flag)
}

// eventUse checks the flag of a record or a wait.
func (t *Thread) eventUse(ev *event, u *use, flag uint32) acl.Error {
	switch {
	case flag > acl.ACL_EVENT_RECORD_EXTERNAL:
		return t.invalid("flag %d is unknown", flag)
	case flag == acl.ACL_EVENT_RECORD_EXTERNAL && (ev.how != createEventEx || ev.flags != acl.ACL_EVENT_SYNC):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made by %s with flags %#x: records and waits across the border of a graph are for events of %s with ACL_EVENT_SYNC alone", ev.handle, ev.how, ev.flags, createEventEx)
	case !u.settle(flag):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x was used with another flag before than %d", ev.handle, flag)
	}
	return acl.ACL_SUCCESS
}
