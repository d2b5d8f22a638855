// Package virtual simulates devices in virtual time and nothing else: no memory, no contents, no goroutines. Who uses it
// describes what the threads of a program do, call by call, and learns when each task would have run under a cost model.
//
//	m := virtual.New(&virtual.Options{Model: model, Task: func(r virtual.Result) { … }})
//	s := m.AddStream(0, 0)
//	m.AddThread(source)         // hands out the thread's Ops, one at a time
//	summary, err := m.Run()
//
// It is an event-driven scheduler. Threads and streams share one clock; what happens at a moment depends only on what
// happened before, so the same Ops under the same model and seed give the same times. A stream runs its tasks one after the
// other; tasks of different streams run at once as far as the model's cores, copy engines and streams allow. What a task finds
// taken, it waits for in the order of the streams' priorities and of their arrival, and nobody who wants the same overtakes it.
//
// A Machine is for one goroutine. Ops are pulled when their time comes: memory holds only the tasks that wait.
package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/sim/model"
)

// Kind is what an Op does.
type Kind uint8

const (
	// Call takes host time and does nothing on a device.
	Call Kind = iota

	// Tasks of Stream, which take device time.

	Kernel   // holds cores
	Copy     // holds a copy engine; fills too
	HostFunc // holds nothing
	RunGraph // runs graph Object; the stream goes on when it has ended

	// Tasks of Stream that order streams and take no time.

	RecordEvent // event Object stands for the work of Stream so far
	WaitEvent   // Stream waits for the last record of event Object that was made before; if there is none, for nothing
	SetFlag     // sets flag Object (a notify, an external event)
	ClearFlag   // clears it
	WaitFlag    // waits until it is set
	TakeFlag    // waits until it is set, and clears it

	// Calls for which the thread waits.

	SyncStream // until all tasks of Stream are done
	SyncEvent  // until the last record of event Object is done
	SyncDevice // until all tasks of all streams of device Object are done
	CopyNow    // a blocking copy, on the host's time
	Await      // until thread Object has done Count ops
)

var kindNames = [...]string{"call", "kernel", "copy", "host function", "graph", "record of an event", "wait for an event", "set of a flag",
	"clear of a flag", "wait for a flag", "wait for a flag", "synchronization of a stream", "synchronization of an event",
	"synchronization of a device", "blocking copy", "wait for a thread"}

func (k Kind) String() string { return kindNames[k] }

// Auto leaves a time to the model.
const Auto = -1

// Op is one call of a thread. Times are in nanoseconds.
type Op struct {
	Kind   Kind
	Copy   model.CopyKind // of Copy and CopyNow
	Blocks uint32         // of Kernel; 0 counts as 1
	Stream int32          // number from AddStream
	Object int32          // number from AddEvent, AddFlag, AddGraph or AddThread, or of a device
	Kernel int32          // number from Machine.Kernel, for the model's rules; 0 for a kernel without name
	Bytes  uint64         // that a copy moves or a kernel touches, for the model
	Count  uint64         // of Await
	// Gap is the host time between the end of the thread's previous op and the begin of this one.
	Gap int64
	// Host is the host time that the call itself takes, without waiting, which comes before it; Auto for the model's.
	Host int64
	// Device is the device time of the task; Auto for the model's. The scale of the model's rule applies to it as well.
	Device int64
	// Between says that Device is the time between two events, one before the task and one after it: on an idle stream it begins
	// with the call, and it includes the wait for cores or an engine.
	Between bool
	// Tag is the caller's own; it comes back in the Result.
	Tag uint64
}

// Source hands out the ops of a thread in their order.
type Source interface {
	// Next stores the next op, and returns false where there is none. The op is zero before the call. It may call the Add
	// methods of the Machine.
	Next(op *Op) bool
}

// Ops is a Source that holds all ops.
type Ops []Op

// Next hands out the first op.
func (o *Ops) Next(op *Op) bool {
	if len(*o) == 0 {
		return false
	}
	*op, *o = (*o)[0], (*o)[1:]
	return true
}

// Result tells when something was. Times are in nanoseconds since the begin of the run.
type Result struct {
	Tag    uint64
	Kind   Kind
	Stream int32 // of a task, -1 for an op of a host thread
	// Submitted is when the call put the task on the stream; for a task of a graph, when the graph began.
	Submitted  int64
	Start, End int64
}

// Options say what is simulated.
type Options struct {
	// Model is the cost model; nil for the default preset.
	Model *model.Model
	// Devices is the number of devices; 0 stands for 1.
	Devices int
	// Seed begins the chance of the model's jitter.
	Seed uint64
	// Depth is the number of unfinished tasks of a stream above which a thread waits for room; 0 stands for 65536.
	Depth int
	// Task is called for each task of a stream, in the order in which they end; nil for nobody.
	Task func(Result)
	// Call is called for each op of a thread, when it returns; nil for nobody.
	Call func(Result)
	// Tasks does the work of tasks that were put on streams by Submit; nil where there are none.
	Tasks Tasks
}

// Summary is what a run came to.
type Summary struct {
	// Host is when the last thread ended, Device when the last task did, in nanoseconds.
	Host, Device int64
	Tasks, Calls uint64
	// Busy is the sum of the durations of the tasks of each stream.
	Busy []int64
}

// End is when everything was done.
func (s *Summary) End() int64 { return max(s.Host, s.Device) }

// Machine is a host with its devices.
type Machine struct {
	o       Options
	model   *model.Model
	rng     *rand.Rand
	now     int64
	heap    heap
	seq     uint64
	ready   []*stream // streams to go on at this moment
	devices []device
	streams []*stream
	threads []*thread
	marks   []mark
	free    []int32 // numbers of marks
	events  []int32 // mark of the last record, -1 for none
	flags   []flag
	graphs  []*graph
	unused  []int32 // numbers of streams that were removed
	kernels []kernel
	names   map[string]int32
	sum     Summary
}

type state uint8

const (
	idle    state = iota
	running       // the first task runs
	delayed       // the first task takes no time and its moment has not come
	starved       // the first task finds cores, engine or stream taken
	blocked       // the first task waits for an event, a flag or a graph
	queued        // in the list of those that go on
)

type stream struct {
	id       int32
	dev      *device
	priority int32
	state    state
	items    []item
	head     int
	start    int64  // of the task that runs
	want     int64  // when the task that is starved could begin
	freed    int64  // when the latest task ended, of any kind
	last     int64  // when the last task that took time ended
	total    uint64 // submitted
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
	asked     int64 // when the call began, of a task whose duration is the time between two events, else -1
	foreign   bool  // put on the stream by Submit
	direct    bool  // known to the device at once
}

func (k Kind) takesTime() bool { return k == Kernel || k == Copy || k == HostFunc }

// waits reports whether a call of the kind waits for a device. It takes its host time after that.
func (k Kind) waits() bool { return k >= SyncStream && k <= SyncDevice }

// target is a thread that waits until so many tasks, or ops, are done.
type target struct {
	count  uint64
	thread *thread
}

type thread struct {
	id       int32
	source   Source
	op       Op
	have     bool // op is the one to do
	blocked  bool // it waits
	retry    bool // for room on a stream: then it is done again
	left     int  // things that it waits for
	now      int64
	begin    int64
	done     uint64
	waiters  []target
	finished bool
}

type device struct {
	Shares
	fed     bool // those in line were looked at
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
	first   int32 // of the flags that stand for its events
	flags   int32
	left    int
	began   int64 // the latest run
	runner  *stream
	waiters []*stream
}

type kernel struct {
	rule   *model.Kernel
	blocks uint32 // that need is for
	need   need
}

// New makes a machine.
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

// AddStream makes a stream of a device and returns its number. The lowest priority number goes first.
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

// AddEvent makes an event and returns its number.
func (m *Machine) AddEvent() int32 {
	m.events = append(m.events, -1)
	return int32(len(m.events) - 1)
}

// AddFlag makes a flag, not set, and returns its number.
func (m *Machine) AddFlag() int32 {
	m.flags = append(m.flags, flag{})
	return int32(len(m.flags) - 1)
}

// AddThread makes a host thread that begins at time 0, or now if the run has begun, and returns its number.
func (m *Machine) AddThread(source Source) int32 {
	t := &thread{id: int32(len(m.threads)), source: source, now: m.now}
	m.threads = append(m.threads, t)
	m.push(t.now, ^t.id)
	return t.id
}

// Kernel returns the number of a kernel's name.
func (m *Machine) Kernel(name string) int32 {
	n, ok := m.names[name]
	if !ok {
		n = int32(len(m.kernels))
		m.names[name] = n
		m.kernels = append(m.kernels, kernel{rule: m.model.Rule(name)})
	}
	return n
}

// AddGraph makes a graph of a device: lanes of tasks that run beside each other. Its lanes may hold tasks of all kinds but
// RunGraph; Stream, Gap and Host of their ops don't count, and events are the graph's own, with numbers from 0.
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
				return 0, fmt.Errorf("graph: lane %d, task %d: a %s is no task of a graph", n, i, op.Kind)
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

// add makes room for a task behind the others of a stream.
func (s *stream) add() *item {
	n := len(s.items)
	s.items = slices.Grow(s.items, 1)[:n+1]
	return &s.items[n]
}

// fill makes a task of an op, its duration decided. It does so where the task stays: what is written in pieces is slow to copy.
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

// Run runs until all threads have ended and all tasks are done. It fails where some never can be.
func (m *Machine) Run() (*Summary, error) {
	for m.Step(math.MaxInt64) {
	}
	return &m.sum, m.stuck()
}

// Step does what is next, if its time is not behind a moment, and tells whether there was something.
func (m *Machine) Step(until int64) bool {
	if n := len(m.ready); n > 0 {
		s := m.ready[n-1]
		m.ready = m.ready[:n-1]
		s.state = queued // it goes on: what a task puts behind itself needs no second turn
		m.advance(s)
		return true
	}
	if len(m.heap) == 0 || m.heap[0].at > until {
		return false
	}
	e := m.heap[0]
	m.now = max(m.now, e.at)
	// Who goes on often comes back at once: its next entry takes the place of this one.
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
	s.state = queued // it goes on: what a task puts behind itself needs no second turn
	s.dev.fed = false
	m.advance(s)
	if s.dev.hungry != 0 && !s.dev.fed {
		m.feed(s.dev)
	}
	m.close()
	return true
}

// hole is the time of the entry in front while what it stands for is done.
const hole = -1

// push lets a stream, or a thread (its number inverted), go on at a time.
func (m *Machine) push(at int64, id int32) {
	m.seq++
	e := entry{at: at, seq: m.seq, id: id}
	if len(m.heap) > 0 && m.heap[0].at == hole {
		m.heap.down(0, e)
		return
	}
	m.heap.push(e)
}

// close takes out the entry in front if nothing has taken its place.
func (m *Machine) close() {
	if len(m.heap) > 0 && m.heap[0].at == hole {
		m.heap.pop()
	}
}

// soonest is when somebody is to go on, after all for none.
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

// wake lets a stream that waits go on at this moment.
func (m *Machine) wake(s *stream) {
	if s.state == blocked {
		s.state = queued
		m.ready = append(m.ready, s)
	}
}

// advance runs the tasks of a stream as far as they get at this moment.
func (m *Machine) advance(s *stream) {
	for s.head < len(s.items) {
		it := &s.items[s.head]
		known := it.submitted // when the device knows of it
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
			// It stands in line from when it could begin; a stream of its own finds nothing taken.
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

// step does a task that takes no time, and tells whether it is done.
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
		// The last of the list goes on first.
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

// runGraph begins the lanes of a graph, and tells whether there are any.
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

// finish ends the first task of a stream.
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

// reached lets the threads go on whose number has come, and returns the others.
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

// take begins the first task of a stream if it finds what it needs, and puts the stream in line else.
func (m *Machine) take(s *stream, it *item, at int64) {
	s.want = at
	c := classOf(it.kind, it.copy, it.need)
	if !it.kind.shared() || s.dev.take(c, it.need) {
		m.begin(s, it, at)
		return
	}
	s.state = starved
	s.dev.wait(s.id, s.priority, c, it.need)
	m.feed(s.dev) // others may wait for something else
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

// feed begins the tasks whose turn has come.
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

// newMark makes a mark for the record that an event had last, and a task.
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

// resume lets a thread that waits go on at this moment.
func (m *Machine) resume(t *thread) {
	m.push(m.now, ^t.id)
}

// host runs a thread until another one, or a stream, is to do something before it.
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

// do does the op of a thread at this moment, and tells whether the thread goes on.
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

// await waits until so many of something are done.
func (m *Machine) await(t *thread, list *[]target, done, count uint64) bool {
	if done >= count {
		return true
	}
	*list = append(*list, target{count, t})
	t.left = 1
	return false
}

// stuck is the error of what can never end.
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
	return fmt.Errorf("these wait for what never comes: %s%s", strings.Join(who, "; "), more)
}
