package device

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// Forever is a wait without a limit.
const Forever = time.Duration(-1)

// QueueDepth is the largest number of unfinished tasks on a stream. A caller that submits more waits.
const QueueDepth = 1 << 16

// Stream runs its tasks one after the other. In real time a goroutine, its server, runs them. Streams are ordered by
// events only.
//
// A failed task does not stop later tasks, and the next synchronization returns the failure. If the context stops on
// failure, none of its streams runs another task, and every later submission or synchronization returns the failure.
type Stream struct {
	Handle          uint64
	ID              int32
	Context         *Context
	Priority, Flags uint32
	Args            memory.ArgCache
	Hidden          bool       // without a handle
	Lane            TaskSource // source of tasks; nil to use the queue

	sync.Mutex
	queue     []Task // not yet taken by the server
	submitted uint64
	Failure   *fail.Failure
	observed  bool // the program has seen the failure
	server    server
	Life      streamLife
	Waits     waiters
	Attached  any // data of the layer above

	Done    atomic.Uint64
	LastEnd atomic.Int64  // device time at which the last finished task ended
	Time    time.Duration // device time of the stream; only for the goroutine that runs it
	Strict  strict.Stream
	virtual virtualTask
}

// streamLife is the state of discarding work and of closing.
type streamLife struct {
	Stop      chan struct{} // closed to discard work; an abort makes a new channel afterwards
	mu        sync.Mutex    // held while work is discarded
	discarded bool
	aborts    int // number of aborts
	closing   bool
	closed    bool // the work is done and the handle is gone
}

// virtualTask is the first task in virtual time. Only the thread that drives the devices uses it.
type virtualTask struct {
	number  int32 // stream number in the scheduler
	known   bool  // registered in the scheduler
	begun   bool  // the task has begun, and the fields below are valid
	current Task
	awaits  *Waiting
	skip    bool // do not run the task
	took    time.Duration
	result  *fail.Failure
}

// waiters are the callers that wait for tasks.
type waiters struct {
	all   []waiter
	Count atomic.Int32
}

type waiter struct {
	task uint64
	ch   chan struct{}
}

// Submit appends a task and returns its id. It waits while the queue is full.
func (s *Stream) Submit(t *HostThread, k Task) (uint32, *fail.Failure) {
	s.Lock()
	for {
		switch {
		case s.Life.closing:
			s.Unlock()
			return 0, fail.New(fail.Ended, "stream %d is being destroyed", s.ID)
		case s.Life.discarded:
			f := s.Failure
			s.Unlock()
			return 0, f
		case s.Context.Stopped.Load() != nil:
			s.observed = true
			s.Unlock()
			return 0, s.Context.Stopped.Load().failure
		}
		if s.submitted-s.Done.Load() < QueueDepth {
			break
		}
		room := s.submitted - QueueDepth + 1
		s.Unlock()
		s.Wait(t, room, Forever)
		s.Lock()
	}
	d := s.Context.Device
	k.At = d.Machine.Clock.Now(t)
	s.submitted++
	id := d.Tasks.Add(1)
	k.ID = id
	s.queue = append(s.queue, k)
	d.Machine.Clock.submitted(s, k.At)
	s.Unlock()
	return id, nil
}

// halted reports whether tasks must not run. In a graph, a failed task halts the tasks after it in any failure mode.
func (s *Stream) halted() bool {
	s.Lock()
	defer s.Unlock()
	return s.Life.discarded || IsClosed(s.Life.Stop) || s.Context.Stopped.Load() != nil || s.Lane != nil && s.Failure != nil
}

// fail records a failed task. The first failure stays until the program has seen it.
func (s *Stream) fail(f *fail.Failure) {
	s.Lock()
	if s.Failure == nil {
		s.Failure, s.observed = f, false
	}
	s.Unlock()
	if s.Lane == nil {
		s.Context.failed(s, f)
	}
}

// first takes the oldest task that has not begun.
func (s *Stream) first() Task {
	if s.Lane != nil {
		return s.Lane.Task()
	}
	s.Lock()
	defer s.Unlock()
	k := s.queue[0]
	s.queue[0] = Task{}
	s.queue = s.queue[1:]
	return k
}

// ended ends a task that took d on the device, and wakes its waiters.
func (s *Stream) ended(k *Task, d time.Duration, f *fail.Failure) {
	if k.Kind == TaskKernel {
		s.Context.Device.Busy.Add(int64(d))
	}
	if f != nil && !s.halted() {
		s.Context.Device.Machine.Strict.Failed(&s.Strict)
		s.Context.Device.Machine.Options.Runtime.TaskFailed(s, k, f)
		s.fail(f)
	}
	k.End()
	s.LastEnd.Store(int64(s.Time))
	s.Done.Add(1)
	if s.Waits.Count.Load() > 0 {
		s.wake()
	}
}

// wake wakes the waiters whose tasks are done.
func (s *Stream) wake() {
	s.Lock()
	done := s.Done.Load()
	kept := s.Waits.all[:0]
	for _, w := range s.Waits.all {
		if w.task <= done {
			close(w.ch)
			s.Waits.Count.Add(-1)
		} else {
			kept = append(kept, w)
		}
	}
	clear(s.Waits.all[len(kept):])
	s.Waits.all = kept
	s.Unlock()
}

func (s *Stream) SubmittedTasks() uint64 { return s.Progress().Task }

// Progress is the number of submitted tasks and of aborts.
type Progress struct {
	Task   uint64 // number of submitted tasks
	Aborts int
}

func (s *Stream) Progress() Progress {
	s.Lock()
	defer s.Unlock()
	return Progress{s.submitted, s.Life.aborts}
}

// Abort discards the work of the stream, which stays usable. A native kernel runs to its end.
func (s *Stream) Abort() {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Lock()
	if s.Life.closing {
		s.Unlock()
		return
	}
	s.Life.aborts++
	s.Failure = fail.New(fail.Aborted, "the tasks of stream %d are being aborted", s.ID)
	s.Life.discarded = true
	close(s.Life.Stop)
	all := s.submitted
	s.Unlock()
	s.Context.Device.Machine.Clock.Changed()
	s.Wait(nil, all, Forever)
	if mutant.Breaks("aborted_stream_works") {
		return
	}
	s.Lock()
	s.Life.Stop = make(chan struct{})
	s.Failure, s.Life.discarded, s.observed = nil, false, false
	s.Unlock()
	if p := s.Context.Stopped.Load(); p != nil && p.stream == s {
		s.Context.Stopped.CompareAndSwap(p, nil)
	}
}

// Wait waits until a number of tasks is done. It returns false if the limit passed first.
func (s *Stream) Wait(t *HostThread, task uint64, limit time.Duration) bool {
	clk := s.Context.Device.Machine.Clock
	if s.Done.Load() < task {
		if limit == 0 {
			return false
		}
		w := waiter{task, make(chan struct{})}
		s.Lock()
		s.Waits.all = append(s.Waits.all, w)
		s.Waits.Count.Add(1)
		s.Unlock()
		// A task may have ended before the waiter was added.
		if s.Done.Load() >= task {
			s.wake()
		}
		if !clk.Wait(t, w.ch, limit) && s.leave(w) {
			return false
		}
	}
	if s.Done.Load() == task {
		clk.Reach(t, time.Duration(s.LastEnd.Load()))
	}
	s.Context.Device.Machine.Strict.Done(t.checked(), &s.Strict)
	return true
}

// leave removes a waiter and reports whether it was still waiting.
func (s *Stream) leave(w waiter) bool {
	s.Lock()
	defer s.Unlock()
	at := slices.Index(s.Waits.all, w)
	if at < 0 {
		return false
	}
	s.Waits.all = slices.Delete(s.Waits.all, at, at+1)
	s.Waits.Count.Add(-1)
	return true
}

// Observe returns the stream's failure once, or always if it stopped the context.
func (s *Stream) Observe() *fail.Failure {
	s.Lock()
	defer s.Unlock()
	f := s.Failure
	if stopped := s.Context.Stopped.Load(); stopped != nil {
		s.observed = true
		if f == nil {
			f = stopped.failure
		}
	} else if !s.Life.discarded && !mutant.Breaks("error_is_told_once") {
		s.Failure = nil
	}
	return f
}

// Blocked returns the failure that keeps the stream from running tasks; nil for none.
func (s *Stream) Blocked() *fail.Failure {
	s.Lock()
	defer s.Unlock()
	if s.Life.discarded || s.Lane != nil {
		return s.Failure
	}
	if stopped := s.Context.Stopped.Load(); stopped != nil {
		return stopped.failure
	}
	return nil
}

// Close ends the stream after its work, or with force without the work that has not begun. It returns a failure that
// the program has not seen.
func (s *Stream) Close(force bool) *fail.Failure {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Lock()
	if s.Life.closing {
		s.Unlock()
		return nil
	}
	s.Life.closing = true
	s.Unlock()
	s.Context.Device.Machine.Options.Runtime.StreamEnding(s)
	s.Lock()
	if force && !mutant.Breaks("forced_destroy_discards") {
		s.Life.discarded = true
		close(s.Life.Stop)
	}
	all := s.submitted
	s.Unlock()
	s.Context.Device.Machine.Clock.Changed()
	s.Wait(nil, all, Forever)
	s.Context.Device.Machine.Strict.Ended(&s.Strict)
	s.Context.Device.Machine.Clock.forget(s)
	s.Context.Device.Machine.Options.Runtime.StreamEnded(s)
	s.Args.Close()
	s.Context.Device.Lock()
	s.Context.Drop(s)
	s.Context.Device.Unlock()
	s.Lock()
	defer s.Unlock()
	s.Life.closed = true
	s.endServer()
	if s.observed {
		return nil
	}
	return s.Failure
}

// TaskSource supplies the tasks of a stream one by one.
type TaskSource interface {
	Next() bool // reports whether there is another task
	Task() Task
	Advance() // called after a task has ended
	Ended()   // called after the last task
}

// NewStream creates a stream. The caller holds the device's lock.
func (c *Context) NewStream(priority, flags uint32) (*Stream, *fail.Failure) {
	d := c.Device
	s := &Stream{Context: c, Priority: priority, Flags: flags}
	s.Life.Stop, s.server.wake = make(chan struct{}), make(chan bool, 1)
	s.Args.Pool = &d.Memory.Args
	id := 0
	for id < len(d.Streams) && d.Streams[id] != nil {
		id++
	}
	if id == MaxStreams && !mutant.Breaks("number_of_streams") {
		return nil, fail.New(fail.NoStream, "device %d has %d streams already, the limit", d.ID, MaxStreams)
	}
	s.ID = int32(id)
	s.Strict = strict.Stream{ID: s.ID, Device: d.ID}
	if id == len(d.Streams) {
		d.Streams = append(d.Streams, nil)
	}
	d.Streams[id] = s
	c.Lock()
	c.Streams = append(c.Streams, s)
	c.Unlock()
	return s, nil
}

// Drop removes an unused or ended stream from its context and device. The caller holds the device's lock.
func (c *Context) Drop(s *Stream) {
	c.Lock()
	c.Streams = slices.DeleteFunc(c.Streams, func(o *Stream) bool { return o == s })
	c.Unlock()
	c.Device.Streams[s.ID] = nil
}

// NewLane creates a stream for the tasks of a source. It takes its id from stream of, begins at the time of s, and is
// discarded when stop is closed.
func (s *Stream) NewLane(of *Stream, stop chan struct{}, tasks TaskSource) *Stream {
	return &Stream{ID: of.ID, Context: s.Context, Strict: of.Strict.Part(), Life: streamLife{Stop: stop}, Time: s.Time, Lane: tasks}
}
