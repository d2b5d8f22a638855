package sim

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
)

// NotifyGetExportKey lets other processes use a notify, and stores the key by which they find it.
func (t *Thread) NotifyGetExportKey(h acl.Notify, key *byte, length, flags uint64) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	switch {
	case key == nil:
		return t.null("key")
	case length < keySize || length > maxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d and has to be %d or more", length, keySize)
	case flags&^acl.ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	s := &n.signal
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shared != nil && !s.shared.own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify %d is of another process, which alone can share it", n.id)
	case s.shared == nil:
		x, f := t.sim.shares.offer(slotNotify, n.dev, flags != 0, func(l *slot) {
			if s.is {
				l.word.Store(1)
			}
		})
		if f != nil {
			return t.failWith(f)
		}
		s.shared = x
		if !s.is && s.wake != nil {
			close(s.wake) // those who wait go on waiting for the shared flag
		}
	case flags != 0:
		s.shared.anyone.Store(1)
	}
	device.PutText(device.List(key, keySize), ticketKey(s.shared.ticket))
	return acl.ACL_SUCCESS
}

// NotifySetImportPid adds processes to those that may use a notify.
func (t *Thread) NotifySetImportPid(h acl.Notify, pid *int32, num uint64) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	n.signal.mu.Lock()
	x := n.signal.shared
	n.signal.mu.Unlock()
	if x == nil || !x.own {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify %d has no key of this process: call aclrtNotifyGetExportKey first", n.id)
	}
	return t.letIn(x, pid, num)
}

// NotifyImportByKey makes a handle of another process's notify.
func (t *Thread) NotifyImportByKey(h *acl.Notify, key *byte, flags uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case h == nil:
		return t.null("notify")
	case flags&^acl.ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	ticket, e := t.ticketOf(key)
	if e != 0 {
		return e
	}
	x, f := t.sim.shares.take(ticket, slotNotify)
	if f != nil {
		return t.failWith(f)
	}
	x.dev = c.dev
	n := &notify{dev: c.dev}
	n.signal.shared = x
	if e := t.addNotify(n, h); e != 0 {
		t.sim.shares.giveBack(x)
		return e
	}
	if flags != 0 {
		c.dev.meet(x.device)
	}
	return acl.ACL_SUCCESS
}
