package main

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// genFake writes the exports of the fake driver that are not written by hand: unsupported functions, functions that
// another one performs, functions for the thread's own default stream, and the table for cuGetProcAddress.
func genFake(m *model, w *writer) error {
	w.f("/* "+marker+" */\n", m.dir)
	w.f("#include \"fake.h\"\n\n#include <stddef.h>\n")
	performers, err := m.performers(m)
	if err != nil {
		return err
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		base, thread := variantOf(f.Name)
		switch by := performers[f.Name]; {
		case by != nil:
			w.f("%s(%s)\n{", cDecl(f.Return, f.Name), cParams(f))
			unused(w, f.Params[len(by.Params):])
			args := strings.Split(cArgs(f), ", ")[:len(by.Params)]
			for i, p := range by.Params {
				if p.Type != f.Params[i].Type {
					args[i] = "(" + p.Type + ")" + args[i]
				}
			}
			w.f("\treturn %s(%s);\n}\n", by.Name, strings.Join(args, ", "))
		case f.Simulated && !thread:
			continue
		case f.Simulated:
			w.f("%s(%s)\n{", cDecl(f.Return, f.Name), cParams(f))
			args := strings.Split(cArgs(f), ", ")
			if f.Stream >= 0 && f.Params[f.Stream].Role == api.Struct {
				w.f("\tif (config == NULL)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n\tCUlaunchConfig c = *config;\n\tc.hStream = fake_thread_stream(c.hStream);")
				args[f.Stream] = "&c"
			} else if f.Stream >= 0 {
				args[f.Stream] = "fake_thread_stream(" + args[f.Stream] + ")"
			}
			w.f("\treturn %s(%s);\n}\n", base, strings.Join(args, ", "))
		default:
			w.f("%s(%s)\n{", cDecl(f.Return, f.Name), cParams(f))
			unused(w, f.Params)
			w.f("\treturn fake_unsupported(\"%s\");\n}\n", f.Name)
		}
	}
	for _, name := range m.others {
		w.f("%s %s(void);\n%[1]s %[2]s(void) { return fake_unsupported(\"%[2]s\"); }\n", m.layer.Errors, name)
	}
	order := slices.Clone(m.Funcs)
	slices.SortFunc(order, func(a, b api.Func) int { return strings.Compare(a.Name, b.Name) })
	w.f("const struct fake_symbol fake_symbols[] = {")
	for _, f := range order {
		base, thread := variantOf(f.Name)
		if n := len(base) - len("_v2"); n > 0 && base[n:n+2] == "_v" && base[n+2] >= '0' && base[n+2] <= '9' {
			base = base[:n]
		}
		t := 0
		if thread {
			t = 1
		}
		w.f("\t{\"%s\", %d, %d, (void *)%s},", base, version(f.Since), t, f.Name)
	}
	w.f("\t{NULL, 0, 0, NULL},\n};")
	return nil
}

// unused writes statements for parameters that a function does not use.
func unused(w *writer, params []api.Param) {
	for _, p := range params {
		if p.Name != "..." {
			w.f("\t(void)%s;", p.Name)
		}
	}
}

// variantOf removes the suffix that selects the thread's own default stream.
func variantOf(name string) (base string, thread bool) {
	for _, end := range []string{"_ptsz", "_ptds"} {
		if base, ok := strings.CutSuffix(name, end); ok {
			return base, true
		}
	}
	return name, false
}
