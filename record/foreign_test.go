package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/record/host"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
)

// within fails if f has not ended after a while: it waits for somebody who writes into a pipe.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits", what)
	}
}

func pipe(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// Files that a process maps, or that its environment names, were opened whatever they were: a pipe in their place stopped the recorder.
func TestFilesOfProcessesAreRegular(t *testing.T) {
	dir := t.TempDir()
	m := acl.Model
	lib := pipe(t, dir, m.Layers[0].Libraries[0])
	in := &api.Installed{Homes: []string{"RUNTIME_HOME"}, Runtime: []string{"version"}}
	pipe(t, dir, "version")
	text := func(*api.Model) []string { return []string{"text"} }
	for what, f := range map[string]func() bool{
		"the build id of a mapping":   func() bool { return host.ParseMaps([]byte("1-2 r-xp 0 0:0 1 " + lib + "\n"))[0].BuildID == "" },
		"the functions of a program":  func() bool { return host.DefinedFunctions(lib, map[string]bool{"f": true}) == nil },
		"the references of a library": func() bool { return readReferences(lib, map[string]bool{"f": true}) == nil },
		"the folders of a program":    func() bool { return runpaths(lib) == nil },
		"the libraries of a program":  func() bool { return linked([]*api.Model{m}, lib) == nil },
		"the texts in a program":      func() bool { return !holds([]*api.Model{m}, lib, text)(m) },
		"the first line of a script":  func() bool { _, err := host.InterpreterLine(lib); return err != nil },
		"a program":                   func() bool { return host.CheckExecutable(lib) != nil },
		"a library":                   func() bool { _, err := library(m, lib, nil); return err != nil },
		"the version of the runtime":  func() bool { v, _ := host.RuntimeVersions(in, []string{"RUNTIME_HOME=" + dir}); return v == "" },
		"the runtime's library":       func() bool { _, err := Library(m, []string{"LD_LIBRARY_PATH=" + dir}); return err == nil },
		"the runtime": func() bool {
			got, _ := guessRuntime([]*api.Model{m, cuda.Model}, lib, []string{"LD_LIBRARY_PATH=" + dir}, false)
			return got != nil
		},
	} {
		within(t, what, func() {
			if !f() {
				t.Errorf("%s is that of a pipe", what)
			}
		})
	}
}

// The folders of another user's LD_LIBRARY_PATH were patterns, by which the whole machine was searched, and there could be any number.
func TestFoldersOfProcessesAreNoPatterns(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libascendcl.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !has(acl.Model, dir) || has(acl.Model, filepath.Dir(dir)+"/*") {
		t.Error("a folder is not searched, or a pattern is")
	}
	if n := len(libraryDirs([]string{"LD_LIBRARY_PATH=" + strings.Repeat("/x:", 100_000)})); n > maxFolders+20 {
		t.Errorf("%d folders", n)
	}
}

// To guess the runtime of a running process, attach ran the loader that its program names, as root: another user's code.
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
	if Runtime(models, host.ProcFile(cmd.Process.Pid, "exe"), nil); !host.Exists(pwned) {
		t.Error("the loader of a program that is to be started is not asked")
	}
	// Root does not run it for doctor either.
	if os.Geteuid() == 0 && os.Chown(loader, 12345, 12345) == nil {
		if _, err := host.Loader(cmd.Path); err == nil || !strings.Contains(err.Error(), loader+" of "+cmd.Path+": it belongs to user 12345") {
			t.Error(err)
		}
	}
}
