package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// model is the content of one layer's tables, of all layers together, or of a further header.
type model struct {
	unsimulated map[string][]string // function names by reason
	api.Model
	dir      string
	include  string   // name by which C code includes the header of a layer
	trim     []string // see runtime.Trim
	upper    *model   // first layer of a model of all layers, or the layer of a further header
	first    *model   // first layer, whose types and functions a layer above the runtime uses; nil for the others
	further  []*model // headers with functions that no layer has
	layers   []*model
	structs  []structType
	typedefs []typedef
	dirs     map[string][]string // directions of each function's parameters, as extracted
	header   map[string]string
	enumSet  map[string]bool
	impl     map[string]string         // name of the same function in the library below, if the runtime is split
	factors  map[factorKey][]string    // C expressions for size factors that are neither numbers nor parameters
	forms    []api.Func                // see tagged
	arms     map[factorKey]*structType // structure of a form's tagged parameter
	why      map[string]string         // reason why a function has no semantics
	aliases  map[string]string         // names that headers redirect to another function
	others   []string                  // functions outside the model that the simulator exports
	alone    []string                  // functions that the simulator answers without its engine
	performs map[string][]string       // functions, also of other layers, by the one that performs them in the simulator
	layer    layer
}

type factorKey struct{ fn, param string }

// layer describes a layer as a whole.
type layer struct {
	About        string   // text for the generated header
	Includes     []string // headers that the generated header includes, for programs that expect their functions there
	Covers       string   // text for the coverage document
	Libraries    []string // file names without versions
	Prefixes     []string // of function names; ^ at the end: a capital letter follows
	Errors       string   // error type: an enumeration, or a type with the values in errors.tsv
	Unsupported  string   // error code for a missing function
	Composite    bool     // see api.Meaning, as the next two
	Annotation   bool
	Marks        bool // see api.Layer, as the next one
	Operands     bool
	HostCallback bool `yaml:"host_callback"`
	Simulated    bool // the simulator has the functions
}

type structType struct {
	name, kind  string
	size, align int
	fields      []field
	nested      []nested
	block       *api.CopyDesc // nil unless it describes a copy
}

// nested describes the memory at a pointer in a structure.
type nested struct {
	field  string
	size   string     // product in C, with @ for the structure; "" for a string
	unless string     // field that is not 0 if the memory is on the device, "" for none
	when   string     // field that is 0 if the memory is on the device, "" for none
	list   uint64     // for a list: the size of an element
	unit   uint64     // number in the size
	count  string     // field in the size, "" for none
	makes  api.Object // kind of the handles that the call stores there, "" for none
	kernel string     // for kernel arguments: the kernel in C, with @ for the structure
	form   string     // packed, function, omit: see api.Field; "" for other memory
	stored bool       // see api.Field
}

type field struct {
	name, ctype  string
	offset, size int
}

// typedef is a row of types.tsv. def is "handle", or "object" if pointers to the type are handles, or a C declaration.
type typedef struct {
	name, def string
	object    api.Object // kind of object for a handle
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

// structOf returns the structure that a parameter is or points to, nil for none. For forms it is the arm.
func (m *model) structOf(f *api.Func, p *api.Param) *structType {
	if arm := m.arms[factorKey{f.Name, p.Name}]; arm != nil {
		return arm
	}
	return m.structByName(strings.TrimPrefix(strings.TrimSuffix(p.Type, "*"), "const "))
}

// object returns the object kind for a handle type, "" if unknown.
func (m *model) object(ctype string) api.Object {
	for _, t := range m.typedefs {
		if t.name == ctype {
			return t.object
		}
	}
	return ""
}

// size returns the bytes of a C type, 0 if unknown.
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
	if m.first != nil {
		return m.first.size(ctype)
	}
	return 0
}

func (s *structType) has(name string) bool {
	return slices.ContainsFunc(s.fields, func(f field) bool { return f.name == name })
}

// member returns a field's location, zero if there is none.
func (s *structType) member(name string) api.Member {
	for _, f := range s.fields {
		if f.name == name {
			return api.Member{Type: f.ctype, Offset: uint32(f.offset), Size: uint32(f.size)}
		}
	}
	return api.Member{}
}

// join makes one model from a runtime's layers.
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
	further, err := upper.furtherHeaders()
	if err != nil {
		return nil, err
	}
	for i := range further.Funcs {
		m.Declared = append(m.Declared, further.Funcs[i].Name)
	}
	slices.Sort(m.Declared)
	for _, name := range m.Inert {
		if !slices.Contains(m.Declared, name) {
			return nil, fmt.Errorf("inert: %s is no function of a further header", name)
		}
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
				p.Width = 8 // an unknown type is a handle
			}
		}
	}
	return m, nil
}

// headers returns the layers after the first that need a header.
func (m *model) headers() []*model {
	return slices.DeleteFunc(slices.Clone(m.layers[1:]), func(l *model) bool { return l.layer.HostCallback || l.layer.Marks })
}

// of returns a function's layer.
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

// takesCallback reports whether the signature has a program function as a parameter.
func (m *model) takesCallback(f *api.Func) bool {
	return slices.ContainsFunc(f.Params, func(p api.Param) bool { return !strings.HasSuffix(p.Type, "*") && m.callback(p.Type) })
}

// byValueStruct reports whether a parameter type is a structure passed by value.
func (m *model) byValueStruct(t string) bool { return m.structByName(t) != nil }
