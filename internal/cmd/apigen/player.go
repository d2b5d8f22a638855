package main

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// genPlayer writes the player's way from a function's number and its argument words to a call.
func genPlayer(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.Name)
	w.f("#include \"acl/acl.h\"\n\n#include \"plan.h\"\n")
	w.f("uint64_t player_call(uint32_t id, void *fn, const uint64_t *w)\n{\n\t(void)w;\n\tswitch (id) {")
	for i := range m.Funcs {
		if f := &m.Funcs[i]; !variadic(f) {
			m.genDispatch(w, f)
		}
	}
	w.f("\t}\n\treturn ~(uint64_t)0;\n}")
	return nil
}

// variadic reports whether a function takes more than its words can say.
func variadic(f *api.Func) bool {
	return len(f.Params) > 0 && f.Params[len(f.Params)-1].Name == "..."
}

func (m *model) genDispatch(w *writer, f *api.Func) {
	var args []string
	w.f("\tcase %d: { /* %s */", f.ID, f.Name)
	for i, p := range f.Params {
		switch {
		case m.byValueStruct(p.Type):
			w.f("\t\t%s a%d;\n\t\t__builtin_memcpy(&a%d, &w[%d], sizeof a%d);", p.Type, i, i, p.Word, i)
			args = append(args, fmt.Sprintf("a%d", i))
		case m.integer(p.Type):
			args = append(args, fmt.Sprintf("(%s)w[%d]", p.Type, p.Word))
		default:
			args = append(args, fmt.Sprintf("(%s)(uintptr_t)w[%d]", strings.TrimSpace(cDecl(p.Type, "")), p.Word))
		}
	}
	call := fmt.Sprintf("((%s)fn)(%s)", cDecl(f.Return, "(*)("+cParams(f)+")"), strings.Join(args, ", "))
	if f.RetVoid {
		w.f("\t\t%s;\n\t\treturn 0;\n\t}", call)
	} else {
		w.f("\t\treturn %s;\n\t}", m.cWord(f.Return, call))
	}
}

// integer reports whether a type is a number, which has no address in it.
func (m *model) integer(ctype string) bool {
	return !strings.HasSuffix(ctype, "*") && !m.handle(ctype) && !m.callback(ctype) && m.size(ctype) != 0
}
