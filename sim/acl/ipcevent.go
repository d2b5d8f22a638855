package acl

import (
	"os"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// An event for several processes (ACL_EVENT_IPC) counts its records in a slot: a wait is for the last one that any process
// had ordered when the wait was called.

// recordShared records the event in the order of a stream.
func (t *Thread) recordShared(ev *event, s *device.Stream) acl.Error {
	if c := attached(s).capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is for several processes: its record can't be captured", ev.handle)
		c.spoil(f)
		return t.failWith(f)
	}
	x := ev.shared
	ev.order.Lock()
	defer ev.order.Unlock()
	x.Recorder.Store(int32(os.Getpid()))
	n := x.Issued.Add(1)
	e := t.submit(s, device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		code := acl.Error(acl.ACL_SUCCESS)
		if f := s.Blocked(); f != nil {
			code = errorOf(f)
		}
		s.Context.Device.Machine.Strict.TellsOthers(&s.Strict)
		x.Recorded(n, int32(code))
		return 0, nil
	}})
	if e != 0 {
		x.Recorded(n, int32(e)) // others may wait for it already
	}
	return e
}

// awaitShared waits for a record of the event. It tells whether that was before the timer.
func (ev *event) awaitShared(n uint32, stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
	x := ev.shared
	done, f := x.Wait(func(v uint32) bool { return int32(v-n) >= 0 }, func() bool {
		pid := int(x.Recorder.Load())
		return pid != 0 && memory.StartOf(pid) == 0
	}, stop, expired)
	if f == nil && done && int32(x.Word.Load()-n) >= 0 {
		if code := x.Code.Load(); code != 0 {
			f = failed(acl.Error(code), "the stream that event %#x was recorded on has failed", ev.handle)
		}
	}
	return done, f
}

// eventOf is an event that several processes use.
func eventOf(d *device.Device, x *memory.Shared) *event {
	return &event{dev: d, flags: acl.ACL_EVENT_IPC, how: createEventEx, shared: x}
}

// sharedDone tells whether what the event stands for is done.
func (ev *event) sharedDone() (bool, *fail.Failure) {
	n := ev.shared.Issued.Load()
	if int32(ev.shared.Word.Load()-n) < 0 {
		return false, nil
	}
	_, f := ev.awaitShared(n, nil, nil)
	return true, f
}

// waitShared lets the later work of a stream wait for the event.
func (t *Thread) waitShared(s *device.Stream, ev *event, timeout int32) acl.Error {
	if c := attached(s).capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, "stream %d is being captured, and event %#x is for several processes", s.ID, ev.handle)
		c.spoil(f)
		return t.failWith(f)
	}
	n := ev.shared.Issued.Load()
	heard := func(s *device.Stream) (time.Duration, *fail.Failure) {
		s.Context.Device.Machine.Strict.HearsOthers(&s.Strict)
		return 0, nil
	}
	return t.submit(s, device.Task{Kind: device.TaskWait, Run: heard, Begin: func(s *device.Stream) *device.Waiting {
		return &device.Waiting{
			Block: func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
				done, f := ev.awaitShared(n, stop, expired)
				if f != nil && errorOf(f) != acl.ACL_ERROR_RT_IPC_ERROR {
					f = nil // as with events of one process: who waits goes on
				}
				return done, f
			},
			Limit: time.Duration(timeout) * time.Second,
			Late:  func() *fail.Failure { return ev.late(s, timeout) },
		}
	}})
}

// IpcGetEventHandle stores the handle by which other processes find an event that was made for them.
func (t *Thread) IpcGetEventHandle(event acl.Event, handle *acl.IpcEventHandle) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	switch {
	case handle == nil:
		return t.null("handle")
	case ev.shared == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was not made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC", ev.handle)
	case !ev.shared.Own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x is of another process, which alone can share it", ev.handle)
	}
	space.PutText(handle.Reserved[:], memory.TicketKey(ev.shared.Ticket))
	return acl.ACL_SUCCESS
}

// IpcOpenEventHandle makes an event of another process's.
func (t *Thread) IpcOpenEventHandle(handle acl.IpcEventHandle, event *acl.Event) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if event == nil {
		return t.null("event")
	}
	handle.Reserved[len(handle.Reserved)-1] = 0
	ticket, e := t.ticketOf(&handle.Reserved[0])
	if e != 0 {
		return e
	}
	x, f := t.sim.Shares.Take(ticket, memory.SlotEvent)
	if f != nil {
		return t.failWith(f)
	}
	if e := t.addEvent(eventOf(c.Device, x), event); e != 0 {
		t.sim.Shares.GiveBack(x)
		return e
	}
	return acl.ACL_SUCCESS
}
