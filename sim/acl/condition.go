package acl

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// A captured model may have parts that run under a condition: a word on the device, which the model's own tasks may write, or the
// program between two runs. A part is a model too, captured into by itself, and runs as one task of the model that it belongs to.

// condition is such a word, and the parts that hang on it.
type condition struct {
	handle  uint64
	graph   *graph // that asks it
	word    space.Span
	ends    uint32 // the device's memory that the word lies in
	initial uint64
	assign  bool // the word is set to initial when the whole model begins

	// Constant once the condition has its task.
	kind  acl.MdlRICondTaskType
	parts []*graph
}

const (
	conditionSize = 8 // bytes of the word (documented)
	maxParts      = 1 << 16
)

// newGraph makes a model of a device, which is captured into or built.
func (t *Thread) newGraph(g *graph) acl.Error {
	if g.handle = t.sim.graphs.Add(g); g.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_NO_MODEL_RESOURCE, "too many models")
	}
	g.id, g.serial = uint32(g.handle>>4&(space.MaxHandles-1)), t.sim.models.Add(1)
	return acl.ACL_SUCCESS
}

// complete tells whether all parts of a graph were captured, and theirs.
func (g *graph) complete() bool {
	g.mu.Lock()
	conditions := slices.Clone(g.conditions)
	g.mu.Unlock()
	for _, c := range conditions {
		for _, p := range c.parts {
			if !p.captured.Load() || !p.complete() {
				return false
			}
		}
	}
	return true
}

// assign sets the words of a graph and its parts that begin each run with a value of theirs.
func (g *graph) assign(s *device.Stream) {
	g.mu.Lock()
	conditions := slices.Clone(g.conditions)
	g.mu.Unlock()
	for _, c := range conditions {
		if c.assign && c.there() && !mutant.Breaks("assigned_in_each_run") {
			s.Context.Device.Machine.Strict.TaskTouches(&s.Strict, c.word.Addr, conditionSize, space.Write)
			atomic.StoreUint64((*uint64)(space.Pointer(c.word.Addr)), c.initial)
			s.Context.Device.Machine.Known(c.word.Addr, conditionSize)
		}
		for _, p := range c.parts {
			if !mutant.Breaks("part_in_a_part") {
				p.assign(s)
			}
		}
	}
}

// there tells whether the device's memory lives in which the word lies.
func (c *condition) there() bool { return c.graph.dev.Memory.Ends.Load() == c.ends }

// endCondition gives back the word and the parts.
func (s *Sim) endCondition(c *condition) {
	s.conditions.Remove(c.handle)
	for _, p := range c.parts {
		s.captures.spoil(p, failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the model whose part is captured is gone"))
		s.graphs.Remove(p.handle)
		s.endGraph(p)
	}
	s.Strict.Drops(c.word)
	if c.there() && !mutant.Breaks("word_ends_with_the_model") {
		c.graph.dev.Memory.Free(c.word.Addr, memory.ByRuntime)
	}
}

// choose reads the word and returns the part that runs, nil for none.
func (c *condition) choose(s *device.Stream) (*graph, *fail.Failure) {
	if !c.there() {
		return nil, failed(acl.ACL_ERROR_RT_SYS_DMA, "the condition of model %d for stream %d lies in memory of the device that is gone", c.graph.id, s.ID)
	}
	sim := s.Context.Device.Machine
	sim.Strict.TaskTouches(&s.Strict, c.word.Addr, conditionSize, space.Read)
	n := atomic.LoadUint64((*uint64)(space.Pointer(c.word.Addr)))
	unknown, depends := sim.Unknown(c.word.Addr, conditionSize)
	if depends = depends && device.Rank(unknown) == device.KernelRank; depends {
		sim.SayUnknown(unknown, "model %d goes on by a condition which depends on what kernel %q would have written, which no kernel library knows", c.graph.id, unknown)
	}
	switch {
	case c.kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE:
		if n == 0 || depends { // else it would never end
			return nil, nil
		}
		n = 0
	case c.kind == acl.ACL_MODEL_RI_COND_TYPE_IF:
		n = boolean(n == 0 && !mutant.Breaks("if_chooses"))
		if mutant.Breaks("if_without_else") {
			n = 0
		}
	case mutant.Breaks("switch_chooses"):
		n = min(n, uint64(len(c.parts)-1))
	}
	if n >= uint64(len(c.parts)) {
		return nil, nil
	}
	return c.parts[n], nil
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// conditionRun is the task that asks a condition, as it runs: there is one run at a time.
type conditionRun struct {
	*condition
	part  *graph // that runs
	x     *execution
	wrong *fail.Failure
}

// task runs the part that the word chooses, when its turn has come.
func (c *condition) task() device.Task {
	r := &conditionRun{condition: c}
	return device.Task{Kind: device.TaskGraph, Begin: r.begin, Run: r.end}
}

func (r *conditionRun) begin(s *device.Stream) *device.Waiting {
	r.x = nil
	if r.part, r.wrong = r.choose(s); r.part == nil {
		return nil
	}
	if mutant.Breaks("behind_the_part") {
		_, _ = r.part.begin(s, nil)
		r.part = nil
		return nil
	}
	return &device.Waiting{Met: func() (bool, <-chan struct{}) {
		if r.x == nil {
			var other <-chan struct{}
			if r.x, other = r.part.begin(s, nil); r.x == nil {
				return false, other
			}
		}
		return r.x.over(), r.x.done
	}}
}

// end ends a look at the word, which takes time. A loop is done by the task again and again.
func (r *conditionRun) end(s *device.Stream) (time.Duration, *fail.Failure) {
	took := max(device.Tick, time.Duration(s.Context.Device.Machine.Model.Launch.Overhead))
	if r.part == nil {
		return took, r.wrong
	}
	f := r.x.join(s)
	if mutant.Breaks("while_repeats") {
		return took, f
	}
	if f == nil && r.kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE {
		running(s).jump = &place{running(s).lane, running(s).at}
	}
	return took, f
}

// MdlRICondHandleCreate makes a condition of a model that is being captured.
func (t *Thread) MdlRICondHandleCreate(modelRI acl.MdlRI, defaultLaunchValue uint32, flag acl.MdlRICondHandleFlag, handle *acl.MdlRICondHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	g := t.sim.graphs.Get(uint64(modelRI))
	switch {
	case g == nil:
		return t.badHandle(space.KindGraph, uint64(modelRI))
	case handle == nil:
		return t.null("handle")
	case flag < 0 || flag > acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag %#x is unknown", flag)
	case g.built:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d is built and not captured: it has no conditions", g.id)
	case !t.sim.captures.into(g) && !mutant.Breaks("condition_during_capture"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not being captured", g.id)
	case c.Device != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the thread's context to device %d", g.id, g.dev.ID, c.Device.ID)
	}
	x := &condition{graph: g, ends: g.dev.Memory.Ends.Load(), initial: uint64(defaultLaunchValue), assign: flag == acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT || mutant.Breaks("kept_between_runs")}
	at, f := t.sim.allocOwn(g.dev, conditionSize)
	if f != nil {
		return t.failWith(f)
	}
	x.word = space.Span{Addr: at, Size: conditionSize}
	if x.handle = t.sim.conditions.Add(x); x.handle == 0 {
		g.dev.Memory.Free(at, memory.ByRuntime)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many conditions")
	}
	t.sim.Strict.Gets(&t.Strict, at, conditionSize, strict.ConditionWord)
	g.mu.Lock()
	g.conditions = append(g.conditions, x)
	g.mu.Unlock()
	*handle = acl.MdlRICondHandle(x.handle)
	return acl.ACL_SUCCESS
}

// condition returns the condition of a handle.
func (t *Thread) condition(h acl.MdlRICondHandle) (*condition, acl.Error) {
	x := t.sim.conditions.Get(uint64(h))
	if x == nil {
		return nil, t.badHandle(space.KindCondition, uint64(h))
	}
	return x, acl.ACL_SUCCESS
}

// MdlRICondHandleGetCondPtr returns where the word of a condition lies. It lives as long as the model.
func (t *Thread) MdlRICondHandleGetCondPtr(handle acl.MdlRICondHandle, ptr **uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	x, e := t.condition(handle)
	if e != 0 {
		return e
	}
	if ptr == nil {
		return t.null("ptr")
	}
	*ptr = (*uint64)(space.Pointer(x.word.Addr))
	return acl.ACL_SUCCESS
}

// streamOfItsOwn returns the stream of a handle that is not null.
func (t *Thread) streamOfItsOwn(on acl.Stream) (*device.Stream, acl.Error) {
	if on == 0 {
		return nil, t.null("stream")
	}
	return t.stream(on)
}

// MdlRIAddCondTask puts a task that asks a condition into a capture, and returns the parts that are to be captured.
func (t *Thread) MdlRIAddCondTask(params acl.MdlRICondTaskParams, on acl.Stream, flags uint32) acl.Error {
	s, e := t.streamOfItsOwn(on)
	if e != 0 {
		return e
	}
	switch {
	case flags != 0 && !mutant.Breaks("reserved_flags_of_a_condition"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags is %#x and has to be 0", flags)
	case params.Handle == 0:
		return t.absent("params.handle")
	case params.ModelRIArray == 0:
		return t.absent("params.modelRIArray")
	}
	x, e := t.condition(params.Handle)
	if e != 0 {
		return e
	}
	c := attached(s).capture.Load()
	most := uint32(maxParts)
	switch params.Type {
	case acl.ACL_MODEL_RI_COND_TYPE_IF:
		most = 2
	case acl.ACL_MODEL_RI_COND_TYPE_WHILE:
		most = 1
	case acl.ACL_MODEL_RI_COND_TYPE_SWITCH:
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "condition type %d is unknown", params.Type)
	}
	switch {
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	case x.parts != nil && !mutant.Breaks("one_task_of_a_condition"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition has its task already")
	case c.graph != x.graph && !mutant.Breaks("condition_of_the_model"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition is of model %d, stream %d is captured into model %d", x.graph.id, s.ID, c.graph.id)
	case (params.Size == 0 || params.Size > most) && !mutant.Breaks("number_of_parts"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d parts for a condition of type %d: 1 to %d", params.Size, params.Type, most)
	}
	var parts []*graph
	drop := func() {
		for _, p := range parts {
			t.sim.graphs.Remove(p.handle)
		}
	}
	for range params.Size {
		p := &graph{dev: x.graph.dev, part: true}
		if e := t.newGraph(p); e != 0 {
			drop()
			return e
		}
		parts = append(parts, p)
	}
	x.kind, x.parts = params.Type, parts
	if e := t.submit(s, x.task()); e != 0 {
		x.parts = nil
		drop()
		return e
	}
	to := space.List((*acl.MdlRI)(space.Pointer(params.ModelRIArray)), uint64(params.Size))
	for i, p := range parts {
		to[i] = acl.MdlRI(p.handle)
	}
	return acl.ACL_SUCCESS
}

// MdlRICaptureToModelRIBegin begins to record the tasks of a stream into a part of a model.
func (t *Thread) MdlRICaptureToModelRIBegin(on acl.Stream, modelRI acl.MdlRI, mode acl.MdlRICaptureMode) acl.Error {
	s, e := t.streamOfItsOwn(on)
	if e != 0 {
		return e
	}
	g := t.sim.graphs.Get(uint64(modelRI))
	switch {
	case g == nil:
		return t.badHandle(space.KindGraph, uint64(modelRI))
	case !g.part && !mutant.Breaks("captured_into_parts"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is no part of another one", g.id)
	case s.Context.Device != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the stream to device %d", g.id, g.dev.ID, s.Context.Device.ID)
	}
	return t.beginCapture(s, g, mode)
}
