package acl

import (
	"os"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// recordShared records an IPC event in stream order.
func (t *Thread) recordShared(ev *graph.Event, s *device.Stream) acl.Error {
	if c := attached(s).Capture.Load(); c != nil {
		f := status.Failed(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created with ACL_EVENT_IPC: its record can't be captured", ev.Handle)
		c.Spoil(f)
		return t.failWith(f)
	}
	x := ev.Shared
	ev.Order.Lock()
	defer ev.Order.Unlock()
	x.Recorder.Store(int32(os.Getpid()))
	n := x.Issued.Add(1)
	e := t.submit(s, device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		code := acl.Error(acl.ACL_SUCCESS)
		if f := s.Blocked(); f != nil {
			code = status.Of(f)
		}
		s.Context.Device.Machine.Strict.ReleaseOthers(&s.Strict)
		x.Recorded(n, int32(code))
		return 0, nil
	}})
	if e != 0 {
		x.Recorded(n, int32(e)) // other processes may wait already
	}
	return e
}

// waitShared lets later work on a stream wait for an IPC event.
func (t *Thread) waitShared(s *device.Stream, ev *graph.Event, timeout int32) acl.Error {
	if c := attached(s).Capture.Load(); c != nil {
		f := status.Failed(acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, "stream %d is being captured: it can't wait for event %#x, which was created with ACL_EVENT_IPC", s.ID, ev.Handle)
		c.Spoil(f)
		return t.failWith(f)
	}
	n := ev.Shared.Issued.Load()
	heard := func(s *device.Stream) (time.Duration, *fail.Failure) {
		s.Context.Device.Machine.Strict.AcquireOthers(&s.Strict)
		return 0, nil
	}
	return t.submit(s, device.Task{Kind: device.TaskWait, Run: heard, Begin: func(s *device.Stream) *device.Waiting {
		return &device.Waiting{
			Block: func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
				done, f := ev.AwaitShared(n, stop, expired)
				if f != nil && status.Of(f) != acl.ACL_ERROR_RT_IPC_ERROR {
					f = nil // the waiting stream continues, as with local events
				}
				return done, f
			},
			Limit: time.Duration(timeout) * time.Second,
			Late:  func() *fail.Failure { return ev.Late(s, timeout) },
		}
	}})
}

// IpcGetEventHandle stores the handle by which other processes find an event that was made for them.
func (t *Thread) IpcGetEventHandle(event acl.Event, handle *acl.IpcEventHandle) acl.Error {
	ev, e := t.event(event)
	if e != 0 {
		return e
	}
	switch {
	case handle == nil:
		return t.null("handle")
	case ev.Shared == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was not created by aclrtCreateEventExWithFlag with ACL_EVENT_IPC", ev.Handle)
	case !ev.Shared.Own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x belongs to another process: only that process can share it", ev.Handle)
	}
	space.PutText(handle.Reserved[:], memory.TicketKey(ev.Shared.Ticket))
	return acl.ACL_SUCCESS
}

// IpcOpenEventHandle opens another process's event.
func (t *Thread) IpcOpenEventHandle(handle acl.IpcEventHandle, event *acl.Event) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if event == nil {
		return t.null("event")
	}
	handle.Reserved[len(handle.Reserved)-1] = 0
	ticket, e := t.ticketOf(&handle.Reserved[0])
	if e != 0 {
		return e
	}
	x, f := t.sim.Shares.Take(ticket, memory.SlotEvent)
	if f != nil {
		return t.failWith(f)
	}
	if e := t.addEvent(graph.EventOf(c.Device, x), event); e != 0 {
		t.sim.Shares.GiveBack(x)
		return e
	}
	return acl.ACL_SUCCESS
}

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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d: want %d", length, memory.KeySize)
	case flags&^acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	case size == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the memory is 0: want 1 byte or more")
	}
	d.Memory.Lock()
	defer d.Memory.Unlock() // so that it is not freed meanwhile
	r, ok := d.Memory.Live.Find(devPtr)
	switch {
	case !ok:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x are not in an allocation", size, devPtr)
	case r.Value.Origin != memory.ByMalloc || !r.Holds(devPtr, size):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at %#x are not in one allocation of aclrtMalloc", size, devPtr)
	case d.Memory.FD < 0 || devPtr < d.Memory.Base || devPtr+size > d.Memory.End:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory %#x was placed outside the device memory (ACLSIM_PLACE): it can't be shared", devPtr)
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

// ownByKey returns the object that this process shares under a key.
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
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process shares no %s with the key %s", kind, memory.TicketKey(ticket))
	}
	return x, acl.ACL_SUCCESS
}

// IpcMemSetImportPid lets more processes use shared memory.
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
	return t.result(t.sim.Shares.Allow(x, pids))
}

// IpcMemImportByKey maps memory of another process. If it is on another device, access needs
// aclrtDeviceEnablePeerAccess or the flag.
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
		c.Device.EnablePeerAccess(x.DeviceID)
	}
	t.sim.Strict.Gets(&t.Strict, addr, x.Size, strict.ImportedMemory)
	t.sim.importsMemory()
	*devPtr = addr
	return acl.ACL_SUCCESS
}

// IpcMemClose ends the sharing on the caller's side. An importer loses the address; after the owner's call no process
// can import the memory.
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
			t.sim.Log("close shared device memory %#x: another process still uses it, and its next access fails", x.Memory.Addr)
		}
		t.sim.Shares.Withdraw(x)
		return acl.ACL_SUCCESS
	}
	return t.closeImported(t.sim.Shares.Imported(ticket), "with the key %s", memory.TicketKey(ticket))
}

// closeImported ends an import. The words name it in an error.
func (t *Thread) closeImported(x *memory.Shared, words string, which any) acl.Error {
	if x == nil || x.Kind != memory.SlotMemory || !t.sim.Shares.GiveBack(x) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process has imported no memory "+words, which)
	}
	t.sim.Strict.Gone(&t.Strict, x.Memory.Addr, strict.ImportedMemory)
	x.Unmap()
	return acl.ACL_SUCCESS
}

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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d: want %d or more", length, memory.KeySize)
	case flags&^acl.ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	s := &n.signal
	s.Lock()
	defer s.Unlock()
	switch {
	case s.Shared != nil && !s.Shared.Own:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify %d belongs to another process: only that process can share it", n.id)
	case s.Shared == nil:
		x, f := t.sim.Shares.Offer(memory.SlotNotify, n.dev.ID, flags != 0, func(l *memory.Slot) {
			if s.IsSet {
				l.Word.Store(1)
			}
		})
		if f != nil {
			return t.failWith(f)
		}
		s.Shared = x
		if !s.IsSet && s.Wake != nil {
			close(s.Wake) // waiters continue with the shared flag
		}
	case flags != 0:
		s.Shared.Anyone.Store(1)
	}
	space.PutText(space.List(key, memory.KeySize), memory.TicketKey(s.Shared.Ticket))
	return acl.ACL_SUCCESS
}

// NotifySetImportPid lets more processes use a notify.
func (t *Thread) NotifySetImportPid(h acl.Notify, pid *int32, num uint64) acl.Error {
	n, e := t.notify(h)
	if e != 0 {
		return e
	}
	n.signal.Lock()
	x := n.signal.Shared
	n.signal.Unlock()
	if x == nil || !x.Own {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "notify %d has no key of this process: call aclrtNotifyGetExportKey first", n.id)
	}
	return t.letIn(x, pid, num)
}

// NotifyImportByKey opens another process's notify.
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
		c.Device.EnablePeerAccess(x.DeviceID)
	}
	return acl.ACL_SUCCESS
}

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
	m.Lock()
	defer m.Unlock()
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "handle type is %d: want ACL_MEM_HANDLE_TYPE_NONE", handleType)
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
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "shared memory between servers is not simulated")
	case s != acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "share type %d is unknown", s)
	}
	return acl.ACL_SUCCESS
}

// MemExportToShareableHandleV2 is MemExportToShareableHandle with a handle type.
func (t *Thread) MemExportToShareableHandleV2(handle acl.DrvMemHandle, flags uint64, shareType acl.MemSharedHandleType, shareableHandle acl.Addr) acl.Error {
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	return t.MemExportToShareableHandle(handle, acl.ACL_MEM_HANDLE_TYPE_NONE, flags, (*uint64)(space.Pointer(shareableHandle)))
}

// MemSetPidToShareableHandle lets more processes import physical memory.
func (t *Thread) MemSetPidToShareableHandle(shareableHandle uint64, pid *int32, pidNum uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	x := t.sim.Shares.Mine(shareableHandle, memory.SlotPhysical)
	if x == nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "this process shares no physical memory with the handle %#x", shareableHandle)
	}
	return t.letIn(x, pid, pidNum)
}

// MemSetPidToShareableHandleV2 is MemSetPidToShareableHandle with a handle type.
func (t *Thread) MemSetPidToShareableHandleV2(shareableHandle acl.Addr, shareType acl.MemSharedHandleType, pid *int32, pidNum uint64) acl.Error {
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	return t.MemSetPidToShareableHandle(*(*uint64)(space.Pointer(shareableHandle)), pid, pidNum)
}

// MemImportFromShareableHandle opens another process's physical memory on a device. The memory is freed when all
// processes have freed it.
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is not a shareable handle", shareableHandle)
	}
	x, f := t.sim.Shares.Take(shareableHandle, memory.SlotPhysical)
	if f != nil {
		return t.failWith(f)
	}
	fd, err := x.OpenFile()
	if err != nil {
		t.sim.Shares.GiveBack(x)
		return t.fail(acl.ACL_ERROR_RT_IPC_ERROR, "open memory of process %d: %v", x.Pid, err)
	}
	space.KeepDescriptor(fd, true)
	p := &memory.Physical{Memory: &d.Memory, Size: x.Size, Prop: x.Prop, FD: fd, Shared: x}
	p.Refs.Store(1)
	t.sim.Unknowns.Any.Store(true)
	if p.Handle = t.sim.physicals.Add(p); p.Handle == 0 {
		space.CloseKept(fd)
		t.sim.Shares.GiveBack(x)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "import physical memory: the limit of allocations is reached")
	}
	t.sim.importsMemory()
	*handle = acl.DrvMemHandle(p.Handle)
	return acl.ACL_SUCCESS
}

// MemImportFromShareableHandleV2 is MemImportFromShareableHandle with a handle type, on the current device.
func (t *Thread) MemImportFromShareableHandleV2(shareableHandle acl.Addr, shareType acl.MemSharedHandleType, flags uint64, handle *acl.DrvMemHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.shareType(shareType, shareableHandle); e != 0 {
		return e
	}
	if flags != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x: want 0", flags)
	}
	return t.MemImportFromShareableHandle(*(*uint64)(space.Pointer(shareableHandle)), c.Device.ID, handle)
}

// unshare ends one side of a shared object; nil is allowed.
func (s *Sim) unshare(x *memory.Shared) {
	switch {
	case x == nil:
	case x.Own:
		s.Shares.Withdraw(x)
	default:
		s.Shares.GiveBack(x)
	}
}

// pidList checks a process list.
func (t *Thread) pidList(pid *int32, num uint64) ([]int32, acl.Error) {
	if pid == nil || num == 0 || num > memory.SlotPids {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d processes at %#x: want an address and 1 to %d", num, space.AddressOf(pid), memory.SlotPids)
	}
	pids := space.List(pid, num)
	for _, p := range pids {
		if p <= 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d is not a process id", p)
		}
	}
	return pids, acl.ACL_SUCCESS
}

// ticketOf parses the program's key.
func (t *Thread) ticketOf(key *byte) (uint64, acl.Error) {
	if key == nil {
		return 0, t.null("key")
	}
	ticket := memory.KeyTicket(space.GoString(key))
	if ticket == 0 {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%.64q is not a key", space.GoString(key))
	}
	return ticket, acl.ACL_SUCCESS
}
