package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/session"
)

// SharedOptions are the parameters of a shared session. A shared session is a folder that programs and a collector can both
// access, such as a memory volume of a pod. Install creates it together with the shim. Programs with the variables of
// Environment write to it, with or without a collector. Collect drains it at any time. The folder belongs to the job and is
// never removed here.
type SharedOptions struct {
	AnyUser bool // any user may read and write the files; default the user and the group of the folder
	Audit   bool // install the audit library, too
	// Flags are stored for the collector: see StoredFlags.
	Flags map[string]string
}

func (o *SharedOptions) mode() os.FileMode {
	if o != nil && o.AnyUser {
		return 0o666
	}
	return 0o660
}

const (
	flagsFile  = "flags.json"
	shimSubdir = "shim"
	simSubdir  = "sim" // of a session whose programs run on the simulator
)

// StoredFlags returns the flags that Install has stored in a folder, nil if there are none.
func StoredFlags(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, flagsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err // names the file
	}
	var flags map[string]string
	if err := json.Unmarshal(b, &flags); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, flagsFile), err)
	}
	return flags, nil
}

// Install creates a shared session in a folder. In an existing session it replaces the shim's files, whose old content stays
// valid for the programs that map them.
func Install(dir string, o *Options, share *SharedOptions) error {
	r := recorder{o: *o}
	r.o.defaults()
	if err := r.o.check(); err != nil {
		return err
	}
	if err := private.Links(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made := os.Mkdir(dir, 0o755) == nil
	err := r.install(dir, share)
	if err != nil && made {
		err = errors.Join(err, os.RemoveAll(dir))
	} else if err != nil {
		_ = os.Remove(filepath.Join(dir, shimSubdir)) // only if it is empty: another collector may have made it
	}
	return err
}

func (r *recorder) install(dir string, share *SharedOptions) error {
	o, mode := &r.o, share.mode()
	dirMode := mode | mode>>2&0o111 | os.ModeSetgid // readers may enter
	if err := os.MkdirAll(filepath.Join(dir, shimSubdir), 0o755); err != nil {
		return err
	}
	if share.AnyUser {
		dirMode |= os.ModeSticky
	}
	// A volume may belong to another user, with the group and mode that the cluster has set.
	if err := os.Chmod(dir, dirMode); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	parts := map[string]string{artifacts.Shim: o.Model.Shim}
	if share.Audit {
		parts[artifacts.Audit] = artifacts.Audit
	}
	for name, part := range parts {
		b, err := artifacts.Bytes(part)
		if err == nil && name == artifacts.Shim {
			err = ring.CheckShim(b, o.Model)
		}
		if err != nil {
			return err
		}
		if err := replaceFile(filepath.Join(dir, shimSubdir, name), b, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, shimSubdir), 0o755); err != nil {
		return err
	}
	if o.Sim {
		if err := artifacts.InstallSimulator(o.Model, filepath.Join(dir, simSubdir), replaceFile); err != nil {
			return err
		}
	}
	if err := private.Mappable(filepath.Join(dir, shimSubdir, artifacts.Shim)); err != nil {
		return fmt.Errorf("programs can't load the shim from there: %w", err)
	}
	for name, content := range map[string]string{variablesFile: variables(o.Model), "symbols": o.Model.Simulator.Symbol, session.SharedMark: o.Version} {
		if err := replaceFile(filepath.Join(dir, name), []byte(content), mode&^0o022|0o600); err != nil {
			return err
		}
	}
	if share.Flags != nil {
		b, err := json.Marshal(share.Flags)
		if err = errors.Join(err, replaceFile(filepath.Join(dir, flagsFile), b, mode)); err != nil {
			return err
		}
	}
	so := r.ringOptions()
	so.Mode = mode
	err := ring.Prepare(o.Model, dir, so)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return err
}

// replaceFile replaces a file atomically, since programs may map the old one.
func replaceFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Variable is an environment variable of a recorded program.
type Variable = inject.Variable

// Environment returns the variables that a program needs to write to the shared session in a folder.
func Environment(dir string, o *Options) []Variable {
	vs := []Variable{{Name: "LD_PRELOAD", Value: filepath.Join(dir, shimSubdir, artifacts.Shim), List: true}, {Name: "ACLTRACE_SESSION", Value: dir}}
	if o.Capture.Bind == "audit" {
		vs = append(vs, Variable{Name: "LD_AUDIT", Value: filepath.Join(dir, shimSubdir, artifacts.Audit), List: true})
	}
	if o.Sim {
		vs = append(vs, inject.SimulatorVariables(o.Model, filepath.Join(dir, simSubdir))...)
	}
	return vs
}
