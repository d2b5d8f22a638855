package sim

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
)

// A captured model may have parts that run under a condition: a word on the device, which the model's own tasks may write, or the
// program between two runs. A part is a model too, captured into by itself, and runs as one task of the model that it belongs to.

// condition is such a word, and the parts that hang on it.
type condition struct {
	handle  uint64
	graph   *graph // that asks it
	word    device.Span
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
	g.id, g.serial = uint32(g.handle>>4&(device.MaxHandles-1)), t.sim.models.Add(1)
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
func (g *graph) assign(s *stream) {
	g.mu.Lock()
	conditions := slices.Clone(g.conditions)
	g.mu.Unlock()
	for _, c := range conditions {
		if c.assign && c.there() && !broken("assigned_in_each_run") {
			s.ctx.dev.sim.strict.TaskTouches(&s.strict, c.word.Addr, conditionSize, device.Write)
			atomic.StoreUint64((*uint64)(device.Pointer(c.word.Addr)), c.initial)
			s.ctx.dev.sim.known(c.word.Addr, conditionSize)
		}
		for _, p := range c.parts {
			if !broken("part_in_a_part") {
				p.assign(s)
			}
		}
	}
}

// there tells whether the device's memory lives in which the word lies.
func (c *condition) there() bool { return c.graph.dev.mem.ends.Load() == c.ends }

// end gives back the word and the parts.
func (c *condition) end() {
	d := c.graph.dev
	d.sim.conditions.Remove(c.handle)
	for _, p := range c.parts {
		d.sim.captures.spoil(p, failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the model whose part is captured is gone"))
		d.sim.graphs.Remove(p.handle)
		p.end()
	}
	d.sim.strict.Drops(c.word)
	if c.there() && !broken("word_ends_with_the_model") {
		d.mem.free(c.word.Addr, byRuntime)
	}
}

// choose reads the word and returns the part that runs, nil for none.
func (c *condition) choose(s *stream) (*graph, *failure) {
	if !c.there() {
		return nil, failed(acl.ACL_ERROR_RT_SYS_DMA, "the condition of model %d for stream %d lies in memory of the device that is gone", c.graph.id, s.id)
	}
	sim := s.ctx.dev.sim
	sim.strict.TaskTouches(&s.strict, c.word.Addr, conditionSize, device.Read)
	n := atomic.LoadUint64((*uint64)(device.Pointer(c.word.Addr)))
	unknown, depends := sim.Unknown(c.word.Addr, conditionSize)
	if depends = depends && rank(unknown) == kernelRank; depends {
		sim.sayUnknown(unknown, "model %d goes on by a condition which depends on what kernel %q would have written, which no kernel library knows", c.graph.id, unknown)
	}
	switch {
	case c.kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE:
		if n == 0 || depends { // else it would never end
			return nil, nil
		}
		n = 0
	case c.kind == acl.ACL_MODEL_RI_COND_TYPE_IF:
		n = boolean(n == 0 && !broken("if_chooses"))
		if broken("if_without_else") {
			n = 0
		}
	case broken("switch_chooses"):
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
	wrong *failure
}

// task runs the part that the word chooses, when its turn has come.
func (c *condition) task() task {
	r := &conditionRun{condition: c}
	return task{kind: taskGraph, begin: r.begin, run: r.end}
}

func (r *conditionRun) begin(s *stream) *waiting {
	r.x = nil
	if r.part, r.wrong = r.choose(s); r.part == nil {
		return nil
	}
	if broken("behind_the_part") {
		_, _ = r.part.begin(s, nil)
		r.part = nil
		return nil
	}
	return &waiting{met: func() (bool, <-chan struct{}) {
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
func (r *conditionRun) end(s *stream) (time.Duration, *failure) {
	took := max(tick, time.Duration(s.ctx.dev.sim.model.Launch.Overhead))
	if r.part == nil {
		return took, r.wrong
	}
	f := r.x.join(s)
	if broken("while_repeats") {
		return took, f
	}
	if f == nil && r.kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE {
		s.lane.jump = &place{s.lane.lane, s.lane.at}
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
		return t.badHandle(device.KindGraph, uint64(modelRI))
	case handle == nil:
		return t.null("handle")
	case flag < 0 || flag > acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag %#x is unknown", flag)
	case g.built:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d is built and not captured: it has no conditions", g.id)
	case !t.sim.captures.into(g) && !broken("condition_during_capture"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not being captured", g.id)
	case c.dev != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the thread's context to device %d", g.id, g.dev.id, c.dev.id)
	}
	x := &condition{graph: g, ends: g.dev.mem.ends.Load(), initial: uint64(defaultLaunchValue), assign: flag == acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT || broken("kept_between_runs")}
	at, f := t.sim.allocOwn(g.dev, conditionSize)
	if f != nil {
		return t.failWith(f)
	}
	x.word = device.Span{Addr: at, Size: conditionSize}
	if x.handle = t.sim.conditions.Add(x); x.handle == 0 {
		g.dev.mem.free(at, byRuntime)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many conditions")
	}
	t.sim.strict.Gets(&t.strict, at, conditionSize, strict.ConditionWord)
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
		return nil, t.badHandle(device.KindCondition, uint64(h))
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
	*ptr = (*uint64)(device.Pointer(x.word.Addr))
	return acl.ACL_SUCCESS
}

// streamOfItsOwn returns the stream of a handle that is not null.
func (t *Thread) streamOfItsOwn(on acl.Stream) (*stream, acl.Error) {
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
	case flags != 0 && !broken("reserved_flags_of_a_condition"):
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
	c := s.program.capture.Load()
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
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.id)
	case x.parts != nil && !broken("one_task_of_a_condition"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition has its task already")
	case c.graph != x.graph && !broken("condition_of_the_model"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition is of model %d, stream %d is captured into model %d", x.graph.id, s.id, c.graph.id)
	case (params.Size == 0 || params.Size > most) && !broken("number_of_parts"):
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
	to := device.List((*acl.MdlRI)(device.Pointer(params.ModelRIArray)), uint64(params.Size))
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
		return t.badHandle(device.KindGraph, uint64(modelRI))
	case !g.part && !broken("captured_into_parts"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is no part of another one", g.id)
	case s.ctx.dev != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the stream to device %d", g.id, g.dev.id, s.ctx.dev.id)
	}
	return t.beginCapture(s, g, mode)
}
