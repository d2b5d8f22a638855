package acl

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
)

// CreateNotify makes a notify, not set.
func (t *Thread) CreateNotify(h *acl.Notify, flag uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.null("notify")
	case flag != acl.ACL_NOTIFY_DEFAULT && flag != acl.ACL_NOTIFY_DEVICE_USE_ONLY:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify flag %#x is unknown", flag)
	}
	return t.addNotify(&notify{dev: c.Device}, h)
}

// addNotify makes a handle for a notify.
func (t *Thread) addNotify(n *notify, h *acl.Notify) acl.Error {
	if n.handle = t.sim.notifies.Add(n); n.handle != 0 {
		n.id = uint32(n.handle >> 4 & (space.MaxHandles - 1))
	}
	if n.handle == 0 || n.id >= maxNotifies {
		t.sim.notifies.Remove(n.handle)
		return t.fail(acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "create a notify: the process has %d already, the limit", maxNotifies)
	}
	*h = acl.Notify(n.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) notify(h acl.Notify) (*notify, acl.Error) {
	return find(t, &t.sim.notifies, uint64(h))
}

// DestroyNotify ends a notify and does not wait for it.
func (t *Thread) DestroyNotify(h acl.Notify) acl.Error {
	n, e := end(t, &t.sim.notifies, uint64(h))
	if e != 0 {
		return e
	}
	t.sim.unshare(n.signal.End())
	return acl.ACL_SUCCESS
}

func (t *Thread) GetNotifyId(h acl.Notify, notifyId *uint32) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	return put(t, "notifyId", notifyId, n.id)
}

// RecordNotify sets a notify in stream order. A set notify stays set.
func (t *Thread) RecordNotify(h acl.Notify, on acl.Stream) acl.Error {
	n, s, e := withStream(t, t.notify, h, on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		n.signal.Released(s)
		n.signal.Set(s)
		return 0, nil
	}})
}

// WaitAndResetNotify lets later work on a stream wait for a notify, and clears it. It waits at most so many seconds;
// 0 for no limit.
func (t *Thread) WaitAndResetNotify(h acl.Notify, on acl.Stream, timeout uint32) acl.Error {
	n, s, e := withStream(t, t.notify, h, on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: n.signal.Acquired, Begin: func(s *device.Stream) *device.Waiting {
		return n.signal.Wait(!mutant.Breaks("wait_resets"), time.Duration(timeout)*time.Second, func() *fail.Failure {
			return status.Failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d: the wait for notify %d timed out after %d s", s.ID, n.id, timeout)
		})
	}})
}

// NotifyBatchReset clears notifies at once.
func (t *Thread) NotifyBatchReset(notifies *acl.Notify, num uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if notifies == nil || num == 0 || num > maxNotifies {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d notifies at %#x: want an address and 1 to %d notifies", num, space.AddressOf(notifies), maxNotifies)
	}
	var all []*notify
	for _, h := range space.List(notifies, num) {
		n, e := t.notify(h)
		if e != 0 {
			return e
		}
		all = append(all, n)
	}
	for _, n := range all {
		n.signal.Clear()
	}
	return acl.ACL_SUCCESS
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
		return t.fail(acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "create a counting notify: the limit is reached")
	}
	c.id = uint32(c.handle >> 4 & (space.MaxHandles - 1))
	*h = acl.CntNotify(c.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) counter(h acl.CntNotify) (*counter, acl.Error) {
	return find(t, &t.sim.counters, uint64(h))
}

// CntNotifyDestroy ends a counter and does not wait for it.
func (t *Thread) CntNotifyDestroy(h acl.CntNotify) acl.Error {
	_, e := end(t, &t.sim.counters, uint64(h))
	return e
}

// CntNotifyGetId returns the counter id.
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

// count submits a change to a counter.
func (t *Thread) count(h acl.CntNotify, on acl.Stream, f func(v uint32) uint32) acl.Error {
	c, s, e := withStream(t, t.counter, h, on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		t.sim.Strict.Release(&s.Strict, &c.known)
		c.change(f)
		return 0, nil
	}})
}

// CntNotifyRecord changes a counter in stream order.
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

// CntNotifyReset sets a counter to 0 in stream order.
func (t *Thread) CntNotifyReset(h acl.CntNotify, on acl.Stream) acl.Error {
	return t.count(h, on, func(uint32) uint32 { return 0 })
}

// countMet reports whether a counter satisfies a wait.
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

// CntNotifyWaitWithTimeout lets later work on a stream wait for a counter value, and optionally clears the counter.
// It waits at most so many seconds; 0 for no limit.
func (t *Thread) CntNotifyWaitWithTimeout(h acl.CntNotify, on acl.Stream, info *acl.CntNotifyWaitInfo) acl.Error {
	c, s, e := withStream(t, t.counter, h, on)
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
		t.sim.Strict.Acquire(&s.Strict, &c.known)
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
				return status.Failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d: the wait for counting notify %d timed out after %v", s.ID, c.id, limit)
			},
		}
	}})
}

// valueArgs checks the common arguments of value writes and waits.
func (t *Thread) valueArgs(addr acl.Addr, on acl.Stream) (*device.Stream, acl.Error) {
	s, e := t.stream(on)
	if e != 0 {
		return nil, e
	}
	switch {
	case addr == 0:
		return nil, t.null("devAddr")
	case addr%8 != 0:
		return nil, t.fail(acl.ACL_ERROR_RT_ADDR_UNALIGNED, "address %#x is not a multiple of 8", addr)
	case t.sim.Locate(addr).Device == nil:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not in device memory", addr)
	}
	return s, acl.ACL_SUCCESS
}

// cell returns a word of device memory, which streams of any device may use at the same time.
func cell(s *device.Stream, addr uint64, access uint32) (*uint64, *fail.Failure) {
	if err := s.Context.Device.Check(addr, 8, access); err != nil {
		return nil, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "value task on stream %d: %v", s.ID, err)
	}
	return (*uint64)(space.Pointer(addr)), nil
}

// ValueWrite stores a word in device memory in stream order.
func (t *Thread) ValueWrite(devAddr acl.Addr, value uint64, flag uint32, on acl.Stream) acl.Error {
	s, e := t.valueArgs(devAddr, on)
	if e != 0 {
		return e
	}
	if flag != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag is %d: want 0", flag)
	}
	k, _ := t.valueTask(&graph.ValueTask{Addr: devAddr, Value: value})
	return t.submit(s, k)
}

// valueTask is the task that writes a word, or waits for one. Its address is checked.
func (t *Thread) valueTask(v *graph.ValueTask) (device.Task, acl.Error) {
	switch {
	case v.Addr == 0 || v.Addr%8 != 0 || t.sim.Locate(v.Addr).Device == nil:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not that of an aligned word in device memory", v.Addr)
	case v.Flag > acl.ACL_STREAM_WAIT_VALUE_NOR:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait flag %d is unknown", v.Flag)
	case !v.Waits:
		return device.Task{Kind: device.TaskValue, Detail: v, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			p, f := cell(s, v.Addr, space.Write)
			if f != nil {
				return 0, f
			}
			s.Context.Device.Machine.Strict.TaskWord(&s.Strict, v.Addr, true)
			atomic.StoreUint64(p, v.Value)
			s.Context.Device.Machine.MarkKnown(v.Addr, 8)
			return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
		}}, acl.ACL_SUCCESS
	}
	return device.Task{Kind: device.TaskValue, Detail: v,
		Begin: func(s *device.Stream) *device.Waiting {
			return &device.Waiting{Met: func() (bool, <-chan struct{}) {
				p, f := cell(s, v.Addr, space.Read)
				return f != nil || valueMet(atomic.LoadUint64(p), v.Value, v.Flag), nil // Run reports the failure
			}}
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			_, f := cell(s, v.Addr, space.Read)
			s.Context.Device.Machine.Strict.TaskWord(&s.Strict, v.Addr, false)
			return 0, f
		}}, acl.ACL_SUCCESS
}

// valueMet reports whether a word satisfies a wait.
func valueMet(have, want uint64, flag uint32) bool {
	switch flag {
	case acl.ACL_STREAM_WAIT_VALUE_GEQ:
		return int64(have-want) >= 0
	case acl.ACL_STREAM_WAIT_VALUE_EQ:
		return have == want
	case acl.ACL_STREAM_WAIT_VALUE_AND:
		return have&want != 0
	}
	return have|want != math.MaxUint64
}

// ValueWait lets later work on a stream wait for a word in device memory.
func (t *Thread) ValueWait(devAddr acl.Addr, value uint64, flag uint32, on acl.Stream) acl.Error {
	s, e := t.valueArgs(devAddr, on)
	if e != 0 {
		return e
	}
	if flag > acl.ACL_STREAM_WAIT_VALUE_NOR {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait flag %d is unknown", flag)
	}
	k, _ := t.valueTask(&graph.ValueTask{Addr: devAddr, Value: value, Flag: flag, Waits: true})
	return t.submit(s, k)
}
