package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// tagged describes a structure whose member Tag selects a form. The member with the form's name, if there is one, is valid.
// Except to the runtime, each form of a function with such a parameter is a separate function.
type tagged struct {
	Tag   string
	Forms map[string]struct {
		Value  int64
		Task   api.Task
		Replay string
		New    bool // only for functions that make an object
	}
}

// addForms makes the forms for all functions that take a tagged structure.
func (m *model) addForms(name string, t tagged) error {
	s := m.structByName(name)
	if s == nil || !s.has(t.Tag) {
		return fmt.Errorf("no structure with the member %s", t.Tag)
	}
	names := slices.SortedFunc(maps.Keys(t.Forms), func(a, b string) int { return int(t.Forms[a].Value - t.Forms[b].Value) })
	for i := range m.Funcs {
		base := &m.Funcs[i]
		n := slices.IndexFunc(base.Params, func(p api.Param) bool { return p.Type == name+"*" && p.Role == api.InOut })
		if n < 0 {
			continue
		}
		makes := slices.ContainsFunc(base.Params, func(p api.Param) bool { return p.Role == api.New })
		for _, form := range names {
			what := t.Forms[form]
			if what.New && !makes {
				continue
			}
			f := *base
			f.Name, f.ReplayError, f.Params = base.Name+":"+form, what.Replay, slices.Clone(base.Params)
			f.CaptureRules = api.CaptureRules{Modelled: base.Modelled}
			f.Form = &api.Form{Param: int8(n), Tag: what.Value}
			if f.Task = what.Task; f.Task == api.NoTask {
				f.Graph = -1
			}
			arm := m.arm(s, t.Tag, form)
			p := &f.Params[n]
			p.Role, p.Volatile, p.Addresses, p.Fields, p.CopyDesc = api.Struct, false, false, m.fields(arm), arm.block
			if (f.Task == api.Record || f.Task == api.Wait) && slices.ContainsFunc(p.Fields, func(f api.Field) bool { return f.Object == api.Event }) {
				f.Event = int8(n)
			}
			m.arms[factorKey{f.Name, p.Name}] = arm
			m.forms = append(m.forms, f)
		}
		base.Graph = -1 // the task is unknown
	}
	return nil
}

// arm returns a structure with the tag, the pointers and handles of all forms, and the flattened members of one form.
func (m *model) arm(s *structType, tag, form string) *structType {
	out := &structType{name: s.name + ":" + form, kind: s.kind, size: s.size, align: s.align, nested: slices.Clone(s.nested)}
	for _, f := range s.fields {
		nested := slices.ContainsFunc(s.nested, func(n nested) bool { return n.field == f.name || n.count == f.name })
		switch {
		case f.name == tag, nested, m.object(f.ctype) != "":
			out.fields = append(out.fields, f)
		case f.name == form:
			m.flatten(out, f.name+".", m.structByName(f.ctype), f.offset)
		}
	}
	return out
}

func (m *model) flatten(out *structType, prefix string, s *structType, at int) {
	for _, f := range s.fields {
		if inner := m.structByName(f.ctype); inner != nil {
			m.flatten(out, prefix+f.name+".", inner, at+f.offset)
			continue
		}
		f.name, f.offset = prefix+f.name, at+f.offset
		out.fields = append(out.fields, f)
	}
	for _, n := range s.nested {
		n.field, n.size, n.kernel = prefix+n.field, strings.ReplaceAll(n.size, "@", "@"+prefix), strings.ReplaceAll(n.kernel, "@", "@"+prefix)
		for _, member := range []*string{&n.unless, &n.when, &n.count} {
			if *member != "" {
				*member = prefix + *member
			}
		}
		out.nested = append(out.nested, n)
	}
	if s.block != nil {
		out.block = s.block.Shifted(uint32(at))
	}
}
