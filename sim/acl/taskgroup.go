package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// update collects the tasks that will replace those of a group.
type update struct {
	group *taskGroup
	tasks []device.Task
}

// MdlRICaptureTaskGrpBegin marks the tasks that follow on a captured stream as a group.
func (t *Thread) MdlRICaptureTaskGrpBegin(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).capture.Load()
	if c == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[s] != nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is open on stream %d already", s.ID)
	}
	c.groups[s] = &taskGroup{graph: c.graph}
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskGrpEnd ends a group and returns its handle.
func (t *Thread) MdlRICaptureTaskGrpEnd(on acl.Stream, handle *acl.TaskGrp) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).capture.Load()
	switch {
	case handle == nil:
		return t.null("handle")
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[s]
	if g == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group is open on stream %d", s.ID)
	}
	delete(c.groups, s)
	if g.handle = t.sim.groups.Add(g); g.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many task groups")
	}
	*handle = acl.TaskGrp(g.handle)
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskUpdateBegin has the tasks that follow on a stream replace those of a group.
func (t *Thread) MdlRICaptureTaskUpdateBegin(on acl.Stream, handle acl.TaskGrp) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	g := t.sim.groups.Get(uint64(handle))
	switch {
	case g == nil || t.sim.graphs.Get(g.graph.handle) != g.graph:
		return t.badHandle(space.KindGroup, uint64(handle))
	case attached(s).capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't update tasks", s.ID)
	}
	g.graph.mu.Lock()
	defer g.graph.mu.Unlock()
	if g.updating || !attached(s).update.CompareAndSwap(nil, &update{group: g}) {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the task group is being updated already, or stream %d updates another", s.ID)
	}
	g.updating = true
	return acl.ACL_SUCCESS
}

// updateTask keeps a task for the group that a stream updates, and tells whether it updates one.
func (t *Thread) updateTask(s *device.Stream, k device.Task) (bool, acl.Error) {
	u := attached(s).update.Load()
	if u == nil {
		return false, acl.ACL_SUCCESS
	}
	u.group.graph.mu.Lock()
	defer u.group.graph.mu.Unlock()
	n := len(u.tasks)
	switch {
	case n == len(u.group.tasks):
		k.End()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "more tasks than the group's %d", n)
	case k.Kind != u.group.tasks[n].Kind:
		k.End()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "task %d of the group is a %s, not a %s", n, u.group.tasks[n].Kind, k.Kind)
	}
	u.tasks = append(u.tasks, k)
	return true, acl.ACL_SUCCESS
}

// MdlRICaptureTaskUpdateEnd replaces the tasks of a group, in the order of the stream.
func (t *Thread) MdlRICaptureTaskUpdateEnd(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	u := attached(s).update.Swap(nil)
	if u == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates no task group", s.ID)
	}
	g := u.group
	g.graph.mu.Lock()
	g.updating = false
	g.graph.mu.Unlock()
	if len(u.tasks) != len(g.tasks) {
		for _, k := range u.tasks {
			k.End()
		}
		if mutant.Breaks("update_with_other_tasks") {
			return acl.ACL_SUCCESS
		}
		return t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "%d tasks for a group of %d", len(u.tasks), len(g.tasks))
	}
	done := false
	return t.submit(s, device.Task{Kind: device.TaskGraph,
		Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			done = g.replace(u.tasks)
			return 0, nil
		},
		Release: func() {
			if !done {
				for _, k := range u.tasks {
					k.End()
				}
			}
		}})
}

// replace puts new tasks in the places of the group's. It does nothing where the graph is gone.
func (g *taskGroup) replace(tasks []device.Task) bool {
	g.graph.mu.Lock()
	defer g.graph.mu.Unlock()
	i := 0
	for _, l := range g.graph.lanes {
		for _, k := range l.tasks {
			if k.group != g {
				continue
			}
			old := k.Task
			k.Task = tasks[i]
			old.End()
			i++
		}
	}
	return i > 0
}
