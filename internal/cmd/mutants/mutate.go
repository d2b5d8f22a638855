package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
)

// A mutant is a change in one place.
type mutant struct {
	pkg      *pkg
	file     string // path
	line     int
	from, to int    // bytes that it replaces
	was, is  string // text before and after
	code     string // the line

	equivalent string // reason why the change means the same, "" if nobody has found one
}

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

// apply returns the changed content of the file.
func (x *mutant) apply() ([]byte, error) {
	src, err := os.ReadFile(x.file)
	if err != nil {
		return nil, err
	}
	if x.to > len(src) || string(src[x.from:x.to]) != x.was {
		return nil, fmt.Errorf("%s changed while its mutants were tested", x.file)
	}
	return bytes.Join([][]byte{src[:x.from], []byte(x.is), src[x.to:]}, nil), nil
}

var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<",
}

var names = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

// mutants lists the mutants of a file. Some may not compile.
func mutants(p *pkg, file string, src []byte) ([]*mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	lines := bytes.Split(src, []byte("\n"))
	var out []*mutant
	put := func(from, to token.Pos, is string) {
		a, b := set.Position(from), set.Position(to)
		out = append(out, &mutant{pkg: p, file: file, line: a.Line, from: a.Offset, to: b.Offset, was: string(src[a.Offset:b.Offset]), is: is,
			code: string(bytes.Join(bytes.Fields(lines[a.Line-1]), []byte(" ")))})
	}
	text := func(n ast.Node) string { return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) }
	same := unnoticed{}
	ast.Inspect(tree, func(n ast.Node) bool {
		same.look(n)
		if n == nil || same[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if is, ok := operators[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
				put(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), is)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				put(n.OpPos, n.X.Pos(), " ")
			}
		case *ast.IfStmt:
			if !panics(n.Body) {
				put(n.Cond.Pos(), n.Cond.End(), "false && ("+text(n.Cond)+")")
			}
			put(n.Cond.Pos(), n.Cond.End(), "true || ("+text(n.Cond)+")")
		case *ast.ExprStmt:
			put(n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				put(n.Pos(), n.End(), "")
			}
		case *ast.IncDecStmt:
			put(n.TokPos, n.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok])
		case *ast.BasicLit:
			if n.Kind == token.INT {
				put(n.Pos(), n.End(), "("+n.Value+" + 1)")
			}
		case *ast.BranchStmt:
			if is, ok := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]; ok && n.Label == nil {
				put(n.Pos(), n.End(), is)
			}
		case *ast.Ident:
			if is, ok := names[n.Name]; ok {
				put(n.Pos(), n.End(), is)
			}
		}
		return true
	})
	return out, nil
}

// unnoticed is the parts of a file without mutants, because a change of them means the same or is not to be seen by a test:
// capacities, which are hints; the number of units in a time, because no test measures time; statements that only keep the compiler,
// the garbage collector or the scheduler content; panics, which no input reaches.
type unnoticed map[ast.Node]bool

// look marks such parts below a node.
func (u unnoticed) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch name := called(n); {
		case name == "make" && len(n.Args) == 3, name == "slices.Grow" && len(n.Args) == 2:
			u[n.Args[len(n.Args)-1]] = true
		case name == "make" && len(n.Args) == 2:
			if _, ok := n.Args[0].(*ast.MapType); ok {
				u[n.Args[1]] = true
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.MUL && isUnit(n.Y) {
			u[n.X] = true
		}
	case *ast.ExprStmt:
		if c, ok := n.X.(*ast.CallExpr); ok {
			switch name := called(c); name {
			case "panic", "runtime.KeepAlive", "runtime.Gosched":
				u[n] = true
			}
		}
	case *ast.AssignStmt:
		blank := n.Tok == token.ASSIGN
		for _, to := range n.Lhs {
			name, ok := to.(*ast.Ident)
			blank = blank && ok && name.Name == "_"
		}
		if blank {
			for _, of := range n.Rhs {
				_, isCall := of.(*ast.CallExpr)
				blank = blank && !isCall
			}
		}
		if blank {
			u[n] = true
		}
	}
}

// called returns the name of the function that an expression calls, "" for other functions.
func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// isUnit reports whether an expression is a unit of time, such as time.Second.
func isUnit(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "time"
}

// panics reports whether a block only panics.
func panics(b *ast.BlockStmt) bool {
	if len(b.List) != 1 {
		return false
	}
	e, ok := b.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := e.X.(*ast.CallExpr)
	return ok && called(c) == "panic"
}

// isText reports whether an expression is a string literal: + is the only operator for strings.
func isText(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}
