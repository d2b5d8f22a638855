package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
)

// A mutant is a change in one place.
type mutant struct {
	pkg      *pkg
	file     string // path
	line     int
	from, to token.Pos // the expression or the statement that it replaces
	old, new string    // its text before and after
	was, is  string    // the part that differs, in reports
	form     form
	expr     ast.Expr // of the form value
	code     string   // the line

	equivalent string // reason why the change means the same, "" if nobody has found one
}

// A form is a way to select a mutant while the program runs.
type form int

const (
	condition form = iota // a bool
	value                 // an expression of another type
	statement             // a statement in a list
	fixed                 // none: the mutant is a program of its own
)

func (x *mutant) String() string {
	return fmt.Sprintf("%s/%s:%d: %s", x.pkg.ImportPath, filepath.Base(x.file), x.line, x.change())
}

// change describes the change in the line.
func (x *mutant) change() string {
	short := func(s string) string {
		const most = 60
		s = string(bytes.Join(bytes.Fields([]byte(s)), []byte(" ")))
		if r := []rune(s); len(r) > most {
			s = string(r[:most]) + "…"
		}
		return s
	}
	if x.is == "" {
		return "without " + short(x.was)
	}
	return short(x.is) + " for " + short(x.was)
}

var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<",
}

var names = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

// A lister lists the mutants of a file.
type lister struct {
	pkg    *pkg
	file   string
	src    []byte
	set    *token.FileSet
	lines  [][]byte
	same   unnoticed
	listed map[ast.Node]bool // statements in lists
	consts map[ast.Node]bool // parts of constant declarations, and of types
	out    []*mutant
}

// mutants lists the mutants of a file. Some may not compile.
func mutants(p *pkg, file string, src []byte, set *token.FileSet, tree *ast.File) []*mutant {
	if ast.IsGenerated(tree) {
		return nil
	}
	l := &lister{p, file, src, set, bytes.Split(src, []byte("\n")), unnoticed{}, map[ast.Node]bool{}, map[ast.Node]bool{}, nil}
	ast.Inspect(tree, func(n ast.Node) bool {
		l.same.look(n)
		if _, imports := n.(*ast.ImportSpec); n == nil || l.same[n] || imports {
			return false
		}
		l.look(n)
		l.mutate(n)
		return true
	})
	return l.out
}

// look finds the statements and the constants below a node.
func (l *lister) look(n ast.Node) {
	list := func(of []ast.Stmt) {
		for _, s := range of {
			l.listed[s] = true
		}
	}
	constant := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if n != nil {
				l.consts[n] = true
			}
			return true
		})
	}
	switch n := n.(type) {
	case *ast.BlockStmt:
		list(n.List)
	case *ast.CaseClause:
		list(n.Body)
	case *ast.CommClause:
		list(n.Body)
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			constant(n)
		}
	case *ast.ArrayType:
		if n.Len != nil {
			constant(n.Len)
		}
	case *ast.CompositeLit: // keys of arrays are constants
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				constant(kv.Key)
			}
		}
	}
}

// mutate lists the mutants of a node without those of its parts.
func (l *lister) mutate(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		is, ok := operators[n.Op]
		if !ok || isText(n.X) || isText(n.Y) {
			return
		}
		x := l.put(n, n.Op.String(), is, l.text(n.Pos(), n.OpPos)+is+l.text(n.OpPos+token.Pos(len(n.Op.String())), n.End()), value)
		switch n.Op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
			if x.form == value {
				x.form = condition
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			l.put(n, "!", " ", l.text(n.X.Pos(), n.End()), condition)
		}
	case *ast.IfStmt:
		if l.same[n.Cond] {
			return
		}
		cond := l.text(n.Cond.Pos(), n.Cond.End())
		for _, is := range []string{"false && (" + cond + ")", "true || (" + cond + ")"} {
			if is[0] == 't' || !panics(n.Body) {
				l.put(n.Cond, cond, is, is, condition)
			}
		}
	case *ast.ExprStmt:
		l.put(n, l.text(n.Pos(), n.End()), "", "", statement)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			l.put(n, l.text(n.Pos(), n.End()), "", "", statement)
		}
	case *ast.IncDecStmt:
		is := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
		l.put(n, n.Tok.String(), is, l.text(n.Pos(), n.TokPos)+is, statement)
	case *ast.BasicLit:
		if n.Kind == token.INT {
			is := "(" + n.Value + " + 1)"
			l.put(n, n.Value, is, is, value)
		}
	case *ast.BranchStmt:
		if is, ok := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]; ok && n.Label == nil {
			l.put(n, n.Tok.String(), is, is, statement)
		}
	case *ast.Ident:
		if is := names[n.Name]; n.Name == "true" || n.Name == "false" {
			l.put(n, n.Name, is, is, condition)
		}
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.Ident)
		if ok && (f.Name == "min" || f.Name == "max") {
			l.put(n, f.Name, names[f.Name], names[f.Name]+l.text(f.End(), n.End()), value)
		}
	}
}

func (l *lister) text(from, to token.Pos) string {
	return string(l.src[l.set.Position(from).Offset:l.set.Position(to).Offset])
}

func (l *lister) put(n ast.Node, was, is, new string, f form) *mutant {
	x := &mutant{pkg: l.pkg, file: l.file, from: n.Pos(), to: n.End(), old: l.text(n.Pos(), n.End()), new: new, was: was, is: is, form: f}
	at := n.Pos()
	if b, ok := n.(*ast.BinaryExpr); ok {
		at = b.OpPos
	}
	x.line = l.set.Position(at).Line
	x.code = string(bytes.Join(bytes.Fields(l.lines[x.line-1]), []byte(" ")))
	types := !slices.Contains(l.pkg.CgoFiles, filepath.Base(l.file)) // those of C are not known
	if l.consts[n] || f == statement && !l.listed[n] || f != statement && !types {
		x.form = fixed
	}
	if e, ok := n.(ast.Expr); ok {
		x.expr = e
	}
	l.out = append(l.out, x)
	return x
}

// isText reports whether an expression is a string literal: + is the only operator for strings.
func isText(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}
