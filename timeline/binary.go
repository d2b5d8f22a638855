package timeline

import (
	"strconv"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
)

// Read has the State look into the binaries that the trace holds, for the names of kernels that calls name by a number alone.
func (s *State) Read(r *format.Reader) *State {
	s.reader, s.binaries = r, map[*Object]*kernelbin.File{}
	return s
}

// kernel returns the name of the kernel with a number in the binary that a call uses, "" where nothing tells it.
func (s *State) kernel(e *Event) string {
	if e.Fn.Entry < 0 {
		return ""
	}
	for _, u := range e.Uses {
		if u.Object.Kind != api.Binary {
			continue
		}
		if f := s.binary(u.Object); f != nil {
			name, _ := f.ByEntry(e.Call.Args[e.Fn.Params[e.Fn.Entry].Word])
			return name
		}
	}
	return ""
}

// Arguments returns what the binary of a launch's kernel says of its arguments, nil where it says nothing.
func (s *State) Arguments(e *Event) []kernelbin.Arg {
	if e.Fn == nil || e.Fn.Task != api.Kernel || e.Kernel == "" {
		return nil
	}
	for _, u := range e.Uses {
		o := u.Object
		if o.Kind == api.Function && o.Parent != nil {
			o = o.Parent
		}
		if o.Kind != api.Binary {
			continue
		}
		if f := s.binary(o); f != nil {
			return f.Args[e.Kernel]
		}
	}
	return nil
}

// AppendParams appends the arguments of a launch that its call has them one by one of, as "(device#3+0x200, 64, 0x3f800000)": those in which an
// allocation lies, and numbers, of which none tells its type. Nothing where the trace has none.
func (s *State) AppendParams(dst []byte, process uint32, e *Event) []byte {
	const most = 32
	if e.Fn == nil || e.Fn.Task != api.Kernel {
		return dst
	}
	n := 0
	for i := range e.Call.Data {
		d := &e.Call.Data[i]
		if int(d.Param) >= len(e.Fn.Params) || e.Fn.Params[d.Param].Role != api.ArgArray || d.Item == 0 || d.Dir != format.DirIn {
			continue
		}
		between := ", "
		if n++; n == 1 {
			between = "("
		}
		dst = append(dst, between...)
		if n > most {
			return append(dst, "…)"...)
		}
		if d.Status != format.Whole || len(d.Bytes) != 8 && len(d.Bytes) != 4 && len(d.Bytes) != 2 && len(d.Bytes) != 1 {
			dst = append(strconv.AppendUint(dst, d.Len, 10), " B"...)
			continue
		}
		v := word(d.Bytes)
		o, off, ok := s.Find(process, v)
		switch {
		case ok && len(d.Bytes) == 8:
			dst = AppendPlace(dst, Use{Object: o, Offset: off})
		case v < 1<<24:
			dst = strconv.AppendUint(dst, v, 10)
		default:
			dst = appendHex(dst, v)
		}
	}
	if n > 0 {
		dst = append(dst, ')')
	}
	return dst
}

// ArgumentAt returns which of a kernel's arguments a byte of their block belongs to, false where what is told of them does not say it. Each
// begins at a multiple of 8 bytes; a pointer has 8.
func ArgumentAt(args []kernelbin.Arg, off uint64) (kernelbin.Arg, bool) {
	at := uint64(0)
	for _, a := range args {
		n := uint64(8)
		if a.Level == 0 {
			if n = (a.Size + 7) &^ 7; n == 0 || n > 1<<20 {
				return kernelbin.Arg{}, false
			}
		}
		if off < at+n {
			return a, true
		}
		at += n
	}
	return kernelbin.Arg{}, false
}

// binary returns what is in a binary, nil where the trace does not hold it.
func (s *State) binary(o *Object) *kernelbin.File {
	if s.reader == nil {
		return nil
	}
	f, known := s.binaries[o]
	if !known {
		if f = s.parse(o.Created); f == nil && o.Parent != nil {
			f = s.binary(o.Parent) // what it was loaded from
		}
		s.binaries[o] = f
	}
	return f
}

// parse reads the binary that a call was given: it is what there is of it in the trace that is one.
func (s *State) parse(call uint64) *kernelbin.File {
	if call == NoCall {
		return nil
	}
	c, err := s.reader.Call(call)
	if err != nil {
		return nil
	}
	data := c.Data
	for d, err := range s.reader.Data(&format.DataFilter{From: call, To: call + 1, Late: true}) {
		if err != nil {
			return nil
		}
		data = append(data, *d)
	}
	for i := range data {
		d := &data[i]
		if d.Dir != format.DirIn || d.Status != format.Whole || d.Len < 64 || d.Len > kernelbin.MaxSize {
			continue
		}
		b := d.Bytes
		if d.Blob != 0 {
			if b, err = s.reader.Blob(d.Blob); err != nil {
				continue
			}
		}
		if f, err := kernelbin.Parse(b); err == nil {
			return f
		}
	}
	return nil
}
