// Package artifacts finds the C parts that acltrace needs at run time: shims, their audit library, the player and the
// simulators' libraries.
//
// `make build` and `make cross` use the tag `embedded`: then the program contains all parts except the simulators, so that one
// file can be copied to another machine. Other parts, and all parts in a build without the tag, are in the folder lib beside
// the program's own, or in ACLTRACE_LIB. Recorder and replay call this package. It loads no part.
package artifacts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
)

// Names of the parts.
const (
	Shim   = "libacltrace.so" // name under which programs load the shim of any runtime
	Audit  = "libacltrace-audit.so"
	Player = "acltrace-player"
)

// Bytes returns the content of a part that may be embedded.
func Bytes(name string) ([]byte, error) {
	if os.Getenv("ACLTRACE_LIB") == "" {
		if b, err := embedded.ReadFile("files/" + runtime.GOARCH + "/" + name); err == nil {
			return b, nil
		}
	}
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Path returns the absolute path of a part that is a file.
func Path(name string) (string, error) {
	for _, dir := range dirs() {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s: run `make build`, or set ACLTRACE_LIB to the folder that has it", name, list(dirs()))
}

// SimulatorDir returns the folder with a runtime's simulator.
func SimulatorDir(m *api.Model) (string, error) {
	path, err := Path(m.Simulator.Library)
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// Simulates reports whether a library is a runtime's simulator. It checks for the simulator's symbol.
func Simulates(m *api.Model, path string) bool {
	f, err := elffile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Exports(m.Simulator.Symbol)
}

func dirs() []string {
	if d := os.Getenv("ACLTRACE_LIB"); d != "" {
		if abs, err := filepath.Abs(d); err == nil {
			d = abs
		}
		return []string{d}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return []string{filepath.Join(filepath.Dir(exe), "..", "lib"), filepath.Dir(exe)}
}

func list(dirs []string) string {
	if len(dirs) == 0 {
		return "any known folder"
	}
	s := filepath.Clean(dirs[0])
	for _, d := range dirs[1:] {
		s += " or " + filepath.Clean(d)
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
