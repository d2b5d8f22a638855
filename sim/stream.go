package sim

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
	"golang.org/x/sys/unix"
)

const (
	forever = time.Duration(-1)
	// queueDepth is the number of unfinished tasks of a stream above which a caller waits for room.
	queueDepth = 1 << 16

	maxPriority = 7
	streamFlags = acl.ACL_STREAM_FAST_LAUNCH | acl.ACL_STREAM_FAST_SYNC | acl.ACL_STREAM_PERSISTENT |
		acl.ACL_STREAM_HUGE | acl.ACL_STREAM_CPU_SCHEDULE | acl.ACL_STREAM_DEVICE_USE_ONLY
	// notSynchronized are the flags of streams for which the host never waits.
	notSynchronized = acl.ACL_STREAM_PERSISTENT | acl.ACL_STREAM_CPU_SCHEDULE | acl.ACL_STREAM_DEVICE_USE_ONLY
)

// taskKind is what a task does. Faults are planned by it.
type taskKind string

const (
	taskKernel   taskKind = "kernel"
	taskCopy     taskKind = "copy"
	taskFill     taskKind = "fill"
	taskReduce   taskKind = "reduce"
	taskRecord   taskKind = "record"
	taskWait     taskKind = "wait"
	taskReset    taskKind = "reset"
	taskNotify   taskKind = "notify"
	taskValue    taskKind = "value"
	taskHost     taskKind = "host"
	taskGraph    taskKind = "graph"
	taskOverflow taskKind = "overflow"
	taskFree     taskKind = "free"
	taskCache    taskKind = "cache"
	taskMarker   taskKind = "marker"
)

// task is one piece of work on a stream. run returns how long the device takes for it; where the task was captured into a
// graph it is called once for each execution. Neither run nor begin waits for anything: that is the clock's affair.
type task struct {
	kind  taskKind
	name  string      // of the kernel; "" for other kinds
	order *order      // of a kernel; then run may be nil
	args  device.Span // of a kernel, on the device
	own   bool        // args go back to the stream's when the task ends
	lent  bool        // the task is run once more, and ends elsewhere
	quick bool        // what the host does for it does not count
	// begin is called when the turn of the task has come, and returns what it waits for; it may be nil, and return nil.
	begin func(s *stream) *waiting
	run   func(s *stream) (time.Duration, *failure)
	// always says that the task runs even where the stream has failed or is being discarded: it releases what others wait for.
	always bool
	wrote  device.Span    // where a copy goes
	copy   model.CopyKind // of copies and fills
	demand model.Demand   // of kernels
	// release is called once, when the task will not run again, whether it ran or not; may be nil.
	release func()
	at      time.Duration // device time at which it was submitted
	id      uint32
	detail  any          // what a task of a model tells about itself: an *event, a *valueTask
	thread  uint32       // of the system, that submitted it
	check   *strict.Task // in strict mode
}

func (k *task) end() {
	if k.lent {
		return
	}
	if k.own {
		k.order.stream.args.put(k.args.Addr, k.args.Size)
	}
	if k.release != nil {
		k.release()
	}
}

// need is what a task holds of its device while it runs.
func (k *task) need() virtual.Need {
	switch k.kind {
	case taskKernel:
		return virtual.Need{Kind: virtual.Kernel, Demand: k.demand}
	case taskCopy, taskFill:
		return virtual.Need{Kind: virtual.Copy, Copy: k.copy}
	}
	return virtual.Need{Kind: virtual.Call}
}

// perform does the work of a task.
func (k *task) perform(s *stream) (time.Duration, *failure) {
	if k.run == nil {
		return k.order.run(s, k.args, k.own)
	}
	return k.run(s)
}

// stream runs its tasks one after the other. In real time they run on a goroutine of the stream, its server, which lives while
// there is work and a moment longer. There is no order among streams but by events.
//
// A task that fails is no obstacle for those behind it, and the next synchronization tells. Where the streams of the context
// stop on failure, nothing more runs on any of them, and every later task and synchronization returns the error, until the
// context ends.
type stream struct {
	handle          uint64
	id              int32
	ctx             *context
	priority, flags uint32
	args            argCache
	hidden          bool     // the program has no handle of it
	lane            *laneRun // whose tasks it runs in place of its own queue's

	mu        sync.Mutex
	queue     []task // not yet taken by the server
	submitted uint64
	failure   *failure
	observed  bool // the failure was returned to the program
	server    server
	life      streamLife
	waits     waiters
	program   streamProgram

	done    atomic.Uint64
	lastEnd atomic.Int64  // device time at which the task that is done last ended
	time    time.Duration // device time at which the last task ended; for who runs it alone
	strict  strict.Stream
	virtual virtualTask
}

// server is the goroutine that runs the tasks in real time.
type server struct {
	running bool      // it takes tasks
	parked  bool      // it waits for some
	parks   uint32    // how often it has begun to
	swept   uint32    // how often it had when servers were looked at last
	wake    chan bool // wakes it, or ends it
}

// streamLife is how work is discarded and the stream ends.
type streamLife struct {
	stop      chan struct{} // closed when work is discarded. An abort makes a new one, when nothing runs.
	mu        sync.Mutex    // held by who discards work
	discarded bool
	aborts    int // how often the work was aborted
	closing   bool
	closed    bool // its work is done and it has no handle
}

// streamProgram is what the program has attached to the stream.
type streamProgram struct {
	settings    settings
	subscribers [services]*subscriber
	allocator   *streamAllocator
	capture     atomic.Pointer[capture]
	bound       atomic.Pointer[bound]
	update      atomic.Pointer[update]
}

// virtualTask is the first task in virtual time, for who drives the devices alone.
type virtualTask struct {
	number  int32 // of the stream in the machine
	known   bool  // the stream is known to the machine
	begun   bool  // the task has begun: the fields below are valid
	current task
	awaits  *waiting
	skip    bool // it is not to run
	took    time.Duration
	result  *failure
}

// waiters are those who wait for tasks.
type waiters struct {
	all   []waiter
	count atomic.Int32
}

type waiter struct {
	task uint64
	ch   chan struct{}
}

// newStreamLocked makes a stream. The caller holds the device's lock.
func (c *context) newStreamLocked(priority, flags uint32) (*stream, *failure) {
	d := c.dev
	s := &stream{ctx: c, priority: priority, flags: flags}
	s.life.stop, s.server.wake = make(chan struct{}), make(chan bool, 1)
	s.args.pool = &d.mem.args
	id := 0
	for id < len(d.streams) && d.streams[id] != nil {
		id++
	}
	if id == maxStreams && !broken("number_of_streams") {
		return nil, failed(acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, "device %d has %d streams already", d.id, maxStreams)
	}
	if s.handle = d.sim.streams.Add(s); s.handle == 0 {
		return nil, failed(acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, "too many streams")
	}
	s.id = int32(id)
	s.strict = strict.Stream{ID: s.id, Device: d.id}
	if id == len(d.streams) {
		d.streams = append(d.streams, nil)
	}
	d.streams[id] = s
	c.mu.Lock()
	c.streams = append(c.streams, s)
	c.mu.Unlock()
	return s, nil
}

// release takes a stream off the device's list. The caller holds the device's lock.
func (d *npu) release(s *stream) {
	if !broken("destroyed_stream") {
		d.sim.streams.Remove(s.handle)
	}
	d.streams[s.id] = nil
}

// submit appends a task and returns its id.
func (s *stream) submit(t *Thread, k task) (uint32, *failure) {
	s.mu.Lock()
	for {
		switch {
		case s.life.closing:
			s.mu.Unlock()
			return 0, failed(acl.ACL_ERROR_RT_INVALID_HANDLE, "stream %d is being destroyed", s.id)
		case s.life.discarded:
			f := s.failure
			s.mu.Unlock()
			return 0, f
		case s.ctx.stopped.Load() != nil:
			s.observed = true
			s.mu.Unlock()
			return 0, s.ctx.stopped.Load().failure
		}
		if s.submitted-s.done.Load() < queueDepth {
			break
		}
		room := s.submitted - queueDepth + 1
		s.mu.Unlock()
		s.wait(t, room, forever)
		s.mu.Lock()
	}
	d := s.ctx.dev
	k.at = d.sim.clock.now(t)
	s.submitted++
	id := d.tasks.Add(1)
	k.id = id
	s.queue = append(s.queue, k)
	d.sim.clock.submitted(s, k.at)
	s.mu.Unlock()
	return id, nil
}

// startServer has the server take tasks. The caller holds the lock.
func (s *stream) startServer() {
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
func (s *stream) endServer() {
	if s.server.parked {
		s.server.parked = false
		s.server.wake <- false
	}
}

// serve runs tasks until there were none for a while.
func (s *stream) serve() {
	clk := s.ctx.dev.sim.clock.(*realClock)
	var batch []task
	debug.SetPanicOnFault(true)
	for {
		s.mu.Lock()
		batch, s.queue = s.queue, batch[:0]
		if len(batch) == 0 {
			s.server.running, s.server.parked = false, !s.life.closed
			if s.life.closed { // nobody looks for its server any more
				s.mu.Unlock()
				return
			}
			s.server.parks++
			s.mu.Unlock()
			clk.parked()
			if !<-s.server.wake {
				return
			}
			continue
		}
		s.mu.Unlock()
		if broken("tasks_in_order") {
			slices.Reverse(batch)
		}
		for i := range batch {
			s.runTask(clk, &batch[i])
			batch[i] = task{}
		}
	}
}

// halted tells whether tasks are not to run. A graph's do not behind one that failed, whatever the mode of its stream is.
func (s *stream) halted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.discarded || isClosed(s.life.stop) || s.ctx.stopped.Load() != nil || s.lane != nil && s.failure != nil
}

// fail notes the failure of a task. The first one counts until the program has seen it.
func (s *stream) fail(f *failure) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure, s.observed = f, false
	}
	s.mu.Unlock()
	if s.lane == nil {
		s.ctx.failed(s, f)
	}
}

// runTask runs a task in real time, or ends it without. On the device it begins when the task before it ended, or when it was
// submitted if that was later: what this host needs to get to it is not counted. It takes as long as the cost model says, or
// as long as the host has worked on it where that is longer.
func (s *stream) runTask(clk *realClock, k *task) {
	skip := s.halted()
	var f *failure
	var d time.Duration
	if !skip || k.always {
		s.time = max(s.time, k.at)
		var host time.Duration
		if d, host, f = s.attempt(clk, k, !skip); d > 0 {
			n, shared := k.need(), s.ctx.dev.shared
			if at, ok := shared.Take(s.priority, s.life.stop, n, s.time, d); ok {
				s.time = max(at+d, s.time+host)
				clk.sleepUntil(s.time, s.life.stop)
				shared.Give(n)
			}
		}
	}
	s.ended(k, d, f)
}

// attempt waits for what a task waits for, and does its work, which takes so long on the device, and on the host. The goroutine panics on
// memory faults.
func (s *stream) attempt(clk *realClock, k *task, wait bool) (d, host time.Duration, f *failure) {
	defer func() {
		if r := recover(); r != nil {
			f = failedAt(device.Caught(r))
		}
	}()
	s.ctx.dev.sim.strict.Begin(&s.strict, k.check, string(k.kind))
	if k.begin != nil && wait {
		if w := k.begin(s); w != nil {
			if ok, f := w.await(s.life.stop); !ok {
				return 0, 0, f
			}
		}
	}
	if k.quick || k.kind != taskKernel && k.kind != taskCopy && k.kind != taskFill && k.kind != taskReduce {
		d, f = k.perform(s)
		return d, 0, f
	}
	var usual *atomic.Int64
	if k.order != nil {
		usual = &k.order.fn.took
		if before := time.Duration(usual.Load()); before > 0 && before < brief {
			began := clk.now(nil)
			d, f = k.perform(s)
			host = clk.now(nil) - began
			usual.Store(int64(host))
			if host > brief {
				host = before
			}
			return d, host, f
		}
	}
	runtime.LockOSThread() // whose work it is
	defer runtime.UnlockOSThread()
	before := worked(clk)
	d, f = k.perform(s)
	host = worked(clk).since(before)
	if usual != nil {
		usual.Store(max(int64(host), 1))
	}
	return d, host, f
}

// brief is the time below which a kernel's work is taken by the clock alone: to ask the system for a thread's own time
// takes a microsecond. A launch that takes longer than that, of a kernel that did not the time before, was most likely
// interrupted: it counts as the one before, and the next one is asked for.
const brief = 20 * time.Microsecond

// work is what a thread has done so far.
type work struct {
	at, ran time.Duration // when, and its time on a processor
	waits   int64
}

func worked(clk *realClock) work {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return work{clk.now(nil), time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw}
}

// since is how long work took, without the time for which others had the thread's processor: a device would not have
// waited for them. Work that waits by itself takes all of its time.
func (w work) since(before work) time.Duration {
	if w.waits != before.waits {
		return w.at - before.at
	}
	return w.ran - before.ran
}

// first takes the first task that was not begun.
func (s *stream) first() task {
	if s.lane != nil {
		return s.lane.task()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.queue[0]
	s.queue[0] = task{}
	s.queue = s.queue[1:]
	return k
}

// ended counts a task that has ended after d on the device, and lets those go on who wait for it.
func (s *stream) ended(k *task, d time.Duration, f *failure) {
	if k.kind == taskKernel {
		s.ctx.dev.busy.Add(int64(d))
	}
	if f != nil && !s.halted() {
		s.ctx.dev.sim.strict.Failed(&s.strict)
		s.raise(k, f)
		s.fail(f)
	}
	k.end()
	s.lastEnd.Store(int64(s.time))
	s.done.Add(1)
	if s.waits.count.Load() > 0 {
		s.wake()
	}
}

// failedAt is the error of a task that met host memory that is not there.
func failedAt(err error) *failure {
	return failed(acl.ACL_ERROR_RT_SYS_DMA, "a task on the stream touched host memory that is not there: %v", err)
}

// wake lets those go on who wait for what is done.
func (s *stream) wake() {
	s.mu.Lock()
	done := s.done.Load()
	kept := s.waits.all[:0]
	for _, w := range s.waits.all {
		if w.task <= done {
			close(w.ch)
			s.waits.count.Add(-1)
		} else {
			kept = append(kept, w)
		}
	}
	clear(s.waits.all[len(kept):])
	s.waits.all = kept
	s.mu.Unlock()
}

func (s *stream) submittedTasks() uint64 { return s.progress().task }

// progress is how far a stream has come.
type progress struct {
	task   uint64 // submitted last
	aborts int
}

func (s *stream) progress() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return progress{s.submitted, s.life.aborts}
}

// finish waits for the work up to a moment, within a limit, and returns the error of the stream.
func (t *Thread) finish(s *stream, p progress, limit time.Duration) acl.Error {
	if !s.wait(t, p.task, limit) && !broken("synchronize_timeout") {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d has not finished within %v", s.id, limit)
	}
	if s.progress().aborts != p.aborts {
		return t.fail(acl.ACL_ERROR_RT_STREAM_ABORT, "the work of stream %d was aborted", s.id)
	}
	if f := s.observe(); f != nil {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// abort discards the work of a stream, which can be used again afterwards. A native kernel runs to its end.
func (s *stream) abort() {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.mu.Lock()
	if s.life.closing {
		s.mu.Unlock()
		return
	}
	s.life.aborts++
	s.failure = failed(acl.ACL_ERROR_RT_STREAM_ABORT, "the work of stream %d is being aborted", s.id)
	s.life.discarded = true
	close(s.life.stop)
	all := s.submitted
	s.mu.Unlock()
	s.ctx.dev.sim.clock.changed()
	s.wait(nil, all, forever)
	if broken("aborted_stream_works") {
		return
	}
	s.mu.Lock()
	s.life.stop = make(chan struct{})
	s.failure, s.life.discarded, s.observed = nil, false, false
	s.mu.Unlock()
	if p := s.ctx.stopped.Load(); p != nil && p.stream == s {
		s.ctx.stopped.CompareAndSwap(p, nil)
	}
}

// wait waits until so many tasks are done, and tells whether that was within the limit.
func (s *stream) wait(t *Thread, task uint64, limit time.Duration) bool {
	clk := s.ctx.dev.sim.clock
	if s.done.Load() < task {
		if limit == 0 {
			return false
		}
		w := waiter{task, make(chan struct{})}
		s.mu.Lock()
		s.waits.all = append(s.waits.all, w)
		s.waits.count.Add(1)
		s.mu.Unlock()
		// A task that ended before the line above has not seen the waiter.
		if s.done.Load() >= task {
			s.wake()
		}
		if !clk.wait(t, w.ch, limit) && s.leave(w) {
			return false
		}
	}
	if s.done.Load() == task {
		clk.reach(t, time.Duration(s.lastEnd.Load()))
	}
	s.ctx.dev.sim.strict.Done(t.checked(), &s.strict)
	return true
}

// leave takes a waiter from the list, and tells whether it was there still.
func (s *stream) leave(w waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waits.all {
		if s.waits.all[i].ch == w.ch {
			s.waits.all = append(s.waits.all[:i], s.waits.all[i+1:]...)
			s.waits.count.Add(-1)
			return true
		}
	}
	return false
}

// observe returns the failure of the stream, for the program to see: once, unless it has stopped the context.
func (s *stream) observe() *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failure
	if stopped := s.ctx.stopped.Load(); stopped != nil {
		s.observed = true
		if f == nil {
			f = stopped.failure
		}
	} else if !s.life.discarded && !broken("error_is_told_once") {
		s.failure = nil
	}
	return f
}

// blocked returns the failure because of which tasks of the stream do not run, nil where they do.
func (s *stream) blocked() *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.discarded || s.lane != nil {
		return s.failure
	}
	if stopped := s.ctx.stopped.Load(); stopped != nil {
		return stopped.failure
	}
	return nil
}

// close ends a stream after its work, or by force without what has not begun, and returns a failure that the program
// has not seen.
func (s *stream) close(force bool) *failure {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.mu.Lock()
	if s.life.closing {
		s.mu.Unlock()
		return nil
	}
	s.life.closing = true
	s.mu.Unlock()
	s.ctx.dev.sim.tellStream(s, acl.ACL_RT_STREAM_STATE_DESTROY_PRE)
	s.mu.Lock()
	if force && !broken("forced_destroy_discards") || broken("destroy_waits") {
		s.life.discarded = true
		close(s.life.stop)
	}
	all := s.submitted
	s.mu.Unlock()
	if c := s.program.capture.Load(); c != nil {
		sim := s.ctx.dev.sim
		sim.captures.stop(c)
		if c.graph.part || sim.graphs.Remove(c.graph.handle) != nil {
			c.graph.end()
		}
	}
	s.ctx.dev.sim.clock.changed()
	s.wait(nil, all, forever)
	s.ctx.dev.sim.strict.Ended(&s.strict)
	s.ctx.dev.sim.clock.forget(s)
	s.unsubscribe(callbacks)
	s.unsubscribe(hostFunctions)
	s.args.close()
	c := s.ctx
	c.mu.Lock()
	for i, o := range c.streams {
		if o == s {
			c.streams = append(c.streams[:i], c.streams[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	c.dev.mu.Lock()
	c.dev.release(s)
	c.dev.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life.closed = true
	s.endServer()
	if s.observed {
		return nil
	}
	return s.failure
}

// stream returns the stream of a handle, the default stream of the context for null.
func (t *Thread) stream(h acl.Stream) (*stream, acl.Error) {
	c, e := t.context()
	if e != 0 {
		return nil, e
	}
	if h == 0 && broken("null_is_default_stream") {
		c = c.dev.primary
	}
	if h == 0 {
		return c.def, acl.ACL_SUCCESS
	}
	s := t.sim.streams.Get(uint64(h))
	if s == nil {
		return nil, t.badHandle(device.KindStream, uint64(h))
	}
	if s.ctx != c && !broken("stream_of_another_context") {
		if s.ctx.dev != c.dev {
			t.sim.strict.Single(&t.strict, strict.WrongDevice, &s.strict, "", s.handle, "makes the stream", fmt.Sprintf("uses it while device %d is current; it is of device %d", c.dev.id, s.ctx.dev.id))
		}
		return nil, t.fail(acl.ACL_ERROR_RT_STREAM_CONTEXT, "stream %#x belongs to context %#x, the thread's is %#x", s.handle, s.ctx.handle, c.handle)
	}
	return s, acl.ACL_SUCCESS
}

// submit puts a task on a stream for the thread.
func (t *Thread) submit(s *stream, k task) acl.Error {
	if t.sim.opts.Faults != nil {
		spoilt := k // of its own, so that k need not be on the heap
		t.sim.spoil(s.ctx.dev, &spoilt)
		k = spoilt
	}
	if c := t.sim.strict; c != nil {
		k.check = c.Submitted(&t.strict, &s.strict, k.name)
	}
	if done, e := t.capture(s, k); done {
		return e
	}
	if done, e := t.build(s, k); done {
		return e
	}
	if done, e := t.updateTask(s, k); done {
		return e
	}
	t.sim.spendCall(t, t.sim.model.Host.Submit)
	k.thread = t.tid
	id, f := s.submit(t, k)
	if f != nil {
		k.end()
		return t.failWith(f)
	}
	t.made(id, s, nil)
	return acl.ACL_SUCCESS
}

// timeout checks a timeout in milliseconds.
func (t *Thread) timeout(ms int32) (time.Duration, acl.Error) {
	switch {
	case ms == -1:
		return forever, acl.ACL_SUCCESS
	case ms < -1:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: -1 is for ever, else milliseconds", ms)
	}
	return time.Duration(ms) * time.Millisecond, acl.ACL_SUCCESS
}

// CreateStream makes a stream in the current context.
func (t *Thread) CreateStream(stream *acl.Stream) acl.Error {
	return t.CreateStreamWithConfig(stream, 0, 0)
}

// CreateStreamWithConfig makes a stream with a priority, the nearest one in the range, and flags, of which unknown ones are
// dropped. Of both nothing but notSynchronized changes anything here.
func (t *Thread) CreateStreamWithConfig(stream *acl.Stream, priority, flag uint32) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if stream == nil {
		return t.null("stream")
	}
	c.dev.mu.Lock()
	if !broken("priority_out_of_range") {
		priority = min(priority, maxPriority)
	}
	s, f := c.newStreamLocked(priority, flag&streamFlags)
	c.dev.mu.Unlock()
	if f != nil {
		return t.failWith(f)
	}
	*stream = acl.Stream(s.handle)
	t.sim.tellStream(s, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	return acl.ACL_SUCCESS
}

// DestroyStream waits for the work of a stream and ends it. A failure that no call has told yet is returned, and the stream
// is gone all the same.
func (t *Thread) DestroyStream(stream acl.Stream) acl.Error { return t.destroyStream(stream, false) }

// DestroyStreamForce ends a stream without the work that has not begun.
func (t *Thread) DestroyStreamForce(stream acl.Stream) acl.Error {
	return t.destroyStream(stream, true)
}

func (t *Thread) destroyStream(h acl.Stream, force bool) acl.Error {
	if h == 0 {
		return t.null("stream")
	}
	s, e := t.stream(h)
	if e != 0 {
		return e
	}
	if s == s.ctx.def {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "stream %#x is the default stream of a context", s.handle)
	}
	if c := s.program.capture.Load(); c != nil {
		f := failed(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: end the capture first", s.id)
		c.spoil(f)
		return t.failWith(f)
	}
	if f := s.close(force); f != nil && !force {
		return t.failWith(f)
	}
	return acl.ACL_SUCCESS
}

// SynchronizeStream waits for the work of a stream.
func (t *Thread) SynchronizeStream(stream acl.Stream) acl.Error { return t.syncStream(stream, forever) }

// SynchronizeStreamWithTimeout waits for the work of a stream, for so many milliseconds at most.
func (t *Thread) SynchronizeStreamWithTimeout(stream acl.Stream, timeout int32) acl.Error {
	d, e := t.timeout(timeout)
	if e != 0 {
		return e
	}
	return t.syncStream(stream, d)
}

func (t *Thread) syncStream(h acl.Stream, limit time.Duration) acl.Error {
	s, e := t.stream(h)
	if e != 0 {
		return e
	}
	if e := t.notCaptured(s); e != 0 {
		return e
	}
	if s.flags&notSynchronized != 0 {
		return acl.ACL_SUCCESS
	}
	if broken("synchronize_waits") {
		return acl.ACL_SUCCESS
	}
	since := t.host
	e = t.finish(s, s.progress(), limit)
	t.sim.waited(t, since)
	return e
}

// StreamQuery tells whether the work of a stream is done.
func (t *Thread) StreamQuery(stream acl.Stream, status *acl.StreamStatus) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if status == nil {
		return t.null("status")
	}
	if e := t.notCaptured(s); e != 0 {
		return e
	}
	*status = acl.ACL_STREAM_STATUS_NOT_READY
	if broken("query") {
		*status = acl.ACL_STREAM_STATUS_COMPLETE
	}
	if s.done.Load() < s.submittedTasks() || !t.sim.clock.past(t, time.Duration(s.lastEnd.Load())) {
		return acl.ACL_SUCCESS
	}
	if f := s.blocked(); f != nil {
		return t.failWith(f)
	}
	t.sim.strict.Done(&t.strict, &s.strict)
	*status = acl.ACL_STREAM_STATUS_COMPLETE
	return acl.ACL_SUCCESS
}

// StreamGetId returns the number of a stream.
func (t *Thread) StreamGetId(stream acl.Stream, streamId *int32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if streamId == nil {
		return t.null("streamId")
	}
	*streamId = s.id
	return acl.ACL_SUCCESS
}

// StreamGetPriority returns the priority of a stream.
func (t *Thread) StreamGetPriority(stream acl.Stream, priority *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if priority == nil {
		return t.null("priority")
	}
	*priority = s.priority
	return acl.ACL_SUCCESS
}

// StreamGetFlags returns the flags of a stream.
func (t *Thread) StreamGetFlags(stream acl.Stream, flags *uint32) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if flags == nil {
		return t.null("flags")
	}
	*flags = s.flags
	return acl.ACL_SUCCESS
}
