package graph

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// Capture records stream tasks into a graph instead of running them. It begins on one stream. Other streams join by
// waiting for an event recorded in the capture, and must join back before the capture ends.
type Capture struct {
	Graph  *Graph
	Origin *device.Stream
	Thread *device.HostThread // thread that began it
	Call   *strict.Call       // strict mode
	Mode   acl.MdlRICaptureMode

	sync.Mutex
	Lanes   map[*device.Stream]*Lane
	Groups  map[*device.Stream]*TaskGroup // open groups
	Invalid *fail.Failure                 // reason why the capture is invalid; nil if it is valid
	ended   bool
}

// captures are the active captures.
type captures struct {
	mu    sync.Mutex
	all   []*Capture
	count atomic.Int32
}

// Captured is an event record inside a capture.
type Captured struct {
	Capture *Capture
	Mark    int
}

func (c *Capture) live() bool {
	c.Lock()
	defer c.Unlock()
	return !c.ended
}

func (c *Capture) Spoil(f *fail.Failure) {
	c.Lock()
	defer c.Unlock()
	if c.Invalid == nil {
		c.Invalid = f
	}
}

// Add appends a task to a stream's lane.
func (c *Capture) Add(s *device.Stream, k device.Task, mark int) (*GraphTask, *fail.Failure) {
	c.Lock()
	defer c.Unlock()
	switch {
	case c.ended:
		return nil, status.Failed(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the capture of stream %d has ended", s.ID)
	case c.Invalid != nil:
		return nil, status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture failed earlier: %s", c.Invalid.Text)
	}
	g := c.Groups[s]
	switch {
	case g != nil && k.Kind != device.TaskKernel && !mutant.Breaks("group_of_kernels"):
		return nil, status.Failed(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a %s task can't be in a task group: want kernels only", k.Kind)
	case g == nil && len(c.Groups) > 0:
		f := status.Failed(acl.ACL_ERROR_STREAM_TASK_GROUP_INTR, "stream %d: a task group is open on another stream of the capture", s.ID)
		c.Invalid = f
		return nil, f
	}
	l := c.Lanes[s]
	n := &GraphTask{Task: k, Group: g, Mark: mark}
	l.Tasks = append(l.Tasks, n)
	if g != nil {
		g.Tasks = append(g.Tasks, n)
	}
	return n, nil
}

// NewMark returns a number for a record.
func (c *Capture) NewMark() int {
	c.Lock()
	defer c.Unlock()
	c.Graph.Marks++
	return c.Graph.Marks - 1
}

// Join adds a stream to the capture.
func (c *Capture) Join(s *device.Stream) {
	c.Lock()
	defer c.Unlock()
	if c.ended || c.Lanes[s] != nil {
		return
	}
	l := &Lane{Stream: s}
	c.Lanes[s] = l
	c.Graph.Lanes = append(c.Graph.Lanes, l)
	recordingOf(s).Capture.Store(c)
}

// Unjoined is a captured stream with work after its last join.
type Unjoined struct {
	Stream *device.Stream
	Last   string // its last task, "" for none
	Tasks  int    // number of its tasks
	// Joined is the number of tasks up to the last event record that a stream waits for, 0 for none. That wait was the
	// join before the last tasks.
	Joined int
}

// Unjoined returns a stream that has not joined back; nil if all have. The caller holds the lock.
func (c *Capture) Unjoined() *Unjoined {
	back := map[*Lane]bool{c.Lanes[c.Origin]: true}
	waited := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for l := range back {
			for _, k := range l.Tasks {
				if k.Kind == device.TaskWait && k.Mark >= 0 {
					waited[k.Mark] = true
				}
			}
		}
		for _, l := range c.Graph.Lanes {
			if n := len(l.Tasks); !back[l] && n > 0 && l.Tasks[n-1].Kind == device.TaskRecord && waited[l.Tasks[n-1].Mark] {
				back[l], grown = true, true
			}
		}
	}
	for _, l := range c.Graph.Lanes {
		if back[l] {
			continue
		}
		u := &Unjoined{Stream: l.Stream, Tasks: len(l.Tasks)}
		for i, k := range l.Tasks {
			u.Last = strings.TrimSpace(string(k.Kind) + " " + k.Name)
			if k.Kind == device.TaskRecord && waited[k.Mark] {
				u.Joined = i + 1
			}
		}
		return u
	}
	return nil
}

// Begin adds a capture.
func (s *captures) Begin(c *Capture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, c)
	s.count.Store(int32(len(s.all)))
}

// Stop ends a capture. Its streams run tasks again.
func (s *captures) Stop(c *Capture) {
	c.Lock()
	c.ended = true
	for st := range c.Lanes {
		recordingOf(st).Capture.CompareAndSwap(c, nil)
	}
	c.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o *Capture) bool { return o == c })
	s.count.Store(int32(len(s.all)))
}

// Into reports whether a capture into a graph is active.
func (s *captures) Into(g *Graph) bool {
	return slices.ContainsFunc(s.List(), func(c *Capture) bool { return c.Graph == g })
}

// List returns the active captures.
func (s *captures) List() []*Capture {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Spoil invalidates the capture into a graph, if any.
func (s *captures) Spoil(g *Graph, f *fail.Failure) {
	for _, c := range s.List() {
		if c.Graph == g {
			c.Spoil(f)
		}
	}
}

// InCapture returns the event's record in an active capture; nil for none.
func (ev *Event) InCapture() *Captured {
	ev.Lock()
	r := ev.Captured
	ev.Unlock()
	if r != nil && r.Capture.live() {
		return r
	}
	return nil
}
