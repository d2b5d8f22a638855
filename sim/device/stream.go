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

// forever is a wait without a limit.
const Forever = time.Duration(-1)

// queueDepth is the largest number of unfinished tasks of a stream. A caller that submits more waits.
const QueueDepth = 1 << 16

// stream runs its tasks one after the other. In real time they run on a goroutine of the stream, its server, which lives while
// there is work and a moment longer. There is no order among streams but by events.
//
// A task that fails is no obstacle for those behind it, and the next synchronization tells. Where the streams of the context
// stop on failure, nothing more runs on any of them, and every later task and synchronization returns the error, until the
// context ends.
type Stream struct {
	Handle          uint64
	ID              int32
	Context         *Context
	Priority, Flags uint32
	Args            memory.ArgCache
	Hidden          bool       // the program has no handle of it
	Lane            TaskSource // whose tasks it runs in place of its own queue's

	Mu        sync.Mutex
	queue     []Task // not yet taken by the server
	submitted uint64
	Failure   *fail.Failure
	observed  bool // the failure was returned to the program
	server    server
	Life      streamLife
	Waits     waiters
	Attached  any // of the layer above

	Done    atomic.Uint64
	LastEnd atomic.Int64  // device time at which the task that is done last ended
	Time    time.Duration // device time at which the last task ended; for who runs it alone
	Strict  strict.Stream
	virtual virtualTask
}

// streamLife is how work is discarded and the stream ends.
type streamLife struct {
	Stop      chan struct{} // closed when work is discarded. An abort makes a new one, when nothing runs.
	mu        sync.Mutex    // held by who discards work
	discarded bool
	aborts    int // how often the work was aborted
	closing   bool
	closed    bool // its work is done and it has no handle
}

// virtualTask is the first task in virtual time, for who drives the devices alone.
type virtualTask struct {
	number  int32 // of the stream in the machine
	known   bool  // the stream is known to the machine
	begun   bool  // the task has begun: the fields below are valid
	current Task
	awaits  *Waiting
	skip    bool // it is not to run
	took    time.Duration
	result  *fail.Failure
}

// waiters are those who wait for tasks.
type waiters struct {
	all   []waiter
	Count atomic.Int32
}

type waiter struct {
	task uint64
	ch   chan struct{}
}

// submit appends a task and returns its id.
func (s *Stream) Submit(t *HostThread, k Task) (uint32, *fail.Failure) {
	s.Mu.Lock()
	for {
		switch {
		case s.Life.closing:
			s.Mu.Unlock()
			return 0, fail.New(fail.Ended, "stream %d is being destroyed", s.ID)
		case s.Life.discarded:
			f := s.Failure
			s.Mu.Unlock()
			return 0, f
		case s.Context.Stopped.Load() != nil:
			s.observed = true
			s.Mu.Unlock()
			return 0, s.Context.Stopped.Load().failure
		}
		if s.submitted-s.Done.Load() < QueueDepth {
			break
		}
		room := s.submitted - QueueDepth + 1
		s.Mu.Unlock()
		s.Wait(t, room, Forever)
		s.Mu.Lock()
	}
	d := s.Context.Device
	k.At = d.Machine.Clock.Now(t)
	s.submitted++
	id := d.Tasks.Add(1)
	k.ID = id
	s.queue = append(s.queue, k)
	d.Machine.Clock.submitted(s, k.At)
	s.Mu.Unlock()
	return id, nil
}

// halted tells whether tasks are not to run. A graph's do not behind one that failed, whatever the mode of its stream is.
func (s *Stream) halted() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Life.discarded || IsClosed(s.Life.Stop) || s.Context.Stopped.Load() != nil || s.Lane != nil && s.Failure != nil
}

// fail notes the failure of a task. The first one counts until the program has seen it.
func (s *Stream) fail(f *fail.Failure) {
	s.Mu.Lock()
	if s.Failure == nil {
		s.Failure, s.observed = f, false
	}
	s.Mu.Unlock()
	if s.Lane == nil {
		s.Context.failed(s, f)
	}
}

// first takes the first task that was not begun.
func (s *Stream) first() Task {
	if s.Lane != nil {
		return s.Lane.Task()
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	k := s.queue[0]
	s.queue[0] = Task{}
	s.queue = s.queue[1:]
	return k
}

// ended counts a task that has ended after d on the device, and lets those go on who wait for it.
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

// wake lets those go on who wait for what is done.
func (s *Stream) wake() {
	s.Mu.Lock()
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
	s.Mu.Unlock()
}

func (s *Stream) SubmittedTasks() uint64 { return s.Progress().Task }

// progress is how far a stream has come.
type Progress struct {
	Task   uint64 // submitted last
	Aborts int
}

func (s *Stream) Progress() Progress {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return Progress{s.submitted, s.Life.aborts}
}

// abort discards the work of a stream, which can be used again afterwards. A native kernel runs to its end.
func (s *Stream) Abort() {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Mu.Lock()
	if s.Life.closing {
		s.Mu.Unlock()
		return
	}
	s.Life.aborts++
	s.Failure = fail.New(fail.Aborted, "the work of stream %d is being aborted", s.ID)
	s.Life.discarded = true
	close(s.Life.Stop)
	all := s.submitted
	s.Mu.Unlock()
	s.Context.Device.Machine.Clock.Changed()
	s.Wait(nil, all, Forever)
	if mutant.Breaks("aborted_stream_works") {
		return
	}
	s.Mu.Lock()
	s.Life.Stop = make(chan struct{})
	s.Failure, s.Life.discarded, s.observed = nil, false, false
	s.Mu.Unlock()
	if p := s.Context.Stopped.Load(); p != nil && p.stream == s {
		s.Context.Stopped.CompareAndSwap(p, nil)
	}
}

// wait waits until so many tasks are done, and tells whether that was within the limit.
func (s *Stream) Wait(t *HostThread, task uint64, limit time.Duration) bool {
	clk := s.Context.Device.Machine.Clock
	if s.Done.Load() < task {
		if limit == 0 {
			return false
		}
		w := waiter{task, make(chan struct{})}
		s.Mu.Lock()
		s.Waits.all = append(s.Waits.all, w)
		s.Waits.Count.Add(1)
		s.Mu.Unlock()
		// A task that ended before the line above has not seen the waiter.
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

// leave takes a waiter from the list, and tells whether it was there still.
func (s *Stream) leave(w waiter) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i := range s.Waits.all {
		if s.Waits.all[i].ch == w.ch {
			s.Waits.all = append(s.Waits.all[:i], s.Waits.all[i+1:]...)
			s.Waits.Count.Add(-1)
			return true
		}
	}
	return false
}

// observe returns the failure of the stream, for the program to see: once, unless it has stopped the context.
func (s *Stream) Observe() *fail.Failure {
	s.Mu.Lock()
	defer s.Mu.Unlock()
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

// blocked returns the failure because of which tasks of the stream do not run, nil where they do.
func (s *Stream) Blocked() *fail.Failure {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Life.discarded || s.Lane != nil {
		return s.Failure
	}
	if stopped := s.Context.Stopped.Load(); stopped != nil {
		return stopped.failure
	}
	return nil
}

// close ends a stream after its work, or by force without what has not begun, and returns a failure that the program
// has not seen.
func (s *Stream) Close(force bool) *fail.Failure {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Mu.Lock()
	if s.Life.closing {
		s.Mu.Unlock()
		return nil
	}
	s.Life.closing = true
	s.Mu.Unlock()
	s.Context.Device.Machine.Options.Runtime.StreamEnding(s)
	s.Mu.Lock()
	if force && !mutant.Breaks("forced_destroy_discards") || mutant.Breaks("destroy_waits") {
		s.Life.discarded = true
		close(s.Life.Stop)
	}
	all := s.submitted
	s.Mu.Unlock()
	s.Context.Device.Machine.Clock.Changed()
	s.Wait(nil, all, Forever)
	s.Context.Device.Machine.Strict.Ended(&s.Strict)
	s.Context.Device.Machine.Clock.forget(s)
	s.Context.Device.Machine.Options.Runtime.StreamEnded(s)
	s.Args.Close()
	c := s.Context
	c.Mu.Lock()
	for i, o := range c.Streams {
		if o == s {
			c.Streams = append(c.Streams[:i], c.Streams[i+1:]...)
			break
		}
	}
	c.Mu.Unlock()
	c.Device.Mu.Lock()
	c.Device.Streams[s.ID] = nil
	c.Device.Mu.Unlock()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Life.closed = true
	s.endServer()
	if s.observed {
		return nil
	}
	return s.Failure
}

// TaskSource gives a stream its tasks one by one, in place of a queue.
type TaskSource interface {
	Next() bool // reports whether there is a task
	Task() Task
	Advance() // after a task has ended
	Ended()   // after the last task
}

// newStream makes a stream. The caller holds the device's lock.
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
		return nil, fail.New(fail.NoStream, "device %d has %d streams already", d.ID, MaxStreams)
	}
	s.ID = int32(id)
	s.Strict = strict.Stream{ID: s.ID, Device: d.ID}
	if id == len(d.Streams) {
		d.Streams = append(d.Streams, nil)
	}
	d.Streams[id] = s
	c.Mu.Lock()
	c.Streams = append(c.Streams, s)
	c.Mu.Unlock()
	return s, nil
}

// drop takes a stream that nobody has used yet off the lists of its context and its device. The caller holds the device's lock.
func (c *Context) Drop(s *Stream) {
	c.Mu.Lock()
	c.Streams = slices.DeleteFunc(c.Streams, func(o *Stream) bool { return o == s })
	c.Mu.Unlock()
	c.Device.Streams[s.ID] = nil
}

// newLane makes a stream for the tasks of a source, beside a stream of the program that it belongs to. It has the id and the
// stop channel that are given, and begins at the time of s.
func (s *Stream) NewLane(of *Stream, stop chan struct{}, tasks TaskSource) *Stream {
	return &Stream{ID: of.ID, Context: s.Context, Strict: of.Strict.Part(), Life: streamLife{Stop: stop}, Time: s.Time, Lane: tasks}
}
