package sim

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
)

// graph is what a capture records (aclmdlRI): the tasks of one or more streams, which run together as often as the program
// likes.
type graph struct {
	handle uint64
	id     uint32
	dev    *device
	marks  int // places that other streams of the graph wait for

	running atomic.Int32 // executions that were ordered and have not ended

	mu      sync.Mutex
	current *execution // that runs: there is one at a time
	name    string
	lanes   []*lane // by stream; the first is the one where the capture began
	ended   []callback
}

// lane is the tasks of one stream of a graph.
type lane struct {
	stream *stream // that was captured
	tasks  []*graphTask
}

// graphTask is one captured task. A task that records a mark or waits for one names it by its number.
type graphTask struct {
	task
	group *taskGroup
	mark  int // -1 for none
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
	marks   []*mark
	runners []*stream // one for each lane
	left    atomic.Int32
	done    chan struct{} // closed when all lanes have ended
}

// laneRun is the run of one lane, on a stream of its own.
type laneRun struct {
	execution *execution
	lane      *lane
	at        int // task that is next
}

func (r *laneRun) length() int {
	r.execution.graph.mu.Lock()
	defer r.execution.graph.mu.Unlock()
	return len(r.lane.tasks)
}

func (r *laneRun) next() bool { return r.at < r.length() }

// task is the task that is next. One that is replaced before its turn has come is the new one.
func (r *laneRun) task() task {
	r.execution.graph.mu.Lock()
	defer r.execution.graph.mu.Unlock()
	k := r.lane.tasks[r.at].task
	k.lent, k.at = true, 0
	return k
}

// run executes the graph as one task of a stream: all lanes beside each other. The stream goes on when they have ended.
func (g *graph) run() task {
	var x *execution // the last one: there is one at a time on a stream
	return task{kind: taskGraph,
		begin: func(s *stream) *waiting {
			x = nil
			return &waiting{met: func() (bool, <-chan struct{}) {
				if x == nil {
					var other <-chan struct{}
					if x, other = g.begin(s); x == nil {
						return false, other
					}
				}
				return isClosed(x.done), x.done
			}}
		},
		run: func(s *stream) (time.Duration, *failure) {
			for _, r := range x.runners {
				s.time = max(s.time, r.time)
				if r.failure != nil {
					return 0, r.failure
				}
			}
			return 0, nil
		}}
}

// begin begins an execution. Where another one runs it returns a channel that is closed when that has ended.
func (g *graph) begin(s *stream) (*execution, <-chan struct{}) {
	g.mu.Lock()
	if x := g.current; x != nil {
		g.mu.Unlock()
		return nil, x.done
	}
	x := &execution{graph: g, done: make(chan struct{})}
	g.current = x
	lanes := g.lanes
	g.mu.Unlock()
	for range g.marks {
		x.marks = append(x.marks, &mark{done: make(chan struct{})})
	}
	for _, l := range lanes {
		x.runners = append(x.runners, &stream{id: l.stream.id, ctx: s.ctx, stop: s.stop, time: s.time, lane: &laneRun{execution: x, lane: l}})
	}
	if len(lanes) == 0 {
		x.left.Store(1)
		x.laneEnded()
		return x, nil
	}
	x.left.Store(int32(len(lanes)))
	s.ctx.dev.sim.clock.runLanes(x)
	return x, nil
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
func recordMark(n int) task {
	return task{kind: taskRecord, always: true, run: func(s *stream) (time.Duration, *failure) {
		m := s.lane.execution.marks[n]
		m.time = s.time / tick * tick
		s.mu.Lock()
		m.failure = s.failure
		s.mu.Unlock()
		close(m.done)
		return 0, nil
	}}
}

// waitMark is a wait inside a graph.
func waitMark(n int) task {
	return task{kind: taskWait,
		begin: func(s *stream) *waiting { return s.lane.execution.marks[n].wait(0, nil) },
		run: func(s *stream) (time.Duration, *failure) {
			s.time = max(s.time, s.lane.execution.marks[n].time)
			return 0, nil
		}}
}

// end gives back what the tasks hold.
func (g *graph) end() {
	g.mu.Lock()
	lanes, ended := g.lanes, g.ended
	g.lanes, g.ended = nil, nil
	g.mu.Unlock()
	for _, l := range lanes {
		for _, k := range l.tasks {
			k.end()
		}
	}
	for _, c := range ended {
		g.dev.sim.opts.Caller.Call(c.fn, c.arg)
	}
}

// graph returns the graph of a handle, one that is no longer captured into.
func (t *Thread) graph(h acl.MdlRI) (*graph, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	g := t.sim.graphs.get(uint64(h))
	if g == nil {
		return nil, t.badHandle(kindGraph, uint64(h))
	}
	if t.sim.capturing(g) {
		return nil, t.fail(acl.ACL_ERROR_RT_MODEL_CAPTURED, "model %d is still being captured", g.id)
	}
	return g, acl.ACL_SUCCESS
}

// execute puts a run of a graph on a stream.
func (t *Thread) executeGraph(g *graph, s *stream) acl.Error {
	switch {
	case s.ctx.dev != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the stream to device %d", g.id, g.dev.id, s.ctx.dev.id)
	case s.capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't run a model", s.id)
	}
	g.running.Add(1)
	k := g.run()
	k.release = func() { g.running.Add(-1) }
	return t.submit(s, k)
}

// MdlRIExecuteAsync runs a graph in the order of a stream.
func (t *Thread) MdlRIExecuteAsync(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.graph(modelRI)
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
	g, e := t.graph(modelRI)
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
	c.dev.mu.Lock()
	s, f := c.newStreamLocked(0, 0)
	c.dev.mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	s.hidden = true
	e = t.executeGraph(g, s)
	if e == 0 {
		limit, _ := t.timeout(timeout)
		if !s.wait(t, 1, limit) {
			e = t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "model %d has not finished within %v", g.id, limit)
		} else if f := s.observe(); f != nil {
			e = t.failWith(f)
		}
	}
	s.close(e != 0)
	return e
}

// MdlRIDestroy ends a graph that does not run.
func (t *Thread) MdlRIDestroy(modelRI acl.MdlRI) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	if g.running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.id)
	}
	if t.sim.graphs.remove(g.handle) == nil {
		return t.badHandle(kindGraph, g.handle)
	}
	g.end()
	return acl.ACL_SUCCESS
}

const maxGraphName = 128

// MdlRISetName names a graph.
func (t *Thread) MdlRISetName(modelRI acl.MdlRI, name *byte) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	n := goString(name)
	switch {
	case name == nil:
		return t.null("name")
	case len(n) >= maxGraphName:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a name of %d bytes: the limit is %d", len(n), maxGraphName-1)
	}
	g.mu.Lock()
	g.name = n
	g.mu.Unlock()
	return acl.ACL_SUCCESS
}

// MdlRIGetName stores the name of a graph.
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
	case uint64(maxLen) <= uint64(len(n)):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxLen %d is too small for the name of %d bytes and its NUL", maxLen, len(n))
	}
	putText(list(name, uint64(maxLen)), n)
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
			t.sim.log("model %d, device %d, stream %d, task %d: %s %s", g.id, g.dev.id, l.stream.id, i, k.kind, k.name)
		}
	}
	return acl.ACL_SUCCESS
}

// MdlRIDestroyRegisterCallback has a function of the program called when a graph is destroyed.
func (t *Thread) MdlRIDestroyRegisterCallback(modelRI acl.MdlRI, func_, userData acl.Addr) acl.Error {
	g, e := t.graph(modelRI)
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
	g, e := t.graph(modelRI)
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
