package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is a package, in the form in which `go list -json` describes it.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, CgoFiles                  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	mutants                            []*mutant
	importers                          []string // packages with tests, which import it
	helper                             bool     // only tests import it
}

// module is the packages of a folder.
type module struct {
	dir  string
	all  []*pkg // by path
	path map[string]*pkg
}

func (p *pkg) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// load reads the packages and lists their mutants.
func load(ctx context.Context, dir string) (*module, error) {
	list := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	m := &module{dir: dir, path: map[string]*pkg{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &pkg{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		m.all, m.path[p.ImportPath] = append(m.all, p), p
	}
	slices.SortFunc(m.all, func(a, b *pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	for _, p := range m.all {
		for _, i := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Imports, p.TestImports, p.XTestImports)))) {
			if of := m.path[i]; of != nil && of != p && p.tested() {
				of.importers = append(of.importers, p.ImportPath)
			}
		}
	}
	m.helpers()
	for _, p := range m.all {
		if p.helper {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			more, err := mutants(p, file, src)
			if err != nil {
				return nil, err
			}
			p.mutants = append(p.mutants, more...)
		}
	}
	return m, nil
}

// helpers marks the packages that only tests import, directly or through each other.
func (m *module) helpers() {
	for more := true; more; {
		more = false
		used, tests := map[string]bool{}, map[string]bool{}
		for _, p := range m.all {
			for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
				tests[i] = tests[i] || i != p.ImportPath
			}
			for _, i := range p.Imports {
				used[i], tests[i] = used[i] || !p.helper, tests[i] || p.helper
			}
		}
		for _, p := range m.all {
			if !p.helper && tests[p.ImportPath] && !used[p.ImportPath] {
				p.helper, more = true, true
			}
		}
	}
}

// draw returns mutants from all matching packages in turn, none twice.
func (m *module) draw(seed uint64, match *regexp.Regexp) iter.Seq[*mutant] {
	return func(yield func(*mutant) bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		var rooms [][]*mutant
		for _, p := range m.all {
			if match.MatchString(p.ImportPath) && len(p.mutants) > 0 {
				room := slices.Clone(p.mutants)
				r.Shuffle(len(room), func(i, k int) { room[i], room[k] = room[k], room[i] })
				rooms = append(rooms, room)
			}
		}
		r.Shuffle(len(rooms), func(i, k int) { rooms[i], rooms[k] = rooms[k], rooms[i] })
		for len(rooms) > 0 {
			for i := range rooms {
				if !yield(rooms[i][0]) {
					return
				}
				rooms[i] = rooms[i][1:]
			}
			rooms = slices.DeleteFunc(rooms, func(room []*mutant) bool { return len(room) == 0 })
		}
	}
}
