package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// racing is the duration of the programs with many threads.
const racing = 2 * time.Minute

// The simulator's C code is clean under ThreadSanitizer: all rules once, then programs with 8 threads and 32 streams
// for minutes.
func TestSoakThreadSanitizer(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes minutes: run `make soak`")
	}
	root, dir := testenv.Root(t), t.TempDir()
	if err := exec.Command("cc", "-fsanitize=thread", "-shared", "-o", filepath.Join(dir, "probe.so"), "-x", "c", os.DevNull).Run(); err != nil {
		t.Skip("the C compiler has no ThreadSanitizer")
	}
	at := func(path string) string { return filepath.Join(root, path) }
	const sanitize = "-fsanitize=thread"
	face, err := filepath.Glob(at("sim/libascendcl/*.c"))
	if err != nil {
		t.Fatal(err)
	}
	build := func(env []string, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = append(os.Environ(), env...), root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	build(nil, "cc", append([]string{"-std=c11", "-O1", "-g", sanitize, "-Iapi/acl/include", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-soname,libascendcl.so",
		"-o", filepath.Join(dir, "libascendcl.so"), "-ldl", "-lpthread"}, face...)...)
	build([]string{"CGO_ENABLED=1", "CGO_CFLAGS=-O1 -g " + sanitize, "CGO_LDFLAGS=" + sanitize}, "go", "build", "-buildmode=c-shared", "-trimpath",
		"-o", filepath.Join(dir, "libaclsim.so"), "./sim/libascendcl/engine")

	// run runs a program, which must succeed and print nothing.
	run := func(exe string, env []string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir, "ACLSIM_VA_BASE=0x550000000000", "TSAN_OPTIONS=atexit_sleep_ms=0"), env...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil || strings.Contains(out.String(), "ThreadSanitizer") {
			t.Errorf("%s %v: %v\n%s", filepath.Base(exe), args, err, &out)
		}
	}

	s := compile(t, sanitize)
	for _, r := range s.rules {
		// The sanitizer leaves room for one device without reserved addresses.
		if r.Topic != "vmm" && !strings.Contains(strings.Join(r.Env, " "), "ACLSIM_DEVICES") {
			run(s.exe, append(s.env, r.Env...), r.Name)
		}
	}

	data := at("sim/libascendcl/test/testdata/")
	kernels := testenv.CompileC(t, "race.so", []string{data + "/kernels.c"}, "-fPIC", "-shared")
	object := testenv.CompileC(t, "race.o", []string{data + "/binary.c"}, "-c")
	threads := testenv.CompileC(t, "threads", []string{data + "/threads.c"}, sanitize)
	callback := testenv.CompileC(t, "callback", []string{data + "/callback.c"}, sanitize)
	for end := time.Now().Add(racing); time.Now().Before(end) && !t.Failed(); {
		run(threads, []string{"ACLSIM_KERNELS=" + kernels}, object)
		run(callback, nil)
	}
}
