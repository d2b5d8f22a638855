package graph

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
)

// Event marks a place in a stream's work. Each record makes a new mark. A wait is for the latest mark when the wait
// is called.
type Event struct {
	Handle uint64
	ID     uint32
	Device *device.Device
	Flags  uint32
	How    string       // function that created it
	Waits  atomic.Int64 // unfinished waits of streams

	Order sync.Mutex // held while a record is submitted, so that Mark is the last record
	sync.Mutex
	Mark              *device.Mark // last record; nil before the first record and after a reset
	Captured          *Captured
	Recorded, Awaited Use
	Built             *BuiltMark     // last record in a built model
	Level             device.Signal  // state of an external event
	Shared            *memory.Shared // for IPC events
}

const (
	CreateEvent         = "aclrtCreateEvent"
	CreateEventWithFlag = "aclrtCreateEventWithFlag"
	CreateEventEx       = "aclrtCreateEventExWithFlag"

	// MaxEvents limits the synchronizing events on a device.
	MaxEvents  = 65536
	EventFlags = acl.ACL_EVENT_SYNC | acl.ACL_EVENT_CAPTURE_STREAM_PROGRESS | acl.ACL_EVENT_TIME_LINE | acl.ACL_EVENT_DEVICE_USE_ONLY |
		acl.ACL_EVENT_EXTERNAL | acl.ACL_EVENT_IPC
)

func (ev *Event) Last() *device.Mark {
	ev.Lock()
	defer ev.Unlock()
	return ev.Mark
}

// External reports whether the event is a flag. Its records, waits and resets are plain tasks, which graphs repeat;
// they join no stream to a capture.
func (ev *Event) External() bool { return ev.Flags == acl.ACL_EVENT_EXTERNAL }

// Late returns the failure for a wait timeout.
func (ev *Event) Late(s *device.Stream, timeout int32) *fail.Failure {
	return status.Failed(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "stream %d: the wait for event %#x timed out after %d s", s.ID, ev.Handle, timeout)
}

// AwaitShared waits for a record of an IPC event. It returns false if the timer expired first.
func (ev *Event) AwaitShared(n uint32, stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
	x := ev.Shared
	done, f := x.Wait(func(v uint32) bool { return int32(v-n) >= 0 }, func() bool {
		pid := int(x.Recorder.Load())
		st := procstat.Read(pid)
		return pid != 0 && !st.Lives() && !st.Unreadable
	}, stop, expired)
	if f == nil && done && int32(x.Word.Load()-n) >= 0 {
		if code := x.Code.Load(); code != 0 {
			f = status.Failed(acl.Error(code), "event %#x was recorded on a stream that has failed", ev.Handle)
		}
	}
	return done, f
}

// EventOf returns an event for an imported IPC event.
func EventOf(d *device.Device, x *memory.Shared) *Event {
	return &Event{Device: d, Flags: acl.ACL_EVENT_IPC, How: CreateEventEx, Shared: x}
}

// SharedDone reports whether the last record of an IPC event is done.
func (ev *Event) SharedDone() (bool, *fail.Failure) {
	n := ev.Shared.Issued.Load()
	if int32(ev.Shared.Word.Load()-n) < 0 {
		return false, nil
	}
	_, f := ev.AwaitShared(n, nil, nil)
	return true, f
}
