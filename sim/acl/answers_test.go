package acl

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// Frameworks ask for devices, memory and streams before aclInit: the answer was ACL_ERROR_UNINITIALIZE.
func TestCallsBeforeInit(t *testing.T) {
	s := New(&Options{VABase: freeBase(t, 1), Log: &logBuffer{}})
	t.Cleanup(s.Close)
	e := &env{T: t, sim: s, th: s.NewThread()}
	var p acl.Addr
	e.ok(e.th.SetDevice(0))
	e.ok(e.th.Malloc(&p, 64, 0))
	e.ok(e.th.SynchronizeStream(e.stream()))
	e.want(acl.ACL_ERROR_REPEAT_FINALIZE, e.th.FinalizeReference(nil))
	e.ok(e.th.Finalize())
	e.want(acl.ACL_ERROR_REPEAT_FINALIZE, e.th.Finalize())
	e.ok(e.th.Init(nil))
	e.ok(e.th.Finalize())
}

// PyTorch's allocator frees its caches after 207001 alone. The answer was 207018, and it kept 63 GiB.
func TestOutOfDeviceMemory(t *testing.T) {
	for _, c := range []struct {
		documented bool
		want       acl.Error
	}{{false, acl.ACL_ERROR_RT_MEMORY_ALLOCATION}, {true, acl.ACL_ERROR_RT_DEVICE_OOM}} {
		e := newEnv(t, Options{Memory: 4 << 20, Documented: c.documented})
		var p acl.Addr
		var h acl.DrvMemHandle
		e.want(c.want, e.th.Malloc(&p, 64<<20, 0))
		e.want(c.want, e.th.Malloc(&p, ^uint64(0), 0))
		e.want(c.want, e.th.MallocPhysical(&h, 64<<20, deviceProp(), 0))
	}
}

// The documentation's answers can be chosen.
func TestDocumentedAnswers(t *testing.T) {
	s := New(&Options{VABase: freeBase(t, 1), Log: &logBuffer{}, Documented: true})
	t.Cleanup(s.Close)
	e := &env{T: t, sim: s, th: s.NewThread()}
	var v int64
	e.want(acl.ACL_ERROR_UNINITIALIZE, e.th.SetDevice(0))
	e.want(acl.ACL_ERROR_UNINITIALIZE, e.th.Finalize())
	e.ok(e.th.Init(nil))
	e.want(acl.ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, e.th.GetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, &v))
	e.ok(e.th.Finalize())
	e.want(acl.ACL_ERROR_REPEAT_FINALIZE, e.th.Finalize())
}

// A function of a binary that was loaded on device 0 could not be launched on device 1, although it was found there.
func TestBinaryOnTwoDevices(t *testing.T) {
	e := newEnv(t, Options{VABase: freeBase(t, 3), Devices: 3})
	bin := e.load(testBinary(3, "double"))
	on := func(d int32) acl.Stream {
		e.ok(e.th.SetDevice(d))
		return e.stream()
	}
	launch := func(f acl.FuncHandle, s acl.Stream) acl.Error {
		return e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&make([]byte, 64)[0]), 64, nil, 0)
	}
	first := e.function(bin, "double")
	two := on(1)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, launch(first, two))
	f := e.function(bin, "double")
	if f != first {
		t.Errorf("the function's handle is %#x on device 1, %#x on device 0", f, first)
	}
	e.ok(launch(f, two))
	e.ok(e.th.SynchronizeStream(two))
	three := on(2)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, launch(f, three))
}
