package main

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// cSize is the expression for the number of bytes behind a pointer.
func cSize(f *api.Func, s api.Size) string {
	var t []string
	if s.Unit != 1 || len(s.Mul) == 0 {
		t = append(t, fmt.Sprintf("%dULL", s.Unit))
	}
	for _, p := range s.Mul {
		t = append(t, "(uint64_t)"+f.Params[p].Name)
	}
	return strings.Join(t, " * ")
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

// genShim writes the wrappers that stand before the runtime's functions.
func genShim(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.Name)
	w.f("#include \"acl/acl.h\"\n\n#include \"shim.h\"\n")
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if !f.Modelled {
			continue
		}
		if err := m.genWrapper(w, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func (m *model) genWrapper(w *writer, f *api.Func) error {
	w.f("SHIM_EXPORT %s(%s)\n{", cDecl(f.Return, f.Name), cParams(f))
	w.f("\tstatic void *slot;\n\t%s = shim_real(&slot, \"%s\");", cDecl(f.Return, "(*real)("+cParams(f)+")"), f.Name)
	w.f("\tif (real == NULL)")
	switch {
	case f.RetVoid:
		w.f("\t\treturn;")
	case f.RetError:
		w.f("\t\treturn ACL_ERROR_RT_FEATURE_NOT_SUPPORT;")
	default:
		w.f("\t\treturn 0;")
	}
	m.words(w, f, "w")
	words := "w"
	if f.Words == 0 {
		words = "NULL"
	}
	var before, after, later, hooks, hooksBefore []string
	reserve := []string{}
	outs := 0
	async := f.Stream >= 0
	stream := "NULL"
	if async {
		stream = f.Params[f.Stream].Name
	}
	add := func(l *[]string, format string, a ...any) { *l = append(*l, fmt.Sprintf(format, a...)) }
	for n, p := range f.Params {
		size := cSize(f, p.Size)
		into, ok := &after, "ok"
		if f.Task == api.Kernel {
			into, ok = &before, "true"
		}
		switch p.Role {
		case api.New, api.Find, api.Buffer:
			add(&after, "if (ok)\n\t\tshim_out(&c, %d, %s, 8);", n, p.Name)
			outs++
			switch {
			case p.Role == api.New && p.Object == api.Host:
				add(&hooks, "shim_host_new(*(uint64_t *)%s, %s);", p.Name, size)
			case p.Role == api.New && p.Object == api.ArgsList:
				add(&hooks, "shim_buffers_reset(*%s);", p.Name)
			case p.Role == api.Buffer:
				add(&hooks, "shim_buffer(%s, %s, *(uint64_t *)%s, %s);", f.Params[0].Name, f.Params[1].Name, p.Name, size)
			}
		case api.Place:
			add(&hooks, "shim_buffers_reset(%s);", p.Name)
		case api.End:
			switch p.Object {
			case api.Host:
				add(&hooksBefore, "shim_host_end((uint64_t)%s);", p.Name)
			case api.Stream:
				add(&hooksBefore, "shim_stream_ended();")
			}
		case api.Out:
			if p.Elem <= 8 {
				add(&after, "if (ok)\n\t\tshim_out(&c, %d, %s, %d);", n, p.Name, p.Elem)
				outs++
			} else {
				add(&after, "if (ok)\n\t\tshim_piece(&c, %d, PIECE_OUT, %s, %d, true);", n, p.Name, p.Elem)
			}
		case api.Args:
			reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %s)", p.Name, size))
			add(&before, "shim_piece(&c, %d, 0, %s, %s, true);", n, p.Name, size)
		case api.In:
			if f.Task == api.Kernel {
				reserve = append(reserve, fmt.Sprintf("shim_piece_room(%s, %s)", p.Name, size))
				add(&before, "shim_piece(&c, %d, 0, %s, %s, true);", n, p.Name, size)
			} else {
				add(&after, "shim_in(&c, %d, %s, %s, ok);", n, p.Name, size)
				add(&later, "shim_large(c.seq, %d, 0, %s, %s);", n, p.Name, size)
			}
		case api.List:
			add(into, "shim_list(&c, %d, %s, %d, %s);", n, p.Name, p.Elem, ok)
		case api.String:
			add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
		case api.File:
			add(into, "shim_string(&c, %d, 0, %s, RING_INLINE, %s);", n, p.Name, ok)
			add(&later, "shim_file(c.seq, %d, %s);", n, p.Name)
		case api.Text:
			add(&after, "if (ok)\n\t\tshim_string(&c, %d, PIECE_OUT, %s, %s, true);", n, p.Name, size)
		case api.Launch:
			add(&before, "shim_buffers_captured(&c, %d, %s);", n, p.Name)
		case api.Array:
			add(&before, "shim_args_array(&c, %d, %s, %s);", n, f.Params[0].Name, p.Name)
		case api.Reads, api.Writes:
			fn := "shim_" + p.Role.String()
			tail := fmt.Sprintf(", %t", async)
			if p.Role == api.Writes {
				tail += ", " + stream
			}
			switch {
			case p.ItemSizes >= 0:
				count := f.Params[p.ItemCount].Name
				add(&after, "shim_in(&c, %d, %s, 8ULL * %s, ok);", n, p.Name, count)
				add(&later, "for (uint64_t i = 0; i < %s; i++)\n\t\t\t%s(&c, %d, (uint32_t)(1 + i), %s[i], %s[i]%s);", count, fn, n, p.Name, f.Params[p.ItemSizes].Name, tail)
			case p.Size.Pitch >= 0:
				if p.Role == api.Reads {
					tail = ""
				}
				add(&later, "%s_rows(&c, %d, %s, %s, %s, %s%s);", fn, n, p.Name, f.Params[p.Size.Pitch].Name, f.Params[p.Size.Mul[0]].Name, f.Params[p.Size.Mul[1]].Name, tail)
			default:
				add(&later, "%s(&c, %d, 0, %s, %s%s);", fn, n, p.Name, size, tail)
			}
		}
	}
	switch f.Sync {
	case api.SyncDevice:
		add(&later, "shim_synced_device();")
	case api.SyncStream:
		s := stream
		if f.Stream < 0 {
			s = f.Params[0].Name
		}
		add(&later, "shim_synced_stream(%s);", s)
	case api.SyncEvent:
		add(&later, "shim_synced_event(%s);", f.Params[f.Event].Name)
	case api.PollStream, api.PollEvent:
		for _, p := range f.Params {
			if p.Role != api.Out {
				continue
			}
			v, err := m.completeValue(p.Type)
			if err != nil {
				return err
			}
			if f.Sync == api.PollStream {
				add(&later, "if (%s != NULL && *%s == %s)\n\t\t\tshim_synced_stream(%s);", p.Name, p.Name, v, stream)
			} else {
				add(&later, "if (%s != NULL && *%s == %s)\n\t\t\tshim_synced_event(%s);", p.Name, p.Name, v, f.Params[f.Event].Name)
			}
		}
	}
	if f.Task == api.Record {
		add(&hooks, "shim_event_recorded(%s, %s);", f.Params[f.Event].Name, stream)
	}
	if i, ok := m.selects[f.Name]; ok {
		add(&hooks, "shim_set_device(%s);", f.Params[i].Name)
	}
	if f.Task != api.NoTask && f.Stream >= 0 {
		add(&after, "if (ok)\n\t\tshim_task(&c, %s);", stream)
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
	w.f("\tstruct shim_call c;\n\tif (!shim_enter(&c, %d, %s, %d, %s)) {", f.ID, words, f.Words, strings.Join(reserve, " + "))
	w.f("\t%sreal(%s);\n\t\tshim_leave();\n\t%s\n\t}", ret, cArgs(f), give)
	for _, s := range before {
		w.f("\t%s", s)
	}
	for _, s := range hooksBefore {
		w.f("\t%s", s)
	}
	w.f("\tshim_commit(&c);\n%sreal(%s);\n\tshim_return(&c, %s);", ret, cArgs(f), word)
	if len(after)+len(later)+len(hooks) > 0 {
		if f.RetError {
			w.f("\tbool ok = ret == 0;")
		} else if strings.Contains(strings.Join(after, " ")+strings.Join(later, " ")+strings.Join(hooks, " "), "ok") || len(later)+len(hooks) > 0 {
			w.f("\tbool ok = true;")
		}
	}
	for _, s := range after {
		w.f("\t%s", s)
	}
	if len(hooks) > 0 {
		w.f("\tif (ok) {\n\t\t%s\n\t}", strings.Join(hooks, "\n\t\t"))
	}
	w.f("\tshim_exit(&c);")
	if len(later) > 0 {
		w.f("\tif (ok) {\n\t\t%s\n\t}", strings.Join(later, "\n\t\t"))
	}
	w.f("\tshim_leave();\n%s\n}\n", give)
	return nil
}
