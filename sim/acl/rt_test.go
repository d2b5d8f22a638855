package acl

import (
	"os"
	"reflect"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// The simulated functions of the lower library are those in the API model.
func TestRuntimeTable(t *testing.T) {
	n := 0
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		if f.Layer != "rt" {
			continue
		}
		_, own := runtimeFunctions[f.Name]
		performed := performedByCall(f)
		if own == performed && own || (own || performed) != f.Simulated {
			t.Errorf("%s: simulated by the model %t, a function here %t, performed by another one %t", f.Name, f.Simulated, own, performed)
		}
		if own {
			n++
		}
	}
	if n != len(runtimeFunctions) {
		t.Errorf("%d functions of the model, %d here", n, len(runtimeFunctions))
	}
}

// performedByCall reports whether acl.Call calls a method for a function. Without an API it panics then.
func performedByCall(f *api.Func) (ok bool) {
	defer func() { ok = ok || recover() != nil }()
	_, ok = acl.Call(nil, f.ID, make([]uint64, f.Words))
	return ok
}

// rt calls a function of the lower library as the face does.
func (e *env) rt(name string, words ...uint64) acl.Error {
	e.Helper()
	for i := range acl.Model.Funcs {
		if f := &acl.Model.Funcs[i]; f.Name == name {
			if len(words) != int(f.Words) {
				e.Fatalf("%s takes %d words, not %d", name, f.Words, len(words))
			}
			r, ok := e.th.Call(f.ID, words)
			if !ok {
				e.Fatalf("%s is not simulated", name)
			}
			return acl.Error(int32(r))
		}
	}
	e.Fatalf("%s is not in the model", name)
	return 0
}

// Constants that differ between the libraries: copy kinds, stream and event flags, data types.
func TestRuntimeNumbers(t *testing.T) {
	s := New(&Options{VABase: freeBase(t, 1), Log: &logBuffer{}})
	t.Cleanup(s.Close)
	e := &env{T: t, sim: s, th: s.NewThread()}
	e.ok(e.rt("rtSetDevice", 0))
	word := func() *uint64 { return new(uint64) }
	st, def, tl, ipc, mem, host := word(), word(), word(), word(), word(), word()
	e.ok(e.rt("rtStreamCreateWithFlags", addr(st), 3, 0x201))
	flags, prio := word(), word()
	e.ok(e.rt("rtStreamGetFlags", *st, addr(flags)))
	e.ok(e.rt("rtStreamGetPriority", *st, addr(prio)))
	if *flags != acl.ACL_STREAM_PERSISTENT|acl.ACL_STREAM_FAST_LAUNCH || *prio != 3 {
		t.Errorf("flags %#x, priority %d", *flags, *prio)
	}
	e.ok(e.rt("rtStreamCreate", addr(st), 0))
	const sync, timeLine = 4, 8
	e.ok(e.rt("rtEventCreateWithFlag", addr(def), sync))
	e.ok(e.rt("rtEventCreateExWithFlag", addr(tl), sync|timeLine))
	e.ok(e.rt("rtsEventCreateEx", addr(ipc), 0x40))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.rt("rtEventCreateWithFlag", addr(def), 0x100))
	release := e.hold(acl.Stream(*st))
	for _, ev := range []uint64{*def, *tl} {
		e.ok(e.rt("rtEventRecord", ev, *st))
		e.want(acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, e.rt("rtEventQuery", ev))
	}
	e.want(acl.ACL_ERROR_RT_STREAM_NOT_COMPLETE, e.rt("rtStreamQuery", *st))
	e.want(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, e.rt("rtEventSynchronizeWithTimeout", *tl, 1))
	release()
	e.ok(e.rt("rtsEventSynchronize", *tl, 5000))
	e.ok(e.rt("rtEventQuery", *tl))
	at := word()
	e.ok(e.rt("rtEventGetTimeStamp", addr(at), *tl))
	e.want(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, e.rt("rtEventGetTimeStamp", addr(at), *def))
	for _, ev := range []uint64{*def, *tl, *ipc} {
		e.ok(e.rt("rtEventDestroySync", ev))
	}

	// 4 is managed here and "by place" above, 8 "by place" here; 5 has no like.
	e.ok(e.rt("rtMalloc", addr(mem), 64, 2, 0))
	e.ok(e.rt("rtMallocHost", addr(host), 64, 0))
	space.Bytes(*host, 64)[0] = 7
	for _, kind := range []uint64{1, 4, 6, 8} {
		e.ok(e.rt("rtMemset", *mem, 64, 0, 64))
		e.ok(e.rt("rtMemcpyAsync", *mem, 64, *host, 64, kind, *st))
		e.ok(e.rt("rtStreamSynchronize", *st))
		if space.Bytes(*mem, 1)[0] != 7 {
			t.Errorf("kind %d copies nothing", kind)
		}
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.rt("rtMemcpyAsync", *mem, 64, *host, 64, 5, *st))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.rt("rtMemcpy", *mem, 64, *host, 64, 5))
	e.ok(e.rt("rtMemcpy", *host, 64, *mem, 64, 7))

	// Type 5 is int32 here.
	b := space.Bytes(*mem, 64)
	clear(b)
	b[0], b[32], b[36] = 1, 255, 1
	e.ok(e.rt("rtReduceAsync", *mem, 32, *mem+32, 8, 10, 5, *st))
	e.ok(e.rt("rtStreamSynchronize", *st))
	if e.word(*mem) != 256 || e.word(*mem+4) != 1 {
		t.Errorf("% x", b)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.rt("rtReduceAsync", *mem, 4, *mem+32, 8, 10, 5, *st))
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.rt("rtReduceAsync", *mem, 32, *mem+32, 8, 10, 3, *st))

	n := word()
	e.ok(e.rt("rtNotifyCreate", 0, addr(n)))
	e.ok(e.rt("rtNotifyRecord", *n, *st))
	e.ok(e.rt("rtNotifyWaitWithTimeOut", *n, *st, 1))
	e.ok(e.rt("rtNotifyReset", *n))
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, e.rt("rtNotifyCreate", 5, addr(n)))
	c := word()
	e.ok(e.rt("rtCntNotifyCreate", 0, addr(c)))
	e.ok(e.rt("rtCntNotifyReset", *c, *st))
	ctx := word()
	e.ok(e.rt("rtCtxCreate", addr(ctx), 0, 0))
	e.want(acl.ACL_ERROR_RT_STREAM_CONTEXT, e.rt("rtStreamSynchronize", *st))
	e.ok(e.rt("rtCtxDestroy", *ctx))
}

// Memory fabrics look these functions up and end without them: device ids, peer access, and memory by name.
func TestLowerFunctionsOfFabrics(t *testing.T) {
	a := newEnv(t, Options{Devices: 2})
	b := a.other()
	addr := func(p any) uint64 { return uint64(reflect.ValueOf(p).Pointer()) }

	var pid, status uint32
	var logic int32
	var info int64
	a.ok(a.rt("rtDeviceGetBareTgid", addr(&pid)))
	a.ok(a.rt("rtGetLogicDevIdByUserDevId", 1, addr(&logic)))
	a.ok(a.rt("rtGetDeviceInfo", 1, 0, 26, addr(&info)))
	if pid != uint32(os.Getpid()) || logic != 1 || info != 1 {
		t.Errorf("process %d, device %d, in the pod %d", pid, logic, info)
	}
	for _, number := range []uint64{27, 29} {
		a.ok(a.rt("rtGetDeviceInfo", 0, 0, number, addr(&info)))
	}
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.rt("rtGetDeviceInfo", 0, 1, 26, addr(&info)))
	a.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, a.rt("rtGetDeviceInfo", 0, 0, 5, addr(&info)))
	a.message("rtGetDeviceInfo", "information 5")

	for want, change := range []func() acl.Error{
		func() acl.Error { return a.rt("rtDisableP2P", 1, 0) },
		func() acl.Error { return a.rt("rtEnableP2P", 1, 0, 0) }, // the thread uses device 0
	} {
		a.ok(change())
		a.ok(a.rt("rtGetP2PStatus", 1, 0, addr(&status)))
		if status != uint32(want) {
			t.Errorf("peer access is %d, want %d", status, want)
		}
	}

	m, k := a.malloc(5000), key()
	var p acl.Addr
	me := int32(os.Getpid())
	a.want(acl.ACL_ERROR_RT_PARAM_INVALID, a.rt("rtIpcSetMemoryName", uint64(m), 5000, addr(&k[0]), 64))
	a.ok(a.rt("rtIpcSetMemoryName", uint64(m), 5000, addr(&k[0]), 65))
	b.want(acl.ACL_ERROR_RT_NO_PERMISSION, b.rt("rtIpcOpenMemory", addr(&p), addr(&k[0])))
	a.ok(a.rt("rtSetIpcMemorySuperPodPid", addr(&k[0]), 0, addr(&me), 1))
	a.ok(a.rt("rtSetIpcMemPid", addr(&k[0]), addr(&me), 1))
	for range 2 {
		b.ok(b.rt("rtIpcOpenMemory", addr(&p), addr(&k[0])))
		b.ok(b.th.Memset(p+4999, 1, 9, 1))
		b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.rt("rtIpcCloseMemory", uint64(p)+512))
		b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.rt("rtIpcDestroyMemoryName", addr(&k[0]))) // not its own
		b.ok(b.rt("rtIpcCloseMemory", uint64(p)))
		b.want(acl.ACL_ERROR_RT_PARAM_INVALID, b.rt("rtIpcCloseMemory", uint64(p)))
		b.message("has imported no memory")
	}
	if space.Bytes(uint64(m), 5000)[4999] != 9 {
		t.Error("what the other side writes does not arrive")
	}
	a.ok(a.rt("rtIpcDestroyMemoryName", addr(&k[0])))
	b.want(acl.ACL_ERROR_RT_IPC_ERROR, b.rt("rtIpcOpenMemory", addr(&p), addr(&k[0])))
}
