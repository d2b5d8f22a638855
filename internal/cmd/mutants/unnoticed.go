package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// unnoticed has the parts of a file without mutants. A change of them means the same, or no test can see it:
//   - capacities, which are hints
//   - zeros that are returned with an error or with false
//   - permissions 0 of files that are opened and not made
//   - lengths of time, because no test measures time
//   - statements for the compiler, the garbage collector or the scheduler alone
//   - panics, which no input reaches
//   - conditions with which only a broken build of the simulator breaks a rule, and the code of that build: the conformance tests prove them
type unnoticed map[ast.Node]bool

// look marks such parts below a node.
func (u unnoticed) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch name := called(n); {
		case name == "make" && len(n.Args) == 3, name == "slices.Grow" && len(n.Args) == 2:
			u[n.Args[len(n.Args)-1]] = true
		case name == "os.OpenFile" && len(n.Args) == 3, name == "unix.Open" && len(n.Args) == 3:
			if mode, ok := n.Args[2].(*ast.BasicLit); ok && mode.Value == "0" {
				u[mode] = true
			}
		case name == "make" && len(n.Args) == 2:
			if _, ok := n.Args[0].(*ast.MapType); ok {
				u[n.Args[1]] = true
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.MUL && isUnit(n.Y) {
			u[n] = true
		}
	case *ast.ExprStmt:
		if c, ok := n.X.(*ast.CallExpr); ok {
			switch name := called(c); name {
			case "panic", "runtime.KeepAlive", "runtime.Gosched":
				u[n] = true
			}
		}
	case *ast.IfStmt:
		if not, ok := n.Cond.(*ast.UnaryExpr); ok && breaks(not.X) {
			u[n.Cond] = true
		} else if breaks(n.Cond) {
			u[n.Cond], u[n.Body] = true, true
		}
	case *ast.CaseClause:
		if len(n.List) == 1 && breaks(n.List[0]) {
			u[n.List[0]] = true
			for _, s := range n.Body {
				u[s] = true
			}
		}
	case *ast.ReturnStmt:
		if len(n.Results) > 1 && fails(n.Results[len(n.Results)-1]) {
			for _, e := range n.Results[:len(n.Results)-1] {
				switch e := e.(type) {
				case *ast.BasicLit:
					u[e] = e.Value == "0"
				case *ast.Ident:
					u[e] = e.Name == "false"
				}
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

// fails reports whether a last result is an error or false, so that callers don't read the others.
func fails(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasPrefix(e.Name, "err") || e.Name == "false"
	case *ast.CallExpr:
		switch called(e) {
		case "fmt.Errorf", "errors.New", "errors.Join", "status.Failed", "t.fail", "t.failWith", "t.invalid", "t.null": // the last are the simulator's
			return true
		}
	}
	return false
}

// breaks reports whether a condition is true only in a broken build.
func breaks(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return called(e) == "mutant.Breaks"
	case *ast.BinaryExpr:
		return e.Op == token.LAND && (breaks(e.X) || breaks(e.Y))
	}
	return false
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
