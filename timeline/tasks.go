package timeline

import (
	"fmt"
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
	Retries    []Retry
	Ranges     []Range // by their beginnings
	// Graphs are the tasks that captures have put into graphs, in the order of their calls. Their times mean nothing.
	Graphs map[*Object][]Task

	stepsOnce sync.Once
	steps     *Steps
}

// Load reads a whole trace. Its memory grows with the number of calls, about 90 bytes for each and 100 more for its task.
func Load(r *format.Reader, m *api.Model) (*Timeline, error) {
	t := &Timeline{Reader: r, Model: m}
	l := &loader{t: t, s: NewState(m).Read(r), lanes: map[laneKey]*lane{}, records: map[*Object]record{}, failed: map[uint32]attempt{}, spans: map[*Object]int{}, graphs: map[*Object][]Task{}}
	threads := r.Threads()
	if counts, err := r.Counts(); err == nil {
		t.Calls = make([]HostCall, 0, min(counts.Calls, 1<<20)) // a file may claim any number
	}
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

// attempt is a failed launch.
type attempt struct {
	fn     *api.Func
	kernel string
	stream *Object
	call   uint64
	code   int32
}

type loader struct {
	t       *Timeline
	s       *State
	lanes   map[laneKey]*lane
	records map[*Object]record
	failed  map[uint32]attempt // by thread, the launch that it has tried last
	graphs  map[*Object][]Task // by the stream whose capture goes on
	spans   map[*Object]int    // ranges that have not ended, into Timeline.Ranges
	seen    int                // objects
}

func (l *loader) call(process uint32, c *format.Call) {
	t := l.t
	e := l.s.Apply(process, c)
	h := HostCall{Index: c.Index, Fn: e.Fn, Thread: c.Thread, Start: c.Start, End: c.End, Ret: c.Ret, Flags: c.Flags, Kernel: e.Kernel, Task: -1, Waits: -1}
	h.Name = t.Reader.Schema().FuncName(c.Func)
	t.End = max(t.End, c.End)
	for _, u := range e.Uses {
		if o := u.Object; o.ID > l.seen {
			l.seen = o.ID
			t.Objects = append(t.Objects, o)
		}
	}
	done := c.Flags&format.Unfinished == 0
	ok := done && (e.Fn == nil || !e.Fn.RetError || uint32(c.Ret) == 0)
	if e.Fn != nil && e.Fn.Task == api.Kernel && done {
		l.attempt(e, ok)
	}
	if e.Fn != nil && ok {
		switch {
		case e.Fn.Range != api.NoRange:
			l.note(process, e)
		case e.Captured != nil:
			l.graphs[e.Captured] = append(l.graphs[e.Captured], l.task(process, e))
		case e.Fn.Task != api.NoTask:
			h.Task = len(t.Tasks)
			l.put(process, e)
		case e.Fn.Capture == api.CaptureEnd:
			l.graph(e)
		}
		l.sync(process, e, &h)
	}
	t.Calls = append(t.Calls, h)
}

func (l *loader) lane(k laneKey) *lane {
	if ln := l.lanes[k]; ln != nil {
		return ln
	}
	ln := &lane{index: len(l.t.Lanes)}
	l.lanes[k] = ln
	l.t.Lanes = append(l.t.Lanes, Lane{Process: k.process, Stream: k.stream, Synchronous: k.synchronous, Name: l.laneName(k), Device: k.device})
	return ln
}

// laneName numbers streams by process. Default streams, of which a device has one, are named by it when they are several.
func (l *loader) laneName(k laneKey) string {
	name, like := "default stream", 0
	if k.synchronous {
		name = "synchronous"
	}
	for _, x := range l.t.Lanes {
		if x.Process == k.process && (x.Stream != nil) == (k.stream != nil) && x.Synchronous == k.synchronous {
			like++
		}
	}
	switch {
	case k.stream != nil:
		return fmt.Sprintf("stream %d", like+1)
	case like > 0 && k.context != nil:
		return fmt.Sprintf("%s of context#%d", name, k.context.ID)
	case like > 0 && k.device != NoDevice:
		return fmt.Sprintf("%s of device %d", name, k.device)
	}
	return name
}

// attempt finds launches that are tried again after they have failed.
func (l *loader) attempt(e *Event, ok bool) {
	c := e.Call
	last, before := l.failed[c.Thread]
	switch {
	case !ok:
		l.failed[c.Thread] = attempt{e.Fn, e.Kernel, e.Stream, c.Index, int32(c.Ret)}
	case before:
		delete(l.failed, c.Thread)
		if last.fn == e.Fn && last.kernel == e.Kernel && last.stream == e.Stream {
			l.t.Retries = append(l.t.Retries, Retry{Failed: last.call, Done: c.Index, Code: last.code})
		}
	}
}

// task describes what a call puts on its lane.
func (l *loader) task(process uint32, e *Event) Task {
	c, f := e.Call, e.Fn
	task := Task{Call: c.Index, Fn: f, Kind: f.Task, Process: process, Thread: c.Thread, Issued: c.Start, From: c.Start, To: -1, Name: f.Task.String()}
	switch f.Task {
	case api.Kernel:
		task.Name = e.Kernel
		if task.Name == "" {
			task.Name = "unknown kernel"
		}
		task.Blocks = Blocks(e)
	case api.Copy:
		task.Bytes = Copied(l.t.Model, e)
		task.Name = copyNames[Direction(l.t.Model, e)]
		task.Pageable = Pageable(l.t.Model, e)
	case api.Fill:
		for i := range f.Params {
			if p := &f.Params[i]; p.Role == api.Fills {
				task.Bytes, _ = p.Size.Bytes(f, c.Args)
			}
		}
	case api.GraphRun:
		for _, u := range e.Uses {
			if u.Object.Kind == api.Graph {
				task.Object = u.Object
			}
		}
	}
	if f.Event >= 0 {
		if u, ok := e.Use(int(f.Event)); ok {
			task.Object = u.Object
		}
	}
	task.StreamID, task.TaskID, task.HasID = e.TaskID()
	task.Lane = l.lane(l.s.laneKey(process, e)).index
	return task
}

// put puts the call's task on its lane.
func (l *loader) put(process uint32, e *Event) {
	c, f := e.Call, e.Fn
	task := l.task(process, e)
	ln := l.lane(l.s.laneKey(process, e))
	l.t.Lanes[ln.index].Tasks++
	start, began := out(c, api.TaskStartParam)
	end, ended := out(c, api.TaskEndParam)
	switch {
	case began && ended && int64(start) <= int64(end):
		task.From, task.To, task.Measured = int64(start), int64(end), true
		l.t.End = max(l.t.End, task.To)
	case f.Stream < 0:
		task.To = c.End // done by the call itself, whatever the streams do
	default:
		task.From = max(task.From, ln.from)
	}
	if f.Stream >= 0 {
		ln.from = task.From
		ln.pending = append(ln.pending, len(l.t.Tasks))
	}
	if f.Task == api.Record && task.Object != nil {
		l.records[task.Object] = record{ln, len(l.t.Tasks)}
	}
	l.t.Tasks = append(l.t.Tasks, task)
}

// graph ends a capture.
func (l *loader) graph(e *Event) {
	tasks := l.graphs[e.Stream]
	delete(l.graphs, e.Stream)
	for _, u := range e.Uses {
		if u.Object.Kind == api.Graph {
			if l.t.Graphs == nil {
				l.t.Graphs = map[*Object][]Task{}
			}
			l.t.Graphs[u.Object] = tasks
		}
	}
}

// sync ends the tasks that a synchronization has waited for.
func (l *loader) sync(process uint32, e *Event, h *HostCall) {
	switch e.Fn.Sync {
	case api.SyncDevice:
		device := l.s.seat(process, e.Call.Thread).device
		h.Waits = int32(device)
		for k, ln := range l.lanes {
			if k.process == process && l.s.oneDevice(process, k.device, device) {
				l.complete(ln, len(l.t.Tasks), e.Call)
			}
		}
	case api.SyncStream, api.PollStream:
		h.Complete = e.Fn.Sync == api.PollStream && l.s.polled(e)
		ln := l.lane(l.s.waitedKey(process, e))
		h.Waits = int32(ln.index)
		if h.Complete || e.Fn.Sync == api.SyncStream {
			l.complete(ln, len(l.t.Tasks), e.Call)
		}
	case api.SyncEvent, api.PollEvent:
		h.Complete = e.Fn.Sync == api.PollEvent && l.s.polled(e)
		u, ok := e.Use(int(e.Fn.Event))
		if !ok {
			return
		}
		h.Waits = int32(u.Object.ID)
		if r, ok := l.records[u.Object]; ok && (h.Complete || e.Fn.Sync == api.SyncEvent) {
			l.complete(r.lane, r.task+1, e.Call)
		}
	}
}

// waitedKey returns the stream that a synchronization or a poll names.
func (s *State) waitedKey(process uint32, e *Event) laneKey {
	k := s.laneKey(process, e)
	if k.synchronous {
		k.synchronous = false
		for _, u := range e.Uses {
			if u.Object.Kind == api.Stream {
				k.stream, k.device = u.Object, u.Object.Device
				break
			}
		}
	}
	return k
}

// polled reports whether a poll has said complete.
func (s *State) polled(e *Event) bool {
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role != api.Out {
			continue
		}
		v, ok := out(e.Call, i)
		return ok && complete(s.model, p.Type, int64(int32(v)))
	}
	return false
}

// complete ends the tasks of a lane that are before the given one.
func (l *loader) complete(ln *lane, before int, c *format.Call) {
	n := 0
	for n < len(ln.pending) && ln.pending[n] < before {
		if t := &l.t.Tasks[ln.pending[n]]; !t.Measured {
			t.To = c.End
		}
		n++
	}
	if n > 0 {
		l.t.Lanes[ln.index].Waited += c.End - c.Start
	}
	ln.pending = ln.pending[n:]
}

func (l *loader) finish() {
	for p := range l.t.Memory() {
		if p.Total > l.t.PeakDevice {
			l.t.PeakDevice, l.t.PeakCall = p.Total, l.t.Calls[p.Call].Index
		}
	}
	for _, ln := range l.lanes {
		for _, i := range ln.pending {
			if t := &l.t.Tasks[i]; !t.Measured {
				t.To, t.Open = l.t.End, true
			}
		}
	}
	for i := range l.t.Tasks {
		t := &l.t.Tasks[i]
		t.To = max(t.To, t.From)
	}
	for i := range l.t.Ranges {
		if r := &l.t.Ranges[i]; r.Open {
			r.To = l.t.End
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
