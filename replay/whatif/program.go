package whatif

import (
	"fmt"
	"math"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/graph"
	"github.com/acltrace/acltrace/timeline/order"
)

// A program is a trace as the scheduler of virtual time plays it: the ops of each thread. One walk through the trace makes it, and the
// durations of tasks are decided afterwards. Lists with an element for each call or task hold no pointers. Streams have the numbers of their
// lanes.
type program struct {
	walk     *timeline.Walk
	calls    list[call]
	tasks    list[task]
	threads  []*thread
	byThread map[uint32]*thread // by the trace's thread
	kernels  kernelTable
	graphs   graphTable
	hosts    hostFunctions
	ids      ids
	order    streamOrder
	waits    waitTimes
	left     leftOut
	lanes    []span // each lane's recorded time
	extra    uint64 // ops without a task
	untimed  bool   // some task has no recorded duration
	between  bool   // some task has the time between two events around it
	nested   bool   // some call is not what its function says
}

// kernelTable has the launched kernels, and their shapes.
type kernelTable struct {
	all     []kernel
	numbers map[string]int32 // by name
	shapes  []shape
}

// graphTable has the executed graphs.
type graphTable struct {
	all     []graphOps
	current map[*timeline.Object]int32 // the graph as it is now
	runs    map[int32]int32            // by the call that ran it
}

// hostFunctions connects host function runs with the tasks that call them.
type hostFunctions struct {
	expected map[timeline.HostFunction][]hostRun // in time order
	captured map[uint64]timeline.HostFunction    // by the call that put it into a graph
}

// ids numbers events and flags.
type ids struct {
	byObject      map[int]int32
	events, flags int32
}

// streamOrder is the order between tasks on different streams.
type streamOrder struct {
	joins   map[[2]int]join // by the lane that is waited for and the lane that waits
	sources map[int32]int32 // task that sets what a task waits for
}

// waitTimes are the threads' recorded waits.
type waitTimes struct {
	took    map[int64]int64 // nanoseconds, by when the wait ended
	devices []deviceSync
	blocks  []wait
	polling int64 // sum over the times between the last two polls for each object that became complete
}

// leftOut are the calls that take their time on the host and do nothing else.
type leftOut struct {
	calls  []compile.Unsupported
	byFunc map[string]int  // index into calls
	nodes  map[uint64]bool // calls with tasks that a graph can't have; each is reported once
}

// span is the time from the first start to the last end.
type span struct{ from, to int64 }

var nothing = span{math.MaxInt64, math.MinInt64}

func (s *span) add(from, to int64) { s.from, s.to = min(s.from, from), max(s.to, to) }

// length returns the duration, 0 for nothing.
func (s span) length() int64 {
	if s == nothing {
		return 0
	}
	return s.to - s.from
}

func nothings(n int) []span {
	all := make([]span, n)
	for i := range all {
		all[i] = nothing
	}
	return all
}

// call is a call with its recorded and virtual times, in nanoseconds.
type call struct {
	start, end  int64
	began, over int64
	thread      int32
	task        int32 // -1 for none
	op          int32 // index in the thread
	kind        kind
}

// kind says how a call is played.
type kind uint8

const (
	asItIs  kind = iota
	wrapper      // replaced by the calls inside
	inTask       // a host function, which runs with its task
)

// wait is a time in which a thread waited for a device, or for its own copy.
type wait struct {
	from, to int64
	own      bool // the thread's own copy
}

// task is a task with its recorded and virtual times, in nanoseconds.
type task struct {
	issued, from, to int64
	began, over      int64
	by               int64 // when it was known to be done, also through later tasks; math.MaxInt64 for never
	known            int64 // duration; unknown if the model determines it
	bytes            uint64
	call             int32
	lane             int32
	epoch            int32 // earlier waits in its thread
	shape            int32 // a kernel's shape
	kind             api.Task
	copy             model.CopyKind
	measured         bool // by the device, or by a host function run
	between          bool // the measured time is between two events around it
	open             bool
	named            bool // its call names the stream
	pageable         bool // its call waits for it
}

// unknown is the duration if the model determines it.
const unknown = virtual.Auto

// graphOps are one graph's ops.
type graphOps struct {
	process uint32
	device  int // first run's device
	ran     bool
	lanes   [][]virtual.Op
	extra   uint64 // ops that only order others
	hosts   []*hostOp
	n, sum  int64 // measured runs: number and sum
}

// hostOp is a host function in a graph, with its recorded runs: number and sum.
type hostOp struct {
	op     *virtual.Op
	fn     timeline.HostFunction
	n, sum int64
}

// hostRun is an expected host function run, in a task or in a graph.
type hostRun struct {
	task   int32
	thread int32 // launching thread
	op     uint64
	event  int32 // recorded when it reaches its stream's front
	graph  *hostOp
}

// deviceSync is a wait for a device, whose number is set when all streams are known.
type deviceSync struct {
	op      *virtual.Op
	process uint32
	device  int
}

// thread has a thread's ops.
type thread struct {
	id    int32
	calls []int32 // played calls
	ops   list[virtual.Op]
	seen  []int   // by thread: how many calls precede the next call here
	polls []int32 // unsuccessful polls in a row
	fn    *api.Func
	waits int32 // stream or event that they poll
	last  int64 // when the call before the next one ended
	epoch int32 // waits so far, for devices or other threads
}

// list grows without moving its elements.
type list[T any] struct {
	chunks [][]T
	n      int
}

const chunk = 1 << 12

func (l *list[T]) add() *T {
	if l.n&(chunk-1) == 0 && l.n/chunk == len(l.chunks) {
		l.chunks = append(l.chunks, make([]T, chunk))
	}
	l.n++
	return l.at(l.n - 1)
}

func (l *list[T]) at(i int) *T { return &l.chunks[uint(i)/chunk][uint(i)%chunk] }

func (l *list[T]) cut(n int) { l.n = n }

// An op's tag holds its call and its task, each counted from 1, and a bit for the call's second op.
const second = 1 << 31

func tag(call, task int32) uint64 { return uint64(uint32(task+1))<<32 | uint64(uint32(call+1)) }

func tagged(tag uint64) (call, task int, again bool) {
	return int(uint32(tag)&^second) - 1, int(tag>>32) - 1, tag&second != 0
}

// newProgram converts a trace to a program.
func newProgram(r *format.Reader, m *api.Model, progress func(done, total int)) (*program, error) {
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: progress})
	p := &program{
		walk: w, byThread: map[uint32]*thread{}, ids: ids{byObject: map[int]int32{}},
		kernels: kernelTable{numbers: map[string]int32{}}, graphs: graphTable{current: map[*timeline.Object]int32{}, runs: map[int32]int32{}},
		hosts: hostFunctions{map[timeline.HostFunction][]hostRun{}, map[uint64]timeline.HostFunction{}},
		order: streamOrder{joins: map[[2]int]join{}, sources: map[int32]int32{}},
		waits: waitTimes{took: map[int64]int64{}},
		left:  leftOut{calls: []compile.Unsupported{}, byFunc: map[string]int{}, nodes: map[uint64]bool{}},
	}
	p.kernel("", 0)
	err := w.Run(&timeline.Visitor{
		Call: p.call,
		Task: func(k *timeline.Task) error {
			t := p.tasks.at(k.Index)
			t.from, t.to, t.open = k.From, k.To, k.Open
			t.between = t.measured && t.known == unknown && r.Meta().DeviceTime != nil
			p.between = p.between || t.between
			p.lane(k.Lane).add(k.From, k.To)
			if t.known == unknown { // otherwise it is a host function run
				if t.measured || w.Lanes[k.Lane].Synchronous {
					t.known = t.to - t.from
				} else {
					p.untimed = p.untimed || takesTime(t.kind)
				}
			}
			return nil
		},
		Graph: func(o *timeline.Object, g timeline.Graph) error {
			tasks := g.Tasks()
			if n := g.Size(); uint64(len(tasks)) < n {
				return fmt.Errorf("a graph of %d tasks, %d of which are copies of others: too many to simulate", n, n-uint64(len(tasks)))
			}
			p.graphs.current[o] = p.graph(o.Process, tasks)
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	for i := range w.Lanes {
		p.lane(i)
	}
	p.done()
	for _, g := range p.graphs.all {
		for _, h := range g.hosts {
			if h.n > 0 {
				h.op.Device = h.sum / h.n
			}
		}
	}
	return p, nil
}

// done computes when each task was known to be done: with a later task on its stream, or on a stream that waited for it.
func (p *program) done() {
	lanes := make([]int64, len(p.walk.Lanes))
	for i := range lanes {
		lanes[i] = math.MaxInt64
	}
	records := map[int32]int64{}
	for i := p.tasks.n - 1; i >= 0; i-- {
		t := p.tasks.at(i)
		at := &lanes[t.lane]
		if p.walk.Lanes[t.lane].Synchronous {
			t.by = t.to
			continue
		}
		if by, ok := records[int32(i)]; ok {
			*at = min(*at, by)
		}
		if !t.open {
			*at = min(*at, t.to)
		}
		if r, ok := p.order.sources[int32(i)]; ok {
			if by, ok := records[r]; !ok || *at < by {
				records[r] = *at
			}
		}
		t.by = *at
	}
}

// lane returns a lane's recorded span.
func (p *program) lane(i int) *span {
	for len(p.lanes) <= i {
		p.lanes = append(p.lanes, nothing)
	}
	return &p.lanes[i]
}

func (p *program) thread(id uint32) *thread {
	h := p.byThread[id]
	if h == nil {
		h = &thread{id: int32(len(p.threads)), last: p.calls.at(0).start}
		p.byThread[id] = h
		p.threads = append(p.threads, h)
	}
	return h
}

// call takes in the trace's next call.
func (p *program) call(h *timeline.HostCall, k *timeline.Task) error {
	if p.calls.n == math.MaxInt32 {
		return fmt.Errorf("there are more than %d calls: simulate a part of them", math.MaxInt32)
	}
	i, links := int32(p.calls.n), p.walk.Links()
	c := p.calls.add()
	*c = call{start: h.Start, end: h.End, task: -1}
	th := p.thread(h.Thread)
	c.thread = th.id
	if h.Fn != nil && h.Fn.HostCallback {
		p.ran(h, c, th)
		return nil
	}
	for n := len(th.calls); n > 0; n-- {
		outer := p.calls.at(int(th.calls[n-1]))
		if outer.end <= c.start {
			break
		}
		// The composite call's own op is the thread's last one. The calls inside inherit its host waits.
		th.last = outer.start - th.ops.at(int(outer.op)).Gap
		th.ops.cut(int(outer.op))
		outer.kind, th.calls = wrapper, th.calls[:n-1]
		p.nested = true
	}
	p.edges(th, c)
	for k := range links {
		p.link(th, &links[k])
	}
	if k != nil && k.Kind == api.HostFunc {
		p.asks(th, h, k)
	}
	c.op = int32(th.ops.n)
	op := th.ops.add()
	*op = virtual.Op{Tag: tag(i, -1), Gap: max(0, c.start-th.last), Host: c.end - c.start}
	th.last = c.end
	th.calls = append(th.calls, i)
	switch {
	case k != nil:
		c.task = int32(k.Index)
		p.task(th, op, k, i)
	case h.Fn == nil || h.Failed():
	case h.Fn.Task == api.HostFunc:
		if fn, ok := timeline.HostFunctionOf(p.walk.Process(h.Thread), h.Fn, h.Raw.Args); ok {
			p.hosts.captured[h.Index] = fn
		}
	case h.Waits >= 0, h.Fn.Sync == api.SyncDevice: // also of a device that is unknown
		p.wait(th, c, op, h)
	}
	p.poll(th, i, h)
	return nil
}

// edges makes a thread wait for calls of other threads that ended before its next call began, unless an earlier call already waits for
// them.
func (p *program) edges(th *thread, c *call) {
	if len(p.threads) == 1 {
		return
	}
	for len(th.seen) < len(p.threads) {
		th.seen = append(th.seen, 0)
	}
	for b, other := range p.threads {
		n := th.seen[b]
		if other == th {
			continue
		}
		for n < len(other.calls) && p.calls.at(int(other.calls[n])).end < c.start {
			n++
		}
		if n == th.seen[b] {
			continue
		}
		th.seen[b] = n
		last := p.calls.at(int(other.calls[n-1]))
		*th.ops.add() = virtual.Op{Kind: virtual.Await, Object: other.id, Count: p.opsUntil(other, n)}
		th.last = max(th.last, last.end)
		th.epoch++
	}
}

// opsUntil returns how many ops a thread has after so many calls.
func (p *program) opsUntil(th *thread, n int) uint64 {
	last := p.calls.at(int(th.calls[n-1]))
	ops := uint64(last.op) + 1
	for ops < uint64(th.ops.n) && th.ops.at(int(ops)).Tag&second != 0 {
		ops++
	}
	return ops
}

// wait makes a call wait for the device.
func (p *program) wait(th *thread, c *call, op *virtual.Op, h *timeline.HostCall) {
	switch h.Fn.Sync {
	case api.SyncDevice:
		op.Kind, op.Host = virtual.SyncDevice, virtual.Auto
		p.waits.devices = append(p.waits.devices, deviceSync{op, p.walk.Process(h.Thread), int(h.Waits)})
	case api.SyncStream:
		op.Kind, op.Stream, op.Host = virtual.SyncStream, h.Waits, virtual.Auto
	case api.SyncEvent:
		p.syncEvent(op, h.Waits)
	default:
		return
	}
	p.waits.took[c.end] = max(p.waits.took[c.end], c.end-c.start)
	p.block(th, c.start, c.end, false)
}

// block records a thread's wait.
func (p *program) block(th *thread, from, to int64, own bool) {
	th.epoch++
	p.waits.blocks = append(p.waits.blocks, wait{from, to, own})
}

func (p *program) syncEvent(op *virtual.Op, object int32) {
	if n, ok := p.ids.byObject[int(object)]; ok {
		op.Kind, op.Object, op.Host = virtual.SyncEvent, n, virtual.Auto
	}
}

// poll follows repeated polls. If the last one succeeds, the first waits and the others take no time.
func (p *program) poll(th *thread, i int32, h *timeline.HostCall) {
	if len(th.polls) > 0 && (th.fn != h.Fn || th.waits != h.Waits) {
		th.polls = th.polls[:0]
	}
	if h.Fn == nil || h.Waits < 0 || !h.Fn.Sync.Polls() {
		return
	}
	th.polls, th.fn, th.waits = append(th.polls, i), h.Fn, h.Waits
	if !h.Complete {
		return
	}
	took, period := p.calls.at(int(i)).end-p.calls.at(int(i)).start, int64(0)
	if n := len(th.polls); n > 1 {
		period = p.calls.at(int(i)).start - p.calls.at(int(th.polls[n-2])).start
	}
	p.waits.polling += max(period, took)
	for n, k := range th.polls {
		c := p.calls.at(int(k))
		op := th.ops.at(int(c.op))
		switch {
		case n > 0:
			op.Gap, op.Host = 0, 0
			p.waits.took[c.end] = max(p.waits.took[c.end], c.end-c.start)
		case h.Fn.Sync.Wait() == api.SyncStream:
			op.Kind, op.Stream, op.Host = virtual.SyncStream, h.Waits, took+period/2
		default:
			if p.syncEvent(op, h.Waits); op.Kind == virtual.SyncEvent {
				op.Host = took + period/2
			}
		}
	}
	p.block(th, p.calls.at(int(th.polls[0])).start, p.calls.at(int(i)).end, false)
	th.polls = th.polls[:0]
}

// task makes an op put a task on its stream.
func (p *program) task(th *thread, op *virtual.Op, k *timeline.Task, i int32) {
	t := p.tasks.add()
	*t = task{epoch: th.epoch, issued: k.Issued, from: k.From, to: k.To, open: k.Open, measured: k.Measured, known: unknown, bytes: k.Bytes, call: i, lane: int32(k.Lane), kind: k.Kind,
		named: k.Fn.Stream >= 0, pageable: k.Pageable()}
	synchronous := p.walk.Lanes[k.Lane].Synchronous
	op.Tag, op.Stream, op.Bytes, op.Device = tag(i, int32(k.Index)), t.lane, k.Bytes, unknown
	switch k.Kind {
	case api.Kernel:
		op.Kind, op.Blocks = virtual.Kernel, k.Blocks
		op.Kernel, t.shape = p.kernel(p.walk.Symbol(k.Name), k.Blocks)
	case api.Copy, api.Fill, api.Reduce:
		t.copy = copyKind(k)
		op.Kind, op.Copy = virtual.Copy, t.copy
		if synchronous {
			op.Kind = virtual.CopyNow
		}
	case api.HostFunc:
		op.Kind = virtual.HostFunc
	case api.GraphRun:
		n, ok := p.graphs.current[k.Object]
		if !ok {
			p.strange(k, "the trace does not show the nodes of the graph")
			break
		}
		op.Kind, op.Object = virtual.RunGraph, n
		p.graphs.runs[i] = n
		g := &p.graphs.all[n]
		p.extra += g.extra
		if !g.ran {
			g.ran, g.device = true, p.walk.Lanes[k.Lane].Device
		}
		for _, h := range g.hosts {
			p.hosts.expected[h.fn] = append(p.hosts.expected[h.fn], hostRun{task: -1, graph: h})
		}
	case api.System:
	default:
		p.mark(op, k)
	}
	if op.Kind == virtual.Call {
		op.Kind, op.Device = virtual.HostFunc, 0 // an empty place holder
	}
	if op.Kind == virtual.CopyNow {
		p.block(th, k.Issued, k.Returned, true)
	}
	if k.Pageable() || k.Kind == api.GraphRun && synchronous {
		p.block(th, k.Issued, k.Returned, false)
		if k.Pageable() {
			op.Host = virtual.Auto
		}
		*th.ops.add() = virtual.Op{Tag: tag(i, -1) | second, Kind: virtual.SyncStream, Stream: op.Stream, Host: virtual.Auto}
	}
}

// link takes in what a task follows. Streams that wait for each other by a default stream get an event.
func (p *program) link(th *thread, l *order.Link) {
	switch {
	case l.After < 0, l.Why == order.Value: // another write may have ended the wait
		return
	case l.Why != order.DefaultStream:
		p.order.sources[int32(l.After)] = int32(l.Before)
		return
	}
	lanes := [2]int{l.Lane, l.To}
	j, ok := p.order.joins[lanes]
	if ok && j.before == l.Before {
		return
	}
	if !ok {
		j.event = p.ids.events
		p.ids.events++
	}
	j.before = l.Before
	p.order.joins[lanes] = j
	*th.ops.add() = virtual.Op{Kind: virtual.RecordEvent, Stream: int32(l.Lane), Object: j.event}
	*th.ops.add() = virtual.Op{Kind: virtual.WaitEvent, Stream: int32(l.To), Object: j.event}
	p.extra += 2
}

// join is one stream's latest wait for another.
type join struct {
	event  int32
	before int // task
}

// asks records that a stream will run a host function. An event before it says when it reaches the front.
func (p *program) asks(th *thread, h *timeline.HostCall, k *timeline.Task) {
	fn, ok := timeline.HostFunctionOf(k.Process, k.Fn, h.Raw.Args)
	if !ok {
		return
	}
	*th.ops.add() = virtual.Op{Kind: virtual.RecordEvent, Stream: int32(k.Lane), Object: p.ids.events}
	p.hosts.expected[fn] = append(p.hosts.expected[fn], hostRun{task: int32(k.Index), thread: th.id, op: uint64(th.ops.n) + 1, event: p.ids.events})
	p.ids.events++
	p.extra++
}

// ran takes in a host function run. If it ran inside a call in its thread, that call waits for its turn.
func (p *program) ran(h *timeline.HostCall, c *call, th *thread) {
	c.kind = inTask
	p.nested = true
	fn, ok := timeline.HostFunctionOf(p.walk.Process(h.Thread), h.Fn, h.Raw.Args)
	if !ok || len(p.hosts.expected[fn]) == 0 {
		return
	}
	run := p.hosts.expected[fn][0]
	p.hosts.expected[fn] = p.hosts.expected[fn][1:]
	took := max(c.end-c.start, 0)
	if run.graph != nil {
		run.graph.n, run.graph.sum = run.graph.n+1, run.graph.sum+took
		return
	}
	c.task = run.task
	t := p.tasks.at(int(run.task))
	t.known, t.measured = took, true
	if len(th.calls) == 0 {
		return
	}
	outer := p.calls.at(int(th.calls[len(th.calls)-1]))
	if outer.end <= c.start || outer.task >= 0 {
		return
	}
	op := *th.ops.at(int(outer.op))
	th.ops.cut(int(outer.op))
	if run.thread != th.id {
		*th.ops.add() = virtual.Op{Kind: virtual.Await, Object: run.thread, Count: run.op, Gap: op.Gap}
		op.Gap = 0
	}
	*th.ops.add() = virtual.Op{Kind: virtual.SyncEvent, Object: run.event, Gap: op.Gap}
	outer.op = int32(th.ops.n)
	op.Gap, op.Host = 0, outer.end-c.start
	*th.ops.add() = op
}

// number returns the number for an event or a flag. Objects that processes share have one number.
func (p *program) number(o *timeline.Object, next *int32) int32 {
	id := o.Exported().ID
	n, ok := p.ids.byObject[id]
	if !ok {
		n = *next
		*next++
		p.ids.byObject[id] = n
	}
	return n
}

// kernel returns the numbers for a kernel and for its shape with so many blocks.
func (p *program) kernel(name string, blocks uint32) (n, shaped int32) {
	n, ok := p.kernels.numbers[name]
	if !ok {
		n = int32(len(p.kernels.all))
		p.kernels.numbers[name] = n
		p.kernels.all = append(p.kernels.all, kernel{name: name, shapes: map[uint32]int32{}, last: -1})
	}
	k := &p.kernels.all[n]
	if k.last < 0 || p.kernels.shapes[k.last].blocks != blocks {
		if k.last, ok = k.shapes[blocks]; !ok {
			k.last = int32(len(p.kernels.shapes))
			k.shapes[blocks] = k.last
			p.kernels.shapes = append(p.kernels.shapes, shape{kernel: n, blocks: blocks})
		}
	}
	return n, k.last
}

func (p *program) strange(t *timeline.Task, reason string) {
	n, ok := p.left.byFunc[t.Fn.Name]
	if !ok {
		n = len(p.left.calls)
		p.left.byFunc[t.Fn.Name] = n
		p.left.calls = append(p.left.calls, compile.Unsupported{Func: t.Fn.Name, Reason: reason, Call: t.Call})
	}
	p.left.calls[n].Calls++
}

// mark returns an op that orders streams.
func (p *program) mark(op *virtual.Op, k *timeline.Task) {
	switch {
	case k.Object == nil:
		p.strange(k, "the object that it sets or waits for is not in the trace")
	case k.Object.Kind == api.Notify:
		op.Kind = map[api.Task]virtual.Kind{api.Record: virtual.SetFlag, api.Wait: virtual.TakeFlag, api.Reset: virtual.ClearFlag}[k.Kind]
		op.Object = p.number(k.Object, &p.ids.flags)
	case k.Object.Kind != api.Event:
		p.strange(k, fmt.Sprintf("a %s has no counterpart", k.Object.Kind))
	case k.Kind == api.Record:
		op.Kind, op.Object = virtual.RecordEvent, p.number(k.Object, &p.ids.events)
	case k.Kind == api.Wait:
		op.Kind, op.Object = virtual.WaitEvent, p.number(k.Object, &p.ids.events)
	}
}

// graph adds a graph with its tasks, and returns its number.
func (p *program) graph(process uint32, inside []timeline.GraphTask) int32 {
	g := graphOps{process: process}
	lane, crossed := graph.Lanes(len(inside), func(i int) []int { return inside[i].After })
	hosts := map[[2]int]timeline.HostFunction{} // by lane and index
	strange := func(k *timeline.Task, reason string) {
		if !p.left.nodes[k.Call] {
			p.left.nodes[k.Call] = true
			p.strange(k, reason)
		}
	}
	for i := range inside {
		t := &inside[i]
		k, n := &t.Task, lane[i]
		for len(g.lanes) <= n {
			g.lanes = append(g.lanes, nil)
		}
		for _, before := range t.After {
			if lane[before] != n {
				g.lanes[n] = append(g.lanes[n], virtual.Op{Kind: virtual.WaitEvent, Object: crossed[before]})
				g.extra++
			}
		}
		op := virtual.Op{Device: virtual.Auto, Bytes: k.Bytes}
		switch k.Kind {
		case api.NoTask:
		case api.Kernel:
			op.Kind, op.Blocks = virtual.Kernel, k.Blocks
			op.Kernel, _ = p.kernel(p.walk.Symbol(k.Name), k.Blocks)
		case api.Copy, api.Fill, api.Reduce:
			op.Kind, op.Copy = virtual.Copy, copyKind(k)
		case api.HostFunc:
			op.Kind = virtual.HostFunc
			if fn, ok := p.hosts.captured[k.Call]; ok {
				hosts[[2]int{n, len(g.lanes[n])}] = fn
			}
		case api.System:
			op.Kind, op.Device = virtual.HostFunc, 0 // an empty place holder
			if k.Object != nil && k.Object.Kind == api.Graph {
				strange(k, "it is unknown how often a condition runs its part of a graph: its tasks run once")
			}
		case api.Record, api.Wait: // later tasks follow known ones
			if k.Object == nil || k.Object.Kind != api.Event {
				strange(k, "the object that it sets or waits for is not in the trace")
			}
		default:
			strange(k, "in a graph it has no counterpart")
		}
		if t.Lost {
			strange(k, "it follows nodes that the trace does not show")
		}
		if op.Kind != virtual.Call {
			g.lanes[n] = append(g.lanes[n], op)
		}
		if mark, ok := crossed[i]; ok {
			g.lanes[n] = append(g.lanes[n], virtual.Op{Kind: virtual.RecordEvent, Object: mark})
			g.extra++
		}
	}
	for at, fn := range hosts {
		g.hosts = append(g.hosts, &hostOp{op: &g.lanes[at[0]][at[1]], fn: fn})
	}
	p.graphs.all = append(p.graphs.all, g)
	return int32(len(p.graphs.all) - 1)
}

// copyKind returns the model's copy kind, by name.
func copyKind(t *timeline.Task) model.CopyKind {
	if t.Kind == api.Fill {
		return model.Fill
	}
	switch t.Name {
	case "copy HtoD":
		return model.HostToDevice
	case "copy DtoH":
		return model.DeviceToHost
	case "copy HtoH":
		return model.HostToHost
	}
	return model.DeviceToDevice
}
