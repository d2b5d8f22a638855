package timeline

import (
	"encoding/binary"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Processes share memory by keys. The importing process gets an address only; the size is known from the call that made the key.

// ImportKey returns the bytes of the key in a call that imports an object, or ends an import.
func ImportKey(f *api.Func, c *format.Call) string {
	for i := range f.Params {
		q := &f.Params[i]
		switch {
		case q.Role == api.String:
			for _, d := range c.Data {
				if int(d.Param) == i && d.Dir == format.DirIn {
					return string(d.Bytes)
				}
			}
		case q.Role == api.In:
			for k := range c.Data {
				if d := &c.Data[k]; int(d.Param) == i && d.Dir == format.DirIn && d.Status == format.Whole {
					return string(d.Bytes)
				}
			}
		case q.Role == api.Value && q.Words > 1:
			var b []byte
			for _, w := range c.Args[q.Word:][:q.Words] {
				b = binary.LittleEndian.AppendUint64(b, w)
			}
			return string(b)
		case q.Object == api.SharedMemory:
			return fmt.Sprint(c.Args[q.Word])
		}
	}
	return ""
}

// ExportKey returns the bytes of the key that a call has made.
func ExportKey(c *format.Call) string {
	for i := range c.Data {
		if d := &c.Data[i]; d.Dir == format.DirOut && d.Status == format.Whole {
			return string(d.Bytes)
		}
	}
	return ""
}

// share follows the calls that export or import objects, and the calls that end imports.
func (s *State) share(e *Event) {
	switch e.Fn.Shares {
	case api.Export:
		for _, u := range e.Uses {
			if u.Object.Kind.Memory() {
				s.shared[ExportKey(e.Call)] = u.Object.Size - u.Offset
			} else {
				s.exported[ExportKey(e.Call)] = u.Object
			}
		}
	case api.Import:
		key := ImportKey(e.Fn, e.Call)
		for _, u := range e.Uses {
			switch o := u.Object; {
			case o.Created != e.Call.Index:
			case o.Kind == api.Owned:
				s.taken[key] = append(s.taken[key], o)
			case s.exported[key] != nil && s.exported[key].Kind == o.Kind:
				o.exported = s.exported[key]
			}
		}
	case api.Unshare:
		key := ImportKey(e.Fn, e.Call)
		for _, o := range s.taken[key] {
			if o.Process == e.Process && o.Ended == NoCall {
				s.end(o, e.Call.Index)
			}
		}
	}
}
