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

// taskKind is what a task does. Faults are planned by it.
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

// task is one piece of work on a stream. run returns how long the device takes for it; where the task was captured into a
// graph it is called once for each execution. Neither run nor begin waits for anything: that is the clock's affair.
type Task struct {
	Kind  TaskKind
	Name  string       // of the kernel; "" for other kinds
	Order KernelLaunch // of a kernel; then run may be nil
	Args  space.Span   // of a kernel, on the device
	Own   bool         // args go back to the stream's when the task ends
	Lent  bool         // the task is run once more, and ends elsewhere
	Quick bool         // what the host does for it does not count
	// begin is called when the turn of the task has come, and returns what it waits for; it may be nil, and return nil.
	Begin func(s *Stream) *Waiting
	Run   func(s *Stream) (time.Duration, *fail.Failure)
	// always says that the task runs even where the stream has failed or is being discarded: it releases what others wait for.
	Always bool
	Wrote  space.Span     // where a copy goes
	Copy   model.CopyKind // of copies and fills
	Demand model.Demand   // of kernels
	// release is called once, when the task will not run again, whether it ran or not; may be nil.
	Release func()
	At      time.Duration // device time at which it was submitted
	ID      uint32
	Detail  any          // what a task of a model tells about itself: an *event, a *valueTask
	Thread  uint32       // of the system, that submitted it
	Check   *strict.Task // in strict mode
}

// KernelLaunch is a launch of a kernel: what a task does that has one.
type KernelLaunch interface {
	Run(s *Stream, args space.Span, own bool) (time.Duration, *fail.Failure)
	GiveBack(args space.Span)
	Usual() *atomic.Int64 // nanoseconds that the host worked for the kernel's launch before, 0 for none
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

// need is what a task holds of its device while it runs.
func (k *Task) need() virtual.Need {
	switch k.Kind {
	case TaskKernel:
		return virtual.Need{Kind: virtual.Kernel, Demand: k.Demand}
	case TaskCopy, TaskFill:
		return virtual.Need{Kind: virtual.Copy, Copy: k.Copy}
	}
	return virtual.Need{Kind: virtual.Call}
}

// perform does the work of a task.
func (k *Task) perform(s *Stream) (time.Duration, *fail.Failure) {
	if k.Run == nil {
		return k.Order.Run(s, k.Args, k.Own)
	}
	return k.Run(s)
}

// failedAt is the error of a task that met host memory that is not there.
func failedAt(err error) *fail.Failure {
	return fail.New(fail.BadAddress, "a task on the stream touched host memory that is not there: %v", err)
}
