package timeline

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Task is what a call has put on a stream, or a copy that the call did itself.
type Task struct {
	Call    uint64 // number of the call that made it
	Fn      *api.Func
	Kind    api.Task
	Name    string // of the kernel, else of the kind, with the direction of a copy
	Process uint32
	Thread  uint32
	Lane    int   // index into Timeline.Lanes
	Issued  int64 // start of the call, nanoseconds since the beginning of the trace
	// From and To bracket the time when the device did it: not before the call began and the task before it on the stream
	// could end, not after the first synchronization that covers it. Nobody has measured it.
	From, To int64
	// Open says that nothing in the trace shows the end: To is the end of the trace.
	Open  bool
	Bytes uint64 // copied or filled
}

// Lane is a stream, the default stream of a process, or what its calls have done themselves without a stream.
type Lane struct {
	Process     uint32
	Stream      *Object // nil: the default stream
	Synchronous bool    // no stream: done before the calls returned
	Name        string
	Tasks       int
}

// A HostCall is a call on the thread that made it, as much as a viewer shows.
type HostCall struct {
	Index      uint64
	Fn         *api.Func
	Name       string
	Thread     uint32
	Start, End int64
	Ret        uint64
	Flags      format.CallFlags
	Kernel     string
	Task       int // index into Timeline.Tasks, -1 for none
}

// Failed reports whether the call has returned an error.
func (h *HostCall) Failed() bool {
	return h.Fn != nil && h.Fn.RetError && uint32(h.Ret) != 0 && h.Flags&format.Unfinished == 0
}

// A Timeline is a whole trace with its meaning.
type Timeline struct {
	Reader  *format.Reader
	Model   *api.Model
	Calls   []HostCall // by start
	Tasks   []Task     // in the order of their calls
	Lanes   []Lane
	Objects []*Object // allocations, streams, events, functions …, by ID
	End     int64     // of the trace, nanoseconds since its beginning
	// PeakDevice is the greatest sum of live device allocations, in bytes, and PeakCall the call that reached it.
	PeakDevice uint64
	PeakCall   uint64
}

// Load reads a whole trace. Its memory grows with the number of calls, about 150 bytes for each.
func Load(r *format.Reader, m *api.Model) (*Timeline, error) {
	t := &Timeline{Reader: r, Model: m}
	l := &loader{t: t, s: NewState(m), lanes: map[laneKey]*lane{}, records: map[*Object]record{}}
	threads := r.Threads()
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return nil, err
		}
		var process uint32
		if int(c.Thread) < len(threads) {
			process = threads[c.Thread].Process
		}
		l.call(process, c)
	}
	l.finish()
	return t, nil
}

type laneKey struct {
	process     uint32
	stream      *Object
	synchronous bool
}

type lane struct {
	index   int
	pending []int // tasks whose end is not known
	from    int64 // of the latest task
}

// record is where on its lane an event was recorded last.
type record struct {
	lane *lane
	task int
}

type loader struct {
	t       *Timeline
	s       *State
	lanes   map[laneKey]*lane
	records map[*Object]record
	seen    int // objects
	device  uint64
}

func (l *loader) call(process uint32, c *format.Call) {
	t := l.t
	e := l.s.Apply(process, c)
	h := HostCall{Index: c.Index, Fn: e.Fn, Thread: c.Thread, Start: c.Start, End: c.End, Ret: c.Ret, Flags: c.Flags, Kernel: e.Kernel, Task: -1}
	h.Name = t.Reader.Schema().FuncName(c.Func)
	t.End = max(t.End, c.End)
	for _, u := range e.Uses {
		if o := u.Object; o.ID > l.seen {
			l.seen = o.ID
			t.Objects = append(t.Objects, o)
			if o.Kind == api.Device {
				l.device += o.Size
				if l.device > t.PeakDevice {
					t.PeakDevice, t.PeakCall = l.device, c.Index
				}
			}
		} else if o.Kind == api.Device && o.Ended == c.Index {
			l.device -= o.Size
		}
	}
	done := c.Flags&format.Unfinished == 0
	ok := done && (e.Fn == nil || !e.Fn.RetError || uint32(c.Ret) == 0)
	if e.Fn != nil && ok {
		if e.Fn.Task != api.NoTask {
			h.Task = len(t.Tasks)
			l.task(process, e)
		}
		l.sync(process, e)
	}
	t.Calls = append(t.Calls, h)
}

func (l *loader) lane(k laneKey) *lane {
	if ln := l.lanes[k]; ln != nil {
		return ln
	}
	ln := &lane{index: len(l.t.Lanes)}
	l.lanes[k] = ln
	name := "default stream"
	switch {
	case k.synchronous:
		name = "synchronous"
	case k.stream != nil:
		n := 1
		for _, x := range l.t.Lanes {
			if x.Process == k.process && x.Stream != nil {
				n++
			}
		}
		name = fmt.Sprintf("stream %d", n)
	}
	l.t.Lanes = append(l.t.Lanes, Lane{Process: k.process, Stream: k.stream, Synchronous: k.synchronous, Name: name})
	return ln
}

func (l *loader) task(process uint32, e *Event) {
	c, f := e.Call, e.Fn
	task := Task{Call: c.Index, Fn: f, Kind: f.Task, Process: process, Thread: c.Thread, Issued: c.Start, From: c.Start, To: -1, Name: f.Task.String()}
	switch f.Task {
	case api.Kernel:
		task.Name = e.Kernel
		if task.Name == "" {
			task.Name = "unknown kernel"
		}
	case api.Copy:
		task.Bytes = Copied(l.t.Model, e)
		task.Name = "copy " + Direction(l.t.Model, e)
	case api.Fill:
		for i := range f.Params {
			if p := &f.Params[i]; p.Role == api.Fills {
				task.Bytes, _ = p.Size.Bytes(f, c.Args)
			}
		}
	}
	ln := l.lane(laneKey{process, e.Stream, f.Stream < 0})
	task.Lane = ln.index
	l.t.Lanes[ln.index].Tasks++
	if f.Stream < 0 {
		task.To = c.End // done by the call itself, whatever the streams do
	} else {
		task.From = max(task.From, ln.from)
		ln.from = task.From
		ln.pending = append(ln.pending, len(l.t.Tasks))
	}
	l.t.Tasks = append(l.t.Tasks, task)
	if f.Task == api.Record && f.Event >= 0 {
		if u, ok := e.Use(int(f.Event)); ok {
			l.records[u.Object] = record{ln, len(l.t.Tasks) - 1}
		}
	}
}

// sync ends the tasks that a synchronization has waited for.
func (l *loader) sync(process uint32, e *Event) {
	switch e.Fn.Sync {
	case api.SyncDevice:
		for k, ln := range l.lanes {
			if k.process == process {
				l.complete(ln, len(l.t.Tasks), e.Call.End)
			}
		}
	case api.SyncStream:
		l.complete(l.lane(laneKey{process: process, stream: l.syncStream(e)}), len(l.t.Tasks), e.Call.End)
	case api.PollStream:
		if l.polled(e) {
			l.complete(l.lane(laneKey{process: process, stream: e.Stream}), len(l.t.Tasks), e.Call.End)
		}
	case api.SyncEvent:
		l.event(e)
	case api.PollEvent:
		if l.polled(e) {
			l.event(e)
		}
	}
}

func (l *loader) syncStream(e *Event) *Object {
	if e.Stream != nil {
		return e.Stream
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.Stream {
			return u.Object
		}
	}
	return nil
}

func (l *loader) event(e *Event) {
	if u, ok := e.Use(int(e.Fn.Event)); ok {
		if r, ok := l.records[u.Object]; ok {
			l.complete(r.lane, r.task+1, e.Call.End)
		}
	}
}

// polled reports whether a poll has said complete.
func (l *loader) polled(e *Event) bool {
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role != api.Out {
			continue
		}
		v, ok := out(e.Call, i)
		return ok && complete(l.t.Model, p.Type, int64(int32(v)))
	}
	return false
}

// complete ends the tasks of a lane that are before the given one.
func (l *loader) complete(ln *lane, before int, at int64) {
	n := 0
	for n < len(ln.pending) && ln.pending[n] < before {
		l.t.Tasks[ln.pending[n]].To = at
		n++
	}
	ln.pending = ln.pending[n:]
}

func (l *loader) finish() {
	for _, ln := range l.lanes {
		for _, i := range ln.pending {
			l.t.Tasks[i].To, l.t.Tasks[i].Open = l.t.End, true
		}
	}
	for i := range l.t.Tasks {
		t := &l.t.Tasks[i]
		t.To = max(t.To, t.From)
	}
}

// Copied is the number of bytes that a copy moves.
func Copied(m *api.Model, e *Event) uint64 {
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role != api.Reads {
			continue
		}
		if p.ItemSizes < 0 {
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
	return 0
}

func word(b []byte) uint64 {
	var v uint64
	for i := min(len(b), 8) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// Direction says from where to where a copy goes, as HtoD, DtoH, DtoD or HtoH, by what its addresses are.
func Direction(m *api.Model, e *Event) string {
	dir := [2]byte{'H', 'H'}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		side := -1
		switch p.Role {
		case api.Reads:
			side = 0
		case api.Writes:
			side = 1
		}
		if side < 0 {
			continue
		}
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
			if u.Object.Kind == api.Device {
				dir[side] = 'D'
			}
		} else if addr >= m.Device.From && addr < m.Device.To {
			dir[side] = 'D'
		}
	}
	return string([]byte{dir[0], 't', 'o', dir[1]})
}

// complete reports whether a value of a status type says that what was asked about is complete.
func complete(m *api.Model, ctype string, v int64) bool {
	name := m.EnumName(trimPointer(ctype), v)
	return len(name) > 9 && name[len(name)-9:] == "_COMPLETE"
}
