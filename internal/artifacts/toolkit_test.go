package artifacts

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/rogpeppe/go-internal/txtar"
)

// plant makes a folder of libraries with a small toolkit, which ACLTRACE_LIB names.
func plant(t *testing.T) (m *api.Model, lib string) {
	t.Helper()
	m, lib = acl.Model, t.TempDir()
	tk := &m.Simulator.Toolkit
	write := func(name, text string, mode fs.FileMode) {
		t.Helper()
		path := filepath.Join(lib, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append([]string{m.Simulator.Library}, m.Simulator.Files...) {
		write(name, "content of "+name, 0o644)
	}
	link := filepath.Join(lib, m.Simulator.Files[0])
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.Simulator.Library, link); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(tk.Folder, tk.Script), "export ROOT=@ROOT@ SAME=@ROOT@\n", 0o644)
	write(filepath.Join(tk.Folder, "bin", "tool"), "tool", 0o755)
	write(filepath.Join(tk.Folder, Headers), string(txtar.Format(&txtar.Archive{Files: []txtar.File{{Name: "include/a/b.h", Data: []byte("header\n")}}})), 0o644)
	if err := os.Symlink("..", filepath.Join(lib, tk.Folder, tk.Libraries)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLTRACE_LIB", lib)
	return m, lib
}

// A root has the toolkit, its headers and the libraries, and no trace of where they came from. It replaces an older root, and nothing of others.
func TestRootReplacesAnOlderRoot(t *testing.T) {
	m, lib := plant(t)
	tk := &m.Simulator.Toolkit
	dir := filepath.Join(t.TempDir(), "a root")
	if err := Lay(m, dir, "v1"); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	if read("include/a/b.h") != "header\n" || read("bin/tool") != "tool" || read(tk.Script) != "export ROOT='"+dir+"' SAME='"+dir+"'\n" || RootVersion(dir) != "v1" {
		t.Errorf("%q, %q, version %q", read("include/a/b.h"), read(tk.Script), RootVersion(dir))
	}
	for _, name := range append([]string{m.Simulator.Library}, m.Simulator.Files...) {
		want := "content of " + name
		if name == m.Simulator.Files[0] {
			want = "content of " + m.Simulator.Library
			if to, err := os.Readlink(filepath.Join(dir, tk.Libraries, name)); err != nil || to != m.Simulator.Library {
				t.Errorf("%s is a link to %q, %v", name, to, err)
			}
		}
		if got := read(filepath.Join(tk.Libraries, name)); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "bin", "tool")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	if IsToolkit(dir) || !IsToolkit(filepath.Join(lib, tk.Folder)) {
		t.Error("a root is taken for a toolkit, or a toolkit is not")
	}
	if err := Lay(m, dir, "v2"); err != nil || RootVersion(dir) != "v2" {
		t.Errorf("again: %v, version %q", err, RootVersion(dir))
	}
	others := t.TempDir()
	if err := os.WriteFile(filepath.Join(others, "thesis"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Lay(m, others, "v1"); err == nil || !strings.Contains(err.Error(), others+" has files of others") || RootVersion(others) != "" {
		t.Errorf("a folder of others: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(lib, tk.Folder)); err != nil {
		t.Fatal(err)
	}
	if err := Lay(m, dir, "v3"); err == nil || !strings.Contains(err.Error(), "run `make build`") || RootVersion(dir) != "v2" {
		t.Errorf("without a toolkit: %v", err)
	}
}

// The simulator's files are installed with their modes, with the toolkit if there is one.
func TestInstallSimulator(t *testing.T) {
	m, lib := plant(t)
	tk := &m.Simulator.Toolkit
	for _, folder := range []string{tk.Folder, ""} {
		dir := filepath.Join(t.TempDir(), "to")
		var replaced []string
		if err := InstallSimulator(m, dir, func(path string, b []byte, mode fs.FileMode) error {
			replaced = append(replaced, filepath.Base(path))
			return os.WriteFile(path, b, mode)
		}); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(filepath.Join(dir, m.Simulator.Library)); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("%v, %v", st, err)
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("%v, %v", st, err)
		}
		if slices.Contains(replaced, "tool") != (folder != "") || len(replaced) < len(m.Simulator.Files) || exists(filepath.Join(dir, tk.Folder)) != (folder != "") {
			t.Errorf("installed %q", replaced)
		}
		if err := os.RemoveAll(filepath.Join(lib, tk.Folder)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(lib, m.Simulator.Library)); err != nil {
		t.Fatal(err)
	}
	if err := InstallSimulator(m, t.TempDir(), os.WriteFile); err == nil || !strings.Contains(err.Error(), m.Simulator.Library+" is not in "+lib+": run `make build`, or set ACLTRACE_LIB") {
		t.Error(err)
	}
}

// A part is an executable of its user only, and replaces an older one.
func TestInstallReplacesAnOlderPart(t *testing.T) {
	_, lib := plant(t)
	dir := t.TempDir()
	for _, text := range []string{"old and long", "new"} {
		if err := os.WriteFile(filepath.Join(lib, Player), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		path, err := Install(Player, dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		st, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(b) != text || st.Mode().Perm() != 0o700 || path != filepath.Join(dir, Player) {
			t.Errorf("%s: %q, %v, %v, %v", path, b, st, err, err2)
		}
	}
	if _, err := Install("gone", dir); err == nil {
		t.Error("a part that does not exist was installed")
	}
	t.Chdir(filepath.Dir(lib))
	t.Setenv("ACLTRACE_LIB", filepath.Base(lib))
	if path, err := Simulator(acl.Model); err != nil || path != filepath.Join(lib, acl.Model.Simulator.Library) {
		t.Errorf("%s, %v", path, err)
	}
}
