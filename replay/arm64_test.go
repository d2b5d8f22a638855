package replay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// The player for aarch64 runs the plan of a trace that was recorded here, in an emulator.
func TestPlayerArm64(t *testing.T) {
	root := testenv.Root(t)
	var path [3]string
	for i, tool := range []string{"qemu-aarch64", "aarch64-linux-gnu-gcc", "make"} {
		var err error
		if path[i], err = exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: run `scripts/setup.sh cross`", tool)
		}
	}
	if b, err := exec.Command(path[2], "-s", "-C", root, "lib/arm64/acltrace-player").CombinedOutput(); err != nil {
		t.Fatalf("make lib/arm64/acltrace-player: %v\n%s", err, b)
	}
	testenv.Built(t, "lib/libacltrace.so")
	source := filepath.Join(root, "probe/shim/arm64test")
	runtime := []string{"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libascendcl.so"}
	here := testenv.CompileC(t, "libascendcl.so", []string{filepath.Join(source, "runtime.c")}, runtime...)
	program := testenv.CompileC(t, "program", []string{filepath.Join(source, "program.c")})
	there := filepath.Join(t.TempDir(), "libascendcl.so")
	args := append(runtime, "-I"+filepath.Join(root, "api/acl/include"), "-o", there, filepath.Join(source, "runtime.c"))
	if b, err := exec.Command(path[1], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}

	trace := filepath.Join(t.TempDir(), "run.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := record.Run(context.Background(), &record.Options{Model: acl.Model, Output: trace, Capture: record.Capture{Replayable: true}, Command: []string{program},
		Env: append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(here)), Stdout: null})
	if err != nil || res.ExitCode != 0 || res.Calls < 4000 {
		t.Fatalf("%+v, %v", res, err)
	}

	// The player in its folder is a script that runs the real one in the emulator.
	parts := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s -L /usr/aarch64-linux-gnu %s \"$@\"\n", path[0], filepath.Join(root, "lib/arm64/acltrace-player"))
	if err := os.WriteFile(filepath.Join(parts, "acltrace-player"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLTRACE_LIB", parts)
	rep, err := Run(context.Background(), trace, acl.Model, &Options{Backend: there, Trust: true, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Replayed != res.Calls || rep.DifferingTotal != 0 || rep.Verified.Bytes < 100 {
		t.Errorf("%d of %d calls replayed, %d bytes verified, %+v %+v", rep.Replayed, res.Calls, rep.Verified.Bytes, rep.Differences, rep.Unsupported)
	}
}
