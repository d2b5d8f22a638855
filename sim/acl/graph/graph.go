package graph

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// Models holds a process's models and the objects inside them.
type Models struct {
	Graphs     space.Table[Graph]
	Groups     space.Table[TaskGroup]
	GraphTasks space.Table[GraphTask]
	Conditions space.Table[Condition]
	Labels     space.Table[Label]
	LabelLists space.Table[LabelList]
	Captures   captures
	Made       atomic.Uint64 // models created so far

	text   *space.Arena    // memory for operator infos
	caller callback.Caller // nil without a program
	strict *strict.Checker // nil if strict mode is off
}

func (s *Models) Init(text *space.Arena, caller callback.Caller, check *strict.Checker) {
	s.Graphs.Kind, s.Groups.Kind, s.GraphTasks.Kind = space.KindGraph, space.KindGroup, space.KindGraphTask
	s.Conditions.Kind, s.Labels.Kind, s.LabelLists.Kind = space.KindCondition, space.KindLabel, space.KindLabelList
	s.text, s.caller, s.strict = text, caller, check
}

// Recording receives a stream's tasks if they do not run. At most one is set.
type Recording struct {
	Capture atomic.Pointer[Capture]
	Bound   atomic.Pointer[Bound]
	Update  atomic.Pointer[Update]
}

func (r *Recording) recorder() *Recording { return r }

// recordingOf returns the Recording of a program's stream.
func recordingOf(s *device.Stream) *Recording {
	return s.Attached.(interface{ recorder() *Recording }).recorder()
}

// Graph is a model (aclmdlRI): tasks of one or more streams that run together.
type Graph struct {
	Handle  uint64
	ID      uint32
	Serial  uint64 // creation order
	Device  *device.Device
	Marks   int        // records that lanes wait for
	outside []*Outside // constant after the capture

	Running atomic.Int32 // submitted and unfinished executions

	sync.Mutex
	Current *Execution    // running execution; at most one
	free    time.Duration // device time at which the last execution ended
	Name    string
	Lanes   []*Lane // by stream; the first one began the capture
	Ended   []callback.Callback

	Conditions []*Condition

	Part     bool        // part of a conditional model; constant
	Begun    atomic.Bool // of a part: its capture began
	Captured atomic.Bool // the capture succeeded

	Built    bool // built task by task; constant
	Building bool // built, and not complete
}

// Lane holds one stream's tasks in a graph.
type Lane struct {
	Stream *device.Stream // captured or bound stream
	Tasks  []*GraphTask
	Later  bool // another lane starts it
}

// GraphTask is one task in a graph.
type GraphTask struct {
	device.Task
	Group *TaskGroup
	Mark  int // number of the record that the task makes or waits for; -1 for none

	// The fields below need the graph's lock.
	Handle     uint64 // 0 until the program queries it
	Graph      *Graph // set with Handle
	Change     *Change
	Disabled   bool
	OpInfo     space.Span // operator info from the program, in runtime memory
	ExtendInfo string     // JSON
}

// TaskGroup has consecutive lane tasks that the program may replace.
type TaskGroup struct {
	Handle   uint64
	Graph    *Graph
	Tasks    []*GraphTask
	Updating bool // needs the graph's lock
}

// Execution is a graph while it runs.
type Execution struct {
	graph   *Graph
	marks   []*device.Mark
	Outside []*device.Mark   // marks of Graph.outside; nil for no wait
	runners []*device.Stream // one stream per started lane; under the graph's lock until all have ended
	left    atomic.Int32
	Done    chan struct{} // closed when all lanes have ended
	end     time.Duration // device time of the end; valid when Done is closed
	Halt    func()        // stops the run of a built model
	Aborted atomic.Bool
}

// laneRun is a lane while it runs, on its own stream.
type laneRun struct {
	Execution *Execution
	lane      *Lane
	at        int    // next task
	begun     *Lane  // start lane, if another lane started this run
	Jump      *Place // next task, if it is not the following one
}

// Running returns the lane run of an execution's stream.
func Running(s *device.Stream) *laneRun { return s.Lane.(*laneRun) }

func (r *laneRun) Ended() { r.Execution.laneEnded() }

// Advance moves to the next task.
func (r *laneRun) Advance() {
	r.at++
	if j := r.Jump; j != nil {
		r.lane, r.at, r.Jump = j.Lane, j.At, nil
	}
}

func (r *laneRun) length() int {
	r.Execution.graph.Lock()
	defer r.Execution.graph.Unlock()
	return len(r.lane.Tasks)
}

func (r *laneRun) Next() bool { return r.at < r.length() }

// Task returns the next task. A task replaced before its turn runs as the new task.
func (r *laneRun) Task() device.Task {
	r.Execution.graph.Lock()
	defer r.Execution.graph.Unlock()
	x := r.lane.Tasks[r.at]
	if x.Disabled {
		return device.Task{Kind: device.TaskGraph, Lent: true, Run: func(*device.Stream) (time.Duration, *fail.Failure) { return 0, nil }}
	}
	k := x.Task
	k.Lent, k.At = true, 0
	return k
}

// Run returns the task that executes the graph: all lanes in parallel.
func (g *Graph) Run(outside []*device.Mark) device.Task {
	var x *Execution // last execution; a stream runs one at a time
	return device.Task{Kind: device.TaskGraph,
		Begin: func(s *device.Stream) *device.Waiting {
			x = nil
			return wait(func() (*Execution, <-chan struct{}) {
				var other <-chan struct{}
				if x == nil {
					x, other = g.Begin(s, outside)
				}
				return x, other
			})
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			f := x.Join(s)
			if f == nil && x.Aborted.Load() {
				f = status.Failed(acl.ACL_ERROR_RT_MODEL_ABORT_NORMAL, "the run of model %d was aborted", g.ID)
			}
			return 0, f
		}}
}

// wait waits for the end of an execution, which begin starts at its first call or, while another one is running, at a
// later one.
func wait(begin func() (*Execution, <-chan struct{})) *device.Waiting {
	w := &device.Waiting{}
	w.Met = func() (bool, <-chan struct{}) {
		x, other := begin()
		if x == nil {
			return false, other
		}
		if !x.over() {
			return false, x.Done
		}
		w.Until = x.end
		return true, nil
	}
	return w
}

// Join ends an execution: the stream receives its failure.
func (x *Execution) Join(s *device.Stream) *fail.Failure {
	for _, r := range x.runners {
		s.Context.Device.Machine.Strict.EndLane(&s.Strict, &r.Strict)
	}
	for _, r := range x.runners {
		if r.Failure != nil {
			return r.Failure
		}
	}
	return nil
}

// Begin starts an execution. If another one is running, it returns a channel that is closed at its end.
func (g *Graph) Begin(s *device.Stream, outside []*device.Mark) (*Execution, <-chan struct{}) {
	g.Lock()
	if x := g.Current; x != nil {
		g.Unlock()
		return nil, x.Done
	}
	x := &Execution{graph: g, Outside: outside, Done: make(chan struct{})}
	g.Current = x
	s.Time = max(s.Time, g.free)
	if len(g.Conditions) > 0 && !g.Part {
		g.Unlock()
		g.assign(s)
		g.Lock()
	}
	lanes, stop := g.Lanes, s.Life.Stop
	if g.Built {
		stop = x.haltable(s.Life.Stop)
	}
	for range g.Marks {
		x.marks = append(x.marks, &device.Mark{Done: make(chan struct{})})
	}
	for _, l := range lanes {
		if !l.Later {
			x.runners = append(x.runners, s.NewLane(l.Stream, stop, &laneRun{Execution: x, lane: l}))
		}
	}
	first := slices.Clone(x.runners) // these may start other lanes
	g.Unlock()
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

// over reports whether the execution has ended.
func (x *Execution) over() bool {
	if mutant.Breaks("execution_in_order") {
		return true
	}
	return device.IsClosed(x.Done)
}

// haltable returns a stop channel for the run of a built model. It is closed by an abort or when the stream discards
// its work.
func (x *Execution) haltable(outer chan struct{}) chan struct{} {
	stop := make(chan struct{})
	x.Halt = sync.OnceFunc(func() { close(stop) })
	go func() {
		select {
		case <-outer:
			x.Halt()
		case <-x.Done:
		}
	}()
	return stop
}

// Start starts a lane at the time of stream s. A lane that has started keeps running.
func (x *Execution) Start(s *device.Stream, l *Lane) {
	x.graph.Lock()
	for _, r := range x.runners {
		if Running(r).begun == l {
			x.graph.Unlock()
			return
		}
	}
	r := s.NewLane(l.Stream, s.Life.Stop, &laneRun{Execution: x, lane: l, begun: l})
	x.runners = append(x.runners, r)
	x.graph.Unlock()
	x.left.Add(1)
	s.Context.Device.Machine.Strict.BeginLane(&s.Strict, &r.Strict)
	s.Context.Device.Machine.Clock.RunLane(r)
}

func (x *Execution) laneEnded() {
	if x.left.Add(-1) == 0 {
		x.graph.Lock()
		for _, r := range x.runners {
			x.end = max(x.end, r.Time)
		}
		x.graph.Current, x.graph.free = nil, x.end
		x.graph.Unlock()
		close(x.Done)
	}
}

// RecordMark returns a record task inside a graph. It also marks in a cancelled lane, since others wait.
func RecordMark(at func(*Execution) *device.Mark) device.Task {
	return device.Task{Kind: device.TaskRecord, Always: true, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		m := at(Running(s).Execution)
		m.Time = s.Time / device.Tick * device.Tick
		s.Lock()
		m.Failure = s.Failure
		s.Unlock()
		s.Context.Device.Machine.Strict.Release(&s.Strict, &m.Known)
		if !device.IsClosed(m.Done) { // a jump in a built model may repeat the record
			close(m.Done)
		}
		return 0, nil
	}}
}

// WaitMark returns a wait task inside a graph.
func WaitMark(at func(*Execution) *device.Mark) device.Task {
	return device.Task{Kind: device.TaskWait,
		Begin: func(s *device.Stream) *device.Waiting {
			if m := at(Running(s).Execution); m != nil {
				return m.Wait(0, nil)
			}
			return nil
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			if m := at(Running(s).Execution); m != nil {
				s.Context.Device.Machine.Strict.Acquire(&s.Strict, &m.Known)
			}
			return 0, nil
		}}
}

// Inside selects an execution's mark by number.
func Inside(n int) func(*Execution) *device.Mark {
	return func(x *Execution) *device.Mark { return x.marks[n] }
}

// EndGraph releases a graph's resources.
func (s *Models) EndGraph(g *Graph) {
	g.Lock()
	lanes, ended, conditions := g.Lanes, g.Ended, g.Conditions
	g.Lanes, g.Ended, g.Conditions = nil, nil, nil
	g.Unlock()
	for _, c := range conditions {
		s.endCondition(c)
	}
	for _, l := range lanes {
		if b := recordingOf(l.Stream).Bound.Load(); b != nil && b.Lane == l {
			recordingOf(l.Stream).Bound.CompareAndSwap(b, nil)
		}
		for _, k := range l.Tasks {
			s.DropTask(k)
		}
	}
	if mutant.Breaks("called_when_destroyed") {
		ended = nil
	}
	for _, c := range ended {
		s.caller.Call(c.Func, c.Arg)
	}
}

// endCondition releases the word and the parts.
func (s *Models) endCondition(c *Condition) {
	s.Conditions.Remove(c.Handle)
	for _, p := range c.Parts {
		s.Captures.Spoil(p, status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the model with the captured part was destroyed"))
		s.Graphs.Remove(p.Handle)
		s.EndGraph(p)
	}
	s.strict.Drops(c.Word)
	if c.there() && !mutant.Breaks("word_ends_with_the_model") {
		c.Graph.Device.Memory.Free(c.Word.Addr, memory.ByRuntime)
	}
}

// DropTask releases a graph task and its handle.
func (s *Models) DropTask(k *GraphTask) {
	if k.Handle != 0 {
		s.GraphTasks.Remove(k.Handle)
	}
	if c := k.Change; c != nil && c.Task != nil {
		c.Task.End()
	}
	if k.OpInfo.Size > 0 {
		s.text.Put(k.OpInfo.Addr, space.RoundUp(k.OpInfo.Size, 8))
	}
	k.End()
}
