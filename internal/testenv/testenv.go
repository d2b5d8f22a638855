// Package testenv provides tests with built libraries and programs, a C compiler, and waits with a generous limit.
//
// Only tests import it. Importing it also gives the test process a state folder of its own.
package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience is the limit for waits in tests. Even on a busy machine only a hang reaches it.
const Patience = 3 * time.Minute

// patience is ACLTRACE_TEST_PATIENCE if set, for emulated processors, and Patience otherwise.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("ACLTRACE_TEST_PATIENCE")); err == nil {
		return d
	}
	return Patience
}()

// Await polls until so returns true or the limit is reached, and reports which.
func Await(so func() bool) bool {
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Wait is Await, and ends the test at the limit. Call it from the goroutine of the test.
func Wait(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !Await(so) {
		t.Fatalf("%s: waited for %v", what, patience)
	}
}

// Tests have a state folder of their own. A program that a test crashes or kills stays recordable, and the user's list of
// kernel libraries does not grow. Commands that a test runs inherit the folder.
func init() {
	const own = "acltrace-test-"
	if !strings.Contains(os.Getenv("XDG_STATE_HOME"), own) {
		os.Setenv("XDG_STATE_HOME", filepath.Join(os.TempDir(), own+strconv.Itoa(os.Getpid())))
	}
}

// Root returns the folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if _, err := os.Stat(filepath.Join(dir, "api", "acl", "functions.tsv")); err == nil {
				return dir
			}
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("not inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// libraries is the folder of the built libraries, and programs that of the built programs: the variables when the tests start, or lib and bin.
var libraries, programs = os.Getenv("ACLTRACE_LIB"), os.Getenv("ACLTRACE_TEST_BIN")

// Built returns the absolute path for a product of `make build`, named relative to the root. It skips the test if the product
// does not exist. It sets ACLTRACE_LIB to the built libraries if it is not set.
func Built(t testing.TB, name string) string {
	t.Helper()
	root := Root(t)
	path := filepath.Join(root, name)
	if rest, ok := strings.CutPrefix(name, "lib/"); ok && libraries != "" {
		path = filepath.Join(libraries, rest)
	} else if rest, ok := strings.CutPrefix(name, "bin/"); ok && programs != "" {
		path = filepath.Join(programs, rest)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not built: run `make build`", name)
	}
	if os.Getenv("ACLTRACE_LIB") == "" {
		t.Setenv("ACLTRACE_LIB", filepath.Join(root, "lib"))
	}
	return path
}

// Example returns the path of an example, and sets the variable by which the simulator finds its kernels.
func Example(t testing.TB, name string) string {
	t.Helper()
	path := Built(t, filepath.Join("bin", "examples", name))
	kernels := map[string]string{"vector_add": "vector", "matmul_pipeline": "matmul", "tiny_decoder": "decoder", "histogram": "histogram"}
	if k := kernels[name]; k != "" {
		t.Setenv("ACLSIM_KERNELS", Built(t, filepath.Join("bin", "examples", k+"_kernels.so")))
	}
	return path
}

// CompileC compiles C sources and links them to the simulator. The flags -shared and -c make a library or an object instead.
func CompileC(t testing.TB, out string, sources []string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	root := Root(t)
	lib := filepath.Dir(Built(t, "lib/libascendcl.so"))
	path := filepath.Join(t.TempDir(), out)
	args := []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I" + filepath.Join(root, "api/acl/include"),
		"-I" + filepath.Join(root, "sim/libascendcl/include"), "-I" + filepath.Join(root, "internal/testenv/include"), "-o", path}
	args = append(args, sources...)
	Uses(t, sources...)
	shared := false
	for _, f := range flags {
		shared = shared || f == "-shared" || f == "-c"
	}
	args = append(args, flags...)
	if !shared {
		args = append(args, "-L"+lib, "-lascendcl", "-lpthread", "-ldl")
	}
	if b, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, b)
	}
	return path
}

// Uses makes `go test` run a test again after a change of files that other programs read. It knows only those that the test looks at.
func Uses(t testing.TB, files ...string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.Stat(file); err != nil && !strings.HasPrefix(file, "-") {
			t.Fatal(err)
		}
	}
}

// FakeCUDA compiles the fake CUDA driver with further flags, and returns the library.
func FakeCUDA(t testing.TB, flags ...string) string {
	t.Helper()
	return CompileC(t, "libcuda.so.1", FakeCUDASources(t), append([]string{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-I" + filepath.Join(Root(t), "api/cuda/include"),
		"-I" + filepath.Join(Root(t), "sim/cuda/include"), "-ldl", "-lpthread"}, flags...)...)
}

// FakeCUDASources returns the C files of the fake CUDA driver.
func FakeCUDASources(t testing.TB) []string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(Root(t), "sim/cuda/*.c"))
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// CUDA compiles a CUDA driver program, links it to the fake driver, and returns its path. If the source has kernels in
// #ifdef KERNEL, the fake driver uses them until the test ends.
func CUDA(t testing.TB, source string, flags ...string) string {
	t.Helper()
	Built(t, "lib/libacltrace-cuda.so")
	driver := filepath.Dir(Built(t, "lib/fakecuda/libcuda.so.1"))
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("#ifdef KERNEL\n")) {
		t.Setenv("FAKECUDA_KERNELS", CompileC(t, "kernels.so", []string{source}, "-DKERNEL", "-shared", "-fPIC", "-I"+filepath.Join(Root(t), "sim/cuda/include")))
	}
	name := strings.TrimSuffix(filepath.Base(source), ".c")
	// libc comes first: otherwise the linker takes close and similar functions from the simulator.
	return CompileC(t, name, []string{source}, append([]string{"-I" + filepath.Join(Root(t), "api/cuda/include"), "-L" + driver, "-lcuda", "-lc"}, flags...)...)
}
