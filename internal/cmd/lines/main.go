// Lines prints the product lines of each folder: lines of Go, C and shell with code. Tests, blank lines and comments are not counted. Generated
// files have their own column, since code can move there.
//
// `make lint` prints them, so that a change shows where it adds. The command reads the files that git knows, and stops nobody.
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// count is the lines of a folder.
type count struct{ written, generated int }

func main() {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "list files:", err)
		os.Exit(1)
	}
	rooms, all := map[string]count{}, count{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		lines := linesOf(name)
		if lines == nil {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, and not yet committed
		}
		room, _, _ := strings.Cut(name, "/")
		c, n := rooms[room], lines(b)
		if generated(name) {
			c.generated, all.generated = c.generated+n, all.generated+n
		} else {
			c.written, all.written = c.written+n, all.written+n
		}
		rooms[room] = c
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "product lines\twritten\tgenerated\tsum\t")
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", room, rooms[room].written, rooms[room].generated, rooms[room].written+rooms[room].generated)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t\n", all.written, all.generated, all.written+all.generated)
	w.Flush()
}

// linesOf returns the function that counts the lines of a product file, nil for other files.
func linesOf(name string) func([]byte) int {
	base := path.Base(name)
	if strings.Contains("/"+name, "/testdata/") || strings.Contains(path.Dir(name), "test") || strings.HasSuffix(base, "_test.go") {
		return nil
	}
	switch path.Ext(base) {
	case ".go":
		return goLines
	case ".c", ".h", ".cpp":
		return cLines
	case ".sh", ".yaml", ".tsv":
		return hashLines
	}
	return nil
}

// generated reports whether `make generate` writes a file.
func generated(name string) bool {
	return strings.Contains(name, "_gen.") || strings.Contains(name, "_bpfel.") || strings.Contains(name, "/include/") && strings.HasPrefix(name, "api/")
}

// goLines counts the lines with a token.
func goLines(b []byte) int {
	var s scanner.Scanner
	f := token.NewFileSet().AddFile("", -1, len(b))
	s.Init(f, b, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		from := f.Line(pos)
		to := from + strings.Count(text, "\n")
		n += to - max(from-1, last)
		last = max(last, to)
	}
}

// cLines counts the lines with something besides comments.
func cLines(b []byte) int {
	n := 0
	inside := false // a comment
	for line := range bytes.Lines(b) {
		rest, code := string(line), false
		for rest != "" {
			if inside {
				_, after, ends := strings.Cut(rest, "*/")
				if rest = after; ends {
					inside = false
				}
				continue
			}
			i := strings.Index(rest, "/*")
			before := rest
			if i >= 0 {
				before = rest[:i]
			}
			before, _, ends := strings.Cut(before, "//")
			code = code || strings.TrimSpace(before) != ""
			if i < 0 || ends {
				break
			}
			rest, inside = rest[i+2:], true
		}
		if code {
			n++
		}
	}
	return n
}

// hashLines counts the lines that are not empty and do not begin with a hash.
func hashLines(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		if s := bytes.TrimSpace(line); len(s) > 0 && s[0] != '#' {
			n++
		}
	}
	return n
}
