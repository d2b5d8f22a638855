package main

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// nothing returns the value for a failed call, if the function returns no error code.
func (m *model) nothing(ctype string) string {
	for _, e := range m.Enums {
		for _, v := range e.Values {
			if e.Type == ctype && (strings.HasSuffix(v.Name, "_UNDEFINED") || strings.HasSuffix(v.Name, "_NONE")) {
				return v.Name
			}
		}
	}
	return "0"
}

func genFace(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.dir)
	w.f("#include \"face.h\"")
	switch {
	case m.further != nil:
		for _, h := range m.further {
			w.f("#include \"%s\"", h.include)
		}
	default:
		w.f("#include \"%s\"", m.include)
	}
	if len(m.alone) > 0 {
		r := m.Runtime.Simulator.Release
		w.f("#include \"alone.h\"\n")
		w.f("const struct release release = {\"%s\", \"%s\", \"%s\"};", r.Toolkit, r.Interface, r.Device)
	}
	w.f("")
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if m.further != nil && f.Simulated {
			continue
		}
		w.f("FACE_EXPORT %s(%s)\n{", cDecl(f.Return, f.Name), cParams(f))
		if n := len(f.Params); n > 1 && f.Params[n-1].Name == "..." && slices.Contains(m.alone, f.Name) {
			w.f("\tva_list args;\n\n\tva_start(args, %s);\n\talone_%s(%s, args);\n\tva_end(args);\n}\n", f.Params[n-2].Name, f.Name, cArgs(&api.Func{Params: f.Params[:n-1]}))
			continue
		}
		if !f.Simulated {
			unused(w, f.Params)
			switch {
			case f.RetVoid:
				w.f("\tface_does_nothing(\"%s\");", f.Name)
			case f.RetError:
				w.f("\treturn face_unsupported(\"%s\");", f.Name)
			default:
				w.f("\tface_does_nothing(\"%s\");\n\treturn %s;", f.Name, m.nothing(f.Return))
			}
			w.f("}\n")
			continue
		}
		if f.Last == api.LastTask {
			w.f("\tif (face_last_task(%s))\n\t\treturn 0;", f.Params[0].Name)
		}
		if slices.Contains(m.alone, f.Name) {
			w.f("\tif (face_is_alone())\n\t\treturn alone_%s(%s);", f.Name, cArgs(f))
		}
		m.words(w, f, "w")
		words := "w"
		if f.Words == 0 {
			words = "NULL"
		}
		switch {
		case f.RetVoid:
			w.f("\tface_ask(%d, %s);", f.ID, words)
		case f.Return == "float":
			w.f("\treturn ((union { uint32_t u; float f; }){.u = (uint32_t)face_ask(%d, %s)}).f;", f.ID, words)
		case strings.HasSuffix(f.Return, "*") || m.handle(f.Return):
			w.f("\treturn (%s)(uintptr_t)face_ask(%d, %s);", f.Return, f.ID, words)
		case !f.RetError:
			w.f("\treturn (%s)face_ask(%d, %s);", f.Return, f.ID, words)
		default:
			w.f("\treturn (%s)face_call(%d, %s);", f.Return, f.ID, words)
		}
		w.f("}\n")
	}
	return nil
}
