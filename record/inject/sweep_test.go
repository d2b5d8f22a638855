package inject

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/host"
)

// Folders that recordings have left are removed, but for those that a recorder or a program still uses.
func TestUnusedFoldersAreRemoved(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	parent := t.TempDir()
	session := filepath.Join(parent, "session")
	var dirs []string
	var folders []*ShimFolder
	for range 3 {
		f, err := InstallShim(session, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		folders, dirs = append(folders, f), append(dirs, filepath.Dir(f.Path))
	}
	unused, used, recording := dirs[0], dirs[1], dirs[2]
	// A session whose recorder was killed, and a folder that is none of these.
	for _, name := range []string{"acltrace-1/control", "acltrace-2/mine"} {
		dir := filepath.Dir(filepath.Join(parent, name))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(parent, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	sleep := exec.Command("sleep", "3600")
	sleep.Env = []string{"LD_PRELOAD=" + folders[1].Path}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	folders[0].lock.Close() // as if its recorder were gone
	folders[1].Close()      // a program goes on
	old := time.Now().Add(-time.Minute)
	for _, d := range dirs {
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Wait(t, "the program's environment", func() bool { return len(host.Mentioning(dirs[1])) > 0 })
	// Another test's process may have a lock for a moment, from its fork until its exec.
	left := func(want [5]bool) (n [5]bool) {
		testenv.Await(func() bool {
			sweep(parent)
			for i, d := range []string{unused, used, recording, dirs[3], dirs[4]} {
				n[i] = host.Exists(d)
			}
			return n == want
		})
		return n
	}
	want := [5]bool{false, true, true, false, true}
	if got := left(want); got != want {
		t.Errorf("left of the unused, the used, that of a recorder, a session, and another: %v", got)
	}
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	folders[2].Close()
	if got := left([5]bool{4: true}); got != [5]bool{4: true} {
		t.Errorf("left when nobody uses them: %v", got)
	}
}
