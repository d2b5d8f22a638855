package main

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// genPlayer writes the C function that calls a runtime function with argument words. It needs no headers of a runtime.
// Functions whose words all go into integer registers are called alike. The few others get a call with the right parameter
// classes for the calling convention.
func genPlayer(all []*runtime, w *writer) {
	m := joined(all)
	var special []*api.Func
	most := 0
	for i := range m.Funcs {
		f := &m.Funcs[i]
		switch {
		case !f.Modelled || f.EntryMark():
		case f.Plain():
			most = max(most, int(f.Words))
		default:
			special = append(special, f)
		}
	}
	w.f("/* "+marker+" */\n", allRuntimes)
	w.f("#ifndef ACLTRACE_CALL_H\n#define ACLTRACE_CALL_H\n\n#include <stdint.h>\n#include <string.h>\n\n#include \"plan.h\"\n")
	w.f("/* Calls a function. Its argument words are the values of operands. how is their count, or CALL_SPECIAL plus the function id. */")
	w.f("static inline uint64_t player_call(uint32_t how, void *fn, const struct plan_operand *w, const uint64_t *slots)\n{\n\tswitch (how) {")
	for n := range most + 1 {
		types, args := make([]string, n), make([]string, n)
		for i := range n {
			types[i], args[i] = "uint64_t", fmt.Sprintf("plan_value(w + %d, slots)", i)
		}
		if n == 0 {
			types = []string{"void"}
		}
		w.f("\tcase %d:\n\t\treturn ((uint64_t(*)(%s))fn)(%s);", n, strings.Join(types, ", "), strings.Join(args, ", "))
	}
	for _, f := range special {
		m.genSpecial(w, f)
	}
	w.f("\t}\n\treturn ~(uint64_t)0;\n}\n\n#endif")
}

// genSpecial writes the call for a function with structures or floating point numbers.
func (m *model) genSpecial(w *writer, f *api.Func) {
	var types, args []string
	w.f("\tcase CALL_SPECIAL + %d: { /* %s */", f.ID, f.Name)
	for i, p := range f.Params {
		t := "uint64_t"
		switch s := m.structByName(p.Type); {
		case s != nil:
			// Only size and alignment matter.
			t = fmt.Sprintf("struct { uint%d_t bytes[%d]; }", 8*s.align, s.size/s.align)
			w.f("\t\ttypedef %s type%d;\n\t\ttype%d a%d;", t, i, i, i)
			w.words(i, int(p.Word), (s.size+7)/8)
			t = fmt.Sprintf("type%d", i)
			args = append(args, fmt.Sprintf("a%d", i))
		case p.Type == "float" || p.Type == "double":
			t = p.Type
			w.f("\t\t%s a%d;", t, i)
			w.words(i, int(p.Word), 1)
			args = append(args, fmt.Sprintf("a%d", i))
		default:
			args = append(args, fmt.Sprintf("plan_value(w + %d, slots)", p.Word))
		}
		types = append(types, t)
	}
	ret := "uint64_t"
	if f.Return == "float" || f.Return == "double" {
		ret = f.Return
	}
	w.f("\t\t%s r = ((%s(*)(%s))fn)(%s);", ret, ret, strings.Join(types, ", "), strings.Join(args, ", "))
	w.f("\t\tuint64_t ret = 0;\n\t\tmemcpy(&ret, &r, sizeof r);\n\t\treturn ret;\n\t}")
}

// words fills an argument that is not a plain word from its operands.
func (w *writer) words(arg, first, n int) {
	var vs []string
	for k := range n {
		vs = append(vs, fmt.Sprintf("plan_value(w + %d, slots)", first+k))
	}
	w.f("\t\tmemcpy(&a%d, (uint64_t[]){%s}, sizeof a%d);", arg, strings.Join(vs, ", "), arg)
}
