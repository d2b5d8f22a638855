package acl

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Registered host memory: asynchronous copies take it as pinned, kernels reach it, until the registration ends.
func TestHostRegister(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	h := e.pageable(8192)
	var dev acl.Addr
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.HostRegister(h+1, 4096, acl.ACL_HOST_REGISTER_MAPPED, &dev))
	e.want(acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, e.th.HostUnregister(h))
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.HostRegisterV2(h, 4096, acl.ACL_HOST_REG_IOMEMORY))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.HostRegisterV2(h, 4096, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.HostRegister(0x10000, 4096, acl.ACL_HOST_REGISTER_MAPPED, &dev))
	e.message("fault")

	s := e.stream()
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	launch := func(on acl.Stream, to acl.Addr) acl.Error {
		args := fillArgs(3, to, 8)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, on, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		return e.th.SynchronizeStream(on)
	}
	broken := e.stream()
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, launch(broken, h))

	e.ok(e.th.HostRegister(h, 4096, acl.ACL_HOST_REGISTER_MAPPED, &dev))
	e.want(acl.ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, e.th.HostRegisterV2(h, 4096, acl.ACL_HOST_REG_PINNED))
	var again acl.Addr
	e.ok(e.th.HostGetDevicePointer(h+8, &again, 0))
	if again != dev+8 {
		t.Errorf("the device's addresses are %#x and %#x", dev, again)
	}
	e.ok(launch(s, dev))
	if space.Bytes(h, 8)[7] != 3 {
		t.Error("the kernel did not reach host memory")
	}
	d := e.malloc(64)
	release := e.hold(s)
	e.ok(e.th.MemcpyAsync(d, 64, h, 64, acl.ACL_MEMCPY_HOST_TO_DEVICE, s)) // would wait for ever if it were pageable
	release()
	e.ok(e.th.SynchronizeStream(s))
	e.ok(e.th.HostUnregister(h))
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, launch(s, dev))
}

// Indirect copies read their addresses from device memory when they run.
func TestIndirectCopies(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	src, dst, table := e.malloc(64), e.malloc(64), e.malloc(64)
	e.ok(e.th.MemsetD32(src, 64, 0x11223344, 16))
	pointers := space.Bytes(table, 16)
	const inner = acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE
	release := e.hold(s)
	at := func(a acl.Addr) *acl.Addr { return (*acl.Addr)(space.Pointer(a)) }
	e.ok(e.th.MemcpyAsyncWithOffset(at(table), 64, 4, at(table+8), 8, 8, inner, s))
	binary.LittleEndian.PutUint64(pointers, dst)
	binary.LittleEndian.PutUint64(pointers[8:], src)
	release()
	e.ok(e.th.SynchronizeStream(s))
	if e.word(dst) != 0 || e.word(dst+4) != 0x11223344 || e.word(dst+8) != 0x11223344 || e.word(dst+12) != 0 {
		t.Errorf("%x", space.Bytes(dst, 16))
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemcpyAsyncWithOffset(at(table), 64, 4, at(table+8), 8, 8, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemcpyAsyncWithOffset(at(table), 4, 4, at(table+8), 8, 8, inner, s))

	var size uint64
	e.ok(e.th.GetMemcpyDescSize(inner, &size))
	desc := e.malloc(size)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SetMemcpyDesc(desc, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, src, dst, 4, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.SetMemcpyDesc(desc, inner, src, dst, 0, 0))
	e.ok(e.th.SetMemcpyDesc(desc, inner, src, dst+32, 4, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemcpyAsyncWithDesc(desc, inner, 0))
	release = e.hold(s)
	e.ok(e.th.MemcpyAsyncWithDesc(desc, inner, s))
	e.ok(e.th.SetMemcpyDesc(desc, inner, src, dst+48, 4, 0))
	release()
	e.ok(e.th.SynchronizeStream(s))
	if e.word(dst+32) != 0 || e.word(dst+48) != 0x11223344 {
		t.Error("the descriptor was not read when the copy ran")
	}
	e.ok(e.th.SetMemcpyDesc(desc, inner, 0x1000, dst, 4, 0))
	e.ok(e.th.MemcpyAsyncWithDesc(desc, inner, s))
	e.want(acl.ACL_ERROR_RT_SYS_DMA, e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemsetD32(src, 63, 1, 16))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemsetD32(src+2, 60, 1, 1))
}

func TestReduceByTypeAndKind(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	a, b := e.malloc(64), e.malloc(64)
	le := binary.LittleEndian
	f32 := func(f float32) uint64 { return uint64(math.Float32bits(f)) }
	for _, c := range []struct {
		typ        acl.DataType
		kind       acl.ReduceKind
		x, y, want uint64
	}{
		{acl.ACL_INT8, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 0x7f, 1, 0x80}, {acl.ACL_INT8, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, 0xff, 1, 1},
		{acl.ACL_INT16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, 0xffff, 1, 0xffff}, {acl.ACL_INT32, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 7, 8, 15},
		{acl.ACL_FLOAT, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, f32(1.5), f32(2), f32(3.5)}, {acl.ACL_FLOAT, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, f32(-1), f32(-2), f32(-1)},
		{acl.ACL_BF16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 0x3f80, 0x3b80, 0x3f80}, {acl.ACL_BF16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 0x3f81, 0x3b80, 0x3f82},
		{acl.ACL_FLOAT16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 0x3c00, 0x4000, 0x4200}, {acl.ACL_BF16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 0x3f80, 0x4000, 0x4040},
	} {
		le.PutUint64(space.Bytes(a, 8), c.x)
		le.PutUint64(space.Bytes(b, 8), c.y)
		n := dataTypeSize(c.typ)
		e.ok(e.th.ReduceAsync(a, b, n, c.kind, c.typ, s, 0))
		e.ok(e.th.SynchronizeStream(s))
		if got := le.Uint64(space.Bytes(a, 8)); got != c.want {
			t.Errorf("type %d, kind %d: %#x and %#x give %#x, want %#x", c.typ, c.kind, c.x, c.y, got, c.want)
		}
	}
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.ReduceAsync(a, b, 8, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT64, s, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ReduceAsync(a, b, 3, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
	for _, c := range []struct {
		dst, src acl.Addr
		want     acl.Error
	}{{0, b, acl.ACL_ERROR_INVALID_PARAM}, {a, 0, acl.ACL_ERROR_INVALID_PARAM}, {e.pinned(64), b, acl.ACL_ERROR_RT_PARAM_INVALID}, {a, e.pageable(64), acl.ACL_ERROR_RT_PARAM_INVALID}} {
		e.want(c.want, e.th.ReduceAsync(c.dst, c.src, 8, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
	}
}

// The float status is 0, as no operation of the simulator overflows. It is stored in stream order, in 64 bytes, and is data that was written.
func TestOverflowStatus(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	s := e.stream()
	out := e.malloc(128)
	e.ok(e.th.Memset(out, 128, 7, 128))
	args := binary.LittleEndian.AppendUint64(nil, out)
	e.ok(e.th.LaunchKernelWithHostArgs(e.function(e.load(testBinary(11, "mystery")), "mystery"), 1, s, nil, addr(&args[0]), 8, nil, 0))
	e.ok(e.th.SynchronizeStream(s))
	e.unknown(out, "mystery")
	release := e.hold(s)
	e.ok(e.th.GetOverflowStatus(out, overflowSize, s))
	e.ok(e.th.ResetOverflowStatus(s))
	if e.word(out) != 0x07070707 {
		t.Error("the status was stored before its turn")
	}
	release()
	e.ok(e.th.SynchronizeStream(s))
	if e.word(out) != 0 || e.word(out+overflowSize-4) != 0 || e.word(out+overflowSize) != 0x07070707 {
		t.Errorf("%x", space.Bytes(out, 128))
	}
	if by, ok := e.sim.Unknown(out, overflowSize); ok {
		t.Errorf("the status depends on %s", by)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.GetOverflowStatus(out, overflowSize-1, s))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.GetOverflowStatus(0, overflowSize, s))
	e.ok(e.th.GetOverflowStatus(e.pageable(64), overflowSize, s))
	e.want(acl.ACL_ERROR_RT_SYS_DMA, e.th.SynchronizeStream(s))
}

// Half precision: every value survives the way there and back, and rounding is to the nearest even.
func TestHalfPrecisionRoundsToEven(t *testing.T) {
	for h := range 1 << 16 {
		f := fromHalf(uint16(h))
		if f != f {
			continue
		}
		if got := toHalf(f); got != uint16(h) {
			t.Fatalf("%#x became %v and %#x", h, f, got)
		}
	}
	for f, want := range map[float32]uint16{65520: 0x7c00, 65519: 0x7bff, 1 + 1.0/2048: 0x3c00, 1 + 3.0/2048: 0x3c02, 1e-9: 0, 5.9604645e-8: 1} {
		if got := toHalf(f); got != want {
			t.Errorf("%v is %#x, want %#x", f, got, want)
		}
	}
}

// An operator that takes longer than it may fails, as does its stream.
func TestOperatorTimeout(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	s := e.stream()
	f := e.function(e.load(testBinary(0, "slow")), "slow") // 20 ms
	args := make([]byte, 8)
	launch := func() acl.Error {
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0))
		return e.th.SynchronizeStream(s)
	}
	e.ok(launch())
	var actual, unit uint64
	e.ok(e.th.GetOpTimeOutInterval(&unit))
	e.ok(e.th.SetOpExecuteTimeOutV2(unit+1, &actual))
	if actual < 2*unit || actual > 2*unit+1 {
		t.Errorf("%d us became %d, with a unit of %d", unit+1, actual, unit)
	}
	e.ok(launch())
	e.ok(e.th.SetOpExecuteTimeOutV2(1, &actual))
	e.want(acl.ACL_ERROR_RT_AICORE_TIMEOUT, launch())
	e.ok(e.th.SetOpExecuteTimeOutV2(0, &actual))
	var ms uint32
	e.ok(e.th.GetOpExecuteTimeout(&ms))
	if actual != math.MaxUint64 || ms != math.MaxUint32 {
		t.Errorf("no limit is %d us and %d ms", actual, ms)
	}
}

// Peer memory is accessible only after the program has enabled access.
func TestPeerAccessMustBeEnabled(t *testing.T) {
	base := freeBase(t, 2)
	e := newEnv(t, Options{Devices: 2, VABase: base, Kernels: testKernels()})
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	e.ok(e.th.SetDevice(1))
	far := e.malloc(64)
	e.ok(e.th.SetDevice(0))
	launch := func() acl.Error {
		s := e.stream()
		args := fillArgs(3, far, 8)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		return e.th.SynchronizeStream(s)
	}
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, launch())
	e.message("no access")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.DeviceEnablePeerAccess(0, 0))
	e.ok(e.th.DeviceEnablePeerAccess(1, 0))
	e.ok(launch())
	var status int32
	e.ok(e.th.DevicePeerAccessStatus(0, 1, &status))
	if status != 1 {
		t.Error("the access is not seen")
	}
	e.ok(e.th.DeviceDisablePeerAccess(1))
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, launch())
}

// Settings are read back as set, per stream, device and thread.
func TestSettingsAreReadBack(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	var v acl.StreamAttrValue
	v[0] = 42
	e.ok(e.th.SetStreamAttribute(s, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v))
	v[0] = 0
	e.ok(e.th.GetStreamAttribute(s, acl.ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v))
	if v[0] != 42 {
		t.Errorf("the tag is %d", v[0])
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SetStreamAttribute(s, 99, &v))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SetStreamFailureMode(s, 2))

	var n uint32
	cube := acl.ACL_RT_DEV_RES_CUBE_CORE
	read := func(want uint32) {
		t.Helper()
		e.ok(e.th.GetResInCurrentThread(cube, &n))
		if n != want {
			t.Errorf("%d cores, want %d", n, want)
		}
	}
	read(cubeCores)
	e.ok(e.th.SetDeviceResLimit(0, cube, 12))
	read(12)
	e.ok(e.th.SetStreamResLimit(s, cube, 6))
	read(12)
	e.ok(e.th.UseStreamResInCurrentThread(s))
	read(6)
	e.ok(e.th.ResetStreamResLimit(s))
	read(12)
	e.ok(e.th.UnuseStreamResInCurrentThread(s))
	e.ok(e.th.ResetDeviceResLimit(0))
	read(cubeCores)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SetDeviceResLimit(0, cube, cubeCores+1))

	var left, fewer uint32
	e.ok(e.th.GetStreamAvailableNum(&left))
	e.stream()
	e.ok(e.th.GetStreamAvailableNum(&fewer))
	if fewer != left-1 {
		t.Errorf("%d streams were left, then %d", left, fewer)
	}

	h := (*acl.StreamConfigHandle)(space.Pointer(e.th.CreateStreamConfigHandle()))
	priority := uint32(5)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SetStreamConfigOpt(h, acl.ACL_RT_STREAM_PRIORITY, addr(&priority), 8))
	e.ok(e.th.SetStreamConfigOpt(h, acl.ACL_RT_STREAM_PRIORITY, addr(&priority), 4))
	var made acl.Stream
	e.ok(e.th.CreateStreamV2(&made, h))
	e.ok(e.th.StreamGetPriority(made, &n))
	if n != 5 {
		t.Errorf("the priority is %d", n)
	}
	e.ok(e.th.DestroyStreamConfigHandle(h))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.CreateStreamV2(&made, h))

	var value int64
	e.want(acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, e.th.CtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, &value))
	e.ok(e.th.CtxSetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, 1))
	e.ok(e.th.CtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, &value))
	if value != 1 {
		t.Errorf("the option is %d", value)
	}
	e.ok(e.th.CtxSetSysParamOpt(acl.ACL_OPT_ENABLE_KERNEL_EARLY_START, 1)) // the last one
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.CtxSetSysParamOpt(acl.ACL_OPT_ENABLE_KERNEL_EARLY_START+1, 1))
	value = 7
	if e.ok(e.th.GetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, &value)); value != 0 {
		t.Errorf("an option of the process is %d before it is set", value)
	}
}

// Argument addresses are checked before the kernel's functions read them. Null is allowed for absent arguments,
// except tiling data.
func TestWildArguments(t *testing.T) {
	followed := 0
	k := &device.Kernel{
		Name: "wild", Args: []device.Arg{{Name: "in", Kind: device.ArgInput, Size: 8}, {Name: "n", Kind: device.ArgScalar, Size: 8}, {Name: "tiling", Kind: device.ArgTiling, Size: 8},
			{Name: "workspace", Kind: device.ArgWorkspace, Size: 8}},
		Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
			followed++
			tiling := binary.LittleEndian.Uint64(l.Args[16:])
			return append(to, space.Extent{Addr: tiling, Size: uint64(space.Bytes(tiling, 1)[0]), Access: space.Read, Arg: 2})
		},
	}
	e := newEnv(t, Options{Kernels: kernelMap{"wild": k}})
	f := e.function(e.load(testBinary(0, "wild")), "wild")
	good := e.malloc(64)
	gone := e.malloc(64)
	e.ok(e.th.Free(gone))
	far := e.sim.opts.VABase + 8<<30
	for _, c := range []struct {
		in, tiling, workspace acl.Addr
		bad                   string
	}{
		{good, good, good, ""}, {0, good, 0, ""}, {0, 0, 0, "(tiling)"}, {good, far, good, "(tiling)"}, {good, gone, good, "freed"},
		{far, good, 0, "(in)"}, {good, good, 0x1000, "(workspace)"},
	} {
		s := e.stream()
		args := make([]byte, 32)
		for i, p := range []acl.Addr{c.in, 0xbad, c.tiling, c.workspace} {
			binary.LittleEndian.PutUint64(args[8*i:], p)
		}
		followed = 0
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 32, nil, 0))
		if c.bad == "" {
			e.ok(e.th.SynchronizeStream(s))
			continue
		}
		e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
		e.message(c.bad)
		if followed != 0 {
			t.Errorf("%+v: the kernel was asked", c)
		}
	}
}
