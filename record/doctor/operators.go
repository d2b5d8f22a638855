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
	marks, describes := map[string]bool{}, ""
	for i := range m.Funcs {
		switch f := &m.Funcs[i]; {
		case f.EntryMark():
			marks[f.Symbol()] = true
		case f.Describes() >= 0:
			describes = f.Symbol()
		}
	}
	var f *Finding
	for _, l := range libs {
		if filepath.IsAbs(l.Path) && m.OfMarks(l.Name) {
			has, wants, err := boundaries(l.Path, marks, describes)
			f = d.add(Operators, l.Path, err)
			if err == nil {
				f.marked(len(has), len(marks), wants)
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
		if n, err := imports(l.Path, marks); err == nil && (n > 0 || needs(l.Path, m)) {
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

// boundaries returns the marks that a library exports, and whether it imports the function that describes tasks.
func boundaries(path string, marks map[string]bool, describes string) (has []string, wants bool, err error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	symbols, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range symbols {
		switch name := string(s.Name); {
		case s.Defined() && marks[name]:
			has = append(has, name)
		case !s.Defined() && name == describes:
			wants = true
		}
	}
	slices.Sort(has)
	return slices.Compact(has), wants, nil
}

// imports returns how many marks a library has without a definition.
func imports(path string, marks map[string]bool) (n int, err error) {
	f, err := elffile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	symbols, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range symbols {
		if !s.Defined() && marks[string(s.Name)] {
			n++
		}
	}
	return n, nil
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
