package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// cParams returns a prototype's parameter list.
func cParams(f *api.Func) string {
	if len(f.Params) == 0 {
		return "void"
	}
	var ps []string
	for _, p := range f.Params {
		if p.Name == "..." {
			ps = append(ps, "...")
			continue
		}
		ps = append(ps, cDecl(p.Type, p.Name))
	}
	return strings.Join(ps, ", ")
}

func cDecl(t, name string) string {
	i := strings.IndexByte(t, '*')
	if i < 0 {
		return t + " " + name
	}
	return t[:i] + " " + t[i:] + name // also for "const T* const*"
}

// cArgs returns a call's argument list.
func cArgs(f *api.Func) string {
	var as []string
	for _, p := range f.Params {
		as = append(as, p.Name)
	}
	return strings.Join(as, ", ")
}

// cWord returns the expression that converts an argument to a word. The argument must not be a structure.
func (m *model) cWord(t, name string) string {
	switch {
	case strings.HasSuffix(t, "*") || m.handle(t) || m.callback(t):
		return "(uint64_t)(uintptr_t)" + name
	case t == "float":
		return "(uint64_t)((union { float f; uint32_t u; }){.f = " + name + "}).u"
	case m.size(t) == 8:
		return "(uint64_t)" + name
	case m.size(t) == 4:
		return "(uint64_t)(uint32_t)" + name
	}
	return "(uint64_t)" + name
}

// words declares and fills a function's argument words.
func (m *model) words(w *writer, f *api.Func, name string) {
	if f.Words == 0 {
		return
	}
	w.f("\tuint64_t %s[%d];", name, f.Words)
	for _, p := range f.Params {
		if m.byValueStruct(p.Type) {
			w.f("\t%s[%d] = 0;\n\t__builtin_memcpy(&%s[%d], &%s, sizeof(%s));", name, p.Word+p.Words-1, name, p.Word, p.Name, p.Name)
		} else {
			w.f("\t%s[%d] = %s;", name, p.Word, m.cWord(p.Type, p.Name))
		}
	}
}

// inGraph returns expressions for the node of the call's task and for its graph, which is NULL for the node's own graph.
func inGraph(f *api.Func) (graph, node string) {
	graph, node = "NULL", "NULL"
	for i, p := range f.Params {
		switch {
		case i == int(f.Graph) && p.Object == api.Graph:
			graph = p.Name
		case p.Object == api.Node && p.Role == api.New:
			node = "*" + p.Name
		case p.Object == api.Node && p.Role == api.Use:
			node = p.Name
		}
	}
	return graph, node
}

func graphOf(f *api.Func) int {
	return slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Graph })
}

// cSize returns the expression for the size of a parameter's memory in bytes.
func (m *model) cSize(f *api.Func, p *api.Param) string {
	s := p.Size
	var t []string
	if s.Unit != 1 || len(s.Mul) == 0 && len(m.factors[factorKey{f.Name, p.Name}]) == 0 {
		t = append(t, fmt.Sprintf("%dULL", s.Unit))
	}
	t = append(t, m.factors[factorKey{f.Name, p.Name}]...)
	var given []string // pointers to factors that the call has stored
	for _, p := range s.Mul {
		q := &f.Params[p]
		if strings.HasSuffix(q.Type, "*") {
			given = append(given, q.Name)
			t = append(t, "(uint64_t)*"+q.Name)
		} else {
			t = append(t, "(uint64_t)"+q.Name)
		}
	}
	n := strings.Join(t, " * ")
	for _, p := range given {
		n = fmt.Sprintf("(%s == NULL ? 0 : %s)", p, n)
	}
	return n
}

// farMemory maps the kinds of device memory that the shim tracks to its constants.
var farMemory = map[api.Object]string{api.Device: "ALLOCATED", api.Reservation: "RESERVED"}

// queried reports whether the shim queries a size by a handle of this kind.
func (m *model) queried(object api.Object) bool {
	for k, factors := range m.factors {
		f := m.find(k.fn)
		for _, c := range factors {
			if _, handle, ok := strings.Cut(strings.TrimSuffix(c, ")"), ", "); ok && strings.HasPrefix(c, "shim_query(") && f.Params[f.Param(handle)].Object == object {
				return true
			}
		}
	}
	return false
}

// version converts a release "major.minor" to 1000 * major + 10 * minor, and other text to 0.
func version(since string) int {
	var major, minor int
	if n, err := fmt.Sscanf(since, "%d.%d", &major, &minor); n != 2 || err != nil || strings.Count(since, ".") != 1 {
		return 0
	}
	return 1000*major + 10*minor
}

// wrapParams returns the parameter list for a wrapper's body. The target comes last, so that other arguments keep their
// registers.
func wrapParams(f *api.Func) string {
	if len(f.Params) == 0 {
		return "struct shim_target *target"
	}
	return cParams(f) + ", struct shim_target *target"
}

// cName returns a function name that is valid in C.
func cName(f *api.Func) string { return strings.ReplaceAll(f.Name, ":", "_") }

// stream returns the expression for the shim's number of the call's stream.
func (m *model) stream(f *api.Func) string {
	h := m.uses(f, int(f.Stream), api.Stream)
	if m.OwnStream == 0 {
		return h
	}
	return fmt.Sprintf("shim_stream(%s, %d, %t)", h, m.OwnStream, f.OwnStream)
}

// uses returns the expression for the handle in a parameter or in its structure.
func (m *model) uses(f *api.Func, param int, object api.Object) string {
	p := &f.Params[param]
	if p.Role != api.Struct {
		return p.Name
	}
	for _, field := range m.structOf(f, p).fields {
		if m.object(field.ctype) == object {
			return fmt.Sprintf("(%s == NULL ? NULL : %s->%s)", p.Name, p.Name, field.name)
		}
	}
	return "NULL"
}

func cSide(s *api.CopyEnd) string {
	return fmt.Sprintf("{%d, %d, %d, %d, %d, %dU, %d, %dU}", s.Kind, s.Host, s.Device, s.X, s.Y, s.Z, s.Pitch, s.Rows)
}

// saysHost returns the condition under which a call declares a parameter's memory to be host memory.
func saysHost(f *api.Func, p *api.Param) string {
	if p.Hosts.Bits == 0 {
		return "false"
	}
	return fmt.Sprintf("shim_one_of(%s, %#x)", f.Params[p.Hosts.Param].Name, p.Hosts.Bits)
}
