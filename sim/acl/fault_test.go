package acl

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

func TestFaultsStrikeCallsAndTasks(t *testing.T) {
	plan, err := fault.Parse("aclrtMalloc:2=207001, kernel:fill:2=507035 copy:3=corrupt,oom:3,fill:1=507013,lost:7", 0)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, Options{Faults: plan, Kernels: testKernels()})
	var a, b, c acl.Addr
	out := e.pageable(8)
	call := func(p *acl.Addr, n uint64) acl.Error {
		r, ok := e.th.Call(acl.FnMalloc, []uint64{out, n, 0})
		if !ok {
			t.Fatal("aclrtMalloc is not there")
		}
		*p = binary.LittleEndian.Uint64(space.Bytes(out, 8))
		return acl.Error(r)
	}
	e.ok(call(&a, 64))
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, call(&b, 64))
	e.message("aclrtMalloc: injected fault: call 2 fails")
	e.ok(call(&b, 64))
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.Malloc(&c, 64, 0))
	e.ok(e.th.Malloc(&c, 64, 0))

	// Tasks: the fill, the second launch, and a copy with a wrong byte. The seventh task loses the device.
	e.want(acl.ACL_ERROR_RT_SYS_DMA, func() acl.Error {
		s := e.stream()
		e.ok(e.th.MemsetAsync(a, 8, 1, 8, s))
		return e.th.SynchronizeStream(s)
	}())
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	launch := func() acl.Error {
		s := e.stream()
		args := fillArgs(9, a, 8)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		return e.th.SynchronizeStream(s)
	}
	e.ok(launch())
	e.want(acl.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, launch())
	e.ok(launch())
	host := e.pageable(64)
	e.ok(e.th.Memcpy(host, 8, a, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	e.ok(e.th.Memcpy(host, 8, a, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if space.Bytes(host, 8)[4] != 9 {
		t.Error("a copy is wrong that was to be right")
	}
	e.ok(e.th.Memcpy(host, 8, a, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	wrong := 0
	for _, x := range space.Bytes(host, 8) {
		if x != 9 {
			wrong++
		}
	}
	if wrong != 1 {
		t.Errorf("%d bytes of the corrupted copy are wrong", wrong)
	}
	e.ok(launch())
	e.ok(launch())
	e.want(acl.ACL_ERROR_RT_LOST_HEARTBEAT, launch())
	e.want(acl.ACL_ERROR_RT_LOST_HEARTBEAT, launch())

	// A wait for an event of a lost device never returned.
	var ev acl.Event
	e.ok(e.th.CreateEvent(&ev))
	e.ok(e.th.RecordEvent(ev, 0))
	e.want(acl.ACL_ERROR_RT_LOST_HEARTBEAT, e.th.SynchronizeEventWithTimeout(ev, 10_000))
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"aclrtMalloc": "want NAME:N", "aclrtMalloc:0=1": "invalid number", "aclrtNothing:1=5": "neither a function", "aclrtMalloc:1=corrupt": "want an error code",
		"copy:NAME:1=5": "for kernels only", "kernel:1=corrupt": "want an error code", "aclrtGetSocName:1=5": "neither a function", "oom:1=5": "want oom:N", "lost:1=5": "want lost:N",
		"kernel:5-4=freed": "invalid number", "copy:1=freed": "want an error code",
	} {
		if _, err := fault.Parse(text, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A buffer that is freed too early or is too short causes a device error with its address and kernel. The seed
// chooses the launch: it is the same in each run and with either clock, and the program can continue.
func TestFaultsOfMemory(t *testing.T) {
	const launches = 1000
	for _, effect := range fault.BadMemory {
		struck := map[int]int{}
		for seed := range uint64(4) {
			for _, virtual := range []bool{false, true} {
				plan, err := fault.Parse("kernel:1-1000="+effect, seed)
				if err != nil {
					t.Fatal(err)
				}
				e := newEnv(t, Options{Faults: plan, Virtual: virtual, Kernels: testKernels()})
				f := e.function(e.load(testBinary(11, "fill", "mystery")), []string{"fill", "mystery"}[seed%2])
				s := e.stream()
				for n := range launches {
					p := e.malloc(64)
					args := fillArgs(1, p, 64)
					if seed%2 == 1 {
						args = binary.LittleEndian.AppendUint64(nil, p)
					}
					e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
					if err := e.th.SynchronizeStream(s); err != 0 {
						e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, err)
						where := map[string]string{fault.FreedEarly: "freed memory", fault.OutOfBounds: "past the end of the allocation"}[effect]
						e.message("kernel "+[]string{"fill", "mystery"}[seed%2], fmt.Sprintf("%#x", p), where)
						struck[n]++
						if effect == fault.FreedEarly {
							e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(p))
							continue
						}
					}
					e.ok(e.th.Free(p))
				}
				e.sim.Close()
			}
		}
		if len(struck) < 3 {
			t.Errorf("%s: the seeds strike at %v", effect, struck)
		}
		for n, times := range struck {
			if times%2 != 0 {
				t.Errorf("%s: launch %d was struck %d times: the clocks differ", effect, n, times)
			}
		}
	}
}

// Only allocations that the kernel touches, and that can be freed, are spoiled.
func TestFaultsSpoilTheBuffersOfTheKernel(t *testing.T) {
	var touched []space.Extent
	k := &device.Kernel{Name: "k", Run: func(*device.Launch) {}, Extents: func(_ *device.Launch, to []space.Extent) []space.Extent { return append(to, touched...) }}
	for seed := range uint64(8) { // it selects the buffer
		plan, err := fault.Parse("kernel:1="+fault.FreedEarly+",kernel:2="+fault.FreedEarly, seed)
		if err != nil {
			t.Fatal(err)
		}
		e := newEnv(t, Options{Faults: plan, Kernels: kernelMap{"k": k}, Devices: 1})
		f, s := e.function(e.load(testBinary(0, "k")), "k"), e.stream()
		empty, one, host, args := e.malloc(64), e.malloc(64), e.pinned(64), make([]byte, 8)
		var reserved acl.Addr
		var physical acl.DrvMemHandle
		e.ok(e.th.ReserveMemAddress(&reserved, 2<<20, 0, 0, 1))
		e.ok(e.th.MallocPhysical(&physical, 2<<20, deviceProp(), 0))
		e.ok(e.th.MapMem(reserved, 2<<20, 0, physical, 0))
		launch := func() {
			e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0))
			e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
		}
		touched = []space.Extent{{Addr: empty}, {Addr: one, Size: 1, Access: space.Read}, {Addr: reserved, Size: 8, Access: space.Read}, {Addr: host, Size: 8, Access: space.Read}}
		launch()
		e.message("kernel k", fmt.Sprintf("%#x", one), "freed memory")
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(one))
		touched = []space.Extent{{Addr: empty}, {Addr: reserved, Size: 8, Access: space.Read}}
		launch()
		e.message("no device buffer")
		e.ok(e.th.Free(empty))
		e.sim.Close()
	}
}

// A text did not name the function that failed, and rarely its argument.
func TestErrorTextNamesFunctionAndArgument(t *testing.T) {
	e := newEnv(t, Options{Devices: 1})
	for _, c := range []struct {
		fn    api.ID
		words []uint64
		text  string
	}{
		{acl.FnSetDevice, []uint64{99}, "aclrtSetDevice: invalid device 99: the process sees 1 device"},
		{acl.FnMalloc, []uint64{e.pageable(8), 0, 0}, "aclrtMalloc: size is 0: want 1 byte or more"},
		{acl.FnSynchronizeStream, []uint64{0x1230}, "aclrtSynchronizeStream: stream 0x1230 is not a handle of kind stream"},
		{acl.FnDestroyEvent, []uint64{0}, "aclrtDestroyEvent: event is null"},
	} {
		if r, ok := e.th.Call(c.fn, c.words); !ok || r == 0 {
			t.Errorf("%s: %d, %v", c.text, r, ok)
		}
		e.message(c.text)
	}
	// A method that no call names has no function.
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.DestroyEvent(0))
	if a := e.th.GetRecentErrMsg(); space.GoString((*byte)(space.Pointer(a))) != "event is null" {
		t.Errorf("%q", space.GoString((*byte)(space.Pointer(a))))
	}
}
