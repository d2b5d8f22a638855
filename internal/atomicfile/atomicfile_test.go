package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// has checks the content of a file and of its folder.
func has(t *testing.T, path, text string, beside ...string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("%s: %q, %v", path, b, err)
	}
	in, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range in {
		names = append(names, e.Name())
	}
	want := append(beside, filepath.Base(path))
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there are %q, not %q", names, want)
	}
}

func TestKeepAndDrop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	put(t, path, "before")
	put(t, path+Suffix, "what somebody who was killed has left behind")
	for _, keep := range []bool{false, true} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(path); !errors.Is(err, ErrTaken) {
			t.Errorf("two write the same file: %v", err)
		}
		has(t, path, "before", "run"+Suffix)
		if keep {
			if err := f.Keep(); err != nil {
				t.Error(err)
			}
		}
		if err := f.Drop(); err != nil {
			t.Error(err)
		}
		has(t, path, map[bool]string{false: "before", true: "new"}[keep])
	}
}

// With a usual umask, new files were readable by all users, although traces and exports contain the program's data.
func TestNewFilesArePrivate(t *testing.T) {
	for _, perm := range []os.FileMode{0, 0o600, 0o640, 0o666} {
		path := filepath.Join(t.TempDir(), "run")
		want := os.FileMode(0o600)
		if perm != 0 {
			put(t, path, "before")
			if err := os.Chmod(path, perm); err != nil {
				t.Fatal(err)
			}
			want = perm
		}
		put(t, path+Suffix, "what somebody who was killed has left behind")
		if err := WriteFile(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%v in place of %v: %v, want %v", st.Mode(), perm, err, want)
		}
	}
}

// An existing file or link with the partial name was written to, so another user could read the data.
func TestPartIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	put(t, path+Suffix, "left")
	left, err := os.Open(path + Suffix)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(left); string(b) != "left" {
		t.Errorf("the file that was there has %q, %v", b, err)
	}
	has(t, path, "new")

	victim := filepath.Join(t.TempDir(), "victim")
	put(t, victim, "precious")
	if err := os.Symlink(victim, path+Suffix); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("newer")); err == nil || !strings.Contains(err.Error(), "is not yours: remove it") {
		t.Errorf("a link for a part: %v", err)
	}
	has(t, victim, "precious")
}

// Links, pipes and files of another user at the final name were followed, written to and emptied.
func TestWhatOthersPutThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	const other = 12345
	victim := filepath.Join(t.TempDir(), "victim")
	for name, make := range map[string]func(path string) error{
		"link":         func(path string) error { return os.Symlink(victim, path) },
		"link to none": func(path string) error { return os.Symlink(victim+".new", path) },
		"pipe":         func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"part":         func(path string) error { return os.WriteFile(path+Suffix, nil, 0o666) },
		"file":         func(path string) error { return os.WriteFile(path, nil, 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			put(t, victim, "precious")
			path := filepath.Join(t.TempDir(), "run")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{path, path + Suffix} {
				if err := os.Lchown(p, other, other); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			err := WriteFile(path, []byte("new"))
			if name == "file" { // replaced, not written
				if st, serr := os.Stat(path); err != nil || serr != nil || st.Mode().Perm() != 0o600 || st.Sys().(*syscall.Stat_t).Uid != 0 {
					t.Errorf("%v: the file of another user is now %v, %v", err, st, serr)
				}
				if err := os.Lchown(path, other, other); err != nil {
					t.Fatal(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "is not yours") {
				t.Errorf("written: %v", err)
			}
			if f, _, err := Open(path); name != "part" && name != "pipe" && (err == nil || !strings.Contains(err.Error(), "is not yours")) {
				t.Errorf("opened: %v, %v", f, err)
			}
			has(t, victim, "precious")
		})
	}
}

// A kill while several files are renamed must not leave an old file beside a new one.
func TestKeepTogether(t *testing.T) {
	defer func() { between = func() {} }()
	steps := 0
	for at := 0; at == 0 || at <= steps; at++ {
		dir := t.TempDir()
		var files []*File
		var paths []string
		for _, n := range []string{"a", "b", "c"} {
			paths = append(paths, filepath.Join(dir, n))
			put(t, paths[len(paths)-1], "before")
			f, err := Create(paths[len(paths)-1])
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("now")
			files = append(files, f)
		}
		steps = 0
		seen := map[string]int{}
		between = func() {
			if steps++; steps-1 != at {
				return
			}
			for _, p := range paths {
				b, _ := os.ReadFile(p)
				seen[string(b)]++
			}
		}
		if err := KeepTogether(files...); err != nil {
			t.Fatal(err)
		}
		if seen["before"] > 0 && seen["now"] > 0 {
			t.Errorf("before step %d: %v", at, seen)
		}
		for _, p := range paths {
			if b, err := os.ReadFile(p); string(b) != "now" {
				t.Errorf("%s has %q, %v", p, b, err)
			}
		}
	}
}

// A file that can't be replaced is reported by Create, or else by Keep, and stays unchanged.
func TestNotReplaceable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	put(t, path, "before")
	busy, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if Writing(path) {
		t.Error("nobody writes the file")
	}
	if err := Lock(busy); err != nil {
		t.Fatal(err)
	}
	if !Writing(path) {
		t.Error("the lock of the writer was not seen")
	}
	if err := f.Keep(); !errors.Is(err, ErrTaken) {
		t.Errorf("a file that is being written was replaced: %v", err)
	}
	if err := f.Drop(); err != nil {
		t.Error(err)
	}
	if _, err := Create(path); !errors.Is(err, ErrTaken) {
		t.Errorf("a file that is being written would be replaced: %v", err)
	}
	has(t, path, "before")
	if _, err := Create(filepath.Join(filepath.Dir(path), "nowhere", "run")); !errors.Is(err, os.ErrNotExist) || filepath.Ext(err.(*os.PathError).Path) != "" {
		t.Errorf("%v", err)
	}
}

// Links stay, whether their target exists or not.
func TestLinksStay(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for from, to := range map[string]string{first: "second", second: filepath.Join("there", "run")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"new", "newer"} {
		if err := WriteFile(first, []byte(text)); err != nil {
			t.Fatal(err)
		}
		has(t, filepath.Join(there, "run"), text)
		has(t, first, text, "second", "there")
	}
}

// nullDevice makes a device like /dev/null, and opens it: some users and some file systems may not.
func nullDevice(path string) (*os.File, error) {
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// Devices and pipes are written in place, and stay.
func TestDevicesAreWrittenInPlace(t *testing.T) {
	null := filepath.Join(t.TempDir(), "null") // not the machine's own, which a wrong change would replace
	if f, err := nullDevice(null); err == nil {
		f.Close()
		if err := WriteFile(null, []byte("new")); err != nil {
			t.Error(err)
		}
		if st, err := os.Lstat(null); err != nil || st.Mode()&fs.ModeCharDevice == 0 {
			t.Errorf("%v, %v", st, err)
		}
	}
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := Fresh(path); err == nil || err.Error() != "replace "+path+": it is not a file" {
		t.Error(err)
	}
	b := make([]byte, 3)
	if _, err := pipe.Read(b); err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode().IsRegular() {
		t.Errorf("%v, %v", st, err)
	}
}

func TestFolderHasItsNameOnceKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, keep := range []bool{false, true} {
		f, err := Remake(dir)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(f.Name(), "first"), "1")
		put(t, filepath.Join(f.Name(), "last"), "2")
		if _, err := Remake(dir); !errors.Is(err, ErrTaken) {
			t.Errorf("two write the same folder: %v", err)
		}
		if keep {
			if err := f.Keep("last"); err != nil {
				t.Error(err)
			}
		}
		if err := f.Drop(); err != nil {
			t.Error(err)
		}
		if !keep && exists(dir) {
			t.Error("a folder was left behind")
		}
	}
	has(t, filepath.Join(dir, "last"), "2", "first")
	if _, err := Remake(dir); err == nil {
		t.Error("a folder with something in it was taken")
	}
}

// A folder is not complete if one of its files could not be moved.
func TestFolderIsNotKeptInPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	f, err := Remake(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Drop()
	put(t, filepath.Join(f.Name(), "first"), "1")
	put(t, filepath.Join(f.Name(), "last"), "2")
	if err := os.MkdirAll(filepath.Join(dir, "first", "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep("last"); err == nil || exists(filepath.Join(dir, "last")) {
		t.Errorf("kept without its first file: %v", err)
	}
}

// A bundle has a Makefile that users execute, but it was made in folders where other users could replace it.
func TestFolderOfOthersIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if f, err := Remake(dir); err == nil {
		t.Errorf("%s is taken", f.Name())
	}
	if f, err := Remake(filepath.Join(dir, "new")); err == nil {
		t.Errorf("%s is made", f.Name())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Numbers increase from the highest one, and files with similar names are ignored.
func TestMoveAside(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"run.aclt", "run.9.aclt", "run.10.aclt", "run.011.aclt", "run.x.aclt", "run.12.aclt.bak", "rerun.13.aclt", "run.-1.aclt", "run.14.txt"} {
		if err := os.WriteFile(path(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all := Asides(path("run.aclt")); len(all) != 2 || all[0] != path("run.9.aclt") || all[1] != path("run.10.aclt") {
		t.Errorf("%v", all)
	}
	aside, err := MoveAside(path("run.aclt"))
	if err != nil || aside != path("run.11.aclt") {
		t.Fatalf("%s, %v", aside, err)
	}
	if err := MoveBack(path("run.aclt"), aside); err != nil || exists(aside) || !exists(path("run.aclt")) {
		t.Errorf("%v", err)
	}
	if aside, err := MoveAside(path("none.aclt")); aside != "" || err != nil {
		t.Errorf("%q, %v", aside, err)
	}
}

// A symbolic link to a trace was written through. Its target must be moved aside, and the link must lead to the new file.
func TestSucceedLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "run.aclt"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(file, []byte("older"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	s, err := Succeed(link)
	if err != nil || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	if _, err := Succeed(file); !errors.Is(err, ErrTaken) {
		t.Errorf("another: %v", err)
	}
	if err := os.WriteFile(s.Name(), []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	aside, err := s.Take()
	if err != nil || aside != filepath.Join(dir, "run.1.aclt") {
		t.Fatalf("%s, %v", aside, err)
	}
	for name, want := range map[string]string{link: "newer", aside: "older"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s has %q, want %q: %v", name, b, want, err)
		}
	}
}

// Another process removes or replaces the older file before the successor takes the name.
func TestSucceedWhatChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.aclt")
	for _, writing := range []bool{false, true} {
		if err := os.WriteFile(path, []byte("older"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Succeed(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(s.Name(), []byte("newer"), 0o600), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		if !writing {
			if aside, err := s.Take(); aside != "" || err != nil {
				t.Errorf("%q, %v", aside, err)
			}
			continue
		}
		other, _, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.WriteString("another"); err != nil {
			t.Fatal(err)
		}
		if err := Lock(other); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(); !errors.Is(err, ErrTaken) {
			t.Errorf("%v", err)
		}
		if b, err := os.ReadFile(path); string(b) != "another" {
			t.Errorf("%q, %v", b, err)
		}
	}
}
