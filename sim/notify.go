package sim

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
)

// signal is a flag that tasks of streams set, wait for and clear.
type signal struct {
	mu   sync.Mutex
	is   bool
	wake chan struct{} // closed while the flag is set
	// shared is the flag where other processes have it too, and stands for is from then on.
	shared *shared
	known  strict.Vector // in strict mode: what the streams that have set it know
}

// told and heard are what strict mode is told by a task that sets the flag, and by one that has waited for it.
func (s *signal) told(by *stream) {
	by.ctx.dev.sim.strict.Tells(&by.strict, &s.known)
	if s.end() != nil {
		by.ctx.dev.sim.strict.TellsOthers(&by.strict)
	}
}

func (s *signal) heard(by *stream) (time.Duration, *failure) {
	by.ctx.dev.sim.strict.Hears(&by.strict, &s.known)
	if s.end() != nil {
		by.ctx.dev.sim.strict.HearsOthers(&by.strict)
	}
	return 0, nil
}

func (s *signal) channel() chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

func (s *signal) set() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.set(1)
	} else if !s.is {
		s.is = true
		close(s.channel())
	}
}

func (s *signal) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.set(0)
	} else if s.is {
		s.is, s.wake = false, nil
	}
}

// wait waits until the flag is set, and clears it if the waiter is to take it. It fails where nobody is left who could set it.
func (s *signal) wait(take bool, limit time.Duration, late func() *failure) *waiting {
	w := &waiting{limit: limit, late: late}
	w.met = func() (bool, <-chan struct{}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x := s.shared; x != nil { // perhaps since we last asked
			w.block = func(stop <-chan struct{}, expired <-chan time.Time) (bool, *failure) {
				return x.wait(func(v uint32) bool { return v == 1 && (!take || x.word.CompareAndSwap(1, 0)) }, x.abandoned, stop, expired)
			}
			return false, nil
		}
		if s.is && take {
			s.is, s.wake = false, nil
			return true, nil
		}
		return s.is, s.channel()
	}
	return w
}

// end returns what the flag shares with other processes, nil for nothing.
func (s *signal) end() *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// after is a channel that a timer sends to, never for a time of 0, with the function that ends the timer.
func after(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// notify is a signal between streams, of different devices too: who waits for it clears it.
type notify struct {
	handle uint64
	id     uint32
	dev    *npu
	signal signal
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
	return t.addNotify(&notify{dev: c.dev}, h)
}

// addNotify makes a handle for a notify.
func (t *Thread) addNotify(n *notify, h *acl.Notify) acl.Error {
	if n.handle = t.sim.notifies.Add(n); n.handle != 0 {
		n.id = uint32(n.handle >> 4 & (device.MaxHandles - 1))
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
		return nil, t.badHandle(device.KindNotify, uint64(h))
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
		t.sim.unshare(n.signal.end())
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
	return t.submit(s, task{kind: taskNotify, run: func(s *stream) (time.Duration, *failure) {
		n.signal.told(s)
		n.signal.set()
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
	return t.submit(s, task{kind: taskNotify, run: n.signal.heard, begin: func(s *stream) *waiting {
		return n.signal.wait(!broken("wait_resets"), time.Duration(timeout)*time.Second, func() *failure {
			return failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d waited %d s for notify %d", s.id, timeout, n.id)
		})
	}})
}

// nothing is what a task does that only waits.
func nothing(*stream) (time.Duration, *failure) { return 0, nil }

// NotifyBatchReset clears notifies at once.
func (t *Thread) NotifyBatchReset(notifies *acl.Notify, num uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if notifies == nil || num == 0 || num > maxNotifies {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d notifies at %#x", num, device.AddressOf(notifies))
	}
	var all []*notify
	for _, h := range device.List(notifies, num) {
		n, e := t.notify(h)
		if e != 0 {
			return e
		}
		all = append(all, n)
	}
	for _, n := range all {
		n.signal.clear()
	}
	return acl.ACL_SUCCESS
}
