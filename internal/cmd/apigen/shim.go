package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// genShim writes a runtime's wrappers and the tables that the shim binds them by.
func genShim(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.dir)
	w.f("#define ACLTRACE_EXACT_NAMES\n#include \"%s\"\n", m.upper.include)
	for _, l := range m.headers() {
		w.f("#include \"%s\"", l.include)
	}
	injected := slices.ContainsFunc(m.Funcs, func(f api.Func) bool { return f.Inject != nil })
	if injected {
		w.f("#include \"inject.h\"")
	}
	w.f("#include \"shim.h\"\n")
	var names []shimName
	for i, n := range m.counted() {
		names = append(names, shimName{n, fmt.Sprintf("{\"%s\", counted_%s, &shim_counted[%d].real, NULL, NULL, %d}", n, n, i, m.since(n))})
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.HostCallback {
			w.f("const uint16_t shim_%s = %d;\n", f.Name, f.ID)
			continue
		}
		if !f.Modelled || f.Form != nil || f.EntryMark() { // a form is written with its function
			continue
		}
		for _, form := range m.formsOf(f) {
			if err := m.genWrapper(w, form); err != nil {
				return fmt.Errorf("%s: %w", form.Name, err)
			}
		}
		if err := m.genWrapper(w, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		names = append(names, m.genEntries(w, f)...)
	}
	m.genCounted(w)
	names = append(names, m.genMarks(w)...)
	if injected {
		w.f("const struct shim_injected shim_injected[] = {")
		for i := range m.Funcs {
			if at, n := m.Funcs[i].Inject, m.Funcs[i].Name; at != nil {
				w.f("\t{\"%s\", %d, %d, (void *)inject_%s, &inside_%s.real},", n, at[0], at[1], n, n)
			}
		}
		w.f("\t{NULL, 0, 0, NULL, NULL},\n};\n")
		names = append(names, shimName{"InitInjectionMstx", "{\"InitInjectionMstx\", (void *)InitInjectionMstx, &shim_inject_real, (void *)shim_inject_copy, &shim_inject_copy_real, 0}"})
	}
	slices.SortFunc(names, func(a, b shimName) int { return strings.Compare(a.name, b.name) })
	w.f("const struct shim_name shim_names[] = {")
	for _, n := range names {
		w.f("\t%s,", n.row)
	}
	w.f("};\nconst uint32_t shim_names_count = %d;\n", len(names))
	w.f("const uint64_t shim_functions = %#x;", m.Checksum())
	w.f("const char shim_build[] __attribute__((used)) = \"acltrace shim: ring \" SHIM_STRING(RING_VERSION) \", functions %016x\";", m.Checksum())
	var prefixes []string
	for _, l := range m.layers {
		prefixes = append(prefixes, l.layer.Prefixes...)
	}
	genPrefixes(w, "shim_prefixes", prefixes)
	genPrefixes(w, "shim_below", m.Below.Prefixes)
	return nil
}

// genPrefixes writes a table of prefixes of function names.
func genPrefixes(w *writer, table string, prefixes []string) {
	w.f("const struct shim_prefix %s[] = {", table)
	for _, p := range prefixes {
		name, capital := strings.CutSuffix(p, "^")
		w.f("\t{%q, %t},", name, capital)
	}
	w.f("\t{NULL, false},\n};")
}

// shimName is a row in the table of exported names.
type shimName struct{ name, row string }

// genEntries writes the functions that enter the wrapper of f: one with its own name, one with its name in the library below
// if the runtime is split, and a static one for a second library with the same function. The first is the hot path and has
// its own inlined copy of the wrapper.
func (m *model) genEntries(w *writer, f *api.Func) []shimName {
	ret := "return "
	if f.RetVoid {
		ret = ""
	}
	args := cArgs(f)
	if args != "" {
		args += ", "
	}
	target := func(kind, name string) {
		w.f("static struct shim_target %s_%s = {NULL, \"%s\"};", kind, f.Name, name)
	}
	target("target", f.Name)
	hot, body := "", "main"
	if f.Task == api.Kernel || f.Task == api.Copy {
		hot = " SHIM_HOT"
	}
	if m.always(f) {
		w.f("SHIM_EXPORT %s(%s)\n{\n\t%swrap_%s(%s&target_%s);\n}\n", cDecl(f.Return, f.Name), cParams(f), ret, f.Name, args, f.Name)
	} else {
		w.f("static SHIM_BODY%s %s(%s)\n{\n\t%swrap_%s(%s&target_%s);\n}\n", hot, cDecl(f.Return, "main_"+f.Name), cParams(f), ret, f.Name, args, f.Name)
		if m.plain(w, f) {
			body = "plain"
		}
		w.f("SHIM_ENTRY(%s, %s_%s);\n", f.Name, body, f.Name)
	}
	w.f("static __attribute__((noinline, cold)) %s\n{\n\t%swrap_%s(%starget);\n}\n", cDecl(f.Return, "other_"+f.Name+"("+wrapParams(f)+")"), ret, f.Name, args)
	target("second", f.Name)
	w.f("static %s(%s)\n{\n\t%sother_%s(%s&second_%s);\n}\n", cDecl(f.Return, "copy_"+f.Name), cParams(f), ret, f.Name, args, f.Name)
	names := []shimName{{f.Name, fmt.Sprintf("{\"%s\", (void *)%s, &target_%s.real, (void *)copy_%s, &second_%s.real, %d}", f.Name, f.Name, f.Name, f.Name, f.Name, version(f.Since))}}
	if f.Inject != nil {
		target("inside", f.Name)
		w.f("static %s(%s)\n{\n\t%sother_%s(%s&inside_%s);\n}\n", cDecl(f.Return, "inject_"+f.Name), cParams(f), ret, f.Name, args, f.Name)
	}
	if impl := m.impl[f.Name]; impl != "" {
		w.f("SHIM_EXPORT %s(%s);", cDecl(f.Return, impl), cParams(f))
		target("below", impl)
		w.f("SHIM_EXPORT %s(%s)\n{\n\t%sother_%s(%s&below_%s);\n}\n", cDecl(f.Return, impl), cParams(f), ret, f.Name, args, f.Name)
		names = append(names, shimName{impl, fmt.Sprintf("{\"%s\", (void *)%s, &below_%s.real, NULL, NULL, 0}", impl, impl, f.Name)})
	}
	return names
}

// plain writes the fast path for a launch that has only a few small blocks to capture. It returns false if f never is one.
func (m *model) plain(w *writer, f *api.Func) bool {
	const words, blocks = 12, 3 // as in shim_hot.h
	if f.Task != api.Kernel || !f.RetError || f.Stream < 0 || f.Composite || f.Words == 0 || f.Words > words {
		return false
	}
	when, pieces := []string{"!shim_special()", "real != NULL"}, []string{}
	for n, p := range f.Params {
		switch {
		case p.Role == api.Args || p.Role == api.In:
			when = append(when, fmt.Sprintf("shim_plain_block(%s, %s)", p.Name, m.cSize(f, &p)))
			pieces = append(pieces, fmt.Sprintf("shim_plain_piece(to, %d, %s, %s)", n, p.Name, m.cSize(f, &p)))
		case p.Role == api.List:
			when = append(when, fmt.Sprintf("shim_plain_list(%s, %d)", p.Name, p.Elem))
			pieces = append(pieces, fmt.Sprintf("shim_plain_elements(to, %d, %s, %d)", n, p.Name, p.Elem))
		case !slices.Contains([]api.Role{api.Value, api.Use, api.Address, api.DevArgs, api.Opaque}, p.Role):
			return false
		}
	}
	if len(pieces) > blocks {
		return false
	}
	w.f("static SHIM_BODY %s(%s)\n{", cDecl(f.Return, "plain_"+f.Name), cParams(f))
	w.f("\t%s = shim_real_known(&target_%s.real);", cDecl(f.Return, "(*real)("+cParams(f)+")"), f.Name)
	w.f("\tif (%s && shim_plain()) {", strings.Join(when, " && "))
	m.words(w, f, "w")
	w.f("\t\tstruct call_record *r = shim_plain_enter(w, %d);\n\t\tuint64_t *to = shim_plain_pieces(r, %d);", f.Words, f.Words)
	for _, p := range pieces {
		w.f("\t\tto = %s;", p)
	}
	w.f("\t\tshim_plain_commit(r, %d, to);", f.ID)
	w.f("\t\t%s = real(%s);", cDecl(f.Return, "ret"), cArgs(f))
	w.f("\t\tshim_plain_return(r);\n\t\tr->ret = %s;", m.cWord(f.Return, "ret"))
	w.f("\t\tif (ret == 0 && shim_after_task)\n\t\t\tshim_plain_task(r, %s);\n\t\telse\n\t\t\tshim_plain_exit(r);\n\t\treturn ret;\n\t}", f.Params[f.Stream].Name)
	w.f("\treturn main_%s(%s);\n}\n", f.Name, cArgs(f))
	return true
}

// genCounted writes the functions without semantics. They are only counted.
func (m *model) genCounted(w *writer) {
	names := m.counted()
	for i, n := range names {
		w.f("SHIM_COUNTED(%s, %d);", n, i) // the C name differs from the exported one, which has a prototype
	}
	w.f("\nstruct shim_counted shim_counted[%d];\nconst uint32_t shim_counted_count = %d;\nconst char *const shim_counted_names[] = {", max(1, len(names)), len(names))
	for _, n := range names {
		w.f("\t\"%s\",", n)
	}
	w.f("\tNULL,\n};\n")
}

// genMarks writes the entry marks. A second library with the same function has a copy of the entry, as in genEntries.
func (m *model) genMarks(w *writer) (names []shimName) {
	var rows []string
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if !f.EntryMark() {
			continue
		}
		n, executor := len(rows), slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Executor })
		kind := map[api.OperatorMark]string{api.OperatorPhaseOne: "MARK_PHASE_ONE", api.OperatorPhaseTwo: "MARK_BEGIN", api.OperatorInner: "MARK_BEGIN", api.OperatorEnd: "MARK_END"}[f.Operator]
		row := fmt.Sprintf("{.name = \"%s\", .func = %d, .words = %d, .text = %d, .executor = %d, .kind = %s}", f.Symbol(), f.ID, f.Words, f.Names, executor, cmp.Or(kind, "MARK_OTHER"))
		rows = append(rows, row, row)
		w.f("SHIM_MARK(%s, %d, \".globl\");\nSHIM_MARK(copy_%s, %d, \".local\");", f.Symbol(), n, f.Symbol(), n+1)
		names = append(names, shimName{f.Symbol(), fmt.Sprintf("{\"%s\", mark_%s, &shim_marks[%d].real, mark_copy_%s, &shim_marks[%d].real, 0}", f.Symbol(), f.Symbol(), n, f.Symbol(), n+1)})
	}
	w.f("\nstruct shim_mark shim_marks[%d] = {", max(1, len(rows)))
	for _, row := range rows {
		w.f("\t%s,", row)
	}
	w.f("};\n")
	return names
}

// counted lists the functions that are only counted by name.
func (m *model) counted() []string {
	var names []string
	for i := range m.Funcs {
		if f := &m.Funcs[i]; !f.Modelled && !f.HostCallback {
			names = append(names, f.Name)
		}
	}
	return append(names, m.Declared...)
}

// since returns the version that a function is since, 0 if it is only declared.
func (m *model) since(name string) int {
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Name == name {
			return version(f.Since)
		}
	}
	return 0
}

// owns returns the statement that corrects a result about the thread's last calls, because the shim makes calls itself. It
// also covers look-ups of functions and kernels.
func (m *model) owns(f *api.Func) string {
	switch f.Last {
	case api.LastTask:
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_last_task(%s);", f.Params[0].Name)
	case api.LastError:
		return "ret = shim_last_error(ret, false);"
	case api.LastErrorOnce:
		return "ret = shim_last_error(ret, true);"
	}
	switch {
	case f.Finds != "":
		p := f.Params[f.Param(f.Finds):]
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_found(%s, %s, %s, %s);", p[0].Name, p[1].Name, p[2].Name, p[3].Name)
	case f.Passes != "":
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_passed(\"%s\");", f.Name)
	}
	if made := m.parameters(f); made != "" {
		return "if (ret == 0)\n\t\t\t" + made
	}
	return ""
}

// parameters returns the statement by which the shim learns kernel parameters from binaries: it tracks loaded images and
// the kernel handles that belong to them.
func (m *model) parameters(f *api.Func) string {
	param := func(is func(p *api.Param) bool) string {
		if i := slices.IndexFunc(f.Params, func(p api.Param) bool { return is(&p) }); i >= 0 {
			return f.Params[i].Name
		}
		return ""
	}
	role := func(role api.Role, object api.Object) string {
		return param(func(p *api.Param) bool { return p.Role == role && p.Object == object })
	}
	image := func(f api.Func) bool {
		return slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.Image })
	}
	if !slices.ContainsFunc(m.Funcs, image) {
		return ""
	}
	loaded, from, found := role(api.New, api.Binary), role(api.Use, api.Binary), role(api.Find, api.Function)
	file := param(func(p *api.Param) bool { return p.Role == api.File })
	switch {
	case loaded != "" && image(*f):
		return fmt.Sprintf("shim_binary(*%s, %s);", loaded, param(func(p *api.Param) bool { return p.Role == api.Image }))
	case loaded != "" && file != "":
		return fmt.Sprintf("shim_binary_file(*%s, %s);", loaded, file)
	case found != "" && from != "" && f.Names >= 0:
		return fmt.Sprintf("shim_kernel(*%s, %s, %s, %t);", found, from, f.Params[f.Names].Name, f.Contextless)
	case from != "" && role(api.Find, api.Binary) != "":
		return fmt.Sprintf("shim_binary_as(*%s, %s);", role(api.Find, api.Binary), from)
	case found != "" && role(api.Use, api.Function) != "":
		return fmt.Sprintf("shim_kernel_as(*%s, %s);", found, role(api.Use, api.Function))
	}
	return ""
}

// always reports whether the shim must act even if the call is not recorded.
func (m *model) always(f *api.Func) bool {
	return slices.ContainsFunc(m.formsOf(f), m.always) || m.owns(f) != "" || m.endsFunctions(f) || !m.changes(f).none()
}

// endsFunctions reports whether the call may end kernel functions.
func (m *model) endsFunctions(f *api.Func) bool {
	return f.Ends != "" || slices.ContainsFunc(f.Params, func(p api.Param) bool {
		return p.Role == api.End && (p.Object == api.Binary || p.Object == api.Context)
	})
}

// formsOf returns a function's forms.
func (m *model) formsOf(f *api.Func) (forms []*api.Func) {
	for i := range m.Funcs {
		if k := &m.Funcs[i]; k.Form != nil && f.Form == nil && k.Symbol() == f.Name {
			forms = append(forms, k)
		}
	}
	return forms
}
