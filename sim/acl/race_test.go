package acl

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/device/memory"
)

// Threads that capture, run, abort, map, register and free at the same time neither hang nor leak.
func TestRacingThreads(t *testing.T) {
	idle := runtime.NumGoroutine()
	c := &calls{}
	e := newEnv(t, Options{Caller: c, Kernels: testKernels()})
	host := c.fn(func(uint64) {})
	var ctx acl.Context
	e.ok(e.th.GetCurrentContext(&ctx))
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	var before, after, total uint64
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &before, &total))
	racing := 500 * time.Millisecond
	if os.Getenv("ACLTRACE_SOAK") != "" {
		racing = time.Minute
	}
	end := time.Now().Add(racing)
	var wg sync.WaitGroup
	for n := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(n, 1))
			th := e.sim.NewThread()
			defer th.End()
			ok := func(err acl.Error) {
				if err != 0 {
					t.Errorf("thread %d: %v: %s", n, err, th.message)
				}
			}
			ok(th.SetCurrentContext(ctx))
			var s [4]acl.Stream
			for i := range s {
				ok(th.CreateStream(&s[i]))
			}
			var p acl.Addr
			ok(th.Malloc(&p, 4096, 0))
			args := fillArgs(byte(n), p, 64)
			launch := func(on acl.Stream) {
				ok(th.LaunchKernelWithHostArgs(f, 1, on, nil, addr(&args[0]), uint64(len(args)), nil, 0))
			}
			for time.Now().Before(end) && !t.Failed() {
				a, b := s[r.IntN(2)], s[2+r.IntN(2)]
				switch r.IntN(9) {
				case 0, 1: // a graph over two streams
					var fork, join acl.Event
					var g acl.MdlRI
					ok(th.CreateEventExWithFlag(&fork, acl.ACL_EVENT_SYNC))
					ok(th.CreateEventExWithFlag(&join, acl.ACL_EVENT_SYNC))
					ok(th.MdlRICaptureBegin(a, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
					ok(th.RecordEvent(fork, a))
					ok(th.StreamWaitEvent(b, fork))
					launch(b)
					ok(th.LaunchHostFunc(a, host, 0))
					ok(th.RecordEvent(join, b))
					ok(th.StreamWaitEvent(a, join))
					ok(th.MdlRICaptureEnd(a, &g))
					ok(th.MdlRIExecuteAsync(g, b))
					ok(th.MdlRIExecuteAsync(g, a))
					ok(th.SynchronizeStream(a))
					ok(th.SynchronizeStream(b))
					ok(th.MdlRIDestroy(g))
					ok(th.DestroyEvent(fork))
					ok(th.DestroyEvent(join))
				case 2: // a notify that never comes, and an abort
					var x acl.Notify
					ok(th.CreateNotify(&x, 0))
					ok(th.WaitAndResetNotify(x, a, 0))
					launch(a)
					ok(th.StreamAbort(a))
					ok(th.SynchronizeStream(a))
					ok(th.DestroyNotify(x))
				case 3: // virtual memory
					var va acl.Addr
					var h acl.DrvMemHandle
					ok(th.ReserveMemAddress(&va, 1<<30, 0, 0, 0))
					ok(th.MallocPhysical(&h, memory.Granularity, deviceProp(), 0))
					ok(th.MapMem(va+memory.Granularity, memory.Granularity, 0, h, 0))
					ok(th.MemsetAsync(va+memory.Granularity, 64, 1, 64, a))
					ok(th.SynchronizeStream(a))
					ok(th.UnmapMem(va + memory.Granularity))
					ok(th.FreePhysical(h))
					ok(th.ReleaseMemAddress(va))
				case 4: // values between streams
					ok(th.ValueWrite(p+512, 0, 0, a))
					ok(th.SynchronizeStream(a))
					ok(th.ValueWait(p+512, n+1, acl.ACL_STREAM_WAIT_VALUE_EQ, b))
					ok(th.ValueWrite(p+512, n+1, 0, a))
					ok(th.SynchronizeStream(b))
				case 5:
					var q acl.Addr
					ok(th.Malloc(&q, 1+r.Uint64N(1<<16), 0))
					ok(th.MemsetAsync(q, 1, 1, 1, a))
					if err := th.SynchronizeDevice(); err != acl.ACL_ERROR_RT_STREAM_ABORT { // another thread's stream
						ok(err)
					}
					ok(th.Free(q))
				case 6:
					var x acl.Stream
					ok(th.CreateStream(&x))
					launch(x)
					ok(th.DestroyStream(x))
				case 8: // a model with a part under a condition
					var status acl.MdlRICaptureStatus
					var g, part acl.MdlRI
					var x acl.MdlRICondHandle
					ok(th.MdlRICaptureBegin(a, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
					ok(th.MdlRICaptureGetInfo(a, &status, &g))
					ok(th.MdlRICondHandleCreate(g, 1, acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &x))
					ok(th.MdlRIAddCondTask(acl.MdlRICondTaskParams{Handle: x, Type: acl.ACL_MODEL_RI_COND_TYPE_IF, Size: 1, ModelRIArray: addr(&part)}, a, 0))
					ok(th.MdlRICaptureToModelRIBegin(b, part, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
					launch(b)
					ok(th.MdlRICaptureEnd(b, &part))
					ok(th.MdlRICaptureEnd(a, &g))
					ok(th.MdlRIExecuteAsync(g, a))
					ok(th.SynchronizeStream(a))
					ok(th.MdlRIDestroy(g))
				case 7:
					ok(th.LaunchHostFunc(a, host, 0))
					launch(a)
				}
			}
			for _, x := range s {
				ok(th.DestroyStream(x))
			}
			ok(th.Free(p))
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(racing + testenv.Patience):
		t.Fatal("the threads hang")
	}
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &after, &total))
	if before != after {
		t.Errorf("%d bytes of device memory leaked", before-after)
	}
	if n := e.sim.Graphs.Live() + e.sim.notifies.Live() + e.sim.physicals.Live() + e.sim.events.Live(); n != 0 {
		t.Errorf("%d objects leaked", n)
	}

	// All goroutines of the simulator end with it.
	e.ok(e.th.ResetDeviceForce(0))
	e.ok(e.th.Finalize())
	var free uint64
	for _, d := range e.sim.Devices {
		free += d.Memory.Used
	}
	if free != 0 || e.sim.streams.Live() != 0 {
		t.Errorf("%d bytes and %d streams are left after aclFinalize", free, e.sim.streams.Live())
	}
	if !testenv.Await(func() bool { return runtime.NumGoroutine() <= idle }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), idle, stacks[:runtime.Stack(stacks, true)])
	}
}

// A long-running program does not grow: neither heap nor device memory, per launch, copy, event or graph run.
func TestNothingGrows(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual, Kernels: testKernels()})
		f := e.function(e.load(testBinary(11, "fill")), "fill")
		s, o := e.stream(), e.stream()
		p, h := e.malloc(4096), e.pinned(4096)
		ev := e.event()
		args := fillArgs(1, p, 64)
		launch := func() {
			e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		}
		g := e.capture(s, launch)
		steps := func(n int) {
			for i := range n {
				launch()
				e.ok(e.th.MemcpyAsync(h, 64, p, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST, s))
				e.ok(e.th.RecordEvent(ev, s))
				e.ok(e.th.StreamWaitEvent(o, ev))
				if i%64 == 0 {
					var q acl.Addr
					e.ok(e.th.MdlRIExecuteAsync(g, s))
					e.ok(e.th.Malloc(&q, 100, 0))
					e.ok(e.th.SynchronizeStream(s))
					e.ok(e.th.SynchronizeStream(o))
					e.ok(e.th.Free(q))
				}
			}
			e.ok(e.th.SynchronizeDevice())
		}
		inUse := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		n := 20000
		if os.Getenv("ACLTRACE_SOAK") != "" {
			n = 200000
		}
		steps(n / 4)
		before, used := inUse(), e.sim.Devices[0].Memory.Used
		steps(n)
		limit := uint64(n) * 4
		if e.sim.Strict != nil {
			limit *= 2 // freed ranges are remembered up to a limit
		}
		if after := inUse(); after > before+limit {
			t.Errorf("virtual %t: %d steps leave %d bytes on the heap", virtual, n, after-before)
		}
		if now := e.sim.Devices[0].Memory.Used; now != used {
			t.Errorf("virtual %t: %d bytes of device memory after %d steps, %d before", virtual, now, n, used)
		}
	}
}
