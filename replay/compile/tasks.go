package compile

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// A taskOrder is the order of the tasks that the lookahead has read. It knows raw handles only. A value is the tasks that an event's record may
// follow.
type taskOrder struct {
	*order.Order[memoryKey, order.Clock]
	lanes  map[laneKey]int
	keys   []laneKey     // by lane
	before []order.Clock // by lane: tasks on other lanes that its next task may follow
	latest int           // lane that was used last
	tasks  int           // so far, from 1
	call   order.Call[memoryKey]
}

// laneKey is a stream, or a default stream of a device.
type laneKey struct {
	process uint32
	stream  uint64 // see api.Model.StreamOf
	device  int    // of a default stream, otherwise timeline.NoDevice
}

// A taskPlace is the place of a call in the order of tasks.
type taskPlace struct {
	lane     int         // of its task, or that it waits for; -1 for none
	task     int         // its number, 0 for none
	complete bool        // it is a wait, or a poll that returned complete
	device   int         // that it waits for, or that has its default stream; timeline.NoDevice if unknown
	covers   []lastTask  // tasks that it waits for
	before   order.Clock // tasks that these, or its own task, may follow
}

// lastTask is a task, and those before it on the lane.
type lastTask struct{ lane, task int }

func newTaskOrder() taskOrder {
	return taskOrder{Order: order.New[memoryKey, order.Clock](), lanes: map[laneKey]int{}}
}

// lane returns the number of a lane.
func (o *taskOrder) lane(k laneKey) int {
	if o.latest < len(o.keys) && o.keys[o.latest] == k {
		return o.latest
	}
	n, ok := o.lanes[k]
	if !ok {
		n = len(o.keys)
		o.lanes[k] = n
		o.keys, o.before = append(o.keys, k), append(o.before, nil)
		o.Lane(order.Lane{Process: k.process, Device: k.device})
	}
	o.latest = n
	return n
}

// ordered takes in a call that enters the window.
func (p *compiler) ordered(pr *Thread, g *group, c *format.Call) {
	o, fn, at := &p.look.tasks, g.fn, &g.taskPlace
	if fn.Sync == api.NoSync && (fn.Task == api.NoTask || fn.Graph >= 0 || fn.Stream < 0) || len(c.Args) != int(fn.Words) {
		return
	}
	process := p.procs[pr.Process].process
	if k := (laneKey{process, 0, timeline.NoDevice}); fn.Stream >= 0 {
		if k.stream = p.Model.StreamOf(fn, c.Args[fn.Params[fn.Stream].Word], c.Thread); k.stream == 0 {
			k.device = p.look.state.CurrentDevice(process, c.Thread)
		}
		at.lane, at.device = o.lane(k), k.device
	}
	ended := c.Flags&format.Unfinished == 0 && !fn.Failed(c.Ret)
	if fn.Task != api.NoTask && ended {
		o.tasks++
		at.task = o.tasks
		if at.before = o.before[at.lane]; timeline.OrdersLane(fn) && o.Launch(at.lane, at.task, c.Index, c.Thread, c.End) {
			return
		}
	}
	o.call = order.Call[memoryKey]{Fn: fn, Index: c.Index, Thread: c.Thread, Process: process, Start: c.Start, End: c.End, Failed: !ended, Unfinished: c.Flags&format.Unfinished != 0,
		Lane: at.lane, Task: cmp.Or(at.task, -1), Device: order.Any}
	switch {
	case fn.Event < 0 && (fn.Task == api.Wait || fn.Task == api.Fill):
		o.call.Word = timeline.WordOf(process, fn, c.Args)
	case fn.Event >= 0:
		o.call.Key, o.call.Kind = memoryKey{process, c.Args[fn.Params[fn.Event].Word]}, fn.Params[fn.Event].Object
	}
	if at.complete = fn.Sync != api.NoSync && (!fn.Sync.Polls() || timeline.Polled(p.Model, fn, c)); at.complete {
		o.call.Complete = true
		if at.lane < 0 && fn.Event < 0 {
			at.device = p.look.state.CurrentDevice(process, c.Thread)
			o.call.Device = at.device
		}
		pr.syncs = append(pr.syncs, pr.read())
	}
	o.apply(at)
}

// apply takes in the call that was described.
func (o *taskOrder) apply(at *taskPlace) {
	for _, e := range o.Apply(&o.call) {
		switch {
		case e.Why == order.SameLane:
		case e.After.Task < 0:
			at.covers = append(at.covers, lastTask{e.Before.Lane, e.Before.Task})
			if e.Why != order.EventWait {
				at.before = at.before.Join(o.before[e.Before.Lane])
				continue
			}
			at.before, at.device = at.before.Join(e.Before.Value), o.keys[e.Before.Lane].device
		default: // of this task, or of a wait that was there first
			on := &o.before[e.After.Lane]
			*on = on.Join(e.Before.Value).With(int32(e.Before.Lane), uint64(e.Before.Task))
		}
	}
	if at.task > 0 {
		at.before = o.before[at.lane]
		o.Keep(at.before)
	}
}

// waitsFor reports whether the call waits for a task: itself, or for one that may follow it.
func (at *taskPlace) waitsFor(lane, task int) bool {
	return at.before.At(int32(lane)) >= uint64(task) || slices.ContainsFunc(at.covers, func(c lastTask) bool { return c.lane == lane && c.task >= task })
}

// on reports whether the call may concern a device.
func (at *taskPlace) on(device int) bool {
	return at.device == device || at.device == timeline.NoDevice || device == timeline.NoDevice
}
