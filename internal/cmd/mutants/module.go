package main

import (
	"bytes"
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
	ImportPath, Dir, Name              string
	GoFiles, CgoFiles                  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	mutants                            []*mutant
	importers                          []string // packages with tests, which import it
	product                            bool     // a program of the product consists of it
	inEngine                           bool     // the simulator's engine consists of it
}

// The simulator's engine is a C library. C programs run it in tests.
const (
	engine     = "sim/libascendcl/engine"
	engineFile = "libaclsim.so"
)

var engineTests = []string{"sim/libascendcl/test", "sim/conformance"}

// module is the packages of a folder.
type module struct {
	dir   string
	name  string // prefix of the packages' paths
	all   []*pkg // by path
	path  map[string]*pkg
	stale []string // entries of the list of equivalent mutants that are none
}

func (p *pkg) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// load reads the packages and lists their mutants.
func load(ctx context.Context, dir string) (*module, error) {
	list := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Module", "./...")
	list.Dir, list.Stderr, list.Env = dir, os.Stderr, append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	m := &module{dir: dir, path: map[string]*pkg{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := struct {
			pkg
			Module struct{ Path string }
		}{}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		m.name = p.Module.Path + "/"
		m.all, m.path[p.ImportPath] = append(m.all, &p.pkg), &p.pkg
	}
	slices.SortFunc(m.all, func(a, b *pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	for _, p := range m.all {
		for _, i := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Imports, p.TestImports, p.XTestImports)))) {
			if of := m.path[i]; of != nil && of != p && p.tested() {
				of.importers = append(of.importers, p.ImportPath)
			}
		}
	}
	for _, p := range m.all {
		if p.Name == "main" && !strings.Contains(p.ImportPath, "/internal/") {
			m.needs(p, func(p *pkg) bool { old := p.product; p.product = true; return !old })
		}
	}
	if p := m.path[m.name+engine]; p != nil {
		m.needs(p, func(p *pkg) bool { old := p.inEngine; p.inEngine = true; return !old })
	}
	if err := m.mutate(); err != nil {
		return nil, err
	}
	return m, m.readEquivalent()
}

// needs visits a package and those that it imports, until visit returns false.
func (m *module) needs(p *pkg, visit func(*pkg) bool) {
	if !visit(p) {
		return
	}
	for _, i := range p.Imports {
		if of := m.path[i]; of != nil {
			m.needs(of, visit)
		}
	}
}

// mutate lists the mutants of the product's packages.
func (m *module) mutate() error {
	for _, p := range m.all {
		if !p.product {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			more, err := mutants(p, file, src)
			if err != nil {
				return err
			}
			p.mutants = append(p.mutants, more...)
		}
	}
	return nil
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
