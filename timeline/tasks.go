package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Failed reports whether the call has returned an error.
func (h *HostCall) Failed() bool {
	return h.Fn != nil && h.Fn.Failed(h.Ret) && h.Flags&format.Unfinished == 0
}

// Wrong reports whether the call has returned an error that is a failure of the program, and no answer to a question: see api.Func.Answered.
func (h *HostCall) Wrong() bool {
	return h.Failed() && !h.Fn.Answered(h.Ret)
}

// Hung reports whether the call never returned, although it does not wait for callbacks by design.
func (h *HostCall) Hung() bool { return Hung(h.Fn, h.Flags) }

// Profiled reports whether a profile's range begins or ends here, so that the program did not make the call.
func (h *HostCall) Profiled() bool { return h.Flags&format.Profiled != 0 }

// Hung is HostCall.Hung for a call with these flags.
func Hung(f *api.Func, flags format.CallFlags) bool {
	return flags&(format.Unfinished|format.NoEnd) == format.Unfinished && (f == nil || !f.PollsCallbacks)
}

// NeverReturned is the error of calls that are Hung.
const NeverReturned = "never returned"

// Copied returns the number of bytes that a copy moves.
func Copied(m *api.Model, e *Event) uint64 {
	var written uint64
	if b, ok := e.CopyBlock(); ok {
		return b.Width * b.Height * b.Depth
	}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		switch {
		case p.Role == api.Writes && p.ItemSizes < 0:
			written, _ = p.Size.Bytes(e.Fn, e.Call.Args) // a symbol may name the source
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

// sides returns the memory on both sides of a copy, for a batch of its first item. A side without an address, such as a symbol or a descriptor, is
// on the device.
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
			*s = pinned // an import by the host, otherwise unknown
		}
	}
	return from, to
}

// Direction returns the direction of a copy by its addresses: HtoD, DtoH, DtoD or HtoH.
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

// InputBytes returns the size of a copy from the host to a device by its arguments alone, 0 for other calls.
func InputBytes(m *api.Model, f *api.Func, c *format.Call) uint64 {
	if f.Task != api.Copy {
		return 0
	}
	e := &Event{Fn: f, Call: c}
	if Direction(m, e) != "HtoD" {
		return 0
	}
	return Copied(m, e)
}

// Pageable reports whether a copy on a stream moves data between the device and host memory that is not pinned according to the trace. It is
// false for a batch.
func Pageable(m *api.Model, e *Event) bool { return e.Fn.Stream >= 0 && unpinned(m, e) }

// unpinned is Pageable for any copy.
func unpinned(m *api.Model, e *Event) bool {
	if e.Fn.Task != api.Copy || Copied(m, e) == 0 {
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

// TaskParam is the parameter number for the ids that the runtime gave to the task of a call.
const TaskParam = api.TaskParam

// TaskID returns the stream and task ids that the runtime gave to the task of a call, if they are in the trace.
func (e *Event) TaskID() (stream, task uint32, known bool) {
	v, ok := out(e.Call, TaskParam)
	return uint32(v >> 32), uint32(v), ok
}

// Blocks returns the number of blocks in a launch, 0 if no parameter has it.
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
