package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// genHeader writes a layer's C header.
func genHeader(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.dir)
	w.f("/* %s */", strings.TrimSpace(m.layer.About))
	guard := "ACLTRACE_" + strings.ToUpper(filepath.Base(m.dir)) + "_H"
	w.f("#ifndef %s\n#define %s\n", guard, guard)
	known := map[string]bool{}
	if m.upper != nil {
		w.f("#include \"%s\"\n", m.upper.include)
		known = m.upper.known()
	} else {
		w.f("#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n")
	}
	w.f("#ifdef __cplusplus\nextern \"C\" {\n#endif\n")
	maps.Copy(known, m.known())
	m.cConstants(w)
	m.cOpaque(w, known)
	for _, t := range m.typedefs {
		if strings.Contains(t.def, "(*") {
			w.f("%s", t.def)
		}
	}
	w.f("")
	w.f("#ifdef __cplusplus\n#define ACLTRACE_SIZE(t, n) static_assert(sizeof(t) == (n), #t)\n#else\n#define ACLTRACE_SIZE(t, n) _Static_assert(sizeof(t) == (n), #t)\n#endif\n")
	done := map[string]bool{}
	for i := range m.structs {
		m.cStruct(w, &m.structs[i], done)
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.Doc != "" {
			w.f("/* %s */", f.Doc)
		}
		w.f("%s(%s);\n", cDecl(f.Return, f.Name), cParams(f))
	}
	m.genAliases(w)
	w.f("#undef ACLTRACE_SIZE\n\n#ifdef __cplusplus\n}\n#endif\n")
	for _, h := range m.layer.Includes {
		w.f("#include \"%s\"\n", h)
	}
	w.f("#endif")
	return nil
}

// cConstants writes enumerations, error codes and the types that need no other type.
func (m *model) cConstants(w *writer) {
	for _, e := range m.Enums {
		if e.Type == "#define" {
			for _, v := range e.Values {
				w.f("#define %s %dU", v.Name, v.Value)
			}
			w.f("")
			continue
		}
		w.f("typedef enum %s {", e.Type)
		for _, v := range e.Values {
			w.f("\t%s = %d,", v.Name, v.Value)
		}
		w.f("} %s;\n", e.Type)
	}
	for _, v := range m.Errors {
		w.f("#define %s %d", v.Name, v.Value)
	}
	w.f("")
	for _, t := range m.typedefs {
		if t.def == "handle" {
			w.f("typedef void *%s;", t.name)
		} else if t.def == "object" {
			if m.structByName(t.name) == nil {
				w.f("typedef struct %s %s;", t.name, t.name)
			}
		} else if !strings.Contains(t.def, "(*") {
			w.f("%s", t.def)
		}
	}
}

// cOpaque declares the types without a layout that functions and structures mention: structures for pointers, otherwise
// handles.
func (m *model) cOpaque(w *writer, known map[string]bool) {
	opaque := map[string]bool{}
	mention := func(t string) {
		base := strings.TrimPrefix(t, "const ")
		base, _, _ = strings.Cut(strings.TrimRight(base, "*"), "*")
		if base == "" || known[base] || base == "void" || base == "union" || (m.size(base) != 0) {
			return
		}
		opaque[base] = opaque[base] || !strings.HasSuffix(t, "*") || m.callback(base)
	}
	for _, f := range m.Funcs {
		mention(f.Return)
		for _, p := range f.Params {
			mention(p.Type)
		}
	}
	for _, s := range m.structs {
		for _, f := range s.fields {
			item, _, _ := strings.Cut(f.ctype, "[")
			mention(item)
		}
	}
	names := slices.Sorted(maps.Keys(opaque))
	if len(names) > 0 {
		w.f("\n/* Opaque types. */")
	}
	for _, n := range names {
		if opaque[n] {
			w.f("typedef void (*%s)(void);", n)
		} else {
			w.f("typedef struct %s %s;", n, n)
		}
	}
}

// cStruct writes a structure after those that it contains.
func (m *model) cStruct(w *writer, s *structType, done map[string]bool) {
	if done[s.name] {
		return
	}
	done[s.name] = true
	for _, f := range s.fields {
		base, _, _ := strings.Cut(strings.TrimRight(f.ctype, "*"), "[")
		if d := m.structByName(base); d != nil {
			m.cStruct(w, d, done)
		}
	}
	w.f("typedef %s %s {", s.kind, s.name)
	m.cMembers(w, s)
	w.f("} %s;", s.name)
	w.f("ACLTRACE_SIZE(%s, %d);\n", s.name, s.size)
}

// cMembers writes the members of a structure. Fields at the same offset are members of a union.
func (m *model) cMembers(w *writer, s *structType) {
	end := 0
	for i := 0; i < len(s.fields); i++ {
		f := s.fields[i]
		if strings.Contains(f.name, ".") || (s.kind == "struct" && f.offset < end) {
			continue
		}
		end = max(end, f.offset+f.size)
		beside := func() bool { // the next is a member of the same union
			return i+1 < len(s.fields) && s.fields[i+1].offset == f.offset && s.fields[i+1].ctype != ""
		}
		if f.ctype == "union" { // its members follow
			w.f("\tunion {")
			for i+1 < len(s.fields) && strings.HasPrefix(s.fields[i+1].name, f.name+".") {
				i++
				member := s.fields[i]
				member.name = member.name[len(f.name)+1:]
				w.f("\t\t%s;", m.cField(member, s.align))
			}
			w.f("\t} %s;", f.name)
			continue
		}
		if s.kind == "union" || !beside() {
			w.f("\t%s;", m.cField(f, s.align))
			continue
		}
		w.f("\tunion {\n\t\t%s;", m.cField(f, s.align))
		for ; beside(); i++ {
			w.f("\t\t%s;", m.cField(s.fields[i+1], s.align))
		}
		w.f("\t};")
	}
}

// known returns the types that a layer's header declares.
func (m *model) known() map[string]bool {
	k := map[string]bool{}
	for _, e := range m.Enums {
		k[e.Type] = true
	}
	for _, t := range m.typedefs {
		k[t.name] = true
	}
	for _, s := range m.structs {
		k[s.name] = true
	}
	return k
}

// genForward writes a header that only includes the one with all declarations, under another name that the runtime has.
func genForward(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.dir)
	w.f("#include \"%s\"", m.include)
	return nil
}

// genAliases writes macros for functions that the library exports only with a version suffix, so that programs can use the
// plain name. ACLTRACE_EXACT_NAMES disables them.
func (m *model) genAliases(w *writer) {
	names := maps.Clone(m.aliases)
	if names == nil {
		names = map[string]string{}
	}
	for i := range m.Funcs {
		n := m.Funcs[i].Name
		if k := len(n) - len("_v2"); k > 0 && strings.HasPrefix(n[k:], "_v") && n[k+2] >= '0' && n[k+2] <= '9' && m.find(n[:k]) == nil {
			names[n[:k]] = n
		}
	}
	if len(names) == 0 {
		return
	}
	w.f("#ifndef ACLTRACE_EXACT_NAMES")
	for _, n := range slices.Sorted(maps.Keys(names)) {
		w.f("#define %s %s", n, names[n])
	}
	w.f("#endif\n")
}

func (m *model) cField(f field, align int) string {
	if f.ctype != "" {
		if e, n, ok := strings.Cut(f.ctype, "["); ok {
			return cDecl(e, f.name) + "[" + n
		}
		return cDecl(f.ctype, f.name)
	}
	if f.size <= align && f.size&(f.size-1) == 0 {
		return fmt.Sprintf("uint%d_t %s", f.size*8, f.name)
	}
	for _, n := range []int{8, 4} {
		if align >= n && f.size%n == 0 && f.offset%n == 0 {
			return fmt.Sprintf("uint%d_t %s[%d]", n*8, f.name, f.size/n)
		}
	}
	return fmt.Sprintf("uint8_t %s[%d]", f.name, f.size)
}
