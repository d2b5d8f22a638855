package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/record/host"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe"
)

// shimFolder is where the programs of a recording load the shim from. It is not the session's own folder, since it is
// needed for as long as a descendant starts programs, and by those that have other rights than the recorder.
type shimFolder struct {
	path string // of the shim
	lock *os.File
}

const shimPattern = "acltrace-shim-"

// installShim writes the shim where programs can map it: beside the session, or in a temporary folder where that file
// system is full or allows no code.
func installShim(session string, m *api.Model) (*shimFolder, error) {
	b, err := artifacts.Bytes(m.Shim)
	if err != nil {
		return nil, err
	}
	if err := probe.CheckShim(b, m); err != nil {
		return nil, err
	}
	var last error
	for _, parent := range []string{filepath.Dir(session), os.TempDir()} {
		sweep(parent)
		dir, err := os.MkdirTemp(parent, shimPattern)
		if err != nil {
			last = err
			continue
		}
		f := &shimFolder{path: filepath.Join(dir, artifacts.Shim)}
		if last = f.write(b); last == nil {
			return f, nil
		}
		os.RemoveAll(dir)
	}
	return nil, fmt.Errorf("no folder to load the shim from: %w", last)
}

func (f *shimFolder) write(shim []byte) error {
	if err := os.Chmod(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(f.path, shim, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(f.path, 0o755); err != nil { // whatever the umask is
		return err
	}
	if err := host.CheckMappable(f.path); err != nil {
		return err
	}
	var err error
	if f.lock, err = os.Open(filepath.Dir(f.path)); err != nil {
		return err
	}
	return syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX)
}

// close removes the shim, unless a program that outlives the recording may still start others: they would complain that
// it is gone. A later recording removes it then.
func (f *shimFolder) close() {
	if len(host.Mentioning(f.path)) == 0 {
		os.RemoveAll(filepath.Dir(f.path))
	}
	f.lock.Close()
}

// sweep removes the folders of sessions and shims that recorders have left, as one does that is killed, and that no
// program uses any more.
func sweep(parent string) {
	old, _ := filepath.Glob(filepath.Join(parent, "acltrace-*"))
	for _, dir := range old {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() || time.Since(st.ModTime()) < 10*time.Second {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Geteuid() {
			continue
		}
		if host.Exists(filepath.Join(dir, sharedMark)) || holdsCalls(dir) {
			continue // it waits for programs, or to be salvaged
		}
		if !host.Exists(filepath.Join(dir, artifacts.Shim)) && !host.Exists(filepath.Join(dir, "control")) {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		// Its recorder may be alive, and its program in another pid namespace.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && len(host.Mentioning(dir)) == 0 {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// outputName writes a trace's name: %h is the host, %r the rank of the program in its job (0 where nothing tells it),
// %p the id of the process, %% a percent sign. Other letters stay as they are.
func outputName(name string, env []string, pid int) string {
	if !strings.Contains(name, "%") {
		return name
	}
	host, _ := os.Hostname()
	return strings.NewReplacer("%%", "%", "%h", host, "%r", rank(env), "%p", strconv.Itoa(pid)).Replace(name)
}

// rank is what the usual launchers call the program's number in its job.
func rank(env []string) string {
	for _, name := range format.RankVariables {
		for _, v := range env {
			if n, ok := strings.CutPrefix(v, name+"="); ok {
				if _, err := strconv.ParseUint(n, 10, 32); err == nil {
					return n
				}
			}
		}
	}
	return "0"
}

// named moves the trace to its name once the program's id is known.
func (r *recorder) named(pid int) error {
	name := outputName(r.pattern, r.env, pid)
	if name == r.o.Output {
		return nil
	}
	if r.flight == nil {
		if err := r.out.rename(name, r.o.Overwrite); err != nil {
			return fmt.Errorf("name the trace: %w", err)
		}
	}
	r.o.Output = name
	return nil
}
