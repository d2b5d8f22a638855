package timeline

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

func trimPointer(ctype string) string {
	return strings.TrimPrefix(strings.TrimRight(ctype, "*"), "const ")
}

// An Arg is one argument, or output, of a call, for people and for JSON.
type Arg struct {
	Name  string
	Param int
	Text  string // as shown on a line
	Value any    // number, string or bool, as in JSON
	Out   bool   // what the call has stored
}

// Args returns the arguments of a call in the order of its parameters, followed by what it has stored.
func (e *Event) Args(m *api.Model) []Arg {
	if e.Fn == nil {
		var args []Arg
		for i, w := range e.Call.Args {
			args = append(args, Arg{Name: fmt.Sprintf("word%d", i), Text: hex(w), Value: hex(w)})
		}
		return args
	}
	var args, outs []Arg
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if int(p.Word) >= len(e.Call.Args) {
			break
		}
		a := e.arg(m, i, p)
		a.Param = i
		args = append(args, a)
		if v, ok := out(e.Call, i); ok {
			a := e.output(m, i, p, v)
			a.Param = i
			outs = append(outs, a)
		} else if p.Role == api.Text {
			if s, ok := e.text(i); ok {
				outs = append(outs, Arg{Name: p.Name, Param: i, Text: strconv.Quote(s), Value: s, Out: true})
			}
		}
	}
	if e.Fn.Ret == api.Text {
		if s, ok := e.text(RetParam); ok {
			outs = append(outs, Arg{Name: "return", Param: RetParam, Text: strconv.Quote(s), Value: s, Out: true})
		}
	}
	return append(args, outs...)
}

func (e *Event) text(param int) (string, bool) {
	for _, d := range e.Call.Data {
		if int(d.Param) == param && d.Item == 0 && d.Status == format.Whole && d.Len <= format.InlineLimit {
			return string(d.Bytes), true
		}
	}
	return "", false
}

func (e *Event) arg(m *api.Model, i int, p *api.Param) Arg {
	w := e.Call.Args[p.Word]
	a := Arg{Name: p.Name, Text: hex(w), Value: hex(w)}
	switch p.Role {
	case api.Value:
		if p.Words > 1 {
			a.Text = structure(e.Call.Args[p.Word:p.Word+p.Words], int(p.Width))
			a.Value = a.Text
			return a
		}
		a.Text, a.Value = number(m, p.Type, w)
	case api.Use, api.End, api.Launch, api.Place, api.Address, api.DevArgs, api.Reads, api.Writes, api.Fills, api.Map:
		if u, ok := e.Use(i); ok {
			a.Text = Place(u)
		} else if w == 0 {
			a.Text = "null"
		}
	case api.String, api.File:
		if s, ok := e.text(i); ok {
			a.Text, a.Value = strconv.Quote(s), s
		}
	default:
		if w == 0 {
			a.Text = "null"
		}
	}
	if w != 0 {
		if s := e.behind(m, i, p); s != "" {
			a.Text = s
		}
	}
	return a
}

// behind shows what lies behind a pointer as what it is, where it is in the trace, else "".
func (e *Event) behind(m *api.Model, i int, p *api.Param) string {
	switch p.Role {
	case api.In, api.List, api.Args, api.Reads, api.Writes:
	default:
		return ""
	}
	if p.ItemSizes < 0 && (p.Role == api.Reads || p.Role == api.Writes) {
		return ""
	}
	s, ok := e.text(i)
	if !ok || s == "" {
		return ""
	}
	b := []byte(s)
	t := trimPointer(p.Type)
	if p.Role == api.List {
		t = p.ItemType
	}
	if l := m.Layout(t); l != nil {
		return elements(b, int(l.Size), func(b []byte) string { return members(m, l, b) })
	}
	switch {
	case p.ItemSizes >= 0:
		return fmt.Sprintf("[%d: %s]", len(b)/8, Words(b))
	case t == "size_t":
		var sum uint64
		for k := 0; k+8 <= len(b); k += 8 {
			sum += word(b[k:])
		}
		return fmt.Sprintf("[%d: %d]", len(b)/8, sum)
	case p.Role == api.Args || p.Addresses:
		return hex(e.Call.Args[p.Word]) + " " + Words(b)
	}
	return ""
}

// shown bounds how many elements of an array are shown on a line.
const shown = 8

func elements(b []byte, size int, show func([]byte) string) string {
	var parts []string
	for ; len(b) >= size; b = b[size:] {
		if len(parts) == shown {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, show(b[:size]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Words shows the first 8-byte words of memory.
func Words(b []byte) string {
	text := append(make([]byte, 0, shown*20), '{')
	for n := 0; len(b) > 0; n, b = n+1, b[min(8, len(b)):] {
		if n > 0 {
			text = append(text, ", "...)
		}
		if n == shown {
			text = append(text, "…"...)
			break
		}
		text = strconv.AppendUint(append(text, "0x"...), word(b), 16)
	}
	return string(append(text, '}'))
}

// members shows the members of a structure that its layout names.
func members(m *api.Model, l *api.Layout, b []byte) string {
	show := func(ms []api.Member) []string {
		var parts []string
		for _, f := range ms {
			text, _ := number(m, f.Type, word(b[f.Offset:f.Offset+f.Size]))
			parts = append(parts, text)
		}
		return parts
	}
	if l.Tag == nil {
		return strings.Join(show(l.Members), " -> ")
	}
	id := int64(word(b[l.Tag.Offset : l.Tag.Offset+l.Tag.Size]))
	value, ok := l.Cases[id]
	if !ok {
		return fmt.Sprintf("%d = %s", id, Words(b[l.Tag.Offset+l.Tag.Size:]))
	}
	text := strings.Join(show(value), ", ")
	if len(value) > 1 {
		text = "{" + text + "}"
	}
	return fmt.Sprintf("%d %s = %s", id, strings.TrimPrefix(m.EnumName(l.Tag.Type, id), l.Prefix), text)
}

func (e *Event) output(m *api.Model, i int, p *api.Param, v uint64) Arg {
	a := Arg{Name: p.Name, Out: true}
	if p.Role == api.Out || p.Role == api.InOut {
		a.Text, a.Value = number(m, trimPointer(p.Type), v)
		return a
	}
	a.Text, a.Value = hex(v), hex(v)
	if u, ok := e.Use(i); ok {
		a.Text = Place(u) + "=" + hex(v)
	}
	return a
}

// Place names an object, with the offset of an address that is not its first.
func Place(u Use) string {
	text := append(make([]byte, 0, 64), u.Object.Kind...)
	for i, c := range text {
		if c == ' ' {
			text[i] = '_'
		}
	}
	text = strconv.AppendInt(append(text, '#'), int64(u.Object.ID), 10)
	if u.Object.Name != "" {
		text = append(append(append(text, '('), u.Object.Name...), ')')
	}
	if u.Offset != 0 {
		text = strconv.AppendUint(append(text, "+0x"...), u.Offset, 16)
	}
	return string(text)
}

func hex(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// structure shows a small structure of 32-bit numbers that was passed by value, as dim3 is. It has a length in bytes.
func structure(words []uint64, size int) string {
	var parts []string
	for i := range (size + 3) / 4 {
		parts = append(parts, strconv.FormatUint(words[i/2]>>(32*(i%2))&0xffffffff, 10))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// number shows a number as its C type has it, an enumeration by name.
func number(m *api.Model, ctype string, w uint64) (string, any) {
	if n := m.EnumName(ctype, int64(int32(w))); n != "" {
		return n, n
	}
	if m.ErrorType(ctype) {
		ctype = "int32_t"
	}
	switch ctype {
	case "int32_t", "int":
		return strconv.FormatInt(int64(int32(w)), 10), int32(w)
	case "int64_t":
		return strconv.FormatInt(int64(w), 10), int64(w)
	case "uint32_t":
		return strconv.FormatUint(w&0xffffffff, 10), uint32(w)
	case "float":
		f := math.Float32frombits(uint32(w))
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return fmt.Sprint(f), fmt.Sprint(f)
		}
		return strconv.FormatFloat(float64(f), 'g', -1, 32), f
	}
	return strconv.FormatUint(w, 10), w
}

// Result shows the returned value: the name of an error, a handle, "" for a function without one, and "unfinished" for
// a call that never returned.
func (e *Event) Result(m *api.Model) string {
	switch {
	case e.Call.Flags&format.Unfinished != 0:
		return "unfinished"
	case e.Fn == nil:
		return hex(e.Call.Ret)
	case e.Fn.RetVoid:
		return ""
	case e.Fn.RetError:
		if code := int64(int32(e.Call.Ret)); code != 0 {
			return fmt.Sprintf("%d %s", code, m.ErrorName(code))
		}
		return "0"
	}
	return hex(e.Call.Ret)
}
