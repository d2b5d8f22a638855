package acl

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// graph is what a capture records (aclmdlRI): the tasks of one or more streams, which run together as often as the program
// likes.
type graph struct {
	handle  uint64
	id      uint32
	serial  uint64 // models are numbered as they are made
	dev     *device.Device
	marks   int        // places that other streams of the graph wait for
	outside []*outside // constant, when the capture has ended

	running atomic.Int32 // executions that were ordered and have not ended

	mu      sync.Mutex
	current *execution // that runs: there is one at a time
	name    string
	lanes   []*lane // by stream; the first is the one where the capture began
	ended   []callback

	conditions []*condition

	part     bool        // of another graph, under a condition; constant
	begun    atomic.Bool // a capture into it has begun; of a part
	captured atomic.Bool // and ended well

	built    bool // by hand; constant
	building bool // by hand, and not complete
}

// lane is the tasks of one stream of a graph.
type lane struct {
	stream *device.Stream // that was captured, or bound
	tasks  []*graphTask
	later  bool // it begins when another one says so
}

// graphTask is one captured task. A task that records a mark or waits for one names it by its number.
type graphTask struct {
	device.Task
	group *taskGroup
	mark  int // -1 for none

	// What follows is under the graph's lock.
	handle     uint64 // 0 before anybody asked
	graph      *graph // where there is a handle
	change     *change
	disabled   bool
	opInfo     space.Span // what the program said about the operator, in memory of the runtime's
	extendInfo string     // in JSON
}

// taskGroup is a row of tasks of a lane that the program may replace.
type taskGroup struct {
	handle   uint64
	graph    *graph
	tasks    []*graphTask
	updating bool // under the graph's lock
}

// execution is one run of a graph.
type execution struct {
	graph   *graph
	marks   []*device.Mark
	outside []*device.Mark   // of the graph's outside; nil where there is nothing to wait for
	runners []*device.Stream // one for each lane that has begun; under the graph's lock until all have ended
	left    atomic.Int32
	done    chan struct{} // closed when all lanes have ended
	halt    func()        // stops the run of a model that was built by hand
	aborted atomic.Bool
}

// laneRun is the run of one lane, on a stream of its own.
type laneRun struct {
	execution *execution
	lane      *lane
	at        int    // task that is next
	begun     *lane  // where it began, when another lane began it
	jump      *place // where to go on instead of behind the task that runs
}

// running returns the lane that a stream of an execution runs.
func running(s *device.Stream) *laneRun { return s.Lane.(*laneRun) }

func (r *laneRun) Ended() { r.execution.laneEnded() }

// Advance goes on behind the task that has ended.
func (r *laneRun) Advance() {
	r.at++
	if j := r.jump; j != nil {
		r.lane, r.at, r.jump = j.lane, j.at, nil
	}
}

func (r *laneRun) length() int {
	r.execution.graph.mu.Lock()
	defer r.execution.graph.mu.Unlock()
	return len(r.lane.tasks)
}

func (r *laneRun) Next() bool { return r.at < r.length() }

// Task is the task that is next. One that is replaced before its turn has come is the new one.
func (r *laneRun) Task() device.Task {
	r.execution.graph.mu.Lock()
	defer r.execution.graph.mu.Unlock()
	x := r.lane.tasks[r.at]
	if x.disabled {
		return device.Task{Kind: device.TaskGraph, Lent: true, Run: func(*device.Stream) (time.Duration, *fail.Failure) { return 0, nil }}
	}
	k := x.Task
	k.Lent, k.At = true, 0
	return k
}

// run executes the graph as one task of a stream: all lanes beside each other. The stream goes on when they have ended.
func (g *graph) run(outside []*device.Mark) device.Task {
	var x *execution // the last one: there is one at a time on a stream
	return device.Task{Kind: device.TaskGraph,
		Begin: func(s *device.Stream) *device.Waiting {
			x = nil
			return &device.Waiting{Met: func() (bool, <-chan struct{}) {
				if x == nil {
					var other <-chan struct{}
					if x, other = g.begin(s, outside); x == nil {
						return false, other
					}
				}
				return x.over(), x.done
			}}
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			f := x.join(s)
			if f == nil && x.aborted.Load() {
				f = failed(acl.ACL_ERROR_RT_MODEL_ABORT_NORMAL, "the run of model %d was aborted", g.id)
			}
			return 0, f
		}}
}

// join has a stream go on behind an execution that has ended, and returns its failure.
func (x *execution) join(s *device.Stream) *fail.Failure {
	for _, r := range x.runners {
		s.Context.Device.Machine.Strict.EndLane(&s.Strict, &r.Strict)
	}
	for _, r := range x.runners {
		s.Time = max(s.Time, r.Time)
		if r.Failure != nil {
			return r.Failure
		}
	}
	return nil
}

// begin begins an execution. Where another one runs it returns a channel that is closed when that has ended.
func (g *graph) begin(s *device.Stream, outside []*device.Mark) (*execution, <-chan struct{}) {
	g.mu.Lock()
	if x := g.current; x != nil {
		g.mu.Unlock()
		return nil, x.done
	}
	x := &execution{graph: g, outside: outside, done: make(chan struct{})}
	g.current = x
	if len(g.conditions) > 0 && !g.part {
		g.mu.Unlock()
		g.assign(s)
		g.mu.Lock()
	}
	lanes, stop := g.lanes, s.Life.Stop
	if g.built {
		stop = x.haltable(s.Life.Stop)
	}
	for range g.marks {
		x.marks = append(x.marks, &device.Mark{Done: make(chan struct{})})
	}
	for _, l := range lanes {
		if !l.later {
			x.runners = append(x.runners, s.NewLane(l.stream, stop, &laneRun{execution: x, lane: l}))
		}
	}
	first := slices.Clone(x.runners) // these may begin others
	g.mu.Unlock()
	x.left.Store(int32(1 + len(first)))
	if mutant.Breaks("execution_runs_them") {
		first, x.runners = nil, nil
		x.left.Store(1)
	}
	for _, r := range first {
		s.Context.Device.Machine.Strict.BeginLane(&s.Strict, &r.Strict)
		s.Context.Device.Machine.Clock.RunLane(r)
	}
	x.laneEnded()
	return x, nil
}

// over tells whether the execution has ended.
func (x *execution) over() bool {
	if mutant.Breaks("execution_in_order") {
		return true
	}
	return device.IsClosed(x.done)
}

// haltable returns what stops the run of a model that was built by hand: the end of the stream's work, or an abort.
func (x *execution) haltable(outer chan struct{}) chan struct{} {
	stop := make(chan struct{})
	x.halt = sync.OnceFunc(func() { close(stop) })
	go func() {
		select {
		case <-outer:
			x.halt()
		case <-x.done:
		}
	}()
	return stop
}

// start has a lane begin, at the time of the stream that says so. One that has begun goes on.
func (x *execution) start(s *device.Stream, l *lane) {
	x.graph.mu.Lock()
	for _, r := range x.runners {
		if running(r).begun == l {
			x.graph.mu.Unlock()
			return
		}
	}
	r := s.NewLane(l.stream, s.Life.Stop, &laneRun{execution: x, lane: l, begun: l})
	x.runners = append(x.runners, r)
	x.graph.mu.Unlock()
	x.left.Add(1)
	s.Context.Device.Machine.Strict.BeginLane(&s.Strict, &r.Strict)
	s.Context.Device.Machine.Clock.RunLane(r)
}

func (x *execution) laneEnded() {
	if x.left.Add(-1) == 0 {
		x.graph.mu.Lock()
		x.graph.current = nil
		x.graph.mu.Unlock()
		close(x.done)
	}
}

// recordMark is a record inside a graph. A lane that was cancelled marks it all the same.
func recordMark(at func(*execution) *device.Mark) device.Task {
	return device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		m := at(running(s).execution)
		m.Time = s.Time / device.Tick * device.Tick
		s.Mu.Lock()
		m.Failure = s.Failure
		s.Mu.Unlock()
		s.Context.Device.Machine.Strict.Tells(&s.Strict, &m.Known)
		if !device.IsClosed(m.Done) { // a model that was built by hand may come here again
			close(m.Done)
		}
		return 0, nil
	}}
}

// waitMark is a wait inside a graph.
func waitMark(at func(*execution) *device.Mark) device.Task {
	return device.Task{Kind: device.TaskWait,
		Begin: func(s *device.Stream) *device.Waiting {
			if m := at(running(s).execution); m != nil {
				return m.Wait(0, nil)
			}
			return nil
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			if m := at(running(s).execution); m != nil {
				s.Time = max(s.Time, m.Time)
				s.Context.Device.Machine.Strict.Hears(&s.Strict, &m.Known)
			}
			return 0, nil
		}}
}

// inside is the mark of a number in an execution.
func inside(n int) func(*execution) *device.Mark {
	return func(x *execution) *device.Mark { return x.marks[n] }
}

// endGraph gives back what the tasks hold.
func (s *Sim) endGraph(g *graph) {
	g.mu.Lock()
	lanes, ended, conditions := g.lanes, g.ended, g.conditions
	g.lanes, g.ended, g.conditions = nil, nil, nil
	g.mu.Unlock()
	for _, c := range conditions {
		s.endCondition(c)
	}
	for _, l := range lanes {
		if b := attached(l.stream).bound.Load(); b != nil && b.lane == l {
			attached(l.stream).bound.CompareAndSwap(b, nil)
		}
		for _, k := range l.tasks {
			s.dropTask(k)
		}
	}
	if mutant.Breaks("called_when_destroyed") {
		ended = nil
	}
	for _, c := range ended {
		s.opts.Caller.Call(c.fn, c.arg)
	}
}

// graph returns the graph of a handle, one that is no longer captured into.
func (t *Thread) graph(h acl.MdlRI) (*graph, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	g := t.sim.graphs.Get(uint64(h))
	if g == nil {
		return nil, t.badHandle(space.KindGraph, uint64(h))
	}
	if t.sim.captures.into(g) {
		return nil, t.fail(acl.ACL_ERROR_RT_MODEL_CAPTURED, "model %d is still being captured", g.id)
	}
	return g, acl.ACL_SUCCESS
}

// whole returns the graph of a handle that is no part of another one.
func (t *Thread) whole(h acl.MdlRI) (*graph, acl.Error) {
	g, e := t.graph(h)
	if e == 0 && g.part && !mutant.Breaks("part_of_a_model") {
		return nil, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d is part of another one", g.id)
	}
	return g, e
}

// runnable returns the graph of a handle that is complete.
func (t *Thread) runnable(h acl.MdlRI) (*graph, acl.Error) {
	g, e := t.whole(h)
	if e != 0 {
		return nil, e
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.building {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not complete: call aclmdlRIBuildEnd first", g.id)
	}
	return g, acl.ACL_SUCCESS
}

// execute puts a run of a graph on a stream.
func (t *Thread) executeGraph(g *graph, s *device.Stream) acl.Error {
	switch {
	case s.Context.Device != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the stream to device %d", g.id, g.dev.ID, s.Context.Device.ID)
	case attached(s).capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't run a model", s.ID)
	}
	g.running.Add(1)
	marks := g.outsideMarks()
	k := g.run(marks)
	k.Release = func() {
		g.unrecorded(marks, s)
		g.running.Add(-1)
	}
	e := t.submit(s, k)
	if e == 0 {
		g.recorded(marks)
	}
	return e
}

// MdlRIExecuteAsync runs a graph in the order of a stream.
func (t *Thread) MdlRIExecuteAsync(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.runnable(modelRI)
	if e != 0 {
		return e
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.executeGraph(g, s)
}

// MdlRIExecute runs a graph and waits for it, for so many milliseconds at most.
func (t *Thread) MdlRIExecute(modelRI acl.MdlRI, timeout int32) acl.Error {
	g, e := t.runnable(modelRI)
	if e != 0 {
		return e
	}
	if timeout == 0 || timeout < -1 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: -1 is for ever, else milliseconds above 0", timeout)
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	c := t.current
	c.Device.Mu.Lock()
	s, f := t.sim.newStreamLocked(c, 0, 0)
	c.Device.Mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	s.Hidden = true
	e = t.executeGraph(g, s)
	if e == 0 {
		limit, _ := t.timeout(timeout)
		if !s.Wait(&t.HostThread, 1, limit) {
			e = t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "model %d has not finished within %v", g.id, limit)
		} else if f := s.Observe(); f != nil {
			e = t.failWith(f)
		}
	}
	s.Close(e != 0)
	return e
}

// MdlRIDestroy ends a graph that does not run.
func (t *Thread) MdlRIDestroy(modelRI acl.MdlRI) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	if g.running.Load() > 0 && !mutant.Breaks("destroying_a_running_graph") {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.id)
	}
	if t.sim.graphs.Remove(g.handle) == nil {
		return t.badHandle(space.KindGraph, g.handle)
	}
	t.sim.endGraph(g)
	return acl.ACL_SUCCESS
}

// maxGraphName is how many bytes of a name can be asked for, with the NUL.
const maxGraphName = 512

func graphNameLimit() uint32 {
	if mutant.Breaks("long_name_of_a_graph") {
		return 128
	}
	return maxGraphName
}

// MdlRISetName names a graph.
func (t *Thread) MdlRISetName(modelRI acl.MdlRI, name *byte) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	n := space.GoString(name)
	switch {
	case name == nil:
		return t.null("name")
	}
	g.mu.Lock()
	if g.name != "" && mutant.Breaks("name_of_a_graph") {
		n = g.name
	}
	g.name = n
	g.mu.Unlock()
	return acl.ACL_SUCCESS
}

// MdlRIGetName stores the name of a graph, cut to 512 bytes (documented) and to the room that there is.
func (t *Thread) MdlRIGetName(modelRI acl.MdlRI, maxLen uint32, name *byte) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	g.mu.Lock()
	n := g.name
	g.mu.Unlock()
	switch {
	case name == nil:
		return t.null("name")
	case maxLen == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxLen is 0")
	}
	space.PutText(space.List(name, uint64(min(maxLen, graphNameLimit()))), n)
	return acl.ACL_SUCCESS
}

// MdlRIGetId returns the number of a graph.
func (t *Thread) MdlRIGetId(modelRI acl.MdlRI, modelRIId *uint32) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	if modelRIId == nil {
		return t.null("modelRIId")
	}
	*modelRIId = g.id
	return acl.ACL_SUCCESS
}

// MdlRIDebugPrint writes what a graph holds to the log.
func (t *Thread) MdlRIDebugPrint(modelRI acl.MdlRI) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lanes {
		for i, k := range l.tasks {
			t.sim.Log("model %d, device %d, stream %d, task %d: %s %s", g.id, g.dev.ID, l.stream.ID, i, k.Kind, k.Name)
		}
	}
	return acl.ACL_SUCCESS
}

// MdlRIDestroyRegisterCallback has a function of the program called when a graph is destroyed.
func (t *Thread) MdlRIDestroyRegisterCallback(modelRI acl.MdlRI, func_, userData acl.Addr) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	switch {
	case func_ == 0:
		return t.null("func")
	case t.sim.opts.Caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no program whose function could be called")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.ContainsFunc(g.ended, func(c callback) bool { return c.fn == func_ }) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the function is registered already")
	}
	g.ended = append(g.ended, callback{fn: func_, arg: userData})
	return acl.ACL_SUCCESS
}

// MdlRIDestroyUnregisterCallback ends what MdlRIDestroyRegisterCallback began.
func (t *Thread) MdlRIDestroyUnregisterCallback(modelRI acl.MdlRI, func_ acl.Addr) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.ended, func(c callback) bool { return c.fn == func_ })
	if i < 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the function is not registered")
	}
	g.ended = slices.Delete(g.ended, i, i+1)
	return acl.ACL_SUCCESS
}
