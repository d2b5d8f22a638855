package acl

import (
	"slices"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A model can be built task by task: streams are bound to it, and their tasks are kept until it runs. Unlike in a
// capture, a stream may start on demand, and may jump to another stream or to a label.

// Flags of a bound stream: it starts with the model, or when another stream activates it.
const (
	boundHead  = 0
	boundLater = 0x7fffffff
)

// buildRecord records an event inside a stream's model.
func (t *Thread) buildRecord(b *graph.Bound, ev *graph.Event, s *device.Stream) acl.Error {
	b.Graph.Lock()
	n := b.Graph.Marks
	b.Graph.Marks++
	b.Graph.Unlock()
	k := graph.RecordMark(graph.Inside(n))
	k.Detail = ev
	if f := b.Add(s, &graph.GraphTask{Task: k, Mark: n}); f != nil {
		return t.failWith(f)
	}
	ev.Lock()
	ev.Built = &graph.BuiltMark{Graph: b.Graph, Mark: n}
	ev.Unlock()
	return acl.ACL_SUCCESS
}

// buildWait lets a stream wait for an event inside their model.
func (t *Thread) buildWait(b *graph.Bound, ev *graph.Event, s *device.Stream) acl.Error {
	ev.Lock()
	m := ev.Built
	ev.Unlock()
	if m == nil || m.Graph != b.Graph {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "event %#x was not recorded in model %d, to which stream %d is bound", ev.Handle, b.Graph.ID, s.ID)
	}
	k := graph.WaitMark(graph.Inside(m.Mark))
	k.Detail = ev
	return t.result(b.Add(s, &graph.GraphTask{Task: k, Mark: m.Mark}))
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag is %d: want 0", flag)
	}
	g := &graph.Graph{Device: c.Device, Built: true, Building: true}
	if e := t.newGraph(g); e != 0 {
		return e
	}
	*modelRI = acl.MdlRI(g.Handle)
	return acl.ACL_SUCCESS
}

// builtGraph returns a model that is, or was, built by hand.
func (t *Thread) builtGraph(h acl.MdlRI) (*graph.Graph, acl.Error) {
	g, e := find(t, &t.sim.Graphs, uint64(h))
	if e == 0 && !g.Built {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d was captured, not built", g.ID)
	}
	return g, e
}

// boundTo returns a stream's place in a model.
func (t *Thread) boundTo(g *graph.Graph, on acl.Stream) (*device.Stream, *graph.Bound, acl.Error) {
	s, e := t.stream(on)
	if e != 0 {
		return nil, nil, e
	}
	b := attached(s).Bound.Load()
	if b == nil || g != nil && b.Graph != g {
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
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %d was created without ACL_STREAM_PERSISTENT", s.ID)
	case s.Context.Device != g.Device:
		return t.fail(acl.ACL_ERROR_RT_MODEL_CONTEXT, "model %d belongs to device %d, but the stream to device %d", g.ID, g.Device.ID, s.Context.Device.ID)
	}
	g.Lock()
	defer g.Unlock()
	if !g.Building {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is complete already", g.ID)
	}
	l := &graph.Lane{Stream: s, Later: flag == boundLater}
	if !attached(s).Bound.CompareAndSwap(nil, &graph.Bound{Graph: g, Lane: l}) {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d is bound to a model already", s.ID)
	}
	g.Lanes = append(g.Lanes, l)
	return acl.ACL_SUCCESS
}

// MdlRIUnbindStream unbinds a stream from a model that is not running. The model keeps its tasks.
func (t *Thread) MdlRIUnbindStream(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	s, b, e := t.boundTo(g, on)
	if e != 0 {
		return e
	}
	if g.Running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.ID)
	}
	attached(s).Bound.CompareAndSwap(b, nil)
	return acl.ACL_SUCCESS
}

// MdlRIEndTask marks the end of a stream's tasks.
func (t *Thread) MdlRIEndTask(modelRI acl.MdlRI, on acl.Stream) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	s, b, e := t.boundTo(g, on)
	if e != 0 {
		return e
	}
	g.Lock()
	defer g.Unlock()
	if b.Ended {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "the tasks of stream %d have ended already", s.ID)
	}
	b.Ended = true
	return acl.ACL_SUCCESS
}

// MdlRIBuildEnd completes a model. At least one stream must have ended its tasks.
func (t *Thread) MdlRIBuildEnd(modelRI acl.MdlRI, reserve acl.Addr) acl.Error {
	g, e := t.builtGraph(modelRI)
	if e != 0 {
		return e
	}
	if reserve != 0 {
		return t.invalid("reserve is not null: want null")
	}
	g.Lock()
	defer g.Unlock()
	head, ended := false, false
	for _, l := range g.Lanes {
		head = head || !l.Later
		if b := attached(l.Stream).Bound.Load(); b != nil && b.Lane == l {
			ended = ended || b.Ended
		}
	}
	switch {
	case !g.Building:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d is complete already", g.ID)
	case !head || !ended:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "model %d has no first stream, or no stream with aclmdlRIEndTask", g.ID)
	}
	g.Building = false
	return acl.ACL_SUCCESS
}

// MdlRIAbort stops the run of a built model. The executing stream gets an error.
func (t *Thread) MdlRIAbort(modelRI acl.MdlRI) acl.Error {
	g, e := find(t, &t.sim.Graphs, uint64(modelRI))
	switch {
	case e != 0:
		return e
	case !g.Built:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %d was captured: its runs can't be aborted", g.ID)
	}
	g.Lock()
	x := g.Current
	g.Unlock()
	if x == nil {
		return acl.ACL_SUCCESS
	}
	x.Aborted.Store(true)
	x.Halt()
	t.sim.Clock.Changed()
	<-x.Done
	return acl.ACL_SUCCESS
}

// PersistentTaskClean removes all tasks from a persistent stream and its model, which can then be built again.
func (t *Thread) PersistentTaskClean(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if s.Flags&acl.ACL_STREAM_PERSISTENT == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %d was created without ACL_STREAM_PERSISTENT", s.ID)
	}
	b := attached(s).Bound.Load()
	if b == nil {
		return acl.ACL_SUCCESS
	}
	if b.Graph.Running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", b.Graph.ID)
	}
	b.Graph.Lock()
	old := b.Lane.Tasks
	b.Lane.Tasks, b.Ended, b.Graph.Building = nil, false, true
	b.Graph.Unlock()
	for _, k := range old {
		t.sim.DropTask(k)
	}
	return acl.ACL_SUCCESS
}

// ActiveStream starts another stream in the model.
func (t *Thread) ActiveStream(activeStream, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	_, other, e := t.boundTo(b.Graph, activeStream)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		graph.Running(s).Execution.Start(s, other.Lane)
		return 0, nil
	}})
}

// SwitchStream jumps to another stream if a condition holds when the task runs.
func (t *Thread) SwitchStream(leftValue acl.Addr, cond acl.Condition, rightValue acl.Addr, dataType acl.CompareDataType, trueStream, falseStream, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	_, to, e := t.boundTo(b.Graph, trueStream)
	if e != 0 {
		return e
	}
	wide := dataType == acl.ACL_RT_SWITCH_INT64
	switch {
	case falseStream != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "falseStream is not null: want null")
	case cond < acl.ACL_RT_EQUAL || cond > acl.ACL_RT_LESS_OR_EQUAL || !wide && dataType != acl.ACL_RT_SWITCH_INT32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "condition %d is not supported for data type %d", cond, dataType)
	}
	for _, p := range []acl.Addr{leftValue, rightValue} {
		if p == 0 || p%uint64(unsafe.Sizeof(int32(0))) != 0 || wide && p%8 != 0 || t.sim.Locate(p).Device == nil {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not that of an aligned number in device memory", p)
		}
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		a, f := graph.ReadNumber(s, leftValue, wide)
		if f != nil {
			return 0, f
		}
		b, f := graph.ReadNumber(s, rightValue, wide)
		if f == nil && graph.Compare(a, b, cond) {
			graph.Running(s).Jump = &graph.Place{Lane: to.Lane, At: 0}
		}
		return 0, f
	}})
}

// maxLabels is the largest number of labels in a process (documented).
const maxLabels = 65535

// CreateLabel makes a label.
func (t *Thread) CreateLabel(l *acl.Label) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if l == nil {
		return t.null("label")
	}
	if t.sim.Labels.Live() >= maxLabels {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create a label: the process has %d already, the limit", maxLabels)
	}
	x := &graph.Label{}
	x.Handle = t.sim.Labels.Add(x)
	*l = acl.Label(x.Handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) label(h acl.Label) (*graph.Label, acl.Error) {
	return find(t, &t.sim.Labels, uint64(h))
}

// DestroyLabel ends a label. Lists that hold it keep its place.
func (t *Thread) DestroyLabel(l acl.Label) acl.Error {
	_, e := end(t, &t.sim.Labels, uint64(l))
	return e
}

// SetLabel sets a label after the current tasks of a bound stream. A label can be set once.
func (t *Thread) SetLabel(h acl.Label, on acl.Stream) acl.Error {
	l, e := t.label(h)
	if e != 0 {
		return e
	}
	_, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	b.Graph.Lock()
	at := graph.Place{Lane: b.Lane, At: len(b.Lane.Tasks)}
	b.Graph.Unlock()
	l.Lock()
	defer l.Unlock()
	if l.Graph != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the label is set already")
	}
	l.Graph, l.At = b.Graph, at
	return acl.ACL_SUCCESS
}

// CreateLabelList creates a label list.
func (t *Thread) CreateLabelList(labels *acl.Label, num uint64, list_ *acl.LabelList) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if labels == nil || num == 0 || num > maxLabels || list_ == nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d labels: want 1 to %d and pointers that are not null", num, maxLabels)
	}
	x := &graph.LabelList{}
	for _, h := range slices.Clone(space.List(labels, num)) {
		l, e := t.label(h)
		if e != 0 {
			return e
		}
		x.Labels = append(x.Labels, l)
	}
	x.Handle = t.sim.LabelLists.Add(x)
	*list_ = acl.LabelList(x.Handle)
	return acl.ACL_SUCCESS
}

// DestroyLabelList ends a list. Its labels stay.
func (t *Thread) DestroyLabelList(labelList acl.LabelList) acl.Error {
	_, e := end(t, &t.sim.LabelLists, uint64(labelList))
	return e
}

// SwitchLabelByIndex jumps to the label whose index is in device memory when the task runs. A larger index selects
// the last label.
func (t *Thread) SwitchLabelByIndex(ptr acl.Addr, maxValue uint32, labelList acl.LabelList, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	x := t.sim.LabelLists.Get(uint64(labelList))
	switch {
	case x == nil:
		return t.badHandle(space.KindLabelList, uint64(labelList))
	case int(maxValue) != len(x.Labels):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxValue is %d: want %d, the number of labels in the list", maxValue, len(x.Labels))
	case ptr == 0 || ptr%4 != 0 || t.sim.Locate(ptr).Device == nil:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not that of an aligned number in device memory", ptr)
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		n, f := graph.ReadNumber(s, ptr, false)
		if f != nil {
			return 0, f
		}
		l := x.Labels[min(uint32(n), maxValue-1)]
		l.Lock()
		defer l.Unlock()
		if l.Graph != b.Graph {
			return 0, status.Failed(acl.ACL_ERROR_RT_LABEL_CONTEXT, "label %d of the list is not set in model %d", n, b.Graph.ID)
		}
		at := l.At
		graph.Running(s).Jump = &at
		return 0, nil
	}})
}
