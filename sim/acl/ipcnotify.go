package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
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
	case length < memory.KeySize || length > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d and has to be %d or more", length, memory.KeySize)
	case flags&^acl.ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	s := &n.signal
	s.Mu.Lock()
	defer s.Mu.Unlock()
	switch {
	case s.Shared != nil && !s.Shared.Own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify %d is of another process, which alone can share it", n.id)
	case s.Shared == nil:
		x, f := t.sim.Shares.Offer(memory.SlotNotify, n.dev.ID, flags != 0, func(l *memory.Slot) {
			if s.Is {
				l.Word.Store(1)
			}
		})
		if f != nil {
			return t.failWith(f)
		}
		s.Shared = x
		if !s.Is && s.Wake != nil {
			close(s.Wake) // those who wait go on waiting for the shared flag
		}
	case flags != 0:
		s.Shared.Anyone.Store(1)
	}
	space.PutText(space.List(key, memory.KeySize), memory.TicketKey(s.Shared.Ticket))
	return acl.ACL_SUCCESS
}

// NotifySetImportPid adds processes to those that may use a notify.
func (t *Thread) NotifySetImportPid(h acl.Notify, pid *int32, num uint64) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	n.signal.Mu.Lock()
	x := n.signal.Shared
	n.signal.Mu.Unlock()
	if x == nil || !x.Own {
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
	x, f := t.sim.Shares.Take(ticket, memory.SlotNotify)
	if f != nil {
		return t.failWith(f)
	}
	n := &notify{dev: c.Device}
	n.signal.Shared = x
	if e := t.addNotify(n, h); e != 0 {
		t.sim.Shares.GiveBack(x)
		return e
	}
	if flags != 0 {
		c.Device.Meet(x.DeviceID)
	}
	return acl.ACL_SUCCESS
}
