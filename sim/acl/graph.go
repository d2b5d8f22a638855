package acl

import (
	"slices"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// graph returns the model of a handle, unless a capture into it is active.
func (t *Thread) graph(h acl.MdlRI) (*graph.Graph, acl.Error) {
	g, e := find(t, &t.sim.Graphs, uint64(h))
	if e != 0 {
		return nil, e
	}
	if t.sim.Captures.Into(g) {
		return nil, t.fail(acl.ACL_ERROR_RT_MODEL_CAPTURED, "model %d is still being captured", g.ID)
	}
	return g, acl.ACL_SUCCESS
}

// whole returns the model of a handle, unless it is a part.
func (t *Thread) whole(h acl.MdlRI) (*graph.Graph, acl.Error) {
	g, e := t.graph(h)
	if e == 0 && g.Part && !mutant.Breaks("part_of_a_model") {
		return nil, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d is part of another model", g.ID)
	}
	return g, e
}

// runnable returns the complete model of a handle.
func (t *Thread) runnable(h acl.MdlRI) (*graph.Graph, acl.Error) {
	g, e := t.whole(h)
	if e != 0 {
		return nil, e
	}
	g.Lock()
	defer g.Unlock()
	if g.Building {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not complete: call aclmdlRIBuildEnd first", g.ID)
	}
	return g, acl.ACL_SUCCESS
}

// executeGraph submits a run of a model to a stream.
func (t *Thread) executeGraph(g *graph.Graph, s *device.Stream) acl.Error {
	switch {
	case s.Context.Device != g.Device:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, but the stream to device %d", g.ID, g.Device.ID, s.Context.Device.ID)
	case attached(s).Capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't run a model", s.ID)
	}
	g.Running.Add(1)
	marks := g.OutsideMarks()
	k := g.Run(marks)
	k.Release = func() {
		g.Unrecorded(marks, s)
		g.Running.Add(-1)
	}
	e := t.submit(s, k)
	if e == 0 {
		g.Recorded(marks)
	}
	return e
}

// MdlRIExecuteAsync runs a model in stream order.
func (t *Thread) MdlRIExecuteAsync(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, s, e := withStream(t, t.runnable, modelRI, on)
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout is %d: want milliseconds above 0, or -1 for no limit", timeout)
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	c := t.current
	c.Device.Lock()
	s, f := t.sim.newStreamLocked(c, 0, 0)
	c.Device.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	s.Hidden = true
	e = t.executeGraph(g, s)
	if e == 0 {
		limit, _ := t.timeout(timeout)
		if !s.Wait(&t.HostThread, 1, limit) {
			e = t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "model %d did not finish within %v", g.ID, limit)
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
	if g.Running.Load() > 0 && !mutant.Breaks("destroying_a_running_graph") {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.ID)
	}
	if t.sim.Graphs.Remove(g.Handle) == nil {
		return t.badHandle(space.KindGraph, g.Handle)
	}
	t.sim.EndGraph(g)
	return acl.ACL_SUCCESS
}

// maxGraphName is the largest stored name, with its NUL.
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
	if name == nil {
		return t.null("name")
	}
	n := space.GoString(name)
	g.Lock()
	if g.Name != "" && mutant.Breaks("name_of_a_graph") {
		n = g.Name
	}
	g.Name = n
	g.Unlock()
	return acl.ACL_SUCCESS
}

// MdlRIGetName stores a model's name, cut to 512 bytes (documented) and to the buffer.
func (t *Thread) MdlRIGetName(modelRI acl.MdlRI, maxLen uint32, name *byte) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	g.Lock()
	n := g.Name
	g.Unlock()
	switch {
	case name == nil:
		return t.null("name")
	case maxLen == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxLen is 0: want 1 or more")
	}
	space.PutText(space.List(name, uint64(min(maxLen, graphNameLimit()))), n)
	return acl.ACL_SUCCESS
}

func (t *Thread) MdlRIGetId(modelRI acl.MdlRI, modelRIId *uint32) acl.Error {
	g, e := find(t, &t.sim.Graphs, uint64(modelRI)) // also while it is captured
	if e != 0 {
		return e
	}
	return put(t, "modelRIId", modelRIId, g.ID)
}

// MdlRIDebugPrint logs the tasks of a model.
func (t *Thread) MdlRIDebugPrint(modelRI acl.MdlRI) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	g.Lock()
	defer g.Unlock()
	for _, l := range g.Lanes {
		for i, k := range l.Tasks {
			t.sim.Log("model %d, device %d, stream %d, task %d: %s %s", g.ID, g.Device.ID, l.Stream.ID, i, k.Kind, k.Name)
		}
	}
	return acl.ACL_SUCCESS
}

// MdlRIDestroyRegisterCallback registers a program function for the end of a model.
func (t *Thread) MdlRIDestroyRegisterCallback(modelRI acl.MdlRI, func_, userData acl.Addr) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	switch {
	case func_ == 0:
		return t.null("func")
	case t.sim.opts.Caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "functions of the program can't be called in this process")
	}
	g.Lock()
	defer g.Unlock()
	if slices.ContainsFunc(g.Ended, func(c callback.Callback) bool { return c.Func == func_ }) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the function is registered already")
	}
	g.Ended = append(g.Ended, callback.Callback{Func: func_, Arg: userData})
	return acl.ACL_SUCCESS
}

// MdlRIDestroyUnregisterCallback ends MdlRIDestroyRegisterCallback.
func (t *Thread) MdlRIDestroyUnregisterCallback(modelRI acl.MdlRI, func_ acl.Addr) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	g.Lock()
	defer g.Unlock()
	i := slices.IndexFunc(g.Ended, func(c callback.Callback) bool { return c.Func == func_ })
	if i < 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the function is not registered")
	}
	g.Ended = slices.Delete(g.Ended, i, i+1)
	return acl.ACL_SUCCESS
}

// newGraph registers a model that is being captured or built.
func (t *Thread) newGraph(g *graph.Graph) acl.Error {
	if g.Handle = t.sim.Graphs.Add(g); g.Handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_NO_MODEL_RESOURCE, "create a model: the limit is reached")
	}
	g.ID, g.Serial = uint32(g.Handle>>4&(space.MaxHandles-1)), t.sim.Made.Add(1)
	return acl.ACL_SUCCESS
}

// MdlRICondHandleCreate creates a condition in a model that is being captured.
func (t *Thread) MdlRICondHandleCreate(modelRI acl.MdlRI, defaultLaunchValue uint32, flag acl.MdlRICondHandleFlag, handle *acl.MdlRICondHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	g := t.sim.Graphs.Get(uint64(modelRI))
	switch {
	case g == nil:
		return t.badHandle(space.KindGraph, uint64(modelRI))
	case handle == nil:
		return t.null("handle")
	case flag < 0 || flag > acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag %#x is unknown", flag)
	case g.Built:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d was built, not captured: it can't have conditions", g.ID)
	case !t.sim.Captures.Into(g):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not being captured", g.ID)
	case c.Device != g.Device:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, but the current context to device %d", g.ID, g.Device.ID, c.Device.ID)
	}
	x := &graph.Condition{Graph: g, Ends: g.Device.Memory.Ends.Load(), Initial: uint64(defaultLaunchValue), Assign: flag == acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT}
	at, f := t.sim.allocOwn(g.Device, graph.ConditionSize)
	if f != nil {
		return t.failWith(f)
	}
	x.Word = space.Span{Addr: at, Size: graph.ConditionSize}
	if x.Handle = t.sim.Conditions.Add(x); x.Handle == 0 {
		g.Device.Memory.Free(at, memory.ByRuntime)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create a condition: the limit is reached")
	}
	t.sim.Strict.Gets(&t.Strict, at, graph.ConditionSize, strict.ConditionWord)
	g.Lock()
	g.Conditions = append(g.Conditions, x)
	g.Unlock()
	*handle = acl.MdlRICondHandle(x.Handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) condition(h acl.MdlRICondHandle) (*graph.Condition, acl.Error) {
	x := t.sim.Conditions.Get(uint64(h))
	if x == nil {
		return nil, t.badHandle(space.KindCondition, uint64(h))
	}
	return x, acl.ACL_SUCCESS
}

// MdlRICondHandleGetCondPtr returns the address of a condition's word. It is valid as long as the model.
func (t *Thread) MdlRICondHandleGetCondPtr(handle acl.MdlRICondHandle, ptr **uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	x, e := t.condition(handle)
	if e != 0 {
		return e
	}
	return put(t, "ptr", ptr, (*uint64)(space.Pointer(x.Word.Addr)))
}

// streamOfItsOwn returns the stream of a non-null handle.
func (t *Thread) streamOfItsOwn(on acl.Stream) (*device.Stream, acl.Error) {
	if on == 0 {
		return nil, t.null("stream")
	}
	return t.stream(on)
}

// MdlRIAddCondTask captures a condition task, and returns the parts to capture.
func (t *Thread) MdlRIAddCondTask(params acl.MdlRICondTaskParams, on acl.Stream, flags uint32) acl.Error {
	s, e := t.streamOfItsOwn(on)
	if e != 0 {
		return e
	}
	switch {
	case flags != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags are %#x: want 0", flags)
	case params.Handle == 0:
		return t.absent("params.handle")
	case params.ModelRIArray == 0:
		return t.absent("params.modelRIArray")
	}
	x, e := t.condition(params.Handle)
	if e != 0 {
		return e
	}
	c := attached(s).Capture.Load()
	most := uint32(graph.MaxParts)
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
	case x.Parts != nil:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition has a task already")
	case c.Graph != x.Graph:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the condition belongs to model %d, but stream %d is captured into model %d", x.Graph.ID, s.ID, c.Graph.ID)
	case params.Size == 0 || params.Size > most:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d parts for a condition of type %d: want 1 to %d", params.Size, params.Type, most)
	}
	var parts []*graph.Graph
	drop := func() {
		for _, p := range parts {
			t.sim.Graphs.Remove(p.Handle)
		}
	}
	for range params.Size {
		p := &graph.Graph{Device: x.Graph.Device, Part: true}
		if e := t.newGraph(p); e != 0 {
			drop()
			return e
		}
		parts = append(parts, p)
	}
	x.Kind, x.Parts = params.Type, parts
	if e := t.submit(s, x.Task()); e != 0 {
		x.Parts = nil
		drop()
		return e
	}
	to := space.List((*acl.MdlRI)(space.Pointer(params.ModelRIArray)), uint64(params.Size))
	for i, p := range parts {
		to[i] = acl.MdlRI(p.Handle)
	}
	return acl.ACL_SUCCESS
}

// MdlRICaptureToModelRIBegin starts to record a stream's tasks into a part.
func (t *Thread) MdlRICaptureToModelRIBegin(on acl.Stream, modelRI acl.MdlRI, mode acl.MdlRICaptureMode) acl.Error {
	s, e := t.streamOfItsOwn(on)
	if e != 0 {
		return e
	}
	g := t.sim.Graphs.Get(uint64(modelRI))
	switch {
	case g == nil:
		return t.badHandle(space.KindGraph, uint64(modelRI))
	case !g.Part && !mutant.Breaks("captured_into_parts"):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is not part of another model", g.ID)
	case s.Context.Device != g.Device:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, but the stream to device %d", g.ID, g.Device.ID, s.Context.Device.ID)
	}
	return t.beginCapture(s, g, mode)
}
