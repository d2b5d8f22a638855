package acl

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Exception callbacks run before a synchronization returns the error, with the task, the stream and, for kernels,
// function and arguments.
func TestExceptionCallbackPrecedesTheError(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c, Kernels: testKernels()})
	e.th.SetID(1)
	bin := e.load(testBinary(11, "fill"))
	f := e.function(bin, "fill")
	s := e.stream()
	var id int32
	e.ok(e.th.StreamGetId(s, &id))
	var told []string
	var task atomic.Uint32
	var got acl.FuncHandle
	note := func(name string, ok bool) {
		if !ok {
			name += " wrong"
		}
		told = append(told, name)
	}
	look := func(name string) acl.Addr {
		return c.add(func(a ...uint64) uint64 {
			th := e.sim.NewThread()
			x := acl.ExceptionInfo(a[0])
			note(name, th.GetStreamIdFromExceptionInfo(x) == uint32(id) && th.GetTaskIdFromExceptionInfo(x) == task.Load() &&
				th.GetDeviceIdFromExceptionInfo(x) == 0 && th.GetThreadIdFromExceptionInfo(x) == e.th.tid &&
				acl.Error(th.GetErrorCodeFromExceptionInfo(x)) == acl.ACL_ERROR_RT_AICORE_EXCEPTION)
			return 0
		})
	}
	one, two := look("one"), look("two")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ExceptionInfoCallbackRegister(0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.ExceptionInfoCallbackUnregister(0))
	e.ok(e.th.SetExceptionInfoCallback(two))
	e.ok(e.th.SetExceptionInfoCallback(one))
	e.ok(e.th.ExceptionInfoCallbackRegister(one))
	e.ok(e.th.ExceptionInfoCallbackRegister(one))
	e.ok(e.th.ExceptionInfoCallbackRegister(two))
	e.ok(e.th.ExceptionInfoCallbackUnregister(two))
	e.ok(e.th.ExceptionInfoCallbackUnregister(two))
	last := c.add(func(a ...uint64) uint64 {
		th := e.sim.NewThread()
		th.SetCurrentContext(acl.Context(e.th.current.Handle))
		var at acl.Addr
		var n uint32
		ok := th.GetArgsFromExceptionInfo(acl.ExceptionInfo(a[0]), &at, &n) == 0 && th.GetFuncHandleFromExceptionInfo(acl.ExceptionInfo(a[0]), &got) == 0
		note("binary", ok && n == 24 && a[1] == 77 && binary.LittleEndian.Uint64(space.Bytes(at+8, 8)) == 0x10)
		return 0
	})
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.BinarySetExceptionCallback(acl.BinHandle(f), last, 77))
	e.ok(e.th.BinarySetExceptionCallback(bin, last, 77))
	args := fillArgs(1, 0x10, 8)
	task.Store(e.sim.Devices[0].Tasks.Load() + 1)
	e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
	if want := []string{"one", "one", "binary"}; !slices.Equal(told, want) || got != f {
		t.Errorf("told %v, kernel %#x; want %v, %#x", told, uint64(got), want, uint64(f))
	}
	if e.th.GetTaskIdFromExceptionInfo(0) != math.MaxUint32 {
		t.Error("no exception has an id")
	}
	var at acl.Addr
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.GetArgsFromExceptionInfo(0, &at, new(uint32)))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.GetFuncHandleFromExceptionInfo(0, &got))
}

// State callbacks report streams, devices, aborts, and the beginning and end of the runtime.
func TestStateCallbacks(t *testing.T) {
	c := &calls{}
	l := &logBuffer{}
	s := New(&Options{Caller: c, Log: l, VABase: freeBase(t, 1)})
	t.Cleanup(s.Close)
	e := &env{t, s, s.NewThread(), l}
	var got [][]uint64
	hear := c.add(func(a ...uint64) uint64 { got = append(got, slices.Clone(a)); return 0 })
	path := filepath.Join(t.TempDir(), "acl.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.InitCallbackRegister(77, hear, 5))
	e.ok(e.th.InitCallbackRegister(acl.ACL_REG_TYPE_OTHER, hear, 5))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.InitCallbackRegister(acl.ACL_REG_TYPE_OTHER, hear, 5))
	e.ok(e.th.FinalizeCallbackRegister(acl.ACL_REG_TYPE_OTHER, hear, 6))
	e.ok(e.th.Init(cstring(path)))
	if len(got) != 1 || got[0][1] != 2 || string(space.Bytes(got[0][0], 2)) != "{}" || got[0][2] != 5 {
		t.Errorf("aclInit tells %v", got)
	}
	late := c.add(func(a ...uint64) uint64 { got = append(got, a); return uint64(acl.ACL_ERROR_FAILURE) })
	e.want(acl.ACL_ERROR_FAILURE, e.th.InitCallbackRegister(acl.ACL_REG_TYPE_ACL_DVPP, late, 5))
	e.ok(e.th.InitCallbackUnRegister(acl.ACL_REG_TYPE_ACL_DVPP, late))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.InitCallbackUnRegister(acl.ACL_REG_TYPE_ACL_DVPP, late))

	expect := func(what string, want ...[]uint64) {
		t.Helper()
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s tells %x, want %x", what, got, want)
		}
		got = nil
	}
	got = nil
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.RegDeviceStateCallback(nil, hear, 1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.RegDeviceStateCallback(cstring("d"), 0, 1))
	e.ok(e.th.RegDeviceStateCallback(cstring("d"), hear, 1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.RegDeviceStateCallback(cstring("d"), hear, 1))
	e.ok(e.th.SetDevice(0))
	expect("aclrtSetDevice", []uint64{0, 0, 1}, []uint64{0, 1, 1})
	e.ok(e.th.RegDeviceStateCallback(cstring("d"), 0, 0))
	e.ok(e.th.RegStreamStateCallback(cstring("s"), hear, 2))
	st := e.stream()
	e.ok(e.th.DestroyStream(st))
	expect("a stream", []uint64{uint64(st), 1, 2}, []uint64{uint64(st), 2, 2})
	e.ok(e.th.SetDeviceTaskAbortCallback(cstring("a"), hear, 3))
	e.ok(e.th.DeviceTaskAbort(0, 60000))
	expect("an abort", []uint64{0, 0, 60000, 3}, []uint64{0, 1, 60000, 3})
	var def acl.Stream
	e.ok(e.th.CtxGetCurrentDefaultStream(&def))
	e.ok(e.th.RegDeviceStateCallback(cstring("d"), hear, 1))
	e.ok(e.th.ResetDevice(0))
	expect("aclrtResetDevice", []uint64{0, 2, 1}, []uint64{uint64(def), 2, 2}, []uint64{0, 3, 1})
	e.ok(e.th.Finalize())
	expect("aclFinalize", []uint64{6})
	e.ok(e.th.FinalizeCallbackUnRegister(acl.ACL_REG_TYPE_OTHER, hear))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.FinalizeCallbackUnRegister(acl.ACL_REG_TYPE_OTHER, hear))
}

// Data buffers, datasets and allocators are host objects that return what was stored.
func TestHostObjects(t *testing.T) {
	e := newEnv(t, Options{})
	th := e.th
	if th.CreateDataBuffer(0, 4) != 0 {
		t.Error("a buffer of 4 bytes at null")
	}
	b := th.CreateDataBuffer(0x1000, 5<<32)
	e.ok(th.UpdateDataBuffer(b, 0x2000, 6<<32|7))
	if th.GetDataBufferAddr(b) != 0x2000 || th.GetDataBufferSizeV2(b) != 6<<32|7 || th.GetDataBufferSize(b) != 7 {
		t.Error("the buffer forgets")
	}
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.UpdateDataBuffer(b, 0, 1))
	d := th.MdlCreateDataset()
	e.ok(th.MdlAddDatasetBuffer(d, b))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.MdlAddDatasetBuffer(d, 0))
	if th.MdlGetDatasetNumBuffers(d) != 1 || th.MdlGetDatasetBuffer(d, 0) != b || th.MdlGetDatasetBuffer(d, 1) != 0 {
		t.Error("the list forgets")
	}
	if th.MdlGetDatasetTensorDesc(d, 0) != 0 {
		t.Error("a shape that was not set")
	}
	e.ok(th.MdlSetDatasetTensorDesc(d, 0x3000, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.MdlSetDatasetTensorDesc(d, 0, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.MdlSetDatasetTensorDesc(d, 0x3000, 1))
	if th.MdlGetDatasetTensorDesc(d, 0) != 0x3000 || th.MdlGetDatasetTensorDesc(d, 1) != 0 || th.MdlGetDatasetBuffer(d, 0) != b {
		t.Error("the list forgets a shape")
	}
	e.ok(th.MdlDestroyDataset(d))
	e.ok(th.DestroyDataBuffer(b))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.MdlDestroyDataset(d))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.DestroyDataBuffer(b))
	if th.GetDataBufferAddr(b) != 0 || th.MdlGetDatasetNumBuffers(d) != 0 {
		t.Error("what was destroyed still answers")
	}

	a := th.AllocatorCreateDesc()
	s := e.stream()
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.AllocatorRegister(s, a))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.AllocatorSetObjToDesc(a, 0))
	e.ok(th.AllocatorSetObjToDesc(a, 1))
	e.ok(th.AllocatorSetAllocFuncToDesc(a, 2))
	e.ok(th.AllocatorSetFreeFuncToDesc(a, 3))
	e.ok(th.AllocatorSetAllocAdviseFuncToDesc(a, 4))
	e.ok(th.AllocatorSetGetAddrFromBlockFuncToDesc(a, 5))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.AllocatorRegister(0, a))
	e.ok(th.AllocatorRegister(s, a))
	e.ok(th.AllocatorDestroyDesc(a))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, th.AllocatorDestroyDesc(a))
	var desc acl.AllocatorDesc
	var obj acl.Allocator
	var f [4]acl.Addr
	e.ok(th.AllocatorGetByStream(s, &desc, &obj, &f[0], &f[1], &f[2], &f[3]))
	if desc != a || obj != 1 || f != [4]acl.Addr{2, 3, 4, 5} {
		t.Errorf("%#x %d %v", uint64(desc), obj, f)
	}
	e.ok(th.AllocatorUnregister(s))
	e.ok(th.AllocatorUnregister(s))
	e.want(acl.ACL_ERROR_INVALID_PARAM, th.AllocatorGetByStream(s, &desc, &obj, &f[0], &f[1], &f[2], &f[3]))
}

func TestHalfConversions(t *testing.T) {
	th := newEnv(t, Options{}).th
	inf := float32(math.Inf(1))
	for f, want := range map[float32]uint16{0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65520: 0x7bff, 1e9: 0x7bff, inf: 0x7bff, -inf: 0xfbff, 5.9604645e-8: 1} {
		if got := th.FloatToFloat16(f); got != want {
			t.Errorf("%g becomes %#x, want %#x", f, got, want)
		}
	}
	if got := th.FloatToFloat16(float32(math.NaN())); got != 0x7bff {
		t.Errorf("NaN becomes %#x", got)
	}
	for h, want := range map[uint16]float32{0x3c00: 1, 0x7c00: 65536, 0xfc00: -65536, 0x7e00: 98304, 1: 5.9604645e-8} {
		if got := th.Float16ToFloat(h); got != want {
			t.Errorf("%#x becomes %g, want %g", h, got, want)
		}
	}
	for h := range uint16(0x7c00) {
		if got := th.FloatToFloat16(th.Float16ToFloat(h)); got != h {
			t.Fatalf("%#x comes back as %#x", h, got)
		}
	}
}

// Managed memory has one address for host, copies and kernels, and stores advice about its parts.
func TestManagedMemory(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	var p acl.Addr
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemAllocManaged(&p, 100, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemAllocManaged(&p, 0, 1))
	e.ok(e.th.MemAllocManaged(&p, memory.Granularity+1, 1))
	if p < memory.ManagedBase || p >= memory.ManagedBase+memory.ManagedSize || p%memory.Granularity != 0 {
		t.Fatalf("managed memory lies at %#x", p)
	}
	s := e.stream()
	args := fillArgs(3, p, 8)
	e.ok(e.th.LaunchKernelWithHostArgs(e.function(e.load(testBinary(11, "fill")), "fill"), 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	d := e.malloc(8)
	e.ok(e.th.MemcpyAsync(d, 8, p, 8, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, s))
	e.ok(e.th.SynchronizeStream(s))
	if space.Bytes(p, 8)[7] != 3 || space.Bytes(d, 8)[7] != 3 {
		t.Error("the kernel's bytes did not arrive")
	}
	var at acl.PtrAttributes
	e.ok(e.th.PointerGetAttributes(p, &at))
	if at.Location.Type != acl.ACL_MEM_LOCATION_TYPE_MANAGED {
		t.Errorf("it lies at a place of type %d", at.Location.Type)
	}
	host, dev := acl.MemManagedLocation{Type: acl.ACL_MEM_LOCATIONTYPE_HOST}, acl.MemManagedLocation{Type: acl.ACL_MEM_LOCATIONTYPE_DEVICE}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemManagedAdvise(p, 100, acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, dev))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemManagedAdvise(d/memory.Granularity*memory.Granularity, memory.Granularity, acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, dev))
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, e.th.MemManagedAdvise(p, memory.Granularity, acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, acl.MemManagedLocation{Type: 1, Id: 9}))
	e.ok(e.th.MemManagedAdvise(p, 2*memory.Granularity, acl.ACL_MEM_ADVISE_SET_READ_MOSTLY, acl.MemManagedLocation{}))
	e.ok(e.th.MemManagedAdvise(p, memory.Granularity, acl.ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, dev))
	e.ok(e.th.MemManagedAdvise(p, 2*memory.Granularity, acl.ACL_MEM_ADVISE_SET_ACCESSED_BY, host))
	e.ok(e.th.MemManagedAdvise(p, memory.Granularity, acl.ACL_MEM_ADVISE_SET_ACCESSED_BY, dev))
	e.ok(e.th.MemManagedPrefetchAsync(p, 2*memory.Granularity, host, 0, s))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemManagedPrefetchAsync(p, 2*memory.Granularity, host, 1, s))
	e.ok(e.th.SynchronizeStream(s))
	attr := func(a acl.MemManagedRangeAttribute, n uint64) int32 {
		v := new(int32)
		e.ok(e.th.MemManagedGetAttr(a, p, n, addr(v), 4))
		return *v
	}
	for _, c := range []struct {
		a    acl.MemManagedRangeAttribute
		n    uint64
		want int32
	}{
		{acl.ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 2 * memory.Granularity, 1},
		{acl.ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory.Granularity, 0},
		{acl.ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 2 * memory.Granularity, -2},
		{acl.ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory.Granularity, 1},
		{acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 2 * memory.Granularity, -1},
		{acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, 1, 2},
	} {
		if got := attr(c.a, c.n); got != c.want {
			t.Errorf("attribute %d of %d bytes is %d, want %d", c.a, c.n, got, c.want)
		}
	}
	who := new([3]int32)
	kinds, sizes, data := []acl.MemManagedRangeAttribute{acl.ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY}, []uint64{12}, []acl.Addr{addr(who)}
	e.ok(e.th.MemManagedGetAttrs(&kinds[0], 1, p, memory.Granularity, &data[0], &sizes[0]))
	if *who != [3]int32{-1, 0, -2} {
		t.Errorf("accessed by %v", *who)
	}
	e.ok(e.th.MemManagedGetAttrs(&kinds[0], 1, p, 2*memory.Granularity, &data[0], &sizes[0]))
	if *who != [3]int32{-1, -2, -2} {
		t.Errorf("accessed by %v as a whole", *who)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemManagedGetAttr(acl.ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 1, addr(who), 8))
	ptrs, lens, places, idx := []acl.Addr{p, p + memory.Granularity}, []uint64{memory.Granularity, memory.Granularity}, []acl.MemManagedLocation{host, dev}, []uint64{0, 1}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemManagedPrefetchBatchAsync(&ptrs[0], &lens[0], 2, &places[0], &[]uint64{1, 0}[0], 2, 0, s))
	e.ok(e.th.MemManagedPrefetchBatchAsync(&ptrs[0], &lens[0], 2, &places[0], &idx[0], 2, 0, s))
	if got := attr(acl.ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 2*memory.Granularity); got != -2 {
		t.Errorf("prefetched to %d", got)
	}
	e.ok(e.th.SynchronizeStream(s))
	e.ok(e.th.Free(p))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(p))
}

func TestVersionsAndFeatures(t *testing.T) {
	e := newEnv(t, Options{})
	buf := make([]byte, 128)
	// A framework asks for the versions of the operator packages, too.
	for _, name := range []string{"runtime", "ops_math", "ops_nn", "ops_transformer", "ops_cv", "ops_legacy"} {
		clear(buf)
		e.ok(e.th.SysGetVersionStr(cstring(name), &buf[0]))
		if space.GoString(&buf[0]) != release.Toolkit {
			t.Errorf("%s: %q", name, space.GoString(&buf[0]))
		}
	}
	e.want(acl.ACL_ERROR_INVALID_FILE, e.th.SysGetVersionStr(cstring("hccl"), &buf[0]))
	var n int32
	e.ok(e.th.SysGetVersionNum(cstring("runtime"), &n))
	if n != 90100000 {
		t.Errorf("the version's number is %d", n)
	}
	var v acl.CANNPackageVersion
	for _, name := range []acl.CANNPackageName{acl.ACL_PKG_NAME_RUNTIME, acl.ACL_PKG_NAME_OPP, acl.ACL_PKG_NAME_OPP_KERNEL} {
		v = acl.CANNPackageVersion{}
		e.ok(e.th.SysGetCANNVersion(name, &v))
		if space.GoString(&v.Version[0]) != release.Toolkit || space.GoString(&v.MinorVersion[0]) != "1" {
			t.Errorf("%d: %q", name, v.Version[:8])
		}
	}
	e.want(acl.ACL_ERROR_INVALID_FILE, e.th.SysGetCANNVersion(acl.ACL_PKG_NAME_COMPILER, &v))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.SysGetCANNVersion(99, &v))
	var attrs *acl.CannAttr
	var num uint64
	e.ok(e.th.GetCannAttributeList(&attrs, &num))
	for _, a := range space.List(attrs, num) {
		e.ok(e.th.GetCannAttribute(a, &n))
		if n != 1 {
			t.Errorf("feature %d is listed and not there", a)
		}
	}
	e.ok(e.th.GetCannAttribute(acl.ACL_CANN_ATTR_JIT_COMPILE, &n))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.GetCannAttribute(17, &n))
	if n != 0 || num == 0 {
		t.Errorf("%d features", num)
	}
}

// Supported device queries return values; the others fail.
func TestSupportedQueriesReturnValues(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	var u acl.UtilizationInfo
	e.ok(e.th.GetDeviceUtilizationRate(0, &u))
	s := e.stream()
	f := e.function(e.load(testBinary(11, "slow")), "slow")
	e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, 0, 0, nil, 0))
	e.ok(e.th.SynchronizeStream(s))
	e.ok(e.th.GetDeviceUtilizationRate(0, &u))
	if u.CubeUtilization == 0 || u.CubeUtilization > 100 || u.MemoryUtilization != -1 {
		t.Errorf("a busy device says %+v", u)
	}
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, e.th.GetDeviceUtilizationRate(7, &u))

	caps, ops := []uint32{9}, []acl.AtomicOperation{acl.ACL_RT_ATOMIC_OPERATION_CAS}
	e.ok(e.th.DeviceGetHostAtomicCapabilities(&caps[0], &ops[0], 1, 0))
	e.ok(e.th.DeviceGetP2PAtomicCapabilities(&caps[0], &ops[0], 1, 0, 0))
	if caps[0] != 0 {
		t.Errorf("capabilities %#x", caps[0])
	}
	ops[0] = 20
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.DeviceGetHostAtomicCapabilities(&caps[0], &ops[0], 1, 0))
	var hm acl.HostMemMapCapability
	e.ok(e.th.HostMemMapCapabilities(0, acl.ACL_RT_HAC_TYPE_AIV, &hm))
	if hm != acl.ACL_RT_HOST_MEM_MAP_SUPPORTED {
		t.Error("kernels reach registered memory, and it says no")
	}
	e.ok(e.th.HostMemMapCapabilities(0, acl.ACL_RT_HAC_TYPE_RDMA, &hm))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.HostMemMapCapabilities(0, 99, &hm))
	if hm != acl.ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED {
		t.Error("there is no RDMA")
	}
	p := e.malloc(64)
	var ok uint32
	e.ok(e.th.CheckMemType(&p, 1, memDevice, &ok, 0))
	if ok != 1 {
		t.Error("device memory is none")
	}
	e.ok(e.th.CheckMemType(&p, 1, memReserved, &ok, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.CheckMemType(&p, 1, 1, &ok, 0))
	if ok != 0 {
		t.Error("device memory is reserved")
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemUceRepair(0, nil, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.RepairError(0, &acl.ErrorInfo{}))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemP2PMap(p, 64, 0, 0))
	var sync acl.Addr
	e.ok(e.th.GetHardwareSyncAddr(&sync))
	if err := e.sim.Devices[0].Check(sync, 8, space.Read|space.Write); err != nil {
		t.Error(err)
	}
	mark := e.pageable(64)
	e.ok(e.th.ProfTrace(mark, 18, s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ProfTrace(mark, 19, s))
	var ts acl.Addr
	e.ok(e.th.MallocWithCfg(&ts, 64, 999, nil))
	e.ok(e.th.Free(ts))
	var n uint64
	e.ok(e.th.FunctionGetAvailDynUbufPerBlock(uint64(f), 0, &n))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.FunctionGetAvailDynUbufPerBlock(uint64(f), 1, &n))

	e.ok(e.th.CmoGetDescSize(&n))
	desc := e.malloc(n)
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.CmoSetDesc(desc, p, 0))
	e.ok(e.th.CmoSetDesc(desc, p, 64))
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.CmoAsyncWithDesc(desc, acl.ACL_RT_CMO_TYPE_FLUSH, s, 0))
	e.ok(e.th.CmoAsyncWithDesc(desc, acl.ACL_RT_CMO_TYPE_PREFETCH, s, 0))
	e.ok(e.th.SynchronizeStream(s))
	e.ok(e.th.Free(p))
	e.ok(e.th.CmoAsyncWithDesc(desc, acl.ACL_RT_CMO_TYPE_PREFETCH, s, 0))
	e.want(acl.ACL_ERROR_RT_SYS_DMA, e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.RegisterCpuFunc(e.load(testBinary(11, "slow")), cstring("f"), cstring("k"), new(acl.FuncHandle)))
}

// A reset drops the device copy of a binary; the next query restores it.
func TestBinaryAfterReset(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	code := testBinary(11, "fill")
	bin := e.load(code)
	var at acl.Addr
	var n uint64
	for range 2 {
		e.ok(e.th.BinaryGetDevAddress(bin, &at, &n))
		if err := e.sim.Devices[0].Check(at, n, space.Read); err != nil || string(space.Bytes(at, n)) != string(code) {
			t.Fatalf("the binary at %#x: %v", at, err)
		}
		e.ok(e.th.ResetDevice(0))
		e.ok(e.th.SetDevice(0))
	}
}
