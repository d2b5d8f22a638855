package timeline

import (
	"cmp"
	"slices"
	"sync"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Task is what a call has put on a stream, or a copy that the call did itself.
type Task struct {
	Call   uint64 // number of the call that made it
	Fn     *api.Func
	Name   string // of the kernel, else of the kind, with the direction of a copy
	Lane   int    // index into Timeline.Lanes
	Issued int64  // start of the call, nanoseconds since the beginning of the trace
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
	// Open says that nothing in the trace shows the end: To is the end of the trace.
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

// A Retry is a launch that has failed and that its thread has repeated with success.
type Retry struct {
	Failed, Done uint64 // calls
	Kernel       string // "" where no name is known
	Code         int32
}

// A HostCall is a call on the thread that made it, as much as a viewer shows.
type HostCall struct {
	Index      uint64
	Fn         *api.Func
	Name       string
	Kernel     string
	Start, End int64
	Ret        uint64
	Task       int // index into Timeline.Tasks, -1 for none
	Thread     uint32
	// Waits is what a synchronization, or a poll, is about: the Lane of a stream, the ID of an event's Object, or the number of a
	// device, NoDevice for any; -1 for other calls.
	Waits    int32
	Complete bool // the poll has said so
	Flags    format.CallFlags
}

// Failed reports whether the call has returned an error.
func (h *HostCall) Failed() bool {
	return h.Fn != nil && h.Fn.RetError && uint32(h.Ret) != 0 && h.Flags&format.Unfinished == 0
}

// A Timeline is a whole trace with its meaning.
type Timeline struct {
	Totals
	Reader  *format.Reader
	Model   *api.Model
	Calls   []HostCall // by start
	Tasks   []Task     // in the order of their calls
	Objects []*Object  // allocations, streams, events, functions …, by ID
	Ranges  []Range    // by their beginnings
	// Graphs are the tasks that captures have put into graphs, in the order of their calls. Their times mean nothing.
	Graphs map[*Object][]Task

	stepsOnce sync.Once
	steps     *Steps
}

// Load reads a whole trace. Its memory grows with the number of calls, about 90 bytes for each and 100 more for its task; Scan's does not.
func Load(r *format.Reader, m *api.Model) (*Timeline, error) {
	t := &Timeline{Reader: r, Model: m}
	if counts, err := r.Counts(); err == nil {
		t.Calls = make([]HostCall, 0, min(counts.Calls, 1<<20)) // a file may claim any number
	}
	totals, err := Scan(r, m, &Visitor{
		Call: func(h *HostCall, task *Task) {
			t.Calls = append(t.Calls, *h)
			if task != nil {
				t.Tasks = append(t.Tasks, *task)
			}
		},
		Ended: func(i int, s *Span) {
			task := &t.Tasks[i]
			task.From, task.To, task.Open = s.From, s.To, s.Open
		},
		Object: func(o *Object) { t.Objects = append(t.Objects, o) },
		Range:  func(r *Range) { t.Ranges = append(t.Ranges, *r) },
		Graph: func(o *Object, tasks []Task) {
			if t.Graphs == nil {
				t.Graphs = map[*Object][]Task{}
			}
			t.Graphs[o] = tasks
		},
	})
	if err != nil {
		return nil, err
	}
	t.Totals = *totals
	slices.SortFunc(t.Ranges, func(a, b Range) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Begin, b.Begin)) })
	return t, nil
}

// Visit tells v of the calls, the tasks and the ranges, as Scan does for one that reads the trace.
func (t *Timeline) Visit(v *Visitor) {
	for i := range t.Calls {
		h, task := &t.Calls[i], (*Task)(nil)
		if h.Task >= 0 {
			task = &t.Tasks[h.Task]
		}
		if v.Call != nil {
			v.Call(h, task)
		}
	}
	for i := range t.Tasks {
		if k := &t.Tasks[i]; v.Ended != nil {
			v.Ended(i, &Span{Lane: k.Lane, From: k.From, To: k.To, Open: k.Open})
		}
	}
	for i := range t.Ranges {
		if v.Range != nil {
			v.Range(&t.Ranges[i])
		}
	}
}

// Copied is the number of bytes that a copy moves.
func Copied(m *api.Model, e *Event) uint64 {
	var written uint64
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
			if *s = pinned; u.Object.Kind != api.Host {
				*s = device
			}
		} else if addr >= m.Device.From && addr < m.Device.To {
			*s = device
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
