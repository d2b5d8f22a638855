package acl

import (
	"os"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// other is a second simulator, which is another process to the first.
func (e *env) other() *env {
	e.Helper()
	return newEnv(e.T, Options{Devices: 2, Kernels: testKernels()})
}

func key() []byte { return make([]byte, memory.KeySize) }

// Memory is shared by key: both sides see each other's bytes, and only allowed processes can import it.
func TestIpcMemory(t *testing.T) {
	a := newEnv(t, Options{Devices: 2})
	b := a.other()
	a.malloc(100)
	m, k := a.malloc(5000), key()
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemGetExportKey(m, 5000, &k[0], 64, 0))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemGetExportKey(m, 6000, &k[0], memory.KeySize, 0))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemGetExportKey(m, 5000, &k[0], memory.KeySize, 4))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemGetExportKey(a.pinned(64), 64, &k[0], memory.KeySize, 0))
	a.ok(a.th.IpcMemGetExportKey(m, 5000, &k[0], memory.KeySize, acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT))

	var p acl.Addr
	b.want(acl.ACL_ERROR_RT_NO_PERMISSION, b.th.IpcMemImportByKey(&p, &k[0], 0))
	pid := int32(os.Getpid())
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemSetImportPid(&k[0], &pid, 0))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcMemSetImportPid(&k[0], &pid, 1))
	a.ok(a.th.IpcMemSetImportPid(&k[0], &pid, 1))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemImportByKey(&p, &k[0], 0))
	a.message("belongs to this process")
	b.ok(b.th.IpcMemImportByKey(&p, &k[0], 0))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcMemImportByKey(&p, &k[0], 0))
	if p == m || p%512 != m%512 {
		t.Errorf("the memory at %#x lies at %#x elsewhere", m, p)
	}

	a.ok(a.th.Memset(m, 5000, 7, 5000))
	host := b.pageable(5000)
	b.ok(b.th.Memcpy(host, 5000, p, 5000, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if h := space.Bytes(host, 5000); h[0] != 7 || h[4999] != 7 {
		t.Errorf("the other side reads %d and %d", h[0], h[4999])
	}
	b.ok(b.th.Memset(p+4999, 1, 9, 1))
	if space.Bytes(m, 5000)[4999] != 9 {
		t.Error("what the other side writes does not arrive")
	}
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.Memset(p+4999, 2, 9, 2))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.Free(p))

	// Freed memory is gone for both.
	a.ok(a.th.Free(m))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.Memset(p, 1, 9, 1))
	b.message("has freed it")
	b.ok(b.th.IpcMemClose(&k[0]))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcMemClose(&k[0]))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.Memset(p, 1, 9, 1))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.IpcMemClose(&k[0]))
	b.want(acl.ACL_ERROR_RT_IPC_ERROR, b.th.IpcMemImportByKey(&p, &k[0], 0))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcMemImportByKey(&p, cstring("nonsense"), 0))
}

// Memory on another device is accessible after peer access was enabled.
func TestIpcMemoryOfPeer(t *testing.T) {
	a := newEnv(t, Options{Devices: 2})
	b := a.other()
	k := key()
	m := a.malloc(64)
	a.ok(a.th.IpcMemGetExportKey(m, 64, &k[0], memory.KeySize, acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
	b.ok(b.th.SetDevice(1))
	var p acl.Addr
	b.ok(b.th.IpcMemImportByKey(&p, &k[0], 0))
	f := b.function(b.load(testBinary(11, "fill")), "fill")
	launch := func() acl.Error {
		s, args := b.stream(), fillArgs(1, p, 64)
		b.ok(b.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		return b.th.SynchronizeStream(s)
	}
	b.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, launch())
	b.message("no access")
	b.ok(b.th.IpcMemClose(&k[0]))
	b.ok(b.th.IpcMemImportByKey(&p, &k[0], acl.ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))
	b.ok(launch())
	if space.Bytes(m, 1)[0] != 1 {
		t.Error("the bytes did not arrive")
	}
	a.ok(a.th.IpcMemClose(&k[0]))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.Memset(p, 64, 1, 64))
}

// Imported physical memory can be mapped like local memory, and lives until both processes have freed it.
func TestShareableHandles(t *testing.T) {
	a := newEnv(t, Options{})
	b := a.other()
	prop := acl.PhysicalMemProp{Location: acl.MemLocation{Type: acl.ACL_MEM_LOCATION_TYPE_DEVICE}, MemAttr: acl.ACL_HBM_MEM_HUGE}
	var h, hb acl.DrvMemHandle
	a.ok(a.th.MallocPhysical(&h, memory.Granularity, &prop, 0))
	var sh, again uint64
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.MemExportToShareableHandle(h, 7, 0, &sh))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.MemExportToShareableHandle(h, acl.ACL_MEM_HANDLE_TYPE_NONE, 2, &sh))
	a.ok(a.th.MemExportToShareableHandle(h, acl.ACL_MEM_HANDLE_TYPE_NONE, 0, &sh))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.MemExportToShareableHandle(h, acl.ACL_MEM_HANDLE_TYPE_NONE, 0, &again))
	b.want(acl.ACL_ERROR_RT_NO_PERMISSION, b.th.MemImportFromShareableHandle(sh, 0, &hb))
	pid := int32(os.Getpid())
	a.ok(a.th.MemSetPidToShareableHandle(sh, &pid, 1))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.MemImportFromShareableHandle(sh, 0, &hb))
	b.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, b.th.MemImportFromShareableHandle(sh, 2, &hb))
	b.ok(b.th.MemImportFromShareableHandle(sh, 1, &hb))

	at := func(e *env, id int32, h acl.DrvMemHandle) (p acl.Addr) {
		e.ok(e.th.SetDevice(id))
		e.ok(e.th.ReserveMemAddress(&p, memory.Granularity, 0, 0, 1))
		e.ok(e.th.MapMem(p, memory.Granularity, 0, h, 0))
		return p
	}
	pa, pb := at(a, 0, h), at(b, 1, hb)
	a.ok(a.th.Memset(pa, 64, 5, 64))
	if space.Bytes(pb, 1)[0] != 5 {
		t.Error("the bytes did not arrive")
	}
	a.ok(a.th.UnmapMem(pa))
	a.ok(a.th.FreePhysical(h))
	if space.Bytes(pb, 1)[0] != 5 {
		t.Error("the memory is gone for the other side")
	}
	var free, total uint64
	b.ok(b.th.GetMemInfo(acl.ACL_HBM_MEM, &free, &total))
	b.ok(b.th.UnmapMem(pb))
	b.ok(b.th.FreePhysical(hb))
	b.want(acl.ACL_ERROR_RT_IPC_ERROR, b.th.MemImportFromShareableHandle(sh, 0, &hb))

	a.ok(a.th.MallocPhysical(&h, memory.Granularity, &prop, 0))
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.th.MemExportToShareableHandleV2(h, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, addr(&sh)))
	a.ok(a.th.MemExportToShareableHandleV2(h, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, addr(&sh)))
	a.ok(a.th.MemSetPidToShareableHandleV2(addr(&sh), acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &pid, 1))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.MemImportFromShareableHandleV2(addr(&sh), acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 1, &hb))
	b.ok(b.th.MemImportFromShareableHandleV2(addr(&sh), acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0, &hb))
	b.ok(b.th.FreePhysical(hb))
}

// A notify that is shared while a stream waits for it is the same flag for both sides.
func TestIpcNotify(t *testing.T) {
	a := newEnv(t, Options{})
	b := a.other()
	var n, nb acl.Notify
	a.ok(a.th.CreateNotify(&n, 0))
	s := a.stream()
	a.ok(a.th.WaitAndResetNotify(n, s, 0))
	time.Sleep(time.Millisecond)
	pid, k := int32(os.Getpid()), key()
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.NotifySetImportPid(n, &pid, 1))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.NotifyGetExportKey(n, &k[0], 64, 0))
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.th.NotifyGetExportKey(n, &k[0], memory.KeySize, 1))
	a.ok(a.th.NotifyGetExportKey(n, &k[0], memory.KeySize, 0))
	b.want(acl.ACL_ERROR_RT_NO_PERMISSION, b.th.NotifyImportByKey(&nb, &k[0], 0))
	a.ok(a.th.NotifySetImportPid(n, &pid, 1))
	b.ok(b.th.NotifyImportByKey(&nb, &k[0], acl.ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.NotifyGetExportKey(nb, &k[0], memory.KeySize, 0))

	sb := b.stream()
	a.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, a.th.SynchronizeStreamWithTimeout(s, 10))
	b.ok(b.th.RecordNotify(nb, sb))
	a.ok(a.th.SynchronizeStreamWithTimeout(s, patience))
	// The wait has cleared it for both.
	b.ok(b.th.WaitAndResetNotify(nb, sb, 0))
	a.ok(a.th.RecordNotify(n, s))
	b.ok(b.th.SynchronizeStreamWithTimeout(sb, patience))
	a.ok(a.th.RecordNotify(n, s))
	a.ok(a.th.SynchronizeStream(s))
	a.ok(a.th.NotifyBatchReset(&n, 1))
	b.ok(b.th.WaitAndResetNotify(nb, sb, 1))
	b.want(acl.ACL_ERROR_RT_WAIT_TIMEOUT, b.th.SynchronizeStream(sb))
	b.ok(b.th.DestroyNotify(nb))
	a.ok(a.th.DestroyNotify(n))
	b.want(acl.ACL_ERROR_RT_IPC_ERROR, b.th.NotifyImportByKey(&nb, &k[0], 0))
}

// A wait for an imported event is for the last record at the call.
func TestIpcEvent(t *testing.T) {
	a := newEnv(t, Options{})
	b := a.other()
	var ev, eb acl.Event
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.th.CreateEventWithFlag(&ev, acl.ACL_EVENT_IPC))
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.th.CreateEventExWithFlag(&ev, acl.ACL_EVENT_IPC|acl.ACL_EVENT_TIME_LINE))
	var h acl.IpcEventHandle
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.th.IpcGetEventHandle(a.event(), &h))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcOpenEventHandle(h, &eb))
	a.ok(a.th.CreateEventExWithFlag(&ev, acl.ACL_EVENT_IPC))
	a.ok(a.th.IpcGetEventHandle(ev, &h))
	b.ok(b.th.IpcOpenEventHandle(h, &eb))
	b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.th.IpcGetEventHandle(eb, &h))

	sb := b.stream()
	b.ok(b.th.StreamWaitEvent(sb, eb)) // never recorded: no wait
	b.ok(b.th.SynchronizeStreamWithTimeout(sb, patience))
	s := a.stream()
	release := a.hold(s)
	a.ok(a.th.RecordEvent(ev, s))
	b.ok(b.th.StreamWaitEvent(sb, eb))
	var status acl.EventRecordedStatus
	b.ok(b.th.QueryEventStatus(eb, &status))
	if status != acl.ACL_EVENT_RECORDED_STATUS_NOT_READY {
		t.Error("the event is complete before its stream has come to it")
	}
	b.want(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, b.th.SynchronizeEventWithTimeout(eb, 10))
	release()
	b.ok(b.th.SynchronizeEvent(eb))
	b.ok(b.th.SynchronizeStream(sb))
	a.ok(a.th.QueryEventStatus(ev, &status))
	if status != acl.ACL_EVENT_RECORDED_STATUS_COMPLETE {
		t.Error("the event is not complete")
	}
	b.want(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, b.th.EventGetTimestamp(eb, new(uint64)))

	broken := a.stream()
	a.ok(a.th.SetStreamFailureMode(broken, acl.ACL_STOP_ON_FAILURE))
	release = a.hold(broken)
	a.breakStream(broken)
	a.ok(a.th.RecordEvent(ev, broken))
	release()
	b.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, b.th.SynchronizeEvent(eb))
	b.ok(b.th.DestroyEvent(eb))
	a.ok(a.th.DestroyEvent(ev))
	b.want(acl.ACL_ERROR_RT_IPC_ERROR, b.th.IpcOpenEventHandle(h, &eb))
}
