package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// only returns an if statement around statements. It ignores empty conditions.
func only(conditions, statements []string) []string {
	if len(statements) == 0 {
		return nil
	}
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
	return []string{fmt.Sprintf("if (%s) {\n\t\t%s\n\t}", strings.Join(conditions, " && "), strings.Join(statements, "\n\t\t"))}
}

func not(condition string) string {
	if condition == "" {
		return "false"
	}
	return "!(" + condition + ")"
}

// nested returns the statements that capture the memory at a structure's pointers: in the call's record, or far for large
// memory. A launch's data always goes into the record.
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
			continue // only the program can use it
		case field.list != 0:
			put = fmt.Sprintf("shim_far_list(&c, %d, %d, %s, %d);", n, i+1, from, field.list)
		case field.kernel != "":
			put = fmt.Sprintf("shim_args_array(&c, %d, %d, %s, %s%s);", n, api.ArgItems, strings.ReplaceAll(field.kernel, "@", at), at, field.field)
		case field.stored && field.makes.Memory():
			continue // it is in the structure
		case field.makes != "":
			put, cond = fmt.Sprintf("shim_far(&c, %d, PIECE_OUT, %d, %s, %s);", n, i+1, from, size), fmt.Sprintf("if (%s <= RING_INLINE)\n\t\t\t", size)
		case size == "":
			put = fmt.Sprintf("shim_far_string(&c, %d, %d, %s);", n, i+1, from)
		case field.unless != "":
			cond = fmt.Sprintf("if (!%s%s)\n\t\t\t", at, field.unless)
		case field.when != "":
			cond = fmt.Sprintf("if (%s%s)\n\t\t\t", at, field.when)
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

// completeValue returns the name of the value by which a query reports that all work is complete.
func (m *model) completeValue(ctype string) (string, error) {
	for _, e := range m.Enums {
		if i := slices.IndexFunc(e.Values, func(v api.EnumValue) bool { return v.Complete }); i >= 0 && e.Type == strings.TrimSuffix(ctype, "*") {
			return e.Values[i].Name, nil
		}
	}
	return "", fmt.Errorf("complete: no value of %s", ctype)
}

// wrapper collects the statements of one wrapper.
type wrapper struct {
	m *model
	w *writer
	f *api.Func

	// Around the recorded call: before and after write into its record, hooks come before the call, and later comes after
	// the record is complete and only if the call succeeded.
	before, hooks, after, later []string
	// Around a call without room for a record.
	lostBefore, lost []string
	// Around any call that is not recorded.
	unseenBefore, unseenAfter []string

	reserve []string // bytes that the pieces need in the record, in C
	outs    int      // one-word outputs
	stored  string   // condition in C for outputs to be stored
	async   bool
	stream  string // in C
	objects *changes
}

// genWrapper writes the function that records a call of f and makes it.
func (m *model) genWrapper(w *writer, f *api.Func) error {
	c := &wrapper{m: m, w: w, f: f, stored: "ok", async: f.Stream >= 0, stream: "NULL", objects: m.changes(f)}
	if c.async {
		c.stream = m.stream(f)
	}
	c.head()
	for n := range f.Params {
		c.param(n, &f.Params[n])
	}
	if err := c.sync(); err != nil {
		return err
	}
	c.later = append(c.later, c.lost...)
	c.hooks = append(c.hooks, c.lostBefore...)
	c.lost = append(c.lost, m.overwrites(f)...)
	c.hooks = append(c.hooks, m.comesOver(f)...)
	c.task()
	c.description()
	c.body()
	return nil
}

// head writes the beginning: the switch over forms, and the look-up of the runtime's function.
func (c *wrapper) head() {
	m, w, f := c.m, c.w, c.f
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
}

// piece captures memory before the call.
func (c *wrapper) piece(n int, name, size string) {
	c.room(name, size)
	add(&c.before, "shim_piece(&c, %d, 0, %s, %s, true);", n, name, size)
}

// room reserves space in the record.
func (c *wrapper) room(name, size string) { add(&c.reserve, "shim_piece_room(%s, %s)", name, size) }

// input returns the statement list for inputs and its condition. A launch captures inputs before the call.
func (c *wrapper) input() (list *[]string, ok string) {
	if c.f.Task == api.Kernel {
		return &c.before, "true"
	}
	return &c.after, "ok"
}

// param captures a parameter.
func (c *wrapper) param(n int, p *api.Param) {
	f, size := c.f, c.m.cSize(c.f, p)
	into, ok := c.input()
	switch p.Role {
	case api.New, api.Find, api.Buffer:
		c.out(n, p)
	case api.OutHandles:
		add(&c.after, "if (%s && %s != NULL && %s <= RING_INLINE)\n\t\tshim_far(&c, %d, PIECE_OUT, 0, *%s, %s);", c.stored, p.Name, size, n, p.Name, size)
	case api.InOut, api.Out:
		c.output(n, p)
	case api.Args:
		c.piece(n, p.Name, size)
	case api.Answer:
		if p.ItemSizes >= 0 {
			add(&c.after, "for (uint64_t i = 0; ok && i < %s; i++)\n\t\tshim_far(&c, %d, PIECE_OUT, (uint32_t)(1 + i), %s[i], %s[i]);",
				f.Params[p.ItemCount].Name, n, p.Name, f.Params[p.ItemSizes].Name)
		} else {
			add(&c.after, "if (ok)\n\t\tshim_piece(&c, %d, PIECE_OUT, %s, %s, true);", n, p.Name, size)
		}
	case api.Struct:
		c.structure(n, p)
	case api.In, api.Uses:
		c.array(n, p, size)
	case api.List:
		add(into, "shim_list(&c, %d, %s, %d, %s);", n, p.Name, p.Elem, ok)
	case api.String, api.Target:
		add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
	case api.File:
		add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
		add(&c.later, "shim_file(c.seq, %d, %s);", n, p.Name)
	case api.Text:
		add(&c.after, "if (ok)\n\t\tshim_string(&c, %d, PIECE_OUT, %s, %s, true);", n, p.Name, size)
	case api.Launch:
		add(&c.before, "shim_buffers_captured(&c, %d, %s);", n, p.Name)
	case api.ArgArray:
		kernel := max(0, slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Function }))
		add(&c.before, "shim_args_array(&c, %d, 0, %s, %s);", n, f.Params[kernel].Name, p.Name)
	case api.Packed:
		add(&c.before, "shim_packed(&c, %d, 1, %s);", n, p.Name)
	case api.Image:
		add(&c.after, "if (ok)\n\t\tshim_in(&c, %d, shim_image(%s), shim_image_size(%s), ok);", n, p.Name, p.Name)
		add(&c.later, "shim_large(c.seq, %d, 0, shim_image(%s), shim_image_size(%s));", n, p.Name, p.Name)
	case api.Reads, api.Writes:
		if p.Object != api.Device {
			c.payload(n, p, size)
		}
	}
}

// out captures an output that fits one word.
func (c *wrapper) out(n int, p *api.Param) {
	add(&c.after, "if (%s)\n\t\tshim_out(&c, %d, %s, %d);", c.stored, n, p.Name, p.Elem)
	c.outs++
}

// output captures an Out or InOut.
func (c *wrapper) output(n int, p *api.Param) {
	elem := fmt.Sprint(p.Elem)
	if p.Role == api.InOut {
		// No other argument shows whether the memory is readable, so the read must not fault.
		c.room(p.Name, elem)
		add(&c.before, "shim_piece(&c, %d, 0, %s, %s, false);", n, p.Name, elem)
	}
	switch {
	case p.Always:
		c.room(p.Name, elem)
		add(&c.after, "shim_piece(&c, %d, PIECE_OUT, %s, %s, ok);", n, p.Name, elem)
	case p.Elem <= 8:
		c.out(n, p)
	default:
		add(&c.after, "if (%s)\n\t\tshim_piece(&c, %d, PIECE_OUT, %s, %s, true);", c.stored, n, p.Name, elem)
	}
	if name, value, ok := strings.Cut(c.f.Answers, "="); ok && p.Name == name {
		c.stored = fmt.Sprintf("ok && %s != NULL && *%s == %s", name, name, value)
	}
}

// structure captures a Struct, the memory at its pointers, and the copy that it describes.
func (c *wrapper) structure(n int, p *api.Param) {
	f := c.f
	into, ok := c.input()
	if strings.HasSuffix(p.Type, "*") {
		if f.Task == api.Kernel {
			c.room(p.Name, fmt.Sprint(p.Elem))
		}
		add(into, "shim_piece(&c, %d, 0, %s, %d, %s);", n, p.Name, p.Elem, ok)
	}
	near, far := c.m.nested(f, p, n, ok)
	if near != "" {
		*into = append(*into, near)
	}
	if far != "" {
		c.later = append(c.later, far)
	}
	b := p.CopyDesc
	if b == nil {
		return
	}
	c.w.f("\tstatic const struct shim_block block = {%s, %s, %d, %d, %dU};", cSide(&b.From), cSide(&b.To), b.Width, b.Height, b.Depth)
	block := func(item int, side string) {
		add(&c.later, "shim_block(&c, %d, %d, %s, &block, &block.%s, %t, %s);", n, item, p.Name, side, c.async, c.stream)
	}
	block(api.CopyFrom, "from")
	if f.Graph >= 0 { // runs of the graph copy, not the call
		graph, node := inGraph(f)
		add(&c.later, "shim_block_captured(%s, %s, %s, &block);", graph, node, p.Name)
		return
	}
	block(api.CopyTo, "to")
}

// array captures an In or Uses.
func (c *wrapper) array(n int, p *api.Param, size string) {
	makes := slices.ContainsFunc(c.f.Params, func(q api.Param) bool { return q.Role == api.New })
	switch {
	case c.f.Task == api.Kernel:
		c.piece(n, p.Name, size)
		return
	case makes && p.Role == api.Uses:
		// The call may store its result over the array.
		c.room(p.Name, size)
		add(&c.before, "shim_in(&c, %d, %s, %s, false);", n, p.Name, size)
	case len(c.m.factors[factorKey{c.f.Name, p.Name}]) > 0:
		// The size is looked up only if the call has accepted its arguments.
		add(&c.after, "if (ok)\n\t\tshim_in(&c, %d, %s, %s, ok);", n, p.Name, size)
	default:
		add(&c.after, "shim_in(&c, %d, %s, %s, ok);", n, p.Name, size)
	}
	add(&c.later, "shim_large(c.seq, %d, 0, %s, %s);", n, p.Name, size)
}

// payload captures Reads or Writes.
func (c *wrapper) payload(n int, p *api.Param, size string) {
	f := c.f
	fn := "shim_" + p.Role.String()
	tail := fmt.Sprintf(", %s, %t", saysHost(f, p), c.async)
	if p.Role == api.Writes {
		tail += ", " + c.stream
	}
	switch {
	case p.ItemSizes >= 0:
		count, sizes := f.Params[p.ItemCount].Name, f.Params[p.ItemSizes].Name
		add(&c.after, "shim_in(&c, %d, %s, 8ULL * %s, ok);", n, p.Name, count)
		add(&c.later, "shim_large(c.seq, %d, 0, %s, 8ULL * %s);", n, p.Name, count)
		if strings.Contains(p.Type, "void") {
			add(&c.later, "for (uint64_t i = 0; i < %s; i++)\n\t\t\t%s(&c, %d, (uint32_t)(1 + i), %s[i], %s[i]%s);", count, fn, n, p.Name, sizes, tail)
		} else {
			at := fmt.Sprintf("(void *)(uintptr_t)%s[i]", p.Name)
			add(&c.later, "for (uint64_t i = 0; i < %s; i++)\n\t\t\tif (shim_on_host(%s, %s[i]))\n\t\t\t\t%s(&c, %d, (uint32_t)(1 + i), %s, %s[i]%s);", count, at, sizes, fn, n, at, sizes, tail)
		}
	case p.Size.Pitch >= 0:
		add(&c.later, "%s_rows(&c, %d, 0, %s, %s, %s, %s%s);", fn, n, p.Name, f.Params[p.Size.Pitch].Name, f.Params[p.Size.Mul[0]].Name, f.Params[p.Size.Mul[1]].Name, tail)
	case !strings.HasSuffix(p.Type, "*"): // a host or device address
		at := fmt.Sprintf("(void *)(uintptr_t)%s", p.Name)
		add(&c.later, "if (shim_on_host(%s, %s))\n\t\t\t%s(&c, %d, 0, %s, %s%s);", at, size, fn, n, at, size, tail)
	default:
		add(&c.later, "%s(&c, %d, 0, %s, %s%s);", fn, n, p.Name, size, tail)
	}
}

// sync captures the results that a wait completes.
func (c *wrapper) sync() error {
	f := c.f
	var synced string
	switch f.Sync {
	case api.NoSync:
		return nil
	case api.SyncDevice:
		synced = "shim_synced_device(until);"
	case api.SyncStream, api.PollStream:
		stream := c.stream
		if f.Stream < 0 && f.Sync == api.SyncStream {
			stream = f.Params[0].Name
		}
		synced = fmt.Sprintf("shim_synced_stream(%s, until);", stream)
	case api.SyncEvent, api.PollEvent:
		synced = fmt.Sprintf("shim_synced_event(%s, &last);", f.Params[f.Event].Name)
	}
	if f.Sync == api.SyncEvent || f.Sync == api.PollEvent {
		add(&c.lostBefore, "struct shim_recorded last = shim_event_last(%s);", f.Params[f.Event].Name)
	} else {
		add(&c.lostBefore, "uint64_t until = shim_order();")
	}
	polled := false
	for _, p := range f.Params {
		if p.Role != api.Out || f.Sync != api.PollStream && f.Sync != api.PollEvent {
			continue
		}
		v, err := c.m.completeValue(p.Type)
		if err != nil {
			return err
		}
		polled = true
		add(&c.lost, "if (%s != NULL && *%s == %s)\n\t\t\t%s", p.Name, p.Name, v, synced)
	}
	if !polled {
		c.lost = append(c.lost, synced)
	}
	return nil
}

// task adds the statements about the task on a stream or in a graph.
func (c *wrapper) task() {
	m, f := c.m, c.f
	if f.Task == api.Record && f.Graph < 0 && f.Params[f.Event].Object == api.Event {
		event := f.Params[f.Event].Name
		add(&c.hooks, "uint64_t until = shim_order(), number = shim_event_begins(%s);", event)
		ok := "ok"
		if k := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Flags }); k >= 0 {
			ok = fmt.Sprintf("ok && !shim_graph_external(%s, %s)", event, f.Params[k].Name)
		}
		add(&c.after, "shim_event_recorded(%s, number, %s, %s, until);", event, ok, c.stream)
		add(&c.unseenBefore, "uint64_t number = shim_event_begins(%s);", event)
		add(&c.unseenAfter, "shim_event_recorded(%s, number, false, NULL, 0);", event)
	}
	if f.Task == api.Wait && f.Graph < 0 && f.Stream >= 0 && f.Event >= 0 && f.Params[f.Event].Object == api.Event {
		add(&c.after, "if (ok)\n\t\tshim_stream_waits(%s, %s);", c.stream, f.Params[f.Event].Name)
	}
	if f.Task != api.NoTask && f.Stream >= 0 {
		add(&c.after, "if (ok)\n\t\tshim_task(&c, %s);", c.stream)
		if f.Task.Works() && !f.Composite {
			on := m.uses(f, int(f.Stream), api.Stream)
			if f.OwnStream && on != "NULL" {
				on = fmt.Sprintf("%s == NULL ? (void *)%dL : (void *)%s", on, m.OwnStream, on)
			}
			add(&c.hooks, "shim_timed(&c, %s);", on)
			add(&c.later, "shim_timed_later();")
		}
	}
	if graph := graphOf(f); f.Capture != api.CaptureEnd && f.Task == api.GraphRun && graph >= 0 {
		add(&c.after, "if (ok)\n\t\tshim_graph_results(&c, %d, %s);", graph, f.Params[graph].Name)
		add(&c.later, "shim_graph_run(&c, %d, %s, %s, %t);", graph, f.Params[graph].Name, c.stream, c.async)
	}
	if f.Task == api.HostFunc && m.plainCallback(f) {
		c.hooks = append(c.hooks, calledBack(f)...)
	}
	if f.Ret == api.Text {
		add(&c.after, "shim_string(&c, RET_PARAM, PIECE_OUT, ret, RING_INLINE, true);")
	}
}

// protocol holds the shim functions that begin and end a record, and the statements around the runtime's function.
type protocol struct{ enter, commit, returned, exit, leave, ret, give, own, outermost string }

func (c *wrapper) protocol() protocol {
	f, word := c.f, "0"
	p := protocol{enter: "shim_enter", commit: "shim_commit(&c)", exit: "shim_exit", leave: "shim_leave", ret: "\t", give: "\treturn;", outermost: "shim_outermost()"}
	if !f.RetVoid {
		p.ret, p.give, word = "\t"+cDecl(f.Return, "ret")+" = ", "\treturn ret;", c.m.cWord(f.Return, "ret")
	}
	p.returned = fmt.Sprintf("shim_return(&c, %s)", word)
	// A composite call has two records, because other records come in between.
	if f.Composite || f.PollsCallbacks {
		p.enter, p.commit, p.returned, p.exit, p.leave = "shim_begin", "shim_begun(&c)", fmt.Sprintf("shim_ended(&c, %d, %s)", f.ID, word), "shim_finish", "shim_outside"
		p.outermost = "shim_t.outer == 1"
	}
	if f.PollsCallbacks {
		p.enter, p.leave = "shim_report", "shim_reported"
	}
	if own := c.m.owns(f); own != "" {
		p.own = "\n\t\t" + own
	}
	return p
}

// body writes the rest of the wrapper from the collected statements.
func (c *wrapper) body() {
	m, w, f := c.m, c.w, c.f
	quiet := "shim_quiet()"
	if f.Operand != api.NoOperand {
		quiet += " || shim_control->operators != OPERATORS_ALL"
	}
	switch {
	case m.always(f):
	case f.RetVoid:
		w.f("\tif (%s) {\n\t\treal(%s);\n\t\treturn;\n\t}", quiet, cArgs(f))
	default:
		w.f("\tif (%s)\n\t\treturn real(%s);", quiet, cArgs(f))
	}
	m.words(w, f, "w")
	for _, l := range c.objects.leaves {
		w.f("\t%s", l)
	}
	if f.Task.Works() && !f.Composite {
		w.f("\tshim_visible_task(%t);", c.async)
	}
	words := "w"
	if f.Words == 0 {
		words = "NULL"
	}
	p := c.protocol()
	reserve := append([]string{fmt.Sprint(16 * c.outs)}, c.reserve...)
	w.f("\tstruct shim_call c;\n\tif (!%s(&c, %d, %s, %d, %s)) {", p.enter, f.ID, words, f.Words, strings.Join(reserve, " + "))
	c.unseen(&p)
	w.f("\t\t%s();\n\t%s\n\t}", p.leave, p.give)
	for _, s := range slices.Concat(c.before, c.hooks, c.objects.before) {
		w.f("\t%s", s)
	}
	w.f("\t%s;\n%s%s;%s\n\t%s;", p.commit, p.ret, c.real(), p.own, p.returned)
	changed := len(c.objects.after)+len(c.objects.undo) > 0
	switch after := strings.Join(c.after, " "); {
	case f.RetError && (len(c.after)+len(c.later) > 0 || changed):
		w.f("\tbool ok = ret == 0;")
	case !f.RetError && (strings.Contains(after, "ok") || len(c.later) > 0 || changed):
		w.f("\tbool ok = true;")
	}
	if f.Composite && len(c.after) > 0 {
		c.after = slices.Concat([]string{"if (c.rec != NULL) {"}, c.after, []string{"}"})
	}
	for _, s := range slices.Concat(c.after, only([]string{"!ok"}, c.objects.undo), only([]string{"ok"}, c.objects.after)) {
		w.f("\t%s", s)
	}
	w.f("\t%s(&c);", p.exit)
	for _, s := range only([]string{"ok"}, c.later) {
		w.f("\t%s", s)
	}
	w.f("\t%s();\n%s\n}\n", p.leave, p.give)
}

// real returns the call of the runtime's function.
func (c *wrapper) real() string {
	if c.f.Kept {
		return fmt.Sprintf("shim_keeps() ? 0 : real(%s)", cArgs(c.f))
	}
	return fmt.Sprintf("real(%s)", cArgs(c.f))
}

// description adds the statements by which the shim gets descriptions of operators that the runtime does not ask for.
func (c *wrapper) description() {
	if c.f.Kept {
		c.before = append(c.before, "shim_note_kept(&c);")
	}
	if param, value, asks := strings.Cut(c.f.Offers, "="); asks {
		answer := c.f.Params[len(c.f.Params)-1].Name
		add(&c.after, "if (%s == %s)\n\t\tshim_offered(ok, (uint32_t *)%s);", param, value, answer)
		add(&c.unseenAfter, "if (%s == %s)\n\t\tshim_offered(false, NULL);", param, value)
	}
}

// unseen writes a call that is not recorded: the shim still follows the objects.
func (c *wrapper) unseen(p *protocol) {
	good := ""
	if c.f.RetError {
		good = "ret == 0"
	}
	if o := c.objects; len(o.before)+len(o.after) > 0 {
		add(&c.unseenBefore, "bool outermost = %s;", p.outermost)
		c.unseenBefore = append(c.unseenBefore, only([]string{"outermost"}, o.before)...)
		c.unseenAfter = append(c.unseenAfter, only([]string{"outermost", good}, o.after)...)
		c.unseenAfter = append(c.unseenAfter, only([]string{"outermost", not(good)}, o.undo)...)
	}
	if len(c.lost) > 0 {
		c.unseenBefore = append(c.unseenBefore, c.lostBefore...)
		c.unseenAfter = append(c.unseenAfter, only([]string{"shim_missed()", good}, c.lost)...)
	}
	for _, s := range c.unseenBefore {
		c.w.f("\t\t%s", strings.ReplaceAll(s, "\n", "\n\t"))
	}
	c.w.f("\t%s%s;%s", p.ret, c.real(), p.own)
	for _, s := range c.unseenAfter {
		c.w.f("\t\t%s", strings.ReplaceAll(s, "\n", "\n\t"))
	}
}

// plainCallback reports whether the host callback takes only the program's argument.
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

// calledBack returns the statements that replace a host callback by the shim's own.
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
