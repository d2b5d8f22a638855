package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// cSize is the expression for the number of bytes behind a parameter.
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

// farMemory is what the shim calls the kinds of device memory that it remembers.
var farMemory = map[api.Object]string{api.Device: "ALLOCATED", api.Reservation: "RESERVED"}

// nested writes the capture of what the pointers of a structure lead to: what goes into the record of the call, and what is
// too large for it. All that a launch reads goes into its record.
func (m *model) nested(f *api.Func, p *api.Param, n int, ok string) (near, far string) {
	s, at, guard := m.structOf(f, p), p.Name+"->", ok+" && "+p.Name+" != NULL"
	if p.Words > 1 || !strings.HasSuffix(p.Type, "*") {
		at, guard = p.Name+".", ok
	}
	for i, field := range s.nested {
		from, size := fmt.Sprintf("(const void *)(uintptr_t)%s%s", at, field.field), strings.ReplaceAll(field.size, "@", at)
		put, cond := fmt.Sprintf("shim_far(&c, %d, 0, %d, %s, %s);", n, i+1, from, size), ""
		switch {
		case field.form == "packed":
			put = fmt.Sprintf("shim_packed(&c, %d, %d, %s%s);", n, i+1, at, field.field)
		case field.form != "":
			continue // of the program's alone
		case field.kernel != "":
			put = fmt.Sprintf("shim_args_array(&c, %d, %d, %s, %s%s);", n, api.ArgItems, strings.ReplaceAll(field.kernel, "@", at), at, field.field)
		case field.stored && field.makes.Memory():
			continue // it lies in the structure
		case field.makes != "":
			put, cond = fmt.Sprintf("shim_far(&c, %d, PIECE_OUT, %d, %s, %s);", n, i+1, from, size), fmt.Sprintf("if (%s <= RING_INLINE)\n\t\t\t", size)
		case size == "":
			put = fmt.Sprintf("shim_far_string(&c, %d, %d, %s);", n, i+1, from)
		case field.unless != "":
			cond = fmt.Sprintf("if (!%s%s)\n\t\t\t", at, field.unless)
		case f.Task != api.Kernel:
			cond = fmt.Sprintf("if (%s <= RING_INLINE)\n\t\t\t", size)
			if far != "" {
				far += "\n\t\t"
			}
			far += fmt.Sprintf("if (%s)\n\t\t\tshim_large(c.seq, %d, %d, %s, %s);", guard, n, i+1, from, size)
		}
		near += "\n\t\t" + cond + put
	}
	if near != "" {
		near = "if (" + guard + ") {" + near + "\n\t}"
	}
	return near, far
}

// queried reports whether a size is asked for by a handle of an object.
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

// completeValue is the value of an enumeration that says that what was asked about is complete.
func (m *model) completeValue(ctype string) (string, error) {
	for _, e := range m.Enums {
		if e.Type == strings.TrimSuffix(ctype, "*") {
			for _, v := range e.Values {
				if strings.HasSuffix(v.Name, "_COMPLETE") {
					return v.Name, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no value of %s says complete", ctype)
}

// version is a release as the CUDA driver numbers it, 1000 * major + 10 * minor; 0 for any other.
func version(since string) int {
	var major, minor int
	if n, err := fmt.Sscanf(since, "%d.%d", &major, &minor); n != 2 || err != nil || strings.Count(since, ".") != 1 {
		return 0
	}
	return 1000*major + 10*minor
}

// genLibraries writes the names of the runtime's libraries, for those parts in C that look for them.
func genLibraries(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.Name)
	w.f("/* Without versions, and without libraries whose functions enclose calls of the others. */\n#define RUNTIME_LIBRARIES \\")
	names := m.Libraries()
	for i, n := range names {
		end := ", \\"
		if i == len(names)-1 {
			end = ""
		}
		w.f("\t%q%s", n, end)
	}
	return nil
}

// genShim writes the wrappers that stand before the runtime's functions.
func genShim(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.Name)
	if m.Name == "acl" {
		w.f("#include \"acl/acl.h\"\n\n#include \"bind.h\"")
	} else {
		w.f("#define ACLTRACE_EXACT_NAMES\n#include \"bind.h\"\n#include \"%s.h\"", m.Name)
	}
	for _, l := range m.headers() {
		w.f("#include \"%s_gen.h\"", l.Name)
	}
	w.f("#include \"shim.h\"\n")
	var names []shimName
	counted := 0
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.HostCallback {
			w.f("const uint16_t shim_%s = %d;\n", f.Name, f.ID)
			continue
		}
		if !f.Modelled {
			names = append(names, shimName{f.Name, fmt.Sprintf("{\"%s\", counted_%s, &shim_counted[%d].real, NULL, NULL, %d}", f.Name, f.Name, counted, version(f.Since))})
			counted++
			continue
		}
		if f.Form != nil {
			continue // written with its function
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
	if len(m.injected) > 0 {
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
	w.f("const struct shim_injected shim_injected[] = {")
	for i := range m.Funcs {
		if at, ok := m.injected[m.Funcs[i].Name]; ok {
			n := m.Funcs[i].Name
			w.f("\t{\"%s\", %d, %d, (void *)inject_%s, &inside_%s.real},", n, at[0], at[1], n, n)
		}
	}
	w.f("\t{NULL, 0, 0, NULL, NULL},\n};\n")
	w.f("const struct shim_prefix shim_prefixes[] = {")
	for _, l := range m.layers {
		for _, p := range l.layer.Prefixes {
			name, capital := strings.CutSuffix(p, "^")
			w.f("\t{%q, %t},", name, capital)
		}
	}
	w.f("\t{NULL, false},\n};")
	return nil
}

// shimName is a row of the table of exported names.
type shimName struct{ name, row string }

// genEntries writes the ways into the wrapper of f: its own name, the name that it has in the library below where the
// runtime is split, and one without a name for a second library with the same function. The first is the one that
// counts, and has the wrapper's code to itself.
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
	if _, ok := m.injected[f.Name]; ok {
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

// plain writes a launch with a few small blocks, and nothing else to capture, where f can be one.
func (m *model) plain(w *writer, f *api.Func) bool {
	const words, blocks = 12, 3 // as in shim.h
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
	w.f("\t\tshim_stamp(&r->end);\n\t\tr->ret = %s;", m.cWord(f.Return, "ret"))
	w.f("\t\tif (ret == 0 && shim_after_task)\n\t\t\tshim_plain_task(r, %s);\n\t\telse\n\t\t\tshim_plain_exit(r);\n\t\treturn ret;\n\t}", f.Params[f.Stream].Name)
	w.f("\treturn main_%s(%s);\n}\n", f.Name, cArgs(f))
	return true
}

// wrapParams is the parameter list of a wrapper's body: what to call comes last, where it moves no other argument.
func wrapParams(f *api.Func) string {
	if len(f.Params) == 0 {
		return "struct shim_target *target"
	}
	return cParams(f) + ", struct shim_target *target"
}

// genCounted writes the functions that are counted without a look at their arguments: those that are not modelled.
func (m *model) genCounted(w *writer) {
	var names []string
	for i := range m.Funcs {
		if f := &m.Funcs[i]; !f.Modelled {
			// The C name differs from the exported one, which has a prototype.
			w.f("SHIM_COUNTED(%s, %d);", f.Name, len(names))
			names = append(names, f.Name)
		}
	}
	w.f("\nstruct shim_counted shim_counted[%d];\nconst uint32_t shim_counted_count = %d;\nconst char *const shim_counted_names[] = {", max(1, len(names)), len(names))
	for _, n := range names {
		w.f("\t\"%s\",", n)
	}
	w.f("\tNULL,\n};\n")
}

// owns is how what a function tells a thread of its own last calls is put right: the shim's are none of them.
func (m *model) owns(f *api.Func) string {
	switch m.meanings[f.Name].Tells {
	case lastTask:
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_last_task(%s);", f.Params[0].Name)
	case lastError:
		return "ret = shim_last_error(ret, false);"
	case lastErrorOnce:
		return "ret = shim_last_error(ret, true);"
	}
	switch k := m.meanings[f.Name]; {
	case k.Finds != "":
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_found(%s, pfn, cudaVersion, flags);", k.Finds)
	case k.Passes != "":
		return fmt.Sprintf("if (ret == 0)\n\t\t\tshim_passed(\"%s\");", f.Name)
	}
	if made := m.parameters(f); made != "" {
		return "if (ret == 0)\n\t\t\t" + made
	}
	return ""
}

// parameters is how the shim gets to know the parameters of kernels, where binaries tell what they are: from what is loaded, and by which
// handles the program names the kernels in it.
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
		// One of no context is another kind of handle, to be asked about by other functions.
		loose := slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Name == found && p.Type == "CUkernel*" })
		return fmt.Sprintf("shim_kernel(*%s, %s, %s, %t);", found, from, f.Params[f.Names].Name, loose)
	case from != "" && role(api.Find, api.Binary) != "":
		return fmt.Sprintf("shim_binary_as(*%s, %s);", role(api.Find, api.Binary), from)
	case found != "" && role(api.Use, api.Function) != "":
		return fmt.Sprintf("shim_kernel_as(*%s, %s);", found, role(api.Use, api.Function))
	}
	return ""
}

// always reports whether the shim has something to do in a call that is not recorded.
func (m *model) always(f *api.Func) bool {
	return slices.ContainsFunc(m.formsOf(f), m.always) || m.owns(f) != "" || m.endsFunctions(f) || !m.changes(f).none()
}

// endsFunctions reports whether functions are no more after a call.
func (m *model) endsFunctions(f *api.Func) bool {
	return m.meanings[f.Name].Ends != "" || slices.ContainsFunc(f.Params, func(p api.Param) bool {
		return p.Role == api.End && (p.Object == api.Binary || p.Object == api.Context)
	})
}

// formsOf are the forms of a function.
func (m *model) formsOf(f *api.Func) (forms []*api.Func) {
	for i := range m.Funcs {
		if k := &m.Funcs[i]; k.Form != nil && f.Form == nil && k.Symbol() == f.Name {
			forms = append(forms, k)
		}
	}
	return forms
}

// cName is the name of a function as a part of one in C.
func cName(f *api.Func) string { return strings.ReplaceAll(f.Name, ":", "_") }

func (m *model) genWrapper(w *writer, f *api.Func) error {
	inline := "static inline __attribute__((always_inline)) "
	if f.Form != nil {
		inline = "static __attribute__((noinline)) "
	}
	w.f("%s%s\n{", inline, cDecl(f.Return, "wrap_"+cName(f)+"("+wrapParams(f)+")"))
	if forms := m.formsOf(f); len(forms) > 0 {
		p := f.Params[forms[0].Form.Param].Name
		arm := m.arms[factorKey{forms[0].Name, p}]
		w.f("\tif (%s != NULL)\n\t\tswitch ((int64_t)%s->%s) {", p, p, arm.fields[0].name)
		for _, form := range forms {
			w.f("\t\tcase %d:\n\t\t\treturn wrap_%s(%s, target);", form.Form.Tag, cName(form), cArgs(f))
		}
		w.f("\t\t}")
	}
	w.f("\t%s = shim_real(&target->real, target->name);", cDecl(f.Return, "(*real)("+cParams(f)+")"))
	w.f("\tif (real == NULL)")
	switch {
	case f.RetVoid:
		w.f("\t\treturn;")
	case f.RetError:
		w.f("\t\treturn %s;", m.of(f).layer.Unsupported)
	default:
		w.f("\t\treturn 0;")
	}
	if m.endsFunctions(f) {
		w.f("\tshim_functions_end();")
	}
	words := "w"
	if f.Words == 0 {
		words = "NULL"
	}
	var before, after, later, hooksBefore []string
	reserve := []string{}
	objects := m.changes(f)
	// Around a call that was to be written down, and for which there was no room.
	var lostBefore, lost []string
	// What is done around any call that is not written down.
	var unseenBefore, unseenAfter []string
	outs := 0
	async := f.Stream >= 0
	kernel := max(0, slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Function }))
	stream := "NULL"
	if async {
		stream = m.stream(f)
	}
	add := func(l *[]string, format string, a ...any) { *l = append(*l, fmt.Sprintf(format, a...)) }
	told := "ok"
	for n, p := range f.Params {
		size := m.cSize(f, &p)
		into, ok := &after, "ok"
		if f.Task == api.Kernel {
			into, ok = &before, "true"
		}
		switch p.Role {
		case api.New, api.Find, api.Buffer:
			add(&after, "if (%s)\n\t\tshim_out(&c, %d, %s, %d);", told, n, p.Name, p.Elem)
			outs++
		case api.OutHandles:
			add(&after, "if (%s && %s != NULL && %s <= RING_INLINE)\n\t\tshim_far(&c, %d, PIECE_OUT, 0, *%s, %s);", told, p.Name, size, n, p.Name, size)
		case api.InOut:
			// What nothing says to be readable is read with care.
			reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %d)", p.Name, p.Elem))
			add(&before, "shim_piece(&c, %d, 0, %s, %d, false);", n, p.Name, p.Elem)
			fallthrough
		case api.Out:
			switch {
			case p.Always:
				reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %d)", p.Name, p.Elem))
				add(&after, "shim_piece(&c, %d, PIECE_OUT, %s, %d, ok);", n, p.Name, p.Elem)
			case p.Elem <= 8:
				add(&after, "if (%s)\n\t\tshim_out(&c, %d, %s, %d);", told, n, p.Name, p.Elem)
				outs++
			default:
				add(&after, "if (%s)\n\t\tshim_piece(&c, %d, PIECE_OUT, %s, %d, true);", told, n, p.Name, p.Elem)
			}
			if name, value, ok := strings.Cut(m.meanings[f.Name].Answers, "="); ok && p.Name == name {
				told = fmt.Sprintf("ok && %s != NULL && *%s == %s", name, name, value)
			}
		case api.Args:
			reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %s)", p.Name, size))
			add(&before, "shim_piece(&c, %d, 0, %s, %s, true);", n, p.Name, size)
		case api.Answer:
			if p.ItemSizes >= 0 {
				add(&after, "for (uint64_t i = 0; ok && i < %s; i++)\n\t\tshim_far(&c, %d, PIECE_OUT, (uint32_t)(1 + i), %s[i], %s[i]);",
					f.Params[p.ItemCount].Name, n, p.Name, f.Params[p.ItemSizes].Name)
			} else {
				add(&after, "if (ok)\n\t\tshim_piece(&c, %d, PIECE_OUT, %s, %s, true);", n, p.Name, size)
			}
		case api.Struct:
			if strings.HasSuffix(p.Type, "*") {
				if f.Task == api.Kernel {
					reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %d)", p.Name, p.Elem))
				}
				add(into, "shim_piece(&c, %d, 0, %s, %d, %s);", n, p.Name, p.Elem, ok)
			}
			near, far := m.nested(f, &p, n, ok)
			if near != "" {
				*into = append(*into, near)
			}
			if far != "" {
				later = append(later, far)
			}
			if b := p.CopyDesc; b != nil {
				w.f("\tstatic const struct shim_block block = {%s, %s, %d, %d, %dU};", cSide(&b.From), cSide(&b.To), b.Width, b.Height, b.Depth)
				for _, side := range []struct {
					name string
					item int
				}{{"from", api.BlockFrom}, {"to", api.BlockTo}} {
					if f.Graph >= 0 && side.item == api.BlockTo {
						// The call brings nothing: runs of the graph do.
						graph, node := inGraph(f)
						add(&later, "shim_block_captured(%s, %s, %s, &block);", graph, node, p.Name)
						continue
					}
					add(&later, "shim_block(&c, %d, %d, %s, &block, &block.%s, %t, %s);", n, side.item, p.Name, side.name, async, stream)
				}
			}
		case api.In, api.Uses:
			if f.Task == api.Kernel {
				reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %s)", p.Name, size))
				add(&before, "shim_piece(&c, %d, 0, %s, %s, true);", n, p.Name, size)
			} else if makes := slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.New }); makes && p.Role == api.Uses {
				// What the call makes may be stored in the place of what it uses.
				reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %s)", p.Name, size))
				add(&before, "shim_in(&c, %d, %s, %s, false);", n, p.Name, size)
				add(&later, "shim_large(c.seq, %d, 0, %s, %s);", n, p.Name, size)
			} else {
				guard := ""
				if len(m.factors[factorKey{f.Name, p.Name}]) > 0 {
					guard = "if (ok)\n\t\t" // what tells the size is asked only where the call has found it sound
				}
				add(&after, "%sshim_in(&c, %d, %s, %s, ok);", guard, n, p.Name, size)
				add(&later, "shim_large(c.seq, %d, 0, %s, %s);", n, p.Name, size)
			}
		case api.List:
			add(into, "shim_list(&c, %d, %s, %d, %s);", n, p.Name, p.Elem, ok)
		case api.String, api.Target:
			add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
		case api.File:
			add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
			add(&later, "shim_file(c.seq, %d, %s);", n, p.Name)
		case api.Text:
			add(&after, "if (ok)\n\t\tshim_string(&c, %d, PIECE_OUT, %s, %s, true);", n, p.Name, size)
		case api.Launch:
			add(&before, "shim_buffers_captured(&c, %d, %s);", n, p.Name)
		case api.ArgArray:
			add(&before, "shim_args_array(&c, %d, 0, %s, %s);", n, f.Params[kernel].Name, p.Name)
		case api.Packed:
			add(&before, "shim_packed(&c, %d, 1, %s);", n, p.Name)
		case api.Image:
			add(&after, "if (ok)\n\t\tshim_in(&c, %d, shim_image(%s), shim_image_size(%s), ok);", n, p.Name, p.Name)
			add(&later, "shim_large(c.seq, %d, 0, shim_image(%s), shim_image_size(%s));", n, p.Name, p.Name)
		case api.Reads, api.Writes:
			if p.Object == api.Device {
				break
			}
			fn := "shim_" + p.Role.String()
			tail := fmt.Sprintf(", %s, %t", saysHost(f, &p), async)
			if p.Role == api.Writes {
				tail += ", " + stream
			}
			switch {
			case p.ItemSizes >= 0:
				count := f.Params[p.ItemCount].Name
				add(&after, "shim_in(&c, %d, %s, 8ULL * %s, ok);", n, p.Name, count)
				add(&later, "shim_large(c.seq, %d, 0, %s, 8ULL * %s);", n, p.Name, count)
				sizes := f.Params[p.ItemSizes].Name
				if strings.Contains(p.Type, "void") {
					add(&later, "for (uint64_t i = 0; i < %s; i++)\n\t\t\t%s(&c, %d, (uint32_t)(1 + i), %s[i], %s[i]%s);", count, fn, n, p.Name, sizes, tail)
				} else {
					at := fmt.Sprintf("(void *)(uintptr_t)%s[i]", p.Name)
					add(&later, "for (uint64_t i = 0; i < %s; i++)\n\t\t\tif (shim_on_host(%s, %s[i]))\n\t\t\t\t%s(&c, %d, (uint32_t)(1 + i), %s, %s[i]%s);", count, at, sizes, fn, n, at, sizes, tail)
				}
			case p.Size.Pitch >= 0:
				add(&later, "%s_rows(&c, %d, 0, %s, %s, %s, %s%s);", fn, n, p.Name, f.Params[p.Size.Pitch].Name, f.Params[p.Size.Mul[0]].Name, f.Params[p.Size.Mul[1]].Name, tail)
			case !strings.HasSuffix(p.Type, "*"): // an address of the host or the device
				at := fmt.Sprintf("(void *)(uintptr_t)%s", p.Name)
				add(&later, "if (shim_on_host(%s, %s))\n\t\t\t%s(&c, %d, 0, %s, %s%s);", at, size, fn, n, at, size, tail)
			default:
				add(&later, "%s(&c, %d, 0, %s, %s%s);", fn, n, p.Name, size, tail)
			}
		}
	}
	switch f.Sync {
	case api.SyncDevice, api.SyncStream, api.PollStream:
		add(&lostBefore, "uint64_t until = shim_order();")
	case api.SyncEvent, api.PollEvent:
		add(&lostBefore, "struct shim_recorded last = shim_event_last(%s);", f.Params[f.Event].Name)
	}
	switch f.Sync {
	case api.SyncDevice:
		add(&lost, "shim_synced_device(until);")
	case api.SyncStream:
		s := stream
		if f.Stream < 0 {
			s = f.Params[0].Name
		}
		add(&lost, "shim_synced_stream(%s, until);", s)
	case api.SyncEvent:
		add(&lost, "shim_synced_event(%s, &last);", f.Params[f.Event].Name)
	case api.PollStream, api.PollEvent:
		if !slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.Out }) {
			if f.Sync == api.PollStream {
				add(&lost, "shim_synced_stream(%s, until);", stream)
			} else {
				add(&lost, "shim_synced_event(%s, &last);", f.Params[f.Event].Name)
			}
		}
		for _, p := range f.Params {
			if p.Role != api.Out {
				continue
			}
			v, err := m.completeValue(p.Type)
			if err != nil {
				return err
			}
			if f.Sync == api.PollStream {
				add(&lost, "if (%s != NULL && *%s == %s)\n\t\t\tshim_synced_stream(%s, until);", p.Name, p.Name, v, stream)
			} else {
				add(&lost, "if (%s != NULL && *%s == %s)\n\t\t\tshim_synced_event(%s, &last);", p.Name, p.Name, v, f.Params[f.Event].Name)
			}
		}
	}
	later = append(later, lost...)
	hooksBefore = append(hooksBefore, lostBefore...)
	lost = append(lost, m.overwrites(f)...)
	hooksBefore = append(hooksBefore, m.comesOver(f)...)
	if f.Task == api.Record && f.Graph < 0 && f.Params[f.Event].Object == api.Event {
		event := f.Params[f.Event].Name
		add(&hooksBefore, "uint64_t until = shim_order(), number = shim_event_begins(%s);", event)
		ok := "ok"
		if k := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Name == "flags" || p.Name == "flag" }); k >= 0 {
			ok = fmt.Sprintf("ok && !shim_graph_external(%s, %s)", event, f.Params[k].Name)
		}
		add(&after, "shim_event_recorded(%s, number, %s, %s, until);", event, ok, stream)
		add(&unseenBefore, "uint64_t number = shim_event_begins(%s);", event)
		add(&unseenAfter, "shim_event_recorded(%s, number, false, NULL, 0);", event)
	}
	if f.Task != api.NoTask && f.Stream >= 0 {
		add(&after, "if (ok)\n\t\tshim_task(&c, %s);", stream)
		if f.Task.Works() && !f.Composite {
			on := m.uses(f, int(f.Stream), api.Stream)
			if f.OwnStream && on != "NULL" {
				on = fmt.Sprintf("%s == NULL ? (void *)%dL : (void *)%s", on, m.OwnStream, on)
			}
			add(&hooksBefore, "shim_timed(&c, %s);", on)
		}
	}
	if graph := graphOf(f); f.Capture != api.CaptureEnd && f.Task == api.GraphRun && graph >= 0 {
		add(&after, "if (ok)\n\t\tshim_graph_results(&c, %d, %s);", graph, f.Params[graph].Name)
		add(&later, "shim_graph_run(&c, %d, %s, %s, %t);", graph, f.Params[graph].Name, stream, async)
	}
	if f.Task == api.HostFunc && m.plainCallback(f) {
		hooksBefore = append(hooksBefore, calledBack(f)...)
	}
	if f.Ret == api.Text {
		add(&after, "shim_string(&c, RET_PARAM, PIECE_OUT, ret, RING_INLINE, true);")
	}
	reserve = append([]string{fmt.Sprint(16 * outs)}, reserve...)
	ret, give, word := "\t"+cDecl(f.Return, "ret")+" = ", "\treturn ret;", ""
	if f.RetVoid {
		ret, give, word = "\t", "\treturn;", "0"
	} else {
		word = m.cWord(f.Return, "ret")
	}
	// What encloses other calls is written as two records: the ring goes on in between.
	enter, commit, returned, exit, leave := "shim_enter", "shim_commit(&c)", fmt.Sprintf("shim_return(&c, %s)", word), "shim_exit", "shim_leave"
	if f.Composite || f.PollsCallbacks {
		enter, commit, returned, exit, leave = "shim_begin", "shim_begun(&c)", fmt.Sprintf("shim_ended(&c, %d, %s)", f.ID, word), "shim_finish", "shim_outside"
	}
	if f.PollsCallbacks {
		enter, leave = "shim_report", "shim_reported"
	}
	outermost := "shim_outermost()"
	if f.Composite || f.PollsCallbacks {
		outermost = "shim_t.outer == 1"
	}
	switch {
	case m.always(f):
	case f.RetVoid:
		w.f("\tif (shim_quiet()) {\n\t\treal(%s);\n\t\treturn;\n\t}", cArgs(f))
	default:
		w.f("\tif (shim_quiet())\n\t\treturn real(%s);", cArgs(f))
	}
	m.words(w, f, "w")
	for _, l := range objects.leaves {
		w.f("\t%s", l)
	}
	if f.Task.Works() && !f.Composite {
		w.f("\tshim_visible_task(%t);", async)
	}
	w.f("\tstruct shim_call c;\n\tif (!%s(&c, %d, %s, %d, %s)) {", enter, f.ID, words, f.Words, strings.Join(reserve, " + "))
	own := m.owns(f)
	if own != "" {
		own = "\n\t\t" + own
	}
	good := ""
	if f.RetError {
		good = "ret == 0"
	}
	if len(objects.before)+len(objects.after) > 0 {
		add(&unseenBefore, "bool outermost = %s;", outermost)
		unseenBefore = append(unseenBefore, only([]string{"outermost"}, objects.before)...)
		unseenAfter = append(unseenAfter, only([]string{"outermost", good}, objects.after)...)
		unseenAfter = append(unseenAfter, only([]string{"outermost", not(good)}, objects.undo)...)
	}
	if len(lost) > 0 {
		unseenBefore = append(unseenBefore, lostBefore...)
		unseenAfter = append(unseenAfter, only([]string{"shim_missed()", good}, lost)...)
	}
	for _, s := range unseenBefore {
		w.f("\t\t%s", strings.ReplaceAll(s, "\n", "\n\t"))
	}
	w.f("\t%sreal(%s);%s", ret, cArgs(f), own)
	for _, s := range unseenAfter {
		w.f("\t\t%s", strings.ReplaceAll(s, "\n", "\n\t"))
	}
	w.f("\t\t%s();\n\t%s\n\t}", leave, give)
	for _, s := range slices.Concat(before, hooksBefore, objects.before) {
		w.f("\t%s", s)
	}
	w.f("\t%s;\n%sreal(%s);%s\n\t%s;", commit, ret, cArgs(f), own, returned)
	if len(after)+len(later)+len(objects.after)+len(objects.undo) > 0 {
		if f.RetError {
			w.f("\tbool ok = ret == 0;")
		} else if strings.Contains(strings.Join(after, " ")+strings.Join(later, " "), "ok") || len(later)+len(objects.after)+len(objects.undo) > 0 {
			w.f("\tbool ok = true;")
		}
	}
	if f.Composite && len(after) > 0 {
		after = slices.Concat([]string{"if (c.rec != NULL) {"}, after, []string{"}"})
	}
	for _, s := range slices.Concat(after, only([]string{"!ok"}, objects.undo), only([]string{"ok"}, objects.after)) {
		w.f("\t%s", s)
	}
	w.f("\t%s(&c);", exit)
	for _, s := range only([]string{"ok"}, later) {
		w.f("\t%s", s)
	}
	w.f("\t%s();\n%s\n}\n", leave, give)
	return nil
}

// stream is the expression for the stream that a call names, as the shim tells streams apart.
func (m *model) stream(f *api.Func) string {
	h := m.uses(f, int(f.Stream), api.Stream)
	if m.OwnStream == 0 {
		return h
	}
	return fmt.Sprintf("shim_stream(%s, %d, %t)", h, m.OwnStream, f.OwnStream)
}

// uses is the expression for the handle that a parameter is, or that lies in the structure behind it.
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

// plainCallback reports whether the function that a call has a stream call takes nothing but what the call says.
func (m *model) plainCallback(f *api.Func) bool {
	for _, p := range f.Params {
		for _, d := range m.typedefs {
			if p.Role == api.Callback && d.name == p.Type && strings.Contains(d.def, ",") {
				return false
			}
		}
	}
	return true
}

// calledBack puts the shim before the function of the program's that a call has a stream call.
func calledBack(f *api.Func) []string {
	fn, data := -1, -1
	for i, p := range f.Params {
		switch p.Role {
		case api.Callback:
			fn = i
		case api.Opaque:
			data = i
		}
	}
	if fn < 0 || data < 0 {
		return nil
	}
	q := &f.Params[fn]
	return []string{
		fmt.Sprintf("struct shim_function own = shim_host_function((void *)%s, %s);", q.Name, f.Params[data].Name),
		fmt.Sprintf("%s = (%s)own.fn;", q.Name, q.Type), fmt.Sprintf("%s = own.data;", f.Params[data].Name),
	}
}

// saysHost is whether a call declares the memory of a parameter to be the host's, in C.
func saysHost(f *api.Func, p *api.Param) string {
	if p.Hosts.Bits == 0 {
		return "false"
	}
	return fmt.Sprintf("shim_one_of(%s, %#x)", f.Params[p.Hosts.Param].Name, p.Hosts.Bits)
}
