package timeline

import (
	"cmp"
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// NewWalk prepares a Walk through a trace. It reads the index only.
func NewWalk(r *format.Reader, m *api.Model, o *WalkOptions) *Walk {
	w := newWalk(m)
	w.Reader, w.s, w.threads.list = r, NewState(m).Read(r), r.Threads()
	if o != nil {
		w.o = *o
	}
	if w.o.Select != nil {
		w.sel = w.o.Select
		w.sel.Use(w.s)
	}
	first := true
	for c := range r.Chunks() {
		if c.Calls == 0 {
			continue
		}
		w.Calls += c.Calls
		w.End = max(w.End, c.TMax)
		if first || c.TMin < w.Start {
			w.Start, first = c.TMin, false
		}
	}
	w.whole = wholeUntil(r)
	return w
}

// wholeUntil returns the time until which the trace has every call that pins memory, and so changes the meaning of later calls.
func wholeUntil(r *format.Reader) int64 {
	m := r.Meta()
	if m.Coverage.Refused > 0 || m.CapturedBy == "ebpf" && len(m.Argv) == 0 {
		return math.MinInt64 // threads were not recorded, or the program ran before
	}
	from := int64(math.MaxInt64)
	for _, g := range r.Gaps() {
		// Calls outside the chosen steps, or dropped by a flight recorder, are counted. Calls that make objects are in the trace.
		if !g.Intended() || g.Reason == format.Detached && g.Calls == 0 {
			from = min(from, g.From)
		}
	}
	return from
}

// Run goes through the trace and reports it to the Visitor.
func (w *Walk) Run(v *Visitor) error {
	w.v = *v
	if w.v.Range != nil || w.StepRule().Source == step.Marked {
		a := newAhead(w.Reader, w.Model)
		a.last = &w.End
		defer a.close()
		w.ahead.ranges = a
	}
	if w.v.Operator != nil {
		w.ahead.operators = newOperatorsAhead(w.Reader, w.Model)
		defer w.ahead.operators.stop()
	}
	if w.o.Shapes {
		w.s.operators.wanted, w.s.operators.operands.Number = true, w.s.operators.shapes.id
		if w.ahead.shapes = newShapesAhead(w.Reader, w.Model, &w.s.operators.shapes); w.ahead.shapes != nil {
			defer w.ahead.shapes.stop()
		}
	}
	err := w.run()
	if err == nil {
		err = w.finish()
	}
	if err == ErrEnough { //nolint:errorlint // it comes from nowhere else
		err = nil
	}
	return err
}

func (w *Walk) run() error {
	var err error
	if !w.o.Untimed {
		if w.meter, err = newMeter(w.Reader); err != nil {
			return err
		}
	}
	done := uint64(0)
	for c, err := range w.Reader.CallsByStart(&format.Filter{DataOf: w.dataOf()}) {
		if err != nil {
			return err
		}
		if c.Start >= w.sel.to && w.queue.wanted == 0 && !w.inStep() {
			break
		}
		if err := w.call(c); err != nil {
			return err
		}
		if done++; done&0xffff == 0 && w.o.Progress != nil {
			w.o.Progress(int(done), int(w.Calls))
		}
	}
	if w.o.Progress != nil {
		w.o.Progress(int(w.Calls), int(w.Calls))
	}
	return nil
}

// inStep reports whether a step that began in the window has not ended.
func (w *Walk) inStep() bool {
	if w.steps.Finder == nil || w.v.Step == nil {
		return false
	}
	from, ok := w.steps.Begun()
	return ok && from < w.sel.to
}

// dataOf returns the functions whose data affects the meaning of calls. Other data, such as kernel arguments, is not read.
func (w *Walk) dataOf() []uint16 {
	if w.Reader.Meta().DeviceTime != nil && !w.o.Untimed || w.o.Stacks {
		return nil
	}
	out := []uint16{}
	for _, in := range w.Reader.Schema().Functions {
		f := w.Model.Func(api.ID(in.ID))
		if f != nil && (f.NeedsData() || w.o.Shapes && f.Operand != api.NoOperand) {
			out = append(out, in.ID)
		}
	}
	return out
}

func (ln *lane) waits() int { return len(ln.pending) - ln.head }

// Process returns the process of a thread.
func (w *Walk) Process(thread uint32) uint32 {
	if int(thread) < len(w.threads.list) {
		return w.threads.list[thread].Process
	}
	return 0
}

// PID returns the process id of a row of the process table, 0 if it has no such row.
func (w *Walk) PID(process uint32) int {
	if procs := w.Reader.Processes(); int(process) < len(procs) {
		return procs[process].PID
	}
	return 0
}

func (w *Walk) name(id uint16) string {
	for int(id) >= len(w.names.functions) {
		w.names.functions = append(w.names.functions, "")
	}
	name := &w.names.functions[id]
	if *name == "" {
		*name = w.Reader.Schema().FuncName(id)
	}
	return *name
}

// call follows one call and reports it.
func (w *Walk) call(c *format.Call) error {
	process := w.Process(c.Thread)
	if w.v.Depth != nil {
		if err := w.depth.until(min(c.Start, w.sel.to), w.v.Depth); err != nil {
			return err
		}
	}
	if w.steps.Finder != nil {
		if err := w.passSteps(c.Start); err != nil {
			return err
		}
	}
	e := w.s.Apply(process, c)
	w.now.event = e
	h := &w.now.host
	*h = HostCall{Index: c.Index, Fn: e.Fn, Name: w.name(c.Func), Thread: c.Thread, Start: c.Start, End: c.End, Ret: c.Ret, Flags: c.Flags, Kernel: w.names.kernels.of(e.Kernel),
		Task: -1, Waits: -1, Step: -1, During: -1, Retries: NoCall, Raw: c}
	if !h.Profiled() {
		w.recording(h, c)
	}
	selected := w.choose(e)
	w.now.selected = selected
	if err := w.objects(c, e); err != nil {
		return err
	}
	if err := w.operator(e); err != nil {
		return err
	}
	ok := e.OK()
	if e.Fn != nil && e.Fn.Task == api.Kernel && w.o.Shapes {
		var err error
		if w.now.shapes, err = w.shapesOf(e); err != nil {
			return err
		}
	}
	if c.Flags&format.Unfinished == 0 && e.Fn != nil && e.Fn.Task == api.Kernel {
		w.attempt(e, ok, h)
	}
	var task *Task
	var named *Range
	if ok {
		var err error
		if task, named, err = w.follow(e, h); err != nil {
			return err
		}
	}
	waits := e.Fn != nil && e.Fn.Sync != api.NoSync
	if waits {
		w.sync(e, h, ok)
	}
	if w.ordered(e, h, task); waits && ok {
		w.complete(c)
	}
	if w.steps.Finder != nil {
		w.seeStep(e, h, task, named)
		if err := w.passSteps(c.Start); err != nil {
			return err
		}
		if h.During = w.steps.At(); process == w.steps.Rule().Process {
			h.Step = h.During
		}
		if task != nil {
			task.Step = h.Step
		}
	}
	w.now.selected = selected
	if err := w.report(h, task, named); err != nil {
		return err
	}
	for i := range e.Uses {
		if o := e.Uses[i].Object; o.Ended == c.Index && o.Kind == api.Graph {
			delete(w.graphs.roles.of, o)
		}
	}
	return nil
}

// choose reports whether the current call is selected, and decides whether its task is.
func (w *Walk) choose(e *Event) bool {
	x := w.sel
	w.now.skip = false
	if x.all {
		return true
	}
	if !w.o.OwnTimes {
		w.now.skip = !(x.MayBe(e.Call) && x.Is(e))
		return !w.now.skip
	}
	w.now.skip = e.Call.Start >= x.to || !x.plain(e.Call) || !x.is(e)
	return !w.now.skip && x.timed(e.Call) && x.Is(e)
}

// follow follows a call that has succeeded. It returns the task that the call puts on a lane, and the range that it makes known; nil for none.
func (w *Walk) follow(e *Event, h *HostCall) (task *Task, named *Range, err error) {
	switch f := e.Fn; {
	case f.Range != api.NoRange:
		if w.ahead.ranges != nil {
			named, err = w.ahead.ranges.note(e)
		}
	case e.Captured != nil:
		w.laneOf(e) // so that lane names do not depend on the Visitor
	case f.Task != api.NoTask:
		if err := w.runs(e); err != nil {
			return nil, nil, err
		}
		h.Task = w.queue.tasks
		w.queue.tasks++
		task, err = w.put(e)
	}
	if err != nil {
		return nil, nil, err
	}
	if e.AffectsGraphs() {
		w.graphs.Apply(w.s.GraphCall(e), func() *Task { return w.nodeTask(e) })
	}
	return task, named, nil
}

// report reports a call, and the lanes, the memory, the range and the tasks that it makes known.
func (w *Walk) report(h *HostCall, task *Task, named *Range) error {
	for ; w.v.Lane != nil && w.lanes.shown < len(w.Lanes); w.lanes.shown++ {
		if err := w.v.Lane(w.lanes.shown, &w.Lanes[w.lanes.shown]); err != nil {
			return err
		}
	}
	if err := w.memory(h); err != nil {
		return err
	}
	if named != nil && w.v.Range != nil && w.within(named.From, named.To) {
		if err := w.v.Range(named); err != nil {
			return err
		}
	}
	if w.now.selected && h.Fn != nil && h.Fn.EntryMark() {
		w.now.marks++
	}
	if w.v.Call != nil && (w.now.selected || w.v.All) && !w.hidden(h.Fn) {
		if err := w.v.Call(h, task); err != nil {
			return err
		}
	}
	return w.tell()
}

// recording sets the time that the recorder took from the thread before a call, and the time for which it did not run, at most the time since the call before. Times before marks
// that are not reported are those of the next call.
func (w *Walk) recording(h *HostCall, c *format.Call) {
	for int(h.Thread) >= len(w.threads.before) {
		w.threads.before = append(w.threads.before, before{until: math.MaxInt64})
	}
	b := &w.threads.before[h.Thread]
	if b.until < h.Start {
		took, _ := out(c, api.RecordingParam)
		idle, _ := out(c, api.BlockedParam)
		b.recording += min(took, uint64(h.Start-b.until))
		b.blocked += min(idle, uint64(h.Start-b.until))
	}
	if w.hidden(h.Fn) {
		return
	}
	if b.recording+b.blocked > 0 && b.until < h.Start {
		h.RecordingFrom = b.until
		h.Recording = int64(min(b.recording, uint64(h.Start-b.until)))
		h.Blocked = int64(min(b.blocked, uint64(h.Start-b.until-h.Recording)))
	}
	if b.recording, b.blocked = 0, 0; b.until == math.MaxInt64 {
		b.until = h.End
	}
	b.until = max(b.until, h.End)
}

// hidden reports whether calls of a function are marks that the Visitor does not want.
func (w *Walk) hidden(f *api.Func) bool { return f != nil && f.EntryMark() && !w.v.Marks }

// CallEnd returns the end of a call, the end of the trace for a call that never returned. A call whose end was not seen may be over: it ends at its last
// known moment.
func (w *Walk) CallEnd(h *HostCall) int64 {
	if h.Flags&(format.Unfinished|format.NoEnd) == format.Unfinished {
		return max(h.Start, h.End, w.End)
	}
	return max(h.Start, h.End)
}

// objects reports new objects.
func (w *Walk) objects(c *format.Call, e *Event) error {
	for i := range e.Uses {
		o := e.Uses[i].Object
		if o.ID <= w.seen {
			continue
		}
		if w.seen = o.ID; w.v.Object != nil {
			if err := w.v.Object(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// memory reports changes in device memory use.
func (w *Walk) memory(h *HostCall) error {
	w.PeakDevice = max(w.PeakDevice, w.s.memory.bytes)
	if len(w.s.memory.changes) == 0 || w.v.Memory == nil {
		return nil
	}
	for _, change := range w.s.memory.changes {
		o := change.o
		if o.Size == 0 {
			continue
		}
		p := place{o.Process, o.Device}
		if change.freed {
			w.use.byPlace[p] -= o.Size
			w.use.total -= o.Size
		} else {
			w.use.byPlace[p] += o.Size
			w.use.total += o.Size
		}
		if h.Start >= w.sel.to {
			continue
		}
		if err := w.v.Memory(&MemoryPoint{Time: h.Start, Process: p.process, Device: p.device, Bytes: w.use.byPlace[p], Total: w.use.total, Object: o, Freed: change.freed, Call: h}); err != nil {
			return err
		}
	}
	return nil
}

func (w *Walk) lane(k LaneKey) *lane {
	if w.lanes.latest != nil && w.lanes.latest.key == k {
		return w.lanes.latest
	}
	ln := w.lanes.byKey[k]
	if ln == nil {
		ln = &lane{key: k, index: len(w.Lanes), first: -1}
		w.lanes.byKey[k] = ln
		w.lanes.list = append(w.lanes.list, ln)
		w.queue.order.Lane(w.s.OrderLane(&k))
		w.Lanes = append(w.Lanes, Lane{Process: k.Process, Stream: k.Stream, Synchronous: k.Synchronous, Name: w.lanes.names.Of(k), Device: k.Device})
	}
	w.lanes.latest = ln
	return ln
}

// laneOf returns the lane for a call's work.
func (w *Walk) laneOf(e *Event) *lane {
	if s := e.Stream; s != nil && s.lane != nil && e.Fn.Stream >= 0 && s.Process == e.Process && s.Device == s.lane.key.Device {
		return s.lane
	}
	ln := w.lane(w.s.LaneKey(e))
	if ln.key.Stream != nil && !ln.key.Synchronous {
		ln.key.Stream.lane = ln
	}
	return ln
}

// attempt finds launches that repeat a failed launch.
func (w *Walk) attempt(e *Event, ok bool, h *HostCall) {
	c := e.Call
	if !ok {
		w.queue.failed[c.Thread] = attempt{e.Fn, e.Kernel, e.Stream, c.Index, int32(c.Ret)}
		return
	}
	if len(w.queue.failed) == 0 {
		return
	}
	if last, before := w.queue.failed[c.Thread]; before {
		delete(w.queue.failed, c.Thread)
		if last.fn == e.Fn && last.kernel == e.Kernel && last.stream == e.Stream {
			h.Retries, h.RetriedCode = last.call, last.code
		}
	}
}

// task describes a call's task and returns its lane.
func (w *Walk) task(e *Event, task *Task) *lane {
	c, f := e.Call, e.Fn
	ln := w.laneOf(e)
	*task = Task{skip: w.now.skip, Call: c.Index, Index: -1, Fn: f, Origin: Origin{Operator: w.s.operators.names.ids[e.Operator]}, Kind: f.Task, Process: e.Process, Thread: c.Thread, Issued: c.Start, Returned: c.End, From: c.Start, To: -1,
		Lane: ln.index, Step: -1}
	switch f.Task {
	case api.Kernel:
		task.Name, task.Shapes = cmp.Or(w.names.kernels.of(e.Kernel), "unknown kernel"), w.now.shapes
		task.Blocks = Blocks(e)
	case api.Copy:
		task.Bytes = Copied(w.Model, e)
		task.Name = copyNames[Direction(w.Model, e)]
		task.Unpinned = c.Start < w.whole && unpinned(w.Model, e)
	case api.Fill:
		task.Name = f.Task.String()
		for i := range f.Params {
			if p := &f.Params[i]; p.Role == api.Fills {
				task.Bytes, _ = p.Size.Bytes(f, c.Args)
			}
		}
	case api.GraphRun:
		task.Name, task.Object = f.Task.String(), e.Object(api.Graph)
		task.Content = w.graphs.roles.of[task.Object]
	default:
		task.Name = f.Task.String()
	}
	if f.Event >= 0 {
		if u, ok := e.Use(int(f.Event)); ok {
			task.Object = u.Object
		}
	}
	task.StreamID, task.TaskID, task.HasID = e.TaskID()
	return ln
}

// put puts a call's task on its lane.
func (w *Walk) put(e *Event) (*Task, error) {
	c, f := e.Call, e.Fn
	task := &w.queue.single
	ln := w.task(e, task)
	task.Index = w.queue.tasks - 1
	w.Lanes[ln.index].Tasks++
	from, to, measured, err := w.meter.measured(c)
	if err != nil {
		return nil, err
	}
	switch {
	case measured:
		task.From, task.To, task.Measured = from, to, true
		w.End = max(w.End, task.To)
	case f.Stream < 0:
		task.To = max(c.End, task.From) // the call itself did it
	default:
		task.From = max(task.From, ln.from)
	}
	if f.Stream >= 0 {
		ln.from, ln.last = task.From, task.Index
		if ln.first < 0 {
			ln.first = task.Index
		}
		if w.v.Depth != nil {
			w.depth.change(ln.index, 1)
		}
	}
	if f.Stream < 0 || task.Measured && ln.waits() == 0 {
		w.end(task)
		if w.v.Depth != nil && f.Stream >= 0 {
			w.depth.end(task.To, ln.index, 1)
		}
	} else {
		task = w.wait(ln, task)
	}
	return task, nil
}

// wait queues a task until its end is known.
func (w *Walk) wait(ln *lane, task *Task) *Task {
	if w.queue.pending == maxPending {
		w.giveUp()
	}
	w.queue.pending++
	if !task.skip {
		w.queue.wanted++
	}
	// Tasks that were not reported yet must not move.
	if len(w.queue.ended) == 0 && (ln.waits() == 0 || len(ln.pending) == cap(ln.pending) && ln.head >= len(ln.pending)/2) {
		ln.pending = ln.pending[:copy(ln.pending, ln.pending[ln.head:])]
		ln.head = 0
	}
	ln.pending = append(ln.pending, *task)
	return &ln.pending[len(ln.pending)-1]
}

// giveUp ends the older half of the longest queue at the end of the trace.
func (w *Walk) giveUp() {
	long := w.lanes.list[0]
	for _, ln := range w.lanes.list {
		if ln.waits() > long.waits() {
			long = ln
		}
	}
	n := (long.waits() + 1) / 2
	w.GivenUp += uint64(n)
	w.take(long, n, w.End, true)
}

// end marks a task for the Visitor, after the current call.
func (w *Walk) end(task *Task) {
	task.To = max(task.To, task.From)
	w.queue.ended = append(w.queue.ended, task)
}

// take ends the first n tasks on a lane, and measured tasks after them.
func (w *Walk) take(ln *lane, n int, at int64, open bool) {
	together, to := 0, int64(0) // tasks that end at the same moment
	for ; ln.waits() > 0; n-- {
		task := &ln.pending[ln.head]
		if n <= 0 && !task.Measured {
			break
		}
		if !task.Measured {
			task.To, task.Open = at, open
		}
		if !task.skip {
			w.queue.wanted--
		}
		w.queue.pending--
		ln.head++
		w.end(task)
		if together > 0 && task.To != to && w.v.Depth != nil {
			w.depth.end(to, ln.index, together)
			together = 0
		}
		together, to = together+1, task.To
	}
	if together > 0 && w.v.Depth != nil {
		w.depth.end(to, ln.index, together)
	}
}

// tell reports the tasks that have ended.
func (w *Walk) tell() error {
	if len(w.queue.ended) == 0 {
		return nil
	}
	for _, task := range w.queue.ended {
		if w.v.Task == nil || task.skip || w.o.OwnTimes && !w.sel.inTime(task) {
			continue
		}
		if err := w.v.Task(task); err != nil {
			return err
		}
	}
	w.queue.ended = w.queue.ended[:0]
	return nil
}

// runs reports the graph that a call runs, if it has changed.
func (w *Walk) runs(e *Event) error {
	if e.Fn.Task != api.GraphRun {
		return nil
	}
	o := e.Object(api.Graph)
	g := w.graphs.Changed(o)
	if g == nil {
		return nil
	}
	w.graphs.roles.set(o, Graph{g}.contents(func(t *Task) work { return work{w.OperatorOf(t), w.ShapesOf(t)} }))
	if w.v.Graph == nil {
		return nil
	}
	return w.v.Graph(o, Graph{g})
}

// Event returns the meaning of the current call, valid until Visitor.Call returns.
func (w *Walk) Event() *Event { return w.now.event }

// LaneOf returns the lane of the work that a call launches or puts into a graph.
func (w *Walk) LaneOf(e *Event) int { return w.laneOf(e).index }

// Find is State.Find after the current call.
func (w *Walk) Find(process uint32, addr uint64) (*Object, uint64, bool) {
	return w.s.Find(process, addr)
}

// Uses returns the objects that the current call names, valid until Visitor.Call returns.
func (w *Walk) Uses() []Use { return w.now.event.Uses }

// CurrentDevice returns the device that a thread has selected at the current call, NoDevice if it is unknown.
func (w *Walk) CurrentDevice(thread uint32) int { return w.s.CurrentDevice(w.Process(thread), thread) }

// sync determines the object of a synchronization or a poll.
func (w *Walk) sync(e *Event, h *HostCall, ok bool) {
	h.Complete = ok && e.Fn.Sync.Polls() && w.s.polled(e)
	switch e.Fn.Sync.Wait() {
	case api.SyncDevice:
		h.Waits = int32(w.s.CurrentDevice(e.Process, e.Call.Thread))
	case api.SyncStream:
		if k := w.s.WaitedLane(e); ok || w.lanes.byKey[k] != nil { // otherwise the handle may be wrong
			h.Waits = int32(w.lane(k).index)
		}
	case api.SyncEvent:
		if u, found := e.Use(int(e.Fn.Event)); found {
			h.Waits = int32(u.Object.ID)
		}
	}
}

// WaitedLane returns the lane that a synchronization or a poll waits for.
func (s *State) WaitedLane(e *Event) LaneKey {
	k := s.LaneKey(e)
	if k.Synchronous {
		k.Synchronous = false
		for _, u := range e.Uses {
			if u.Object.Kind == api.Stream {
				k.Stream, k.Device = u.Object, u.Object.Device
				break
			}
		}
	}
	return k
}

// polled reports whether a poll returned complete.
func (s *State) polled(e *Event) bool { return Polled(s.model, e.Fn, e.Call) }

// Polled reports whether a poll (api.PollStream or api.PollEvent) returned complete.
func Polled(m *api.Model, f *api.Func, c *format.Call) bool {
	if f.Pending != 0 {
		return int32(c.Ret) == 0
	}
	for i := range f.Params {
		p := &f.Params[i]
		if p.Role != api.Out {
			continue
		}
		v, ok := out(c, i)
		return ok && complete(m, p.Type, int64(int32(v)))
	}
	return false
}

// complete ends the tasks that the current call has waited for.
func (w *Walk) complete(c *format.Call) {
	for i := range w.queue.order.edges {
		if e := &w.queue.order.edges[i]; e.After.Task < 0 {
			w.completeLane(w.lanes.list[e.Before.Lane], e.Before.Task+1, c)
		}
	}
}

// completeLane ends the tasks on a lane before an index.
func (w *Walk) completeLane(ln *lane, before int, c *format.Call) {
	if ln.first < 0 || ln.first >= before {
		return
	}
	if !w.now.skip {
		w.Lanes[ln.index].Waited += c.End - c.Start
	}
	n := 0
	for n < ln.waits() && ln.pending[ln.head+n].Index < before {
		n++
	}
	w.take(ln, n, c.End, false)
	switch {
	case ln.waits() > 0:
		ln.first = ln.pending[ln.head].Index
	case ln.last >= before:
		ln.first = ln.last
	default:
		ln.first = -1
	}
}

// finish ends the remaining tasks and steps at the end of the trace.
func (w *Walk) finish() error {
	for _, ln := range w.lanes.list {
		w.take(ln, ln.waits(), w.End, true)
		if err := w.tell(); err != nil {
			return err
		}
	}
	if w.v.Depth != nil {
		if err := w.depth.until(w.sel.to, w.v.Depth); err != nil {
			return err
		}
	}
	if w.steps.Finder != nil {
		w.steps.Finish(w.End)
		return w.passSteps(math.MaxInt64)
	}
	return nil
}

// nodeTask returns the task that a call puts into a graph.
func (w *Walk) nodeTask(e *Event) *Task {
	c := e.Call
	t := &Task{Call: c.Index, Index: -1, Fn: e.Fn, Origin: Origin{Operator: w.s.operators.names.ids[e.Operator]}, Process: e.Process, Thread: c.Thread, Issued: c.Start, Returned: c.End}
	if e.Fn.Task != api.NoTask {
		w.task(e, t)
	}
	return t
}

// ThreadName returns the name of a thread for people.
func (w *Walk) ThreadName(thread uint32) string {
	var t format.Thread
	if int(thread) < len(w.threads.list) {
		t = w.threads.list[thread]
	}
	switch {
	case t.TID == 0 && t.Name == "":
		return fmt.Sprintf("thread#%d", thread)
	case t.Name == "":
		return fmt.Sprintf("thread %d", t.TID)
	}
	return fmt.Sprintf("thread %d %s", t.TID, t.Name)
}
