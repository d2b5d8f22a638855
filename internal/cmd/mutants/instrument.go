package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// selected is the function that reports whether a mutant is selected, in each package. selectedFile is the Go file that declares it.
const (
	selected     = "selectedMutant"
	selectedFile = "selected_mutant.go"
)

// choice is the file from which a program reads the number of the selected mutant when it starts. Tests clear the environment of some programs.
// With the number baseline a program selects no mutant, and marks those that it reaches in the file choice+reached: a byte a number.
// The mark of a killed program stays, because the file is mapped.
var choice string

const (
	baseline = -1
	reached  = ".reached"
)

// selector is the text of selectedFile: the package's name, choice and the file with the marks.
const selector = `package %s

import (
	selectedOS "os"
	selectedStrconv "strconv"
	selectedSyscall "syscall"
)

var selectedNumber, selectedMarks = func() (n int, marks []byte) {
	b, _ := selectedOS.ReadFile(%q)
	if n, _ = selectedStrconv.Atoi(string(b)); n >= 0 {
		return n, nil
	}
	f, err := selectedOS.OpenFile(%q, selectedOS.O_RDWR, 0)
	if err != nil {
		return 0, nil
	}
	defer f.Close()
	if i, err := f.Stat(); err == nil {
		marks, _ = selectedSyscall.Mmap(int(f.Fd()), 0, int(i.Size()), selectedSyscall.PROT_READ|selectedSyscall.PROT_WRITE, selectedSyscall.MAP_SHARED)
	}
	return n, marks
}()

func selectedMutant(n int) bool { return n == selectedNumber || selectedNumber < 0 && selectedMark(n) }

//go:noinline
func selectedMark(n int) bool {
	if n < len(selectedMarks) {
		selectedMarks[n] = 1
	}
	return false
}
`

// instrument returns the changed files of a package, by path, with mutants by number. They don't overlap, and those of the form fixed have no number.
func instrument(set *token.FileSet, p *pkg, by map[int]*mutant) (map[string]string, error) {
	type numbered struct {
		n int
		*mutant
	}
	of, choices := map[string][]numbered{}, false
	for n, x := range by {
		of[x.file] = append(of[x.file], numbered{n, x})
		choices = choices || x.form != fixed
	}
	out := map[string]string{}
	for file, list := range of {
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(list, func(a, b numbered) int { return int(b.from - a.from) })
		for _, x := range list {
			from, to := set.Position(x.from).Offset, set.Position(x.to).Offset
			if to > len(src) || string(src[from:to]) != x.old {
				return nil, fmt.Errorf("%s changed while its mutants were tested", file)
			}
			text, err := x.text(x.n)
			if err != nil {
				return nil, err
			}
			src = slices.Concat(src[:from], []byte(text), src[to:])
		}
		out[file] = string(src)
	}
	if choices {
		out[filepath.Join(p.Dir, selectedFile)] = fmt.Sprintf(selector, p.Name, choice, choice+reached)
	}
	return out, nil
}

// text returns the code in the place of a mutant.
func (x *mutant) text(n int) (string, error) {
	is := selected + "(" + strconv.Itoa(n) + ")"
	switch x.form {
	case condition:
		return "(" + is + " && (" + x.new + ") || !" + is + " && (" + x.old + "))", nil
	case value:
		t, err := x.typeName()
		return "func() " + t + " { if " + is + " { return " + x.new + " }; return " + x.old + " }()", err
	case statement:
		return "if " + is + " { " + x.new + " } else { " + x.old + " }", nil
	}
	return x.new, nil
}

// typeName returns the type of an expression as its file writes it.
func (x *mutant) typeName() (string, error) {
	at := slices.IndexFunc(x.pkg.files, func(f *ast.File) bool { return f.FileStart <= x.from && x.from < f.FileEnd })
	t := x.pkg.info.Types[x.expr].Type
	if b, ok := t.(*types.Basic); t == nil || at < 0 || ok && b.Info()&types.IsUntyped != 0 { // an argument of a C function has no known type
		return "", errors.New("no type")
	}
	var unknown error
	name := types.TypeString(t, func(of *types.Package) string {
		if of.Path() == x.pkg.ImportPath {
			return ""
		}
		for _, i := range x.pkg.files[at].Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == of.Path() {
				if i.Name != nil {
					return i.Name.Name
				}
				return of.Name()
			}
		}
		unknown = fmt.Errorf("%s is not imported", of.Path())
		return ""
	})
	if bytes.Contains([]byte(name), []byte("invalid type")) {
		return "", errors.New("no type")
	}
	return name, unknown
}
