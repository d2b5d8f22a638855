package acl

import (
	"fmt"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/mutant"
)

// capturable rejects an event that can't be captured: only events of aclrtCreateEventExWithFlag can (documented).
func (t *Thread) capturable(ev *graph.Event) acl.Error {
	if ev.How != graph.CreateEventEx && !mutant.Breaks("events_of_a_capture") {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was created by %s: a capture needs events of %s", ev.Handle, ev.How, graph.CreateEventEx)
	}
	return acl.ACL_SUCCESS
}

// captureRecord records an event inside a capture.
func (t *Thread) captureRecord(c *graph.Capture, ev *graph.Event, s *device.Stream) acl.Error {
	n := c.NewMark()
	k := graph.RecordMark(graph.Inside(n))
	k.Detail = ev
	if _, f := c.Add(s, k, n); f != nil {
		return t.failWith(f)
	}
	ev.Lock()
	ev.Captured = &graph.Captured{Capture: c, Mark: n}
	ev.Unlock()
	return acl.ACL_SUCCESS
}

// captureWait records a wait if the event or the stream is in a capture, and reports whether it is.
func (t *Thread) captureWait(s *device.Stream, ev *graph.Event) (bool, acl.Error) {
	c, r := attached(s).Capture.Load(), ev.InCapture()
	switch {
	case c == nil && r == nil:
		return false, acl.ACL_SUCCESS
	case r == nil:
		if e := t.capturable(ev); e != 0 {
			return true, e
		}
		f := status.Failed(acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, "stream %d is being captured, and event %#x was not recorded inside the capture", s.ID, ev.Handle)
		c.Spoil(f)
		return true, t.failWith(f)
	case c != nil && c != r.Capture:
		f := status.Failed(acl.ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream %d and event %#x belong to different captures", s.ID, ev.Handle)
		c.Spoil(f)
		r.Capture.Spoil(f)
		return true, t.failWith(f)
	case c == nil && s == s.Context.Default:
		f := status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "stream %d is a default stream and can't join a capture", s.ID)
		r.Capture.Spoil(f)
		return true, t.failWith(f)
	case c == nil:
		if mutant.Breaks("second_stream") {
			return true, acl.ACL_SUCCESS
		}
		r.Capture.Join(s)
	}
	k := graph.WaitMark(graph.Inside(r.Mark))
	k.Detail = ev
	if _, f := r.Capture.Add(s, k, r.Mark); f != nil {
		return true, t.failWith(f)
	}
	return true, acl.ACL_SUCCESS
}

// MdlRICaptureBegin starts to record a stream's tasks instead of running them.
func (t *Thread) MdlRICaptureBegin(on acl.Stream, mode acl.MdlRICaptureMode) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.beginCapture(s, &graph.Graph{Device: s.Context.Device}, mode)
}

// beginCapture starts a capture into a new graph or into a part.
func (t *Thread) beginCapture(s *device.Stream, g *graph.Graph, mode acl.MdlRICaptureMode) acl.Error {
	switch {
	case mode < acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "capture mode %d is unknown", mode)
	case s == s.Context.Default:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "stream %d is the default stream of a context and can't be captured", s.ID)
	}
	c := &graph.Capture{Graph: g, Origin: s, Thread: &t.HostThread, Mode: mode, Lanes: map[*device.Stream]*graph.Lane{}, Groups: map[*device.Stream]*graph.TaskGroup{}}
	l := &graph.Lane{Stream: s}
	c.Lanes[s] = l
	if t.sim.Strict != nil {
		c.Call = t.sim.Strict.On(&t.Strict, &s.Strict, "")
	}
	if g.Part && !g.Begun.CompareAndSwap(false, true) {
		return t.fail(acl.ACL_ERROR_RT_MODEL_CAPTURED, "model %d was captured already", g.ID)
	}
	g.Lanes = []*graph.Lane{l}
	if !attached(s).Capture.CompareAndSwap(nil, c) {
		g.Begun.Store(false)
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured already", s.ID)
	}
	if !g.Part {
		if e := t.newGraph(g); e != 0 {
			attached(s).Capture.Store(nil)
			return e
		}
	}
	t.sim.Captures.Begin(c)
	return acl.ACL_SUCCESS
}

func (t *Thread) MdlRICaptureEnd(on acl.Stream, modelRI *acl.MdlRI) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).Capture.Load()
	switch {
	case modelRI == nil:
		return t.absent("modelRI")
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	case c.Origin != s:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture that stream %d belongs to began on stream %d", s.ID, c.Origin.ID)
	case c.Mode != acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED && c.Thread != &t.HostThread:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture of stream %d", s.ID)
	}
	t.sim.Captures.Stop(c)
	c.Lock()
	f := c.Invalid
	switch u := c.Unjoined(); {
	case f != nil:
		f = status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture of stream %d has failed: %s", s.ID, f.Text)
	case !c.Graph.Complete():
		f = status.Failed(acl.ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "the capture of a conditional part of the model of stream %d has not ended", s.ID)
	case len(c.Groups) > 0:
		f = status.Failed(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group of the capture is still open: end it first")
	case u != nil:
		f = status.Failed(acl.ACL_ERROR_RT_STREAM_UNJOINED, "stream %d joined the capture and did not return: %s; record an event as its last task, and let a stream of the capture wait for it", u.Stream.ID, lastTasks(u))
	}
	c.Unlock()
	if f != nil {
		if !c.Graph.Part { // a part ends with its model
			t.sim.Graphs.Remove(c.Graph.Handle)
		}
		t.sim.EndGraph(c.Graph)
		*modelRI = 0
		return t.failWith(f)
	}
	c.Graph.Captured.Store(true)
	*modelRI = acl.MdlRI(c.Graph.Handle)
	return acl.ACL_SUCCESS
}

// MdlRICaptureGetInfo returns the capture state of a stream and its model.
func (t *Thread) MdlRICaptureGetInfo(on acl.Stream, status *acl.MdlRICaptureStatus, modelRI *acl.MdlRI) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if status == nil || modelRI == nil {
		return t.absent("status or modelRI")
	}
	*status, *modelRI = acl.ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0
	if c := attached(s).Capture.Load(); c != nil && !mutant.Breaks("capture_state") {
		c.Lock()
		*status = acl.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
		if c.Invalid != nil {
			*status = acl.ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
		}
		c.Unlock()
		*modelRI = acl.MdlRI(c.Graph.Handle)
	}
	return acl.ACL_SUCCESS
}

// MdlRICaptureThreadExchangeMode exchanges the thread's own mode.
func (t *Thread) MdlRICaptureThreadExchangeMode(mode *acl.MdlRICaptureMode) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	switch {
	case mode == nil:
		return t.null("mode")
	case *mode < acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || *mode > acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "capture mode %d is unknown", *mode)
	}
	if !mutant.Breaks("exchanged_mode") {
		*mode, t.captureMode = t.captureMode, *mode
	}
	return acl.ACL_SUCCESS
}

// captureOutside captures a record or a wait across the border of the graph.
func (t *Thread) captureOutside(ev *graph.Event, s *device.Stream, o *graph.Outside) acl.Error {
	c := attached(s).Capture.Load()
	if c == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured: external records and waits need a capture", s.ID)
	}
	if c.Graph.Part {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is captured into model %d, which is part of another model: it can't have external records and waits", s.ID, c.Graph.ID)
	}
	n, f := c.NewOutside(o)
	if f != nil {
		return t.failWith(f)
	}
	at := func(x *graph.Execution) *device.Mark { return x.Outside[n] }
	k := graph.WaitMark(at)
	if o.Record {
		k = graph.RecordMark(at)
	}
	k.Detail = o
	if _, f := c.Add(s, k, -1); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// lastTasks describes the tasks of a stream that no join covers.
func lastTasks(u *graph.Unjoined) string {
	switch {
	case u.Tasks == 0:
		return "it has no task"
	case u.Joined == 0:
		return fmt.Sprintf("its last task, number %d, is a %s, and no stream waits for it", u.Tasks, u.Last)
	}
	return fmt.Sprintf("its last task, number %d, is a %s; the join before it covers its tasks up to number %d", u.Tasks, u.Last, u.Joined)
}
