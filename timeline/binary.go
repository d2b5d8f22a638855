package timeline

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// Read makes the State read the binaries in the trace, for the names of kernels that calls name by a number only.
func (s *State) Read(r *format.Reader) *State {
	s.reader, s.binaries = r, map[*Object]*kernelbin.File{}
	return s
}

// kernel returns the name of a kernel that a call names by its number in a binary, "" if it is unknown.
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

// launchName returns the kernel name of a function's launches. A function without a name, which is older than the trace or was found by its
// number, has the name in the argument block of its first launch. Without a block its handle distinguishes it from others.
func (s *State) launchName(e *Event, o *Object) string {
	if o.Name == "" && o.handleName == "" {
		if x := s.Operator(e, s.launchArgs(e)); x != nil {
			o.Name = x.Name
		} else {
			o.handleName = "function 0x" + strconv.FormatUint(o.Handle, 16)
		}
	}
	return cmp.Or(o.Name, o.handleName)
}

// launchArgs returns the kernel arguments in the call, nil if the trace lacks them. A Walk omits the data of most calls.
func (s *State) launchArgs(e *Event) []byte {
	i := slices.IndexFunc(e.Fn.Params, func(p api.Param) bool { return p.Role == api.Args })
	if i < 0 {
		return nil
	}
	data := e.Call.Data
	if len(data) == 0 && s.reader != nil {
		c, err := s.reader.Call(e.Call.Index)
		if err != nil {
			return nil
		}
		data = c.Data
	}
	for k := range data {
		if d := &data[k]; int(d.Param) == i && d.Item == 0 && d.Dir == format.DirIn && d.Status == format.Whole {
			return s.content(d)
		}
	}
	return nil
}

// Arguments returns the arguments that the binary declares for the kernel of a launch, nil if it declares none.
func (s *State) Arguments(e *Event) []kernelbin.Arg {
	if f := s.launched(e); f != nil && e.Kernel != "" {
		return f.Args[e.Kernel]
	}
	return nil
}

// Operator returns the argument block of an operator's launch, nil for other launches and for blocks that are invalid. If the trace lacks the
// binary, the block's first bytes decide.
func (s *State) Operator(e *Event, args []byte) *block.Block {
	if !block.Is(args) {
		return nil
	}
	if f := s.launched(e); f != nil && !f.Operators {
		return nil
	}
	b, err := block.Decode(args)
	if err != nil {
		return nil
	}
	return b
}

// launched returns the binary with the kernel of a launch, nil if the trace lacks it.
func (s *State) launched(e *Event) *kernelbin.File {
	if e.Fn == nil || e.Fn.Task != api.Kernel {
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
			return f
		}
	}
	return nil
}

// AppendParams appends the arguments of a launch that were recorded one by one, as "(device#3+0x200, 64, 0x3f800000)". Addresses in allocations
// are shown as places, all other values as numbers without a type. It appends nothing if the trace has no such arguments.
func (s *State) AppendParams(dst []byte, e *Event) []byte {
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
		o, off, ok := s.Find(e.Process, v)
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

// ArgumentAt returns the kernel argument that holds a byte of the argument block, false if args does not determine it. Arguments are aligned to
// 8 bytes; a pointer has 8 bytes.
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

// binary returns the contents of a binary, nil if the trace lacks them.
func (s *State) binary(o *Object) *kernelbin.File {
	if s.reader == nil {
		return nil
	}
	f, known := s.binaries[o]
	if !known {
		if f = s.parse(o.Created); f == nil && o.Parent != nil {
			f = s.binary(o.Parent) // that it was loaded from
		}
		s.binaries[o] = f
	}
	return f
}

// parse returns the binary among the input data of a call, nil if there is none.
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
