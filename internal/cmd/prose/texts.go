package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// speaking are the folders with messages to users.
var speaking = []string{"cmd/acltrace", "record", "replay", "report"}

var verb = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)

// help adds the commands' help, from the man pages.
func (s *survey) help() error {
	text, err := exec.Command("go", "run", "./cmd/acltrace", "docs", "--man").Output()
	if err != nil {
		return err
	}
	var lines []string
	for _, l := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(l, "**") || strings.HasPrefix(l, "%") {
			l = "" // usage and titles
		}
		lines = append(lines, strings.TrimPrefix(l, ":   "))
	}
	for _, p := range paragraphs("help/acltrace.1", []byte(strings.Join(lines, "\n")), false) {
		s.add(p)
	}
	return nil
}

// messages adds the strings in a folder's Go code that have at least three words.
func (s *survey) messages(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"), strings.Contains(path, "_gen"):
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(l.Value)
			if err != nil {
				return true
			}
			if text = verb.ReplaceAllString(text, "X"); len(strings.Fields(text)) >= 3 {
				s.add(paragraph{path, set.Position(l.Pos()).Line, strings.Join(strings.Fields(text), " ")})
			}
			return true
		})
		return nil
	})
}
