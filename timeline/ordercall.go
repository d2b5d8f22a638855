package timeline

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/order"
)

// OrderLane describes a lane for an order.
func (s *State) OrderLane(k *LaneKey) order.Lane {
	return order.Lane{Process: k.Process, Host: s.host(k.Process), Device: k.Device, Synchronous: k.Synchronous, Default: k.Stream == nil && !k.Synchronous,
		Blocks: s.model.NonBlocking != 0 && !k.Synchronous && (k.Stream == nil || !k.Stream.NonBlocking)}
}

// host numbers the machines of processes.
func (s *State) host(process uint32) int {
	if int(process) < len(s.hosts) {
		return s.hosts[process]
	}
	if s.reader == nil || int(process) >= len(s.reader.Processes()) {
		return 0
	}
	all := s.reader.Processes()
	for n := len(s.hosts); n <= int(process); n++ {
		s.hosts = append(s.hosts, slices.IndexFunc(all, func(p format.Process) bool { return p.Host == all[n].Host }))
	}
	return s.hosts[process]
}

// OrderCall describes a call that was applied for an order, without its lane and task. Objects that processes share are one. It reuses the memory of k.
func (s *State) OrderCall(k *order.Call[*Object], e *Event) {
	c, f := e.Call, e.Fn
	*k = order.Call[*Object]{Made: k.Made[:0], Ended: k.Ended[:0], Fn: f, Index: c.Index, Thread: c.Thread, Process: e.Process, Host: s.host(e.Process), Start: c.Start, End: c.End,
		Unfinished: c.Flags&format.Unfinished != 0, Captured: e.Captured != nil, Lane: -1, Task: -1}
	if f == nil {
		return
	}
	k.Failed = !k.Unfinished && f.Failed(c.Ret)
	k.Complete = f.Sync.Polls() && e.OK() && s.polled(e)
	if f.Sync == api.SyncDevice {
		if k.Device = s.CurrentDevice(e.Process, c.Thread); s.SameDevice(e.Process, k.Device, NoDevice) {
			k.Device = order.Any
		}
	}
	if f.Event < 0 && (f.Task == api.Wait || f.Task == api.Fill) {
		k.Word = WordOf(e.Process, f, c.Args)
	}
	if f.Event < 0 && f.Task != api.NoTask {
		return
	}
	for i := range e.Uses {
		u := e.Uses[i].Object
		if !orders(u.Kind) {
			continue
		}
		o := u.Exported()
		k.Key, k.Kind = o, o.Kind
		if u.Created == k.Index {
			k.Made = append(k.Made, o)
		}
		if o.Ended == k.Index {
			k.Ended = append(k.Ended, o)
		}
	}
	if f.Task == api.NoTask && len(c.Data) > 0 && e.OK() {
		for i := range f.Params {
			for _, o := range s.listed(e, i, api.Notify) { // they are reset, and then like those older than the trace
				if o != nil {
					k.Ended = append(k.Ended, o.Exported())
				}
			}
		}
	}
}

// WordOf returns the value in memory that a task writes or awaits, the zero value for none.
func WordOf(process uint32, f *api.Func, args []uint64) (w order.Word) {
	value, bytes := false, uint64(0)
	for i := range f.Params {
		switch p := &f.Params[i]; {
		case int(p.Word) >= len(args):
			return order.Word{}
		case p.Role == api.Fills, p.Role == api.DevArgs:
			n, _ := p.Size.Bytes(f, args)
			if n > 8 {
				return order.Word{}
			}
			w.Process, w.Addr, bytes = process, args[p.Word], n
		case p.Name == "value":
			w.Value, value = args[p.Word], true
		case f.Task == api.Wait && (p.Name == "flag" || p.Name == "flags"): // of AscendCL and of CUDA, with the same numbers
			if flag := args[p.Word] &^ (1 << 30); flag < 4 { // without CUDA's flush
				w.Until = order.AtLeast + order.Condition(flag)
			}
		}
	}
	if !value {
		return order.Word{}
	}
	if bytes == 4 { // so that conditions hold for the upper half as well
		w.Value = uint64(int64(int32(w.Value)))
	}
	return w
}

// taskOrder is the order of a walk's tasks.
type taskOrder struct {
	*order.Order[*Object, struct{}]
	call  order.Call[*Object] // the current call, if known is true
	known bool
	edges []order.Edge[struct{}] // of the current call, without those between tasks of one lane
}

// ordered takes the current call into the order of tasks.
func (w *Walk) ordered(e *Event, h *HostCall, task *Task) {
	o, f := &w.queue.order, e.Fn
	if o.known = false; len(o.edges) > 0 {
		o.edges = nil
	}
	switch {
	case f == nil:
	case task != nil && OrdersLane(f) && o.Launch(task.Lane, task.Index, h.Index, h.Thread, h.End):
	case task == nil && f.Sync == api.NoSync && e.Captured == nil && !ordersObjects(e):
	default:
		o.edges = o.Apply(w.OrderCall(h, task))
	}
}

// OrdersLane reports whether calls of a function order their own lane alone, if they have a task: see order.Order.Launch.
func OrdersLane(f *api.Func) bool {
	return f.Sync == api.NoSync && f.Event < 0 && f.Task != api.Wait && f.Task != api.Fill && f.Task != api.GraphRun && f.Shares == api.NoShare
}

// ordersObjects reports whether a call uses an event or a notify, or may list notifies.
func ordersObjects(e *Event) bool {
	for i := range e.Uses {
		if orders(e.Uses[i].Object.Kind) {
			return true
		}
	}
	return e.Fn.Task == api.NoTask && len(e.Call.Data) > 0
}

func orders(k api.Object) bool { return k == api.Event || k == api.Notify || k == api.Counter }

// OrderCall describes the current call, with its task or nil, for an order. The result is valid until the next call.
func (w *Walk) OrderCall(h *HostCall, t *Task) *order.Call[*Object] {
	k := &w.queue.order.call
	if w.queue.order.known {
		return k
	}
	w.s.OrderCall(k, w.now.event)
	if t != nil {
		k.Lane, k.Task = t.Lane, t.Index
	} else if h.Fn != nil && h.Fn.Sync.Wait() == api.SyncStream {
		k.Lane = int(h.Waits)
	}
	w.queue.order.known = true
	return k
}

// AddLanes adds the lanes to an order that it lacks.
func (w *Walk) AddLanes(o interface {
	Lanes() int
	Lane(order.Lane)
}) {
	for n := o.Lanes(); n < len(w.lanes.list); n++ {
		o.Lane(w.s.OrderLane(&w.lanes.list[n].key))
	}
}

// Edges returns the work that the current call, or its task, waits for. Edges between tasks of one lane may be missing. The result is valid until the
// next call.
func (w *Walk) Edges() []order.Edge[struct{}] { return w.queue.order.edges }

// Links is Edges in numbers.
func (w *Walk) Links() []order.Link { return order.Links(w.queue.order.edges) }
