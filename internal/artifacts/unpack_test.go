package artifacts

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pack returns an archive with a library of one page and a link to it.
func pack(t *testing.T, name string) *zip.Reader {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range []struct {
		name, content string
		mode          fs.FileMode
	}{{"lib/a.so", strings.Repeat(name, 4096), 0o755}, {"lib/b.so", "a.so", fs.ModeSymlink | 0o777}} {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		part, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetComment(name); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func mkdir(t *testing.T, mode fs.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnpackedFilesAreReusedAndRepaired(t *testing.T) {
	z, cache := pack(t, "new"), filepath.Join(t.TempDir(), "made", "here")
	unpacked := func() os.FileInfo {
		t.Helper()
		dir, err := unpack(z, []string{cache})
		if err != nil || dir != filepath.Join(cache, "new") {
			t.Fatalf("%s, %v", dir, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "lib/b.so"))
		if err != nil || string(b) != strings.Repeat("new", 4096) {
			t.Fatalf("the link leads to %.20q, %v", b, err)
		}
		st, err := os.Stat(filepath.Join(dir, "lib/a.so"))
		if err != nil || st.Mode() != 0o755 {
			t.Fatalf("%v, %v", st.Mode(), err)
		}
		return st
	}
	first := unpacked()
	if !os.SameFile(first, unpacked()) {
		t.Error("sound files were written again")
	}
	library, link := filepath.Join(cache, "new/lib/a.so"), filepath.Join(cache, "new/lib/b.so")
	for name, damage := range map[string]func() error{
		"cut":      func() error { return os.Truncate(library, 100) },
		"changed":  func() error { return os.WriteFile(library, bytes.Repeat([]byte("nev"), 4096), 0o755) },
		"removed":  func() error { return os.Remove(library) },
		"no link":  func() error { return os.Remove(link) },
		"replaced": func() error { return os.Rename(library, link) },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, damage())
			unpacked()
		})
	}

	// A process that was killed while it wrote.
	must(t, os.Rename(filepath.Join(cache, "new"), filepath.Join(cache, "new.part")))
	must(t, os.Remove(filepath.Join(cache, "new.part/lib/b.so")))
	unpacked()

	var wait sync.WaitGroup
	must(t, os.RemoveAll(filepath.Join(cache, "new")))
	for range 8 {
		wait.Go(func() {
			if _, err := unpack(z, []string{cache}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	unpacked()
}

func TestUnpackingRemovesUnusedVersions(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"unused", "used"} {
		_, err := unpack(pack(t, name), []string{cache})
		must(t, err)
		old := time.Now().Add(-unusedFor - time.Hour)
		must(t, os.Chtimes(filepath.Join(cache, name), old, old))
	}
	_, err := unpack(pack(t, "used"), []string{cache})
	must(t, err)
	_, err = unpack(pack(t, "new"), []string{cache})
	must(t, err)
	for name, want := range map[string]bool{"unused": false, "used": true, "new": true} {
		if exists(filepath.Join(cache, name)) != want {
			t.Errorf("%s: want it there: %v", name, want)
		}
	}
}

// Code is never loaded from a folder that another user can change or replace.
func TestUnpackingAvoidsFoldersOfOthers(t *testing.T) {
	dir := t.TempDir()
	fine := filepath.Join(dir, "fine")
	bad := []string{mkdir(t, 0o777, dir, "open"), mkdir(t, 0o755, mkdir(t, 0o777, dir, "parent"), "mine")}
	if os.Geteuid() == 0 {
		home := mkdir(t, 0o755, dir, "home")
		must(t, os.Chown(home, 12345, 0))
		bad = append(bad, filepath.Join(home, "cache"))
	}
	for _, cache := range bad {
		if got, err := unpack(pack(t, "new"), []string{cache, fine}); err != nil || got != filepath.Join(fine, "new") {
			t.Errorf("%s: %s, %v", cache, got, err)
		}
	}
	if _, err := unpack(pack(t, "new"), bad); err == nil || !strings.Contains(err.Error(), "set XDG_CACHE_HOME") {
		t.Error(err)
	}
}
