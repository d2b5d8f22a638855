package acl

import (
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// outside is a record or a wait in a graph that others than the graph's own streams take part in (ACL_EVENT_RECORD_EXTERNAL,
// ACL_EVENT_WAIT_EXTERNAL). Each execution records the event anew, from the moment at which the program orders it, and waits for the
// record that the event has at that moment.
type outside struct {
	event  *event
	record bool
}

// use is whether an event is recorded, or waited for, inside a stream's work or across the border of a graph: the same all its life.
type use struct{ flag atomic.Uint32 }

func (u *use) settle(flag uint32) bool {
	return mutant.Breaks("one_flag_of_an_event") || u.flag.Load() == flag+1 || u.flag.CompareAndSwap(0, flag+1)
}

// captureOutside puts a record or a wait across the border of a graph into a capture.
func (t *Thread) captureOutside(ev *event, s *device.Stream, o *outside) acl.Error {
	c := attached(s).capture.Load()
	if c == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured: nothing else can be recorded or waited for from outside", s.ID)
	}
	if c.graph.part {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is captured into model %d, which is part of another one: nothing is recorded or waited for from outside", s.ID, c.graph.id)
	}
	n, f := c.newOutside(o)
	if f != nil {
		return t.failWith(f)
	}
	at := func(x *execution) *device.Mark { return x.outside[n] }
	k := waitMark(at)
	if o.record {
		k = recordMark(at)
	}
	k.Detail = o
	if _, f := c.add(s, k, -1); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

func (c *capture) newOutside(o *outside) (int, *fail.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.graph.outside {
		if x.event == o.event && !mutant.Breaks("once_outside") {
			return 0, failed(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x is recorded or waited for from outside already in this capture", o.event.handle)
		}
	}
	c.graph.outside = append(c.graph.outside, o)
	return len(c.graph.outside) - 1, nil
}

// outsideMarks are the marks of an execution that is ordered now.
func (g *graph) outsideMarks() []*device.Mark {
	var marks []*device.Mark
	for _, o := range g.outside {
		if o.record {
			marks = append(marks, &device.Mark{Done: make(chan struct{})})
		} else if mutant.Breaks("graph_waits_outside") {
			marks = append(marks, nil)
		} else {
			marks = append(marks, o.event.last())
		}
	}
	return marks
}

// recorded lets the events stand for the execution that was ordered.
func (g *graph) recorded(marks []*device.Mark) {
	for i, o := range g.outside {
		if o.record && !mutant.Breaks("stream_waits_for_graph") {
			o.event.mu.Lock()
			o.event.mark, o.event.captured = marks[i], nil
			o.event.mu.Unlock()
		}
	}
}

// unrecorded lets those go on who wait for an execution that did not come to its records.
func (g *graph) unrecorded(marks []*device.Mark, s *device.Stream) {
	for i, o := range g.outside {
		if m := marks[i]; o.record && !device.IsClosed(m.Done) {
			m.Time, m.Failure = time.Duration(s.LastEnd.Load()), s.Blocked()
			close(m.Done)
		}
	}
}
