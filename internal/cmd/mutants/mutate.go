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
}

func (x *mutant) String() string {
	short := func(s string) string {
		const most = 60
		s = string(bytes.Join(bytes.Fields([]byte(s)), []byte(" ")))
		if r := []rune(s); len(r) > most {
			s = string(r[:most]) + "…"
		}
		return s
	}
	name := filepath.Base(x.file)
	if x.is == "" {
		return fmt.Sprintf("%s/%s:%d: without %s", x.pkg.ImportPath, name, x.line, short(x.was))
	}
	return fmt.Sprintf("%s/%s:%d: %s for %s", x.pkg.ImportPath, name, x.line, short(x.is), short(x.was))
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
	var out []*mutant
	put := func(from, to token.Pos, is string) {
		a, b := set.Position(from), set.Position(to)
		out = append(out, &mutant{p, file, a.Line, a.Offset, b.Offset, string(src[a.Offset:b.Offset]), is})
	}
	text := func(n ast.Node) string { return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) }
	ast.Inspect(tree, func(n ast.Node) bool {
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
			put(n.Cond.Pos(), n.Cond.End(), "false && ("+text(n.Cond)+")")
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

// isText reports whether an expression is a string literal: + is the only operator for strings.
func isText(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}
