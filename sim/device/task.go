package device

import (
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/strict"
	"github.com/acltrace/acltrace/sim/virtual"
)

// TaskKind is the kind of a task. Planned faults name it.
type TaskKind string

const (
	TaskKernel   TaskKind = "kernel"
	TaskCopy     TaskKind = "copy"
	TaskFill     TaskKind = "fill"
	TaskReduce   TaskKind = "reduce"
	TaskRecord   TaskKind = "record"
	TaskWait     TaskKind = "wait"
	TaskReset    TaskKind = "reset"
	TaskNotify   TaskKind = "notify"
	TaskValue    TaskKind = "value"
	TaskHost     TaskKind = "host"
	TaskGraph    TaskKind = "graph"
	TaskOverflow TaskKind = "overflow"
	TaskFree     TaskKind = "free"
	TaskCache    TaskKind = "cache"
	TaskMarker   TaskKind = "marker"
)

// Task is one piece of work on a stream. Run returns the device time. A captured task runs once for each execution of
// its graph. Neither Begin nor Run may block.
type Task struct {
	Kind  TaskKind
	Name  string       // kernel name; "" for other kinds
	Order KernelLaunch // for kernels; Run may be nil then
	Args  space.Span   // for kernels: argument block on the device
	Own   bool         // Args return to the stream's pool when the task ends
	Lent  bool         // a copy of a graph task, which ends with its graph
	Quick bool         // ignore the host's work time
	// Begin is called when it is the task's turn. It returns the task's wait; nil for none. May be nil.
	Begin func(s *Stream) *Waiting
	Run   func(s *Stream) (time.Duration, *fail.Failure)
	// Always runs the task even if the stream has failed or is discarded, since others wait for it.
	Always bool
	Wrote  space.Span     // destination of a copy
	Copy   model.CopyKind // for copies and fills
	Demand model.Demand   // for kernels
	// Release is called once, when the task will not run again. May be nil.
	Release func()
	At      time.Duration // device time of the submission
	ID      uint32
	Detail  any          // description of a graph task, for the layer above
	Thread  uint32       // system thread that submitted it
	Check   *strict.Task // strict mode
}

// KernelLaunch is the work of a kernel task.
type KernelLaunch interface {
	Run(s *Stream, args space.Span, own bool) (time.Duration, *fail.Failure)
	GiveBack(args space.Span)
	Usual() *atomic.Int64 // work time of the kernel's previous launch on the host, in nanoseconds; 0 for none
}

func (k *Task) End() {
	if k.Lent {
		return
	}
	if k.Own {
		k.Order.GiveBack(k.Args)
	}
	if k.Release != nil {
		k.Release()
	}
}

// need returns the device resources that a running task holds.
func (k *Task) need() virtual.Need {
	switch k.Kind {
	case TaskKernel:
		return virtual.Need{Kind: virtual.Kernel, Demand: k.Demand}
	case TaskCopy, TaskFill:
		return virtual.Need{Kind: virtual.Copy, Copy: k.Copy}
	}
	return virtual.Need{Kind: virtual.Call}
}

// perform does the work.
func (k *Task) perform(s *Stream) (time.Duration, *fail.Failure) {
	if k.Run == nil {
		return k.Order.Run(s, k.Args, k.Own)
	}
	return k.Run(s)
}

// failedAt returns the failure of a task that accessed unmapped host memory.
func failedAt(err error) *fail.Failure {
	return fail.New(fail.BadAddress, "a task accessed unmapped host memory: %v", err)
}
