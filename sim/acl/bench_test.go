package acl

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// benchEnv is a simulator without modelled task times, so that only its own cost is measured.
func benchEnv(b *testing.B, strict *Strict) (*Thread, acl.FuncHandle) {
	none := &device.Kernel{Name: "none"}
	s := New(&Options{Kernels: kernelMap{"none": none}, VABase: freeBase(b, 1), Model: preset(b, "instant"), Strict: strict})
	b.Cleanup(s.Close)
	th := s.NewThread()
	must(b, th.Init(nil))
	must(b, th.SetDevice(0))
	data := testBinary(1, "none")
	var bin acl.BinHandle
	var f acl.FuncHandle
	must(b, th.BinaryLoadFromData(addr(&data[0]), uint64(len(data)), nil, &bin))
	must(b, th.BinaryGetFunction(bin, cstring("none"), &f))
	b.ReportAllocs()
	return th, f
}

func must(b *testing.B, e acl.Error) {
	if e != 0 {
		b.Fatal(e)
	}
}

func BenchmarkLaunch(b *testing.B) {
	th, f := benchEnv(b, nil)
	args := make([]byte, 64)
	for b.Loop() {
		must(b, th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 64, nil, 0))
	}
	must(b, th.SynchronizeStream(0))
}

// BenchmarkLaunchStrict is BenchmarkLaunch in strict mode, by Thread.Call as in the C interface.
func BenchmarkLaunchStrict(b *testing.B) {
	th, f := benchEnv(b, &Strict{})
	args := make([]byte, 64)
	fn := acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")
	for b.Loop() {
		e, _ := th.Call(fn.ID, []uint64{uint64(f), 1, 0, 0, addr(&args[0]), 64, 0, 0})
		must(b, acl.Error(e))
	}
	must(b, th.SynchronizeStream(0))
}

func benchFills(b *testing.B, strict *Strict) {
	th, _ := benchEnv(b, strict)
	var d acl.Addr
	must(b, th.Malloc(&d, 4096, 0))
	fn := acl.Model.Lookup("aclrtMemsetAsync")
	for b.Loop() {
		e, _ := th.Call(fn.ID, []uint64{d, 4096, 1, 64, 0})
		must(b, acl.Error(e))
	}
	must(b, th.SynchronizeStream(0))
}

func BenchmarkFill64(b *testing.B)       { benchFills(b, nil) }
func BenchmarkFill64Strict(b *testing.B) { benchFills(b, &Strict{}) }

func BenchmarkLaunchAndSynchronize(b *testing.B) {
	th, f := benchEnv(b, nil)
	args := make([]byte, 64)
	for b.Loop() {
		must(b, th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 64, nil, 0))
		must(b, th.SynchronizeStream(0))
	}
}

// BenchmarkThreads launches from 8 threads on 32 streams, with occasional synchronization. With -mutexprofile it
// shows that no lock is contended.
func BenchmarkThreads(b *testing.B) {
	th, f := benchEnv(b, nil)
	var ctx acl.Context
	must(b, th.GetCurrentContext(&ctx))
	var threads sync.WaitGroup
	for range 8 {
		threads.Go(func() {
			th := th.sim.NewThread()
			defer th.End()
			must(b, th.SetCurrentContext(ctx))
			var s [4]acl.Stream
			for i := range s {
				must(b, th.CreateStream(&s[i]))
			}
			args := make([]byte, 64)
			for i := range b.N / 8 {
				on := s[i%len(s)]
				must(b, th.LaunchKernelWithHostArgs(f, 1, on, nil, addr(&args[0]), 64, nil, 0))
				if i%64 == 63 {
					must(b, th.SynchronizeStream(on))
				}
			}
			for i := range s {
				must(b, th.DestroyStream(s[i]))
			}
		})
	}
	threads.Wait()
}

func BenchmarkSynchronize(b *testing.B) {
	th, _ := benchEnv(b, nil)
	for b.Loop() {
		must(b, th.SynchronizeStream(0))
	}
}

func benchCopy(b *testing.B, n uint64) {
	th, _ := benchEnv(b, nil)
	var d, h acl.Addr
	must(b, th.Malloc(&d, n, 0))
	must(b, th.MallocHost(&h, n))
	must(b, th.Memset(h, n, 1, n))
	must(b, th.Memset(d, n, 1, n))
	b.SetBytes(int64(n))
	for b.Loop() {
		must(b, th.Memcpy(d, n, h, n, acl.ACL_MEMCPY_HOST_TO_DEVICE))
	}
}

func BenchmarkCopy64(b *testing.B)    { benchCopy(b, 64) }
func BenchmarkCopy64MiB(b *testing.B) { benchCopy(b, 64<<20) }

// BenchmarkMemcpy64MiB is the yardstick for BenchmarkCopy64MiB.
func BenchmarkMemcpy64MiB(b *testing.B) {
	const n = 64 << 20
	from, to := space.MapAnywhere(n), space.MapAnywhere(n)
	defer space.Unmap(from, n)
	defer space.Unmap(to, n)
	space.Bytes(from, n)[0] = 1
	for i := uint64(0); i < n; i += space.PageSize {
		binary.LittleEndian.PutUint64(space.Bytes(from+i, 8), i)
		binary.LittleEndian.PutUint64(space.Bytes(to+i, 8), i)
	}
	b.SetBytes(n)
	for b.Loop() {
		copy(space.Bytes(to, n), space.Bytes(from, n))
	}
}

func BenchmarkMallocAndFree(b *testing.B) {
	th, _ := benchEnv(b, nil)
	var d acl.Addr
	for b.Loop() {
		must(b, th.Malloc(&d, 4096, 0))
		must(b, th.Free(d))
	}
}
