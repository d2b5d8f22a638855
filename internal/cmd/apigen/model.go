package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// model is what the tables of one layer of a runtime say, or of all its layers, before anything is generated from it.
type model struct {
	unsimulated map[string][]string // names of functions that the simulator does not have, by the reason why
	api.Model
	dir      string
	include  string   // of a layer or a further header: the name by which C code includes it
	trim     []string // see runtime.Trim
	upper    *model   // of a model of all layers: the one that programs call; of a further header: the layer that it belongs to
	further  []*model // of what no layer has: the headers that declare it
	layers   []*model
	structs  []structType
	typedefs []typedef
	dirs     map[string][]string // of each function's parameters, as extracted
	header   map[string]string
	enumSet  map[string]bool
	impl     map[string]string         // name of the same function in the library below, where the runtime is split
	factors  map[factorKey][]string    // of the size behind a parameter, in C, that no number and no parameter tells
	forms    []api.Func                // of the functions of the layer, see tagged
	arms     map[factorKey]*structType // of a form: what lies behind the parameter with the tag
	why      map[string]string         // a function has no semantics
	aliases  map[string]string         // names by which programs mean another function than the one of that name
	layer    layer
}

type factorKey struct{ fn, param string }

// layer is what semantics.yaml says of a layer as a whole.
type layer struct {
	About        string   // of the header that is generated for it
	Covers       string   // what its functions are, for the docs
	Libraries    []string // file names without versions
	Prefixes     []string // of names that look like the layer's; one that ends in ^ is followed by a capital letter
	Errors       string   // the type of error codes: an enumeration, or one with the values of errors.tsv
	Unsupported  string   // the code for a function that the libraries lack
	Composite    bool     // see api.Meaning, as the next two
	Annotation   bool
	HostCallback bool `yaml:"host_callback"`
	Simulated    bool // the simulator has the functions
}

type structType struct {
	name, kind  string
	size, align int
	fields      []field
	nested      []nested
	block       *api.CopyDesc // where it describes a copy
}

// nested is memory that a pointer in a structure leads to.
type nested struct {
	field  string
	size   string     // a product in C, with @ for the structure; "" for a string
	unless string     // the field that says that the memory is none of the host's, "" for none
	unit   uint64     // of the size
	count  string     // the field that the unit is taken times, "" for none
	makes  api.Object // of handles that the call stores there
	kernel string     // where the arguments of a kernel lie there: the kernel in C, with @ for the structure
	form   string     // packed, function, dropped: see api.Field; "" for other memory
	stored bool       // the call stores what the field has: see api.Field
}

type field struct {
	name, ctype  string
	offset, size int
}

// typedef is a row of types.tsv: def is "handle", "object" where a pointer to the type is one, or a declaration in C.
type typedef struct {
	name, def string
	object    api.Object // that a handle stands for
}

func (m *model) handle(ctype string) bool {
	base, pointer := strings.CutSuffix(strings.TrimPrefix(ctype, "const "), "*")
	for _, t := range m.typedefs {
		if t.name == base {
			return t.def == "handle" && !pointer || t.def == "object" && pointer
		}
	}
	return false
}

func (m *model) structByName(name string) *structType {
	for i := range m.structs {
		if m.structs[i].name == name {
			return &m.structs[i]
		}
	}
	return nil
}

func (m *model) find(name string) *api.Func {
	for i := range m.Funcs {
		if m.Funcs[i].Name == name {
			return &m.Funcs[i]
		}
	}
	return nil
}

// structOf is the structure that a parameter is, or that it points to, as the form of its function has it; nil for none.
func (m *model) structOf(f *api.Func, p *api.Param) *structType {
	if arm := m.arms[factorKey{f.Name, p.Name}]; arm != nil {
		return arm
	}
	return m.structByName(strings.TrimPrefix(strings.TrimSuffix(p.Type, "*"), "const "))
}

// object is the kind of object that a handle type stands for, "" where none is known.
func (m *model) object(ctype string) api.Object {
	for _, t := range m.typedefs {
		if t.name == ctype {
			return t.object
		}
	}
	return ""
}

// size returns the number of bytes of a C type, 0 where it is not known.
func (m *model) size(ctype string) int {
	switch ctype {
	case "uint8_t", "int8_t", "char", "bool":
		return 1
	case "uint16_t", "int16_t":
		return 2
	case "uint32_t", "int32_t", "float", "int", "unsigned int":
		return 4
	case "uint64_t", "int64_t", "size_t", "double":
		return 8
	}
	if strings.HasSuffix(ctype, "*") || m.handle(ctype) || m.callback(ctype) {
		return 8
	}
	for _, t := range m.typedefs {
		if base, ok := strings.CutPrefix(t.def, "typedef "); ok && t.name == ctype {
			return m.size(strings.TrimSuffix(base, " "+ctype+";"))
		}
	}
	if m.enumSet[ctype] {
		return 4
	}
	if s := m.structByName(ctype); s != nil {
		return s.size
	}
	return 0
}

func (s *structType) has(name string) bool {
	return slices.ContainsFunc(s.fields, func(f field) bool { return f.name == name })
}

// member returns the place of a field, zero for none.
func (s *structType) member(name string) api.Member {
	for _, f := range s.fields {
		if f.name == name {
			return api.Member{Type: f.ctype, Offset: uint32(f.offset), Size: uint32(f.size)}
		}
	}
	return api.Member{}
}

// join makes one model of the layers of a runtime, of which programs call the first.
func join(layers ...*model) (*model, error) {
	upper := layers[0]
	m := newModel(upper.dir)
	m.Model, m.upper, m.layers, m.layer = upper.Model, upper, layers, upper.layer
	m.Funcs, m.Enums, m.Layouts, m.Errors, m.Layers = nil, nil, nil, nil, nil
	byNumber := slices.Clone(layers)
	slices.SortFunc(byNumber, func(a, b *model) int { return int(a.Funcs[0].ID) - int(b.Funcs[0].ID) })
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Layers...)
	}
	for _, l := range byNumber {
		if n := len(m.Funcs); n > 0 && m.Funcs[n-1].ID >= l.Funcs[0].ID {
			a, b := m.Funcs[n-1], l.Funcs[0]
			return nil, fmt.Errorf("%s has number %d, but the numbers of %s begin at %d: the layer needs numbers of its own", a.Name, a.ID, l.Name, b.ID)
		}
		m.Funcs, m.Enums, m.Errors = append(append(m.Funcs, l.Funcs...), l.forms...), append(m.Enums, l.Enums...), append(m.Errors, l.Errors...)
		m.Layouts = append(m.Layouts, l.Layouts...)
		m.structs = append(m.structs, l.structs...)
		for _, t := range l.typedefs {
			if !slices.ContainsFunc(m.typedefs, func(k typedef) bool { return k.name == t.name }) {
				m.typedefs = append(m.typedefs, t)
			}
		}
		maps.Copy(m.dirs, l.dirs)
		maps.Copy(m.header, l.header)
		maps.Copy(m.enumSet, l.enumSet)
		maps.Copy(m.impl, l.impl)
		maps.Copy(m.factors, l.factors)
		maps.Copy(m.arms, l.arms)
		maps.Copy(m.why, l.why)
	}
	slices.SortFunc(m.Funcs, func(a, b api.Func) int { return int(a.ID) - int(b.ID) })
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.RetWidth = uint16(m.size(f.Return)); f.RetWidth == 0 && !f.RetVoid {
			f.RetWidth = 8
		}
		for k := range f.Params {
			p := &f.Params[k]
			if p.Width = uint16(m.size(p.Type)); p.Width == 0 {
				p.Width = 8 // nothing is known of the type but that it is a handle
			}
		}
	}
	return m, nil
}

// headers are the layers whose functions the shim needs declared, besides the first.
func (m *model) headers() []*model {
	return slices.DeleteFunc(slices.Clone(m.layers[1:]), func(l *model) bool { return l.layer.HostCallback })
}

// of returns the layer of a function.
func (m *model) of(f *api.Func) *model {
	for _, l := range m.layers {
		if l.Name == f.Layer {
			return l
		}
	}
	return m
}

func (m *model) callback(t string) bool {
	for _, d := range m.typedefs {
		if d.name == t {
			return strings.Contains(d.def, "(*")
		}
	}
	return strings.HasSuffix(t, "Callback") || strings.HasSuffix(t, "Func") || strings.HasSuffix(t, "CallBack")
}

// byValueStruct reports whether a type is a structure, which a parameter then passes by value.
func (m *model) byValueStruct(t string) bool { return m.structByName(t) != nil }
