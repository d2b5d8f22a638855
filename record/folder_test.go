package record

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/record/host"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

func TestOutputName(t *testing.T) {
	host, _ := os.Hostname()
	for _, c := range []struct{ name, want string }{
		{"run.aclt", "run.aclt"},
		{"%h-%r-%p.aclt", host + "-3-77.aclt"},
		{"100%%-%x.aclt", "100%-%x.aclt"},
		{"%%p.aclt", "%p.aclt"},
	} {
		if got := outputName(c.name, []string{"HOME=/", "OMPI_COMM_WORLD_RANK=3"}, 77); got != c.want {
			t.Errorf("%s became %s, not %s", c.name, got, c.want)
		}
	}
	for want, env := range map[string][]string{"0": nil, "7": {"RANK=7", "OMPI_COMM_WORLD_RANK=3"}, "4": {"RANK=../x", "PMI_RANK=4"}} {
		if got := rank(env); got != want {
			t.Errorf("rank of %v is %s, not %s", env, got, want)
		}
	}
}

// Folders that recordings have left are removed, but for those that a recorder or a program still uses.
func TestSweep(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	parent := t.TempDir()
	session := filepath.Join(parent, "session")
	var dirs []string
	var folders []*shimFolder
	for range 3 {
		f, err := installShim(session, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		folders, dirs = append(folders, f), append(dirs, filepath.Dir(f.path))
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
	sleep.Env = []string{"LD_PRELOAD=" + folders[1].path}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	folders[0].lock.Close() // as if its recorder were gone
	folders[1].close()      // a program goes on
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
	folders[2].close()
	if got := left([5]bool{4: true}); got != [5]bool{4: true} {
		t.Errorf("left when nobody uses them: %v", got)
	}
}

// A shim of another build is not loaded into programs, where it would record nothing: the recording does not begin.
func TestOtherBuild(t *testing.T) {
	shim := testenv.Built(t, "lib/libacltrace.so")
	b, err := os.ReadFile(shim)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("acltrace shim: ring "))
	if at < 0 {
		t.Fatal("the shim does not say what it was built for")
	}
	b[bytes.IndexByte(b[at:], 0)+at-1] ^= 1
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(shim)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLTRACE_LIB", dir)
	_, err = Run(t.Context(), &Options{Model: acl.Model, Output: filepath.Join(dir, "run.aclt"), Command: []string{"/bin/true"}})
	if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "another build") {
		t.Errorf("the error is %v", err)
	}
}
