package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// languages are the compiler commands, by file extension.
var languages = map[string][]string{"c": {"cc", "-std=c11"}, "cc": {"c++", "-std=c++11"}}

// compile compiles a program as C and as C++.
func compile(t *testing.T, source string) {
	t.Helper()
	for ext, command := range languages {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Skip("no C compiler")
		}
		path := filepath.Join(t.TempDir(), "program."+ext)
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		args := append(command[1:], "-Wall", "-Wextra", "-Werror", "-I../../../api/acl/include", "-fsyntax-only", path)
		if out, err := exec.Command(command[0], args...).CombinedOutput(); err != nil {
			t.Errorf("%s %v: %v\n%s", command[0], args, err, out)
		}
	}
}

// pointerTo declares a pointer to a field.
func pointerTo(ctype string) string {
	if item, n, ok := strings.Cut(ctype, "["); ok {
		if n == "]" {
			return item + " *p" // to the first element
		}
		return item + " (*p)[" + n
	}
	return ctype + " *p"
}

// use writes functions that use each structure field by its documented type: through a pointer, by storing and reading a
// value, and by the members of nested structures.
func (m *model) use(w *writer) {
	fields := 0
	for i := range m.structs {
		s := &m.structs[i]
		w.f("static int use_%s(%s *s)\n{\n\tint set = 0;", s.name, s.name)
		for _, f := range s.fields {
			fields++
			w.f("\tstatic_assert(offsetof(%s, %s) == %d, \"%s.%s\");", s.name, f.name, f.offset, s.name, f.name)
			switch {
			case f.ctype == "union":
				continue
			case strings.HasSuffix(f.ctype, "[]"):
				w.f("\t{ %s = s->%s; set += p != NULL; }", pointerTo(f.ctype), f.name)
				continue
			case strings.Contains(f.ctype, "["):
				w.f("\t{ %s = &s->%s; set += p != NULL; s->%s[0] = s->%s[1]; }", pointerTo(f.ctype), f.name, f.name, f.name)
			default:
				w.f("\t{ %s = &s->%s; %s v = *p; s->%s = v; set += p != NULL; }", pointerTo(f.ctype), f.name, f.ctype, f.name)
			}
			if f.size > 0 {
				w.f("\tstatic_assert(sizeof s->%s == %d, \"%s.%s\");", f.name, f.size, s.name, f.name)
			}
			item, _, array := strings.Cut(f.ctype, "[")
			if inner := m.structByName(item); inner != nil {
				at := ""
				if array {
					at = "[0]"
				}
				for _, g := range inner.fields {
					w.f("\tset += sizeof s->%s%s.%s > 0;", f.name, at, g.name)
				}
			}
		}
		w.f("\treturn set;\n}\n")
	}
	w.f("/* %d fields */", fields)
}

// Structures had integers in place of nested structures, pointers and enumerations, so programs for the vendor's headers did
// not compile.
func TestEveryFieldHasItsType(t *testing.T) {
	acl := loaded(t).upper
	further, err := acl.furtherHeaders()
	if err != nil {
		t.Fatal(err)
	}
	structs := 0
	for _, m := range append(further.further, acl) {
		for _, s := range m.structs {
			for _, f := range s.fields {
				if f.ctype == "" {
					t.Errorf("%s: %s.%s has no type", m.Name, s.name, f.name)
				}
			}
		}
		structs += len(m.structs)
		var w writer
		w.f("#include \"%s\"\n#include <assert.h>\n#include <stddef.h>\n", m.include)
		m.use(&w)
		w.f("int main(void)\n{")
		for _, s := range m.structs {
			w.f("\t{ static %s s; (void)use_%s(&s); }", s.name, s.name)
		}
		w.f("\treturn 0;\n}")
		compile(t, w.String())
	}
	if structs < 58 {
		t.Errorf("%d structures, want at least 58", structs)
	}
}

// Programs include headers that were missing. Each must compile by itself, and all together.
func TestHeadersCompile(t *testing.T) {
	headers, err := filepath.Glob("../../../api/acl/include/acl/*.h")
	if err != nil || len(headers) < 10 {
		t.Fatalf("%d headers, %v", len(headers), err)
	}
	all := ""
	for _, h := range headers {
		line := fmt.Sprintf("#include \"acl/%s\"\n", filepath.Base(h))
		compile(t, line)
		all = line + all
	}
	compile(t, all+all)
	for _, h := range []string{"acl_rt_allocator", "acl_prof", "acl_dump", "acl_tdt", "acl_tdt_queue"} {
		if !strings.Contains(all, "acl/"+h+".h") {
			t.Errorf("there is no acl/%s.h", h)
		}
	}
}
