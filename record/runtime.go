package record

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// Runtime returns the model, of some, of the runtime that a program will call, as far as can be told before it runs: the one that it is
// linked to; else the one that it names, as a program does that loads the library itself; else the only one whose library is on the
// machine. Where nothing tells, it is the first.
func Runtime(models []*api.Model, program string, env []string) *api.Model {
	if path, err := find(program); err == nil {
		if path, err = behindScript(path); err == nil {
			if m := linked(models, path); m != nil {
				return m
			}
			if m := named(models, path); m != nil {
				return m
			}
		}
	}
	var there []*api.Model
	for _, m := range models {
		if slices.ContainsFunc(libraryDirs(env), func(dir string) bool { return has(m, dir) }) {
			there = append(there, m)
		}
	}
	if len(there) == 1 {
		return there[0]
	}
	return models[0]
}

func linked(models []*api.Model, path string) *api.Model {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	libs, _ := f.ImportedLibraries()
	for _, m := range models {
		if slices.ContainsFunc(libs, m.Library) {
			return m
		}
	}
	return nil
}

// named returns the only model whose library a program's file has the name of. Files are looked at up to a size that programs with a
// runtime linked into them have.
func named(models []*api.Model, path string) *api.Model {
	const most = 256 << 20
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	found := map[*api.Model]bool{}
	b, kept := make([]byte, 1<<20), 0
	for total := 0; total < most; {
		n, err := io.ReadFull(f, b[kept:])
		part := b[:kept+n]
		for _, m := range models {
			for _, l := range m.Libraries() {
				found[m] = found[m] || bytes.Contains(part, []byte(l))
			}
		}
		if err != nil {
			break
		}
		total += n
		kept = copy(b, part[len(part)-64:])
	}
	var only *api.Model
	for _, m := range models {
		switch {
		case !found[m]:
		case only != nil:
			return nil
		default:
			only = m
		}
	}
	return only
}

// libraryDirs are the folders where the loader looks for a library first.
func libraryDirs(env []string) []string {
	var dirs []string
	for _, v := range env {
		if list, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok {
			dirs = filepath.SplitList(list)
		}
	}
	more, _ := filepath.Glob("/usr/lib/*-linux-gnu")
	return slices.Concat(dirs, more, []string{"/usr/lib64", "/usr/lib", "/lib64", "/usr/local/cuda/compat"})
}

func has(m *api.Model, dir string) bool {
	if dir == "" {
		return false
	}
	for _, l := range m.Libraries() {
		if found, _ := filepath.Glob(filepath.Join(dir, l+"*")); len(found) > 0 {
			return true
		}
	}
	return false
}
