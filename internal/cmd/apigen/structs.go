package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
)

var madeRE = regexp.MustCompile(`^new ([a-z ]+)\((.*)\)$`)

// nest parses the key structs of semantics.yaml, which documents the grammar, for one structure.
func (m *model) nest(name string, fields map[string]string) error {
	s := m.structByName(name)
	if s == nil {
		return fmt.Errorf("its layout is unknown")
	}
	for _, f := range s.fields {
		text, ok := fields[f.name]
		if !ok {
			continue
		}
		delete(fields, f.name)
		n := nested{field: f.name}
		text, n.stored = strings.CutPrefix(text, "stored ")
		if made := madeRE.FindStringSubmatch(text); made != nil {
			n.makes, text = api.Object(made[1]), made[2]
		}
		if kernels, ok := strings.CutPrefix(text, "arguments of "); ok {
			for _, k := range strings.Fields(kernels) {
				if !s.has(k) {
					return fmt.Errorf("no field %s", k)
				}
				if n.kernel != "" {
					n.kernel += " ? (const void *)" + n.kernel + " : (const void *)"
				}
				n.kernel += "@" + k
			}
			s.nested = append(s.nested, n)
			continue
		}
		if text == "packed" || text == "function" || text == "omit" {
			n.form = text
			s.nested = append(s.nested, n)
			continue
		}
		if size, ok := strings.CutPrefix(text, "list "); ok {
			var err error
			if n.list, err = strconv.ParseUint(size, 10, 32); err != nil {
				return fmt.Errorf("list needs the size of an element: %w", err)
			}
			s.nested = append(s.nested, n)
			continue
		}
		n.size, n.unless, _ = strings.Cut(text, " unless ")
		n.size, n.when, _ = strings.Cut(n.size, " if ")
		for _, member := range []string{n.unless, n.when} {
			if member != "" && !s.has(member) {
				return fmt.Errorf("no field %s", member)
			}
		}
		if n.size == "string" {
			n.size = ""
		} else {
			terms := strings.Split(n.size, "*")
			n.unit = 1
			for i, t := range terms {
				if k, err := strconv.ParseUint(t, 10, 32); err == nil {
					n.unit *= k
					continue
				}
				if !s.has(t) {
					return fmt.Errorf("no field %s", t)
				}
				if n.count != "" {
					return fmt.Errorf("size of %s: a product of two fields", f.name)
				}
				n.count, terms[i] = t, "(uint64_t)@"+t
			}
			n.size = strings.Join(terms, " * ")
		}
		s.nested = append(s.nested, n)
	}
	for f := range fields {
		return fmt.Errorf("no field %s", f)
	}
	return nil
}

// fields returns a structure's pointers and handles.
func (m *model) fields(s *structType) []api.Field {
	var fs []api.Field
	for _, f := range s.fields {
		if i := slices.IndexFunc(s.nested, func(n nested) bool { return n.field == f.name }); i >= 0 {
			n := &s.nested[i]
			var elem string
			if base, pointer := strings.CutSuffix(strings.TrimPrefix(f.ctype, "const "), "*"); pointer && m.structByName(base) != nil {
				elem = base
			}
			fs = append(fs, api.Field{Type: elem, Offset: uint32(f.offset), Item: uint32(i + 1), String: n.size == "" && n.form == "" && n.kernel == "" && n.list == 0, Unit: n.unit,
				Count: s.member(n.count), Unless: s.member(n.unless), If: s.member(n.when), List: uint32(n.list), Object: n.makes, New: n.makes != "", Args: n.kernel != "", Packed: n.form == "packed",
				Callback: n.form == "function", OmitOnReplay: n.form == "omit", Stored: n.stored})
			if last := &fs[len(fs)-1]; n.stored && n.makes.Memory() {
				last.Item = 0
			}
		} else if o := m.object(f.ctype); o != "" {
			fs = append(fs, api.Field{Offset: uint32(f.offset), Object: o})
			for _, side := range s.sides() {
				if last := &fs[len(fs)-1]; side.Array == last.Offset {
					last.Tag, last.Case = api.Member{Offset: side.Kind, Size: 4}, api.ArrayEnd
				}
			}
		}
	}
	if l := m.Layout(s.name); l != nil && l.Tag != nil {
		for _, v := range slices.Sorted(maps.Keys(l.Cases)) {
			for _, c := range l.Cases[v] {
				if c.Object != "" {
					fs = append(fs, api.Field{Offset: c.Offset, Object: c.Object, Tag: *l.Tag, Case: uint64(v)})
				}
			}
		}
	}
	return fs
}

func (s *structType) sides() []api.CopyEnd {
	if s.block == nil {
		return nil
	}
	return []api.CopyEnd{s.block.From, s.block.To}
}

// block names the fields by which a structure describes a copy.
type block struct {
	From, To             map[string]string
	Width, Height, Depth string
}

func (m *model) block(name string, b *block) error {
	s := m.structByName(name)
	if s == nil {
		return fmt.Errorf("its layout is unknown")
	}
	var err error
	at := func(name string, size int) uint32 {
		if name == "" {
			return api.NoField
		}
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == name })
		if i < 0 || s.fields[i].size != size {
			err = fmt.Errorf("%s is no field of %d bytes", name, size)
			return 0
		}
		return uint32(s.fields[i].offset)
	}
	side := func(f map[string]string) api.CopyEnd {
		return api.CopyEnd{Kind: at(f["kind"], 4), Host: at(f["host"], 8), Device: at(f["device"], 8), Array: at(f["array"], 8), X: at(f["x"], 8), Y: at(f["y"], 8), Z: at(f["z"], 8), Pitch: at(f["pitch"], 8), Rows: at(f["rows"], 8)}
	}
	s.block = &api.CopyDesc{From: side(b.From), To: side(b.To), Width: at(b.Width, 8), Height: at(b.Height, 8), Depth: at(b.Depth, 8)}
	return err
}

// shown names the members that viewers show: a list, or a tag and the member of the union Value for each tag value.
type shown struct {
	Members    []string
	Tag, Value string
	Cases      map[int64]string
}

func (m *model) shown(name string, t shown) (*api.Layout, error) {
	s := m.structByName(name)
	if s == nil {
		return nil, errors.New("not in structs.tsv")
	}
	out := &api.Layout{Type: name, Size: uint32(s.size)}
	var err error
	for _, n := range t.Members {
		ms, e := m.members(s, n, 0)
		for i := range ms {
			if len(ms) > 1 { // of a nested structure
				ms[i].Name = n + "." + ms[i].Name
			}
		}
		out.Members, err = append(out.Members, ms...), errors.Join(err, e)
	}
	if t.Tag == "" {
		return out, err
	}
	tag, err := m.members(s, t.Tag, 0)
	if err != nil {
		return nil, err
	}
	out.Tag, out.Cases = &tag[0], map[int64][]api.Member{}
	for _, e := range m.Enums {
		if e.Type == out.Tag.Type {
			out.Prefix = prefix(e.Values)
		}
	}
	value := slices.IndexFunc(s.fields, func(f field) bool { return f.name == t.Value })
	if value < 0 {
		return nil, fmt.Errorf("no member %s", t.Value)
	}
	union := m.structByName(s.fields[value].ctype)
	if union == nil {
		return nil, fmt.Errorf("%s is no union", t.Value)
	}
	for v, n := range t.Cases {
		if out.Cases[v], err = m.members(union, n, s.fields[value].offset); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// members returns a member with its offset, or the members of a nested structure.
func (m *model) members(s *structType, name string, at int) (ms []api.Member, err error) {
	for _, f := range s.fields {
		if f.name != name {
			continue
		}
		inner := m.structByName(f.ctype)
		if inner == nil {
			return []api.Member{{Name: f.name, Object: m.object(f.ctype), Type: f.ctype, Offset: uint32(at + f.offset), Size: uint32(f.size)}}, nil
		}
		for _, g := range inner.fields {
			more, e := m.members(inner, g.name, at+f.offset)
			ms, err = append(ms, more...), errors.Join(err, e)
		}
		return ms, err
	}
	return nil, fmt.Errorf("%s has no member %s", s.name, name)
}

// prefix returns the common prefix of an enumeration's names, up to an underscore.
func prefix(values []api.EnumValue) string {
	p := values[0].Name
	for _, v := range values {
		for !strings.HasPrefix(v.Name, p) {
			p = p[:len(p)-1]
		}
	}
	return p[:strings.LastIndexByte(p, '_')+1]
}
