//go:build unix

package private

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Who may write to a folder depends on its owner, group and permissions. A group with the number of the user is the user's own.
func TestOnlyTheOwnerMayWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes folders of others")
	}
	const other = 12345
	for _, c := range []struct {
		uid, gid int
		mode     os.FileMode
		want     string
	}{
		{0, 0, 0o755, ""}, {0, 0, 0o775, ""}, {0, 0, 0o702, "other users may write"}, {0, other, 0o755, ""}, {0, other, 0o720, "other users may write"},
		{0, 0, 0o777 | os.ModeSticky, "other users may write"}, {other, 0, 0o700, "belongs to another user (12345)"}, {other, other, 0o777, "belongs to another user (12345)"},
	} {
		dir := mkdir(t, c.mode, t.TempDir(), "x")
		if err := os.Chown(dir, c.uid, c.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		st, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if Owns(st) != (c.uid == 0) {
			t.Errorf("%+v: owned by this user: %v", c, Owns(st))
		}
	}
	if err := Check(filepath.Join(t.TempDir(), "gone")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// A link of another user leads output elsewhere, also if it is in the middle of a path or behind another link. A user's own links don't.
func TestLinksOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	real := mkdir(t, 0o700, dir, "real")
	link := func(to, name string, uid int) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if uid != 0 {
			if err := os.Lchown(path, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	own, relative, loop := link(real, "own", 0), link("./own", "relative", 0), link("loop", "loop", 0)
	for _, path := range []string{real, own, relative, filepath.Join(own, "gone", "below"), loop} {
		if err := Links(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{real, relative} {
		if err := LastingFolder(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	made := filepath.Join(relative, "new", "er")
	if err := MakeFolder(made); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(filepath.Join(real, "new", "er")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	inOpen := link(mkdir(t, 0o700, mkdir(t, 0o777, dir, "open"), "in"), "to-open", 0)
	for _, f := range []func(string) error{CodeFolder, LastingFolder} {
		if err := f(inOpen); err == nil || !strings.Contains(err.Error(), "all users may rename") {
			t.Errorf("%s: %v", inOpen, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	foreign := link(real, "foreign", 12345)
	behind, beside := link(foreign, "behind", 0), link("foreign", "beside", 0)
	for _, path := range []string{foreign, filepath.Join(foreign, "new"), behind, beside, filepath.Join(beside, "a", "b")} {
		for name, f := range map[string]func(string) error{"Links": Links, "MakeFolder": MakeFolder, "Folder": Folder, "CodeFolder": CodeFolder, "LastingFolder": LastingFolder} {
			if err := f(path); err == nil || !strings.Contains(err.Error(), foreign+" belongs to another user (12345) and is a link") {
				t.Errorf("%s of %s: %v", name, path, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(real, "a")); err == nil {
		t.Error("a folder was made through a link of another user")
	}
}

// Code that stays between runs is not kept below a folder of another user, who may replace it.
func TestLastingFolders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes folders of others")
	}
	dir := t.TempDir()
	foreign := mkdir(t, 0o755, dir, "foreign")
	deep := mkdir(t, 0o700, mkdir(t, 0o755, foreign, "deep"), "er")
	if err := os.Chown(foreign, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := CodeFolder(deep); err != nil {
		t.Error(err)
	}
	if err := LastingFolder(deep); err == nil || !strings.Contains(err.Error(), "keep code in folder "+deep+": "+foreign+" belongs to another user") {
		t.Error(err)
	}
	open := mkdir(t, 0o777, dir, "open")
	for _, f := range []func(string) error{Folder, CodeFolder, LastingFolder} {
		if err := f(open); err == nil || !strings.Contains(err.Error(), "other users may write") {
			t.Error(err)
		}
	}
	if err := LastingFolder(mkdir(t, 0o700, open, "in")); err == nil || !strings.Contains(err.Error(), "all users may rename") {
		t.Error(err)
	}
}

func TestMappableUnlessMountedNoexec(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	const noexec = 8
	if err := Mappable(file); (err != nil) != (fs.Flags&noexec != 0) {
		t.Error(err)
	}
	if err := Mappable(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	if err := Mappable(filepath.Join(dir, "gone")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// A temporary folder that others may replace is not left behind.
func TestRefusedTemporaryFolderIsRemoved(t *testing.T) {
	dir := t.TempDir()
	open := mkdir(t, 0o777, dir, "open")
	t.Setenv("TMPDIR", open)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	made, err := MkdirTemp("x-")
	if err != nil || filepath.Dir(made) != filepath.Join(dir, "state", "acltrace") {
		t.Errorf("%s, %v", made, err)
	}
	if st, err := os.Stat(filepath.Dir(made)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	if left, err := os.ReadDir(open); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	if _, err := MkdirTemp("x-"); err == nil || !strings.Contains(err.Error(), "all users may rename") || !strings.Contains(err.Error(), "mkdir "+file) ||
		!strings.Contains(err.Error(), "not a directory; set TMPDIR") {
		t.Error(err)
	}
}

// Only the state folder is made: TMPDIR names a folder of the machine.
func TestMissingTemporaryFolderIsNotMade(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	t.Setenv("TMPDIR", gone)
	t.Setenv("XDG_STATE_HOME", dir)
	if made, err := MkdirTemp("x-"); err != nil || filepath.Dir(made) != filepath.Join(dir, "acltrace") {
		t.Errorf("%s, %v", made, err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the folder was made")
	}
	if err := LastingFolder(gone); !os.IsNotExist(errors.Unwrap(err)) {
		t.Error(err)
	}
	if err := checkOwner(gone); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// Files of root, of the user and of the owner of / are trusted, also if the user is not root.
func TestFilesOfRootAreTrusted(t *testing.T) {
	for _, c := range []struct {
		owner, user, ownerOfRoot uint32
		want                     bool
	}{
		{0, 1000, 0, true}, {1000, 1000, 0, true}, {1001, 1000, 0, false}, {65534, 1000, 65534, true}, {0, 1000, 65534, true}, {1001, 0, 0, false}, {1001, 1000, 65534, false},
	} {
		if got := trusted(c.owner, c.user, c.ownerOfRoot); got != c.want {
			t.Errorf("a file of %d is trusted by %d where %d owns /: %t", c.owner, c.user, c.ownerOfRoot, got)
		}
	}
}
