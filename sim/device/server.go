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

// server is the goroutine that runs the tasks in real time.
type server struct {
	running bool      // it takes tasks
	parked  bool      // it waits for some
	parks   uint32    // how often it has begun to
	swept   uint32    // how often it had when servers were looked at last
	wake    chan bool // wakes it, or ends it
}

// startServer has the server take tasks. The caller holds the lock.
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

// endServer ends a server that waits for work. The caller holds the lock.
func (s *Stream) endServer() {
	if s.server.parked {
		s.server.parked = false
		s.server.wake <- false
	}
}

// serve runs tasks until there were none for a while.
func (s *Stream) serve() {
	clk := s.Context.Device.Machine.Clock.(*RealClock)
	var batch []Task
	debug.SetPanicOnFault(true)
	for {
		s.Mu.Lock()
		batch, s.queue = s.queue, batch[:0]
		if len(batch) == 0 {
			s.server.running, s.server.parked = false, !s.Life.closed
			if s.Life.closed { // nobody looks for its server any more
				s.Mu.Unlock()
				return
			}
			s.server.parks++
			s.Mu.Unlock()
			clk.parked()
			if !<-s.server.wake {
				return
			}
			continue
		}
		s.Mu.Unlock()
		if mutant.Breaks("tasks_in_order") {
			slices.Reverse(batch)
		}
		for i := range batch {
			s.runTask(clk, &batch[i])
			batch[i] = Task{}
		}
	}
}

// runTask runs a task in real time, or ends it without. On the device it begins when the task before it ended, or when it was
// submitted if that was later: what this host needs to get to it is not counted. It takes as long as the cost model says, or
// as long as the host has worked on it where that is longer.
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

// attempt waits for what a task waits for, and does its work, which takes so long on the device, and on the host. The goroutine panics on
// memory faults.
func (s *Stream) attempt(clk *RealClock, k *Task, wait bool) (d, host time.Duration, f *fail.Failure) {
	defer func() {
		if r := recover(); r != nil {
			f = failedAt(space.Caught(r))
		}
	}()
	s.Context.Device.Machine.Strict.Begin(&s.Strict, k.Check, string(k.Kind))
	if k.Begin != nil && wait {
		if w := k.Begin(s); w != nil {
			if ok, f := w.await(s.Life.Stop); !ok {
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
	runtime.LockOSThread() // whose work it is
	defer runtime.UnlockOSThread()
	before := worked(clk)
	d, f = k.perform(s)
	host = worked(clk).Since(before)
	if usual != nil {
		usual.Store(max(int64(host), 1))
	}
	return d, host, f
}

// brief is the time below which a kernel's work is taken by the clock alone: to ask the system for a thread's own time
// takes a microsecond. A launch that takes longer than that, of a kernel that did not the time before, was most likely
// interrupted: it counts as the one before, and the next one is asked for.
const Brief = 20 * time.Microsecond

// work is what a thread has done so far.
type Work struct {
	At, Ran time.Duration // when, and its time on a processor
	Waits   int64
}

func worked(clk *RealClock) Work {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return Work{clk.Now(nil), time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw}
}

// since is how long work took, without the time for which others had the thread's processor: a device would not have
// waited for them. Work that waits by itself takes all of its time.
func (w Work) Since(before Work) time.Duration {
	if w.Waits != before.Waits {
		return w.At - before.At
	}
	return w.Ran - before.Ran
}
