package testenv

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
)

// Vary describes how a text depends on a value of type T. It fills all exported fields, lets adapt make the value possible, and lists the text. Then it
// changes one field at a time, and lists the lines that differ. So a golden file of it has the use of each field, without a trace for each case.
//
// The fields of a struct type are varied in the first places where it occurs. values are those of types with names. Values with which show panics
// are impossible, and are left out, and so are changes of numbers alone.
func Vary[T any](adapt func(*T), show func(*T) string, values ...any) string {
	given := byType(values)
	made := func(change string, to int) (text string, v *variation) {
		v = &variation{wanted: change, to: to, values: given, places: map[reflect.Type]int{}, within: map[reflect.Type]bool{}}
		x := new(T)
		v.fill(reflect.ValueOf(x).Elem(), "", true)
		if adapt != nil {
			adapt(x)
		}
		defer func() {
			if recover() != nil {
				text = ""
			}
		}()
		return show(x), v
	}
	base, all := made("", 0)
	var out strings.Builder
	out.WriteString(base)
	for _, part := range all.parts {
		seen := []string{withoutDigits(base)}
		for to, same := 0, 0; to < part.values && same < 3; to++ {
			text, _ := made(part.path, to)
			if same++; text == "" || slices.Contains(seen, withoutDigits(text)) {
				continue
			}
			same, seen = 0, append(seen, withoutDigits(text))
			fmt.Fprintf(&out, "\n%s: %s\n%s", part.path, part.name(to), changedLines(base, text))
		}
	}
	return out.String()
}

// Filled returns a value of which all exported fields are set.
func Filled[T any](values ...any) *T {
	v := &variation{values: byType(values), places: map[reflect.Type]int{}, within: map[reflect.Type]bool{}}
	x := new(T)
	v.fill(reflect.ValueOf(x).Elem(), "", false)
	return x
}

func byType(values []any) map[reflect.Type][]reflect.Value {
	of := map[reflect.Type][]reflect.Value{}
	for _, v := range values {
		of[reflect.TypeOf(v)] = append(of[reflect.TypeOf(v)], reflect.ValueOf(v))
	}
	return of
}

// variedPlaces is in how many places the fields of a struct type are varied.
const variedPlaces = 2

// variedPart is a part of a value that can be changed.
type variedPart struct {
	path   string
	kind   reflect.Kind
	values int             // number of changes
	of     []reflect.Value // the values, if they are given
}

// name describes a change.
func (p *variedPart) name(to int) string {
	if len(p.of) > 0 {
		return fmt.Sprint(p.of[to])
	}
	switch p.kind {
	case reflect.Bool:
		return "false"
	case reflect.String:
		return `""`
	case reflect.Slice, reflect.Map:
		return fmt.Sprintf("%d elements", to)
	case reflect.Pointer, reflect.Interface:
		return "nil"
	}
	return fmt.Sprint(to)
}

// variation fills a value, apart from one part that is changed.
type variation struct {
	wanted string                           // part to change
	to     int                              // which change
	values map[reflect.Type][]reflect.Value // given ones
	parts  []variedPart
	places map[reflect.Type]int  // with a struct type so far
	within map[reflect.Type]bool // struct types that are being filled: a value does not contain itself
}

// fill sets a value and its parts. vary: they are among the parts to change.
func (v *variation) fill(x reflect.Value, path string, vary bool) {
	values := 1
	switch x.Kind() {
	case reflect.Slice, reflect.Map:
		values = 2
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float64:
		values = 2
		if x.Type().PkgPath() != "" && x.Kind() != reflect.Int64 && x.Kind() != reflect.Uint64 {
			values = 64 // perhaps an enumeration
		}
	case reflect.Struct, reflect.Array:
		values = 0
	}
	of := v.values[x.Type()]
	if len(of) > 0 {
		values = len(of)
	}
	if vary && values > 0 && path != "" {
		v.parts = append(v.parts, variedPart{path, x.Kind(), values, of})
	}
	changed := path != "" && path == v.wanted
	if len(of) > 0 {
		x.Set(of[0])
		if changed {
			x.Set(of[v.to])
		}
		return
	}
	switch x.Kind() {
	case reflect.Bool:
		x.SetBool(!changed)
	case reflect.String:
		if !changed {
			x.SetString(strings.ToLower(path[strings.LastIndexByte(path, '.')+1:]))
		}
	case reflect.Pointer:
		if !changed && !v.within[x.Type().Elem()] {
			x.Set(reflect.New(x.Type().Elem()))
			v.fillStruct(x.Elem(), path, vary)
		}
	case reflect.Slice:
		n := 2
		if changed {
			n = v.to
		}
		if v.within[x.Type().Elem()] {
			n = 0
		}
		x.Set(reflect.MakeSlice(x.Type(), n, n))
		for i := range n {
			v.fillStruct(x.Index(i), fmt.Sprintf("%s[%d]", path, i), vary && i == 0)
		}
	case reflect.Array:
		for i := range x.Len() {
			v.fillStruct(x.Index(i), fmt.Sprintf("%s[%d]", path, i), vary)
		}
	case reflect.Map:
		x.Set(reflect.MakeMap(x.Type()))
		for i := range 2 {
			key, value := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
			v.fillStruct(key, fmt.Sprintf("%s.key%d", path, i), false)
			v.fillStruct(value, fmt.Sprintf("%s[%d]", path, i), vary && i == 0)
			if !changed || i < v.to {
				x.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		v.fillStruct(x, path, vary)
	default:
		v.setNumber(x, path, values, changed)
	}
}

// setNumber sets a number. The first value of an enumeration is its base.
func (v *variation) setNumber(x reflect.Value, path string, values int, changed bool) {
	n := pathNumber(path)
	switch {
	case changed:
		n = int64(v.to)
	case values > 2:
		n = 0
	case x.Kind() == reflect.Int64:
		n *= 1_000_003
	}
	switch {
	case x.CanInt():
		x.SetInt(n)
	case x.CanUint():
		x.SetUint(uint64(n))
	case x.CanFloat() && changed:
		x.SetFloat(float64(n))
	case x.CanFloat():
		x.SetFloat(float64(n) / 1000)
	}
}

// fillStruct fills a value, which may be a struct with fields.
func (v *variation) fillStruct(x reflect.Value, path string, vary bool) {
	if x.Kind() != reflect.Struct {
		v.fill(x, path, vary)
		return
	}
	v.within[x.Type()] = true
	defer delete(v.within, x.Type())
	if vary {
		v.places[x.Type()]++
		vary = v.places[x.Type()] <= variedPlaces
	}
	for i := range x.NumField() {
		if f := x.Type().Field(i); f.IsExported() {
			v.fill(x.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), vary)
		}
	}
}

// changedLines returns the lines that only one of two texts has.
func changedLines(a, b string) string {
	was, is := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	only := func(sign string, of, not []string) {
		for _, l := range of {
			if !slices.Contains(not, l) {
				fmt.Fprintf(&out, "%s %s\n", sign, l)
			}
		}
	}
	only("-", was, is)
	only("+", is, was)
	return out.String()
}

// pathNumber returns the number at a path. It stays if a type gets more fields.
func pathNumber(path string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	return 2 + int64(h.Sum32()%1998)
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
