package replay_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
)

// What programs do with the CUDA driver comes out the same again, at the same addresses and at others: every way to load a module, every
// kind of copy, every attribute of a launch, captured graphs.
func TestCUDA(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	kernels := testenv.Built(t, "bin/examples/cuda/kernels.so")
	program := testenv.Built(t, "bin/examples/cuda/driver")
	t.Setenv("FAKECUDA_KERNELS", kernels)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	path := filepath.Join(t.TempDir(), "run.aclt")
	res, err := record.Run(context.Background(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true, Replayable: true, Stdout: null})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	for _, place := range []string{replay.PlaceSame, replay.PlaceMove} {
		rep, err := replay.Run(context.Background(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
		if err != nil || !rep.Identical || len(rep.Unsupported) > 0 || rep.Verified.Results < 30 {
			t.Fatalf("%s: %v, %+v", place, err, rep)
		}
	}
	// Kernels that do nothing are seen.
	t.Setenv("FAKECUDA_KERNELS", "")
	rep, err := replay.Run(context.Background(), path, cuda.Model, &replay.Options{Verify: true, KernelLibraries: []string{}})
	if err != nil || rep.Identical || len(rep.Differences) == 0 {
		t.Errorf("without kernels: %v, %+v", err, rep)
	}
}
