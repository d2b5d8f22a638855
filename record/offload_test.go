package record_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/timeline"
)

// offload compiles a program for GCC's runtime for NVIDIA GPUs, and its kernels for the fake driver.
func offload(t *testing.T, name, language string) (program string) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	if path, err := exec.Command("gcc", "-print-prog-name=accel/nvptx-none/mkoffload").Output(); err != nil || path[0] != '/' {
		t.Skip("GCC has no compiler for NVIDIA's GPUs: run `scripts/setup.sh test`")
	}
	root := testenv.Root(t)
	t.Setenv("FAKECUDA_KERNELS", testenv.CompileC(t, "kernels.so", []string{source(name)}, "-DKERNEL", "-shared", "-fPIC", "-I"+filepath.Join(root, "sim/cuda/include")))
	program = filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("gcc", "-O1", language, "-foffload=nvptx-none", "-I"+filepath.Join(root, "internal/testenv/include"), "-o", program, source(name)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// OpenMP programs use the compiler's runtime, which is third-party code. It loads the driver by itself, links binaries with its own
// library, passes lists of addresses to kernels, and launches from several threads. Results are right, with and without device
// times, in one process and in several. The replay is identical, at other addresses, too.
func TestOffloadOpenMP(t *testing.T) {
	program := offload(t, "offload.c", "-fopenmp")
	for _, c := range []struct {
		how       string
		o         record.Options
		command   []string
		processes int
	}{
		{"alone", record.Options{}, []string{program}, 1},
		{"measured", record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, []string{program}, 1},
		{"twice", record.Options{}, []string{"sh", "-c", "$0 & $0 && wait $!", program}, 2},
	} {
		t.Run(c.how, func(t *testing.T) {
			c.o.Model, c.o.Capture.Replayable = cuda.Model, true
			r, res, _ := run(t, c.o, c.command...)
			if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Incomplete != nil {
				t.Fatalf("%+v", res)
			}
			n := count(calls(t, r), r)
			if n["cuLaunchKernel"] != 31*c.processes || n["cuLinkComplete"] != c.processes {
				t.Errorf("recorded %v", n)
			}
			tl, err := timeline.Load(r, cuda.Model)
			if err != nil {
				t.Fatal(err)
			}
			kernels := map[string]int{}
			for i := range tl.Tasks {
				if k := &tl.Tasks[i]; k.Kind == api.Kernel {
					kernels[k.Name]++
				}
			}
			if kernels["add$_omp_fn$0"] != 25*c.processes || kernels["twice$_omp_fn$0"] != 5*c.processes || kernels["count$_omp_fn$0"] != c.processes {
				t.Errorf("kernels %v", kernels)
			}
			for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
				rep, err := replay.Run(t.Context(), r.Path(), cuda.Model, &replay.Options{Verify: true, Place: place})
				if err != nil || !rep.Identical || len(rep.Unsupported) > 0 || rep.Verified.Results < 40*uint64(c.processes) {
					t.Errorf("%s: %v, %+v", place, err, rep)
				}
			}
		})
	}
}

// OpenACC queues are streams that wait for each other. The compiler's runtime cleans up in host functions on them.
func TestOffloadOpenACC(t *testing.T) {
	program := offload(t, "offload_acc.c", "-fopenacc")
	r, res, _ := run(t, record.Options{Model: cuda.Model, Capture: record.Capture{Replayable: true}}, program)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Incomplete != nil {
		t.Fatalf("%+v", res)
	}
	if n := count(calls(t, r), r); n["cuLaunchKernel"] != 4 || n["cuStreamAddCallback"] == 0 || n["cuStreamWaitEvent"] == 0 {
		t.Errorf("recorded %v", n)
	}
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(t.Context(), r.Path(), cuda.Model, &replay.Options{Verify: true, Place: place, Timeout: testenv.Patience})
		if err != nil || !rep.Identical || len(rep.Stubs) == 0 || len(rep.Unsupported) > 0 || rep.Verified.Results != 4 {
			t.Errorf("%s: %v, %+v", place, err, rep)
		}
	}
}
