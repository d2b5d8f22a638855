package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/rogpeppe/go-internal/txtar"
)

const (
	// Headers is a txtar archive of a toolkit's headers that only builds need. Each run compares all files of a toolkit with the program's.
	Headers = "headers.txtar"
	// stamp is a root's last file. It has the version of the acltrace that made the root.
	stamp = "acltrace-root"
)

// Toolkit returns the folder that programs on a runtime's simulator take for the vendor's toolkit, "" if there is none. Its folder
// with libraries is a link to the folder of the simulator.
func Toolkit(m *api.Model) (string, error) {
	dir, err := SimulatorDir(m)
	if err != nil || m.Simulator.Toolkit.Folder == "" {
		return "", err
	}
	if dir = filepath.Join(dir, m.Simulator.Toolkit.Folder); !exists(dir) {
		return "", nil
	}
	return dir, nil
}

// IsToolkit reports whether a folder is a toolkit that acltrace sets for programs, of any version. It is no root.
func IsToolkit(dir string) bool { return exists(filepath.Join(dir, Headers)) }

// InstallSimulator writes a runtime's simulator and its toolkit into a folder. replace writes a file that programs may have mapped.
func InstallSimulator(m *api.Model, dir string, replace func(path string, b []byte, mode fs.FileMode) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := copyLibraries(m, dir, replace); err != nil {
		return err
	}
	if from, err := Toolkit(m); from == "" || err != nil {
		return err
	} else if err := copyTree(from, filepath.Join(dir, m.Simulator.Toolkit.Folder), replace); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

func copyLibraries(m *api.Model, to string, replace func(string, []byte, fs.FileMode) error) error {
	path, err := Simulator(m)
	if err != nil {
		return err
	}
	for _, name := range append([]string{filepath.Base(path)}, m.Simulator.Files...) {
		if err := copyFile(filepath.Join(filepath.Dir(path), name), filepath.Join(to, name), 0o755, replace); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file or a link.
func copyFile(from, to string, mode fs.FileMode, replace func(string, []byte, fs.FileMode) error) error {
	if link, err := os.Readlink(from); err == nil {
		if err := os.Symlink(link, to); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return replace(to, b, mode)
}

func copyTree(from, to string, replace func(string, []byte, fs.FileMode) error) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return errors.Join(os.MkdirAll(at, 0o755), os.Chmod(at, 0o755)) // also with a strict umask
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return copyFile(path, at, st.Mode().Perm(), replace)
	})
}

// Lay makes a folder that build systems, loaders and programs take for the vendor's toolkit. It replaces a root of any version, also
// an incomplete one, and refuses a folder with other files.
func Lay(m *api.Model, dir, version string) error {
	from, err := Toolkit(m)
	if err != nil {
		return err
	}
	if from == "" {
		return fmt.Errorf("the folder %s is not beside %s: run `make build`", m.Simulator.Toolkit.Folder, m.Simulator.Library)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := removeInterrupted(from, dir); err != nil {
		return err
	}
	created := !exists(dir)
	f, err := atomicfile.Remake(dir, stamp)
	if errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("%s has files of others: name a new or an empty folder", dir)
	}
	if err != nil {
		return err
	}
	if err := fill(m, from, dir, f.Name(), version); err != nil {
		return errors.Join(err, f.Drop())
	}
	if err := f.Keep(stamp); err != nil {
		return err
	}
	if created {
		return os.Chmod(dir, 0o755)
	}
	return nil
}

// fill writes a root with the name dir into the folder part.
func fill(m *api.Model, from, dir, part, version string) error {
	t := &m.Simulator.Toolkit
	if err := copyTree(from, part, os.WriteFile); err != nil {
		return err
	}
	lib := filepath.Join(part, t.Libraries)
	if err := errors.Join(os.Remove(lib), os.Mkdir(lib, 0o755)); err != nil {
		return err
	}
	if err := errors.Join(copyLibraries(m, lib, os.WriteFile), linkStubs(m, lib)); err != nil {
		return err
	}
	headers, err := txtar.ParseFile(filepath.Join(part, Headers))
	if err != nil {
		return err
	}
	for _, h := range headers.Files {
		path := filepath.Join(part, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, h.Data, 0o644)); err != nil {
			return err
		}
	}
	script := filepath.Join(part, t.Script)
	b, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	b = []byte(strings.ReplaceAll(string(b), "@ROOT@", shell.Quote(dir)))
	return errors.Join(os.Remove(filepath.Join(part, Headers)), os.WriteFile(script, b, 0o644), os.WriteFile(filepath.Join(part, stamp), []byte(version+"\n"), 0o644))
}

// linkStubs makes the folder with libraries to which builds link programs. Those of a vendor's toolkit are empty, so it is in no library path.
func linkStubs(m *api.Model, lib string) error {
	stub := filepath.Join(lib, "stub")
	err := os.Mkdir(stub, 0o755)
	for _, name := range append([]string{m.Simulator.Library}, m.Simulator.Files...) {
		err = errors.Join(err, os.Symlink("../"+name, filepath.Join(stub, name)))
	}
	return err
}

// removeInterrupted removes what an interrupted Lay has left in dir: a folder without a stamp that has nothing but parts of a root.
func removeInterrupted(from, dir string) error {
	have, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !exists(filepath.Join(dir, atomicfile.PartFolder)) {
		return nil
	}
	if err != nil {
		return err
	}
	parts, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range have {
		same := func(p fs.DirEntry) bool { return p.Name() == e.Name() }
		if e.Name() == stamp || e.Name() != atomicfile.PartFolder && !slices.ContainsFunc(parts, same) {
			return nil
		}
	}
	for _, e := range have {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// RootVersion returns the version of the acltrace that laid out a root, "" if the folder is not one.
func RootVersion(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, stamp))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
