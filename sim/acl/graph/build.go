package graph

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Bound is a stream's place in a model that is built task by task.
type Bound struct {
	Graph *Graph
	Lane  *Lane
	Ended bool // by aclmdlRIEndTask
}

func (b *Bound) Add(s *device.Stream, k *GraphTask) *fail.Failure {
	g := b.Graph
	g.Lock()
	defer g.Unlock()
	if !g.Building || b.Ended {
		return status.Failed(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d is bound to model %d, which is complete: it takes no more tasks", s.ID, g.ID)
	}
	b.Lane.Tasks = append(b.Lane.Tasks, k)
	return nil
}

// BuiltMark is an event record inside a built model.
type BuiltMark struct {
	Graph *Graph
	Mark  int
}

// Compare evaluates a condition on two numbers.
func Compare(a, b int64, cond acl.Condition) bool {
	switch cond {
	case acl.ACL_RT_EQUAL:
		return a == b
	case acl.ACL_RT_NOT_EQUAL:
		return a != b
	case acl.ACL_RT_GREATER:
		return a > b
	case acl.ACL_RT_GREATER_OR_EQUAL:
		return a >= b
	case acl.ACL_RT_LESS:
		return a < b
	}
	return a <= b
}

// ReadNumber reads a number in device memory for a task.
func ReadNumber(s *device.Stream, addr uint64, wide bool) (int64, *fail.Failure) {
	size := uint64(4)
	if wide {
		size = 8
	}
	if err := s.Context.Device.Check(addr, size, space.Read); err != nil {
		return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "condition value of stream %d: %v", s.ID, err)
	}
	if wide {
		return atomic.LoadInt64((*int64)(space.Pointer(addr))), nil
	}
	return int64(atomic.LoadInt32((*int32)(space.Pointer(addr)))), nil
}

// Place is a position in a lane.
type Place struct {
	Lane *Lane
	At   int
}

// Label is a jump target in a built model.
type Label struct {
	Handle uint64
	sync.Mutex
	Graph *Graph
	At    Place
}

// LabelList has jump targets. A number in device memory selects one.
type LabelList struct {
	Handle uint64
	Labels []*Label
}
