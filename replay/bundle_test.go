package replay

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/compile"
)

// A bundle builds and runs in an empty folder, with only the library that it runs against, and reports
// differences.
func TestBundleRunsInAnyFolder(t *testing.T) {
	program := testenv.Example(t, "vector_add")
	simulate(t)
	trace := recorded(t, program, "--n", "5000")
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := Bundle(trace, acl.Model, dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Bundle(trace, acl.Model, dir, nil); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second bundle: %v", err)
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if out, code := runBundle(t, moved, filepath.Join(lib, "libascendcl.so")); code != 0 || !strings.Contains(out, "\nidentical: ") || strings.Contains(out, ": 0 results") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code := runBundle(t, moved, filepath.Join(lib, "no.so")); code != 1 || !strings.Contains(out, "no.so") {
		t.Errorf("no library: exit code %d\n%s", code, out)
	}
}

// So does a bundle of a CUDA program, with its kernels and modules.
func TestBundleCUDA(t *testing.T) {
	simulate(t)
	testenv.Built(t, "lib/libacltrace-cuda.so")
	driver := testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	t.Setenv("FAKECUDA_KERNELS", testenv.Built(t, "bin/examples/cuda/kernels.so"))
	trace := recordedOf(t, cuda.Model, testenv.Built(t, "bin/examples/cuda/driver"))
	t.Setenv("FAKECUDA_KERNELS", "")
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := Bundle(trace, cuda.Model, dir, nil); err != nil {
		t.Fatal(err)
	}
	if out, code := runBundle(t, dir, driver); code != 4 || !strings.Contains(out, "\nnothing differs; 3 of 56 results are unproved: host functions") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "kernels")); err != nil {
		t.Fatal(err)
	}
	if out, code := runBundle(t, dir, driver); code != 4 || !strings.Contains(out, "56 of 56 results are unproved") {
		t.Errorf("without its kernels: exit code %d\n%s", code, out)
	}
}

func TestBundleFails(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.toDevice(dev, pattern(64, 1))
	tw.toHost(dev, pattern(64, 1))
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := Bundle(tw.close(), acl.Model, dir, nil); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]struct {
		code int
		text string
	}{
		"FAKE_NOTHING=1":           {0, "\nidentical: 1 result, 64 B compared\n"},
		"FAKE_WRONG=7":             {3, "differs: call 5 aclrtMemcpy, result at offset 7: recorded 0x32, now 0xcd; 1 byte differs\n"},
		"FAKE_CRASH=aclrtMalloc":   {1, "ended in call 3 aclrtMalloc: signal 11 (Segmentation fault)\n"},
		"FAKE_FAIL=aclrtSetDevice": {3, "differs: call 1 aclrtSetDevice, returned: recorded 0, now 0x32899\n"},
	} {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
		if out, code := runBundle(t, dir, l); code != want.code || !strings.Contains("\n"+out, want.text) {
			t.Errorf("%s: exit code %d\n%s", env, code, out)
		}
		os.Unsetenv(name)
	}
	// A trace that can't be replayed makes no bundle.
	tw = newTrace(t)
	tw.call("aclrtDestroyStream", []uint64{stream + 1})
	if _, err := Bundle(tw.close(), acl.Model, filepath.Join(t.TempDir(), "bundle"), nil); !errors.Is(err, compile.ErrMissing) || !strings.Contains(err.Error(), "aclrtDestroyStream") {
		t.Errorf("error %v", err)
	}
}

// runBundle runs a bundle's Makefile and returns its output and the player's exit code.
func runBundle(t *testing.T, dir, library string) (string, int) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	if b, err := exec.Command("make", "-C", dir, "player").CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, b)
	}
	cmd := exec.Command("sh", "-c", `. ./env && ./player plan "$0"`, library)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var e *exec.ExitError
	if errors.As(err, &e) {
		return "\n" + string(out), e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return "\n" + string(out), 0
}
