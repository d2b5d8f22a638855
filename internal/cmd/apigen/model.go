package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"go.yaml.in/yaml/v3"
)

// model is what the tables of one layer of a runtime say, or of all its layers, before anything is generated from it.
type model struct {
	unsimulated map[string][]string // names of functions that the simulator does not have, by the reason why
	api.Model
	dir      string
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
	injected map[string][2]int         // module and slot of a function in the tables of an injection
	meanings map[string]meaning        // of functions
	forms    []api.Func                // of the functions of the layer, see tagged
	arms     map[factorKey]*structType // of a form: what lies behind the parameter with the tag
	why      map[string]string         // a function has no semantics
	aliases  map[string]string         // names by which programs mean another function than the one of that name
	layer    layer
}

type factorKey struct{ fn, param string }

// layer is what semantics.yaml says of a layer as a whole.
type layer struct {
	About       string   // of the header that is generated for it
	Covers      string   // what its functions are, for the docs
	Libraries   []string // file names without versions
	Prefixes    []string // of names that look like the layer's; one that ends in ^ is followed by a capital letter
	Errors      string   // the type of error codes: an enumeration, or one with the values of errors.tsv
	Unsupported string   // the code for a function that the libraries lack
	Outer       bool     // its functions enclose calls of other layers
	Notes       bool     // its functions only tell tools something
	Called      bool     // its functions are the program's, which the runtime calls
	Simulated   bool     // the simulator has its functions
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

// table reads the rows of a tab separated file, without comments.
func table(path string, columns int) ([][]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		if l := s.Text(); l != "" && l[0] != '#' || strings.HasPrefix(s.Text(), "#define\t") {
			c := strings.Split(l, "\t")
			if len(c) < columns {
				return nil, fmt.Errorf("%s:%d: %d columns, want %d", path, n, len(c), columns)
			}
			rows = append(rows, c)
		}
	}
	return rows, s.Err()
}

func newModel(dir string) *model {
	m := &model{dir: dir, dirs: map[string][]string{}, header: map[string]string{}, enumSet: map[string]bool{}, impl: map[string]string{}, factors: map[factorKey][]string{}, injected: map[string][2]int{}, meanings: map[string]meaning{}, arms: map[factorKey]*structType{}, why: map[string]string{}}
	m.Name = filepath.Base(dir)
	return m
}

// load reads the tables of a layer, whose functions have numbers from first on.
func load(dir string, first int) (*model, error) {
	m := newModel(dir)
	ids := func() error { return m.loadIDs(first) }
	for _, step := range []func() error{m.loadEnums, m.loadTypes, m.loadStructs, m.loadFunctions, m.loadSemantics, ids} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// furtherHeaders reads the headers of a layer's functions that no trace records and the simulator does not have: each is a folder with
// tables, all in one model.
func (m *model) furtherHeaders() (*model, error) {
	dirs, err := filepath.Glob(filepath.Join(m.dir, "headers", "*"))
	if err != nil {
		return nil, err
	}
	all := newModel(filepath.Join(m.dir, "headers"))
	all.Name, all.Enums = m.Name+"/headers", slices.Clone(m.Enums)
	for _, dir := range dirs {
		h := newModel(dir)
		h.Name, h.upper, h.layer.About = all.Name+"/"+h.Name, m, "Declared anew from its documented names, values and layouts. The simulator has none of these functions: they fail."
		for _, step := range []func() error{h.loadEnums, h.loadTypes, h.loadStructs, h.loadFunctions} {
			if err := step(); err != nil {
				return nil, err
			}
		}
		for i := range h.Funcs {
			h.Funcs[i].RetError = h.Funcs[i].Return == m.layer.Errors
		}
		all.Funcs, all.Enums = append(all.Funcs, h.Funcs...), append(all.Enums, h.Enums...)
		all.further = append(all.further, h)
	}
	return all, nil
}

func (m *model) loadEnums() error {
	rows, err := table(filepath.Join(m.dir, "enums.tsv"), 3)
	if err != nil {
		return err
	}
	index := map[string]int{}
	for _, r := range rows {
		v, err := strconv.ParseInt(r[2], 10, 64)
		if err != nil {
			return fmt.Errorf("enums.tsv: %s: %w", r[1], err)
		}
		i, ok := index[r[0]]
		if !ok {
			i = len(m.Enums)
			index[r[0]] = i
			m.Enums = append(m.Enums, api.Enum{Type: r[0]})
			m.enumSet[r[0]] = true
		}
		m.Enums[i].Values = append(m.Enums[i].Values, api.EnumValue{Name: r[1], Value: v})
	}
	rows, err = table(filepath.Join(m.dir, "errors.tsv"), 2)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, r := range rows {
		v, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return fmt.Errorf("errors.tsv: %s: %w", r[1], err)
		}
		m.Errors = append(m.Errors, api.EnumValue{Name: r[1], Value: v})
	}
	return nil
}

func (m *model) loadTypes() error {
	rows, err := table(filepath.Join(m.dir, "types.tsv"), 2)
	if err != nil {
		return err
	}
	for _, r := range rows {
		t := typedef{name: r[0], def: r[1]}
		if len(r) > 2 {
			t.object = api.Object(r[2])
		}
		m.typedefs = append(m.typedefs, t)
	}
	return nil
}

func (m *model) loadStructs() error {
	rows, err := table(filepath.Join(m.dir, "structs.tsv"), 7)
	if err != nil {
		return err
	}
	for _, r := range rows {
		n := make([]int, 4)
		for i, c := range []string{r[2], r[3], r[5], r[6]} {
			if n[i], err = strconv.Atoi(c); err != nil {
				return fmt.Errorf("structs.tsv: %s.%s: %w", r[0], r[4], err)
			}
		}
		if m.structByName(r[0]) == nil {
			m.structs = append(m.structs, structType{name: r[0], kind: r[1], size: n[0], align: n[1]})
		}
		s := m.structByName(r[0])
		f := field{name: r[4], offset: n[2], size: n[3]}
		if len(r) > 7 {
			f.ctype = r[7]
		}
		s.fields = append(s.fields, f)
	}
	return nil
}

var paramRE = regexp.MustCompile(`^(.*?)\s*([A-Za-z_][A-Za-z0-9_]*)(\[[0-9]*\])?:([a-z()-]+)$`)

func (m *model) loadFunctions() error {
	rows, err := table(filepath.Join(m.dir, "functions.tsv"), 11)
	if err != nil {
		return err
	}
	for _, r := range rows {
		f := api.Func{Name: r[0], Return: normalize(r[2]), Since: r[4], Doc: r[5], Layer: m.Name, Stream: -1, Event: -1, Graph: -1, Names: -1, Selects: -1, Device: -1, Entry: -1}
		f.RetVoid = f.Return == "void"
		m.header[f.Name] = r[1]
		if r[7] != "" && r[7] != "-" {
			m.impl[f.Name] = r[7]
		}
		if r[3] != "" {
			for _, p := range strings.Split(r[3], ";") {
				g := paramRE.FindStringSubmatch(strings.TrimSpace(p))
				if g == nil {
					if strings.Contains(p, "...") {
						g = []string{"", "", "...", "", "in"}
					} else {
						return fmt.Errorf("functions.tsv: %s: parameter %q not understood", f.Name, p)
					}
				}
				t := normalize(g[1])
				if g[3] != "" {
					t += "*"
				}
				f.Params = append(f.Params, api.Param{Name: g[2], Type: t, ItemSizes: -1, ItemCount: -1, Size: api.Size{Pitch: -1}})
				m.dirs[f.Name] = append(m.dirs[f.Name], g[4])
			}
		}
		word := 0
		for i := range f.Params {
			p := &f.Params[i]
			n := 1
			if s := m.structByName(p.Type); s != nil {
				n = (s.size + 7) / 8
			}
			p.Word, p.Words = uint8(word), uint8(n)
			word += n
		}
		f.Words = uint8(word)
		m.Funcs = append(m.Funcs, f)
	}
	return nil
}

// normalize writes a C type in one way: `const T*`, no const on the parameter itself.
func normalize(t string) string {
	t = strings.Join(strings.Fields(strings.ReplaceAll(t, "*", " * ")), " ")
	t = strings.TrimSuffix(t, " const")
	if strings.HasPrefix(t, "const ") && !strings.Contains(t, "*") {
		t = t[len("const "):]
	}
	t = strings.ReplaceAll(t, " * const", "*")
	return strings.ReplaceAll(strings.ReplaceAll(t, " *", "*"), " *", "*")
}

// loadIDs gives every function the number that ids.lock has for it, and appends those that are new.
// direction is an enumeration that says where a copy goes: its values that declare what is read, or written, to be the host's.
type direction struct{ Reads, Writes []uint8 }

// direct gives the copies with a parameter of an enumeration its meaning.
func (m *model) direct(enum string, d direction) error {
	bits := func(values []uint8) (b uint16) {
		for _, v := range values {
			b |= 1 << v
		}
		return b
	}
	found := false
	for i := range m.Funcs {
		f := &m.Funcs[i]
		kind := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Type == enum })
		if kind < 0 {
			continue
		}
		for n := range f.Params {
			switch p := &f.Params[n]; p.Role {
			case api.Reads:
				p.Hosts, found = api.Kinds{Param: uint8(kind), Bits: bits(d.Reads)}, true
			case api.Writes:
				p.Hosts, found = api.Kinds{Param: uint8(kind), Bits: bits(d.Writes)}, true
			}
		}
	}
	if !found {
		return errors.New("no copy has a parameter of this type")
	}
	return nil
}

func (m *model) loadIDs(first int) error {
	path := filepath.Join(m.dir, "ids.lock")
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	ids, before := map[string]int{}, len(b)
	last := first - 1
	for n, l := range strings.Split(string(b), "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		var id int
		var name string
		if _, err := fmt.Sscanf(l, "%d %s", &id, &name); err != nil || id != last+1 || ids[name] != 0 {
			return fmt.Errorf("%s:%d: ids are only ever appended, one a line, ascending by one", path, n+1)
		}
		ids[name], last = id, id
	}
	if len(b) == 0 {
		b = []byte("# The number of each function in trace files. Only ever appended; a name that is gone keeps its number.\n")
	}
	for _, funcs := range [][]api.Func{m.Funcs, m.forms} {
		for i := range funcs {
			f := &funcs[i]
			if ids[f.Name] == 0 {
				last++
				ids[f.Name] = last
				b = fmt.Appendf(b, "%d %s\n", last, f.Name)
			}
			f.ID = api.ID(ids[f.Name])
		}
		slices.SortFunc(funcs, func(a, b api.Func) int { return int(a.ID) - int(b.ID) })
	}
	if len(b) == before {
		return nil
	}
	return os.WriteFile(path, b, 0o644)
}

// meaning is what only the shim has to know of a function.
type meaning struct {
	// Ends says what is no more after the call: `all`, or the device that a parameter has the number of.
	Ends string
	// Tells says what the call tells a thread of its own last calls.
	Tells string
	// Finds is the parameter with the name of a function that the call answers with, Passes the one with what names a table of
	// functions that are known by no name.
	Finds, Passes string
	// Answers is PARAM=VALUE: what the call stores behind the parameters after that one counts only where it has stored the value there.
	Answers string
}

const (
	lastTask      = "task"
	lastError     = "error"
	lastErrorOnce = "error once" // which it is told no second time
)

type semantics struct {
	Task, Sync, Capture, Range, Ret, Selects, Device, Entry, Names, Graph string
	Shares, StandIn, Replay, Stack, Edit, Subscribes                      string
	Begins, Reports, Meets                                                bool
	meaning                                                               `yaml:",inline"`
	Keeps                                                                 []string
	Inject                                                                []int
	Params                                                                map[string]string
}

func (m *model) loadSemantics() error {
	file := filepath.Join(m.dir, "semantics.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var doc struct {
		Layer       layer
		Device      []uint64
		Environment []string
		DeviceName  string `yaml:"device_name"`
		Accelerator api.Accelerator
		Shim        string
		Installed   api.Installed
		Simulator   api.Simulator
		Faults      api.Faults
		Exhausted   [2]int32
		Pending     int32
		Refused     int32
		Constants   uint64
		OwnStream   uint64 `yaml:"own_stream"`
		NonBlocking uint64 `yaml:"non_blocking"`
		Numbers     []api.Object
		Variants    []string
		Aliases     map[string]string
		Unmodelled  map[string][]string // by the reason why, patterns of names
		Copies      map[string]block
		Directions  map[string]direction
		Tagged      map[string]tagged
		Structs     map[string]map[string]string
		Shown       map[string]shown
		Functions   map[string]*semantics
		Unsimulated map[string][]string // by the reason why
		Simulated   []string            // where not all of the layer is
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	m.layer = doc.Layer
	m.Layers = []api.Layer{{Name: m.Name, Libraries: doc.Layer.Libraries, Outer: doc.Layer.Outer, Errors: doc.Layer.Errors}}
	m.Environment, m.Simulator, m.DeviceName, m.Faults = doc.Environment, doc.Simulator, doc.DeviceName, doc.Faults
	m.Exhausted, m.Accelerator, m.Installed = doc.Exhausted, doc.Accelerator, doc.Installed
	m.OwnStream, m.NonBlocking = doc.OwnStream, doc.NonBlocking
	m.Pending, m.Refused, m.Constants, m.aliases, m.Shim, m.Numbers = doc.Pending, doc.Refused, doc.Constants, doc.Aliases, doc.Shim, doc.Numbers
	for i := range m.Funcs {
		f := &m.Funcs[i]
		f.RetError, f.Composite, f.Annotation = f.Return == doc.Layer.Errors, doc.Layer.Outer || doc.Layer.Called, doc.Layer.Notes || doc.Layer.Called
		f.HostCallback = doc.Layer.Called
	}
	for _, e := range m.Enums {
		if e.Type == doc.Layer.Errors {
			m.Errors = append(m.Errors, e.Values...)
		}
	}
	if len(doc.Device) == 2 {
		m.Device = api.Window{From: doc.Device[0], To: doc.Device[1]}
	}
	for name, fields := range doc.Structs {
		if err := m.nest(name, fields); err != nil {
			return fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	for name, b := range doc.Copies {
		if err := m.block(name, &b); err != nil {
			return fmt.Errorf("%s: copies: %s: %w", file, name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Shown)) {
		s, err := m.shown(name, doc.Shown[name])
		if err != nil {
			return fmt.Errorf("%s: shown: %s: %w", file, name, err)
		}
		m.Layouts = append(m.Layouts, *s)
	}
	for name, s := range doc.Functions {
		f := m.find(name)
		if f == nil {
			return fmt.Errorf("%s: %s is not in functions.tsv", file, name)
		}
		if s == nil {
			s = &semantics{}
		}
		if err := m.apply(f, s); err != nil {
			return fmt.Errorf("%s: %s: %w", file, name, err)
		}
		f.Simulated = doc.Layer.Simulated
	}
	for _, name := range doc.Simulated {
		f := m.find(name)
		if f == nil {
			return fmt.Errorf("%s: simulated: %s is not in functions.tsv", file, name)
		}
		f.Simulated = true
	}
	if err := m.vary(doc.Variants); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Tagged)) {
		if err := m.tell(name, doc.Tagged[name]); err != nil {
			return fmt.Errorf("%s: tagged: %s: %w", file, name, err)
		}
	}
	for name, d := range doc.Directions {
		if err := m.direct(name, d); err != nil {
			return fmt.Errorf("%s: directions: %s: %w", file, name, err)
		}
	}
	if err := m.explain(doc.Unmodelled); err != nil {
		return fmt.Errorf("%s: unmodelled: %w", file, err)
	}
	m.unsimulated = doc.Unsimulated
	for _, names := range doc.Unsimulated {
		for _, name := range names {
			f := m.find(name)
			if f == nil || !f.Modelled {
				return fmt.Errorf("%s: unsimulated: %s is not modelled", file, name)
			}
			f.Simulated = false
		}
	}
	return nil
}

// vary gives functions whose names end in one of some ends what the function without it means.
func (m *model) vary(ends []string) error {
	for i := range m.Funcs {
		f := &m.Funcs[i]
		for _, end := range ends {
			name, ok := strings.CutSuffix(f.Name, end)
			if !ok || f.Modelled {
				continue
			}
			of := m.find(name)
			if of == nil || len(of.Params) != len(f.Params) {
				return fmt.Errorf("%s: there is no %s with the same parameters", f.Name, name)
			}
			v := *of
			v.ID, v.Name, v.Since, v.Doc, v.Params = f.ID, f.Name, f.Since, f.Doc, slices.Clone(of.Params)
			v.OwnStream = of.Stream >= 0 || of.Task == api.Copy || of.Task == api.Fill
			*f = v
			m.meanings[f.Name] = m.meanings[name]
			for _, p := range f.Params {
				if c := m.factors[factorKey{name, p.Name}]; c != nil {
					m.factors[factorKey{f.Name, p.Name}] = c
				}
			}
		}
	}
	return nil
}

// explain notes why functions have no semantics.
func (m *model) explain(reasons map[string][]string) error {
	for why, patterns := range reasons {
		for _, pattern := range patterns {
			found := false
			for i := range m.Funcs {
				ok, err := path.Match(pattern, m.Funcs[i].Name)
				if err != nil {
					return fmt.Errorf("%s: %w", pattern, err)
				}
				if have := m.why[m.Funcs[i].Name]; ok && have != "" && have != why {
					return fmt.Errorf("%s has two reasons", m.Funcs[i].Name)
				}
				if ok && !m.Funcs[i].Modelled {
					m.why[m.Funcs[i].Name], found = why, true
				}
			}
			if !found {
				return fmt.Errorf("%s is no function without semantics", pattern)
			}
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

func (m *model) apply(f *api.Func, s *semantics) error {
	var ok bool
	if f.Task, ok = api.ParseTask(s.Task); !ok {
		return fmt.Errorf("no task %q", s.Task)
	}
	if f.Sync, ok = api.ParseSync(s.Sync); !ok {
		return fmt.Errorf("no sync %q", s.Sync)
	}
	if f.Capture, ok = api.ParseCapture(s.Capture); !ok {
		return fmt.Errorf("capture neither begins nor ends: %q", s.Capture)
	}
	if f.Edit, ok = api.ParseEdit(s.Edit); !ok {
		return fmt.Errorf("no edit of a graph %q", s.Edit)
	}
	if f.Range, ok = api.ParseRange(s.Range); !ok {
		return fmt.Errorf("no range %q", s.Range)
	}
	if f.Shares, ok = api.ParseShare(s.Shares); !ok {
		return fmt.Errorf("no way to share %q", s.Shares)
	}
	if s.StandIn != "" && m.find(s.StandIn) == nil {
		return fmt.Errorf("it is %s that stands in for it, which is not in functions.tsv", s.StandIn)
	}
	if s.Subscribes != "" && m.find(s.Subscribes) == nil {
		return fmt.Errorf("it subscribes for %s, which is not in functions.tsv", s.Subscribes)
	}
	f.StandIn, f.Subscribes = s.StandIn, s.Subscribes
	f.Initializes, f.PollsCallbacks, f.Collective = s.Begins, s.Reports, s.Meets
	switch {
	case s.Ends != "" && s.Ends != "all" && f.Param(s.Ends) < 0:
		return fmt.Errorf("ends: no parameter %s", s.Ends)
	case !slices.Contains([]string{"", lastTask, lastError, lastErrorOnce}, s.Tells):
		return fmt.Errorf("it tells neither the last task nor the last error: %q", s.Tells)
	}
	answer, _, _ := strings.Cut(s.Answers, "=")
	for _, p := range []string{s.Finds, s.Passes, answer} {
		if p != "" && f.Param(p) < 0 {
			return fmt.Errorf("no parameter %s", p)
		}
	}
	m.meanings[f.Name] = s.meaning
	if f.SkipOnReplay = s.Replay == "idle"; !f.SkipOnReplay {
		f.ReplayError = s.Replay
	}
	f.Keeps = s.Keeps
	if len(s.Inject) == 2 {
		m.injected[f.Name] = [2]int(s.Inject)
	}
	if s.Ret != "" {
		var p api.Param
		if err := m.role(f, &p, s.Ret); err != nil {
			return fmt.Errorf("ret: %w", err)
		}
		f.Ret, f.RetObject, f.RetVolatile = p.Role, p.Object, p.Volatile
	}
	if s.Keeps != nil && !slices.ContainsFunc(f.Params, func(p api.Param) bool { return s.Params[p.Name] == "file" }) {
		return errors.New("keeps: it has no parameter that is a file")
	}
	for i := range f.Params {
		p := &f.Params[i]
		text, ok := s.Params[p.Name]
		if !ok {
			var err error
			if text, err = m.implied(f, i); err != nil {
				return err
			}
		}
		delete(s.Params, p.Name)
		if err := m.role(f, p, text); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		switch {
		case p.Role != api.Use:
		case p.Object == api.Stream:
			f.Stream = int8(i)
		case p.Object == api.Event || p.Object == api.Notify || p.Object == api.Counter:
			if f.Task == api.Record || f.Task == api.Wait || f.Task == api.Reset || f.Sync != api.NoSync {
				f.Event = int8(i)
			}
		}
	}
	for name := range s.Params {
		return fmt.Errorf("no parameter %s", name)
	}
	for _, c := range []struct {
		key, param string
		to         *int8
	}{{"selects", s.Selects, &f.Selects}, {"device", s.Device, &f.Device}, {"entry", s.Entry, &f.Entry}, {"names", s.Names, &f.Names}, {"graph", s.Graph, &f.Graph}} {
		if c.param == "" {
			continue
		}
		i := f.Param(c.param)
		if i < 0 {
			return fmt.Errorf("%s: no parameter %s", c.key, c.param)
		}
		*c.to = int8(i)
	}
	if f.Stack, ok = api.ParseStack(s.Stack); !ok {
		return fmt.Errorf("stack: no %s", s.Stack)
	}
	f.Modelled = true
	return nil
}

// tagged says of a structure which of its members counts: the one with the name of the form that the value of its member Tag means, none
// where it has none of that name. To all but the runtime each form of a function that is given such a structure is a function of its own.
type tagged struct {
	Tag   string
	Forms map[string]struct {
		Value        int64
		Task, Replay string
		New          bool // only of functions that make something
	}
}

// tell makes the forms of the functions that are given a structure with a tag.
func (m *model) tell(name string, t tagged) error {
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
			f.Form = &api.Form{Param: int8(n), Tag: what.Value}
			var ok bool
			if f.Task, ok = api.ParseTask(what.Task); !ok {
				return fmt.Errorf("%s: no task %q", form, what.Task)
			}
			if f.Task == api.NoTask {
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
		base.Graph = -1 // nothing is known of the task
	}
	return nil
}

// arm is a structure as its tag has it: the tag and the members of the one that counts, with those of the structures in it.
func (m *model) arm(s *structType, tag, form string) *structType {
	out := &structType{name: s.name + ":" + form, kind: s.kind, size: s.size, align: s.align}
	for _, f := range s.fields {
		switch {
		case f.name == tag:
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
		for _, member := range []*string{&n.unless, &n.count} {
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

// implied is the role of a parameter that semantics.yaml does not name.
func (m *model) implied(f *api.Func, i int) (string, error) {
	p := &f.Params[i]
	base := strings.TrimSuffix(strings.TrimPrefix(p.Type, "const "), "*")
	pointer := strings.HasSuffix(p.Type, "*")
	switch {
	case m.handle(p.Type):
		o := m.object(base)
		if o == "" {
			return "", fmt.Errorf("%s: no object for handle %s", p.Name, base)
		}
		return "use " + string(o), nil
	case !pointer && m.callback(base):
		return "callback", nil
	case !pointer:
		return "value", nil
	case p.Type == "const char*" || p.Type == "const char_t*":
		return "", fmt.Errorf("%s: a %s needs a role: file if the call reads the file of this path, target if it writes it, string if it is no path", p.Name, p.Type)
	case strings.Contains(m.dirs[f.Name][i], "out") && m.size(base) != 0 && !m.handle(base) && !strings.HasSuffix(base, "*"):
		return "out", nil
	}
	return "", fmt.Errorf("%s: a %s needs a role", p.Name, p.Type)
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

var roleRE = regexp.MustCompile(`^([a-z]+)(?: ([a-z ]+?))?(?: ?\((.*)\))?(?: (volatile|machine|always|words|dropped|held|extent|token|hosted|cookie))?$`)

// role parses `role [object] [(size)] [flag]`.
func (m *model) role(f *api.Func, p *api.Param, text string) error {
	g := roleRE.FindStringSubmatch(text)
	if g == nil {
		return fmt.Errorf("role %q not understood", text)
	}
	role, object, size, flag := g[1], g[2], g[3], g[4]
	if object == "volatile" || object == "machine" || object == "always" || object == "words" || object == "dropped" || object == "held" || object == "extent" || object == "token" || object == "cookie" {
		object, flag = "", object
	}
	items := object == "items"
	if items {
		object = ""
	}
	var ok bool
	if p.Role, ok = api.ParseRole(role); !ok {
		return fmt.Errorf("no role %q", role)
	}
	p.Object = api.Object(object)
	if p.Role == api.Callback {
		for _, t := range m.typedefs {
			if t.name == p.Type {
				p.Before = uint8(strings.Count(t.def, ","))
				for _, given := range m.typedefs {
					if given.object == api.Exception && strings.Contains(t.def, given.name+" *") {
						p.Object = api.Exception
					}
				}
			}
		}
	}
	base := strings.TrimPrefix(strings.TrimSuffix(p.Type, "*"), "const ")
	switch flag {
	case "":
	case "volatile":
		p.Volatile = true
	case "machine":
		p.Machine = true
	case "hosted":
		p.HostVisible = true
	case "words":
		p.Addresses = true
	case "dropped":
		p.OmitOnReplay = true
	case "cookie":
		p.Cookie = true
	case "token":
		p.Token, p.Volatile = uint32(m.size(base)), p.Role != api.In
		if p.Token == 0 || p.Token%8 != 0 {
			return fmt.Errorf("layout of %s unknown, or of odd size", base)
		}
	case "always":
		if p.Role != api.InOut {
			return fmt.Errorf("an output that failed calls may store must be inout: otherwise nothing tells whether a call has stored it")
		}
		p.Always = true
	case "extent":
		p.RangeQuery = true
	case "held":
		p.RefCounted = true
	default:
		return fmt.Errorf("no flag %q", flag)
	}
	switch p.Role {
	case api.Args, api.DevArgs, api.Reads, api.ArgArray, api.Packed:
		p.Addresses = true
	}
	switch p.Role {
	case api.New, api.Find, api.Buffer:
		if base == "void" && size == "4" {
			p.Elem, size = 4, "" // of what is not said
		} else if p.Elem = uint32(m.size(base)); p.Elem != 4 {
			p.Elem = 8
		}
	case api.Struct:
		if m.structByName(base) == nil {
			return fmt.Errorf("layout of %s unknown", base)
		}
		p.Elem = uint32(m.size(base))
		p.Fields = m.fields(m.structByName(base))
		p.CopyDesc = m.structByName(base).block
		if slices.ContainsFunc(p.Fields, func(f api.Field) bool { return f.Object == api.Stream }) {
			f.Stream = int8(slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Name == p.Name }))
		}
	case api.Out, api.InOut:
		n := m.size(base)
		if size != "" {
			var err error
			if n, err = strconv.Atoi(size); err != nil {
				return err
			}
			size = ""
		}
		if n == 0 {
			return fmt.Errorf("size of %s unknown", base)
		}
		p.Elem = uint32(n)
	case api.List:
		if s := m.structByName(base); s != nil {
			p.ItemType = strings.TrimSuffix(s.fields[0].ctype, "*")
		}
		n, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("list needs the size of an element: %w", err)
		}
		p.Elem, size = uint32(n), ""
	}
	if size == "" {
		return nil
	}
	expr, pitch, pitched := strings.Cut(size, ", ")
	if items {
		sizes, count := f.Param(expr), f.Param(pitch)
		if sizes < 0 || count < 0 {
			return fmt.Errorf("items(%s): no such parameter", size)
		}
		p.ItemSizes, p.ItemCount = int8(sizes), int8(count)
		p.Size = api.Size{Unit: 8, Mul: []uint8{uint8(count)}, Pitch: -1}
		return nil
	}
	p.Size = api.Size{Unit: 1, Pitch: -1}
	if pitched {
		i := f.Param(pitch)
		if i < 0 {
			return fmt.Errorf("size: no parameter %s", pitch)
		}
		p.Size.Pitch = int8(i)
	}
	for _, t := range strings.Split(expr, "*") {
		c, err := m.factor(f, t)
		if err != nil {
			return err
		}
		if c != "" {
			k := factorKey{f.Name, p.Name}
			m.factors[k] = append(m.factors[k], c)
			p.Size.Stored = true
			continue
		}
		if n, err := strconv.ParseUint(t, 10, 32); err == nil {
			p.Size.Unit *= n
			continue
		}
		i := f.Param(t)
		if i < 0 {
			return fmt.Errorf("size: no parameter %s", t)
		}
		p.Size.Mul = append(p.Size.Mul, uint8(i))
		p.Size.Stored = p.Size.Stored || strings.HasSuffix(f.Params[i].Type, "*")
	}
	return nil
}

var lessRE = regexp.MustCompile(`^\(([A-Za-z_][A-Za-z0-9_]*)-([0-9]+)\)$`)

var queryRE = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\(([A-Za-z_][A-Za-z0-9_]*)\)$`)

// factor is a factor of a size in C where it is none of the numbers and parameters of a call: `param.field`, a field
// behind a pointer, or `(a+b)`, a sum of parameters, `(a-N)`, or `Query(param)`, what a function of the same library answers
// about a handle in a uint32_t. "" for any other.
func (m *model) factor(f *api.Func, t string) (string, error) {
	if g := queryRE.FindStringSubmatch(t); g != nil {
		q := m.find(g[1])
		if f.Param(g[2]) < 0 || q == nil || len(q.Params) != 2 || q.Params[1].Type != "uint32_t*" {
			return "", fmt.Errorf("size: %s is no question about a parameter", t)
		}
		return fmt.Sprintf("shim_query(%q, %s)", g[1], g[2]), nil
	}
	if g := lessRE.FindStringSubmatch(t); g != nil {
		if f.Param(g[1]) < 0 {
			return "", fmt.Errorf("size: no parameter %s", g[1])
		}
		return fmt.Sprintf("(%s > %s ? (uint64_t)%[1]s - %[2]s : 0)", g[1], g[2]), nil
	}
	if sum, ok := strings.CutPrefix(t, "("); ok {
		var terms []string
		for _, name := range strings.Split(strings.TrimSuffix(sum, ")"), "+") {
			if f.Param(name) < 0 {
				return "", fmt.Errorf("size: no parameter %s", name)
			}
			terms = append(terms, "(uint64_t)"+name)
		}
		return "(" + strings.Join(terms, " + ") + ")", nil
	}
	param, field, ok := strings.Cut(t, ".")
	if !ok {
		return "", nil
	}
	i := f.Param(param)
	if i < 0 {
		return "", fmt.Errorf("size: no parameter %s", param)
	}
	if s := m.structByName(strings.TrimSuffix(strings.TrimPrefix(f.Params[i].Type, "const "), "*")); s == nil || !s.has(field) {
		return "", fmt.Errorf("size: no field %s behind %s", field, param)
	}
	return fmt.Sprintf("(%s == NULL ? 0 : (uint64_t)%s->%s)", param, param, field), nil
}

var madeRE = regexp.MustCompile(`^new ([a-z ]+)\((.*)\)$`)

// nest says what lies behind the pointers of a structure: the bytes, a number times one of its fields, `string`, or `new KIND(bytes)`,
// handles that the call stores; `stored new KIND(bytes)` where the call stores the pointer too, or the address of so much memory of
// the kind; `unless FIELD` where a field says that it is no memory of the host's. `arguments of FIELD` are those of the
// kernel that the field names, or the one of several that is there; `packed` is a list that leads to them. A `function` is the program's,
// and what it is given is `dropped`.
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
		if text == "packed" || text == "function" || text == "dropped" {
			n.form = text
			s.nested = append(s.nested, n)
			continue
		}
		n.size, n.unless, _ = strings.Cut(text, " unless ")
		if n.unless != "" && !s.has(n.unless) {
			return fmt.Errorf("no field %s", n.unless)
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

// fields are the pointers and the handles of a structure.
func (m *model) fields(s *structType) []api.Field {
	var fs []api.Field
	for _, f := range s.fields {
		if i := slices.IndexFunc(s.nested, func(n nested) bool { return n.field == f.name }); i >= 0 {
			n := &s.nested[i]
			var elem string
			if base, pointer := strings.CutSuffix(strings.TrimPrefix(f.ctype, "const "), "*"); pointer && m.structByName(base) != nil {
				elem = base
			}
			fs = append(fs, api.Field{Type: elem, Offset: uint32(f.offset), Item: uint32(i + 1), String: n.size == "" && n.form == "" && n.kernel == "", Unit: n.unit,
				Count: s.member(n.count), Unless: s.member(n.unless), Object: n.makes, New: n.makes != "", Args: n.kernel != "", Packed: n.form == "packed",
				Callback: n.form == "function", OmitOnReplay: n.form == "dropped", Stored: n.stored})
			if last := &fs[len(fs)-1]; n.stored && n.makes.Memory() {
				last.Item = 0
			}
		} else if o := m.object(f.ctype); o != "" {
			fs = append(fs, api.Field{Offset: uint32(f.offset), Object: o})
			for _, side := range s.sides() {
				if last := &fs[len(fs)-1]; side.Array == last.Offset {
					last.Tag, last.Case = api.Member{Offset: side.Kind, Size: 4}, api.ArraySide
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

// block is what the copies of semantics.yaml say: the fields of each side by what they are.
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

// shown says of a structure which members are shown: a list of them, or the member that says by its value which others are, of
// the union that follows it.
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

// members is a member of a structure that lies at an offset, or the members of it where it is a structure itself.
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

// prefix is what the names of an enumeration begin with, up to an underscore.
func prefix(values []api.EnumValue) string {
	p := values[0].Name
	for _, v := range values {
		for !strings.HasPrefix(v.Name, p) {
			p = p[:len(p)-1]
		}
	}
	return p[:strings.LastIndexByte(p, '_')+1]
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
		maps.Copy(m.injected, l.injected)
		maps.Copy(m.meanings, l.meanings)
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
	return slices.DeleteFunc(slices.Clone(m.layers[1:]), func(l *model) bool { return l.layer.Called })
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
