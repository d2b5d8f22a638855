package kernellib

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a file, and returns its path and hash.
func write(t *testing.T, path, text string) (string, string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	return path, "sha256:" + hex.EncodeToString(sum[:])
}

// A library is known by its path and by its content, until the list has a thousand newer ones.
func TestLibrariesAreKnownByContent(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state", "of", "user")
	a, hashA := write(t, filepath.Join(dir, "a\n b.so"), "a")
	b, hashB := write(t, filepath.Join(dir, "b.so"), "b")
	has := func(path, hash string) bool {
		t.Helper()
		own, err := ReadOwn(state)
		if err != nil {
			t.Fatal(err)
		}
		return own.Has(path, hash)
	}
	remember := func(libs ...Library) {
		t.Helper()
		if err := Remember(state, libs); err != nil {
			t.Fatal(err)
		}
	}
	if has(a, hashA) {
		t.Error("an empty list has a library")
	}
	remember(Library{b, ""}, Library{b, "1 2"}, Library{filepath.Join(dir, "gone"), "1"}, Library{dir, "1"})
	if _, err := os.Stat(state); err == nil {
		t.Error("a list was made for libraries that are not known")
	}
	remember(Library{b, ""}, Library{filepath.Join(dir, "x", "..", "a\n b.so"), "1"})
	if !has(a, "") || !has("", hashA) || !has(dir+"/x/../a\n b.so", "no") || has(b, hashB) {
		t.Error("the list has the wrong libraries")
	}
	list := filepath.Join(state, ownFile)
	for path, want := range map[string]os.FileMode{state: 0o700, list: 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	before, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(list, old, old); err != nil {
		t.Fatal(err)
	}
	remember(Library{a, "1"})
	if st, err := os.Stat(list); err != nil || !st.ModTime().Equal(old) {
		t.Errorf("a list without a new library was written: %v", err)
	}
	if after, err := os.ReadFile(list); err != nil || string(after) != string(before) {
		t.Errorf("a known library was added again: %s, %v", after, err)
	}

	var many strings.Builder
	many.WriteString("no library" + strings.Repeat("x", 1000) + "\nsha256:x 2 unquoted\n")
	write(t, list, many.String())
	if has("", "sha256:x") {
		t.Error("a line without a path is a library")
	}
	for i := range 1000 {
		fmt.Fprintf(&many, "sha256:%d %d \"/lib%d.so\"\n", i, i, i)
	}
	write(t, list, many.String())
	remember(Library{a, "1"}, Library{b, "2"})
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n != 1000 || has("/lib0.so", "") || has("/lib1.so", "") || !has("/lib2.so", "") || !has("/lib999.so", "") || !has(a, "") || !has(b, "") {
		t.Errorf("%d libraries", n)
	}
}

// A list that another user may have written is not read, nor is anything but a file.
func TestOwnListOfOthers(t *testing.T) {
	dir := t.TempDir()
	lib, _ := write(t, filepath.Join(dir, "a.so"), "a")
	try := func(name, want string, prepare func(list string)) {
		t.Helper()
		state := filepath.Join(dir, name)
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		list := filepath.Join(state, ownFile)
		prepare(list)
		if _, err := ReadOwn(state); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is read: %v", name, err)
		}
		if err := Remember(state, []Library{{lib, "1"}}); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	try("writable", "other users may write", func(list string) {
		write(t, list, "")
		if err := os.Chmod(list, 0o606); err != nil {
			t.Fatal(err)
		}
	})
	try("open", "other users may write", func(list string) {
		write(t, list, "")
		if err := os.Chmod(filepath.Dir(list), 0o707); err != nil {
			t.Fatal(err)
		}
	})
	try("linked", "", func(list string) {
		to, _ := write(t, filepath.Join(dir, "elsewhere"), "")
		if err := os.Symlink(to, list); err != nil {
			t.Fatal(err)
		}
	})
	try("long", "read ", func(list string) { write(t, list, strings.Repeat("x", 1<<20)) })
	if err := os.MkdirAll(filepath.Join(dir, "folder", ownFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadOwn(filepath.Join(dir, "folder")); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if err := Remember(lib, []Library{{lib, "1"}}); err == nil {
		t.Error("a file is a state folder")
	}
}

// A file that is larger than a kernel library may be is refused without being read. It has no blocks on the disk.
func TestLargeLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.so")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(MaxSize); err != nil {
		t.Skip(err)
	}
	if largest, err := Open(path); err != nil {
		t.Error(err)
	} else {
		largest.Close()
	}
	if err := f.Truncate(MaxSize + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Hash(path); err == nil || !strings.Contains(err.Error(), path+" has 1073741825 bytes, more than a kernel library may have (1073741824)") {
		t.Error(err)
	}
	if Exports(path, "x") || BuildID(path) != "" {
		t.Error("a file that is too large has a build id")
	}
}

func TestResolveRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "text.so", "text")
	for path, want := range map[string]string{"text.so": "not a kernel library: it does not export x", "gone.so": "no such file or directory"} {
		if abs, err := Resolve(path, "x"); err == nil || err.Error() != want || filepath.Base(abs) != path || !filepath.IsAbs(abs) {
			t.Errorf("%s, %v", abs, err)
		}
	}
}
