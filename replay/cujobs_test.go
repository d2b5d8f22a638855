package replay

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// cudaJobs compiles the program that acts at random on the CUDA driver. The returned function records it with a new seed each
// time, which is printed on failure, and replays that with both placements.
func cudaJobs(t *testing.T) (again func(args ...string)) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace-cuda.so")
	driver := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	root := testenv.Root(t)
	include := "-I" + filepath.Join(root, "api/cuda/include")
	program := testenv.CompileC(t, "cujobs", []string{"testdata/cujobs.c"}, include, "-L"+driver, "-lcuda")
	t.Setenv("FAKECUDA_KERNELS", testenv.CompileC(t, "cujobs.so", []string{"testdata/cujobs.c"}, "-DKERNEL", "-shared", "-fPIC", "-I"+filepath.Join(root, "sim/cuda/include")))
	// A driver without the symbol of a simulator.
	other := testenv.FakeCUDA(t, "-Dfakecuda_simulated=a_driver")
	simulate(t)
	return func(args ...string) {
		t.Helper()
		args = append([]string{strconv.Itoa(int(rand.Uint32()))}, args...)
		path := filepath.Join(t.TempDir(), "t.aclt")
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: append([]string{program}, args...), Sim: true, Capture: record.Capture{Replayable: true}})
		if err != nil || res.ExitCode != 0 || res.Incomplete != nil || res.Lost > 0 || res.Refused > 0 {
			t.Fatalf("%v: %v, %+v", args, err, res)
		}
		elsewhere := []string{"FAKECUDA_VA_BASE=301c00000000"}
		backends := []Options{{Place: compile.PlaceSame}, {Place: compile.PlaceMove}, {Backend: other, Place: compile.PlaceAuto, Env: elsewhere}}
		if len(args) > 1 {
			backends = append(backends, Options{Backend: other, Place: compile.PlaceSame, Env: elsewhere})
		}
		for _, o := range backends {
			o.Verify, o.Trust, o.Timeout = true, true, testenv.Patience
			r, err := Run(context.Background(), path, cuda.Model, &o)
			if err != nil {
				t.Fatalf("%v, %+v: %v", args, o, err)
			}
			if r.DifferingTotal > 0 || len(r.Unsupported) > 0 || len(r.Substituted) > 0 || len(r.Uninitialised) > 0 || r.Crash != nil || r.Verified.Results < 30 {
				t.Fatalf("%v, %+v: %d results, differences %+v, unsupported %+v, substituted %+v, uninitialised %+v, crash %+v\n%s",
					args, o, r.Verified.Results, r.Differences, r.Unsupported, r.Substituted, r.Uninitialised, r.Crash, r.Log)
			}
			for _, u := range r.Unverified {
				// Results that the program can't have seen either, and results that the trace can't show.
				if !strings.Contains(u.Reason, "is not in the trace: ") && !strings.Contains(u.Reason, "the trace lacks its data in this run: ") && !strings.Contains(u.Reason, "host function") && !strings.Contains(u.Reason, "the program may write") {
					t.Errorf("%v, %+v: %+v", args, o, u)
				}
			}
		}
	}
}

func TestCUDAJobs(t *testing.T) {
	again := cudaJobs(t)
	again()
	again("plain") // only memory that a driver can place
}
