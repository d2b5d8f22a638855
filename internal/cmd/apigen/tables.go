package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// table reads the rows of a tab-separated file, without comments.
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
	m := &model{dir: dir, dirs: map[string][]string{}, header: map[string]string{}, enumSet: map[string]bool{}, impl: map[string]string{}, factors: map[factorKey][]string{}, arms: map[factorKey]*structType{}, why: map[string]string{}}
	m.Name = filepath.Base(dir)
	return m
}

// load reads a layer's tables. Its function ids start at first.
func (m *model) load(first int) error {
	ids := func() error { return m.loadIDs(first) }
	for _, step := range []func() error{m.loadEnums, m.loadTypes, m.loadStructs, m.loadFunctions, m.loadSemantics, ids} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// furtherHeaders reads the headers whose functions are not recorded. Each header is a folder with tables. The simulator refuses these
// functions, except those of the kind `face`, which its face has by hand.
func (m *model) furtherHeaders() (*model, error) {
	dirs, err := filepath.Glob(filepath.Join(m.dir, "headers", "*"))
	if err != nil {
		return nil, err
	}
	all := newModel(filepath.Join(m.dir, "headers"))
	all.Name, all.Enums = m.Name+"/headers", slices.Clone(m.Enums)
	for _, dir := range dirs {
		h := newModel(dir)
		h.Name, h.upper, h.include = all.Name+"/"+h.Name, m, path.Join(path.Dir(m.include), h.Name+".h")
		h.layer.About = "Declared anew from its documented names, values and layouts. The simulator refuses most of these functions."
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

// byHand is the kind of a function that is written by hand in C.
const byHand = "face"

var paramRE = regexp.MustCompile(`^(.*?)\s*([A-Za-z_][A-Za-z0-9_]*)(\[[0-9]*\])?:([a-z()-]+)$`)

func (m *model) loadFunctions() error {
	rows, err := table(filepath.Join(m.dir, "functions.tsv"), 11)
	if err != nil {
		return err
	}
	for _, r := range rows {
		f := api.Func{Name: r[0], Return: normalize(r[2]), Since: r[4], Doc: r[5], Layer: m.Name,
			Meaning: api.Meaning{Stream: -1, Event: -1, Graph: -1, Names: -1, Selects: -1, Device: -1, Entry: -1}}
		f.RetVoid = f.Return == "void"
		m.header[f.Name] = r[1]
		f.Simulated = r[6] == byHand
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
				f.Params = append(f.Params, api.Param{Name: g[2], Type: t, Memory: api.Memory{ItemSizes: -1, ItemCount: -1, Size: api.Size{Pitch: -1}}})
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

// normalize returns a C type in a uniform spelling: `const T*`, without const on the parameter itself.
func normalize(t string) string {
	t = strings.Join(strings.Fields(strings.ReplaceAll(t, "*", " * ")), " ")
	t = strings.TrimSuffix(t, " const")
	if strings.HasPrefix(t, "const ") && !strings.Contains(t, "*") {
		t = t[len("const "):]
	}
	t = strings.ReplaceAll(t, " * const *", "* const*")
	return strings.ReplaceAll(strings.ReplaceAll(t, " *", "*"), " *", "*")
}

// loadIDs sets function ids from ids.lock, and appends new functions to it.
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
