package sim

import (
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
)

// update collects the tasks that will replace those of a group.
type update struct {
	group *taskGroup
	tasks []task
}

// MdlRICaptureTaskGrpBegin marks the tasks that follow on a captured stream as a group.
func (t *Thread) MdlRICaptureTaskGrpBegin(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := s.program.capture.Load()
	if c == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[s] != nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is open on stream %d already", s.id)
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
	c := s.program.capture.Load()
	switch {
	case handle == nil:
		return t.null("handle")
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[s]
	if g == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group is open on stream %d", s.id)
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
		return t.badHandle(device.KindGroup, uint64(handle))
	case s.program.capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't update tasks", s.id)
	}
	g.graph.mu.Lock()
	defer g.graph.mu.Unlock()
	if g.updating || !s.program.update.CompareAndSwap(nil, &update{group: g}) {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the task group is being updated already, or stream %d updates another", s.id)
	}
	g.updating = true
	return acl.ACL_SUCCESS
}

// updateTask keeps a task for the group that a stream updates, and tells whether it updates one.
func (t *Thread) updateTask(s *stream, k task) (bool, acl.Error) {
	u := s.program.update.Load()
	if u == nil {
		return false, acl.ACL_SUCCESS
	}
	u.group.graph.mu.Lock()
	defer u.group.graph.mu.Unlock()
	n := len(u.tasks)
	switch {
	case n == len(u.group.tasks):
		k.end()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "more tasks than the group's %d", n)
	case k.kind != u.group.tasks[n].kind:
		k.end()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "task %d of the group is a %s, not a %s", n, u.group.tasks[n].kind, k.kind)
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
	u := s.program.update.Swap(nil)
	if u == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates no task group", s.id)
	}
	g := u.group
	g.graph.mu.Lock()
	g.updating = false
	g.graph.mu.Unlock()
	if len(u.tasks) != len(g.tasks) {
		for _, k := range u.tasks {
			k.end()
		}
		if broken("update_with_other_tasks") {
			return acl.ACL_SUCCESS
		}
		return t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "%d tasks for a group of %d", len(u.tasks), len(g.tasks))
	}
	done := false
	return t.submit(s, task{kind: taskGraph,
		run: func(*stream) (time.Duration, *failure) {
			done = g.replace(u.tasks)
			return 0, nil
		},
		release: func() {
			if !done {
				for _, k := range u.tasks {
					k.end()
				}
			}
		}})
}

// replace puts new tasks in the places of the group's. It does nothing where the graph is gone.
func (g *taskGroup) replace(tasks []task) bool {
	g.graph.mu.Lock()
	defer g.graph.mu.Unlock()
	i := 0
	for _, l := range g.graph.lanes {
		for _, k := range l.tasks {
			if k.group != g {
				continue
			}
			old := k.task
			k.task = tasks[i]
			old.end()
			i++
		}
	}
	return i > 0
}
