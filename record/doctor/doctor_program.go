package doctor

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/record/host"
)

// program examines how a program would be recorded, without running it.
func (d *Diagnosis) program(m *api.Model, command []string) {
	name := command[0]
	path, err := host.FindProgram(name)
	if err == nil {
		err = host.CheckExecutable(path)
	}
	f := d.add(Program, name, err)
	if err != nil {
		if names := functionsInside(m, path); len(names) > 0 {
			f.Notes = append(f.Notes, Note{OnlyAsLibrary, fmt.Sprintf("%d runtime functions are linked into it", len(names)), path})
		}
		return
	}
	fail := func(format string, args ...any) { f.OK, f.Err = false, fmt.Errorf(format, args...) }
	program, err := runs(path)
	switch {
	case err != nil:
		fail("%s is a script, and its interpreter is missing: %v", path, err)
		return
	case program != path:
		name = "a script for " + program + ", "
	case path != name:
		name = path + ", "
	default:
		name = ""
	}
	if why := host.GainsRights(program); why != "" {
		fail("%s %s: it can't be recorded", program, why)
		return
	}
	loader, err := host.Loader(program)
	if err != nil {
		fail("%v", err)
		return
	}
	musl := strings.Contains(filepath.Base(loader), "musl")
	linked, out, err := host.LoadedLibraries(loader, program, nil)
	if err != nil {
		fail("the loader can't start %s: %s", program, out)
		return
	}
	libs := runtimeOf(m, linked)
	found := libs
	if len(libs) > 0 {
		f.note(Fact, "%slinked to the runtime", name)
	} else {
		f.note(Fact, "%snot linked to the runtime: libraries that it loads and programs that it starts are recorded", name)
		if found = loadable(m, loader, program); len(found) == 0 && !musl {
			f.note(NoRuntime, "The loader finds no runtime library")
		}
	}
	if musl {
		f.note(Fact, "It runs on musl: functions that it looks up with dlsym are not recorded")
	}
	if n := len(functionsInside(m, program)); n > 0 {
		f.OK = false
		f.Notes = append(f.Notes, Note{LinkedIn, fmt.Sprintf("%d runtime functions are linked into it, and their calls are not recorded", n), program})
	}
	shim, err := shimExports(m)
	if err != nil {
		return // said already
	}
	for _, o := range found {
		if !filepath.IsAbs(o.Path) {
			f := d.add(Library, o.Name, nil)
			f.OK = false
			f.note(NoRuntime, "not found by the loader")
			continue
		}
		l, err := library(m, o.Path, shim)
		if err != nil {
			d.add(Library, o.Name, err)
			continue
		}
		if slices.ContainsFunc(d.Libraries, func(other LibraryFinding) bool { return sameFile(other.Path, l.Path) }) {
			continue
		}
		l.Linked = len(libs) > 0
		d.Libraries = append(d.Libraries, *l)
		word := ""
		if !l.Linked {
			word = "if the program loads it: "
		}
		d.add(Library, o.Path, nil, fmt.Sprintf("%s%s of %s functions are recorded, %s counted by name, %s not seen", word, human.Count(l.Hooked), human.Count(l.Exported), human.Count(len(l.Counted)), human.Count(len(l.PassedBy))))
	}
	d.operators(m, loader, program)
}

// runs returns the program that the kernel starts for a file: the file itself, or a script's interpreter.
func runs(path string) (string, error) {
	line, err := host.InterpreterLine(path)
	if err != nil || len(line) == 0 {
		return path, err
	}
	program, err := host.ScriptProgram(path)
	if err != nil {
		return "", err
	}
	// env looks for the program that the line goes on with.
	if args := line[1:]; program == line[0] && filepath.Base(program) == "env" {
		for _, a := range args {
			if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
				found, err := host.FindProgram(a)
				if err != nil {
					return "", err
				}
				return runs(found)
			}
		}
	}
	return program, nil
}

func runtimeOf(m *api.Model, libs []host.FoundLibrary) []host.FoundLibrary {
	return slices.DeleteFunc(libs, func(l host.FoundLibrary) bool { return m.LayerOf(l.Name) == nil })
}

// loadable returns the runtime libraries that dlopen would find in a program by name.
func loadable(m *api.Model, loader, program string) []host.FoundLibrary {
	var names []string
	for _, l := range m.Layers {
		if !l.Marks {
			names = append(names, l.Libraries...)
		}
	}
	libs, _, err := host.LoadedLibraries(loader, program, names)
	if err != nil {
		return nil
	}
	return runtimeOf(m, libs)
}

// functionsInside returns the runtime functions that are linked into a program.
func functionsInside(m *api.Model, path string) []string {
	names := map[string]bool{}
	for i := range m.Funcs {
		names[m.Funcs[i].Name] = true
	}
	return host.DefinedFunctions(path, names)
}

func sameFile(a, b string) bool {
	x, ok := host.FileOf(a)
	y, ok2 := host.FileOf(b)
	return ok && ok2 && x == y
}

// maxNames limits the total length of a library's function names in bytes.
const maxNames = 256 << 20

// exported returns the functions that an ELF file exports.
func exported(r io.ReaderAt) (names []string, err error) {
	f, err := elffile.New(r)
	if err != nil {
		return nil, err
	}
	syms, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, s := range syms {
		bind, kind := elf.ST_BIND(s.Info), s.Kind()
		if s.Defined() && (kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC) && (bind == elf.STB_GLOBAL || bind == elf.STB_WEAK) {
			if total += len(s.Name); total > maxNames {
				return nil, errors.New("damaged ELF file: the names of its functions are longer than the file")
			}
			names = append(names, string(s.Name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func shimExports(m *api.Model) (map[string]bool, error) {
	b, err := artifacts.Bytes(m.Shim)
	if err != nil {
		return nil, err
	}
	names, err := exported(bytes.NewReader(b))
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set, err
}

func library(m *api.Model, path string, shim map[string]bool) (*LibraryFinding, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	names, err := exported(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := &LibraryFinding{Path: path, Exported: len(names), Counted: []string{}, PassedBy: []string{}}
	for _, n := range names {
		f := m.Lookup(n)
		switch {
		case !shim[n]:
			l.PassedBy = append(l.PassedBy, n)
		case f != nil && f.Modelled:
			l.Hooked++
		default:
			l.Counted = append(l.Counted, n)
		}
	}
	return l, nil
}
