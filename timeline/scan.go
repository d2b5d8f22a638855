package timeline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Totals are what is known of a whole trace at its end.
type Totals struct {
	Lanes []Lane
	Start int64 // of the first call, nanoseconds since the beginning of the trace
	End   int64 // of the trace, on the same clock
	// PeakDevice is the greatest sum of live device allocations, in bytes, and PeakCall the call that reached it.
	PeakDevice uint64
	PeakCall   uint64
	Retries    []Retry
}

// A Span is the time of a task.
type Span struct {
	Lane     int
	From, To int64 // as those of a Task
	Open     bool  // nothing in the trace shows the end: To is the end of the trace
}

// A Visitor is told of the parts of a trace as they become known. What it is given is valid until it returns. A function that is nil is not called.
type Visitor struct {
	// Lane is told of a lane, by its index into Totals.Lanes, before its first task.
	Lane func(index int, l *Lane)
	// Call is told of every call, by start, and of the task that it has put on a lane, nil for none. When that ends is not known yet.
	Call func(*HostCall, *Task)
	// Ended is told of the time of a task, by HostCall.Task, once it is known: after its call, and in the order of the lane.
	Ended func(task int, s *Span)
	// Object is told of an object with the first call that names it. The object may be kept: it goes on changing.
	Object func(*Object)
	// Range is told of a range when it has ended.
	Range func(*Range)
	// Graph is told of the tasks that a capture has put into a graph.
	Graph func(*Object, []Task)
	// Stop is asked behind each call: an error ends the scan, which returns it.
	Stop func() error
}

// Scan follows a whole trace and tells v of it, of the same trace always the same in the same order. Its memory grows with what lives at a time, objects and tasks that have not ended
// (32 bytes each), and not with the number of calls.
func Scan(r *format.Reader, m *api.Model, v *Visitor) (*Totals, error) {
	l := &scanner{v: v, schema: r.Schema(), s: NewState(m).Read(r), lanes: map[laneKey]*lane{}, records: map[*Object]record{}, failed: map[uint32]attempt{},
		spans: map[*Object]*Range{}, open: map[uint64]*Range{}, graphs: map[*Object][]Task{}}
	threads := r.Threads()
	first := true
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return nil, err
		}
		if first {
			l.Start, first = c.Start, false
		}
		var process uint32
		if int(c.Thread) < len(threads) {
			process = threads[c.Thread].Process
		}
		l.call(process, c)
		if v.Stop != nil {
			if err := v.Stop(); err != nil {
				return nil, err
			}
		}
	}
	l.finish()
	return &l.Totals, nil
}

type lane struct {
	index   int
	pending []pending // tasks whose end is not known, and those behind them
	from    int64     // of the latest task
}

type span struct {
	task int
	Span
}

type pending struct {
	task     int
	from, to int64 // to counts where it was measured
	measured bool
}

// record is where on its lane an event was recorded last.
type record struct {
	lane *lane
	task int // its number
}

// attempt is a failed launch.
type attempt struct {
	fn     *api.Func
	kernel string
	stream *Object
	call   uint64
	code   int32
}

// A scanner follows a trace and holds what has not ended yet.
type scanner struct {
	Totals
	v       *Visitor
	schema  *format.Schema
	s       *State
	lanes   map[laneKey]*lane
	order   []*lane // by index
	records map[*Object]record
	failed  map[uint32]attempt // by thread, the launch that it has tried last
	graphs  map[*Object][]Task // by the stream whose capture goes on
	spans   map[*Object]*Range // that have not ended
	open    map[uint64]*Range  // the same and those that nothing can end, by the call that began them
	ended   []span             // that the visitor has not been told of
	tasks   int                // so far
	seen    int                // objects
}

func (l *scanner) call(process uint32, c *format.Call) {
	e := l.s.Apply(process, c)
	h := HostCall{Index: c.Index, Fn: e.Fn, Thread: c.Thread, Start: c.Start, End: c.End, Ret: c.Ret, Flags: c.Flags, Kernel: e.Kernel, Task: -1, Waits: -1}
	h.Name = l.schema.FuncName(c.Func)
	l.End = max(l.End, c.End)
	ended := false
	for _, u := range e.Uses {
		o := u.Object
		switch {
		case o.ID > l.seen:
			l.seen = o.ID
			if l.v.Object != nil {
				l.v.Object(o)
			}
		case o.Ended == c.Index:
			ended = true
		}
	}
	if l.s.device > l.PeakDevice {
		l.PeakDevice, l.PeakCall = l.s.device, c.Index
	}
	done := c.Flags&format.Unfinished == 0
	ok := done && (e.Fn == nil || !e.Fn.RetError || uint32(c.Ret) == 0)
	if e.Fn != nil && e.Fn.Task == api.Kernel && done {
		l.attempt(e, ok)
	}
	var task *Task
	if e.Fn != nil && ok {
		switch {
		case e.Fn.Range != api.NoRange:
			l.note(process, e)
		case e.Captured != nil:
			if l.v.Graph != nil {
				l.graphs[e.Captured] = append(l.graphs[e.Captured], l.task(process, e))
			}
		case e.Fn.Task != api.NoTask:
			h.Task = l.tasks
			l.tasks++
			task = l.put(process, e, h.Task)
		case e.Fn.Capture == api.CaptureEnd:
			l.graph(e)
		}
	}
	if e.Fn != nil && ok {
		l.sync(process, e, &h)
	}
	if l.v.Call != nil {
		l.v.Call(&h, task)
	}
	l.tell()
	if ended {
		for _, u := range e.Uses {
			delete(l.records, u.Object)
		}
	}
}

func (l *scanner) lane(k laneKey) *lane {
	if ln := l.lanes[k]; ln != nil {
		return ln
	}
	ln := &lane{index: len(l.Lanes)}
	l.lanes[k] = ln
	l.order = append(l.order, ln)
	l.Lanes = append(l.Lanes, Lane{Process: k.process, Stream: k.stream, Synchronous: k.synchronous, Name: l.laneName(k), Device: k.device})
	if l.v.Lane != nil {
		l.v.Lane(ln.index, &l.Lanes[ln.index])
	}
	return ln
}

// laneName numbers streams by process. Default streams, of which a device has one, are named by it when they are several.
func (l *scanner) laneName(k laneKey) string {
	name, like := "default stream", 0
	if k.synchronous {
		name = "synchronous"
	}
	for _, x := range l.Lanes {
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
func (l *scanner) attempt(e *Event, ok bool) {
	c := e.Call
	last, before := l.failed[c.Thread]
	switch {
	case !ok:
		l.failed[c.Thread] = attempt{e.Fn, e.Kernel, e.Stream, c.Index, int32(c.Ret)}
	case before:
		delete(l.failed, c.Thread)
		if last.fn == e.Fn && last.kernel == e.Kernel && last.stream == e.Stream {
			l.Retries = append(l.Retries, Retry{Failed: last.call, Done: c.Index, Kernel: e.Kernel, Code: last.code})
		}
	}
}

// task describes what a call puts on its lane.
func (l *scanner) task(process uint32, e *Event) Task {
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
		task.Bytes = Copied(l.s.model, e)
		task.Name = copyNames[Direction(l.s.model, e)]
		task.Pageable = Pageable(l.s.model, e)
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
func (l *scanner) put(process uint32, e *Event, number int) *Task {
	c, f := e.Call, e.Fn
	task := l.task(process, e)
	ln := l.lane(l.s.laneKey(process, e))
	l.Lanes[ln.index].Tasks++
	start, began := out(c, api.TaskStartParam)
	end, ended := out(c, api.TaskEndParam)
	switch {
	case began && ended && int64(start) <= int64(end):
		task.From, task.To, task.Measured = int64(start), int64(end), true
		l.End = max(l.End, task.To)
	case f.Stream < 0:
		task.To = c.End // done by the call itself, whatever the streams do
	default:
		task.From = max(task.From, ln.from)
	}
	p := pending{number, task.From, task.To, task.Measured}
	if f.Stream >= 0 {
		ln.from = task.From
		ln.pending = append(ln.pending, p)
	} else {
		l.end(ln, &p)
	}
	if f.Task == api.Record && task.Object != nil {
		l.records[task.Object] = record{ln, number}
	}
	return &task
}

// end notes that the times of a task are known. The visitor learns of it when it has been told of the call that shows it.
func (l *scanner) end(ln *lane, p *pending) {
	l.ended = append(l.ended, span{p.task, Span{Lane: ln.index, From: p.from, To: max(p.to, p.from)}})
}

// tell tells the visitor of tasks that have ended.
func (l *scanner) tell() {
	for i := range l.ended {
		if s := &l.ended[i]; l.v.Ended != nil {
			l.v.Ended(s.task, &s.Span)
		}
	}
	l.ended = l.ended[:0]
}

// graph ends a capture.
func (l *scanner) graph(e *Event) {
	if l.v.Graph == nil {
		return
	}
	tasks := l.graphs[e.Stream]
	delete(l.graphs, e.Stream)
	for _, u := range e.Uses {
		if u.Object.Kind == api.Graph {
			l.v.Graph(u.Object, tasks)
		}
	}
}

// sync ends the tasks that a synchronization has waited for.
func (l *scanner) sync(process uint32, e *Event, h *HostCall) {
	switch e.Fn.Sync {
	case api.SyncDevice:
		device := l.s.seat(process, e.Call.Thread).device
		h.Waits = int32(device)
		for i, ln := range l.order {
			if k := &l.Lanes[i]; k.Process == process && l.s.oneDevice(process, k.Device, device) {
				l.complete(ln, l.tasks, e.Call)
			}
		}
	case api.SyncStream, api.PollStream:
		h.Complete = e.Fn.Sync == api.PollStream && l.s.polled(e)
		ln := l.lane(l.s.waitedKey(process, e))
		h.Waits = int32(ln.index)
		if h.Complete || e.Fn.Sync == api.SyncStream {
			l.complete(ln, l.tasks, e.Call)
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
func (l *scanner) complete(ln *lane, before int, c *format.Call) {
	n := 0
	for n < len(ln.pending) && ln.pending[n].task < before {
		p := &ln.pending[n]
		if !p.measured {
			p.to = c.End
		}
		l.end(ln, p)
		n++
	}
	if n > 0 {
		l.Lanes[ln.index].Waited += c.End - c.Start
	}
	if n == len(ln.pending) {
		ln.pending = ln.pending[:0]
	} else {
		ln.pending = ln.pending[n:]
	}
}

// finish gives what the trace shows no end of the end of the trace.
func (l *scanner) finish() {
	for _, ln := range l.order {
		for i := range ln.pending {
			p := &ln.pending[i]
			if !p.measured {
				p.to = l.End
			}
			l.end(ln, p)
			l.ended[len(l.ended)-1].Open = !p.measured
		}
		l.tell()
	}
	for _, begin := range slices.Sorted(maps.Keys(l.open)) {
		r := l.open[begin]
		r.To = l.End
		l.v.Range(r)
	}
}
