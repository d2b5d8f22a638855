package api

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
)

// Enum is an enumeration type.
type Enum struct {
	Type   string
	Values []EnumValue // as declared; several names may share a value
}

// EnumValue is an enumeration name.
type EnumValue struct {
	Name     string
	Value    int64
	Complete bool // a query that returns it found all work complete
}

// Layout lists a structure's members that viewers show. In a tagged structure these are the tag and its case's members.
type Layout struct {
	Type    string
	Size    uint32 // bytes
	Members []Member
	Tag     *Member            // an enumeration
	Cases   map[int64][]Member // by Tag's value
	Prefix  string             // common to the names of Tag's values
}

// Member is a structure member, an unsigned number.
type Member struct {
	Name         string
	Object       Object // for a handle
	Type         string
	Offset, Size uint32 // bytes; Size is at most 8
}

// Layer is one runtime library, or several libraries with the same interface.
type Layer struct {
	Name string // "acl", "rt"
	// Libraries are file names without versions. Those that programs link come first.
	Libraries []string
	// Composite: the functions call other layers.
	Composite bool
	// Marks: all functions are entry marks. The libraries are above the runtime, and their calls are the program's.
	Marks bool
	// Operands: the functions make and end the arguments of operators. The libraries are above the runtime, and their calls are recorded only if the user wants it.
	Operands bool
	// Errors is the C type for error codes, a signed 32-bit number.
	Errors string
}

// aboveRuntime reports whether programs reach the layer's libraries without the runtime.
func (l *Layer) aboveRuntime() bool { return l.Marks || l.Operands }

// Model is everything known about one runtime: the runtime as a whole and its tables.
type Model struct {
	Name string // its folder in api: "acl"
	Runtime
	Layers  []Layer // the first is the one that programs call
	Funcs   []Func  // by ascending ID
	Enums   []Enum
	Layouts []Layout    // structures that viewers show
	Errors  []EnumValue // a code's first name is its main one
	// Declared are functions of further headers, in order, which are only counted by name.
	Declared []string
	// Inert are those of Declared that change no memory of the device, and on whose results no call of the model depends.
	Inert []string

	byID   []*Func
	byName map[string]*Func
	errs   map[int64]string
	enums  map[string]map[int64]string
	done   map[string]int64 // by enumeration: see Complete
}

// Checksum identifies all functions' ids and argument words. A reader with another checksum would misread a recording.
func (m *Model) Checksum() uint64 {
	h := fnv.New64a()
	for i := range m.Funcs {
		fmt.Fprintln(h, m.Funcs[i].ID, m.Funcs[i].Name, m.Funcs[i].Words)
	}
	return h.Sum64()
}

// Init builds the lookup tables and returns m. The generated tables call it once.
func (m *Model) Init() *Model {
	m.byName = make(map[string]*Func, len(m.Funcs))
	m.byID = make([]*Func, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		f := &m.Funcs[i]
		m.byID[f.ID], m.byName[f.Name] = f, f
		switch {
		case f.Sync == PollStream || f.Sync == PollEvent:
			f.Pending = m.Pending
		case f.PollsCallbacks:
			f.Pending = m.Idle
		}
	}
	m.errs = make(map[int64]string, len(m.Errors))
	for _, e := range m.Errors {
		if _, ok := m.errs[e.Value]; !ok {
			m.errs[e.Value] = e.Name
		}
	}
	m.enums, m.done = make(map[string]map[int64]string, len(m.Enums)), map[string]int64{}
	repeated := slices.Sorted(slices.Values(slices.Concat(m.Causes.Reinitialized, m.Causes.Refinalized)))
	no := slices.Clone(repeated)
	for _, e := range m.Errors {
		if c := m.ErrorClass(int32(e.Value)); e.Value != 0 && (c == CallRefused || c == WorkState) {
			no = append(no, int32(e.Value))
		}
	}
	slices.Sort(no)
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Question {
			f.refusals = no
		} else {
			f.refusals = repeated
		}
	}
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

// ErrorClass returns the class of an error code.
func (m *Model) ErrorClass(code int32) ErrorClass {
	c := &m.Classes
	switch {
	case slices.Contains(c.Fault, code):
		return DeviceFault
	case slices.Contains(c.Timeout, code):
		return TimedOut
	case slices.Contains(c.State, code):
		return WorkState
	case code != 0 && m.errs[int64(code)] == "" && c.FaultRange[0] <= code && code <= c.FaultRange[1]:
		return DeviceFault
	}
	return CallRefused
}

// DeviceFault reports whether an error code means that a task or the device failed, and not that a call was invalid.
func (m *Model) DeviceFault(code int32) bool { return m.ErrorClass(code) == DeviceFault }

// ownStream is set in the number for a thread's own default stream. No handle has this bit.
const ownStream = 1 << 63

// StreamOf returns a number for the stream that a handle selects when a thread calls f. A context's or device's
// default stream is 0. The thread's own default stream has a number that is not a handle.
func (m *Model) StreamOf(f *Func, handle uint64, thread uint32) uint64 {
	switch {
	case m.OwnStream != 0 && (handle == m.OwnStream || handle == 0 && f.OwnStream):
		return ownStream | uint64(thread)
	case handle <= m.Constants:
		return 0
	}
	return handle
}

// StreamHandle returns the handle for a number from StreamOf, valid in the stream's thread.
func (m *Model) StreamHandle(number uint64) uint64 {
	if number&ownStream != 0 {
		return m.OwnStream
	}
	return number
}

// KeepsVisible reports whether recordings keep the content in managed and registered memory. They do not if default streams
// synchronize with other streams, because the plan compiler does not follow that order for such memory.
func (m *Model) KeepsVisible() bool { return m.OwnStream == 0 }

// Waiter returns the first function with the given Sync whose only argument is the object to wait for, nil if there is none.
func (m *Model) Waiter(s Sync) *Func {
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Sync == s && (f.Words == 0 && s == SyncDevice || f.Words == 1 && f.Stream == 0) {
			return f
		}
	}
	return nil
}

// Fill returns the first function that sets device memory to a byte, and the parameter with the byte. All its other values are
// sizes in bytes. onStream selects a function with or without a stream. Fill returns nil and -1 if there is none.
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

// Upload returns the first function that puts an n-byte copy from the host to the device on a stream, and the call's
// words without the addresses and the stream. It returns nil if there is none.
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
	up := from.Hosts.Bits &^ to.Hosts.Bits // directions with only the source on the host
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

// Func returns the function with the given id, nil if there is none.
func (m *Model) Func(id ID) *Func {
	if int(id) < len(m.byID) {
		return m.byID[id]
	}
	return nil
}

// Libraries returns the file names of the runtime's libraries, without composite layers and marks.
func (m *Model) Libraries() []string {
	var names []string
	for _, l := range m.Layers {
		if !l.Composite && !l.aboveRuntime() {
			names = append(names, l.Libraries...)
		}
	}
	return names
}

// Library reports whether a file name, with or without a version, is one of Libraries.
func (m *Model) Library(file string) bool {
	l := m.LayerOf(file)
	return l != nil && !l.Composite
}

// OfOperators reports whether a file name, with or without a version, is a library with operators.
func (m *Model) OfOperators(file string) bool {
	return slices.ContainsFunc(m.Operators, func(n string) bool { return named(file, n) })
}

// OfMarks reports whether a file name, with or without a version, is a library with entry marks.
func (m *Model) OfMarks(file string) bool {
	return slices.ContainsFunc(m.Layers, func(l Layer) bool {
		return l.Marks && slices.ContainsFunc(l.Libraries, func(n string) bool { return named(file, n) })
	})
}

// ErrorType reports whether a C type is a layer's error type.
func (m *Model) ErrorType(ctype string) bool {
	return slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Errors == ctype })
}

// named reports whether a file name is a library's, with or without a version.
func named(file, library string) bool {
	rest, ok := strings.CutPrefix(file, library)
	return ok && strings.Trim(rest, ".0123456789") == "" && rest != "."
}

// LayerOf returns a library's layer by the file name, with or without a version, nil for other files and for libraries with operators.
func (m *Model) LayerOf(file string) *Layer {
	for i := range m.Layers {
		if m.Layers[i].aboveRuntime() {
			continue
		}
		for _, n := range m.Layers[i].Libraries {
			if named(file, n) {
				return &m.Layers[i]
			}
		}
	}
	return nil
}

// Lookup returns the function with the given name, nil if there is none.
func (m *Model) Lookup(name string) *Func { return m.byName[name] }

// ErrorName returns an error code's name, or the number if it has none.
func (m *Model) ErrorName(code int64) string {
	if n, ok := m.errs[code]; ok {
		return n
	}
	return fmt.Sprint(code)
}

// Counted reports whether calls to a function are counted by name. For functions outside the model, a recorder sees at
// most the look-up.
func (m *Model) Counted(name string) bool {
	if f := m.Lookup(name); f != nil {
		return !f.Modelled
	}
	_, ok := slices.BinarySearch(m.Declared, name)
	return ok
}

// Harmless reports whether a function that is only counted by name has no effect that a replay could miss.
func (m *Model) Harmless(name string) bool {
	f := m.Lookup(name)
	return f != nil && f.Annotation || slices.Contains(m.Inert, name)
}

// Beneath reports whether a function outside the model is one of Below.
func (m *Model) Beneath(name string) bool {
	return m.Lookup(name) == nil && slices.ContainsFunc(m.Below.Prefixes, func(p string) bool {
		p, capital := strings.CutSuffix(p, "^")
		rest, ok := strings.CutPrefix(name, p)
		return ok && (!capital || rest != "" && rest[0] >= 'A' && rest[0] <= 'Z')
	})
}

// Layout returns a structure type's layout, nil if viewers show none.
func (m *Model) Layout(ctype string) *Layout {
	for i := range m.Layouts {
		if m.Layouts[i].Type == ctype {
			return &m.Layouts[i]
		}
	}
	return nil
}

// EnumName returns the name for an enumeration value, "" if it has none.
func (m *Model) EnumName(ctype string, v int64) string { return m.enums[ctype][v] }

// Complete returns the enumeration value by which a query reports that all work is complete.
func (m *Model) Complete(ctype string) (value int64, ok bool) {
	value, ok = m.done[ctype]
	return value, ok
}
