//go:build unix

package atomicfile

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// opened counts the files and folders that a signal removes.
func opened() int {
	mu.Lock()
	defer mu.Unlock()
	return len(open)
}

// A signal ends the program as usual, and removes what is not complete. An ignored signal stays ignored, and after stop nothing is removed.
func TestSignalsRemoveIncompleteFiles(t *testing.T) {
	if dir := os.Getenv("ATOMICFILE_TEST"); dir != "" {
		child(t, dir, os.Getenv("ATOMICFILE_CASE"))
		return
	}
	// Children don't inherit that a signal is ignored, as under nohup.
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM)
	defer signal.Stop(c)
	for name, want := range map[string]struct {
		signal syscall.Signal
		out    string
		left   int
	}{"term": {syscall.SIGTERM, "before\n", 1}, "hangup": {syscall.SIGHUP, "before\n", 1}, "ignored": {syscall.SIGTERM, "ignored\nbefore\n", 1}, "stopped": {syscall.SIGTERM, "stopped\n", 3}, "quiet": {syscall.SIGINT, "", 1}} {
		dir := t.TempDir()
		c := exec.Command(os.Args[0], "-test.run=^TestSignalsRemoveIncompleteFiles$")
		c.Env = append(os.Environ(), "ATOMICFILE_TEST="+dir, "ATOMICFILE_CASE="+name)
		out, _ := c.Output()
		status := c.ProcessState.Sys().(syscall.WaitStatus)
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if !status.Signaled() || status.Signal() != want.signal || string(out) != want.out || len(left) != want.left {
			t.Errorf("%s: %v, %q, %q left", name, c.ProcessState, out, left)
		}
	}
}

func child(t *testing.T, dir, name string) {
	kept, err := Create(filepath.Join(dir, "kept"))
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Keep(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(filepath.Join(dir, "partial")); err != nil {
		t.Fatal(err)
	}
	if _, err := Remake(filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	if name == "ignored" {
		signal.Ignore(syscall.SIGHUP)
	}
	before := func() { fmt.Println("before") }
	if name == "quiet" {
		before = nil
	}
	stop := EndOnSignals(before)
	switch name {
	case "hangup":
		send(syscall.SIGHUP)
	case "ignored":
		send(syscall.SIGHUP)
		time.Sleep(50 * time.Millisecond)
		fmt.Println("ignored")
		send(syscall.SIGTERM)
	case "stopped":
		stop()
		stop()
		fmt.Println("stopped")
		send(syscall.SIGTERM)
	case "quiet":
		send(syscall.SIGINT)
	default:
		send(syscall.SIGTERM)
	}
	time.Sleep(time.Minute)
	t.Fatal("no signal has ended the program")
}

// Only what is not complete is removed by a signal.
func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	before, asked := opened(), 0
	Before = func() { asked++ }
	defer func() { Before = nil }()
	check := func(what string, n int) {
		t.Helper()
		if got := opened() - before; got != n {
			t.Errorf("%s: %d are open, want %d", what, got, n)
		}
	}
	made := func() *File {
		t.Helper()
		f, err := Create(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		check("made", 1)
		return f
	}
	for what, end := range map[string]func(*File) error{"kept": (*File).Keep, "dropped": (*File).Drop} {
		f := made()
		if err := end(f); err != nil {
			t.Fatal(err)
		}
		check(what, 0)
		if err := f.Drop(); err != nil {
			t.Error(err)
		}
	}
	for what, end := range map[string]func(*Folder) error{"kept": func(f *Folder) error { return f.Keep("last") }, "dropped": (*Folder).Drop} {
		f, err := Remake(filepath.Join(dir, what))
		if err != nil {
			t.Fatal(err)
		}
		check("a folder", 1)
		if st, err := os.Stat(f.Name()); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", st, err)
		}
		put(t, filepath.Join(f.Name(), "last"), "x")
		if err := end(f); err != nil {
			t.Fatal(err)
		}
		check("a folder is "+what, 0)
	}
	if asked != 2 {
		t.Errorf("Before was called %d times for two that were kept", asked)
	}
}

// A fresh file replaces a file or a link, and no device or folder.
func TestFreshReplacesFilesAndLinksOnly(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	put(t, other, "other")
	fresh := func() {
		t.Helper()
		f, err := Fresh(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || st.Mode().Perm() != 0o600 || st.Size() != 0 {
			t.Errorf("%v, %v", st, err)
		}
	}
	fresh()
	put(t, path, "old")
	fresh()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	fresh()
	if b, err := os.ReadFile(other); err != nil || string(b) != "other" {
		t.Errorf("a link was followed: %q, %v", b, err)
	}
	for _, no := range []string{dir, testenv.Pipe(t, dir, "pipe")} {
		if _, err := Fresh(no); err == nil || !strings.Contains(err.Error(), "replace "+no+": it is not a file") {
			t.Error(err)
		}
	}
	if _, err := Fresh(filepath.Join(other, "x")); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
}

// An existing file is opened as it is, a new one is private. Files of others, links of others and folders are refused.
func TestOpenMakesOrOpens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for i, text := range []string{"", "kept"} {
		f, made, err := Open(path)
		if err != nil || made != (i == 0) {
			t.Fatalf("%v, %v", made, err)
		}
		st, err := f.Stat()
		if err != nil || st.Mode().Perm() != 0o600 || st.Size() != int64(len(text)) {
			t.Errorf("%v, %v", st, err)
		}
		if _, err := f.WriteString("kept"); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	if _, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Error(err)
	}
	if _, _, err := Open(filepath.Join(path, "x")); err == nil {
		t.Error("a file is a folder")
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"Open": func() error { _, _, err := Open(path); return err }, "Succeed": func() error { _, err := Succeed(path); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), path+" is not yours") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file is being written while its writer has it, and no longer.
func TestWritingUntilKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if Writing(path) {
		t.Error("no file is being written")
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if !Writing(f.Name()) {
		t.Error("a file that is written is not")
	}
	if err := f.Keep(); err != nil {
		t.Fatal(err)
	}
	if Writing(path) {
		t.Error("a kept file is being written")
	}
}
