package doctor

import (
	"debug/elf"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/record/host"
)

// operators examines the libraries of operators that a program would load: which boundaries of operators exist, who calls them so that the shim sees
// it, and whether operators describe their tasks.
func (d *Diagnosis) operators(m *api.Model, loader, program string) {
	if len(m.Operators) == 0 {
		return
	}
	libs, _, err := host.LoadedLibraries(loader, program, m.Operators)
	if err != nil {
		return // the finding about the program says why
	}
	marks, describes := map[string]bool{}, map[string]bool{}
	for i := range m.Funcs {
		switch f := &m.Funcs[i]; {
		case f.EntryMark():
			marks[f.Symbol()] = true
		case f.Describes() >= 0:
			describes[f.Symbol()] = true
		}
	}
	var f *Finding
	for _, l := range libs {
		if filepath.IsAbs(l.Path) && m.OfMarks(l.Name) {
			has, _, err := symbols(l.Path, marks)
			if f = d.add(Operators, l.Path, err); err == nil {
				_, wants, _ := symbols(l.Path, describes)
				f.marked(has, len(marks), wants > 0)
			}
			break
		}
	}
	if f == nil || f.Err != nil {
		return
	}
	callers := map[int][]string{} // by the number of marks that they import
	for _, l := range libs {
		if !filepath.IsAbs(l.Path) || m.OfMarks(l.Name) || !m.OfOperators(l.Name) {
			continue
		}
		if _, n, err := symbols(l.Path, marks); err == nil && (n > 0 || needs(l.Path, m)) {
			callers[n] = append(callers[n], l.Name)
		}
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(callers))) {
		names := strings.Join(callers[n], ", ")
		switch n {
		default:
			f.note(Fact, "%d of them are called through imports of %s", n, names)
		case 1:
			f.note(Fact, "1 of them is called through imports of %s", names)
		case 0:
			f.note(Fact, "%s: no imports of them, so that the shim does not see these operators, and eBPF does", names)
		}
	}
}

// marked adds what a library with boundaries has.
func (f *Finding) marked(has, all int, describes bool) {
	switch has {
	case all:
		f.note(Fact, "it exports all %s of operators that are recorded", human.Plural(all, "boundary"))
	case 0:
		f.note(Fact, "it exports no boundary of operators, as in CANN 8.3 and older: operators have no names")
	default:
		f.note(Fact, "it exports %d of the %d boundaries of operators that are recorded", has, all)
	}
	if describes {
		f.note(Fact, "it describes tasks: their shapes can be recorded")
	} else {
		f.note(Fact, "it imports no function to describe tasks: shapes can be recorded only if it looks that up")
	}
}

// symbols returns how many of some functions a library exports, and how many it imports.
func symbols(path string, names map[string]bool) (exports, imports int, err error) {
	f, err := elffile.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	all, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	defined, undefined := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if name := string(s.Name); names[name] && s.Defined() {
			defined[name] = true
		} else if names[name] {
			undefined[name] = true
		}
	}
	return len(defined), len(undefined), nil
}

// needs reports whether a library is linked to one with boundaries.
func needs(path string, m *api.Model) bool {
	f, err := elffile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return slices.ContainsFunc(f.Strings(elf.DT_NEEDED), func(name string) bool { return m.OfMarks(strings.TrimSpace(name)) })
}
