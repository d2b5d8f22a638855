package sim

import (
	"os"
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
)

// An event for several processes (ACL_EVENT_IPC) counts its records in a slot: a wait is for the last one that any process
// had ordered when the wait was called.

// recordShared records the event in the order of a stream.
func (t *Thread) recordShared(ev *event, s *stream) acl.Error {
	if c := s.program.capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x is for several processes: its record can't be captured", ev.handle)
		c.spoil(f)
		return t.failWith(f)
	}
	x := ev.shared
	ev.order.Lock()
	defer ev.order.Unlock()
	x.recorder.Store(int32(os.Getpid()))
	n := x.issued.Add(1)
	e := t.submit(s, task{kind: taskRecord, always: true, run: func(s *stream) (time.Duration, *failure) {
		code := acl.Error(acl.ACL_SUCCESS)
		if f := s.blocked(); f != nil {
			code = f.code
		}
		s.ctx.dev.sim.strict.TellsOthers(&s.strict)
		x.recorded(n, code)
		return 0, nil
	}})
	if e != 0 {
		x.recorded(n, e) // others may wait for it already
	}
	return e
}

// recorded says that a record is done.
func (x *shared) recorded(n uint32, code acl.Error) {
	x.code.Store(int32(code))
	for {
		v := x.word.Load()
		if int32(v-n) >= 0 || x.word.CompareAndSwap(v, n) {
			break
		}
	}
	x.wakeAll()
}

// awaitShared waits for a record of the event. It tells whether that was before the timer.
func (ev *event) awaitShared(n uint32, stop <-chan struct{}, expired <-chan time.Time) (bool, *failure) {
	x := ev.shared
	done, f := x.wait(func(v uint32) bool { return int32(v-n) >= 0 }, func() bool {
		pid := int(x.recorder.Load())
		return pid != 0 && startOf(pid) == 0
	}, stop, expired)
	if f == nil && done && int32(x.word.Load()-n) >= 0 {
		if code := x.code.Load(); code != 0 {
			f = failed(acl.Error(code), "the stream that event %#x was recorded on has failed", ev.handle)
		}
	}
	return done, f
}

// eventOf is an event that several processes use.
func eventOf(d *npu, x *shared) *event {
	return &event{dev: d, flags: acl.ACL_EVENT_IPC, how: createEventEx, shared: x}
}

// sharedDone tells whether what the event stands for is done.
func (ev *event) sharedDone() (bool, *failure) {
	n := ev.shared.issued.Load()
	if int32(ev.shared.word.Load()-n) < 0 {
		return false, nil
	}
	_, f := ev.awaitShared(n, nil, nil)
	return true, f
}

// waitShared lets the later work of a stream wait for the event.
func (t *Thread) waitShared(s *stream, ev *event, timeout int32) acl.Error {
	if c := s.program.capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, "stream %d is being captured, and event %#x is for several processes", s.id, ev.handle)
		c.spoil(f)
		return t.failWith(f)
	}
	n := ev.shared.issued.Load()
	heard := func(s *stream) (time.Duration, *failure) {
		s.ctx.dev.sim.strict.HearsOthers(&s.strict)
		return 0, nil
	}
	return t.submit(s, task{kind: taskWait, run: heard, begin: func(s *stream) *waiting {
		return &waiting{
			block: func(stop <-chan struct{}, expired <-chan time.Time) (bool, *failure) {
				done, f := ev.awaitShared(n, stop, expired)
				if f != nil && f.code != acl.ACL_ERROR_RT_IPC_ERROR {
					f = nil // as with events of one process: who waits goes on
				}
				return done, f
			},
			limit: time.Duration(timeout) * time.Second,
			late:  func() *failure { return ev.late(s, timeout) },
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
	case !ev.shared.own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x is of another process, which alone can share it", ev.handle)
	}
	device.PutText(handle.Reserved[:], ticketKey(ev.shared.ticket))
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
	x, f := t.sim.shares.take(ticket, slotEvent)
	if f != nil {
		return t.failWith(f)
	}
	x.dev = c.dev
	if e := t.addEvent(eventOf(c.dev, x), event); e != 0 {
		t.sim.shares.giveBack(x)
		return e
	}
	return acl.ACL_SUCCESS
}
