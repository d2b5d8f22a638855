// Package artifacts finds the C parts that acltrace needs at run time: shims, their audit library, the player, the simulators'
// libraries, and the program and the kernels of the demo.
//
// `make build` and `make cross` use the tag `embedded`: then the program contains all of them, and one file can be copied to another
// machine. Files that programs load by name are unpacked once into a cache of this user, with the layout of a checkout. In a build
// without the tag all parts are in the folder lib beside the program's own, or in ACLTRACE_LIB, and bin/examples beside that.
// Recorder, replay and demo call this package. It loads no part.
package artifacts

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/elffile"
)

// Names of the parts.
const (
	Shim   = "libacltrace.so" // name under which programs load the shim of any runtime
	Audit  = "libacltrace-audit.so"
	Decoy  = "libacltrace-decoy.so" // empty: programs look for its name
	Player = "acltrace-player"
)

// folder has the embedded parts.
const folder = "files/" + runtime.GOARCH + "/"

// Bytes returns the content of a part that every recording or replay writes into a folder of its own.
func Bytes(name string) ([]byte, error) {
	if os.Getenv("ACLTRACE_LIB") == "" {
		if b, err := embedded.ReadFile(folder + name); err == nil {
			return b, nil
		}
	}
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Install writes a part into a folder, as a program to be started, and returns its path. It replaces an older file.
func Install(name, dir string) (string, error) {
	b, err := Bytes(name)
	if err != nil {
		return "", err
	}
	// A process that is forked meanwhile would keep the file open for writing, and the program could not start: ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	path := filepath.Join(dir, name)
	f, err := atomicfile.Fresh(path)
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	return path, errors.Join(err, f.Chmod(0o700), f.Close())
}

// Simulator returns the absolute path of a runtime's simulator.
func Simulator(m *api.Model) (string, error) { return find(m.Simulator.Library) }

// SimulatorDir returns the folder with a runtime's simulator.
func SimulatorDir(m *api.Model) (string, error) {
	path, err := Simulator(m)
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// Example returns the absolute path of a file of the examples.
func Example(name string) (string, error) { return find(filepath.Join("..", "bin", "examples", name)) }

// Simulates reports whether a library is a runtime's simulator. It checks for the simulator's symbol.
func Simulates(m *api.Model, path string) bool {
	f, err := elffile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Exports(m.Simulator.Symbol)
}

// find returns the absolute path of a part that is a file. Its name is relative to the folder of libraries.
func find(name string) (string, error) {
	dirs, err := dirs()
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s: run `make build`, or set ACLTRACE_LIB to the folder that has it", name, cmp.Or(strings.Join(dirs, " or "), "any known folder"))
}

// dirs returns the folders that may have the libraries.
func dirs() ([]string, error) {
	if d := os.Getenv("ACLTRACE_LIB"); d != "" {
		if abs, err := filepath.Abs(d); err == nil {
			d = abs
		}
		return []string{d}, nil
	}
	if dir, err := unpacked(); dir != "" || err != nil {
		return []string{filepath.Join(dir, "lib")}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, nil
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return []string{filepath.Join(filepath.Dir(exe), "..", "lib"), filepath.Dir(exe)}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
