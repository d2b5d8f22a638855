package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// An Arg is an argument or an output of a call, for text and for JSON. It is valid as long as the Event.
type Arg struct {
	Name  string
	Param int
	Out   bool // stored by the call

	e    *Event
	m    *api.Model
	word uint64
	kind argKind
}

type argKind uint8

const (
	argParam  argKind = iota // a parameter
	argWord                  // a word of an unknown function
	argStored                // a value that was stored through a parameter
	argText                  // a string that was stored
)

// Args appends the arguments of a call in the order of its parameters, and then its outputs.
func (e *Event) Args(dst []Arg, m *api.Model) []Arg {
	if e.Fn == nil {
		for i, w := range e.Call.Args {
			dst = append(dst, Arg{Name: "word" + strconv.Itoa(i), Param: i, e: e, m: m, word: w, kind: argWord})
		}
		return dst
	}
	known := 0 // parameters with recorded words
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if int(p.Word) >= len(e.Call.Args) {
			break
		}
		dst = append(dst, Arg{Name: p.Name, Param: i, e: e, m: m, word: e.Call.Args[p.Word]})
		known++
	}
	for i := range known {
		p := &e.Fn.Params[i]
		if v, ok := out(e.Call, i); ok {
			dst = append(dst, Arg{Name: p.Name, Param: i, Out: true, e: e, m: m, word: v, kind: argStored})
		} else if _, ok := e.text(i); ok && p.Role == api.Text {
			dst = append(dst, Arg{Name: p.Name, Param: i, Out: true, e: e, m: m, kind: argText})
		}
	}
	if e.Fn.Ret == api.Text {
		if _, ok := e.text(RetParam); ok {
			dst = append(dst, Arg{Name: "return", Param: RetParam, Out: true, e: e, m: m, kind: argText})
		}
	}
	return dst
}

// AppendText appends the argument as text for a line.
func (a *Arg) AppendText(dst []byte) []byte {
	switch a.kind {
	case argParam:
		return a.appendParam(dst, &a.e.Fn.Params[a.Param])
	case argStored:
		p := &a.e.Fn.Params[a.Param]
		if p.Role == api.Out || p.Role == api.InOut {
			return appendNumber(dst, a.m, trimPointer(p.Type), a.word)
		}
		if u, ok := a.e.Use(a.Param); ok {
			dst = append(AppendPlace(dst, u), '=')
		}
	case argText:
		s, _ := a.e.text(a.Param)
		return strconv.AppendQuote(dst, string(s))
	}
	return appendHex(dst, a.word)
}

// Text is AppendText as a string.
func (a *Arg) Text() string { return string(a.AppendText(nil)) }

// Value returns the argument for JSON: a number, a string or a bool.
func (a *Arg) Value() any {
	switch a.kind {
	case argParam:
		p := &a.e.Fn.Params[a.Param]
		switch p.Role {
		case api.Value:
			if p.Words > 1 {
				return string(appendStructure(nil, a.e.Call.Args[p.Word:p.Word+p.Words], int(p.Width)))
			}
			return number(a.m, p.Type, a.word)
		case api.String, api.File, api.Target:
			if s, ok := a.e.text(a.Param); ok {
				return string(s)
			}
		case api.In:
			if p.Object == api.OperatorInfo {
				return string(a.appendParam(nil, p))
			}
		}
	case argStored:
		if p := &a.e.Fn.Params[a.Param]; p.Role == api.Out || p.Role == api.InOut {
			return number(a.m, trimPointer(p.Type), a.word)
		}
	case argText:
		s, _ := a.e.text(a.Param)
		return string(s)
	}
	return string(appendHex(nil, a.word))
}

func (a *Arg) appendParam(dst []byte, p *api.Param) []byte {
	at := len(dst)
	if a.word != 0 {
		if dst = a.appendBehind(dst, p); len(dst) > at {
			return dst
		}
	}
	switch p.Role {
	case api.Value:
		if p.Words > 1 {
			return appendStructure(dst, a.e.Call.Args[p.Word:p.Word+p.Words], int(p.Width))
		}
		return appendNumber(dst, a.m, p.Type, a.word)
	case api.Use, api.End, api.Launch, api.Place, api.Address, api.DevArgs, api.Reads, api.Writes, api.Fills, api.Map:
		if u, ok := a.e.Use(a.Param); ok {
			return AppendPlace(dst, u)
		}
	case api.String, api.File, api.Target:
		if s, ok := a.e.text(a.Param); ok {
			return strconv.AppendQuote(dst, string(s))
		}
		return appendHex(dst, a.word)
	}
	if a.word == 0 {
		return append(dst, "null"...)
	}
	return appendHex(dst, a.word)
}

// appendBehind appends the recorded data that a pointer points to, nothing if there is none.
func (a *Arg) appendBehind(dst []byte, p *api.Param) []byte {
	switch p.Role {
	case api.Struct:
		return a.appendStruct(dst, p)
	case api.In, api.List, api.Args, api.Reads, api.Writes:
	default:
		return dst
	}
	if p.ItemSizes < 0 && (p.Role == api.Reads || p.Role == api.Writes) {
		return dst
	}
	b, _ := a.e.text(a.Param)
	if len(b) == 0 {
		return dst
	}
	t := trimPointer(p.Type)
	if p.Role == api.List {
		t = p.ItemType
	}
	if l := a.m.Layout(t); l != nil {
		return appendElements(dst, b, int(l.Size), func(dst, b []byte) []byte { return appendMembers(dst, a.m, l, b) })
	}
	switch {
	case p.Object == api.OperatorInfo:
		if x, ok := opinfo.Decode(b); ok {
			return append(x.AppendText(append(dst, '{'), cmp.Or(a.e.names, opinfo.Known())), '}')
		}
		return AppendWords(append(appendHex(dst, a.word), ' '), b)
	case p.ItemSizes >= 0:
		dst = strconv.AppendInt(append(dst, '['), int64(len(b)/8), 10)
		return append(AppendWords(append(dst, ": "...), b), ']')
	case t == "size_t":
		return appendSizes(dst, b)
	case a.e.Fn.Operand != api.NoOperand && !p.Addresses:
		return appendOperand(dst, a.e, t, b)
	case p.Role == api.Args && block.Is(b):
		if x, err := block.Decode(b); err == nil {
			return x.AppendText(append(appendHex(dst, a.word), ' '))
		}
		return AppendWords(append(appendHex(dst, a.word), ' '), b)
	case p.Role == api.Args || p.Addresses:
		return AppendWords(append(appendHex(dst, a.word), ' '), b)
	}
	return dst
}

// appendStruct appends the members of a structure that its layout names, and the elements that its pointers point to.
func (a *Arg) appendStruct(dst []byte, p *api.Param) []byte {
	l := a.m.Layout(trimPointer(p.Type))
	b, _ := a.e.text(a.Param)
	if l == nil || len(b) < int(l.Size) {
		return dst
	}
	dst = append(dst, '{')
	if l.Tag != nil {
		dst = appendMembers(dst, a.m, l, b)
	}
	for i, f := range l.Members {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(dst, f.Name...), '=')
		dst = appendNumber(dst, a.m, f.Type, word(b[f.Offset:f.Offset+f.Size]))
	}
	for _, f := range p.Fields {
		inner := a.m.Layout(f.Type)
		for i := range a.e.Call.Data {
			if d := &a.e.Call.Data[i]; inner != nil && f.Item != 0 && int(d.Param) == a.Param && d.Item == f.Item && d.Status == format.Whole && len(d.Bytes) >= int(inner.Size) {
				dst = append(dst, ", "...)
				dst = appendElements(dst, d.Bytes, int(inner.Size), func(dst, b []byte) []byte { return appendMembers(dst, a.m, inner, b) })
			}
		}
	}
	for _, u := range a.e.Uses {
		if u.Param == a.Param {
			dst = append(append(dst, ", "...), u.Object.Kind...)
			dst = AppendPlace(append(dst, '='), u)
		}
	}
	return append(dst, '}')
}

// shown bounds the number of array elements on a line.
const shown = 8

func appendElements(dst, b []byte, size int, show func(dst, b []byte) []byte) []byte {
	dst = append(dst, '{')
	for n := 0; len(b) >= size; n, b = n+1, b[size:] {
		if n > 0 {
			dst = append(dst, ", "...)
		}
		if n == shown {
			dst = append(dst, "…"...)
			break
		}
		dst = show(dst, b[:size])
	}
	return append(dst, '}')
}

// operandTypes are the data types of arrays that are operands.
var operandTypes = map[string]uint32{"int64_t": opinfo.Int64, "float": opinfo.Float32, "bool": opinfo.Bool}

// appendOperand appends the elements of an array, of a known type or of that which the call's data type says.
func appendOperand(dst []byte, e *Event, ctype string, b []byte) []byte {
	dtype, ok := operandTypes[ctype]
	if i := e.Fn.Param("dataType"); !ok && i >= 0 {
		dtype, ok = uint32(e.Call.Args[e.Fn.Params[i].Word]), true
	}
	size := opinfo.ValueSize(dtype)
	if !ok || size == 0 {
		return AppendWords(dst, b)
	}
	return appendElements(dst, b, size, func(dst, b []byte) []byte { return opinfo.AppendValue(dst, b, dtype) })
}

// appendSizes appends the number of sizes, the first ones, and the sum if there are more.
func appendSizes(dst, b []byte) []byte {
	var sum uint64
	for k := 0; k+8 <= len(b); k += 8 {
		sum += word(b[k:])
	}
	dst = strconv.AppendInt(append(dst, '['), int64(len(b)/8), 10)
	dst = appendElements(append(dst, ": "...), b, 8, func(dst, b []byte) []byte { return strconv.AppendUint(dst, word(b), 10) })
	if len(b)/8 > shown {
		dst = append(strconv.AppendUint(append(dst, ", "...), sum, 10), " in all"...)
	}
	return append(dst, ']')
}

// AppendWords appends the first 8-byte words in b.
func AppendWords(dst, b []byte) []byte {
	dst = append(dst, '{')
	for n := 0; len(b) > 0; n, b = n+1, b[min(8, len(b)):] {
		if n > 0 {
			dst = append(dst, ", "...)
		}
		if n == shown {
			dst = append(dst, "…"...)
			break
		}
		dst = appendHex(dst, word(b))
	}
	return append(dst, '}')
}

// appendMembers appends the members that a layout names, with their names if they are of several types.
func appendMembers(dst []byte, m *api.Model, l *api.Layout, b []byte) []byte {
	show := func(ms []api.Member, between string, named bool) {
		for i, f := range ms {
			if i > 0 {
				dst = append(dst, between...)
			}
			if named {
				dst = append(append(dst, f.Name...), '=')
			}
			v := word(b[f.Offset : f.Offset+f.Size])
			if v >= 1<<40 { // an address
				dst = appendHex(dst, v)
				continue
			}
			dst = appendNumber(dst, m, f.Type, v)
		}
	}
	if l.Tag == nil {
		if slices.ContainsFunc(l.Members, func(f api.Member) bool { return f.Type != l.Members[0].Type }) {
			show(l.Members, " ", true)
		} else {
			show(l.Members, " -> ", false)
		}
		return dst
	}
	id := int64(word(b[l.Tag.Offset : l.Tag.Offset+l.Tag.Size]))
	dst = strconv.AppendInt(dst, id, 10)
	value, ok := l.Cases[id]
	if !ok {
		return AppendWords(append(dst, " = "...), b[l.Tag.Offset+l.Tag.Size:])
	}
	dst = append(append(append(dst, ' '), strings.TrimPrefix(m.EnumName(l.Tag.Type, id), l.Prefix)...), " = "...)
	if len(value) > 1 {
		dst = append(dst, '{')
	}
	show(value, ", ", false)
	if len(value) > 1 {
		dst = append(dst, '}')
	}
	return dst
}

// AppendPlace appends the kind and the number of an object, its name, and the offset of an address. Without a name, it marks objects older than the
// trace, handles of an ended object, and the allocation around a registration.
func AppendPlace(dst []byte, u Use) []byte {
	at, former := len(dst), u.Object.Former
	if former != nil {
		u.Object = former
	}
	dst = append(dst, u.Object.Kind...)
	for i, c := range dst[at:] {
		if c == ' ' {
			dst[at+i] = '_'
		}
	}
	dst = strconv.AppendInt(append(dst, '#'), int64(u.Object.ID), 10)
	switch {
	case former != nil:
		dst = append(dst, "(ended)"...)
	case u.Object.Name != "":
		dst = append(append(append(dst, '('), human.Kernel(u.Object.Name)...), ')')
	case u.Object.Constant:
		dst = append(dst, "(per_thread)"...)
	case u.Object.Created == NoCall:
		dst = append(dst, "(older)"...)
	case u.Object.Kind == api.Registered && u.Object.Parent != nil:
		of := u.Object.Parent
		dst = append(AppendPlace(append(dst, '('), Use{Object: of, Offset: u.Object.Handle - of.Handle}), ')')
	}
	if u.Offset != 0 {
		dst = strconv.AppendUint(append(dst, "+0x"...), u.Offset, 16)
	}
	return dst
}

// Place is AppendPlace as a string.
func Place(u Use) string { return string(AppendPlace(make([]byte, 0, 64), u)) }

func appendHex(dst []byte, v uint64) []byte { return strconv.AppendUint(append(dst, "0x"...), v, 16) }

// appendStructure appends a structure of 32-bit numbers that was passed by value, such as a dim3; size is in bytes.
func appendStructure(dst []byte, words []uint64, size int) []byte {
	dst = append(dst, '{')
	for i := range (size + 3) / 4 {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendUint(dst, words[i/2]>>(32*(i%2))&0xffffffff, 10)
	}
	return append(dst, '}')
}

// number returns a number by its C type: a name for an enumerator, otherwise a value for JSON.
func number(m *api.Model, ctype string, w uint64) any {
	if n := m.EnumName(ctype, int64(int32(w))); n != "" {
		return n
	}
	if m.ErrorType(ctype) {
		ctype = "int32_t"
	}
	switch ctype {
	case "int32_t", "int":
		return int32(w)
	case "int64_t":
		return int64(w)
	case "uint32_t":
		return uint32(w)
	case "float":
		f := math.Float32frombits(uint32(w))
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return fmt.Sprint(f)
		}
		return f
	}
	return w
}

// appendNumber appends the result of number.
func appendNumber(dst []byte, m *api.Model, ctype string, w uint64) []byte {
	switch ctype {
	case "uint64_t", "size_t":
		return strconv.AppendUint(dst, w, 10)
	case "uint32_t":
		return strconv.AppendUint(dst, w&0xffffffff, 10)
	}
	switch x := number(m, ctype, w).(type) {
	case string:
		return append(dst, x...)
	case int32:
		return strconv.AppendInt(dst, int64(x), 10)
	case int64:
		return strconv.AppendInt(dst, x, 10)
	case uint32:
		return strconv.AppendUint(dst, uint64(x), 10)
	case float32:
		return strconv.AppendFloat(dst, float64(x), 'g', -1, 32)
	}
	return strconv.AppendUint(dst, w, 10)
}

// AppendResult appends the returned value: an error with its name, a handle, nothing for a function without a result, "unfinished" for a
// call that never returned, "in progress at the end" if the recording ended first, or "no end seen" if it may have returned.
func (e *Event) AppendResult(dst []byte, m *api.Model) []byte {
	switch {
	case e.Call.Flags&format.Cut != 0:
		return append(dst, "in progress at the end"...)
	case e.Call.Flags&format.NoEnd != 0:
		return append(dst, "no end seen"...)
	case e.Call.Flags&format.Unfinished != 0:
		return append(dst, "unfinished"...)
	case e.Fn == nil:
	case e.Fn.RetVoid:
		return dst
	case e.Fn.RetError:
		code := int64(int32(e.Call.Ret))
		if dst = strconv.AppendInt(dst, code, 10); code != 0 {
			dst = append(append(dst, ' '), m.ErrorName(code)...)
		}
		return dst
	}
	return appendHex(dst, e.Call.Ret)
}
