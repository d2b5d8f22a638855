package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// export lets other processes import physical memory, once for each handle.
func (t *Thread) export(handle acl.DrvMemHandle, flags uint64) (*memory.Shared, acl.Error) {
	p, e := t.physical(handle)
	if e != 0 {
		return nil, e
	}
	if flags&^acl.ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0 {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	m := p.Memory
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if p.Shared != nil {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "physical memory %#x is shared already", p.Handle)
	}
	x, f := t.sim.Shares.Offer(memory.SlotPhysical, m.ID, flags != 0, func(l *memory.Slot) {
		l.FD, l.Size, l.Prop = int32(p.FD), p.Size, p.Prop
	})
	if f != nil {
		return nil, t.failWith(f)
	}
	p.Shared = x
	t.sim.Expose(space.Span{}, x, p)
	return x, acl.ACL_SUCCESS
}

// MemExportToShareableHandle lets other processes import physical memory.
func (t *Thread) MemExportToShareableHandle(handle acl.DrvMemHandle, handleType acl.MemHandleType, flags uint64, shareableHandle *uint64) acl.Error {
	switch {
	case shareableHandle == nil:
		return t.null("shareableHandle")
	case handleType != acl.ACL_MEM_HANDLE_TYPE_NONE:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "handle type %d has to be ACL_MEM_HANDLE_TYPE_NONE", handleType)
	}
	x, e := t.export(handle, flags)
	if e != 0 {
		return e
	}
	*shareableHandle = x.Ticket
	return acl.ACL_SUCCESS
}

// shareType refuses handles for other servers, which the simulated device does not have.
func (t *Thread) shareType(s acl.MemSharedHandleType, handle acl.Addr) acl.Error {
	switch {
	case handle == 0:
		return t.null("shareableHandle")
	case s == acl.ACL_MEM_SHARE_HANDLE_TYPE_FABRIC:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the device shares no memory with other servers")
	case s != acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "share type %d is unknown", s)
	}
	return acl.ACL_SUCCESS
}

// MemExportToShareableHandleV2 is MemExportToShareableHandle for a type of handle.
func (t *Thread) MemExportToShareableHandleV2(handle acl.DrvMemHandle, flags uint64, shareType acl.MemSharedHandleType, shareableHandle acl.Addr) acl.Error {
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	return t.MemExportToShareableHandle(handle, acl.ACL_MEM_HANDLE_TYPE_NONE, flags, (*uint64)(space.Pointer(shareableHandle)))
}

// MemSetPidToShareableHandle adds processes to those that may import physical memory.
func (t *Thread) MemSetPidToShareableHandle(shareableHandle uint64, pid *int32, pidNum uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	x := t.sim.Shares.Mine(shareableHandle, memory.SlotPhysical)
	if x == nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process shares no physical memory as %#x", shareableHandle)
	}
	return t.letIn(x, pid, pidNum)
}

// MemSetPidToShareableHandleV2 is MemSetPidToShareableHandle for a type of handle.
func (t *Thread) MemSetPidToShareableHandleV2(shareableHandle acl.Addr, shareType acl.MemSharedHandleType, pid *int32, pidNum uint64) acl.Error {
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	return t.MemSetPidToShareableHandle(*(*uint64)(space.Pointer(shareableHandle)), pid, pidNum)
}

// MemImportFromShareableHandle makes a handle of another process's physical memory, to be mapped on a device. The memory lives
// until all processes have freed it.
func (t *Thread) MemImportFromShareableHandle(shareableHandle uint64, deviceId int32, handle *acl.DrvMemHandle) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	d, e := t.device(deviceId)
	if e != 0 {
		return e
	}
	if handle == nil {
		return t.null("handle")
	}
	if pid := shareableHandle >> (memory.TicketRandom + memory.TicketSlot); pid == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no shareable handle", shareableHandle)
	}
	x, f := t.sim.Shares.Take(shareableHandle, memory.SlotPhysical)
	if f != nil {
		return t.failWith(f)
	}
	fd, err := x.OpenFile()
	if err != nil {
		t.sim.Shares.GiveBack(x)
		return t.fail(acl.ACL_ERROR_RT_IPC_ERROR, "the memory of process %d can't be opened: %v", x.Pid, err)
	}
	space.KeepDescriptor(fd, true)
	p := &memory.Physical{Memory: &d.Memory, Size: x.Size, Prop: x.Prop, FD: fd, Shared: x}
	p.Refs.Store(1)
	t.sim.Unknowns.Any.Store(true)
	if p.Handle = t.sim.physicals.Add(p); p.Handle == 0 {
		space.CloseKept(fd)
		t.sim.Shares.GiveBack(x)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many physical allocations")
	}
	*handle = acl.DrvMemHandle(p.Handle)
	return acl.ACL_SUCCESS
}

// MemImportFromShareableHandleV2 is MemImportFromShareableHandle for a type of handle, on the current device.
func (t *Thread) MemImportFromShareableHandleV2(shareableHandle acl.Addr, shareType acl.MemSharedHandleType, flags uint64, handle *acl.DrvMemHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	if flags != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x and have to be 0", flags)
	}
	return t.MemImportFromShareableHandle(*(*uint64)(space.Pointer(shareableHandle)), c.Device.ID, handle)
}
