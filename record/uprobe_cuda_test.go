package record_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
)

// The uprobes are not AscendCL's own: they see the same calls of the CUDA driver as the shim, in the same order on each thread, with the
// same arguments and memory, but for what a tag in a structure makes of a function.
func TestUprobesOfCUDA(t *testing.T) {
	uprobesOfCUDA(t, cudaDriver(t), 50)
}

// Binaries tell their own size, and members of structures what rows a copy has.
func TestUprobesOfCUDASizes(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	uprobesOfCUDA(t, testenv.CompileC(t, "sizes", []string{source("cuda_sizes.c")}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda"), 30)
}

// uprobesOfCUDA compares what the shim and the uprobes see of a program, which makes at least so many calls on its first thread.
func uprobesOfCUDA(t *testing.T, program string, least int) {
	t.Helper()
	a, _, _ := run(t, record.Options{Model: cuda.Model, Capture: record.Capture{Payload: record.Full}, Limits: record.Limits{MaxSize: 1 << 40}}, program)
	o := record.Options{Model: cuda.Model, Capture: record.Capture{Probe: "ebpf", Payload: record.Full}, Limits: record.Limits{MaxSize: 1 << 40}, Command: []string{program}, Output: t.TempDir() + "/run.aclt", Sim: true}
	res, err := record.Run(t.Context(), &o)
	testenv.Uprobes(t, err)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Incomplete != nil {
		t.Errorf("%+v", res)
	}
	b := open(t, o.Output)
	// Functions of the program that the driver calls are what uprobes don't see, on a thread of the driver's. How often the program asks
	// before something is done is not the same in two runs.
	const notReady = 600
	threads := func(r *format.Reader) [][]*format.Call {
		by := make([][]*format.Call, len(r.Threads()))
		for _, c := range calls(t, r) {
			if !cuda.Model.Lookup(r.Schema().FuncName(c.Func)).HostCallback && c.Ret != notReady {
				by[c.Thread] = append(by[c.Thread], c)
			}
		}
		return slices.DeleteFunc(by, func(cs []*format.Call) bool { return len(cs) == 0 })
	}
	as, bs := threads(a), threads(b)
	if len(as) != len(bs) || len(as) == 0 || len(as[0]) < least {
		t.Fatalf("%d and %d threads", len(as), len(bs))
	}
	ad, bd := late(t, a), late(t, b)
	for i := range as {
		if len(as[i]) != len(bs[i]) {
			t.Fatalf("thread %d: the shim has %d calls, the uprobes %d", i, len(as[i]), len(bs[i]))
		}
		for j, c := range as[i] {
			d := bs[i][j]
			if name, _, form := strings.Cut(a.Schema().FuncName(c.Func), ":"); form {
				// A probe is at the function, and tells no form of it.
				if got := b.Schema().FuncName(d.Func); got != name || d.Ret != c.Ret {
					t.Errorf("call %d: %s, %d, and %s, %d", c.Index, name, c.Ret, got, d.Ret)
				}
				continue
			}
			compare(t, cuda.Model, a, c, d)
			got := append(d.Data, bd[d.Index]...)
			compareData(t, cuda.Model, a, b, c, append(c.Data, ad[c.Index]...), got)
			for _, p := range got {
				f := cuda.Model.Lookup(b.Schema().FuncName(d.Func))
				if int(p.Param) < len(f.Params) && f.Params[p.Param].Role == api.Image && p.Status != format.Whole {
					t.Errorf("call %d %s: a binary of %d bytes: %v %v", d.Index, f.Name, p.Len, p.Status, p.Reason)
				}
			}
		}
	}
}

// A program that ends before anybody can look at it has its library probed all the same, and is not said to lack it.
func TestUprobesOfShortPrograms(t *testing.T) {
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	program := testenv.CompileC(t, "binaries", []string{source("cuda_binaries.c")}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda")
	for range 4 {
		o := record.Options{Model: cuda.Model, Capture: record.Capture{Probe: "ebpf"}, Command: []string{program, "100"}, Output: filepath.Join(t.TempDir(), "run.aclt"), Sim: true}
		res, err := record.Run(t.Context(), &o)
		testenv.Uprobes(t, err)
		if res.ExitCode != 0 || res.Calls != 7 || len(res.Unhooked) != 0 {
			t.Errorf("%+v", res)
		}
	}
}

// What uprobes record of a program is replayed, wherever its memory comes to lie: the arguments of its kernels are in the trace, of each
// form of launch and of nodes, those of the very first launch too.
func TestUprobesOfCUDAReplay(t *testing.T) {
	program := cudaDriver(t)
	cases := []string{"load-ptx", "load-options", "load-fat", "load-library", "packed", "many-arguments", "cooperative", "attribute-cooperative",
		"attribute-cluster-dimension", "attribute-programmatic-stream-serialization", "attribute-priority", "copies", "rows", "order", "nodes"}
	o := record.Options{Model: cuda.Model, Capture: record.Capture{Probe: "ebpf", Payload: record.Full}, Limits: record.Limits{MaxSize: 1 << 40}, Command: append([]string{program, "--work", "200"}, cases...),
		Output: t.TempDir() + "/run.aclt", Sim: true}
	res, err := record.Run(t.Context(), &o)
	testenv.Uprobes(t, err)
	if res.ExitCode != 0 || res.Lost != 0 || res.Incomplete != nil {
		t.Errorf("%+v", res)
	}
	r := open(t, o.Output)
	if c := r.Meta().Coverage; c.Unsized != 0 || c.CutArguments != 0 {
		t.Errorf("%d launches without arguments, %d arguments cut", c.Unsized, c.CutArguments)
	}
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(t.Context(), o.Output, cuda.Model, &replay.Options{Verify: true, Place: place})
		if err != nil || len(rep.Unsupported) != 0 || len(rep.Differences) != 0 || rep.Verified.Results == 0 {
			t.Errorf("%s: %v, %+v", place, err, rep)
		}
	}
}
