package graphs

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// A capture is in progress.
type capture struct {
	graph
	call    uint64 // that began it
	fn      string
	stream  *timeline.Object
	thread  uint32
	tracks  map[*timeline.Object]*track // by captured stream
	marks   map[*timeline.Object]mark   // by event recorded in the capture
	refused bool
}

// A mark counts, by captured stream, the tasks before a point of a capture.
type mark map[*timeline.Object]uint64

// A track is a captured stream.
type track struct {
	tasks uint64
	last  uint64 // call of the latest task
	fn    string
	mark  mark
	group *taskGroup // in progress
	wait  *wait      // external, without a task after it
}

// A graph has what its runs are checked for.
type graph struct {
	name    string
	number  int // of its object
	streams uint64
	joined  []string // sorted names of the streams that joined the capture
	process uint32
	waits   []*wait
	sets    []timeline.Signal            // that its tasks record
	loose   map[string]timeline.HostCall // by kernel: first task outside of task groups
	runs    uint64
	last    run
	groups  []*taskGroup
	addressed
}

// A wait is a captured task that waits for a signal from outside.
type wait struct {
	on     *external
	resets bool              // the graph resets the signal after the wait
	task   timeline.HostCall // the first one after it, if it is a launch outside of task groups
	kernel string
}

// A taskGroup is a group of captured tasks that updates replace.
type taskGroup struct {
	graph  *graph
	tasks  uint64
	kernel string    // of the latest task
	guard  *external // that the first task waits for
	latest *update   // since the latest run or record that it is for
	object *timeline.Object
}

// boundary follows a call that begins or ends a capture, a task group or an update.
func (x *Checker) boundary(h *timeline.HostCall, e *timeline.Event) error {
	s := e.Stream
	switch c := x.joined[s]; h.Fn.Capture {
	case api.CaptureBegin:
		if e.OK() {
			c := &capture{call: h.Index, fn: h.Name, stream: s, thread: h.Thread, tracks: map[*timeline.Object]*track{}, marks: map[*timeline.Object]mark{}}
			c.process, c.loose = e.Process, map[string]timeline.HostCall{}
			x.captures[s] = c
			x.join(c, s)
		}
	case api.CaptureEnd:
		if c := x.captures[s]; c != nil {
			return x.endCapture(h, e, c)
		}
	case api.GroupBegin:
		if c != nil && e.OK() {
			t := c.tracks[s]
			t.group = &taskGroup{}
			if t.wait != nil {
				t.group.guard, t.wait = t.wait.on, nil
			}
		}
	case api.GroupEnd:
		if c == nil || c.tracks[s].group == nil {
			break
		}
		g := c.tracks[s].group
		c.tracks[s].group = nil
		if o := e.Object(api.TaskGroup); o != nil && e.OK() {
			g.object, x.groups[o] = o, g
			if g.tasks == 1 { // in others, operators have kernels that prepare their inputs
				x.grouped[g.kernel] = true
			}
			c.groups = append(c.groups, g)
		}
	case api.UpdateBegin:
		if o := e.Object(api.TaskGroup); o != nil && e.OK() {
			x.updates[s] = &update{of: x.groups[o], call: h.Index, fn: h.Name}
		}
	case api.UpdateEnd:
		if u := x.updates[s]; u != nil {
			delete(x.updates, s)
			x.ended(u, e)
		}
	}
	return nil
}

func (x *Checker) join(c *capture, s *timeline.Object) *track {
	t := &track{mark: mark{}}
	c.tracks[s], x.joined[s] = t, c
	return t
}

// captured follows a task that a capture takes.
func (x *Checker) captured(h *timeline.HostCall, e *timeline.Event) {
	c := x.captures[e.Captured]
	if c == nil || e.Fn.Task == api.NoTask {
		return
	}
	t := c.tracks[e.Stream]
	if t == nil {
		t = x.join(c, e.Stream)
	}
	t.tasks++
	t.last, t.fn = h.Index, h.Name
	t.mark[e.Stream] = t.tasks
	if t.group != nil {
		t.group.tasks++
	}
	s, ok := e.Signal()
	switch f := e.Fn; {
	case f.Task == api.Kernel:
		x.launch(h, e, c, t)
		return
	case !ok:
		t.wait = nil
	case f.Task == api.Wait:
		if m, inside := c.marks[s.Object]; inside && s.Object != nil {
			for on, n := range m {
				t.mark[on] = max(t.mark[on], n)
			}
			return
		}
		ext := x.signals[s]
		if ext == nil {
			ext = &external{Signal: s, memory: memoryName(e)}
			x.signals[s] = ext
		}
		ext.users++
		t.wait = &wait{on: ext}
		c.waits = append(c.waits, t.wait)
	case f.Task == api.Record && s.Object != nil:
		c.marks[s.Object] = maps.Clone(t.mark)
		c.sets = append(c.sets, s)
	default: // a reset, or a write of a word
		for _, w := range c.waits {
			w.resets = w.resets || w.on.Signal == s
		}
		if e.Releases() {
			c.sets = append(c.sets, s)
		}
	}
	x.addresses(e, &c.addressed)
}

// memoryName names the memory of a word.
func memoryName(e *timeline.Event) string {
	for _, u := range e.Uses {
		if u.Object.Kind == api.Device {
			return timeline.Place(u)
		}
	}
	return "a word"
}

// launch follows a captured launch.
func (x *Checker) launch(h *timeline.HostCall, e *timeline.Event, c *capture, t *track) {
	if t.group != nil {
		t.group.kernel = e.Kernel
	} else {
		if _, known := c.loose[e.Kernel]; !known && e.Kernel != "" {
			c.loose[e.Kernel] = *h
		}
		if t.wait != nil {
			t.wait.task, t.wait.kernel = *h, e.Kernel
			t.wait.task.Raw = nil
		}
	}
	t.wait = nil
	x.addresses(e, &c.addressed)
}

// endCapture follows the end of a capture, successful or not.
func (x *Checker) endCapture(h *timeline.HostCall, e *timeline.Event, c *capture) error {
	delete(x.captures, c.stream)
	origin := c.tracks[c.stream]
	for s, t := range c.tracks {
		delete(x.joined, s)
		if s != c.stream && origin.mark[s] < t.tasks && !c.refused && x.w.Model.ErrorClass(int32(h.Ret)) != api.WorkState {
			x.find(UnjoinedStream, t.last, t.fn, func(f *Finding) {
				f.Stream, f.Other, f.By, f.On = name(s), &c.call, c.fn, name(c.stream)
			})
		}
	}
	o := e.Object(api.Graph)
	g := &c.graph
	if o == nil || !e.OK() {
		x.release(g)
		return nil
	}
	if err := x.read(&g.addressed, g.process, h.Start); err != nil {
		return err
	}
	g.name, g.number, g.streams = name(o), o.ID, uint64(len(c.tracks))
	for s := range c.tracks {
		if s != c.stream {
			g.joined = append(g.joined, name(s))
		}
	}
	slices.SortFunc(g.joined, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	for _, t := range g.groups {
		if t.graph = g; t.guard != nil {
			t.guard.groups = append(t.guard.groups, t)
		}
	}
	if old := x.graphs[o]; old != nil { // captured into a graph
		x.end(o, old)
	}
	x.graphs[o] = g
	x.uses(g)
	x.hold(g, c)
	return nil
}

// end follows the end of a graph.
func (x *Checker) end(o *timeline.Object, g *graph) {
	delete(x.graphs, o)
	x.streams[g.process] -= g.streams
	x.unused(g)
	defer x.release(g)
	if g.runs == 0 {
		return
	}
	for kernel, h := range g.loose {
		if x.grouped[kernel] {
			x.kept(g, &h, kernel, nil)
		}
	}
	for _, w := range g.waits {
		if w.on.kept() && w.kernel != "" && !x.grouped[w.kernel] {
			x.kept(g, &w.task, w.kernel, w.on)
		}
	}
}

// release forgets the task groups of a graph, and the signals that it waited for.
func (x *Checker) release(g *graph) {
	for _, t := range g.groups {
		delete(x.groups, t.object)
		if t.guard != nil {
			t.guard.groups = slices.DeleteFunc(t.guard.groups, func(o *taskGroup) bool { return o == t })
		}
	}
	for _, w := range g.waits {
		if w.on.users--; w.on.users == 0 {
			x.count(w.on)
			delete(x.signals, w.on.Signal)
		}
	}
}

// kept adds a task that keeps the arguments of its capture.
func (x *Checker) kept(g *graph, h *timeline.HostCall, kernel string, on *external) {
	x.find(KeptArguments, h.Index, h.Name, func(f *Finding) {
		f.Graph, f.Kernel = g.name, kernel
		if on != nil {
			f.Object = on.String()
		}
	})
}

// refused follows a call that failed during a capture.
func (x *Checker) refused(h *timeline.HostCall, e *timeline.Event) {
	code := int32(h.Ret)
	if !slices.Contains(x.w.Model.Classes.Capture, code) || h.Fn.Capture == api.CaptureEnd {
		return
	}
	var in *capture
	for _, c := range x.captures {
		if c.process == x.w.Process(h.Thread) && (in == nil || c.call < in.call) {
			in = c
		}
	}
	if in == nil {
		return
	}
	in.refused = true
	x.find(RefusedCall, h.Index, h.Name, func(f *Finding) {
		f.Code, f.Other, f.By, f.On = int64(code), &in.call, in.fn, name(in.stream)
		if e.Stream != nil {
			f.Stream = name(e.Stream)
		}
		if h.Thread != in.thread {
			f.Thread = x.w.ThreadName(h.Thread)
		}
	})
}
