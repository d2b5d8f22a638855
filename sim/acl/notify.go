package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// notify is a signal between streams, of different devices too: who waits for it clears it.
type notify struct {
	handle uint64
	id     uint32
	dev    *device.Device
	signal device.Signal
}

// maxNotifies is the number of notifies of a device.
const maxNotifies = 8192

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
		return t.fail(acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "there are %d notifies already", maxNotifies)
	}
	*h = acl.Notify(n.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) notify(h acl.Notify) (*notify, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	n := t.sim.notifies.Get(uint64(h))
	if n == nil {
		return nil, t.badHandle(space.KindNotify, uint64(h))
	}
	return n, acl.ACL_SUCCESS
}

// DestroyNotify ends a notify and does not wait for it.
func (t *Thread) DestroyNotify(h acl.Notify) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	if t.sim.notifies.Remove(uint64(h)) != nil {
		t.sim.unshare(n.signal.End())
	}
	return acl.ACL_SUCCESS
}

// GetNotifyId returns the number of a notify.
func (t *Thread) GetNotifyId(h acl.Notify, notifyId *uint32) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	if notifyId == nil {
		return t.null("notifyId")
	}
	*notifyId = n.id
	return acl.ACL_SUCCESS
}

// RecordNotify sets a notify in the order of a stream. A notify that is set stays so.
func (t *Thread) RecordNotify(h acl.Notify, on acl.Stream) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		n.signal.Told(s)
		n.signal.Set()
		return 0, nil
	}})
}

// WaitAndResetNotify lets the later work of a stream wait for a notify, for so many seconds at most (0 is for ever), and
// clears it.
func (t *Thread) WaitAndResetNotify(h acl.Notify, on acl.Stream, timeout uint32) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskNotify, Run: n.signal.Heard, Begin: func(s *device.Stream) *device.Waiting {
		return n.signal.Wait(!mutant.Breaks("wait_resets"), time.Duration(timeout)*time.Second, func() *fail.Failure {
			return failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d waited %d s for notify %d", s.ID, timeout, n.id)
		})
	}})
}

// NotifyBatchReset clears notifies at once.
func (t *Thread) NotifyBatchReset(notifies *acl.Notify, num uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if notifies == nil || num == 0 || num > maxNotifies {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d notifies at %#x", num, space.AddressOf(notifies))
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
