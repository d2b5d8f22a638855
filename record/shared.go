package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/session"
)

// A shared session lies in a folder that programs and a collector both reach, as containers of a pod do by a volume in
// memory. Install makes it, with the shim beside it; programs that have Environment in theirs write into it, whether a
// collector is there or not; Collect drains it, as often and as late as it likes. The folder belongs to the job:
// nothing here removes it.

// SharedOptions say who reaches a shared session.
type SharedOptions struct {
	AnyUser bool // its files may be read and written by everybody, else by the user and the group of the folder
	Audit   bool // the audit library is there too
	// Flags are those of a recording, which whoever collects may take over: see StoredFlags.
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
)

// StoredFlags are those that the session in a folder was made with.
func StoredFlags(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, flagsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var flags map[string]string
	if err == nil {
		err = json.Unmarshal(b, &flags)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, flagsFile), err)
	}
	return flags, nil
}

// Install makes a shared session in a folder, or brings the shim of one that is there up to date. The shim's files
// stay: they outlive whoever starts with them.
func Install(dir string, o *Options, share *SharedOptions) error {
	r := recorder{o: *o}
	r.o.defaults()
	if err := r.o.check(); err != nil {
		return err
	}
	mode := share.mode()
	dirMode := mode | mode>>2&0o111 | os.ModeSetgid // whoever may read may enter
	if err := os.MkdirAll(filepath.Join(dir, shimSubdir), 0o755); err != nil {
		return err
	}
	if share.AnyUser {
		dirMode |= os.ModeSticky
	}
	// A volume belongs to somebody else, and has its group and mode from the cluster.
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
	if err := host.CheckMappable(filepath.Join(dir, shimSubdir, artifacts.Shim)); err != nil {
		return fmt.Errorf("programs can't load the shim from there: %w", err)
	}
	variables := strings.Join(append(append([]string{}, o.Model.Environment...), format.RankVariables...), "\n")
	for name, content := range map[string]string{"variables": variables, "symbols": o.Model.Simulator.Symbol, session.SharedMark: o.Version} {
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

// replaceFile puts a file in the place of another at once: programs may have that mapped.
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

// Variable is one of the environment. It goes before what the variable has where it is a list.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	List  bool   `json:"list,omitempty"`
}

// Environment is what a program must have set to write into the shared session in a folder.
func Environment(dir string, o *Options) ([]Variable, error) {
	vs := []Variable{{"LD_PRELOAD", filepath.Join(dir, shimSubdir, artifacts.Shim), true}, {Name: "ACLTRACE_SESSION", Value: dir}}
	if o.Capture.Bind == "audit" {
		vs = append(vs, Variable{"LD_AUDIT", filepath.Join(dir, shimSubdir, artifacts.Audit), true})
	}
	if o.Sim {
		sim, err := artifacts.SimulatorDir(o.Model)
		if err != nil {
			return nil, err
		}
		vs = append(vs, Variable{"LD_LIBRARY_PATH", sim, true})
	}
	return vs, nil
}
