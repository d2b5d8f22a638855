// Package detect finds out which runtime a program uses, and where its library is installed.
//
// Commands call it before they start a program or attach to one. It reads files only: it loads no library, and it runs a
// program's loader only for a program that the user is about to start.
package detect

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/record/host"
)

// Runtime guesses which runtime a program will call, before it runs, and returns the reason. It takes the first rule that
// fits exactly one model:
//
//   - the program is linked to the runtime's library
//   - the program contains the library's name, as a program does that loads the library itself
//   - the program, or a library that it is linked to, contains code for the runtime's devices
//   - the machine has such a device
//   - the machine has the library
//
// Otherwise it returns the first model, without a reason. Without a program, only the last two rules apply.
func Runtime(models []*api.Model, program string, env []string) (m *api.Model, why string) {
	return guessRuntime(models, program, env, true)
}

// guessRuntime is Runtime. It runs the loader that the program names only if ours is set: for a program that this user is about to start.
func guessRuntime(models []*api.Model, program string, env []string, ours bool) (m *api.Model, why string) {
	if path, err := host.FindProgram(program); program != "" && err == nil {
		if path, err = host.ScriptProgram(path); err == nil {
			if m := linked(models, path); m != nil {
				return m, path + " is linked to it"
			}
			if m := only(models, holds(models, path, (*api.Model).Libraries)); m != nil {
				return m, path + " names its library"
			}
			if m, file := carried(models, path, ours); m != nil && file == path {
				return m, path + " has code for its devices"
			} else if m != nil {
				return m, fmt.Sprintf("%s, a library of %s, has code for its devices", file, path)
			}
		}
	}
	device := func(m *api.Model) bool {
		return slices.ContainsFunc(m.Installed.Devices, func(pattern string) bool { found, _ := filepath.Glob(pattern); return len(found) > 0 })
	}
	if m := only(models, device); m != nil {
		return m, "the machine has only devices of this runtime"
	}
	dirs, cache := libraryDirs(env), loaderCache()
	library := func(m *api.Model) bool {
		return slices.ContainsFunc(slices.Concat(dirs, m.Installed.Libraries), func(dir string) bool { return has(m, dir) }) ||
			slices.ContainsFunc(m.Libraries(), func(name string) bool { return bytes.Contains(cache, []byte("/"+name)) })
	}
	if m := only(models, library); m != nil {
		return m, "the machine has only the library of this runtime"
	}
	return models[0], ""
}

// Library returns the path of a runtime's library, the one that programs call, where the loader finds it on this machine.
func Library(m *api.Model, env []string) (string, error) {
	names := m.Layers[0].Libraries
	for _, name := range names {
		for _, file := range []string{name + ".1", name} {
			for _, dir := range slices.Concat(libraryDirs(env), m.Installed.Libraries, homes(m, env)) {
				if path := filepath.Join(dir, file); dir != "" && ofThisWidth(path) {
					return path, nil
				}
			}
			if path := cached(loaderCache(), file); path != "" {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed: the machine has no %s runtime, or LD_LIBRARY_PATH lacks its folder", names[0], m.Accelerator.Vendor)
}

// cached returns the path of a 64-bit library in the loader's cache, "" for none. The cache also lists the 32-bit library of that name.
func cached(cache []byte, file string) string {
	for {
		// The end belongs to the name, and another name may begin like it.
		before, after, ok := bytes.Cut(cache, []byte("/"+file+"\x00"))
		if !ok {
			return ""
		}
		path := string(before[bytes.LastIndexByte(before, 0)+1:]) + "/" + file
		if filepath.IsAbs(path) && ofThisWidth(path) {
			return path
		}
		cache = after
	}
}

// ofThisWidth reports whether a file may be a 64-bit library. Some machines have 32-bit libraries, too.
func ofThisWidth(path string) bool {
	f, err := elffile.Open(path)
	if err != nil {
		return host.Exists(path)
	}
	defer f.Close()
	return f.Class == elf.ELFCLASS64
}

// homes returns the library folders below the runtime's installation folders.
func homes(m *api.Model, env []string) []string {
	var dirs []string
	for _, name := range m.Installed.Homes {
		if home, _ := host.Lookup(env, name); home != "" {
			dirs = append(dirs, filepath.Join(home, "lib64"))
		}
	}
	return dirs
}

// OfProcesses guesses the runtime that running processes use: by the named library, by the libraries that pids map, by the
// program that process pid runs, or by the machine, in this order. library may be "" and pid may be 0.
func OfProcesses(models []*api.Model, library string, pid int, pids []int) *api.Model {
	if m := only(models, func(m *api.Model) bool { return m.Library(filepath.Base(library)) }); m != nil {
		return m
	}
	if m := only(models, func(m *api.Model) bool { return len(host.UsingRuntime(m, pids)) > 0 }); m != nil {
		return m
	}
	if pid != 0 {
		m, _ := guessRuntime(models, host.ProcFile(pid, "exe"), host.Environ(pid), false)
		return m
	}
	m, _ := Runtime(models, "", os.Environ())
	return m
}

// only returns the only model for which a condition holds, nil if there is none or several.
func only(models []*api.Model, holds func(*api.Model) bool) *api.Model {
	var one *api.Model
	for _, m := range models {
		switch {
		case !holds(m):
		case one != nil:
			return nil
		default:
			one = m
		}
	}
	return one
}

// loaderCache returns the loader's cache file, which lists libraries in the system's folders.
func loaderCache() []byte {
	b, _ := os.ReadFile("/etc/ld.so.cache")
	return b
}

func linked(models []*api.Model, path string) *api.Model {
	f, err := elffile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	libs := f.Strings(elf.DT_NEEDED)
	for _, m := range models {
		if slices.ContainsFunc(libs, m.Library) {
			return m
		}
	}
	return nil
}

// carried returns the only model for whose devices a program has code, or else, if ours is set, a library that it is linked to, and the file.
func carried(models []*api.Model, path string, ours bool) (m *api.Model, file string) {
	code := func(m *api.Model) []string { return m.Installed.Carried }
	if m := only(models, holds(models, path, code)); m != nil && !isAcltrace(path) {
		return m, path
	}
	if !ours {
		return nil, "" // the program chooses its loader, which would run with this user's rights
	}
	loader, err := host.Loader(path)
	if err != nil || loader == "" {
		return nil, ""
	}
	libs, _, err := host.LoadedLibraries(loader, path, nil)
	if err != nil {
		return nil, ""
	}
	for _, l := range libs {
		if m := only(models, holds(models, l.Path, code)); m != nil {
			return m, l.Path
		}
	}
	return nil, ""
}

// isAcltrace reports whether a program is an acltrace, of any version. It has the texts of all models and code for no device.
func isAcltrace(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := buildinfo.Read(f)
	return err == nil && strings.HasPrefix(info.Path, "github.com/acltrace/acltrace/")
}

// holds returns for which models a file contains one of the model's texts. It reads a limited part, which is enough for
// programs with a runtime linked into them.
func holds(models []*api.Model, path string, texts func(*api.Model) []string) func(*api.Model) bool {
	const most = 256 << 20
	found := map[*api.Model]bool{}
	f, err := regular.Open(path)
	if err != nil {
		return func(*api.Model) bool { return false }
	}
	defer f.Close()
	b, kept := make([]byte, 1<<20), 0
	for total := 0; total < most; {
		n, err := io.ReadFull(f, b[kept:])
		part := b[:kept+n]
		for _, m := range models {
			for _, text := range texts(m) {
				found[m] = found[m] || bytes.Contains(part, []byte(text))
			}
		}
		if err != nil {
			break
		}
		total += n
		kept = copy(b, part[len(part)-64:])
	}
	return func(m *api.Model) bool { return found[m] }
}

// MaxFolders is how many folders that an environment or a program names are searched for libraries.
const MaxFolders = 256

// libraryDirs are the folders where the loader looks for a library first.
func libraryDirs(env []string) []string {
	list, _ := host.Lookup(env, "LD_LIBRARY_PATH")
	dirs := filepath.SplitList(list)
	dirs = dirs[:min(len(dirs), MaxFolders)]
	more, _ := filepath.Glob("/usr/lib/*-linux-gnu")
	return slices.Concat(dirs, more, []string{"/usr/lib64", "/usr/lib", "/lib64"})
}

func has(m *api.Model, dir string) bool {
	if dir == "" {
		return false
	}
	for _, e := range regular.Names(dir) {
		if slices.ContainsFunc(m.Libraries(), func(l string) bool { return strings.HasPrefix(e, l) }) {
			return true
		}
	}
	return false
}
