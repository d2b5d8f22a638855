package main

import "testing"

func TestLinesWithoutComments(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"a.go", "// Package a.\npackage a\n\n/* no\ncode */\nvar s = `one\n// two\nthree`\nvar x, y = 1, 2 // both\n", 5},
		{"a.c", "/* a\n * b */ int x;\n\n// c\nint y; /* d\ne */\n/* f */\nint z; // /* g\nint u;\n", 4},
		{"a.sh", "#!/bin/sh\n# why\n\ntrue # yes\n", 1},
	} {
		if got := linesOf(c.name)([]byte(c.text)); got != c.want {
			t.Errorf("%s: %d lines, want %d", c.name, got, c.want)
		}
	}
	for _, name := range []string{"a/b_test.go", "a/testdata/b.c", "internal/testenv/b.go", "README.md"} {
		if linesOf(name) != nil {
			t.Errorf("%s is counted", name)
		}
	}
	if !generated("api/acl/acl_gen.go") || generated("api/kinds.go") {
		t.Error("generated files")
	}
}
