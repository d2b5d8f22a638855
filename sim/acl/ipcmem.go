package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// IpcMemGetExportKey lets other processes use device memory, and stores the key by which they find it. The memory ends for
// them too when it is freed.
func (t *Thread) IpcMemGetExportKey(devPtr acl.Addr, size uint64, key *byte, length, flags uint64) acl.Error {
	d, e := t.owner(devPtr)
	if e != 0 {
		return e
	}
	switch {
	case key == nil:
		return t.null("key")
	case length != memory.KeySize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d and has to be %d", length, memory.KeySize)
	case flags&^acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	case size == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "0 bytes of memory")
	}
	d.Memory.Mu.Lock()
	defer d.Memory.Mu.Unlock() // so that it is not freed meanwhile
	r, ok := d.Memory.Live.Find(devPtr)
	switch {
	case !ok:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x lie in no allocation", size, devPtr)
	case r.V.How != memory.ByMalloc || !r.Holds(devPtr, size):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x do not lie in one allocation of aclrtMalloc", size, devPtr)
	case d.Memory.FD < 0 || devPtr < d.Memory.Base || devPtr+size > d.Memory.End:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%#x was placed outside the memory of the device: it can't be shared", devPtr)
	}
	x, f := t.sim.Shares.Offer(memory.SlotMemory, d.ID, flags != 0, func(l *memory.Slot) {
		l.FD, l.Offset, l.Size = int32(d.Memory.FD), devPtr-d.Memory.Base, size
	})
	if f != nil {
		return t.failWith(f)
	}
	x.Memory = space.Span{Addr: devPtr, Size: size}
	t.sim.Expose(x.Memory, x, nil)
	space.PutText(space.List(key, length), memory.TicketKey(x.Ticket))
	return acl.ACL_SUCCESS
}

// ownByKey returns what this process shares by a key.
func (t *Thread) ownByKey(key *byte, kind memory.SlotKind) (*memory.Shared, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	ticket, e := t.ticketOf(key)
	if e != 0 {
		return nil, e
	}
	x := t.sim.Shares.Mine(ticket, kind)
	if x == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process shares no %s by the key %s", kind, memory.TicketKey(ticket))
	}
	return x, acl.ACL_SUCCESS
}

// IpcMemSetImportPid adds processes to those that may use shared memory.
func (t *Thread) IpcMemSetImportPid(key *byte, pid *int32, num uint64) acl.Error {
	x, e := t.ownByKey(key, memory.SlotMemory)
	if e != 0 {
		return e
	}
	return t.letIn(x, pid, num)
}

func (t *Thread) letIn(x *memory.Shared, pid *int32, num uint64) acl.Error {
	pids, e := t.pidList(pid, num)
	if e != 0 {
		return e
	}
	if f := t.sim.Shares.Allow(x, pids); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// IpcMemImportByKey maps memory that another process shares. Where it lies on another device, the current one reaches it
// after aclrtDeviceEnablePeerAccess, or at once if the flags say so.
func (t *Thread) IpcMemImportByKey(devPtr *acl.Addr, key *byte, flags uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case devPtr == nil:
		return t.null("devPtr")
	case flags&^acl.ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	ticket, e := t.ticketOf(key)
	if e != 0 {
		return e
	}
	x, f := t.sim.Shares.Take(ticket, memory.SlotMemory)
	if f != nil {
		return t.failWith(f)
	}
	addr, f := c.Device.Memory.MapShared(x)
	if f != nil {
		t.sim.Shares.GiveBack(x)
		return t.failWith(f)
	}
	t.sim.Unknowns.Any.Store(true)
	if flags != 0 {
		c.Device.Meet(x.DeviceID)
	}
	t.sim.Strict.Gets(&t.Strict, addr, x.Size, strict.ImportedMemory)
	*devPtr = addr
	return acl.ACL_SUCCESS
}

// IpcMemClose ends the sharing of memory on the side that calls it: in a process that imported it the address is gone, in the
// one that shares it nobody can import it any more.
func (t *Thread) IpcMemClose(key *byte) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	ticket, e := t.ticketOf(key)
	if e != 0 {
		return e
	}
	if x := t.sim.Shares.Mine(ticket, memory.SlotMemory); x != nil {
		if x.InUse() {
			t.sim.Log("device memory at %#x is closed while another process still uses it", x.Memory.Addr)
		}
		t.sim.Shares.Withdraw(x)
		return acl.ACL_SUCCESS
	}
	x := t.sim.Shares.Imported(ticket)
	if x == nil || x.Kind != memory.SlotMemory || !t.sim.Shares.GiveBack(x) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process has no memory by the key %s", memory.TicketKey(ticket))
	}
	t.sim.Strict.Gone(&t.Strict, x.Memory.Addr, strict.ImportedMemory)
	x.Unmap()
	return acl.ACL_SUCCESS
}
