package device

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"golang.org/x/sys/unix"
)

// server is the goroutine that runs stream tasks in real time.
type server struct {
	running bool      // takes tasks
	parked  bool      // waits for tasks
	parks   uint32    // number of times parked
	swept   uint32    // parks at the last sweep
	wake    chan bool // true wakes it, false ends it
}

// startServer starts or wakes the server. The caller holds the lock.
func (s *Stream) startServer() {
	if s.server.running {
		return
	}
	s.server.running = true
	if s.server.parked {
		s.server.parked = false
		s.server.wake <- true
		return
	}
	go s.serve()
}

// endServer ends a parked server. The caller holds the lock.
func (s *Stream) endServer() {
	if s.server.parked {
		s.server.parked = false
		s.server.wake <- false
	}
}

// serve runs tasks, and ends after it was idle for a while.
func (s *Stream) serve() {
	clk := s.Context.Device.Machine.Clock.(*RealClock)
	var batch []Task
	debug.SetPanicOnFault(true)
	for {
		s.Lock()
		batch, s.queue = s.queue, batch[:0]
		if len(batch) == 0 {
			s.server.running, s.server.parked = false, !s.Life.closed
			if s.Life.closed { // the sweep does not see this stream any more
				s.Unlock()
				return
			}
			s.server.parks++
			s.Unlock()
			clk.parked()
			if !<-s.server.wake {
				return
			}
			continue
		}
		s.Unlock()
		if mutant.Breaks("tasks_in_order") {
			slices.Reverse(batch)
		}
		for i := range batch {
			s.runTask(clk, &batch[i])
			batch[i] = Task{}
		}
	}
}

// runTask runs a task in real time, or ends it without running. On the device the task starts when the previous task
// ended, or at its submission if that was later. It takes the modelled time, or the host's work time if that is
// longer.
func (s *Stream) runTask(clk *RealClock, k *Task) {
	skip := s.halted()
	var f *fail.Failure
	var d time.Duration
	if !skip || k.Always {
		s.Time = max(s.Time, k.At)
		var host time.Duration
		if d, host, f = s.attempt(clk, k, !skip); d > 0 {
			n, shared := k.need(), s.Context.Device.shared
			if at, ok := shared.Take(s.Priority, s.Life.Stop, n, s.Time, d); ok {
				s.Time = max(at+d, s.Time+host)
				clk.sleepUntil(s.Time, s.Life.Stop)
				shared.Give(n)
			}
		}
	}
	s.ended(k, d, f)
}

// attempt waits for a task's condition and does its work. It returns the device time and the host's work time. The
// goroutine must panic on memory faults.
func (s *Stream) attempt(clk *RealClock, k *Task, wait bool) (d, host time.Duration, f *fail.Failure) {
	defer func() {
		if r := recover(); r != nil {
			f = failedAt(space.Caught(r))
		}
	}()
	s.Context.Device.Machine.Strict.Begin(&s.Strict, k.Check, string(k.Kind))
	if k.Begin != nil && wait {
		if w := k.Begin(s); w != nil {
			ok, f := w.await(s.Life.Stop)
			s.Time = w.resume(clk, s.Time)
			if !ok {
				return 0, 0, f
			}
		}
	}
	if k.Quick || k.Kind != TaskKernel && k.Kind != TaskCopy && k.Kind != TaskFill && k.Kind != TaskReduce {
		d, f = k.perform(s)
		return d, 0, f
	}
	var usual *atomic.Int64
	if k.Order != nil {
		usual = k.Order.Usual()
		if before := time.Duration(usual.Load()); before > 0 && before < Brief {
			began := clk.Now(nil)
			d, f = k.perform(s)
			host = clk.Now(nil) - began
			usual.Store(int64(host))
			if host > Brief {
				host = before
			}
			return d, host, f
		}
	}
	runtime.LockOSThread() // the processor time is per thread
	defer runtime.UnlockOSThread()
	before := worked(clk)
	d, f = k.perform(s)
	host = worked(clk).Since(before)
	if usual != nil {
		usual.Store(max(int64(host), 1))
	}
	return d, host, f
}

// Brief is the work time below which the clock alone measures a kernel, since getrusage takes a microsecond. If a
// usually brief kernel takes longer, it was most likely interrupted: the previous time is used, and the next launch
// is measured by getrusage.
const Brief = 20 * time.Microsecond

// Work is a measurement of a thread's work so far.
type Work struct {
	At, Ran time.Duration // time of the measurement, and processor time
	Waits   int64
}

func worked(clk *RealClock) Work {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return Work{clk.Now(nil), time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw}
}

// Since returns the work time after an earlier measurement. It excludes time in which the thread was preempted, and
// includes time in which it waited.
func (w Work) Since(before Work) time.Duration {
	if w.Waits != before.Waits {
		return w.At - before.At
	}
	return w.Ran - before.Ran
}
