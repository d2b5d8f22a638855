package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mkdir(t *testing.T, mode os.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The player was executed from folders into which other users can write, or which they can replace.
func TestFoldersOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	sticky, open := mkdir(t, 0o777|os.ModeSticky, dir, "sticky"), mkdir(t, 0o777, dir, "open")
	fine, inOpen := mkdir(t, 0o700, sticky, "fine"), mkdir(t, 0o700, open, "mine")
	group := mkdir(t, 0o770, dir, "group")
	if os.Geteuid() == 0 {
		if err := os.Chown(group, 0, 12345); err != nil {
			t.Fatal(err)
		}
		foreign := mkdir(t, 0o755, dir, "foreign")
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if err := Folder(foreign); err == nil || !strings.Contains(err.Error(), foreign+" belongs to another user (12345)") {
			t.Error(err)
		}
		if err := Folder(group); err == nil || !strings.Contains(err.Error(), "chmod go-w "+group) {
			t.Error(err)
		}
	}
	if err := CodeFolder(fine); err != nil {
		t.Errorf("a folder in a sticky one: %v", err)
	}
	for _, d := range []string{sticky, open} {
		if err := Folder(d); err == nil || !strings.Contains(err.Error(), "other users may write to "+d) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if err := Folder(inOpen); err != nil {
		t.Error(err)
	}
	if err := CodeFolder(inOpen); err == nil || !strings.Contains(err.Error(), "all users may rename "+inOpen) {
		t.Errorf("others may replace it: %v", err)
	}

	state := mkdir(t, 0o700, dir, "state")
	t.Setenv("XDG_STATE_HOME", state)
	for tmp, want := range map[string]string{sticky: sticky, open: filepath.Join(state, "acltrace")} {
		t.Setenv("TMPDIR", tmp)
		made, err := MkdirTemp("x-")
		if err != nil || filepath.Dir(made) != want {
			t.Errorf("%s, %v; want one in %s", made, err, want)
		}
	}
	t.Setenv("TMPDIR", open)
	t.Setenv("XDG_STATE_HOME", open)
	if _, err := MkdirTemp("x-"); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Error(err)
	}
}

// Relative paths start in a folder that may be gone.
func TestRemovedCurrentFolder(t *testing.T) {
	dir := mkdir(t, 0o700, t.TempDir(), "gone")
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Skip(err)
	}
	for name, f := range map[string]func(string) error{"Links": Links, "Folder": Folder, "fixed": fixed} {
		if err := f("x"); err == nil || !strings.Contains(err.Error(), "getwd") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Folder(dir); err == nil || !strings.Contains(err.Error(), "lstat "+dir) {
		t.Error(err)
	}
}
