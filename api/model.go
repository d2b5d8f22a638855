package api

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
)

// Enum is one enumeration type of a runtime.
type Enum struct {
	Type   string
	Values []EnumValue // in the order of declaration; several names may share a value
}

// EnumValue is one name of an enumeration.
type EnumValue struct {
	Name     string
	Value    int64
	Complete bool // a query that returns it found all work complete
}

// Layout is what is shown of a structure: some of its members or, where one says by its value what the others are, that one
// and those that it says.
type Layout struct {
	Type    string
	Size    uint32 // bytes
	Members []Member
	Tag     *Member            // an enumeration
	Cases   map[int64][]Member // by the value of Tag
	Prefix  string             // that the names of Tag's values share
}

// Member is a member of a structure, a number without a sign.
type Member struct {
	Name         string
	Object       Object // of a handle
	Type         string
	Offset, Size uint32 // bytes; Size is at most 8
}

// Layer is one of the libraries, or sets of libraries, that make up a runtime.
type Layer struct {
	Name string // "acl", "rt"
	// Libraries are the names of its files, without versions, those that programs are linked to first.
	Libraries []string
	// Outer says that its functions are: they call those of other layers.
	Outer bool
	// Errors is the C type of its error codes, a signed number of 32 bits.
	Errors string
}

// Model is everything known about one runtime: the runtime as a whole and its tables.
type Model struct {
	Name string // of its folder in api: "acl"
	Runtime
	Layers  []Layer // the first is the one that programs call
	Funcs   []Func  // by ascending ID
	Enums   []Enum
	Layouts []Layout    // structures that viewers show
	Errors  []EnumValue // the first name of a code is its main one

	byID   []*Func
	byName map[string]*Func
	errs   map[int64]string
	enums  map[string]map[int64]string
	done   map[string]int64 // by enumeration: see Complete
}

// Checksum tells models apart whose functions have other numbers or other arguments: what the one has recorded the other would
// misread.
func (m *Model) Checksum() uint64 {
	h := fnv.New64a()
	for i := range m.Funcs {
		fmt.Fprintln(h, m.Funcs[i].ID, m.Funcs[i].Name, m.Funcs[i].Words)
	}
	return h.Sum64()
}

// Init builds the lookup tables; the generated tables call it once.
func (m *Model) Init() *Model {
	m.byName = make(map[string]*Func, len(m.Funcs))
	m.byID = make([]*Func, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		f := &m.Funcs[i]
		m.byID[f.ID], m.byName[f.Name] = f, f
		if f.Sync == PollStream || f.Sync == PollEvent {
			f.Pending = m.Pending
		}
	}
	m.errs = make(map[int64]string, len(m.Errors))
	for _, e := range m.Errors {
		if _, ok := m.errs[e.Value]; !ok {
			m.errs[e.Value] = e.Name
		}
	}
	m.enums, m.done = make(map[string]map[int64]string, len(m.Enums)), map[string]int64{}
	for _, e := range m.Enums {
		names := make(map[int64]string, len(e.Values))
		for _, v := range e.Values {
			if _, ok := names[v.Value]; !ok {
				names[v.Value] = v.Name
			}
			if v.Complete {
				m.done[e.Type] = v.Value
			}
		}
		m.enums[e.Type] = names
	}
	return m
}

// DeviceFault reports whether an error code says that a task has failed on the device, and not what a call was given.
func (m *Model) DeviceFault(code int32) bool {
	return m.Faults.Codes[0] <= code && code <= m.Faults.Codes[1] && code != 0 && !slices.Contains(m.Faults.Except, code)
}

// ownStream is set in the number of a thread's own default stream, and in no handle.
const ownStream = 1 << 63

// StreamOf is a number for the stream that a handle means to a thread which calls the function: 0 is the default stream of a context or a
// device, and the thread's own default stream has one that no handle is.
func (m *Model) StreamOf(f *Func, handle uint64, thread uint32) uint64 {
	switch {
	case m.OwnStream != 0 && (handle == m.OwnStream || handle == 0 && f.OwnStream):
		return ownStream | uint64(thread)
	case handle <= m.Constants:
		return 0
	}
	return handle
}

// StreamHandle is the handle of a stream that has a number of StreamOf, to the thread that it belongs to.
func (m *Model) StreamHandle(number uint64) uint64 {
	if number&ownStream != 0 {
		return m.OwnStream
	}
	return number
}

// KeepsVisible reports whether recordings keep the content of managed and registered memory. A runtime whose default streams wait for others
// orders tasks in ways that the planner does not follow for such memory.
func (m *Model) KeepsVisible() bool { return m.OwnStream == 0 }

// Waiter returns the first function that waits in the given way and takes nothing but what it waits for, nil where there is none.
func (m *Model) Waiter(s Sync) *Func {
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Sync == s && (f.Words == 0 && s == SyncDevice || f.Words == 1 && f.Stream == 0) {
			return f
		}
	}
	return nil
}

// Fill returns the first function that sets device memory to a byte, on a stream or by itself, with the parameter that is the byte; nil and -1
// if there is none. Of its other values all are sizes in bytes.
func (m *Model) Fill(onStream bool) (f *Func, value int) {
	for i := range m.Funcs {
		f, value = &m.Funcs[i], -1
		if f.Task != Fill || !f.Plain() || !f.RetError || (f.Stream >= 0) != onStream {
			continue
		}
		fills := slices.IndexFunc(f.Params, func(q Param) bool { return q.Role == Fills })
		if fills < 0 {
			continue
		}
		size := f.Params[fills].Size
		if size.Unit != 1 || len(size.Mul) != 1 || size.Pitch >= 0 {
			continue
		}
		for k := range f.Params {
			if q := &f.Params[k]; q.Role == Value && q.Type != f.Params[size.Mul[0]].Type {
				value = k
			}
		}
		if value >= 0 {
			return f, value
		}
	}
	return nil, -1
}

// Upload returns the first function that puts a copy of n bytes from the host to the device on a stream, and the words of
// the call without the addresses and the stream. It returns nil if there is none.
func (m *Model) Upload(n uint64) (f *Func, words []uint64) {
	for i := range m.Funcs {
		f = &m.Funcs[i]
		if f.Task != Copy || f.Stream < 0 || !f.RetError || !f.Plain() {
			continue
		}
		if words := f.upload(n); words != nil {
			return f, words
		}
	}
	return nil, nil
}

// upload returns the words for Upload, nil unless the parameters are one source, one destination, one stream, sizes and a
// direction.
func (f *Func) upload(n uint64) []uint64 {
	var from, to *Param
	roles := map[Role]int{}
	for i := range f.Params {
		p := &f.Params[i]
		if p.ItemSizes >= 0 || p.Size.Pitch >= 0 {
			return nil
		}
		switch roles[p.Role]++; p.Role {
		case Reads:
			from = p
		case Writes:
			to = p
		}
	}
	if roles[Reads] != 1 || roles[Writes] != 1 || roles[Use] != 1 || len(f.Params) != 3+roles[Value] {
		return nil
	}
	words := make([]uint64, f.Words)
	up := from.Hosts.Bits &^ to.Hosts.Bits // values of a direction that only the source has on the host
	for i := range f.Params {
		switch p := &f.Params[i]; {
		case p.Role != Value:
		case p.Type == "size_t":
			words[p.Word] = n
		case up != 0 && int(from.Hosts.Param) == i:
			words[p.Word] = uint64(bits.TrailingZeros16(up))
		default:
			return nil
		}
	}
	return words
}

// Func returns the function with the given id, nil where there is none.
func (m *Model) Func(id ID) *Func {
	if int(id) < len(m.byID) {
		return m.byID[id]
	}
	return nil
}

// Libraries returns the names of the runtime's libraries, without those of outer layers.
func (m *Model) Libraries() []string {
	var names []string
	for _, l := range m.Layers {
		if !l.Outer {
			names = append(names, l.Libraries...)
		}
	}
	return names
}

// Library reports whether a file name is that of a library of the runtime, whatever its version.
func (m *Model) Library(file string) bool {
	l := m.LayerOf(file)
	return l != nil && !l.Outer
}

// ErrorType reports whether a C type is that of a layer's error codes.
func (m *Model) ErrorType(ctype string) bool {
	return slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Errors == ctype })
}

// LayerOf returns the layer that a file name, whatever its version, is a library of, nil for none.
func (m *Model) LayerOf(file string) *Layer {
	for i := range m.Layers {
		for _, n := range m.Layers[i].Libraries {
			if rest, ok := strings.CutPrefix(file, n); ok && strings.Trim(rest, ".0123456789") == "" && rest != "." {
				return &m.Layers[i]
			}
		}
	}
	return nil
}

// Lookup returns the function with the given name, nil where there is none.
func (m *Model) Lookup(name string) *Func { return m.byName[name] }

// ErrorName returns the name of an error code, or the number where it has none.
func (m *Model) ErrorName(code int64) string {
	if n, ok := m.errs[code]; ok {
		return n
	}
	return fmt.Sprint(code)
}

// Counted reports whether calls of a function are counted by name. Of any other that a recorder does not know it sees at most that the program
// asks for it.
func (m *Model) Counted(name string) bool {
	f := m.Lookup(name)
	return f != nil && !f.Modelled
}

// Layout returns what is shown of a structure type, nil where nothing is.
func (m *Model) Layout(ctype string) *Layout {
	for i := range m.Layouts {
		if m.Layouts[i].Type == ctype {
			return &m.Layouts[i]
		}
	}
	return nil
}

// EnumName returns the name of a value of an enumeration type, "" where it has none.
func (m *Model) EnumName(ctype string, v int64) string { return m.enums[ctype][v] }

// Complete returns the value of an enumeration by which a query reports that all work is complete.
func (m *Model) Complete(ctype string) (value int64, ok bool) {
	value, ok = m.done[ctype]
	return value, ok
}
