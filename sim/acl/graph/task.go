package graph

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
)

// Update collects the tasks that will replace a group.
type Update struct {
	Group *TaskGroup
	Tasks []device.Task
}

// Replace replaces a group's tasks. It returns false if the graph is gone.
func (g *TaskGroup) Replace(tasks []device.Task) bool {
	g.Graph.Lock()
	defer g.Graph.Unlock()
	i := 0
	for _, l := range g.Graph.Lanes {
		for _, k := range l.Tasks {
			if k.Group != g {
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

// ValueTask describes a task that writes a word or waits for one.
type ValueTask struct {
	Addr, Value uint64
	Flag        uint32
	Waits       bool
}

// Change is a pending change that aclmdlRIUpdate applies.
type Change struct {
	Disable bool
	Task    *device.Task
}

func (k *GraphTask) Type() acl.MdlRITaskType {
	switch k.Kind {
	case device.TaskKernel:
		return acl.ACL_MODEL_RI_TASK_KERNEL
	case device.TaskRecord:
		return acl.ACL_MODEL_RI_TASK_EVENT_RECORD
	case device.TaskWait:
		return acl.ACL_MODEL_RI_TASK_EVENT_WAIT
	case device.TaskReset:
		return acl.ACL_MODEL_RI_TASK_EVENT_RESET
	}
	if v, ok := k.Detail.(*ValueTask); ok {
		if v.Waits {
			return acl.ACL_MODEL_RI_TASK_VALUE_WAIT
		}
		return acl.ACL_MODEL_RI_TASK_VALUE_WRITE
	}
	return acl.ACL_MODEL_RI_TASK_DEFAULT
}
