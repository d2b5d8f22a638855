package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"runtime"
	"slices"
)

// importer gives the type checker the packages that a package imports.
type importer struct {
	m  *module
	of *pkg
}

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if to, ok := i.of.ImportMap[path]; ok {
		path = to
	}
	p := i.m.path[path]
	if p == nil {
		p = i.m.needs[path]
	}
	if p == nil {
		return nil, fmt.Errorf("import %s: no such package", path)
	}
	return p.types, i.m.check(p)
}

// check finds the types of a package.
func (m *module) check(p *pkg) error {
	if p.types != nil {
		return nil
	}
	if p.files == nil {
		for _, file := range p.sources() {
			tree, err := parser.ParseFile(m.set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			p.files = append(p.files, tree)
		}
	}
	if len(p.mutants) > 0 {
		p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	}
	var first error
	p.types, first = m.checkFiles(p, p.files, p.info)
	if m.path[p.ImportPath] == nil {
		return nil // the type checker knows less than the compiler about runtime and its like
	}
	return first
}

// checkFiles checks the types in files of a package, and returns the first error.
func (m *module) checkFiles(p *pkg, files []*ast.File, info *types.Info) (*types.Package, error) {
	c := types.Config{Importer: importer{m, p}, FakeImportC: true, IgnoreFuncBodies: m.path[p.ImportPath] == nil, Sizes: types.SizesFor("gc", runtime.GOARCH),
		Error: func(error) {}}
	return c.Check(p.ImportPath, m.set, files, info)
}

// compiles reports whether a mutant compiles, and decides on its form.
func (m *module) compiles(x *mutant) (bool, error) {
	if err := m.check(x.pkg); err != nil {
		return false, err
	}
	try := func() bool {
		files, err := instrument(m.set, x.pkg, map[int]*mutant{1: x})
		if err != nil {
			return false
		}
		trees := slices.Clone(x.pkg.files)
		for file, text := range files {
			tree, err := parser.ParseFile(m.set, file, text, parser.SkipObjectResolution)
			if err != nil {
				return false
			}
			at := slices.IndexFunc(trees, func(t *ast.File) bool { return m.set.Position(t.Package).Filename == file })
			if at < 0 {
				trees = append(trees, tree)
			} else {
				trees[at] = tree
			}
		}
		_, err = m.checkFiles(x.pkg, trees, nil)
		return err == nil
	}
	if try() {
		return true, nil
	}
	if x.form == fixed {
		return false, nil
	}
	x.form = fixed
	return try(), nil
}
