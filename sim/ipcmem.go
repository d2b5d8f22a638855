package sim

import (
	"errors"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
	"golang.org/x/sys/unix"
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
	case length != keySize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d and has to be %d", length, keySize)
	case flags&^acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	case size == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "0 bytes of memory")
	}
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock() // so that it is not freed meanwhile
	r, ok := d.mem.live.Find(devPtr)
	switch {
	case !ok:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x lie in no allocation", size, devPtr)
	case r.V.how != byMalloc || !r.Holds(devPtr, size):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x do not lie in one allocation of aclrtMalloc", size, devPtr)
	case d.mem.fd < 0 || devPtr < d.mem.base || devPtr+size > d.mem.end:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%#x was placed outside the memory of the device: it can't be shared", devPtr)
	}
	x, f := t.sim.shares.offer(slotMemory, d, flags != 0, func(l *slot) {
		l.fd, l.offset, l.size = int32(d.mem.fd), devPtr-d.mem.base, size
	})
	if f != nil {
		return t.failWith(f)
	}
	x.memory = device.Span{Addr: devPtr, Size: size}
	t.sim.expose(x.memory, x, nil)
	device.PutText(device.List(key, length), ticketKey(x.ticket))
	return acl.ACL_SUCCESS
}

// ownByKey returns what this process shares by a key.
func (t *Thread) ownByKey(key *byte, kind slotKind) (*shared, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	ticket, e := t.ticketOf(key)
	if e != 0 {
		return nil, e
	}
	x := t.sim.shares.mine(ticket, kind)
	if x == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process shares no %s by the key %s", kind, ticketKey(ticket))
	}
	return x, acl.ACL_SUCCESS
}

// IpcMemSetImportPid adds processes to those that may use shared memory.
func (t *Thread) IpcMemSetImportPid(key *byte, pid *int32, num uint64) acl.Error {
	x, e := t.ownByKey(key, slotMemory)
	if e != 0 {
		return e
	}
	return t.letIn(x, pid, num)
}

func (t *Thread) letIn(x *shared, pid *int32, num uint64) acl.Error {
	pids, e := t.pidList(pid, num)
	if e != 0 {
		return e
	}
	if f := t.sim.shares.allow(x, pids); f != nil {
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
	x, f := t.sim.shares.take(ticket, slotMemory)
	if f != nil {
		return t.failWith(f)
	}
	addr, f := c.dev.mem.mapShared(x)
	if f != nil {
		t.sim.shares.giveBack(x)
		return t.failWith(f)
	}
	x.dev = c.dev
	t.sim.unknowns.any.Store(true)
	if flags != 0 {
		c.dev.meet(x.device)
	}
	t.sim.strict.Gets(&t.strict, addr, x.size, strict.ImportedMemory)
	*devPtr = addr
	return acl.ACL_SUCCESS
}

// meet gives a device access to the memory of another one.
func (d *npu) meet(other int32) {
	if other != d.id && other >= 0 && other < MaxDevices {
		d.peers.Or(1 << other)
	}
}

// mapShared maps another process's memory among the reserved addresses.
func (m *memory) mapShared(x *shared) (uint64, *failure) {
	from := x.offset / device.PageSize * device.PageSize
	length := device.RoundUp(x.offset+x.size, device.PageSize) - from
	fd, err := x.openFile()
	if err != nil {
		return 0, failed(acl.ACL_ERROR_RT_IPC_ERROR, "the memory of process %d can't be opened: %v", x.pid, err)
	}
	defer unix.Close(fd)
	m.mu.Lock()
	defer m.mu.Unlock()
	at, f := m.takeAddresses(length, 0)
	if f != nil {
		return 0, f
	}
	if _, err := unix.MmapPtr(fd, int64(from), device.Pointer(at), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		m.taken.Remove(at)
		m.giveBack(device.Span{Addr: at, Size: length})
		return 0, failed(acl.ACL_ERROR_RT_IPC_ERROR, "the memory of process %d can't be mapped: %v", x.pid, err)
	}
	x.memory = device.Span{Addr: at + x.offset - from, Size: x.size}
	m.hasShared.Store(true)
	m.live.Insert(device.Region[block]{Span: x.memory, V: block{how: byImport, access: device.Read | device.Write, shared: x}})
	return x.memory.Addr, nil
}

// unmapShared ends what mapShared began.
func (m *memory) unmapShared(x *shared) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.live.Find(x.memory.Addr); !ok || r.V.shared != x {
		return
	}
	m.live.Remove(x.memory.Addr)
	m.remember(x.memory)
	at := x.memory.Addr / device.PageSize * device.PageSize
	r, _ := m.taken.Remove(at)
	m.giveBack(r.Span)
}

// errSharedGone says that memory of another process may no longer be used.
var errSharedGone = errors.New("the process that shares the memory has freed it or closed its key")

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
	if x := t.sim.shares.mine(ticket, slotMemory); x != nil {
		if x.inUse() {
			t.sim.log("device memory at %#x is closed while another process still uses it", x.memory.Addr)
		}
		t.sim.shares.withdraw(x)
		return acl.ACL_SUCCESS
	}
	x := t.sim.shares.imported(ticket)
	if x == nil || x.kind != slotMemory || !t.sim.shares.giveBack(x) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process has no memory by the key %s", ticketKey(ticket))
	}
	t.sim.strict.Gone(&t.strict, x.memory.Addr, strict.ImportedMemory)
	x.dev.mem.unmapShared(x)
	return acl.ACL_SUCCESS
}
