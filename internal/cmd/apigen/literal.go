package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// lineWidth is the longest literal that stays on one line.
const lineWidth = 150

// literal returns v as a Go expression, without zero and unexported fields. It omits the type of v unless named is set. An
// enclosing slice, map or pointer may state the type.
func literal(v reflect.Value, named bool) string {
	typ := ""
	if named {
		typ = strings.ReplaceAll(v.Type().String(), "uint8", "byte")
	}
	switch v.Kind() {
	case reflect.Struct:
		return typ + braces(fill(fieldLiterals(v)))
	case reflect.Slice, reflect.Array:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = literal(v.Index(i), false)
		}
		return typ + braces(items)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(integer(a), integer(b)))
		})
		items := make([]string, len(keys))
		for i, k := range keys {
			items[i] = literal(k, false) + ": " + literal(v.MapIndex(k), false)
		}
		return typ + braces(items)
	case reflect.Pointer:
		return "&" + literal(v.Elem(), true)
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Bool:
		return fmt.Sprint(v.Bool())
	}
	if v.CanInt() {
		return fmt.Sprint(v.Int())
	}
	return fmt.Sprint(v.Uint())
}

// integer returns the value of a signed integer, 0 for any other kind.
func integer(v reflect.Value) int64 {
	if v.CanInt() {
		return v.Int()
	}
	return 0
}

// fieldLiterals returns `Name: value` for every exported non-zero field.
func fieldLiterals(v reflect.Value) (items []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if value := v.Field(i); f.IsExported() && !value.IsZero() {
			items = append(items, f.Name+": "+literal(value, true))
		}
	}
	return items
}

// braces returns items in braces: all on one line if they fit, else each on a line of its own.
func braces(items []string) string {
	line := strings.Join(items, ", ")
	if len(line) <= lineWidth && !strings.Contains(line, "\n") {
		return "{" + line + "}"
	}
	return "{\n" + strings.Join(items, ",\n") + ",\n}"
}

// fill joins short items to lines.
func fill(items []string) (lines []string) {
	for _, item := range items {
		last := len(lines) - 1
		if last >= 0 && !strings.Contains(lines[last]+item, "\n") && len(lines[last])+len(item) < lineWidth {
			lines[last] += ", " + item
		} else {
			lines = append(lines, item)
		}
	}
	return lines
}
