package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/order"
)

// OrderLanes adds the Walk's new lanes to an order.
func (w *Walk) OrderLanes(add func(order.Lane), known int) {
	for ; known < len(w.Lanes); known++ {
		l := &w.Lanes[known]
		add(order.Lane{Process: l.Process, Device: l.Device, Synchronous: l.Synchronous, Default: l.Stream == nil && !l.Synchronous, Blocks: w.Model.NonBlocking != 0 && l.blocks()})
	}
}

// OrderCall returns the current call, with its task or nil, for an order. Objects that processes share are one.
func (w *Walk) OrderCall(h *HostCall, t *Task) order.Call[*Object] {
	c := order.Call[*Object]{Fn: h.Fn, Index: h.Index, Thread: h.Thread, Process: w.Process(h.Thread), Start: h.Start, End: h.End, Failed: h.Failed(), Unfinished: h.Flags&format.Unfinished != 0,
		Complete: h.Complete, Lane: -1, Task: -1}
	if t != nil {
		c.Lane, c.Task = t.Lane, t.Index
		if o := t.Object; o != nil && t.Kind != api.GraphRun {
			c.Key, c.Kind = o.Exported(), o.Kind
		}
		return c
	}
	if h.Fn == nil {
		return c
	}
	if e := w.now.event; e.Captured != nil {
		c.Captured = true
	}
	switch h.Fn.Sync {
	case api.SyncStream, api.PollStream:
		c.Lane = int(h.Waits)
	case api.SyncDevice:
		c.Device = int(h.Waits)
		if w.s.SameDevice(c.Process, c.Device, NoDevice) {
			c.Device = order.Any
		}
	}
	for _, u := range w.Uses() {
		o := u.Object.Exported()
		if o.Kind != api.Event && o.Kind != api.Notify {
			continue
		}
		c.Key, c.Kind = o, o.Kind
		if u.Object.Created == h.Index {
			c.Made = append(c.Made, o)
		}
		if o.Ended == h.Index {
			c.Ended = append(c.Ended, o)
		}
	}
	return c
}
