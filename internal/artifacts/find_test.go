package artifacts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Without ACLTRACE_LIB the parts are in the folder lib beside the program's own, or in its own.
func TestPartsBesideTheProgram(t *testing.T) {
	m, lib := plant(t)
	if got, err := dirs(); err != nil || !slices.Equal(got, []string{lib}) {
		t.Errorf("%q, %v", got, err)
	}
	if dir, err := SimulatorDir(m); err != nil || dir != lib {
		t.Errorf("%s, %v", dir, err)
	}
	if b, err := Bytes(m.Simulator.Library); err != nil || string(b) != "content of "+m.Simulator.Library {
		t.Errorf("%q, %v", b, err)
	}
	if path, err := Example("x"); err == nil || !strings.Contains(err.Error(), "bin/examples/x is not in "+lib) {
		t.Errorf("%s, %v", path, err)
	}
	if err := os.Remove(filepath.Join(lib, m.Simulator.Library)); err != nil {
		t.Fatal(err)
	}
	if dir, err := SimulatorDir(m); err == nil || dir != "" {
		t.Errorf("%s, %v", dir, err)
	}
	if dir, err := Toolkit(m); err == nil || dir != "" {
		t.Errorf("%s, %v", dir, err)
	}
	t.Setenv("ACLTRACE_LIB", "")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		t.Fatal(err)
	}
	if z, err := archive(); z != nil || err != nil {
		t.Skip("this test has the parts in it")
	}
	if got, err := dirs(); err != nil || !slices.Equal(got, []string{filepath.Join(filepath.Dir(exe), "..", "lib"), filepath.Dir(exe)}) {
		t.Errorf("%q, %v", got, err)
	}
}

// The user's cache comes first. Without a home there is a folder of the user for temporary files.
func TestUserCacheComesFirst(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(tmp, "cache"))
	if got := caches(); len(got) != 2 || got[0] != filepath.Join(tmp, "cache", "acltrace", "files") || !strings.HasPrefix(got[1], filepath.Join(tmp, "acltrace-files-")) {
		t.Errorf("%q", got)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := caches(); len(got) != 1 || !strings.HasPrefix(got[0], filepath.Join(tmp, "acltrace-files-")) {
		t.Errorf("%q", got)
	}
}

// A cache that can't be used has its reason in the error.
func TestUnpackingFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := unpack(pack(t, "new"), []string{filepath.Join(file, "one"), filepath.Join(file, "two")})
	if err == nil || strings.Count(err.Error(), "not a directory") != 2 || !strings.HasPrefix(err.Error(), "unpack the simulators: ") {
		t.Error(err)
	}
	// A file of the archive that is in the way of another.
	z := pack(t, "new")
	z.File[1].Name = "lib/a.so/b.so"
	if _, err := unpack(z, []string{filepath.Join(dir, "cache")}); err == nil {
		t.Error("a file is in a file")
	}
	// Content that the archive's checksum does not match is never used.
	z = pack(t, "other")
	z.File[0].CRC32++
	if _, err := unpack(z, []string{filepath.Join(dir, "cache")}); err == nil || exists(filepath.Join(dir, "cache", "other")) {
		t.Errorf("%v", err)
	}
}

// An installed simulator can be installed again, over its links, and a place that can't be written has its error.
func TestInstallSimulatorAgain(t *testing.T) {
	m, _ := plant(t)
	dir := filepath.Join(t.TempDir(), "to")
	for range 2 {
		must(t, InstallSimulator(m, dir, os.WriteFile))
	}
	link := filepath.Join(dir, m.Simulator.Files[0])
	if to, err := os.Readlink(link); err != nil || to != m.Simulator.Library {
		t.Errorf("%s, %v", to, err)
	}
	for _, name := range []string{m.Simulator.Library, m.Simulator.Toolkit.Folder + "/bin/tool"} {
		failed := errors.New("full")
		if err := InstallSimulator(m, dir, func(path string, b []byte, mode fs.FileMode) error {
			if path == filepath.Join(dir, name) {
				return failed
			}
			return os.WriteFile(path, b, mode)
		}); err != failed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := InstallSimulator(m, filepath.Join(link, "in a file"), os.WriteFile); err == nil || !strings.HasPrefix(err.Error(), "mkdir ") {
		t.Errorf("installed in a file: %v", err)
	}
	if _, err := Install(m.Simulator.Library, filepath.Join(dir, "gone")); err == nil {
		t.Error("installed in a folder that does not exist")
	}
}

// A library is a simulator by its symbol.
func TestSimulatorIsKnownByItsSymbol(t *testing.T) {
	lib := testenv.Built(t, "lib/libascendcl.so")
	if !Simulates(acl.Model, lib) || Simulates(acl.Model, testenv.Built(t, "lib/libacltrace.so")) || Simulates(acl.Model, lib+".gone") {
		t.Error("a library is mistaken for another")
	}
}

// A root that an interrupted run left is laid out anew, and a folder with other files stays as it is.
func TestInterruptedLay(t *testing.T) {
	m, lib := plant(t)
	tk := &m.Simulator.Toolkit
	for _, c := range []struct {
		files []string
		ok    bool
	}{
		{[]string{atomicfile.PartFolder + "/x", "bin/tool"}, true},
		{[]string{atomicfile.PartFolder + "/x", "thesis"}, false},
		{[]string{"bin/tool"}, false},
		{nil, true},
	} {
		dir := filepath.Join(t.TempDir(), "root")
		mkdir(t, 0o700, dir)
		for _, name := range c.files {
			mkdir(t, 0o700, filepath.Dir(filepath.Join(dir, name)))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600))
		}
		err := Lay(m, dir, "v1")
		if (err == nil) != c.ok || (RootVersion(dir) == "v1") != c.ok {
			t.Errorf("%q: %v, version %q", c.files, err, RootVersion(dir))
		}
		if !c.ok {
			for _, name := range c.files {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "left" {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("the permissions of a folder that existed are %v, %v", st.Mode(), err)
		}
	}
	// Builds link to the libraries in a folder of their own.
	dir := filepath.Join(t.TempDir(), "root")
	must(t, Lay(m, dir, "v1"))
	for _, name := range append([]string{m.Simulator.Library}, m.Simulator.Files...) {
		if to, err := os.Readlink(filepath.Join(dir, tk.Libraries, "stub", name)); err != nil || to != "../"+name {
			t.Errorf("%s is a link to %q, %v", name, to, err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "bin")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, "include", "a", "b.h")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if exists(filepath.Join(dir, Headers)) {
		t.Error("the archive of headers is left")
	}
	// A part that is missing ends it, and leaves nothing.
	for _, name := range []string{m.Simulator.Files[1], filepath.Join(tk.Folder, Headers), filepath.Join(tk.Folder, tk.Script)} {
		from := filepath.Join(lib, name)
		must(t, os.Rename(from, from+".moved"))
		dir := filepath.Join(t.TempDir(), "root")
		if err := Lay(m, dir, "v1"); err == nil || RootVersion(dir) != "" || exists(dir) {
			t.Errorf("without %s: %v", name, err)
		}
		must(t, os.Rename(from+".moved", from))
	}
}
