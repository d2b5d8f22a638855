// Package virtual simulates devices in virtual time only: no memory, no contents, no goroutines. The caller describes
// the calls of program threads and receives the time of each task under a cost model.
//
// New creates a Machine. The caller adds devices' streams, events and threads, then calls Run once, or Submit and
// Step as package sim/device does. replay/whatif calls it too. A Machine is for one goroutine and has nothing to
// close.
//
// It is an event-driven scheduler. Threads and streams share one clock, and each event depends only on earlier ones:
// the same ops, model and seed give the same times. A stream runs its tasks in order. Tasks on different streams run
// in parallel within the limits of cores, copy engines and streams; a blocked task waits in line by priority and
// arrival. Ops are pulled at their time, so only waiting tasks take memory. The package never sleeps.
package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/sim/model"
)

// Kind is an Op's kind.
type Kind uint8

const (
	// Call takes host time only.
	Call Kind = iota

	// Tasks on Stream that take device time.

	Kernel   // holds cores
	Copy     // holds a copy engine; also fills
	HostFunc // holds nothing
	RunGraph // runs graph Object; the stream continues at its end

	// Tasks that order streams and take no time.

	RecordEvent // records event Object on Stream
	WaitEvent   // Stream waits for the last earlier record of event Object, if any
	SetFlag     // sets flag Object (a notify, an external event)
	ClearFlag   // clears it
	WaitFlag    // waits until it is set
	TakeFlag    // waits until it is set, and clears it

	// Calls in which the thread waits.

	SyncStream // for all tasks on Stream
	SyncEvent  // for the last record of event Object
	SyncDevice // for all tasks on device Object
	CopyNow    // blocking copy, in host time
	Await      // for Count ops of thread Object
)

var kindNames = [...]string{"call", "kernel", "copy", "host function", "graph", "record of an event", "wait for an event", "set of a flag",
	"clear of a flag", "wait for a flag", "wait for a flag", "synchronization of a stream", "synchronization of an event",
	"synchronization of a device", "blocking copy", "wait for a thread"}

func (k Kind) String() string { return kindNames[k] }

// Auto lets the model choose a time.
const Auto = -1

// Op is one call of a thread. Times are in nanoseconds.
type Op struct {
	Kind   Kind
	Copy   model.CopyKind // for Copy and CopyNow
	Blocks uint32         // for Kernel; 0 counts as 1
	Stream int32          // number from AddStream
	Object int32          // number from AddEvent, AddFlag, AddGraph or AddThread, or device number
	Kernel int32          // number from Machine.Kernel, for the model's rules; 0 for no name
	Bytes  uint64         // bytes copied or touched, for the model
	Count  uint64         // for Await
	// Gap is the host time between the previous op and this one.
	Gap int64
	// Host is the host time of the call before any wait; Auto for the model's.
	Host int64
	// Device is the device time of the task; Auto for the model's. The model's scale applies to it.
	Device int64
	// Between means that Device is the time between two events around the task. On an idle stream it starts with the
	// call, and it includes waiting for cores or an engine.
	Between bool
	// Tag is a caller's value that is returned in Result.
	Tag uint64
}

// Source supplies a thread's ops in order.
type Source interface {
	// Next stores the next op, or returns false at the end. The op is zero before the call. Next may call the
	// Machine's Add methods.
	Next(op *Op) bool
}

// Result has the times for a task or op, in nanoseconds since the start.
type Result struct {
	Tag    uint64
	Kind   Kind
	Stream int32 // -1 for an op of a host thread
	// Submitted is the time of the submission; for a graph task, the start of the graph.
	Submitted  int64
	Start, End int64
}

// Options configure a Machine.
type Options struct {
	// Model is the cost model; nil for the default preset.
	Model *model.Model
	// Devices is the device count; 0 for 1.
	Devices int
	// Seed initializes the model's jitter.
	Seed uint64
	// Depth limits a stream's unfinished tasks; a thread waits for room. 0 for 65536.
	Depth int
	// Task is called for each task when it ends; may be nil.
	Task func(Result)
	// Call is called for each op of a thread when it returns; may be nil.
	Call func(Result)
	// Tasks executes tasks of Submit; nil without such tasks.
	Tasks Tasks
}

// Summary is the result of Run.
type Summary struct {
	// Host is the end of the last thread, Device the end of the last task, in nanoseconds.
	Host, Device int64
	Tasks, Calls uint64
	// Busy is the total task time on each stream.
	Busy []int64
}

// End is when the run ended.
func (s *Summary) End() int64 { return max(s.Host, s.Device) }

// Machine is a host with devices.
type Machine struct {
	o       Options
	model   *model.Model
	rng     *rand.Rand
	now     int64
	heap    heap
	seq     uint64
	ready   []*stream // streams to continue now
	devices []device
	streams []*stream
	threads []*thread
	marks   []mark
	free    []int32 // free mark numbers
	events  []int32 // mark of the last record; -1 for none
	flags   []flag
	graphs  []*graph
	unused  []int32 // free stream numbers
	kernels []kernel
	names   map[string]int32
	sum     Summary
}

type state uint8

const (
	idle    state = iota
	running       // the first task runs
	delayed       // the first task takes no time and is not due
	starved       // the first task waits for cores, an engine or a stream
	blocked       // the first task waits for an event, a flag or a graph
	queued        // listed to continue
)

type stream struct {
	id       int32
	dev      *device
	priority int32
	state    state
	items    []item
	head     int
	start    int64  // start of the running task
	want     int64  // earliest start of the starved task
	freed    int64  // end of the latest task
	last     int64  // end of the latest task with a duration
	total    uint64 // submitted tasks
	done     uint64
	waiters  []target
	lane     *graph
}

// item is a task on a stream.
type item struct {
	submitted int64
	duration  int64
	tag       uint64
	object    int32 // mark, flag or graph
	need      need
	kind      Kind
	copy      model.CopyKind
	asked     int64 // start of the call, for a duration between two events; else -1
	foreign   bool  // task of Submit
	direct    bool  // known to the device at once
}

func (k Kind) takesTime() bool { return k == Kernel || k == Copy || k == HostFunc }

// waits reports whether a call of this kind waits for a device. Its host time follows the wait.
func (k Kind) waits() bool { return k >= SyncStream && k <= SyncDevice }

// target is a thread that waits for a number of tasks or ops.
type target struct {
	count  uint64
	thread *thread
}

type thread struct {
	id       int32
	source   Source
	op       Op
	have     bool // op is valid
	blocked  bool // waits
	retry    bool // waits for room on a stream and repeats the op
	left     int  // things to wait for
	now      int64
	begin    int64
	done     uint64
	waiters  []target
	finished bool
}

type device struct {
	Shares
	fed     bool // the line was checked
	streams []*stream
}

type mark struct {
	done    bool
	refs    int32
	streams []*stream
	threads []*thread
}

type flag struct {
	set     bool
	streams []*stream
}

type graph struct {
	lanes   []*stream
	first   int32 // first flag of its events
	flags   int32
	left    int
	began   int64 // latest run
	runner  *stream
	waiters []*stream
}

type kernel struct {
	rule   *model.Kernel
	blocks uint32 // for need
	need   need
}

// New creates a machine.
func New(o *Options) (*Machine, error) {
	m := &Machine{names: map[string]int32{}}
	if o != nil {
		m.o = *o
	}
	m.model = m.o.Model
	if m.model == nil {
		var err error
		if m.model, err = model.Load(""); err != nil {
			return nil, err
		}
	}
	if m.o.Depth <= 0 {
		m.o.Depth = 1 << 16
	}
	m.rng = rand.New(rand.NewPCG(m.o.Seed, 0))
	m.devices = make([]device, max(1, m.o.Devices))
	for i := range m.devices {
		m.devices[i].init(m.model)
	}
	m.Kernel("")
	return m, nil
}

// AddStream adds a stream and returns its number. The lowest priority number goes first.
func (m *Machine) AddStream(dev int, priority int) int32 {
	s := m.newStream(&m.devices[dev], int32(priority))
	s.dev.streams = append(s.dev.streams, s)
	return s.id
}

func (m *Machine) newStream(d *device, priority int32) *stream {
	s := &stream{id: int32(len(m.streams)), dev: d, priority: priority}
	if n := len(m.unused); n > 0 {
		s.id, m.unused = m.unused[n-1], m.unused[:n-1]
		m.streams[s.id], m.sum.Busy[s.id] = s, 0
		return s
	}
	m.streams = append(m.streams, s)
	m.sum.Busy = append(m.sum.Busy, 0)
	return s
}

// AddEvent adds an event and returns its number.
func (m *Machine) AddEvent() int32 {
	m.events = append(m.events, -1)
	return int32(len(m.events) - 1)
}

// AddFlag adds a cleared flag and returns its number.
func (m *Machine) AddFlag() int32 {
	m.flags = append(m.flags, flag{})
	return int32(len(m.flags) - 1)
}

// AddThread adds a host thread that starts at time 0, or now during a run, and returns its number.
func (m *Machine) AddThread(source Source) int32 {
	t := &thread{id: int32(len(m.threads)), source: source, now: m.now}
	m.threads = append(m.threads, t)
	m.push(t.now, ^t.id)
	return t.id
}

// Kernel returns the number of a kernel name.
func (m *Machine) Kernel(name string) int32 {
	n, ok := m.names[name]
	if !ok {
		n = int32(len(m.kernels))
		m.names[name] = n
		m.kernels = append(m.kernels, kernel{rule: m.model.Rule(name)})
	}
	return n
}

// AddGraph adds a graph: lanes of tasks that run in parallel. Tasks may have any kind except RunGraph. Stream, Gap
// and Host of their ops are ignored, and event numbers are local to the graph.
func (m *Machine) AddGraph(dev int, lanes [][]Op) (int32, error) {
	g := &graph{first: int32(len(m.flags))}
	for n, ops := range lanes {
		s := m.newStream(&m.devices[dev], 0)
		s.lane = g
		for i := range ops {
			op := ops[i]
			switch op.Kind {
			case RecordEvent, WaitEvent:
				if op.Object < 0 || op.Object > 1<<20 {
					return 0, fmt.Errorf("graph: lane %d, task %d: event %d", n, i, op.Object)
				}
				g.flags = max(g.flags, op.Object+1)
				op.Object += g.first
				op.Kind = map[Kind]Kind{RecordEvent: SetFlag, WaitEvent: WaitFlag}[op.Kind]
			case Kernel, Copy, HostFunc, SetFlag, ClearFlag, WaitFlag, TakeFlag:
			default:
				return 0, fmt.Errorf("graph: lane %d, task %d: a %s can't be a task of a graph", n, i, op.Kind)
			}
			m.fill(s.add(), &op)
		}
		s.head = len(s.items)
		g.lanes = append(g.lanes, s)
	}
	m.flags = append(m.flags, make([]flag, g.flags)...)
	m.graphs = append(m.graphs, g)
	return int32(len(m.graphs) - 1), nil
}

// add appends an item to a stream.
func (s *stream) add() *item {
	n := len(s.items)
	s.items = slices.Grow(s.items, 1)[:n+1]
	return &s.items[n]
}

// fill initializes an item from an op, in place, since copying a partly written item is slow.
func (m *Machine) fill(it *item, op *Op) {
	*it = item{submitted: m.now, duration: op.Device, tag: op.Tag, object: op.Object, kind: op.Kind, copy: op.Copy, asked: -1}
	switch op.Kind {
	case Kernel:
		k := &m.kernels[op.Kernel]
		if blocks := max(op.Blocks, 1); blocks != k.blocks {
			d := m.model.Demand(k.rule, blocks)
			k.blocks, k.need = blocks, need{uint16(d.Cube), uint16(d.Vector)}
		}
		it.need = k.need
		if op.Device < 0 {
			it.duration = m.jitter(m.model.KernelTime(k.rule, k.blocks, op.Bytes))
		} else {
			it.duration = k.rule.Scaled(op.Device)
		}
	case Copy:
		if op.Device < 0 {
			it.duration = m.jitter(m.model.CopyTime(op.Copy, op.Bytes))
		}
	case HostFunc:
		if op.Device < 0 {
			it.duration = m.jitter(m.model.Host.Function)
		}
	default:
		it.duration = 0
	}
}

func (m *Machine) jitter(d int64) int64 {
	if m.model.Jitter == 0 {
		return d
	}
	return int64(float64(d) * (1 + m.model.Jitter*(2*m.rng.Float64()-1)))
}

// Run runs until all threads and tasks have ended. It fails if some never can.
func (m *Machine) Run() (*Summary, error) {
	for m.Step(math.MaxInt64) {
	}
	return &m.sum, m.stuck()
}

// Step runs the next event unless it is later than until, and reports whether there was one.
func (m *Machine) Step(until int64) bool {
	if n := len(m.ready); n > 0 {
		s := m.ready[n-1]
		m.ready = m.ready[:n-1]
		s.state = queued // tasks added to itself need no second turn
		m.advance(s)
		return true
	}
	if len(m.heap) == 0 || m.heap[0].at > until {
		return false
	}
	e := m.heap[0]
	m.now = max(m.now, e.at)
	// The next entry of the same stream often replaces this one.
	m.heap[0].at = hole
	if e.id < 0 {
		m.host(m.threads[^e.id])
		m.close()
		return true
	}
	s := m.streams[e.id]
	if s.state == running {
		it := &s.items[s.head]
		if it.kind.shared() {
			s.dev.give(classOf(it.kind, it.copy, it.need), it.need)
		}
		s.last = m.now
		m.sum.Busy[s.id] += it.duration
		m.finish(s, it, s.start)
	}
	s.state = queued // tasks added to itself need no second turn
	s.dev.fed = false
	m.advance(s)
	if s.dev.hungry != 0 && !s.dev.fed {
		m.feed(s.dev)
	}
	m.close()
	return true
}

// hole is the first entry's time while it is being processed.
const hole = -1

// push schedules a stream, or a thread by its inverted number.
func (m *Machine) push(at int64, id int32) {
	m.seq++
	e := entry{at: at, seq: m.seq, id: id}
	if len(m.heap) > 0 && m.heap[0].at == hole {
		m.heap.down(0, e)
		return
	}
	m.heap.push(e)
}

// close removes the first entry unless it was replaced.
func (m *Machine) close() {
	if len(m.heap) > 0 && m.heap[0].at == hole {
		m.heap.pop()
	}
}

// soonest returns the first entry's time; a later time than all for none.
func (m *Machine) soonest() int64 {
	at := int64(math.MaxInt64)
	if len(m.heap) > 0 && m.heap[0].at != hole {
		return m.heap[0].at
	}
	for i := 1; i < min(5, len(m.heap)); i++ {
		at = min(at, m.heap[i].at)
	}
	return at
}

// wake lets a waiting stream continue now.
func (m *Machine) wake(s *stream) {
	if s.state == blocked {
		s.state = queued
		m.ready = append(m.ready, s)
	}
}

// advance runs a stream's tasks as far as possible now.
func (m *Machine) advance(s *stream) {
	for s.head < len(s.items) {
		it := &s.items[s.head]
		known := it.submitted // time at which the device knows the task
		if s.lane == nil && !it.direct {
			known += m.model.Launch.Latency
		}
		if it.foreign {
			if !m.foreign(s, it, known) {
				return
			}
			continue
		}
		if it.kind.takesTime() {
			at := max(m.now, known)
			if s.last > 0 {
				at = max(at, s.last+m.model.Launch.Overhead)
			}
			// A task waits in line from its earliest start. A device with a single stream never has to wait.
			if at > m.now && (len(s.dev.streams) > 1 || s.lane != nil) && it.kind.shared() {
				s.state = delayed
				m.push(at, s.id)
				return
			}
			m.take(s, it, at)
			return
		}
		if known > m.now {
			s.state = delayed
			m.push(known, s.id)
			return
		}
		if !m.step(s, it) {
			s.state = blocked
			return
		}
		start := m.now
		if it.kind == RunGraph {
			start = m.graphs[it.object].began
			m.sum.Busy[s.id] += m.now - start
		}
		m.finish(s, it, start)
	}
	s.state = idle
	if g := s.lane; g != nil {
		m.laneDone(g)
	}
}

// step runs a task without duration, and reports whether it is done.
func (m *Machine) step(s *stream, it *item) bool {
	switch it.kind {
	case RecordEvent:
		k := &m.marks[it.object]
		k.done = true
		for _, w := range k.streams {
			m.wake(w)
		}
		for _, t := range k.threads {
			m.resume(t)
		}
		k.streams, k.threads = k.streams[:0], k.threads[:0]
		m.unref(it.object)
	case WaitEvent:
		if it.object < 0 {
			return true
		}
		if k := &m.marks[it.object]; !k.done {
			k.streams = append(k.streams, s)
			return false
		}
		m.unref(it.object)
	case SetFlag:
		f := &m.flags[it.object]
		f.set = true
		// The last stream in the list continues first.
		for i := len(f.streams) - 1; i >= 0; i-- {
			m.wake(f.streams[i])
		}
		f.streams = f.streams[:0]
	case ClearFlag:
		m.flags[it.object].set = false
	case WaitFlag, TakeFlag:
		f := &m.flags[it.object]
		if !f.set {
			f.streams = append(f.streams, s)
			return false
		}
		f.set = it.kind == WaitFlag
	case RunGraph:
		g := m.graphs[it.object]
		switch g.runner {
		case s: // all lanes have ended
			g.runner = nil
			if len(g.waiters) > 0 {
				m.wake(g.waiters[0])
				g.waiters = g.waiters[1:]
			}
			return true
		case nil:
			return !m.runGraph(g, s)
		}
		g.waiters = append(g.waiters, s)
		return false
	}
	return true
}

// runGraph starts a graph's lanes, and reports whether there are any.
func (m *Machine) runGraph(g *graph, s *stream) bool {
	g.began = m.now
	if len(g.lanes) == 0 {
		return false
	}
	for i := range g.flags {
		m.flags[g.first+i].set = false
	}
	g.runner, g.left = s, len(g.lanes)
	for _, l := range slices.Backward(g.lanes) {
		l.head, l.last, l.state = 0, 0, queued
		for i := range l.items {
			l.items[i].submitted = m.now
		}
		m.ready = append(m.ready, l)
	}
	return true
}

func (m *Machine) laneDone(g *graph) {
	if g.left--; g.left == 0 {
		m.wake(g.runner)
	}
}

// finish ends a stream's first task.
func (m *Machine) finish(s *stream, it *item, start int64) {
	if m.o.Task != nil {
		m.o.Task(Result{Tag: it.tag, Kind: it.kind, Stream: s.id, Submitted: it.submitted, Start: start, End: m.now})
	}
	if it.foreign {
		m.o.Tasks.End(s.id)
	}
	m.sum.Tasks++
	m.sum.Device = m.now
	s.head++
	s.freed = m.now
	if s.lane != nil {
		return
	}
	s.done++
	if s.head == len(s.items) {
		s.items, s.head = s.items[:0], 0
	} else if s.head >= 1024 && 2*s.head > len(s.items) {
		s.items, s.head = append(s.items[:0], s.items[s.head:]...), 0
	}
	if len(s.waiters) > 0 {
		s.waiters = m.reached(s.waiters, s.done)
	}
}

// reached resumes the threads whose target is done, and returns the others.
func (m *Machine) reached(list []target, done uint64) []target {
	kept := list[:0]
	for _, w := range list {
		if w.count > done {
			kept = append(kept, w)
		} else if w.thread.left--; w.thread.left == 0 {
			m.resume(w.thread)
		}
	}
	return kept
}

// take starts a stream's first task if its resources are free, else puts the stream in line.
func (m *Machine) take(s *stream, it *item, at int64) {
	s.want = at
	c := classOf(it.kind, it.copy, it.need)
	if !it.kind.shared() || s.dev.take(c, it.need) {
		m.begin(s, it, at)
		return
	}
	s.state = starved
	s.dev.wait(s.id, s.priority, c, it.need)
	m.feed(s.dev) // tasks with other needs may start
}

func (m *Machine) begin(s *stream, it *item, at int64) {
	s.state, s.start = running, at
	if it.foreign {
		it.duration = m.o.Tasks.Begin(s.id)
	} else if it.asked >= 0 {
		it.duration = max(0, it.duration-(at-max(s.freed, it.asked+m.model.Launch.Latency)))
	}
	m.push(at+it.duration, s.id)
}

// feed starts waiting tasks.
func (m *Machine) feed(d *device) {
	d.fed = true
	passed := uint32(0)
	for {
		id, ok := d.next(&passed)
		if !ok {
			return
		}
		s := m.streams[id]
		m.begin(s, &s.items[s.head], max(m.now, s.want))
	}
}

func (m *Machine) unref(n int32) {
	if k := &m.marks[n]; k.refs > 1 {
		k.refs--
		return
	}
	m.marks[n].done, m.marks[n].refs = false, 0
	m.free = append(m.free, n)
}

// newMark creates a mark, with references from an event's last record and a task.
func (m *Machine) newMark(event int32) int32 {
	if old := m.events[event]; old >= 0 {
		m.unref(old)
	}
	var n int32
	if len(m.free) > 0 {
		n = m.free[len(m.free)-1]
		m.free = m.free[:len(m.free)-1]
	} else {
		n = int32(len(m.marks))
		m.marks = append(m.marks, mark{})
	}
	m.marks[n].refs = 2
	m.events[event] = n
	return n
}

// resume lets a waiting thread continue now.
func (m *Machine) resume(t *thread) {
	m.push(m.now, ^t.id)
}

// host runs a thread until an earlier event of another thread or stream.
func (m *Machine) host(t *thread) {
	if t.blocked {
		t.blocked = false
		if !t.retry {
			m.returned(t, m.now+t.op.Host)
		}
		t.retry = false
	}
	for {
		if !t.have {
			t.op = Op{}
			if !t.source.Next(&t.op) {
				t.finished = true
				m.sum.Host = max(m.sum.Host, t.now)
				return
			}
			t.have = true
			t.begin = t.now + t.op.Gap
			if t.op.Host < 0 {
				t.op.Host = m.hostTime(&t.op)
			}
		}
		at, after := max(t.begin+t.op.Host, m.now), int64(0)
		if t.op.Kind.waits() {
			at, after = max(t.begin, m.now), t.op.Host
		}
		if len(m.ready) > 0 || m.soonest() < at {
			m.push(at, ^t.id)
			return
		}
		m.close()
		m.now = at
		if !m.do(t) {
			t.blocked = true
			return
		}
		m.returned(t, m.now+after)
	}
}

// returned ends the op of a thread.
func (m *Machine) returned(t *thread, at int64) {
	if m.o.Call != nil {
		m.o.Call(Result{Tag: t.op.Tag, Kind: t.op.Kind, Stream: -1, Submitted: t.begin, Start: t.begin, End: at})
	}
	m.sum.Calls++
	t.now, t.have = at, false
	t.done++
	if len(t.waiters) > 0 {
		t.waiters = m.reached(t.waiters, t.done)
	}
}

func (m *Machine) hostTime(op *Op) int64 {
	switch {
	case op.Kind == CopyNow:
		return m.model.Host.Sync + m.model.CopyTime(op.Copy, op.Bytes)
	case op.Kind.waits():
		return m.model.Host.Sync
	case op.Kind == Call, op.Kind == Await:
		return m.model.Host.Call
	}
	return m.model.Host.Submit
}

// do runs the op of a thread now, and reports whether the thread continues.
func (m *Machine) do(t *thread) bool {
	op := &t.op
	switch op.Kind {
	case Call, CopyNow:
		return true
	case SyncStream:
		s := m.streams[op.Stream]
		return m.await(t, &s.waiters, s.done, s.total)
	case SyncDevice:
		t.left = 0
		for _, s := range m.devices[op.Object].streams {
			if s.done < s.total {
				t.left++
				s.waiters = append(s.waiters, target{s.total, t})
			}
		}
		return t.left == 0
	case SyncEvent:
		n := m.events[op.Object]
		if n < 0 || m.marks[n].done {
			return true
		}
		m.marks[n].threads = append(m.marks[n].threads, t)
		return false
	case Await:
		o := m.threads[op.Object]
		return m.await(t, &o.waiters, o.done, op.Count)
	}
	s := m.streams[op.Stream]
	if s.total-s.done >= uint64(m.o.Depth) {
		t.retry = true
		return m.await(t, &s.waiters, s.done, s.total-uint64(m.o.Depth)+1)
	}
	it := s.add()
	m.fill(it, op)
	if op.Between {
		it.asked = t.begin
	}
	switch op.Kind {
	case RecordEvent:
		it.object = m.newMark(op.Object)
	case WaitEvent:
		if it.object = m.events[op.Object]; it.object >= 0 {
			m.marks[it.object].refs++
		}
	}
	s.total++
	if s.state == idle {
		m.advance(s)
	}
	return true
}

// await waits until a number of things are done.
func (m *Machine) await(t *thread, list *[]target, done, count uint64) bool {
	if done >= count {
		return true
	}
	*list = append(*list, target{count, t})
	t.left = 1
	return false
}

// stuck returns the error for tasks or threads that can never end.
func (m *Machine) stuck() error {
	var who []string
	for _, t := range m.threads {
		if !t.finished {
			who = append(who, fmt.Sprintf("thread %d in its op %d, a %s", t.id, t.done, t.op.Kind))
		}
	}
	for _, s := range m.streams {
		if s.state != idle {
			it := &s.items[s.head]
			who = append(who, fmt.Sprintf("stream %d at its task %d, a %s", s.id, s.done, it.kind))
		}
	}
	if len(who) == 0 {
		return nil
	}
	more := ""
	if n := len(who); n > 4 {
		who, more = who[:4], fmt.Sprintf(" and %d more", n-4)
	}
	return fmt.Errorf("deadlock: %s%s", strings.Join(who, "; "), more)
}
