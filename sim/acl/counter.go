package acl

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// counter is a notify with a value (aclrtCntNotify).
type counter struct {
	handle uint64
	id     uint32

	mu    sync.Mutex
	value uint32
	known strict.Vector // in strict mode: what the streams that have changed it know
	wake  chan struct{} // closed at the next change
}

func (c *counter) change(f func(v uint32) uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value = f(c.value)
	close(c.wake)
	c.wake = make(chan struct{})
}

// CntNotifyCreate makes a counter, 0 at first.
func (t *Thread) CntNotifyCreate(h *acl.CntNotify, flag uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.absent("cntNotify")
	case flag != acl.ACL_NOTIFY_DEFAULT && flag != acl.ACL_NOTIFY_DEVICE_USE_ONLY:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify flag %#x is unknown", flag)
	}
	c := &counter{wake: make(chan struct{})}
	if c.handle = t.sim.counters.Add(c); c.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "too many counting notifies")
	}
	c.id = uint32(c.handle >> 4 & (space.MaxHandles - 1))
	*h = acl.CntNotify(c.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) counter(h acl.CntNotify) (*counter, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	c := t.sim.counters.Get(uint64(h))
	if c == nil {
		return nil, t.badHandle(space.KindCounter, uint64(h))
	}
	return c, acl.ACL_SUCCESS
}

// CntNotifyDestroy ends a counter and does not wait for it.
func (t *Thread) CntNotifyDestroy(h acl.CntNotify) acl.Error {
	if _, e := t.counter(h); e != 0 {
		return e
	}
	t.sim.counters.Remove(uint64(h))
	return acl.ACL_SUCCESS
}

// CntNotifyGetId returns the number of a counter.
func (t *Thread) CntNotifyGetId(h acl.CntNotify, notifyId *uint32) acl.Error {
	c, e := t.counter(h)
	if e != 0 {
		return e
	}
	if notifyId == nil {
		return t.absent("notifyId")
	}
	*notifyId = c.id
	return acl.ACL_SUCCESS
}

// count puts a change of a counter on a stream.
func (t *Thread) count(h acl.CntNotify, on acl.Stream, f func(v uint32) uint32) acl.Error {
	c, e := t.counter(h)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		t.sim.Strict.Tells(&s.Strict, &c.known)
		c.change(f)
		return 0, nil
	}})
}

// CntNotifyRecord changes a counter in the order of a stream.
func (t *Thread) CntNotifyRecord(h acl.CntNotify, on acl.Stream, info *acl.CntNotifyRecordInfo) acl.Error {
	if info == nil {
		return t.null("info")
	}
	n := info.Value
	switch info.Mode {
	case acl.ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
		return t.count(h, on, func(uint32) uint32 { return n })
	case acl.ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
		return t.count(h, on, func(v uint32) uint32 { return v + n })
	case acl.ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
		return t.count(h, on, func(v uint32) uint32 { return v | n })
	case acl.ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
		return t.count(h, on, func(v uint32) uint32 { return v & n })
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "record mode %d is unknown", info.Mode)
}

// CntNotifyReset sets a counter to 0 in the order of a stream.
func (t *Thread) CntNotifyReset(h acl.CntNotify, on acl.Stream) acl.Error {
	return t.count(h, on, func(uint32) uint32 { return 0 })
}

// countMet tells whether a counter is what a stream waits for.
func countMet(have, want uint32, mode acl.CntNotifyWaitMode) bool {
	switch mode {
	case acl.ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
		return have < want
	case acl.ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
		return have == want
	case acl.ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
		return have > want
	case acl.ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
		return have >= want
	}
	return have&want == want
}

// CntNotifyWaitWithTimeout lets the later work of a stream wait for a value of a counter, for so many seconds at most (0 is
// for ever), and sets the counter to 0 if asked to.
func (t *Thread) CntNotifyWaitWithTimeout(h acl.CntNotify, on acl.Stream, info *acl.CntNotifyWaitInfo) acl.Error {
	c, e := t.counter(h)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if info == nil {
		return t.null("info")
	}
	mode, want, clear, limit := info.Mode, info.Value, info.IsClear != 0, time.Duration(info.Timeout)*time.Second
	if mode < acl.ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE || mode > acl.ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait mode %d is unknown", mode)
	}
	heard := func(s *device.Stream) (time.Duration, *fail.Failure) {
		t.sim.Strict.Hears(&s.Strict, &c.known)
		return 0, nil
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: heard, Begin: func(s *device.Stream) *device.Waiting {
		return &device.Waiting{
			Met: func() (bool, <-chan struct{}) {
				c.mu.Lock()
				defer c.mu.Unlock()
				met, wake := countMet(c.value, want, mode), c.wake
				if met && clear {
					c.value = 0
				}
				return met, wake
			},
			Limit: limit,
			Late: func() *fail.Failure {
				return failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d waited %v for counting notify %d", s.ID, limit, c.id)
			},
		}
	}})
}
