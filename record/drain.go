package record

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
)

// window is the state of what is recorded at the moment. Times are on the clock of the trace.
type window struct {
	waiting int64 // since when nothing is recorded, 0 while calls are recorded
	since   int64 // since when calls are recorded
	stopped Stop  // why nothing is recorded, "" while calls are recorded
}

// drain takes what programs write until over returns true: no process is left that has called the runtime or may call it.
func (r *recorder) drain(s *ring.Session, over func() bool) error {
	defer batchScheduling()()
	flushed, reaped := time.Now(), time.Now()
	for {
		if over() {
			err := r.rest(s)
			r.untimed(s)
			r.answer(s) // requests since the previous round: recording may have been off
			return errors.Join(err, r.reap(s), r.order.finish(), r.resumed(r.now()), r.steps.leftOut(), r.rows.Finish())
		}
		began := probe.Now()
		load, err := s.Drain(r.sink())
		if err := errors.Join(err, r.order.drained(began)); err != nil {
			return err
		}
		r.rows.Drained(began)
		if time.Since(reaped) > reapEvery {
			if err := r.reap(s); err != nil {
				return err
			}
			r.untimed(s)
			reaped = time.Now()
		}
		r.answer(s)
		r.limit(s)
		if err := r.flush(&flushed); err != nil {
			return err
		}
		if r.flight != nil {
			if err := r.flight.Tick(time.Now()); err != nil {
				return err
			}
		}
		if load != ring.Pressed {
			pause(s.Interval())
		}
	}
}

// sink returns the Sink for what programs write.
func (r *recorder) sink() probe.Sink {
	if r.order != nil {
		return r.order
	}
	return r.rows
}

// flush writes out what was recorded if the last flush is a second old. Data on the disk survives a killed recorder.
func (r *recorder) flush(last *time.Time) error {
	w := r.rows.Writer()
	if r.flight == nil {
		if err := r.file.replace(w); err != nil {
			return err
		}
	}
	if time.Since(*last) <= time.Second {
		return nil
	}
	*last = time.Now()
	r.kernels.remember(&r.o, &r.rows.Processes)
	return errors.Join(r.steps.leftOut(), w.Flush())
}

// rest takes what is left in the rings at the end of the recording. If processes are left, another recorder may take over
// their unfinished calls.
func (r *recorder) rest(s *ring.Session) error {
	if !s.Alive() {
		return s.Finish(r.sink())
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if load, err := s.Drain(r.sink()); err != nil {
			return err
		} else if load == ring.Idle {
			break
		}
	}
	return s.Leave(r.sink())
}

// untimed reports once that the program's tasks are too many to measure.
func (r *recorder) untimed(s *ring.Session) {
	if r.o.Capture.DeviceTime == 0 || r.o.Waiting == nil || r.saidUntimed {
		return
	}
	why := "too many tasks are not complete"
	n := s.Untimed()
	if n[probe.UntimedLost] > n[probe.UntimedPool] {
		why = "the recorder can't keep up"
	}
	if n := n[probe.UntimedPool] + n[probe.UntimedLost]; n > 0 {
		r.saidUntimed = true
		r.o.Waiting(fmt.Sprintf("only some tasks have device times, %s missing so far: %s; measure a part of them, such as one in 100", human.Count(n), why))
	}
}

// reapEvery is the interval between two checks for ended processes.
const reapEvery = 200 * time.Millisecond

// reap takes what processes that have ended have left.
func (r *recorder) reap(s *ring.Session) error {
	ends, err := s.Reap(r.sink())
	r.target.ends = append(r.target.ends, ends...)
	for i := range ends {
		err = errors.Join(err, r.order.ended(ends[i].PID), r.rows.Ended(&ends[i]))
	}
	if r.shared.reaped != nil {
		r.shared.reaped(ends, s.NewlyExcluded())
	}
	return err
}

// limit stops recording if a limit is reached. Requests may start it again.
func (r *recorder) limit(s *ring.Session) {
	if r.window.waiting != 0 {
		return
	}
	why := Time
	switch {
	case r.o.Limits.For > 0 && r.now()-r.window.since > r.o.Limits.For.Nanoseconds():
	case r.steps.done():
		why = Selected
	case r.flight == nil && r.file.maxSize > 0 && r.rows.Writer().Size() > r.file.maxSize:
		why = Size
		r.file.full, r.rows.Payloads.Cut = true, true
	default:
		return
	}
	r.control.mu.Lock()
	s.Pause(0)
	r.control.mu.Unlock()
	r.stopped(r.now(), why)
}

// resumed records that nothing was recorded until a time.
func (r *recorder) resumed(at int64) error {
	from := r.window.waiting
	if r.window.waiting = 0; from == 0 {
		return nil
	}
	r.window.since = max(at, from)
	return r.rows.Missing(format.Gap{Thread: format.NoThread, From: from, To: r.window.since, Reason: format.Detached})
}

// batchScheduling makes the thread of the calling goroutine wait for a core instead of preempting the program when it wakes
// up, until the returned function is called. Its share of the cores stays the same, so that no calls are lost.
func batchScheduling() (undo func()) {
	runtime.LockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil || was.Policy != unix.SCHED_NORMAL {
		return runtime.UnlockOSThread
	}
	batch := *was
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &batch, 0) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		// If the policy can't be restored, the thread stays locked and ends with its goroutine.
		if unix.SchedSetAttr(0, was, 0) == nil {
			runtime.UnlockOSThread()
		}
	}
}

// pause blocks the thread of the calling goroutine. If only the goroutine slept, two threads would wake up for it, and the Go
// scheduler would poll the thread in its system call many times. A raw system call hides the thread from the scheduler, which
// is safe if other goroutines have another processor. A garbage collection ends the pause by a signal.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	if runtime.GOMAXPROCS(0) == 1 {
		_ = unix.Nanosleep(&t, nil) // a signal may end it early
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
