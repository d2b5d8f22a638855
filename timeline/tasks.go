package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Failed reports whether the call has returned an error.
func (h *HostCall) Failed() bool {
	return h.Fn != nil && h.Fn.Failed(h.Ret) && h.Flags&format.Unfinished == 0
}

// Copied is the number of bytes that a copy moves.
func Copied(m *api.Model, e *Event) uint64 {
	var written uint64
	if b, ok := e.CopyBlock(); ok {
		return b.Width * b.Height * b.Depth
	}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		switch {
		case p.Role == api.Writes && p.ItemSizes < 0:
			written, _ = p.Size.Bytes(e.Fn, e.Call.Args) // what is read may be named by a symbol
			continue
		case p.Role != api.Reads:
			continue
		case p.ItemSizes < 0:
			n, _ := p.Size.Bytes(e.Fn, e.Call.Args)
			return n
		}
		var sum uint64
		for _, d := range e.Call.Data {
			if int(d.Param) == int(p.ItemSizes) && d.Item == 0 {
				for b := d.Bytes; len(b) >= 8; b = b[8:] {
					sum += word(b)
				}
			}
		}
		return sum
	}
	return written
}

var copyNames = map[string]string{"HtoH": "copy HtoH", "HtoD": "copy HtoD", "DtoH": "copy DtoH", "DtoD": "copy DtoD"}

// sides tells what a copy reads and what it writes, of a batch by its first item. What no parameter is the address of lies
// on the device: a symbol, or what a descriptor names.
func sides(m *api.Model, e *Event) (from, to side) {
	from, to = device, device
	if b, ok := e.CopyBlock(); ok {
		return b.From.side(), b.To.side()
	}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		s := &from
		switch p.Role {
		case api.Reads:
		case api.Writes:
			s = &to
		default:
			continue
		}
		*s = pageable
		addr := e.Call.Args[p.Word]
		if p.ItemSizes >= 0 {
			addr = 0
			for _, d := range e.Call.Data {
				if int(d.Param) == i && d.Item == 0 && len(d.Bytes) >= 8 {
					addr = word(d.Bytes)
				}
			}
		}
		if u, ok := e.Use(i); ok {
			if *s = pinned; !u.Object.Kind.OnHost() {
				*s = device
			}
		} else if p.Object == api.Device || addr >= m.Device.From && addr < m.Device.To && !e.Fn.SaysHost(i, e.Call.Args) {
			*s = device
		} else if addr == 0 {
			*s = pinned // of the host, and nothing else is known of it: an import
		}
	}
	return from, to
}

// Direction says from where to where a copy goes, as HtoD, DtoH, DtoD or HtoH, by what its addresses are.
func Direction(m *api.Model, e *Event) string {
	switch from, to := sides(m, e); {
	case from == device && to == device:
		return "DtoD"
	case from == device:
		return "DtoH"
	case to == device:
		return "HtoD"
	}
	return "HtoH"
}

// Pageable reports whether a copy on a stream goes between the device and host memory that the trace does not show as
// pinned. Of a batch nothing is said.
func Pageable(m *api.Model, e *Event) bool {
	if e.Fn.Task != api.Copy || e.Fn.Stream < 0 || Copied(m, e) == 0 {
		return false
	}
	for i := range e.Fn.Params {
		if e.Fn.Params[i].ItemSizes >= 0 {
			return false
		}
	}
	from, to := sides(m, e)
	return (from == device) != (to == device) && (from == pageable || to == pageable)
}

// TaskParam is the number of the output with the runtime's ids of the task that a call has made.
const TaskParam = api.TaskParam

// TaskID returns the runtime's numbers of the stream and the task that the call has made, where they are in the trace.
func (e *Event) TaskID() (stream, task uint32, known bool) {
	v, ok := out(e.Call, TaskParam)
	return uint32(v >> 32), uint32(v), ok
}

// Blocks returns how many blocks run a kernel, 0 where its launch does not say so in a number or a grid.
func Blocks(e *Event) uint32 {
	if e.Fn == nil || !fits(e.Fn, e.Call) {
		return 0
	}
	for _, name := range []string{"numBlocks", "blockDim", "gridDim"} {
		i := e.Fn.Param(name)
		if i < 0 || name == "blockDim" && e.Fn.Param("gridDim") >= 0 {
			continue
		}
		p := &e.Fn.Params[i]
		w := e.Call.Args[p.Word : p.Word+max(p.Words, 1)]
		if len(w) == 1 {
			return uint32(w[0])
		}
		return uint32(w[0]) * uint32(w[0]>>32) * uint32(w[1])
	}
	return 0
}
