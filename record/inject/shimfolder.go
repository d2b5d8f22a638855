// Package inject prepares the environment that loads the shim into a program: the folder of the shim, LD_PRELOAD and
// LD_AUDIT, the simulator's variables, and the notes that nested recordings leave.
//
// record and doctor call it. It starts no program that is recorded, and it reads no calls.
package inject

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/session"
)

// ShimFolder is the folder from which programs load the shim. It is not the session's own folder, since descendants need it
// as long as they start programs, and programs with other rights than the recorder need it, too.
type ShimFolder struct {
	Path string // of the shim
	lock *os.File
}

const shimPattern = "acltrace-shim-"

// InstallShim writes the shim where programs can map it: beside the session, or in a temporary folder where that file
// system is full or allows no code.
func InstallShim(dir string, m *api.Model) (*ShimFolder, error) {
	b, err := artifacts.Bytes(m.Shim)
	if err != nil {
		return nil, err
	}
	if err := ring.CheckShim(b, m); err != nil {
		return nil, err
	}
	var last error
	for _, parent := range []string{filepath.Dir(dir), os.TempDir()} {
		sweep(parent)
		dir, err := os.MkdirTemp(parent, shimPattern)
		if err != nil {
			last = err
			continue
		}
		f := &ShimFolder{Path: filepath.Join(dir, artifacts.Shim)}
		if last = f.write(b); last == nil {
			return f, nil
		}
		os.RemoveAll(dir)
	}
	return nil, fmt.Errorf("no folder allows loading the shim: %w", last)
}

func (f *ShimFolder) write(shim []byte) error {
	if err := os.Chmod(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := writeCode(f.Path, shim); err != nil {
		return err
	}
	if err := private.Mappable(f.Path); err != nil {
		return err
	}
	var err error
	if f.lock, err = os.Open(filepath.Dir(f.Path)); err != nil {
		return err
	}
	return syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX)
}

// writeCode writes a library that programs of all users may load.
func writeCode(path string, b []byte) error {
	return errors.Join(os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755)) // independent of the umask
}

// Decoy writes an empty library with the name of another one beside the shim, and returns its path.
func (f *ShimFolder) Decoy(name string) (path string, err error) {
	b, err := artifacts.Bytes(artifacts.Decoy)
	if err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(f.Path), name)
	return path, writeCode(path, b)
}

// Close removes the shim, unless a program that outlives the recording may still start others: they would complain that
// it is gone. A later recording removes it then.
func (f *ShimFolder) Close() {
	if len(host.Mentioning(f.Path)) == 0 {
		os.RemoveAll(filepath.Dir(f.Path))
	}
	f.lock.Close()
}

// sweep removes session and shim folders that killed recorders have left and that no program uses.
func sweep(parent string) {
	old, _ := filepath.Glob(filepath.Join(parent, "acltrace-*"))
	for _, dir := range old {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() || time.Since(st.ModTime()) < 10*time.Second || !private.Owns(st) {
			continue
		}
		if host.Exists(filepath.Join(dir, session.SharedMark)) || session.HoldsCalls(dir) {
			continue // it waits for programs, or to be salvaged
		}
		if !host.Exists(filepath.Join(dir, artifacts.Shim)) && !session.IsSession(dir) {
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
