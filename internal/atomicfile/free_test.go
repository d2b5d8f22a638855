package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestExistingFilesAreNotFree(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("file"), "old")
	put(t, at("new"+Suffix), "left by a killed writer")
	for link, to := range map[string]string{"link": "file", "dangling": "nothing"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, free := range map[string]bool{at("file"): false, at("link"): false, at("new"): true, at("dangling"): true, at("pipe"): true, os.DevNull: true, dir: true, at("no/where"): true} {
		if err := Free(path); (err == nil) != free || err != nil && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want free: %v", path, err, free)
		}
	}
}

// Remake replaces a folder only if it holds the named files, and only when it is kept.
func TestFolderIsReplacedOnceKept(t *testing.T) {
	dir := t.TempDir()
	content := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	put(t, filepath.Join(dir, "Makefile"), "old")
	put(t, filepath.Join(dir, "other"), "old")
	if _, err := Remake(dir); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("%v", err)
	}
	if _, err := Remake(dir, "Makefile", "plan"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("without a plan: %v", err)
	}
	put(t, filepath.Join(dir, "plan"), "old")
	for _, keep := range []bool{false, true} {
		f, err := Remake(dir, "Makefile", "plan")
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(f.Name(), "Makefile"), "new")
		content("other", "old")
		if keep {
			if err := f.Keep("Makefile"); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Drop(); err != nil {
			t.Fatal(err)
		}
		if !keep {
			content("Makefile", "old")
		}
	}
	content("Makefile", "new")
	if exists(filepath.Join(dir, "other")) || exists(filepath.Join(dir, "plan")) {
		t.Error("earlier content stays")
	}
}
