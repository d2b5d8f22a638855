package graph

import (
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// Outside is a record or a wait across a graph's border (ACL_EVENT_RECORD_EXTERNAL, ACL_EVENT_WAIT_EXTERNAL). Each
// submitted execution records the event anew, or waits for the latest record at submission.
type Outside struct {
	Event  *Event
	Record bool
}

// Use is an event's record or wait flag. It can't change after the first use.
type Use struct{ flag atomic.Uint32 }

func (u *Use) Settle(flag uint32) bool {
	return mutant.Breaks("one_flag_of_an_event") || u.flag.Load() == flag+1 || u.flag.CompareAndSwap(0, flag+1)
}

func (c *Capture) NewOutside(o *Outside) (int, *fail.Failure) {
	c.Lock()
	defer c.Unlock()
	for _, x := range c.Graph.outside {
		if x.Event == o.Event && !mutant.Breaks("once_outside") {
			return 0, status.Failed(acl.ACL_ERROR_RT_PARAM_INVALID, "event %#x already has an external record or wait in this capture", o.Event.Handle)
		}
	}
	c.Graph.outside = append(c.Graph.outside, o)
	return len(c.Graph.outside) - 1, nil
}

// OutsideMarks returns the marks of an execution that is being submitted.
func (g *Graph) OutsideMarks() []*device.Mark {
	var marks []*device.Mark
	for _, o := range g.outside {
		if o.Record {
			marks = append(marks, &device.Mark{Done: make(chan struct{})})
		} else if mutant.Breaks("graph_waits_outside") {
			marks = append(marks, nil)
		} else {
			marks = append(marks, o.Event.Last())
		}
	}
	return marks
}

// Recorded points the events at the submitted execution.
func (g *Graph) Recorded(marks []*device.Mark) {
	for i, o := range g.outside {
		if o.Record && !mutant.Breaks("stream_waits_for_graph") {
			o.Event.Lock()
			o.Event.Mark, o.Event.Captured = marks[i], nil
			o.Event.Unlock()
		}
	}
}

// Unrecorded completes the records that an execution did not reach, since others wait for them.
func (g *Graph) Unrecorded(marks []*device.Mark, s *device.Stream) {
	for i, o := range g.outside {
		if m := marks[i]; o.Record && !device.IsClosed(m.Done) {
			m.Time, m.Failure = time.Duration(s.LastEnd.Load()), s.Blocked()
			close(m.Done)
		}
	}
}
