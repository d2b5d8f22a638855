package schema

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
)

// The schema of each runtime has its recorded functions with all parameters, the kinds of their handles, and the enumerations that they use.
func TestRecordedFunctionsOfEachRuntime(t *testing.T) {
	for _, m := range runtimes.All {
		s := Of(m)
		if s.API != m.Name {
			t.Errorf("%s of %s", s.API, m.Name)
		}
		at := 0
		for i := range m.Funcs {
			f := &m.Funcs[i]
			if !f.Modelled {
				continue
			}
			got := &s.Functions[at]
			at++
			if got.ID != uint16(f.ID) || got.Name != f.Name || got.Ret != f.Return || got.Words != int(f.Words) || got.Pending != f.Pending || len(got.Params) != len(f.Params) {
				t.Fatalf("%+v", got)
			}
			for k := range f.Params {
				p, q := &f.Params[k], &got.Params[k]
				handle := uint8(0)
				if p.Names() {
					if handle = uint8(s.HandleKind(string(p.Object))); handle == 0 {
						t.Errorf("%s of %s has no kind", p.Name, f.Name)
					}
				}
				if q.Name != p.Name || q.Type != p.Type || q.Word != int(p.Word) || q.Words != int(p.Words) || q.Role != p.Role.String() || uint8(q.Handle) != handle {
					t.Errorf("%s: %+v", f.Name, q)
				}
			}
		}
		if at != len(s.Functions) || at == 0 {
			t.Errorf("%d functions of %d", at, len(s.Functions))
		}
		seen := map[string]bool{}
		for _, h := range s.Handles {
			if seen[h] {
				t.Errorf("%s twice", h)
			}
			seen[h] = true
		}
	}
	e := func(name string) api.Enum {
		return api.Enum{Type: name, Values: []api.EnumValue{{Name: "first", Value: -1}, {Name: "again", Value: -1}, {Name: "second", Value: 12}}}
	}
	m := &api.Model{Enums: []api.Enum{e("unused"), e("used"), e("returned")}}
	m.Funcs = []api.Func{{Return: "returned", Params: []api.Param{{Type: "used*"}}, CaptureRules: api.CaptureRules{Modelled: true}}, {Return: "unused"}}
	s := Of(m)
	if len(s.Enums) != 2 || len(s.Functions) != 1 || s.Enums["used"]["-1"] != "first" || s.Enums["used"]["12"] != "second" || len(s.Enums["returned"]) != 2 {
		t.Errorf("%+v", s)
	}
}
