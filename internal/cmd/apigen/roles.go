package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// implied returns the role for a parameter without one in semantics.yaml.
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

// flags are the words that may follow a role.
const flags = "volatile|machine|always|words|omit|refcounted|rangequery|token|visible|cookie|flags"

var (
	roleRE = regexp.MustCompile(`^([a-z]+)(?: ([a-z ]+?))?(?: ?\((.*)\))?(?: (` + flags + `))?$`)
	flagRE = regexp.MustCompile(`^(?:` + flags + `)$`)
)

// role parses `role [object] [(size)] [flag]`.
func (m *model) role(f *api.Func, p *api.Param, text string) error {
	g := roleRE.FindStringSubmatch(text)
	if g == nil {
		return fmt.Errorf("role %q not understood", text)
	}
	role, object, size, flag := g[1], g[2], g[3], g[4]
	if flagRE.MatchString(object) {
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
	base := strings.TrimPrefix(strings.TrimSuffix(p.Type, "*"), "const ")
	if err := m.flag(p, flag, base); err != nil {
		return err
	}
	size, err := m.element(f, p, base, size)
	switch {
	case err != nil || size == "":
		return err
	case items:
		return itemSizes(f, p, size)
	}
	return m.extent(f, p, size)
}

// flag sets the field for a flag.
func (m *model) flag(p *api.Param, flag, base string) error {
	switch flag {
	case "volatile":
		p.Volatile = true
	case "machine":
		p.Machine = true
	case "visible":
		p.HostVisible = true
	case "words":
		p.Addresses = true
	case "omit":
		p.OmitOnReplay = true
	case "flags":
		p.Flags = true
	case "cookie":
		p.Cookie = true
	case "token":
		p.Token, p.Volatile = uint32(m.size(base)), p.Role != api.In
		if p.Token == 0 || p.Token%8 != 0 {
			return fmt.Errorf("layout of %s unknown, or of odd size", base)
		}
	case "always":
		if p.Role != api.InOut {
			return errors.New("an output that failed calls may store must be inout: only a changed value shows that the call stored it")
		}
		p.Always = true
	case "rangequery":
		p.RangeQuery = true
	case "refcounted":
		p.RefCounted = true
	}
	return nil
}

// element sets the fields that follow from the role and the C type. It returns the size unless it has consumed it.
func (m *model) element(f *api.Func, p *api.Param, base, size string) (rest string, err error) {
	switch p.Role {
	case api.Args, api.DevArgs, api.Reads, api.ArgArray, api.Packed:
		p.Addresses = true
	case api.Callback:
		m.arguments(p)
	case api.New, api.Find, api.Buffer:
		if base == "void" && size == "4" {
			p.Elem = 4
			return "", nil
		}
		if p.Elem = uint32(m.size(base)); p.Elem != 4 {
			p.Elem = 8
		}
	case api.Struct:
		s := m.structByName(base)
		if s == nil {
			return "", fmt.Errorf("layout of %s unknown", base)
		}
		p.Elem, p.Fields, p.CopyDesc = uint32(s.size), m.fields(s), s.block
		if slices.ContainsFunc(p.Fields, func(f api.Field) bool { return f.Object == api.Stream }) {
			f.Stream = int8(f.Param(p.Name))
		}
	case api.Out, api.InOut:
		n := m.size(base)
		if size != "" {
			n, err = strconv.Atoi(size)
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("size of %s unknown", base)
		}
		p.Elem = uint32(n)
		return "", err
	case api.List:
		if s := m.structByName(base); s != nil {
			p.ItemType = strings.TrimSuffix(s.fields[0].ctype, "*")
		}
		n, err := strconv.Atoi(size)
		if err != nil {
			return "", fmt.Errorf("list needs the size of an element: %w", err)
		}
		p.Elem = uint32(n)
		return "", nil
	}
	return size, nil
}

// arguments sets the number of arguments before the program's own for a callback, and whether one is an exception.
func (m *model) arguments(p *api.Param) {
	for _, t := range m.typedefs {
		if t.name != p.Type {
			continue
		}
		p.Before = uint8(strings.Count(t.def, ","))
		for _, given := range m.typedefs {
			if given.object == api.Exception && strings.Contains(t.def, given.name+" *") {
				p.Object = api.Exception
			}
		}
	}
}

// itemSizes parses `sizes, count`: two parameters with the sizes and the count of an array of payloads.
func itemSizes(f *api.Func, p *api.Param, size string) error {
	sizesName, countName, _ := strings.Cut(size, ", ")
	sizes, count := f.Param(sizesName), f.Param(countName)
	if sizes < 0 || count < 0 {
		return fmt.Errorf("items(%s): no such parameter", size)
	}
	p.ItemSizes, p.ItemCount = int8(sizes), int8(count)
	p.Size = api.Size{Unit: 8, Mul: []uint8{uint8(count)}, Pitch: -1}
	return nil
}

// extent parses a size: `factor*factor...[, pitch]`.
func (m *model) extent(f *api.Func, p *api.Param, size string) error {
	expr, pitch, pitched := strings.Cut(size, ", ")
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

// factor returns the C expression for a size factor that is neither a number nor a parameter: `param.field`, `(a+b)`,
// `(a-N)`, or `Query(param)`, a library function that stores a uint32_t for a
// handle or returns a size_t for a value. It returns "" for other factors.
func (m *model) factor(f *api.Func, t string) (string, error) {
	if g := queryRE.FindStringSubmatch(t); g != nil {
		q := m.find(g[1])
		if q == nil && m.first != nil {
			q = m.first.find(g[1])
		}
		if f.Param(g[2]) >= 0 && q != nil && len(q.Params) == 1 && q.Return == "size_t" {
			return fmt.Sprintf("%s(%s)", g[1], g[2]), nil
		}
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
