package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Task is what a call has put on a stream, or a copy that the call did itself.
type Task struct {
	Call  uint64 // number of the call that made it
	Index int    // from 0, in the order of the calls; -1 of one that was put into a graph
	Fn    *api.Func
	Name  string // of the kernel, else of the kind, with the direction of a copy
	Lane  int    // index into Walk.Lanes
	Step  int    // HostCall.Step of the call
	// Issued is the start of the call, Returned its end, in nanoseconds since the beginning of the trace.
	Issued, Returned int64
	// From and To are when the device did it, where Measured says so. Else they bracket that time: not before the call began and
	// the task before it on the stream could end, not after the first synchronization that covers it.
	From, To         int64
	Bytes            uint64 // copied or filled
	Process          uint32
	Thread           uint32
	StreamID, TaskID uint32 // the runtime's own numbers, where HasID says that they are known
	Blocks           uint32 // of a kernel: how many run it, 0 where that is not known
	Kind             api.Task
	HasID            bool
	Measured         bool
	// Object is the event that a Record, Wait or Reset names, and the graph that a GraphRun runs; nil for others.
	Object *Object
	// Open says that nothing in the trace shows the end, or only after 131,072 more tasks: To is the end of the trace.
	Open bool
	// Pageable says that a copy was to be asynchronous and has memory of the host that is not pinned: the runtime may
	// wait for the stream and copy before the call returns.
	Pageable bool
}

// Lane is a stream, the default stream of a process, or what its calls have done themselves without a stream.
type Lane struct {
	Process     uint32
	Stream      *Object // nil: the default stream
	Synchronous bool    // no stream: done before the calls returned
	Name        string
	Tasks       int
	Device      int   // its number in the process, NoDevice where that is not known
	Waited      int64 // nanoseconds that the host has spent in synchronizations that waited for its tasks
}

// A HostCall is a call on the thread that made it, as much as a viewer shows.
type HostCall struct {
	Index      uint64
	Fn         *api.Func
	Name       string
	Kernel     string
	Start, End int64
	// Recording is how many nanoseconds of the time since RecordingFrom, the end of the thread's calls before, the recorder has taken the
	// thread for hashing and copying payloads: the rest up to Start is the program's own.
	Recording, RecordingFrom int64
	Ret                      uint64
	Task                     int // Task.Index of what it has put on a lane, -1 for none
	Step                     int // Step.Index of the step that it began in, -1 for none
	// Retries is the launch that has failed on this thread just before and that this call has done with success, NoCall for none;
	// RetriedCode its error.
	Retries     uint64
	RetriedCode int32
	Thread      uint32
	// Waits is what a synchronization, or a poll, is about: the Lane of a stream, the ID of an event's Object, or the number of a
	// device, NoDevice for any; -1 for other calls.
	Waits    int32
	Complete bool // the poll has said so
	Flags    format.CallFlags
	Raw      *format.Call // the call as the trace has it, but for its Data, which may be missing; nil in a Timeline
}

// Failed reports whether the call has returned an error.
func (h *HostCall) Failed() bool {
	return h.Fn != nil && h.Fn.Failed(h.Ret) && h.Flags&format.Unfinished == 0
}

// Copied is the number of bytes that a copy moves.
func Copied(m *api.Model, e *Event) uint64 {
	var written uint64
	if b, ok := e.block(); ok {
		return b.width * b.height * b.depth
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

func word(b []byte) uint64 {
	var v uint64
	for i := min(len(b), 8) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

var copyNames = map[string]string{"HtoH": "copy HtoH", "HtoD": "copy HtoD", "DtoH": "copy DtoH", "DtoD": "copy DtoD"}

// side is what an address of a copy is.
type side uint8

const (
	pageable side = iota // host memory that the runtime has not given out
	pinned
	device
)

// sides tells what a copy reads and what it writes, of a batch by its first item. What no parameter is the address of lies
// on the device: a symbol, or what a descriptor names.
func sides(m *api.Model, e *Event) (from, to side) {
	from, to = device, device
	if b, ok := e.block(); ok {
		return b.from.side(), b.to.side()
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

// complete reports whether a value of a status type says that what was asked about is complete.
func complete(m *api.Model, ctype string, v int64) bool {
	name := m.EnumName(trimPointer(ctype), v)
	return len(name) > 9 && name[len(name)-9:] == "_COMPLETE"
}
