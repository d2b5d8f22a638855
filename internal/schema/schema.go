// Package schema converts a runtime's API model to the schema in a trace file.
//
// Every program that creates a trace calls Of once, before format.Create: the recorder, the importers and tests. The
// package imports no recorder, so that importers and tests do not link one.
package schema

import (
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Of returns m's schema with all functions that have semantics. Recorders count calls to other functions by name.
func Of(m *api.Model) *format.Schema {
	s := &format.Schema{API: m.Name, Enums: map[string]map[string]string{}}
	used := map[string]bool{} // C types for returned values and parameters
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if !f.Modelled {
			continue
		}
		out := format.Function{ID: uint16(f.ID), Name: f.Name, Ret: f.Return, Words: int(f.Words), Pending: f.Pending}
		used[f.Return] = true
		for _, p := range f.Params {
			param := format.Param{Name: p.Name, Type: p.Type, Word: int(p.Word), Words: int(p.Words), Role: p.Role.String()}
			if p.Names() { // timeline.Skipper relies on it
				if s.HandleKind(string(p.Object)) == 0 {
					s.Handles = append(s.Handles, string(p.Object))
				}
				param.Handle = s.HandleKind(string(p.Object))
			}
			out.Params = append(out.Params, param)
			used[strings.TrimRight(p.Type, "*")] = true
		}
		s.Functions = append(s.Functions, out)
	}
	for _, e := range m.Enums {
		if !used[e.Type] {
			continue
		}
		names := map[string]string{}
		for _, v := range e.Values {
			if k := strconv.FormatInt(v.Value, 10); names[k] == "" {
				names[k] = v.Name
			}
		}
		s.Enums[e.Type] = names
	}
	return s
}
