package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
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
	ImportMap                          map[string]string
	Module                             *struct {
		Path string
		Main bool
	}

	mutants   []*mutant
	importers []string // packages with tests, which import it
	product   bool     // a program of the product consists of it
	inEngine  bool     // the simulator's engine consists of it
	runs      bool     // its tests run acltrace as a built program
	slow      bool     // its tests run programs

	files []*ast.File
	types *types.Package
	info  *types.Info // of the module's packages that have mutants
}

// The simulator's engine is a C library. C programs run it in tests, and some tests run it in virtual time, as scripts/test.sh has it.
const (
	engine     = "sim/libascendcl/engine"
	engineFile = "libaclsim.so"
)

var engineTests = []string{"sim/acl -virtual", "sim/libascendcl/test", "sim/conformance"}

// program is acltrace, which tests also run as a built program.
const program = "cmd/acltrace"

// module is the packages of a folder.
type module struct {
	dir     string
	name    string // prefix of the packages' paths
	all     []*pkg // by path
	path    map[string]*pkg
	needs   map[string]*pkg // packages of other modules
	running []string        // packages with tests that run acltrace
	stale   []string        // entries of the list of equivalent mutants that are none
	set     *token.FileSet
}

func (p *pkg) withC() bool { return len(p.CgoFiles) > 0 }

func (p *pkg) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// sources returns the paths of the files without tests.
func (p *pkg) sources() (out []string) {
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		out = append(out, filepath.Join(p.Dir, name))
	}
	return out
}

// look finds out whether the tests of a package run programs: they name the functions that build or find them.
func (p *pkg) look() error {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		b, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		p.runs = p.runs || bytes.Contains(b, []byte(`"bin/`+filepath.Base(program)+`"`))
		p.slow = p.slow || runsPrograms.Match(b)
	}
	return nil
}

var runsPrograms = regexp.MustCompile(`testenv\.(Built|Example|CompileC|FakeCUDA)\(`)

// load reads the packages and lists their mutants.
func load(ctx context.Context, dir string) (*module, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,ImportMap,Module",
		"./...", "os", "strconv", "syscall") // the last three for selectedFile
	list.Dir, list.Stderr, list.Env = dir, os.Stderr, append(os.Environ(), cgo...)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	m := &module{dir: dir, path: map[string]*pkg{}, needs: map[string]*pkg{}, set: token.NewFileSet()}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		if p.Module == nil || !p.Module.Main {
			m.needs[p.ImportPath] = p
			continue
		}
		m.name = p.Module.Path + "/"
		m.all, m.path[p.ImportPath] = append(m.all, p), p
	}
	slices.SortFunc(m.all, func(a, b *pkg) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	for _, p := range m.all {
		for _, i := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Imports, p.TestImports, p.XTestImports)))) {
			if of := m.path[i]; of != nil && of != p && p.tested() {
				of.importers = append(of.importers, p.ImportPath)
			}
		}
		if err := p.look(); err != nil {
			return nil, err
		} else if p.runs {
			m.running = append(m.running, p.ImportPath)
		}
		if p.Name == "main" && !strings.Contains(p.ImportPath, "/internal/") {
			m.consists(p, func(p *pkg) *bool { return &p.product })
		}
	}
	if p := m.path[m.name+engine]; p != nil {
		m.consists(p, func(p *pkg) *bool { return &p.inEngine })
	}
	if err := m.mutate(); err != nil {
		return nil, err
	}
	return m, m.readEquivalent()
}

// room returns the folder of the module that has a package.
func (m *module) room(p *pkg) string {
	room, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, m.name), "/")
	return room
}

// consists marks a package and those that it needs.
func (m *module) consists(p *pkg, mark func(*pkg) *bool) {
	if p == nil || *mark(p) {
		return
	}
	*mark(p) = true
	for _, i := range p.Imports {
		m.consists(m.path[i], mark)
	}
}

// mutate lists the mutants of the product's packages.
func (m *module) mutate() error {
	for _, p := range m.all {
		if !p.product {
			continue
		}
		for _, file := range p.sources() {
			src, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			tree, err := parser.ParseFile(m.set, file, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			p.files = append(p.files, tree)
			p.mutants = append(p.mutants, mutants(p, file, src, m.set, tree)...)
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

// choose draws mutants that compile and don't overlap. It leaves out and counts those that mean the same.
func (m *module) choose(seed uint64, n int, match *regexp.Regexp) (all []*mutant, equivalent int, err error) {
	for x := range m.draw(seed, match) {
		if len(all) == n {
			break
		}
		if slices.ContainsFunc(all, func(a *mutant) bool { return a.from < x.to && x.from < a.to }) {
			continue
		}
		if ok, err := m.compiles(x); err != nil {
			return nil, 0, err
		} else if !ok {
			continue
		}
		if x.equivalent != "" {
			equivalent++
			continue
		}
		all = append(all, x)
	}
	return all, equivalent, nil
}
