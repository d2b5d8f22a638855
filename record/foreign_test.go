package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/record/host"
)

// To guess a running process's runtime, attach ran the loader that its program names: another user's code, as root.
func TestRuntimeOfRunsNoLoaderOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	loader, pwned := filepath.Join(dir, "loader"), filepath.Join(dir, "pwned")
	source := filepath.Join(dir, "p.c")
	if err := os.WriteFile(source, []byte("#include <unistd.h>\nint main(void) { return write(1, \"x\", 1) != 1 || sleep(100); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh, err := host.Loader("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(loader, b, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.CompileC(t, "p", []string{source}, "-Wl,--as-needed", "-Wl,--dynamic-linker="+loader))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(loader); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(loader, []byte("#!/bin/sh\ntouch "+pwned+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	models := []*api.Model{acl.Model, cuda.Model}
	if m := RuntimeOf(models, &AttachOptions{PID: cmd.Process.Pid}); !slices.Contains(models, m) {
		t.Errorf("no runtime: %v", m)
	}
	if host.Exists(pwned) {
		t.Error("the process's loader was run")
	}
	// The test can fail.
	if detect.Runtime(models, host.ProcFile(cmd.Process.Pid, "exe"), nil); !host.Exists(pwned) {
		t.Error("the loader of a program that is to be started is not asked")
	}
	// Root does not run it for doctor either.
	if os.Geteuid() == 0 && os.Chown(loader, 12345, 12345) == nil {
		if _, err := host.Loader(cmd.Path); err == nil || !strings.Contains(err.Error(), loader+" of "+cmd.Path+": it belongs to user 12345") {
			t.Error(err)
		}
	}
}

// A file that a process names was opened without a look at its type: a pipe stopped the recorder.
func TestFolderProgramIsRegular(t *testing.T) {
	lib := testenv.Pipe(t, t.TempDir(), acl.Model.Layers[0].Libraries[0])
	testenv.Within(t, lib, func() {
		if runpaths(lib) != nil {
			t.Error("it is read from a pipe")
		}
	})
}
