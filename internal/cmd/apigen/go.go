package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// goName returns the Go name for a C type.
func (m *model) goName(c string) string {
	return m.shorten(c, func(c string) bool { return m.enumSet[c] || m.structByName(c) != nil })
}

// goType returns the Go type for a C type in the generated interface.
func (m *model) goType(c string) string {
	switch c {
	case "void*", "const void*":
		return "Addr"
	case "const char*":
		return "*byte"
	case "float":
		return "float32"
	case "size_t", "uint64_t":
		return "uint64"
	case "uint32_t":
		return "uint32"
	case "int32_t", "int":
		return "int32"
	case "int64_t":
		return "int64"
	case "char":
		return "byte"
	case "uint16_t", "uint8_t":
		return strings.TrimSuffix(c, "_t")
	}
	if p, ok := strings.CutSuffix(strings.TrimPrefix(c, "const "), "*"); ok {
		if m.handle(c) && m.structByName(p) == nil {
			return m.goName(p)
		}
		if m.size(p) == 0 { // opaque
			return "Addr"
		}
		return "*" + m.goType(p)
	}
	for _, t := range m.typedefs {
		if t.name == c && strings.Contains(t.def, "(*") {
			return "Addr"
		}
		if base, ok := strings.CutPrefix(t.def, "typedef "); ok && t.name == c && c != m.layer.Errors {
			return m.goType(strings.TrimSuffix(base, " "+c+";"))
		}
	}
	return m.goName(c)
}

// used returns the C types that modelled functions mention.
func (m *model) used() map[string]bool {
	u := map[string]bool{m.layer.Errors: true}
	var add func(string)
	add = func(t string) {
		t = strings.TrimSpace(strings.TrimRight(strings.TrimPrefix(t, "const "), "*"))
		if i := strings.IndexByte(t, '['); i >= 0 {
			t = t[:i]
		}
		if u[t] {
			return
		}
		u[t] = true
		if s := m.structByName(t); s != nil {
			for _, f := range s.fields {
				add(f.ctype)
			}
		}
	}
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Modelled {
			add(f.Return)
			for _, p := range f.Params {
				add(p.Type)
			}
		}
	}
	return u
}

func (m *model) goField(f field) string {
	t := f.ctype
	switch {
	case t == "" && (f.size == 1 || f.size == 2 || f.size == 4 || f.size == 8):
		return fmt.Sprintf("uint%d", f.size*8)
	case t == "" || t == "union":
		return fmt.Sprintf("[%d]byte", f.size)
	case strings.HasSuffix(t, "*"):
		return "Addr"
	}
	if e, n, ok := strings.Cut(t, "["); ok {
		return "[" + n + m.goType(e)
	}
	return m.goType(t)
}

// genGo writes the Go package for a runtime with a simulator in Go: ids, constants, types, the interface API, and the table.
func genGo(m *model, w *writer) error {
	all := m
	if m.upper != nil {
		m = m.upper
	}
	w.f("// "+marker+"\n\npackage %s\n\nimport (\n\"unsafe\"\n\n\"github.com/acltrace/acltrace/api\"\n)\n", m.dir, m.Name)
	m.goConstants(w)
	m.goTypes(w)
	by, err := m.performers(all)
	if err != nil {
		return err
	}
	m.goInterface(w, by)
	m.goCall(w, all, by)
	genTable(all, w)
	return nil
}

// goConstants writes function ids, enumerations and error codes.
func (m *model) goConstants(w *writer) {
	w.f("// Function ids in trace files.\nconst (")
	for _, f := range m.Funcs {
		w.f("Fn%s api.ID = %d // %s", m.fnName(f.Name), f.ID, f.Name)
	}
	w.f(")\n")
	for _, e := range m.Enums {
		typ := ""
		if e.Type != "#define" {
			typ = m.goName(e.Type)
			w.f("// %s is %s.\ntype %s int32\n", typ, e.Type, typ)
		} else {
			w.f("// Constants that the runtime's headers define.")
		}
		w.f("const (")
		for _, v := range e.Values {
			w.f("%s %s = %d", v.Name, typ, v.Value)
		}
		w.f(")\n")
	}
	w.f("// Error codes.\nconst (")
	for _, e := range m.Errors {
		w.f("%s Error = %d", e.Name, e.Value)
	}
	w.f(")\n")
}

// goTypes writes the handles and structures that modelled functions use.
func (m *model) goTypes(w *writer) {
	used := m.used()
	for _, t := range m.typedefs {
		if (t.def == "handle" || t.def == "object" && m.structByName(t.name) == nil) && used[t.name] {
			w.f("// %s is %s, a handle.\ntype %s uint64\n", m.goName(t.name), t.name, m.goName(t.name))
		}
	}
	for _, s := range m.structs {
		if !used[s.name] {
			continue
		}
		n := m.goName(s.name)
		if s.kind == "union" {
			w.f("// %s is the union %s; the functions that use it determine the valid field.", n, s.name)
			elem := map[int]string{1: "byte", 2: "uint16", 4: "uint32", 8: "uint64"}[s.align]
			w.f("type %s [%d]%s\n", n, s.size/s.align, elem)
		} else {
			w.f("// %s is the structure %s.\ntype %s struct {", n, s.name, n)
			end := 0
			for _, f := range s.fields {
				if f.offset < end || strings.Contains(f.name, ".") {
					continue
				}
				w.f("%s %s", strings.ToUpper(f.name[:1])+f.name[1:], m.goField(f))
				end = f.offset + f.size
			}
			w.f("}\n")
		}
		w.f("var _ [%d]byte = [unsafe.Sizeof(%s{})]byte{}\n", s.size, n)
	}
}

// performers returns the functions that perform others in the simulator, by the others' names.
func (m *model) performers(all *model) (map[string]*api.Func, error) {
	by := map[string]*api.Func{}
	for name, others := range m.performs {
		f := m.find(name)
		if f == nil || !f.Simulated {
			return nil, fmt.Errorf("performs: %s is not simulated", name)
		}
		for _, other := range others {
			o := all.find(other)
			if o == nil {
				return nil, fmt.Errorf("performs: %s is not in functions.tsv", other)
			}
			for i, p := range f.Params {
				if i >= len(o.Params) || o.Params[i].Word != p.Word || o.Params[i].Words != p.Words {
					return nil, fmt.Errorf("performs: %s begins with other arguments than %s", other, name)
				}
			}
			by[other] = f
		}
	}
	return by, nil
}

// goInterface writes the interface with a method for each simulated function that no other one performs.
func (m *model) goInterface(w *writer, by map[string]*api.Func) {
	w.f("// API has a method for each function that the simulator has. A value serves one thread of a program and keeps that\n// thread's state. Its methods are not called concurrently.\ntype API interface {")
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if !f.Simulated || by[f.Name] != nil {
			continue
		}
		var ps []string
		for _, p := range f.Params {
			ps = append(ps, goParam(p.Name)+" "+m.goType(p.Type))
		}
		w.f("// %s is %s: %s\n%s(%s)%s", m.fnName(f.Name), f.Name, f.Doc, m.fnName(f.Name), strings.Join(ps, ", "), m.goReturn(f))
	}
	w.f("}\n")
}

// goCall writes the function that calls a method with argument words.
func (m *model) goCall(w *writer, all *model, by map[string]*api.Func) {
	performed := map[*api.Func]string{} // more values of the case
	for _, f := range all.Funcs {
		if by[f.Name] != nil {
			performed[by[f.Name]] += fmt.Sprintf(", %d", f.ID)
		}
	}
	w.f("// Call calls the function with an id. Arguments and the returned value are words. The second result is false if API has no\n// method for the id.")
	w.f("func Call(a API, fn api.ID, w []uint64) (uint64, bool) {\nswitch fn {")
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if !f.Simulated || by[f.Name] != nil {
			continue
		}
		var as []string
		for _, p := range f.Params {
			as = append(as, m.goWord(p))
		}
		call := fmt.Sprintf("a.%s(%s)", m.fnName(f.Name), strings.Join(as, ", "))
		w.f("case Fn%s%s:", m.fnName(f.Name), performed[f])
		switch r := m.goReturn(f); {
		case r == "":
			w.f("%s\nreturn 0, true", call)
		case r == " Error" || r == " int32":
			w.f("return uint64(uint32(%s)), true", call)
		case r == " float32":
			w.f("r := %s\nreturn uint64(*(*uint32)(unsafe.Pointer(&r))), true", call)
		default:
			w.f("return uint64(%s), true", call)
		}
	}
	w.f("}\nreturn 0, false\n}\n")
}

// genModel writes the table only, for a runtime without a simulator in Go.
func genModel(m *model, w *writer) error {
	w.f("// "+marker+"\n\npackage %s\n\nimport \"github.com/acltrace/acltrace/api\"\n", m.dir, m.Name)
	genTable(m, w)
	return nil
}

// genTable writes a runtime's table.
func genTable(m *model, w *writer) {
	table := m.Model
	table.Enums = slices.DeleteFunc(slices.Clone(m.Enums), func(e api.Enum) bool { return e.Type == "#define" })
	w.f("// Model is this runtime's table.\nvar Model = (&%s).Init()", literal(reflect.ValueOf(table), true))
}

// fnName returns the name of a function's method. The id constant has the same name with the prefix Fn.
func (m *model) fnName(c string) string {
	return m.shorten(c, func(c string) bool { return m.find(c) != nil })
}

// shorten returns a C name without the prefixes in trim, exported. It keeps all but the first prefix if another name, which
// has only that one, would become the same.
func (m *model) shorten(c string, exists func(c string) bool) string {
	short := c
	for _, prefix := range m.trim {
		short = strings.TrimPrefix(short, prefix)
	}
	if first := m.trim[0]; c != first+short && exists(first+short) {
		short = strings.TrimPrefix(c, first)
	}
	return strings.ToUpper(short[:1]) + short[1:]
}

func goParam(n string) string {
	if n == "type" || n == "func" {
		return n + "_"
	}
	return n
}

func (m *model) goReturn(f *api.Func) string {
	switch {
	case f.RetVoid:
		return ""
	case strings.HasSuffix(f.Return, "*") && (!m.handle(f.Return) || m.structByName(strings.TrimSuffix(f.Return, "*")) != nil):
		return " Addr"
	}
	return " " + m.goType(f.Return)
}

// goWord returns the expression that converts a parameter's words to its Go type.
func (m *model) goWord(p api.Param) string {
	t := m.goType(p.Type)
	word := fmt.Sprintf("w[%d]", p.Word)
	switch {
	case strings.HasPrefix(t, "*"):
		return fmt.Sprintf("(%s)(pointer(%s))", t, word)
	case m.structByName(p.Type) != nil:
		return fmt.Sprintf("*(*%s)(unsafe.Pointer(&%s))", t, word)
	case t == "float32":
		return fmt.Sprintf("*(*float32)(unsafe.Pointer(&%s))", word)
	}
	return fmt.Sprintf("%s(%s)", t, word)
}
