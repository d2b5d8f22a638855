package regular

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe without a writer stopped the reader for good, and /dev/zero filled its memory.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		if _, err := ReadFile(path, 10); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := ReadFile(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadFile(file, 4); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file of 5 bytes within 4: %v", err)
	}
	if b, err := ReadFile("/proc/self/comm", 100); err != nil || len(b) == 0 {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadFile(file+".gone", 10); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// A writer that waits for a reader still waits after the pipe was refused: a device, too, is never opened.
func TestOthersAreNotOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	opened := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		f.Close()
		opened <- err
	}()
	for range 100 {
		if f, err := Open(pipe); err == nil {
			f.Close()
			t.Fatal("a pipe was opened")
		}
		select {
		case <-opened:
			t.Fatal("a refused pipe was opened")
		case <-time.After(time.Millisecond):
		}
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestNamesOfFoldersOnly(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if got := Names(dir); len(got) != 3 {
		t.Error(got)
	}
	for _, none := range []string{pipe, filepath.Join(dir, "a"), filepath.Join(dir, "gone")} {
		if got := Names(none); got != nil {
			t.Errorf("%s: %q", none, got)
		}
	}
}

func TestFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	before := len(Names("/proc/self/fd"))
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := Open(dir); err == nil {
			t.Fatal("a folder was opened")
		}
		if _, err := ReadFile(file, 10); err != nil {
			t.Fatal(err)
		}
	}
	if after := len(Names("/proc/self/fd")); after > before+20 {
		t.Errorf("%d open files, %d before", after, before)
	}
}

// Some containers have no /proc.
func TestWithoutProc(t *testing.T) {
	if dir := os.Getenv("REGULAR_TEST_ROOT"); dir != "" {
		if err := syscall.Chroot(dir); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile("/file", 10); err != nil || string(b) != "x" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := ReadFile("/", 10); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Error(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root changes its root folder")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestWithoutProc$")
	child.Env = append(os.Environ(), "REGULAR_TEST_ROOT="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
