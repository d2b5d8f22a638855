package acl

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A model can be built by hand: streams are bound to it, and what is put on them is kept until it runs. Unlike in a capture, some
// streams may begin only when others say so, and go on elsewhere: at another stream's beginning, or at a label.

// bound is a stream's place in a model that is built by hand.
type bound struct {
	graph *graph
	lane  *lane
	ended bool // by aclmdlRIEndTask
}

// Flags of a bound stream: it begins with the model, or when another stream activates it.
const (
	boundHead  = 0
	boundLater = 0x7fffffff
)

// build puts a task into the model that a stream is bound to, and tells whether it is bound to one.
func (t *Thread) build(s *device.Stream, k device.Task) (bool, acl.Error) {
	b := attached(s).bound.Load()
	if b == nil {
		return false, acl.ACL_SUCCESS
	}
	x := &graphTask{Task: k, mark: -1}
	if f := b.add(s, x); f != nil {
		k.End()
		return true, t.failWith(f)
	}
	t.made(s.Context.Device.Tasks.Add(1), s, x)
	return true, acl.ACL_SUCCESS
}

func (b *bound) add(s *device.Stream, k *graphTask) *fail.Failure {
	g := b.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.building || b.ended {
		return failed(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d is bound to model %d, which takes no more tasks", s.ID, g.id)
	}
	b.lane.tasks = append(b.lane.tasks, k)
	return nil
}

// buildRecord records an event inside the model of a stream.
func (t *Thread) buildRecord(b *bound, ev *event, s *device.Stream) acl.Error {
	b.graph.mu.Lock()
	n := b.graph.marks
	b.graph.marks++
	b.graph.mu.Unlock()
	k := recordMark(inside(n))
	k.Detail = ev
	if f := b.add(s, &graphTask{Task: k, mark: n}); f != nil {
		return t.failWith(f)
	}
	ev.mu.Lock()
	ev.built = &builtMark{b.graph, n}
	ev.mu.Unlock()
	return acl.ACL_SUCCESS
}

// builtMark is a record of an event inside a model.
type builtMark struct {
	graph *graph
	mark  int
}

// buildWait lets a stream wait for an event inside their model.
func (t *Thread) buildWait(b *bound, ev *event, s *device.Stream) acl.Error {
	ev.mu.Lock()
	m := ev.built
	ev.mu.Unlock()
	if m == nil || m.graph != b.graph {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "event %#x was not recorded in model %d, to which stream %d is bound", ev.handle, b.graph.id, s.ID)
	}
	k := waitMark(inside(m.mark))
	k.Detail = ev
	if f := b.add(s, &graphTask{Task: k, mark: m.mark}); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// MdlRIBuildBegin makes an empty model, to be built by hand.
func (t *Thread) MdlRIBuildBegin(modelRI *acl.MdlRI, flag uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	switch {
	case modelRI == nil:
		return t.null("modelRI")
	case flag != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag is %d and has to be 0", flag)
	}
	g := &graph{dev: c.Device, built: true, building: true}
	if e := t.newGraph(g); e != 0 {
		return e
	}
	*modelRI = acl.MdlRI(g.handle)
	return acl.ACL_SUCCESS
}

// builtGraph returns a model that is, or was, built by hand.
func (t *Thread) builtGraph(h acl.MdlRI) (*graph, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	g := t.sim.graphs.Get(uint64(h))
	switch {
	case g == nil:
		return nil, t.badHandle(space.KindGraph, uint64(h))
	case !g.built:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d was captured and not built", g.id)
	}
	return g, acl.ACL_SUCCESS
}

// boundTo returns a stream's place in a model.
func (t *Thread) boundTo(g *graph, on acl.Stream) (*device.Stream, *bound, acl.Error) {
	s, e := t.stream(on)
	if e != 0 {
		return nil, nil, e
	}
	b := attached(s).bound.Load()
	if b == nil || g != nil && b.graph != g {
		return nil, nil, t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d is not bound to the model", s.ID)
	}
	return s, b, acl.ACL_SUCCESS
}

// MdlRIBindStream binds a persistent stream to a model.
func (t *Thread) MdlRIBindStream(modelRI acl.MdlRI, on acl.Stream, flag uint32) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	if on == 0 {
		return t.absent("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case flag != boundHead && flag != boundLater:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag %#x is unknown", flag)
	case s.Flags&acl.ACL_STREAM_PERSISTENT == 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %d was made without ACL_STREAM_PERSISTENT", s.ID)
	case s.Context.Device != g.dev:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, the stream to device %d", g.id, g.dev.ID, s.Context.Device.ID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.building {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is complete", g.id)
	}
	l := &lane{stream: s, later: flag == boundLater}
	if !attached(s).bound.CompareAndSwap(nil, &bound{graph: g, lane: l}) {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d is bound to a model already", s.ID)
	}
	g.lanes = append(g.lanes, l)
	return acl.ACL_SUCCESS
}

// MdlRIUnbindStream takes a stream out of a model that does not run. Its tasks stay in the model.
func (t *Thread) MdlRIUnbindStream(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	s, b, e := t.boundTo(g, on)
	if e != 0 {
		return e
	}
	if g.running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.id)
	}
	attached(s).bound.CompareAndSwap(b, nil)
	return acl.ACL_SUCCESS
}

// MdlRIEndTask says that a stream of a model has all its tasks.
func (t *Thread) MdlRIEndTask(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	s, b, e := t.boundTo(g, on)
	if e != 0 {
		return e
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.ended {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "the tasks of stream %d were ended before", s.ID)
	}
	b.ended = true
	return acl.ACL_SUCCESS
}

// MdlRIBuildEnd completes a model. One of its streams has to say where its tasks end.
func (t *Thread) MdlRIBuildEnd(modelRI acl.MdlRI, reserve acl.Addr) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	if reserve != 0 {
		return t.invalid("reserve has to be null")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	head, ended := false, false
	for _, l := range g.lanes {
		head = head || !l.later
		if b := attached(l.stream).bound.Load(); b != nil && b.lane == l {
			ended = ended || b.ended
		}
	}
	switch {
	case !g.building:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is complete already", g.id)
	case !head || !ended:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d has no stream that begins with it, or none whose tasks were ended", g.id)
	}
	g.building = false
	return acl.ACL_SUCCESS
}

// MdlRIAbort stops a run of a model that was built by hand. The stream that runs it gets an error.
func (t *Thread) MdlRIAbort(modelRI acl.MdlRI) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	g := t.sim.graphs.Get(uint64(modelRI))
	switch {
	case g == nil:
		return t.badHandle(space.KindGraph, uint64(modelRI))
	case !g.built:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d was captured: its runs can't be aborted", g.id)
	}
	g.mu.Lock()
	x := g.current
	g.mu.Unlock()
	if x == nil {
		return acl.ACL_SUCCESS
	}
	x.aborted.Store(true)
	x.halt()
	t.sim.Clock.Changed()
	<-x.done
	return acl.ACL_SUCCESS
}

// PersistentTaskClean takes all tasks from a persistent stream, and so from its model, which can then be built anew.
func (t *Thread) PersistentTaskClean(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if s.Flags&acl.ACL_STREAM_PERSISTENT == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %d was made without ACL_STREAM_PERSISTENT", s.ID)
	}
	b := attached(s).bound.Load()
	if b == nil {
		return acl.ACL_SUCCESS
	}
	if b.graph.running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", b.graph.id)
	}
	b.graph.mu.Lock()
	old := b.lane.tasks
	b.lane.tasks, b.ended, b.graph.building = nil, false, true
	b.graph.mu.Unlock()
	for _, k := range old {
		t.sim.dropTask(k)
	}
	return acl.ACL_SUCCESS
}

// ActiveStream has another stream of the model begin.
func (t *Thread) ActiveStream(activeStream, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	_, other, e := t.boundTo(b.graph, activeStream)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		running(s).execution.start(s, other.lane)
		return 0, nil
	}})
}

// compare tells how two numbers of the device's memory compare.
func compare(a, b int64, cond acl.Condition) bool {
	switch cond {
	case acl.ACL_RT_EQUAL:
		return a == b
	case acl.ACL_RT_NOT_EQUAL:
		return a != b
	case acl.ACL_RT_GREATER:
		return a > b
	case acl.ACL_RT_GREATER_OR_EQUAL:
		return a >= b
	case acl.ACL_RT_LESS:
		return a < b
	}
	return a <= b
}

// readNumber reads a number of device memory.
func readNumber(s *device.Stream, addr uint64, wide bool) (int64, *fail.Failure) {
	size := uint64(4)
	if wide {
		size = 8
	}
	if err := s.Context.Device.Check(addr, size, space.Read); err != nil {
		return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "a number for stream %d: %v", s.ID, err)
	}
	if wide {
		return atomic.LoadInt64((*int64)(space.Pointer(addr))), nil
	}
	return int64(atomic.LoadInt32((*int32)(space.Pointer(addr)))), nil
}

// SwitchStream goes on at the beginning of another stream of the model where a condition is met when the task runs.
func (t *Thread) SwitchStream(leftValue acl.Addr, cond acl.Condition, rightValue acl.Addr, dataType acl.CompareDataType, trueStream, falseStream, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	_, to, e := t.boundTo(b.graph, trueStream)
	if e != 0 {
		return e
	}
	wide := dataType == acl.ACL_RT_SWITCH_INT64
	switch {
	case falseStream != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "falseStream has to be null")
	case cond < acl.ACL_RT_EQUAL || cond > acl.ACL_RT_LESS_OR_EQUAL || !wide && dataType != acl.ACL_RT_SWITCH_INT32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "condition %d of data type %d", cond, dataType)
	}
	for _, p := range []acl.Addr{leftValue, rightValue} {
		if p == 0 || p%uint64(unsafe.Sizeof(int32(0))) != 0 || wide && p%8 != 0 || t.sim.Locate(p).Device == nil {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no place of a number in device memory", p)
		}
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		a, f := readNumber(s, leftValue, wide)
		if f != nil {
			return 0, f
		}
		b, f := readNumber(s, rightValue, wide)
		if f == nil && compare(a, b, cond) {
			running(s).jump = &place{to.lane, 0}
		}
		return 0, f
	}})
}

// place is one in the tasks of a model.
type place struct {
	lane *lane
	at   int
}
