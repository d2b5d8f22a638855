package timeline

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A HostFunction is a function of the program that a stream calls, and its argument. If several streams call the same one, its runs are in the
// order of the launching calls; the trace does not distinguish them further.
type HostFunction struct {
	Process  uint32
	Fn, Data uint64
}

// HostFunctionOf returns the function that a call launches on a stream, or whose run the call is (api.Func.HostCallback); false for other calls.
func HostFunctionOf(process uint32, f *api.Func, args []uint64) (HostFunction, bool) {
	if f == nil || f.Task != api.HostFunc && !f.HostCallback || len(args) != int(f.Words) {
		return HostFunction{}, false
	}
	fn := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Callback })
	data := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Opaque })
	if fn < 0 || data < 0 {
		return HostFunction{}, false
	}
	return HostFunction{process, args[f.Params[fn].Word], args[f.Params[data].Word]}, true
}

// Has reports whether a trace has calls of a function that is one of those meant.
func Has(r *format.Reader, m *api.Model, is func(*api.Func) bool) (bool, error) {
	counts, err := r.Counts()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(counts.Functions, func(c format.FuncCount) bool {
		f := m.Func(api.ID(c.Func))
		return f != nil && is(f)
	}), nil
}

// CallsIn returns the number of calls in a trace, without marks of operators.
func CallsIn(r *format.Reader, m *api.Model) (n uint64, err error) {
	counts, err := r.Counts()
	if err != nil {
		return 0, err
	}
	n = counts.Calls
	for _, c := range counts.Functions {
		if f := m.Func(api.ID(c.Func)); f != nil && f.EntryMark() {
			n -= c.Calls
		}
	}
	return n, nil
}

func trimPointer(ctype string) string {
	return strings.TrimPrefix(strings.TrimRight(ctype, "*"), "const ")
}

// text returns the data of a parameter if it is stored with the calls.
func (e *Event) text(param int) ([]byte, bool) {
	for i := range e.Call.Data {
		if d := &e.Call.Data[i]; int(d.Param) == param && d.Item == 0 && d.Status == format.Whole && d.Len <= format.InlineLimit {
			return d.Bytes, true
		}
	}
	return nil, false
}

func word(b []byte) uint64 {
	var v uint64
	for i := min(len(b), 8) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// complete reports whether a value of a status type means complete.
func complete(m *api.Model, ctype string, v int64) bool {
	done, ok := m.Complete(trimPointer(ctype))
	return ok && v == done
}

// Use returns the object that a parameter names.
func (e *Event) Use(param int) (Use, bool) {
	for _, u := range e.Uses {
		if u.Param == param {
			return u, true
		}
	}
	return Use{}, false
}

// Object returns the first object of a kind that the call names, nil if there is none.
func (e *Event) Object(kind api.Object) *Object {
	for _, u := range e.Uses {
		if u.Object.Kind == kind {
			return u.Object
		}
	}
	return nil
}

// OK reports whether the call is in the model, has returned, and returned no error.
func (e *Event) OK() bool {
	return e.Fn != nil && e.Call.Flags&format.Unfinished == 0 && (!e.Fn.RetError || uint32(e.Call.Ret) == 0)
}

// fits reports whether a recorded call matches the function in the model. A trace has its own schema.
func fits(f *api.Func, c *format.Call) bool {
	if len(c.Args) != int(f.Words) {
		return false
	}
	for i := range c.Outs {
		if p := int(c.Outs[i].Param); p >= len(f.Params) && p < api.MemoryParam {
			return false
		}
	}
	for i := range c.Data {
		if p := int(c.Data[i].Param); p >= len(f.Params) && p < api.MemoryParam {
			return false
		}
	}
	return true
}

// out returns the word that a call has stored through a parameter.
func out(c *format.Call, param int) (uint64, bool) {
	for _, o := range c.Outs {
		if int(o.Param) == param {
			return o.Value, true
		}
	}
	return 0, false
}

// stored returns the bytes of an output item, nil if the trace lacks them.
func (e *Event) stored(param int, item uint32) []byte {
	for k := range e.Call.Data {
		if d := &e.Call.Data[k]; int(d.Param) == param && d.Item == item && d.Dir == format.DirOut && d.Status == format.Whole {
			return d.Bytes
		}
	}
	return nil
}

// storedBytes returns what a call has stored through a parameter, nil if the trace lacks it.
func (s *State) storedBytes(e *Event, param int) []byte {
	for k := range e.Call.Data {
		if d := &e.Call.Data[k]; int(d.Param) == param && d.Item == 0 && d.Dir == format.DirOut && d.Status == format.Whole {
			return s.content(d)
		}
	}
	return nil
}

// content returns the bytes of data, nil if they are a blob that the State can't read.
func (s *State) content(d *format.Data) []byte {
	if d.Blob == 0 || s.reader == nil {
		return d.Bytes
	}
	b, _ := s.reader.Blob(d.Blob)
	return b
}

// name returns the name that a call gives to its object, "" for none. A structure with several names counts with the last one.
func (e *Event) name() string { return string(e.nameBytes()) }

func (e *Event) nameBytes() (name []byte) {
	if e.Fn.Names < 0 {
		return nil
	}
	item := uint32(0)
	if e.Fn.Params[e.Fn.Names].Role == api.Struct {
		item = 1
	}
	for _, d := range e.Call.Data {
		if int(d.Param) == int(e.Fn.Names) && d.Item >= item && d.Status == format.Whole && d.Len <= format.InlineLimit && len(d.Bytes) > 0 {
			name = d.Bytes
		}
	}
	return name
}
