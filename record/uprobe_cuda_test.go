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

// Uprobes also record the CUDA driver: the same calls as the shim, in the same order on each thread, with the same arguments and
// memory, except for functions that depend on a tag in a structure.
func TestUprobesOfCUDA(t *testing.T) {
	uprobesOfCUDA(t, cudaDriver(t), 50)
}

// Binaries have their own size, and structures describe the rows of a copy.
func TestUprobesOfCUDASizes(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	uprobesOfCUDA(t, testenv.CompileC(t, "sizes", []string{source("cuda_sizes.c")}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda"), 30)
}

// uprobesOfCUDA compares the traces from the shim and the uprobes for a program with at least so many calls on its first thread.
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
	// Uprobes don't see host functions that the driver calls on its own thread. The number of queries before a task is done differs
	// between two runs.
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
				// A probe is on the function, and does not know its forms.
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

// A program that ends at once has its library probed nevertheless, and is not reported as unrecorded.
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

// A uprobe recording can be replayed at other addresses: the trace has the arguments of kernels for each kind of launch and node,
// including the first launch.
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
