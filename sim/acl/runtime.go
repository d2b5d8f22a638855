package acl

import (
	"bytes"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

type runtimeFunction func(t *Thread, w []uint64) acl.Error

// runtimeFunctions are functions of the library below AscendCL (rt*) that programs call directly. They need no aclInit
// and return the same codes. acl.Call performs those that do what an AscendCL function does.
var runtimeFunctions = map[string]runtimeFunction{
	// Contexts and streams
	"rtCtxCreate":                     func(t *Thread, w []uint64) acl.Error { return t.CreateContext(at[acl.Context](w[0]), int32(w[2])) },
	"rtStreamCreate":                  func(t *Thread, w []uint64) acl.Error { return t.rtStream(w[0], w[1], 0) },
	"rtStreamCreateWithFlags":         func(t *Thread, w []uint64) acl.Error { return t.rtStream(w[0], w[1], uint32(w[2])) },
	"rtStreamCreateWithFlagsExternal": func(t *Thread, w []uint64) acl.Error { return t.rtStream(w[0], w[1], uint32(w[2])) },
	"rtsStreamDestroy":                func(t *Thread, w []uint64) acl.Error { return t.destroyStream(acl.Stream(w[0]), w[1] != 0) },
	"rtStreamQuery":                   queryStreamRT,
	"rtsStreamQuery":                  queryStreamRT,
	"rtGetTaskIdAndStreamID":          func(t *Thread, w []uint64) acl.Error { return t.lastIDs(at[uint32](w[0]), at[uint32](w[1])) },
	"rtModelExecuteSync": func(t *Thread, w []uint64) acl.Error {
		if e := t.MdlRIExecuteAsync(acl.MdlRI(w[0]), acl.Stream(w[1])); e != 0 {
			return e
		}
		return t.SynchronizeStreamWithTimeout(acl.Stream(w[1]), int32(w[3]))
	},

	// Events
	"rtEventCreateWithFlag":   func(t *Thread, w []uint64) acl.Error { return t.rtEvent(w[0], w[1], graph.CreateEventWithFlag) },
	"rtEventCreateExWithFlag": func(t *Thread, w []uint64) acl.Error { return t.rtEvent(w[0], w[1], graph.CreateEventEx) },
	"rtsEventCreate":          func(t *Thread, w []uint64) acl.Error { return t.rtEvent(w[0], w[1], graph.CreateEventWithFlag) },
	"rtsEventCreateEx":        func(t *Thread, w []uint64) acl.Error { return t.rtEvent(w[0], w[1], graph.CreateEventEx) },
	"rtEventDestroySync": func(t *Thread, w []uint64) acl.Error {
		if e := t.SynchronizeEvent(acl.Event(w[0])); e != 0 {
			return e
		}
		return t.DestroyEvent(acl.Event(w[0]))
	},
	"rtEventGetTimeStamp":          func(t *Thread, w []uint64) acl.Error { return t.EventGetTimestamp(acl.Event(w[1]), at[uint64](w[0])) },
	"rtsEventGetTimeStamp":         func(t *Thread, w []uint64) acl.Error { return t.EventGetTimestamp(acl.Event(w[1]), at[uint64](w[0])) },
	"rtStreamWaitEventWithTimeout": waitEventRT,
	"rtsEventWait":                 waitEventRT,
	"rtEventQuery": func(t *Thread, w []uint64) acl.Error {
		ev, e := t.event(acl.Event(w[0]))
		if e != 0 {
			return e
		}
		done, e := t.eventDone(ev)
		if e == 0 && !done {
			return t.fail(acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, "event %#x is not complete", w[0])
		}
		return e
	},

	// Notifies
	"rtNotifyCreate":         func(t *Thread, w []uint64) acl.Error { return t.rtNotify(w[0], w[1], 0) },
	"rtNotifyCreateWithFlag": func(t *Thread, w []uint64) acl.Error { return t.rtNotify(w[0], w[1], w[2]) },
	"rtNotifyWait": func(t *Thread, w []uint64) acl.Error {
		return t.WaitAndResetNotify(acl.Notify(w[0]), acl.Stream(w[1]), 0)
	},
	"rtNotifyReset": func(t *Thread, w []uint64) acl.Error { n := acl.Notify(w[0]); return t.NotifyBatchReset(&n, 1) },
	"rtIpcOpenNotify": func(t *Thread, w []uint64) acl.Error {
		return t.NotifyImportByKey(at[acl.Notify](w[0]), at[byte](w[1]), 0)
	},
	"rtCntNotifyCreate":         func(t *Thread, w []uint64) acl.Error { return t.rtCounter(w[1], w[0], 0) },
	"rtCntNotifyCreateWithFlag": func(t *Thread, w []uint64) acl.Error { return t.rtCounter(w[1], w[0], w[2]) },

	// Copies
	"rtMemcpy":                      copyRT,
	"rtMemcpyEx":                    copyRT,
	"rtMemcpyAsync":                 copyAsyncRT,
	"rtMemcpyAsyncEx":               copyAsyncRT,
	"rtMemcpyAsyncWithCfg":          copyAsyncRT,
	"rtMemcpyAsyncWithCfgV2":        copyAsyncRT,
	"rtMemcpyAsyncWithoutCheckKind": copyAsyncRT,
	"rtMemcpyHostTask":              copyAsyncRT,
	"rtsMemcpyAsync": func(t *Thread, w []uint64) acl.Error {
		return t.MemcpyAsync(w[0], w[1], w[2], w[3], acl.MemcpyKind(int32(w[4])), acl.Stream(w[6]))
	},
	"rtMemcpy2d": func(t *Thread, w []uint64) acl.Error {
		return t.Memcpy2d(w[0], w[1], w[2], w[3], w[4], w[5], copyKind(w[6]))
	},
	"rtMemcpy2dAsync": func(t *Thread, w []uint64) acl.Error {
		return t.Memcpy2dAsync(w[0], w[1], w[2], w[3], w[4], w[5], copyKind(w[6]), acl.Stream(w[7]))
	},
	"rtMemcpyD2DAddrAsync": func(t *Thread, w []uint64) acl.Error {
		return t.MemcpyAsyncWithOffset(at[acl.Addr](w[0]), w[1], w[2], at[acl.Addr](w[3]), w[4], w[5], acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, acl.Stream(w[6]))
	},
	"rtReduceAsync":          reduceRT,
	"rtReduceAsyncV2":        reduceRT,
	"rtReduceAsyncWithCfg":   reduceRT,
	"rtReduceAsyncWithCfgV2": reduceRT,

	// Program functions
	"rtCallbackLaunch": func(t *Thread, w []uint64) acl.Error {
		return t.LaunchCallback(w[0], w[1], acl.CallbackBlockType(w[3]&1), acl.Stream(w[2]))
	},

	// Devices and memory of other processes
	"rtGetDeviceInfo": func(t *Thread, w []uint64) acl.Error { return t.rtDeviceInfo(w) },
	"rtEnableP2P":     func(t *Thread, w []uint64) acl.Error { return t.rtPeer(w[0], w[1], true) },
	"rtDisableP2P":    func(t *Thread, w []uint64) acl.Error { return t.rtPeer(w[0], w[1], false) },
	"rtIpcSetMemoryName": func(t *Thread, w []uint64) acl.Error {
		if n := uint32(w[3]); n < memory.KeySize {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "len is %d: want %d or more", n, memory.KeySize)
		}
		return t.IpcMemGetExportKey(w[0], w[1], at[byte](w[2]), memory.KeySize, 0)
	},
	"rtIpcDestroyMemoryName": func(t *Thread, w []uint64) acl.Error {
		if _, e := t.ownByKey(at[byte](w[0]), memory.SlotMemory); e != 0 {
			return e
		}
		return t.IpcMemClose(at[byte](w[0]))
	},
	"rtIpcOpenMemory": func(t *Thread, w []uint64) acl.Error {
		return t.IpcMemImportByKey(at[acl.Addr](w[0]), at[byte](w[1]), 0)
	},
	"rtIpcCloseMemory": func(t *Thread, w []uint64) acl.Error {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.closeImported(t.sim.Shares.ImportedAt(w[0]), "at %#x", w[0])
	},
	"rtSetIpcMemPid": func(t *Thread, w []uint64) acl.Error {
		return t.IpcMemSetImportPid(at[byte](w[0]), at[int32](w[1]), uint64(uint32(w[2])))
	},
	// All processes of the simulator are on one server.
	"rtSetIpcMemorySuperPodPid": func(t *Thread, w []uint64) acl.Error {
		return t.IpcMemSetImportPid(at[byte](w[0]), at[int32](w[2]), uint64(uint32(w[3])))
	},

	// Queries of launchers
	"rtGetSocVersion": func(t *Thread, w []uint64) acl.Error {
		if n := uint64(uint32(w[1])); w[0] == 0 || n <= uint64(len(release.Device)) {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "buffer of %d bytes at %#x is too small for the SoC name", n, w[0])
		}
		space.PutText(space.Bytes(w[0], uint64(len(release.Device)+1)), release.Device)
		return acl.ACL_SUCCESS
	},
	"rtGetC2cCtrlAddr": func(t *Thread, w []uint64) acl.Error {
		if e := t.GetHardwareSyncAddr(at[acl.Addr](w[0])); e != 0 {
			return e
		}
		if w[1] != 0 {
			*at[uint32](w[1]) = space.PageSize
		}
		return acl.ACL_SUCCESS
	},

	// Binaries and functions
	"rtRegisterVariable":        func(t *Thread, w []uint64) acl.Error { return t.registerSymbol(w[0], w[1], at[byte](w[2]), false) },
	"rtRegisterFuncSymbol":      func(t *Thread, w []uint64) acl.Error { return t.registerSymbol(w[0], w[1], at[byte](w[2]), true) },
	"rtDevBinaryRegister":       func(t *Thread, w []uint64) acl.Error { return t.rtBinary(w[0], w[1]) },
	"rtRegisterAllKernel":       func(t *Thread, w []uint64) acl.Error { return t.rtBinary(w[0], w[1]) },
	"rtBinaryLoad":              func(t *Thread, w []uint64) acl.Error { return t.rtBinary(w[0], w[1]) },
	"rtFunctionRegister":        func(t *Thread, w []uint64) acl.Error { return t.rtRegister(w[0], w[1], at[byte](w[2]), at[byte](w[3])) },
	"rtQueryFunctionRegistered": func(t *Thread, w []uint64) acl.Error { _, e := t.stubByName(at[byte](w[0])); return e },
	"rtGetFunctionByName": func(t *Thread, w []uint64) acl.Error {
		s, e := t.stubByName(at[byte](w[0]))
		if e != 0 {
			return e
		}
		return put(t, "stubFunc", at[acl.Addr](w[1]), s)
	},
	"rtBinaryLoadWithoutTilingKey": func(t *Thread, w []uint64) acl.Error { return t.rtLoad(w[0], w[1], w[2]) },
	"rtsBinaryLoadFromData":        func(t *Thread, w []uint64) acl.Error { return t.rtLoad(w[0], w[1], w[3]) },

	// Launches
	"rtKernelLaunch": func(t *Thread, w []uint64) acl.Error {
		fn, e := t.stub(w[0])
		if e != 0 {
			return e
		}
		return t.hostArgs(fn, kernel.Line(uint32(w[1])), acl.Stream(w[5]), nil, w[2], uint64(uint32(w[3])), nil, 0)
	},
	"rtKernelLaunchWithFlag":             launchStubRT,
	"rtKernelLaunchWithFlagV2":           launchStubRT,
	"rtVectorCoreKernelLaunch":           launchStubRT,
	"rtKernelLaunchWithHandle":           launchHandleRT,
	"rtKernelLaunchWithHandleV2":         launchHandleRT,
	"rtVectorCoreKernelLaunchWithHandle": launchHandleRT,
	"rtLaunchKernelByFuncHandleV3": func(t *Thread, w []uint64) acl.Error {
		return t.rtLaunch(w[0], uint32(w[1]), at[argsEx](w[2]), acl.Stream(w[3]))
	},
	"rtsLaunchKernelWithDevArgs": func(t *Thread, w []uint64) acl.Error {
		return t.LaunchKernelV2(acl.FuncHandle(w[0]), uint32(w[1]), w[4], uint64(uint32(w[5])), at[acl.LaunchKernelCfg](w[3]), acl.Stream(w[2]))
	},
}

// queryStreamRT returns 0 if the stream's work is done.
func queryStreamRT(t *Thread, w []uint64) acl.Error {
	var status acl.StreamStatus
	if e := t.StreamQuery(acl.Stream(w[0]), &status); e != 0 {
		return e
	}
	if status != acl.ACL_STREAM_STATUS_COMPLETE {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_COMPLETE, "stream %#x has unfinished tasks", w[0])
	}
	return acl.ACL_SUCCESS
}

func waitEventRT(t *Thread, w []uint64) acl.Error {
	return t.StreamWaitEventWithFlag(acl.Stream(w[0]), acl.Event(w[1]), uint32(w[2]), 0)
}

// runtimeTable has the functions of the lower library by number, from firstRuntime on.
var runtimeTable, firstRuntime = func() (table []runtimeFunction, first api.ID) {
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		if f.Layer != "rt" {
			continue
		}
		if first == 0 {
			first = f.ID
		}
		for api.ID(len(table)) <= f.ID-first {
			table = append(table, nil)
		}
		table[f.ID-first] = runtimeFunctions[f.Name]
	}
	return table, first
}()

// callRuntime calls a function of the lower library, and reports whether it is simulated.
func (t *Thread) callRuntime(fn api.ID, w []uint64) (uint64, bool) {
	t.below = true
	defer func() { t.below = false }()
	if i := int(fn - firstRuntime); i < len(runtimeTable) && runtimeTable[i] != nil {
		return uint64(uint32(runtimeTable[i](t, w))), true
	}
	return acl.Call(t, fn, w)
}

// at returns the target of a pointer argument.
func at[T any](w uint64) *T { return (*T)(space.Pointer(w)) }

// rtStream creates a stream. It maps the flags of the lower library and ignores flags without effect.
func (t *Thread) rtStream(stm, priority uint64, flags uint32) acl.Error {
	const persistent, huge, scheduled, fastLaunch, fastSync, deviceUse = 1, 4, 8, 0x200, 0x400, 0x800
	upper := uint32(0)
	for _, f := range [][2]uint32{{persistent, acl.ACL_STREAM_PERSISTENT}, {huge, acl.ACL_STREAM_HUGE}, {scheduled, acl.ACL_STREAM_CPU_SCHEDULE},
		{fastLaunch, acl.ACL_STREAM_FAST_LAUNCH}, {fastSync, acl.ACL_STREAM_FAST_SYNC}, {deviceUse, acl.ACL_STREAM_DEVICE_USE_ONLY}} {
		if flags&f[0] != 0 {
			upper |= f[1]
		}
	}
	return t.CreateStreamWithConfig(at[acl.Stream](stm), uint32(priority), upper)
}

// rtEvent creates an event. Two flags of the lower library map to one.
func (t *Thread) rtEvent(evt, flags uint64, how string) acl.Error {
	const syncNS, progress, sync, timeLine, device, external, ipc = 1, 2, 4, 8, 0x10, 0x20, 0x40
	if flags&^(syncNS|progress|sync|timeLine|device|external|ipc) != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "event flags %#x are unknown", flags)
	}
	upper := uint32(flags &^ sync)
	if flags&sync != 0 {
		upper |= acl.ACL_EVENT_SYNC
	}
	return t.newEvent(at[acl.Event](evt), upper, how)
}

// onDevice runs a function with the primary context of a device, unless the current context is on that device.
func (t *Thread) onDevice(id uint64, f func() acl.Error) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	d, e := t.device(int32(id))
	if e != 0 {
		return e
	}
	if d == c.Device {
		return f()
	}
	d.Lock()
	other := d.Primary
	d.Unlock()
	if other == nil {
		return t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "device %d is not set", d.ID)
	}
	t.current = other
	defer func() { t.current = c }()
	return f()
}

func (t *Thread) rtNotify(device, notify, flag uint64) acl.Error {
	return t.onDevice(device, func() acl.Error { return t.CreateNotify(at[acl.Notify](notify), flag) })
}

func (t *Thread) rtCounter(notify, device, flag uint64) acl.Error {
	return t.onDevice(device, func() acl.Error { return t.CntNotifyCreate(at[acl.CntNotify](notify), flag) })
}

func (t *Thread) lastIDs(task, stream *uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if task == nil || stream == nil {
		return t.null("taskId or streamId")
	}
	*task, *stream = ^uint32(0), ^uint32(0)
	if t.hasTask {
		*task, *stream = t.lastTask, uint32(t.lastStream)
	}
	return acl.ACL_SUCCESS
}

// noKind is an invalid copy kind.
const noKind acl.MemcpyKind = -1

// copyKind maps a copy kind of the lower library.
func copyKind(k uint64) acl.MemcpyKind {
	const managed, hostEx, deviceEx, byPlace = 4, 6, 7, 8
	switch k := acl.MemcpyKind(int32(k)); {
	case k >= acl.ACL_MEMCPY_HOST_TO_HOST && k <= acl.ACL_MEMCPY_DEVICE_TO_DEVICE:
		return k
	case k == managed || k == byPlace:
		return acl.ACL_MEMCPY_DEFAULT
	case k == hostEx:
		return acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE
	case k == deviceEx:
		return acl.ACL_MEMCPY_DEVICE_TO_HOST
	}
	return noKind
}

func copyRT(t *Thread, w []uint64) acl.Error {
	return t.Memcpy(w[0], w[1], w[2], w[3], copyKind(w[4]))
}

func copyAsyncRT(t *Thread, w []uint64) acl.Error {
	return t.MemcpyAsync(w[0], w[1], w[2], w[3], copyKind(w[4]), acl.Stream(w[5]))
}

// reduceTypes maps data types of the lower library.
var reduceTypes = map[int32]acl.DataType{0: acl.ACL_FLOAT, 1: acl.ACL_FLOAT16, 2: acl.ACL_INT16, 4: acl.ACL_INT8, 5: acl.ACL_INT32, 6: acl.ACL_BF16,
	8: acl.ACL_UINT8, 9: acl.ACL_UINT16, 10: acl.ACL_UINT32}

// reduceRT reduces. Unlike AscendCL it checks the destination size.
func reduceRT(t *Thread, w []uint64) acl.Error {
	typ, ok := reduceTypes[int32(w[5])]
	size := dataTypeSize(typ)
	switch {
	case !ok:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "data type %d can't be reduced", int32(w[5]))
	case w[3] > w[1]:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is greater than destMax %d", w[3], w[1])
	case w[3]%size != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is not a multiple of the element size %d", w[3], size)
	}
	return t.ReduceAsync(w[0], w[2], w[3], acl.ReduceKind(int32(w[4])), typ, acl.Stream(w[6]), 0)
}

// devBinary is rtDevBinary_t.
type devBinary struct {
	_, _         uint32 // magic and version
	data, length uint64
}

// argsEx is rtArgsEx_t: arguments with placeholders, including one for tiling data.
type argsEx struct {
	args, hostInputs       uint64
	size                   uint32
	tilingAddr, tilingData uint32
	numHostInputs          uint16
	hasTiling, onDevice    uint8
	_                      uint32
}

// rtBinary registers the binary that a description names.
func (t *Thread) rtBinary(bin, handle uint64) acl.Error {
	b := at[devBinary](bin)
	if b == nil {
		return t.absent("bin")
	}
	return t.rtLoad(b.data, b.length, handle)
}

func (t *Thread) rtLoad(data, length, handle uint64) acl.Error {
	if e := t.binaryArgs(data, length); e != 0 {
		return e
	}
	return t.addBinary(nil, bytes.Clone(space.Bytes(data, length)), "", false, at[acl.BinHandle](handle))
}

// stubFunc is a kernel that a program address names.
type stubFunc struct {
	fn   *kernel.Function
	name string // stub name
}

// rtRegister lets an address stand for a kernel. The kernel's name in its binary may differ from the stub's.
func (t *Thread) rtRegister(bin, stub uint64, stubName, kernelName *byte) acl.Error {
	f := t.sim.binaries.Get(bin)
	switch {
	case f == nil:
		return t.badHandle(space.KindBinary, bin)
	case stub == 0 || stubName == nil:
		return t.absent("stubFunc or stubName")
	}
	name := space.GoString(stubName)
	kernel := name
	if kernelName != nil {
		kernel = space.GoString(kernelName)
	}
	if !f.Has(kernel) {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary has no kernel %q", kernel)
	}
	var h acl.FuncHandle
	if e := t.function(f, kernel, 0, &h); e != 0 {
		return e
	}
	if old, there := t.sim.program.stubs.LoadOrStore(stub, &stubFunc{t.sim.functions.Get(uint64(h)), name}); there {
		if t.sim.functions.Get(old.(*stubFunc).fn.Handle) != nil {
			return t.fail(acl.ACL_ERROR_RT_KERNEL_DUPLICATE, "stub %#x is registered for kernel %q already", stub, old.(*stubFunc).fn.Name)
		}
		t.sim.program.stubs.Store(stub, &stubFunc{t.sim.functions.Get(uint64(h)), name}) // its binary is gone
	}
	return acl.ACL_SUCCESS
}

// stub returns the handle of the kernel that an address names.
func (t *Thread) stub(at uint64) (uint64, acl.Error) {
	s, ok := t.sim.program.stubs.Load(at)
	if at == 0 {
		return 0, t.absent("stubFunc")
	}
	if !ok {
		return 0, t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "no kernel is registered for stub %#x", at)
	}
	return s.(*stubFunc).fn.Handle, acl.ACL_SUCCESS
}

// stubByName returns the address that names a kernel.
func (t *Thread) stubByName(name *byte) (addr uint64, e acl.Error) {
	if name == nil {
		return 0, t.absent("stubName")
	}
	want := space.GoString(name)
	t.sim.program.stubs.Range(func(at, s any) bool {
		if x := s.(*stubFunc); x.name == want && t.sim.functions.Get(x.fn.Handle) == x.fn {
			addr = at.(uint64)
		}
		return addr == 0
	})
	if addr == 0 {
		return 0, t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "no kernel is registered as %q", want)
	}
	return addr, acl.ACL_SUCCESS
}

// rtLaunch launches a kernel with arguments in host memory, whose placeholders are patched, or in device memory.
func (t *Thread) rtLaunch(fn uint64, blocks uint32, a *argsEx, stream acl.Stream) acl.Error {
	switch {
	case a == nil:
		return t.absent("argsInfo")
	case a.onDevice != 0:
		return t.LaunchKernelV2(acl.FuncHandle(fn), blocks, a.args, uint64(a.size), nil, stream)
	case a.numHostInputs > 0 && a.hostInputs == 0:
		return t.absent("argsInfo->hostInputInfoPtr")
	}
	holders := make([]acl.PlaceHolderInfo, 0, 8)
	holders = append(holders, space.List(at[acl.PlaceHolderInfo](a.hostInputs), uint64(a.numHostInputs))...)
	if a.hasTiling != 0 {
		holders = append(holders, acl.PlaceHolderInfo{AddrOffset: a.tilingAddr, DataOffset: a.tilingData})
	}
	if len(holders) == 0 {
		return t.hostArgs(fn, kernel.Line(blocks), stream, nil, a.args, uint64(a.size), nil, 0)
	}
	return t.hostArgs(fn, kernel.Line(blocks), stream, nil, a.args, uint64(a.size), &holders[0], uint64(len(holders)))
}

// launchStubRT launches a kernel by its stub.
func launchStubRT(t *Thread, w []uint64) acl.Error {
	fn, e := t.stub(w[0])
	if e != 0 {
		return e
	}
	return t.rtLaunch(fn, uint32(w[1]), at[argsEx](w[2]), acl.Stream(w[4]))
}

// launchHandleRT launches the kernel with a tiling key.
func launchHandleRT(t *Thread, w []uint64) acl.Error {
	var h acl.FuncHandle
	if e := t.BinaryGetFunctionByEntry(acl.BinHandle(w[0]), w[1], &h); e != 0 {
		return e
	}
	return t.rtLaunch(uint64(h), uint32(w[2]), at[argsEx](w[3]), acl.Stream(w[5]))
}

// Call calls a function by id, with its arguments as words. It returns false for a function that is not simulated.
func (t *Thread) Call(fn api.ID, words []uint64) (uint64, bool) {
	if c := t.sim.Strict; c != nil {
		f := acl.Model.Func(fn)
		outer := c.Enter(&t.Strict, f.Name)
		result, ok := t.perform(fn, words)
		c.Leave(&t.Strict, f, words, result, outer)
		return result, ok
	}
	return t.perform(fn, words)
}

// perform is Call without strict mode.
func (t *Thread) perform(fn api.ID, words []uint64) (result uint64, ok bool) {
	outer := t.call // a function that the program called back makes calls
	t.call = call{fn, words}
	result, ok = t.performs(fn, words)
	t.call = outer
	return result, ok
}

func (t *Thread) performs(fn api.ID, words []uint64) (uint64, bool) {
	if f := t.sim.opts.Faults; f != nil {
		name := acl.Model.Func(fn).Name
		if x := f.Hit(name, ""); x != nil {
			return uint64(uint32(t.fail(x.Code, "injected fault: call %d fails", x.At))), true
		}
	}
	if fn >= firstRuntime {
		return t.callRuntime(fn, words)
	}
	return t.dispatch(fn, words)
}

// rtAttrs are the attributes by the numbers that the lower library has for them, in its module of the system. The numbers are those of HCCL's public
// source, which asks for both.
var rtAttrs = map[int32]acl.DevAttr{26: acl.ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, 27: acl.ACL_DEV_ATTR_SUPER_POD_SERVER_ID, 29: acl.ACL_DEV_ATTR_SUPER_POD_ID}

// rtDeviceInfo is GetDeviceInfo with the numbers of the lower library.
func (t *Thread) rtDeviceInfo(w []uint64) acl.Error {
	attr, ok := rtAttrs[int32(w[2])]
	if module := int32(w[1]); !ok || module != 0 {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "rtGetDeviceInfo of module %d, information %d is not simulated", module, int32(w[2]))
	}
	return t.GetDeviceInfo(uint32(w[0]), attr, at[int64](w[3]))
}

// rtPeer sets a device's access to the memory of another one. Unlike AscendCL's functions, it does not depend on the thread's device.
func (t *Thread) rtPeer(id, peer uint64, access bool) acl.Error {
	d, e := t.knownDevice(int32(id))
	if e != 0 {
		return e
	}
	other, e := t.knownDevice(int32(peer))
	switch {
	case e != 0:
		return e
	case d == other:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "device %d is not a peer of itself", d.ID)
	case access:
		d.Peers.Or(1 << other.ID)
	default:
		d.Peers.And(^uint32(1 << other.ID))
	}
	return acl.ACL_SUCCESS
}
