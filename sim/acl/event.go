package acl

import (
	"cmp"
	"math"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

func (t *Thread) newEvent(h *acl.Event, flag uint32, how string) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.null("event")
	case flag == 0 || flag&^graph.EventFlags != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event flags %#x are unknown", flag)
	case flag&acl.ACL_EVENT_EXTERNAL != 0 && flag != acl.ACL_EVENT_EXTERNAL && !mutant.Breaks("external_flag_alone"):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event flags %#x: ACL_EVENT_EXTERNAL can't be combined with other flags", flag)
	case flag&acl.ACL_EVENT_IPC != 0 && (flag != acl.ACL_EVENT_IPC || how != graph.CreateEventEx):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event flags %#x in %s: an event with ACL_EVENT_IPC needs %s and no other flag", flag, how, graph.CreateEventEx)
	}
	ev := &graph.Event{Device: c.Device, Flags: flag, How: how}
	if flag == acl.ACL_EVENT_IPC {
		x, f := t.sim.Shares.Offer(memory.SlotEvent, c.Device.ID, true, nil)
		if f != nil {
			return t.failWith(f)
		}
		ev.Shared = x
	}
	e = t.addEvent(ev, h)
	if e != 0 {
		t.sim.unshare(ev.Shared)
	}
	return e
}

// addEvent makes a handle for an event.
func (t *Thread) addEvent(ev *graph.Event, h *acl.Event) acl.Error {
	ev.Handle = t.sim.events.Add(ev)
	if ev.Handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_NO_EVENT_RESOURCE, "create an event: the limit is reached")
	}
	ev.ID = uint32(ev.Handle >> 4 & (space.MaxHandles - 1))
	if ev.ID >= graph.MaxEvents && ev.Flags&acl.ACL_EVENT_SYNC != 0 {
		t.sim.events.Remove(ev.Handle)
		return t.fail(acl.ACL_ERROR_RT_NO_EVENT_RESOURCE, "create an event: the device has %d already, the limit", graph.MaxEvents)
	}
	*h = acl.Event(ev.Handle)
	return acl.ACL_SUCCESS
}

// CreateEvent creates an event for timing and stream order.
func (t *Thread) CreateEvent(event *acl.Event) acl.Error {
	return t.newEvent(event, acl.ACL_EVENT_SYNC|acl.ACL_EVENT_TIME_LINE, graph.CreateEvent)
}

// CreateEventWithFlag creates an event for the purposes in flag.
func (t *Thread) CreateEventWithFlag(event *acl.Event, flag uint32) acl.Error {
	return t.newEvent(event, flag, graph.CreateEventWithFlag)
}

// CreateEventExWithFlag creates an event that is recorded repeatedly.
func (t *Thread) CreateEventExWithFlag(event *acl.Event, flag uint32) acl.Error {
	return t.newEvent(event, flag, graph.CreateEventEx)
}

func (t *Thread) event(h acl.Event) (*graph.Event, acl.Error) {
	return find(t, &t.sim.events, uint64(h))
}

// DestroyEvent ends an event and does not wait for it.
func (t *Thread) DestroyEvent(event acl.Event) acl.Error {
	ev, e := end(t, &t.sim.events, uint64(event))
	if e != 0 {
		return e
	}
	t.sim.unshare(ev.Shared)
	return acl.ACL_SUCCESS
}

// RecordEvent lets an event stand for the work that a stream has so far.
func (t *Thread) RecordEvent(event acl.Event, on acl.Stream) acl.Error {
	return t.RecordEventWithFlag(event, on, acl.ACL_EVENT_RECORD_DEFAULT)
}

// RecordEventWithFlag is RecordEvent. ACL_EVENT_RECORD_EXTERNAL requires a captured stream: each execution of the
// graph then records the event for outside waiters.
func (t *Thread) RecordEventWithFlag(event acl.Event, on acl.Stream, flag uint32) acl.Error {
	ev, s, e := withStream(t, t.event, event, on)
	if e != 0 {
		return e
	}
	if ev.Device != s.Context.Device {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x belongs to device %d, but the stream to device %d", ev.Handle, ev.Device.ID, s.Context.Device.ID)
	}
	if e := t.eventUse(ev, &ev.Recorded, flag); e != 0 {
		return e
	}
	if flag == acl.ACL_EVENT_RECORD_EXTERNAL {
		return t.captureOutside(ev, s, &graph.Outside{Event: ev, Record: true})
	}
	if ev.External() {
		return t.submit(s, device.Task{Kind: device.TaskRecord, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			ev.Level.Released(s)
			ev.Level.Set(s)
			return 0, nil
		}})
	}
	if ev.Shared != nil {
		return t.recordShared(ev, s)
	}
	if c := attached(s).Capture.Load(); c != nil {
		if e := t.capturable(ev); e != 0 {
			return e
		}
		return t.captureRecord(c, ev, s)
	}
	if b := attached(s).Bound.Load(); b != nil {
		return t.buildRecord(b, ev, s)
	}
	m := &device.Mark{Done: make(chan struct{})}
	if mutant.Breaks("record_captures_earlier_work") { // it stands for all that the stream will have
		ev.Mark = m
		return acl.ACL_SUCCESS
	}
	ev.Order.Lock()
	defer ev.Order.Unlock()
	e = t.submit(s, device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		m.Time = s.Time / device.Tick * device.Tick
		m.Failure = s.Blocked()
		s.Context.Device.Machine.Strict.Release(&s.Strict, &m.Known)
		close(m.Done)
		return 0, nil
	}})
	if e == 0 {
		ev.Lock()
		ev.Mark, ev.Captured = m, nil
		ev.Unlock()
	}
	return e
}

// ResetEvent clears the last record in stream order.
func (t *Thread) ResetEvent(event acl.Event, on acl.Stream) acl.Error {
	ev, s, e := withStream(t, t.event, event, on)
	if e != 0 {
		return e
	}
	if ev.External() {
		return t.submit(s, device.Task{Kind: device.TaskReset, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			ev.Level.Clear()
			return 0, nil
		}})
	}
	if ev.How != graph.CreateEventWithFlag || ev.Flags&acl.ACL_EVENT_SYNC == 0 {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created by %s with flags %#x: it can't be reset", ev.Handle, ev.How, ev.Flags)
	}
	m := ev.Last()
	return t.submit(s, device.Task{Kind: device.TaskReset, Detail: ev, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
		ev.Lock()
		if ev.Mark == m {
			ev.Mark = nil
		}
		ev.Unlock()
		return 0, nil
	}})
}

func (t *Thread) waitExternal(s *device.Stream, ev *graph.Event, timeout int32) acl.Error {
	return t.submit(s, device.Task{Kind: device.TaskWait, Run: ev.Level.Acquired, Begin: func(s *device.Stream) *device.Waiting {
		return ev.Level.Wait(false, time.Duration(timeout)*time.Second, func() *fail.Failure { return ev.Late(s, timeout) })
	}})
}

// eventFree rejects the query of a captured event, and invalidates the capture.
func (t *Thread) eventFree(ev *graph.Event) acl.Error {
	r := ev.InCapture()
	if r == nil || mutant.Breaks("captured_event") {
		return acl.ACL_SUCCESS
	}
	f := status.Failed(acl.ACL_ERROR_RT_EVENT_CAPTURED, "event %#x was recorded in a capture that has not ended", ev.Handle)
	r.Capture.Spoil(f)
	return t.failWith(f)
}

// eventDone reports whether the last record is done.
func (t *Thread) eventDone(ev *graph.Event) (bool, acl.Error) {
	if ev.External() {
		return false, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is external: the host can't query it", ev.Handle)
	}
	if e := t.eventFree(ev); e != 0 {
		return false, e
	}
	if ev.Shared != nil {
		done, f := ev.SharedDone()
		if f != nil {
			return false, t.failWith(f)
		}
		if done {
			t.sim.Strict.AcquireOthers(nil)
		}
		return done, acl.ACL_SUCCESS
	}
	m := ev.Last()
	if m == nil {
		return true, acl.ACL_SUCCESS
	}
	if !m.Complete() || !t.sim.Clock.Past(&t.HostThread, m.Time) {
		return false, acl.ACL_SUCCESS
	}
	t.sim.Strict.Knows(&t.Strict, &m.Known)
	return true, t.result(m.Failure)
}

// QueryEvent reports whether the last record is done (old interface).
func (t *Thread) QueryEvent(event acl.Event, status *acl.EventStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	if status != nil && ev.How == graph.CreateEventEx {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created by %s: query it with aclrtQueryEventStatus", ev.Handle, ev.How)
	}
	return storeStatus(t, ev, status, acl.ACL_EVENT_STATUS_NOT_READY, acl.ACL_EVENT_STATUS_COMPLETE)
}

// QueryEventStatus reports whether the last record is done.
func (t *Thread) QueryEventStatus(event acl.Event, status *acl.EventRecordedStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	return storeStatus(t, ev, status, acl.ACL_EVENT_RECORDED_STATUS_NOT_READY, acl.ACL_EVENT_RECORDED_STATUS_COMPLETE)
}

// storeStatus stores whether the last record is done.
func storeStatus[S any](t *Thread, ev *graph.Event, status *S, notReady, complete S) acl.Error {
	if status == nil {
		return t.null("status")
	}
	done, e := t.eventDone(ev)
	if *status = notReady; done {
		*status = complete
	}
	return e
}

// QueryEventWaitStatus reports whether all submitted waits for the event are done.
func (t *Thread) QueryEventWaitStatus(event acl.Event, status *acl.EventWaitStatus) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	switch {
	case status == nil:
		return t.null("status")
	case ev.How == graph.CreateEventEx || ev.Flags&acl.ACL_EVENT_SYNC == 0:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created by %s with flags %#x: it has no wait status", ev.Handle, ev.How, ev.Flags)
	}
	*status = acl.ACL_EVENT_WAIT_STATUS_COMPLETE
	if ev.Waits.Load() > 0 {
		*status = acl.ACL_EVENT_WAIT_STATUS_NOT_READY
	} else if m := ev.Last(); m != nil && m.Complete() {
		t.sim.Strict.Knows(&t.Strict, &m.Known)
	}
	return acl.ACL_SUCCESS
}

// SynchronizeEvent waits for the last record.
func (t *Thread) SynchronizeEvent(event acl.Event) acl.Error {
	return t.syncEvent(event, device.Forever)
}

// SynchronizeEventWithTimeout waits for the last record, at most so many milliseconds.
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
	if ev.External() {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is external: the host can't wait for it", ev.Handle)
	}
	if e := t.eventFree(ev); e != 0 {
		return e
	}
	if ev.Shared != nil {
		expired, stop := device.After(max(0, limit))
		if limit == 0 {
			expired = time.After(0)
		}
		defer stop()
		done, f := ev.AwaitShared(ev.Shared.Issued.Load(), nil, expired)
		switch {
		case !done:
			return t.fail(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "event %#x did not complete within %v", ev.Handle, limit)
		case f != nil:
			return t.failWith(f)
		}
		t.sim.Strict.AcquireOthers(nil)
		return acl.ACL_SUCCESS
	}
	m := ev.Last()
	if m == nil {
		return acl.ACL_SUCCESS
	}
	since := t.Time
	if !m.Complete() && !t.sim.Clock.Wait(&t.HostThread, m.Done, limit) {
		return t.fail(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "event %#x did not complete within %v", ev.Handle, limit)
	}
	t.sim.Clock.Reach(&t.HostThread, m.Time)
	t.sim.Waited(&t.HostThread, since)
	t.sim.Strict.Knows(&t.Strict, &m.Known)
	return t.result(cmp.Or(m.Failure, t.sim.lost(ev.Device)))
}

// stamp returns the device time of an event.
func (t *Thread) stamp(h acl.Event) (time.Duration, acl.Error) {
	ev, e := t.event(h)
	if e != 0 {
		return 0, e
	}
	m := ev.Last()
	switch {
	case ev.Flags&acl.ACL_EVENT_TIME_LINE == 0:
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %#x was created without ACL_EVENT_TIME_LINE: it has no time", ev.Handle)
	case m == nil:
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %#x was not recorded", ev.Handle)
	case !m.Complete():
		return 0, t.fail(acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, "event %#x is not complete", ev.Handle)
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
	if b < a {
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

func (t *Thread) GetEventId(event acl.Event, eventId *uint32) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	return put(t, "eventId", eventId, ev.ID)
}

// StreamWaitEvent lets later work on a stream wait for an event.
func (t *Thread) StreamWaitEvent(stream acl.Stream, event acl.Event) acl.Error {
	return t.StreamWaitEventWithTimeout(stream, event, int32(min(t.sim.settings.waitTimeout.Load(), math.MaxInt32)))
}

// StreamWaitEventWithTimeout lets later work on a stream wait for an event, at most so many seconds; 0 for no limit.
// An event without a record is not waited for.
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout is %d: want seconds, or 0 for no limit", timeout)
	}
	if e := t.eventUse(ev, &ev.Awaited, flag); e != 0 {
		return e
	}
	switch {
	case flag == acl.ACL_EVENT_WAIT_EXTERNAL:
		return t.captureOutside(ev, s, &graph.Outside{Event: ev, Record: false})
	case ev.External():
		return t.waitExternal(s, ev, timeout)
	case ev.Shared != nil:
		return t.waitShared(s, ev, timeout)
	case ev.Flags&acl.ACL_EVENT_SYNC == 0:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created without ACL_EVENT_SYNC: streams can't wait for it", ev.Handle)
	}
	if done, e := t.captureWait(s, ev); done {
		return e
	}
	if b := attached(s).Bound.Load(); b != nil {
		return t.buildWait(b, ev, s)
	}
	m := ev.Last()
	ev.Waits.Add(1)
	release := func() { ev.Waits.Add(-1) }
	return t.submit(s, device.Task{Kind: device.TaskWait, Release: release,
		Begin: func(s *device.Stream) *device.Waiting {
			if mutant.Breaks("wait_is_for_the_last_record") {
				m = ev.Last()
			}
			if m == nil {
				return nil
			}
			return m.Wait(time.Duration(timeout)*time.Second, func() *fail.Failure { return ev.Late(s, timeout) })
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			if m != nil {
				s.Context.Device.Machine.Strict.Acquire(&s.Strict, &m.Known)
			}
			return 0, nil
		}})
}

// StreamWaitEventWithFlag is StreamWaitEventWithTimeout. ACL_EVENT_WAIT_EXTERNAL requires a captured stream: each
// execution of the graph then waits for the last outside record.
func (t *Thread) StreamWaitEventWithFlag(on acl.Stream, event acl.Event, timeout, flag uint32) acl.Error {
	switch {
	case flag == acl.ACL_EVENT_WAIT_EXTERNAL && timeout != 0:
		return t.invalid("timeout is %d: want 0, because a wait for an external event has no limit", timeout)
	case timeout > math.MaxInt32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout is %d: want 1 to %[2]d seconds, or 0 for no limit", timeout, math.MaxInt32)
	}
	return t.waitEvent(on, event, int32(timeout), flag)
}

// eventUse checks the flag of a record or a wait.
func (t *Thread) eventUse(ev *graph.Event, u *graph.Use, flag uint32) acl.Error {
	switch {
	case flag > acl.ACL_EVENT_RECORD_EXTERNAL:
		return t.invalid("flag %d is unknown", flag)
	case flag == acl.ACL_EVENT_RECORD_EXTERNAL && (ev.How != graph.CreateEventEx || ev.Flags != acl.ACL_EVENT_SYNC):
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created by %s with flags %#x: external records and waits need an event of %s with only ACL_EVENT_SYNC", ev.Handle, ev.How, ev.Flags, graph.CreateEventEx)
	case !u.Settle(flag):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x was used with a flag other than %d before", ev.Handle, flag)
	}
	return acl.ACL_SUCCESS
}
