// Package artifacts finds the C parts that acltrace needs at run time: the shim, its audit library, the player and the
// simulator's libraries. All but the last are inside the program where it was built with the tag `embedded`, as `make
// build` does, and `make cross` for aarch64, so that one file can be copied to another machine. Everything else, and
// everything in a build without the tag, lies in the folder lib beside the program's own, or where ACLTRACE_LIB says.
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
	Shim   = "libacltrace.so" // as programs load it, whichever runtime's it is
	Audit  = "libacltrace-audit.so"
	Player = "acltrace-player"
)

// Bytes returns the content of a part that is not the simulator's.
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

// Path returns the absolute path of a part that lies in a folder.
func Path(name string) (string, error) {
	for _, dir := range dirs() {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s: run `make build`, or set ACLTRACE_LIB to the folder that has it", name, list(dirs()))
}

// SimulatorDir returns the folder with the libraries of a runtime's simulator.
func SimulatorDir(m *api.Model) (string, error) {
	path, err := Path(m.Simulator.Library)
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// Simulates reports whether a library is a runtime's simulator, which says so by a symbol.
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
