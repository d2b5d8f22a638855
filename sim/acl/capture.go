package acl

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// capture records the tasks of streams into a graph instead of running them. It begins on one stream; others join by
// waiting for an event that was recorded inside, and have to come back in the same way before it ends.
type capture struct {
	graph  *graph
	origin *device.Stream
	thread *Thread      // that began it
	call   *strict.Call // in strict mode
	mode   acl.MdlRICaptureMode

	mu      sync.Mutex
	lanes   map[*device.Stream]*lane
	groups  map[*device.Stream]*taskGroup // open ones
	invalid *fail.Failure                 // what spoilt it
	ended   bool
}

// captures are the captures under way.
type captures struct {
	mu    sync.Mutex
	all   []*capture
	count atomic.Int32
}

// captured is a record of an event inside a capture.
type captured struct {
	capture *capture
	mark    int
}

func (c *capture) live() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended
}

func (c *capture) spoil(f *fail.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.invalid == nil {
		c.invalid = f
	}
}

// add appends a task to a stream's part of the graph.
func (c *capture) add(s *device.Stream, k device.Task, mark int) (*graphTask, *fail.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return nil, failed(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the capture of stream %d has ended", s.ID)
	case c.invalid != nil:
		return nil, failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture has failed before: %s", c.invalid.Text)
	}
	g := c.groups[s]
	switch {
	case g != nil && k.Kind != device.TaskKernel && !mutant.Breaks("group_of_kernels"):
		return nil, failed(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a %s task in a task group: a group holds kernels", k.Kind)
	case g == nil && len(c.groups) > 0:
		f := failed(acl.ACL_ERROR_STREAM_TASK_GROUP_INTR, "a task for stream %d while a task group is open on another stream of the capture", s.ID)
		c.invalid = f
		return nil, f
	}
	l := c.lanes[s]
	n := &graphTask{Task: k, group: g, mark: mark}
	l.tasks = append(l.tasks, n)
	if g != nil {
		g.tasks = append(g.tasks, n)
	}
	return n, nil
}

// newMark makes a number for a record.
func (c *capture) newMark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.graph.marks++
	return c.graph.marks - 1
}

// join takes a stream into the capture.
func (c *capture) join(s *device.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.lanes[s] != nil {
		return
	}
	l := &lane{stream: s}
	c.lanes[s] = l
	c.graph.lanes = append(c.graph.lanes, l)
	attached(s).capture.Store(c)
}

// unjoined returns a stream that did not come back to the one where the capture began. The caller holds the lock.
func (c *capture) unjoined() *device.Stream {
	back := map[*lane]bool{c.lanes[c.origin]: true}
	waited := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for l := range back {
			for _, k := range l.tasks {
				if k.Kind == device.TaskWait && k.mark >= 0 {
					waited[k.mark] = true
				}
			}
		}
		for _, l := range c.graph.lanes {
			if n := len(l.tasks); !back[l] && n > 0 && l.tasks[n-1].Kind == device.TaskRecord && waited[l.tasks[n-1].mark] {
				back[l], grown = true, true
			}
		}
	}
	for _, l := range c.graph.lanes {
		if !back[l] {
			return l.stream
		}
	}
	return nil
}

// begin adds a capture.
func (s *captures) begin(c *capture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, c)
	s.count.Store(int32(len(s.all)))
}

// stop ends a capture and lets its streams run again.
func (s *captures) stop(c *capture) {
	c.mu.Lock()
	c.ended = true
	for st := range c.lanes {
		attached(st).capture.CompareAndSwap(c, nil)
	}
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o *capture) bool { return o == c })
	s.count.Store(int32(len(s.all)))
}

// into reports whether a graph is still being recorded.
func (s *captures) into(g *graph) bool {
	return slices.ContainsFunc(s.list(), func(c *capture) bool { return c.graph == g })
}

// list returns the captures under way.
func (s *captures) list() []*capture {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// spoil spoils the capture into a graph, if there is one.
func (s *captures) spoil(g *graph, f *fail.Failure) {
	for _, c := range s.list() {
		if c.graph == g {
			c.spoil(f)
		}
	}
}

// forbid refuses an operation that captures under way don't allow to the thread, and spoils them.
func (t *Thread) forbid(code acl.Error, what string) acl.Error {
	var f *fail.Failure
	for _, c := range t.sim.captures.list() {
		own := c.thread == t
		allowed := mutant.Breaks("global_mode") || mutant.Breaks("pageable_copy") || c.mode == acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED && !mutant.Breaks("relaxed_mode") ||
			c.mode == acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL && !own && !mutant.Breaks("thread_local_mode") ||
			t.captureMode == acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
			t.captureMode == acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL && !own
		if !allowed {
			f = failed(code, "%s while stream %d is captured, in a mode that forbids it", what, c.origin.ID)
			c.spoil(f)
		}
	}
	if f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// unsafe refuses a blocking operation on memory or on the device while a capture forbids it.
func (t *Thread) unsafe() acl.Error {
	return t.forbid(acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "a blocking operation")
}

// unsafeAsync refuses an asynchronous copy that has become a blocking one.
func (t *Thread) unsafeAsync() acl.Error {
	return t.forbid(acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "a copy with pageable memory, which blocks,")
}

// notCaptured refuses a synchronization with a stream that is being captured, and spoils the capture.
func (t *Thread) notCaptured(s *device.Stream) acl.Error {
	c := attached(s).capture.Load()
	if c == nil || mutant.Breaks("synchronizing_a_captured_stream") {
		return acl.ACL_SUCCESS
	}
	f := failed(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't be waited for", s.ID)
	c.spoil(f)
	return t.failWith(f)
}

// capture records a task, and tells whether the stream is being captured at all.
func (t *Thread) capture(s *device.Stream, k device.Task) (bool, acl.Error) {
	c := attached(s).capture.Load()
	if c == nil || mutant.Breaks("captured_tasks_do_not_run") {
		if s == s.Context.Def {
			if e := t.forbid(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "a task on the default stream"); e != 0 {
				k.End()
				return true, e
			}
		}
		return false, acl.ACL_SUCCESS
	}
	x, f := c.add(s, k, -1)
	if f != nil {
		k.End()
		return true, t.failWith(f)
	}
	t.made(s.Context.Device.Tasks.Add(1), s, x)
	return true, acl.ACL_SUCCESS
}

// capturable refuses an event that is no part of captures: the documents want those of aclrtCreateEventExWithFlag.
func (t *Thread) capturable(ev *event) acl.Error {
	if ev.how != createEventEx && !mutant.Breaks("events_of_a_capture") {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "event %#x was made by %s: events in a capture are made by %s", ev.handle, ev.how, createEventEx)
	}
	return acl.ACL_SUCCESS
}

// captureRecord records an event inside a capture.
func (t *Thread) captureRecord(c *capture, ev *event, s *device.Stream) acl.Error {
	n := c.newMark()
	k := recordMark(inside(n))
	k.Detail = ev
	if _, f := c.add(s, k, n); f != nil {
		return t.failWith(f)
	}
	ev.mu.Lock()
	ev.captured = &captured{c, n}
	ev.mu.Unlock()
	return acl.ACL_SUCCESS
}

// captureWait records a wait for an event, where the event or the stream belongs to a capture, and tells whether one does.
func (t *Thread) captureWait(s *device.Stream, ev *event) (bool, acl.Error) {
	c, r := attached(s).capture.Load(), ev.inCapture()
	switch {
	case c == nil && r == nil:
		return false, acl.ACL_SUCCESS
	case r == nil && mutant.Breaks("event_from_outside"):
		return true, acl.ACL_SUCCESS
	case r == nil:
		if e := t.capturable(ev); e != 0 {
			return true, e
		}
		f := failed(acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, "stream %d is being captured, and event %#x was not recorded inside the capture", s.ID, ev.handle)
		c.spoil(f)
		return true, t.failWith(f)
	case c != nil && c != r.capture && mutant.Breaks("two_captures"):
		return true, acl.ACL_SUCCESS
	case c != nil && c != r.capture:
		f := failed(acl.ACL_ERROR_STREAM_CAPTURE_CONFLICT, "stream %d and event %#x belong to different captures", s.ID, ev.handle)
		c.spoil(f)
		r.capture.spoil(f)
		return true, t.failWith(f)
	case c == nil && s == s.Context.Def:
		f := failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream %d can't join a capture", s.ID)
		r.capture.spoil(f)
		return true, t.failWith(f)
	case c == nil:
		if mutant.Breaks("second_stream") {
			return true, acl.ACL_SUCCESS
		}
		r.capture.join(s)
	}
	k := waitMark(inside(r.mark))
	k.Detail = ev
	if _, f := r.capture.add(s, k, r.mark); f != nil {
		return true, t.failWith(f)
	}
	return true, acl.ACL_SUCCESS
}

// inCapture returns the event's record in a capture that is still under way.
func (ev *event) inCapture() *captured {
	ev.mu.Lock()
	r := ev.captured
	ev.mu.Unlock()
	if r != nil && r.capture.live() {
		return r
	}
	return nil
}

// MdlRICaptureBegin begins to record the tasks of a stream instead of running them.
func (t *Thread) MdlRICaptureBegin(on acl.Stream, mode acl.MdlRICaptureMode) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.beginCapture(s, &graph{dev: s.Context.Device}, mode)
}

// beginCapture begins to record the tasks of a stream into a graph, a new one or a part of another one.
func (t *Thread) beginCapture(s *device.Stream, g *graph, mode acl.MdlRICaptureMode) acl.Error {
	switch {
	case mode < acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "capture mode %d is unknown", mode)
	case s == s.Context.Def && !mutant.Breaks("default_stream"):
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "stream %d is the default stream of a context and can't be captured", s.ID)
	}
	c := &capture{graph: g, origin: s, thread: t, mode: mode, lanes: map[*device.Stream]*lane{}, groups: map[*device.Stream]*taskGroup{}}
	l := &lane{stream: s}
	c.lanes[s] = l
	if t.sim.Strict != nil {
		c.call = t.sim.Strict.On(&t.Strict, &s.Strict, "")
	}
	if g.part && !g.begun.CompareAndSwap(false, true) && !mutant.Breaks("part_captured_once") {
		return t.fail(acl.ACL_ERROR_RT_MODEL_CAPTURED, "model %d was captured before", g.id)
	}
	g.lanes = []*lane{l}
	if mutant.Breaks("captured_twice") {
		attached(s).capture.Store(c)
	} else if !attached(s).capture.CompareAndSwap(nil, c) {
		g.begun.Store(false)
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured already", s.ID)
	}
	if !g.part {
		if e := t.newGraph(g); e != 0 {
			attached(s).capture.Store(nil)
			return e
		}
	}
	t.sim.captures.begin(c)
	return acl.ACL_SUCCESS
}

// MdlRICaptureEnd ends a capture and returns what it has recorded.
func (t *Thread) MdlRICaptureEnd(on acl.Stream, modelRI *acl.MdlRI) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).capture.Load()
	switch {
	case modelRI == nil:
		return t.absent("modelRI")
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	case c.origin != s && !mutant.Breaks("end_on_another_stream"):
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture that stream %d belongs to began on stream %d", s.ID, c.origin.ID)
	case c.mode != acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED && c.thread != t && !mutant.Breaks("end_on_another_thread"):
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture of stream %d", s.ID)
	}
	t.sim.captures.stop(c)
	c.mu.Lock()
	f := c.invalid
	switch u := c.unjoined(); {
	case f != nil:
		f = failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture of stream %d has failed: %s", s.ID, f.Text)
	case !c.graph.complete() && !mutant.Breaks("parts_are_captured_first"):
		f = failed(acl.ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, "a part of the model of stream %d under a condition was not captured to its end", s.ID)
	case len(c.groups) > 0:
		f = failed(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is still open")
	case u != nil && !mutant.Breaks("stream_that_does_not_come_back"):
		f = failed(acl.ACL_ERROR_RT_STREAM_UNJOINED, "stream %d joined the capture and did not come back: its last task has to be the record of an event that the others wait for", u.ID)
	}
	c.mu.Unlock()
	if f != nil {
		if !c.graph.part { // a part goes with the graph that it belongs to
			t.sim.graphs.Remove(c.graph.handle)
		}
		t.sim.endGraph(c.graph)
		*modelRI = 0
		return t.failWith(f)
	}
	c.graph.captured.Store(true)
	*modelRI = acl.MdlRI(c.graph.handle)
	return acl.ACL_SUCCESS
}

// MdlRICaptureGetInfo tells whether a stream is being captured, and into what.
func (t *Thread) MdlRICaptureGetInfo(on acl.Stream, status *acl.MdlRICaptureStatus, modelRI *acl.MdlRI) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if status == nil || modelRI == nil {
		return t.absent("status or modelRI")
	}
	*status, *modelRI = acl.ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0
	if c := attached(s).capture.Load(); c != nil && !mutant.Breaks("capture_state") {
		c.mu.Lock()
		*status = acl.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE
		if c.invalid != nil {
			*status = acl.ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
		}
		c.mu.Unlock()
		*modelRI = acl.MdlRI(c.graph.handle)
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
