package sim

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
)

// Threads that capture, run, abort, map, register and free at the same time neither hang nor leak.
func TestRacingThreads(t *testing.T) {
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
				switch r.IntN(8) {
				case 0, 1: // a graph over two streams
					var fork, join acl.Event
					var g acl.MdlRI
					ok(th.CreateEvent(&fork))
					ok(th.CreateEvent(&join))
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
					ok(th.MallocPhysical(&h, granularity, deviceProp(), 0))
					ok(th.MapMem(va+granularity, granularity, 0, h, 0))
					ok(th.MemsetAsync(va+granularity, 64, 1, 64, a))
					ok(th.SynchronizeStream(a))
					ok(th.UnmapMem(va + granularity))
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
					if err := th.SynchronizeDevice(); err != acl.ACL_ERROR_RT_STREAM_ABORT { // of another thread's stream
						ok(err)
					}
					ok(th.Free(q))
				case 6:
					var x acl.Stream
					ok(th.CreateStream(&x))
					launch(x)
					ok(th.DestroyStream(x))
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
	case <-time.After(racing + time.Minute):
		t.Fatal("the threads hang")
	}
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &after, &total))
	if before != after {
		t.Errorf("%d bytes of device memory leaked", before-after)
	}
	if n := e.sim.graphs.live() + e.sim.notifies.live() + e.sim.physicals.live() + e.sim.events.live(); n != 0 {
		t.Errorf("%d objects leaked", n)
	}
}
