package sim

import (
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

const (
	// tick is the resolution of the device's time stamps.
	tick = 20 * time.Nanosecond
	// slack is how far the time of a stream may run ahead of the clock before the stream waits for it: less than that
	// can't be slept with any precision.
	slack = 100 * time.Microsecond
	// uptime is how long the device had been running when the program began.
	uptime = 10 * time.Second
)

// clock is the time of devices and threads, in nanoseconds since the devices booted, and has the tasks of streams run in
// it. There are two: realClock and virtualClock.
type clock interface {
	// now is when a call of the thread happens; nil stands for nobody's call.
	now(t *Thread) time.Duration
	// begin and end are called for each thread.
	begin(t *Thread)
	end(t *Thread)
	// enter is called when a thread begins a call.
	enter(t *Thread)
	// spend lets time of the thread pass, that a call takes on the host.
	spend(t *Thread, ns int64)
	// reach tells a thread that what it waited for happened at a time.
	reach(t *Thread, at time.Duration)
	// past tells whether a thread can know of what happened at a time.
	past(t *Thread, at time.Duration) bool
	// submitted is called for each task that a stream was given, with the stream's lock held.
	submitted(s *stream, at time.Duration)
	// runLanes runs the lanes of a graph's execution.
	runLane(r *stream)
	// wait waits for a channel, within a limit.
	wait(t *Thread, ch <-chan struct{}, limit time.Duration) bool
	// changed says that something happened outside of the tasks of streams which they may wait for.
	changed()
	// forget is called when a stream has ended.
	forget(s *stream)
}

// waiting is what a task waits for before it runs. Either met tells whether it has come and, where not, gives a channel that
// is closed when it is worth asking again (nil for soon); or block waits for it, which can't be asked. met may set block.
type waiting struct {
	met   func() (bool, <-chan struct{})
	block func(stop <-chan struct{}, expired <-chan time.Time) (bool, *failure)
	limit time.Duration // 0 for ever
	late  func() *failure
	// of virtual time
	ended    chan struct{} // closed when block has returned
	inTime   bool
	failure  *failure
	deadline time.Duration
	since    time.Time
}

// pollEvery is the time between two looks at what nothing tells a change of.
const pollEvery = 20 * time.Microsecond

// await waits, and tells whether the task is to run.
func (w *waiting) await(stop <-chan struct{}) (bool, *failure) {
	var expired <-chan time.Time
	for {
		if w.block == nil {
			if ok, ch := w.met(); ok {
				return true, nil
			} else if w.block == nil {
				if expired == nil && w.limit > 0 {
					timer := time.NewTimer(w.limit)
					defer timer.Stop()
					expired = timer.C
				}
				var soon <-chan time.Time
				if ch == nil {
					soon = time.After(pollEvery)
				}
				select {
				case <-ch:
				case <-soon:
				case <-stop:
					return false, nil
				case <-expired:
					return false, w.late()
				}
				continue
			}
		}
		if expired == nil && w.limit > 0 {
			timer := time.NewTimer(w.limit)
			defer timer.Stop()
			expired = timer.C
		}
		done, f := w.block(stop, expired)
		if !done {
			f = w.late()
		}
		return done && f == nil, f
	}
}

// realClock is the host's: devices run beside the program, and take the time that their tasks take.
type realClock struct {
	sim   *Sim
	began time.Time

	sweeping atomic.Bool // a look at idle servers is planned
}

// keepAlive is how long a stream's server waits for work before it ends: once to twice as long.
const keepAlive = 50 * time.Millisecond

func newRealClock(s *Sim) *realClock { return &realClock{sim: s, began: time.Now().Add(-uptime)} }

// parked plans a look at idle servers.
func (c *realClock) parked() {
	if !c.sweeping.Load() && c.sweeping.CompareAndSwap(false, true) {
		time.AfterFunc(keepAlive, c.sweep)
	}
}

// sweep ends the servers that have had no work since the last time.
func (c *realClock) sweep() {
	c.sweeping.Store(false) // who parks from now on plans another look
	left := false
	for _, d := range c.sim.devices {
		d.mu.Lock()
		streams := slices.Clone(d.streams)
		d.mu.Unlock()
		for _, s := range streams {
			if s == nil {
				continue
			}
			s.mu.Lock()
			if s.server.parked && s.server.swept == s.server.parks {
				s.endServer()
			}
			s.server.swept = s.server.parks
			left = left || s.server.parked
			s.mu.Unlock()
		}
	}
	if left {
		c.parked()
	}
}

// now of a thread that is late is when it should have been.
func (c *realClock) now(t *Thread) time.Duration {
	d := time.Since(c.began)
	if t != nil && t.late != nil {
		d -= time.Duration(*t.late)
	}
	return d
}

func (c *realClock) begin(*Thread)                        {}
func (c *realClock) end(*Thread)                          {}
func (c *realClock) enter(*Thread)                        {}
func (c *realClock) spend(*Thread, int64)                 {}
func (c *realClock) reach(*Thread, time.Duration)         {}
func (c *realClock) past(*Thread, time.Duration) bool     { return true }
func (c *realClock) changed()                             {}
func (c *realClock) forget(*stream)                       {}
func (c *realClock) submitted(s *stream, _ time.Duration) { s.startServer() }

func (c *realClock) runLane(r *stream) {
	go func() {
		debug.SetPanicOnFault(true)
		for r.lane.next() {
			k := r.lane.task()
			r.runTask(c, &k)
			r.lane.advance()
		}
		r.lane.execution.laneEnded()
	}()
}

func (c *realClock) wait(_ *Thread, ch <-chan struct{}, limit time.Duration) bool {
	if limit == forever {
		<-ch
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	}
}

// sleepUntil waits until the time, unless stop is closed long before.
func (c *realClock) sleepUntil(t time.Duration, stop <-chan struct{}) {
	// A timer of Go's ends up to a millisecond late: the rest is slept by one of the system's.
	const rest = 1500 * time.Microsecond
	d := t - c.now(nil)
	if d <= slack {
		return
	}
	if d > 2*rest {
		timer := time.NewTimer(d - rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stop:
			return
		}
		d = t - c.now(nil)
	}
	if d > 0 {
		device.Alarms.Sleep(d)
	}
}

// virtualClock runs the tasks of all streams one at a time, in the order of virtual time, as a discrete-event simulation. Nobody
// but the threads of the program drives it: a call has everything done that happens before it, a wait everything up to what it
// waits for. So the program's memory changes as in virtual time, and a program with one thread runs in the same way each time.
//
// Each thread has a time of its own. A call takes what the model says, a wait until the device is done; what the program computes
// between its calls takes none.
type virtualClock struct {
	sim     *Sim
	latest  atomic.Int64  // time of the thread that is furthest
	threads atomic.Int32  // that are known
	calls   atomic.Uint64 // by which is known whether the program sleeps
	slept   atomic.Int64  // what was done while the program slept, it may have seen

	mu      sync.Mutex // held by who runs the devices
	m       *virtual.Machine
	streams []*stream // by number in m
	blocked []*stream // whose first task waits
	sleeps  bool      // all is done since the program makes no call

	boxMu sync.Mutex
	box   []arrival
	ask   bool          // those that wait are to be asked again
	news  chan struct{} // closed when there is something new in the box
	awake bool          // somebody looks whether the program sleeps
}

type arrival struct {
	stream *stream
	at     time.Duration
}

const (
	// hostPatience is how long the devices wait, in real time, for a function of the program before they go on without it. A
	// function that returns sooner takes the model's time.
	hostPatience = time.Second
	// sleepAfter is how long a program may make no call before all its work is done: it may wait for it in a way that
	// can't be seen from here.
	sleepAfter = 250 * time.Millisecond
)

func newVirtualClock(s *Sim) *virtualClock {
	v := &virtualClock{sim: s, news: make(chan struct{})}
	m, err := virtual.New(&virtual.Options{Model: s.model, Devices: s.opts.Devices, Seed: s.opts.Seed, Tasks: v})
	if err != nil {
		panic(err) // only a preset's name can be wrong
	}
	m.Pass(int64(uptime))
	v.m = m
	v.latest.Store(int64(uptime))
	return v
}

func (v *virtualClock) now(t *Thread) time.Duration {
	if t == nil {
		return time.Duration(v.latest.Load())
	}
	return t.host
}

func (v *virtualClock) begin(t *Thread) {
	v.threads.Add(1)
	t.host = time.Duration(v.latest.Load())
}

func (v *virtualClock) end(*Thread) { v.threads.Add(-1) }

func (v *virtualClock) spend(t *Thread, ns int64) {
	if t.own == nil || *t.own == 0 {
		v.reach(t, t.host+time.Duration(ns))
	}
}

func (v *virtualClock) reach(t *Thread, at time.Duration) {
	if t == nil || at <= t.host {
		return
	}
	t.host = at
	for {
		old := v.latest.Load()
		if old >= int64(at) || v.latest.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

func (v *virtualClock) past(t *Thread, at time.Duration) bool { return at <= t.host }

// enter has the devices do what happens before the call. Where another thread drives them, it does.
func (v *virtualClock) enter(t *Thread) {
	v.reach(t, time.Duration(v.slept.Load()))
	v.spend(t, v.sim.model.Host.Call)
	v.calls.Add(1)
	if v.mu.TryLock() {
		for v.step(int64(t.host)) {
		}
		v.mu.Unlock()
	}
}

func (v *virtualClock) submitted(s *stream, at time.Duration) {
	v.boxMu.Lock()
	v.box = append(v.box, arrival{s, at})
	v.tell()
	if !v.awake {
		v.awake = true
		n := v.calls.Load()
		time.AfterFunc(sleepAfter/2, func() { v.lookForSleep(n, false) })
	}
	v.boxMu.Unlock()
}

func (v *virtualClock) changed() {
	v.boxMu.Lock()
	v.ask = true
	v.tell()
	v.boxMu.Unlock()
}

// tell lets those go on who wait for something new. The caller holds boxMu.
func (v *virtualClock) tell() {
	close(v.news)
	v.news = make(chan struct{})
}

func (v *virtualClock) newsChannel() <-chan struct{} {
	v.boxMu.Lock()
	defer v.boxMu.Unlock()
	return v.news
}

// lookForSleep has everything done when the program has made no call for a while: two looks that follow each other,
// since behind one alone may lie a moment in which the whole machine stood still.
func (v *virtualClock) lookForSleep(calls uint64, quiet bool) {
	if now := v.calls.Load(); now != calls || !quiet {
		time.AfterFunc(sleepAfter/2, func() { v.lookForSleep(now, now == calls) })
		return
	}
	v.boxMu.Lock()
	v.awake = false
	v.boxMu.Unlock()
	if v.mu.TryLock() {
		v.sleeps = true
		for v.step(math.MaxInt64) {
		}
		v.sleeps = false
		v.slept.Store(v.m.Now())
		v.mu.Unlock()
	}
}

func (v *virtualClock) wait(t *Thread, ch <-chan struct{}, limit time.Duration) bool {
	deadline := time.Duration(math.MaxInt64)
	if limit != forever {
		deadline = v.now(t) + limit
	}
	var expired <-chan time.Time
	for {
		news := v.newsChannel()
		select {
		case <-ch:
			return true
		default:
		}
		v.calls.Add(1)
		late := false // nothing can come before the deadline
		var soon <-chan time.Time
		if v.mu.TryLock() {
			did := v.step(int64(deadline))
			_, later := v.m.Next()
			outside := slices.ContainsFunc(v.blocked, func(s *stream) bool { return s.virtual.awaits.block != nil })
			if len(v.blocked) > 0 {
				soon = time.After(time.Millisecond) // a limit may pass, or a word change
			}
			v.mu.Unlock()
			if did {
				continue
			}
			late = (later || v.threads.Load() <= 1) && !outside
		} else {
			soon = time.After(time.Millisecond)
		}
		if limit != forever && late {
			select {
			case <-ch:
				return true
			default:
			}
			v.reach(t, deadline)
			return false
		}
		if limit != forever && expired == nil {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-ch:
			return true
		case <-news:
		case <-soon:
			if v.mu.TryLock() {
				v.askAll()
				v.mu.Unlock()
			}
		case <-expired:
			v.reach(t, deadline)
			return false
		}
	}
}

// askAll has all streams that wait asked again. The caller holds the lock.
func (v *virtualClock) askAll() {
	blocked := v.blocked
	v.blocked = nil
	for _, s := range slices.Backward(blocked) {
		v.m.Wake(s.virtual.number)
	}
}

// step does what is next, if its time is not behind a moment. The caller holds the lock.
func (v *virtualClock) step(until int64) bool {
	v.boxMu.Lock()
	box, ask := v.box, v.ask
	v.box, v.ask = nil, false
	v.boxMu.Unlock()
	for _, a := range box {
		v.add(a.stream)
		v.m.Submit(a.stream.virtual.number, int64(a.at), false)
	}
	if ask {
		v.askAll()
	}
	if v.m.Step(until) {
		return true
	}
	// A limit passes when there is nothing else to do. Where the program has other threads, it passes for them too.
	var first *stream
	for _, s := range v.blocked {
		if w := s.virtual.awaits; w.limit > 0 && (first == nil || w.deadline < first.virtual.awaits.deadline) {
			first = s
		}
	}
	if first == nil {
		return false
	}
	w := first.virtual.awaits
	if int64(w.deadline) > until || v.threads.Load() > 1 && time.Since(w.since) < w.limit {
		return false
	}
	if at, ok := v.m.Next(); ok && at < int64(w.deadline) {
		return false
	}
	v.m.Pass(int64(w.deadline))
	v.askAll()
	return true
}

// add makes a stream known to the machine.
func (v *virtualClock) add(s *stream) {
	if s.virtual.known {
		return
	}
	s.virtual.known = true
	s.virtual.number = v.m.AddStream(int(s.ctx.dev.id), int(s.priority))
	if int(s.virtual.number) == len(v.streams) {
		v.streams = append(v.streams, nil)
	}
	v.streams[s.virtual.number] = s
}

func (v *virtualClock) forget(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(s)
}

func (v *virtualClock) remove(s *stream) {
	if s.virtual.known {
		s.virtual.known = false
		v.streams[s.virtual.number] = nil
		v.m.RemoveStream(s.virtual.number)
	}
}

// A lane has one task on its stream at a time: which one is next is known when the one before it has ended.
func (v *virtualClock) runLane(r *stream) {
	if !r.lane.next() {
		r.lane.execution.laneEnded()
		return
	}
	v.add(r)
	v.m.Submit(r.virtual.number, v.m.Now(), true)
}

// Ready begins the first task of a stream and tells whether what it waits for has come.
func (v *virtualClock) Ready(n int32) (virtual.Need, bool) {
	s := v.streams[n]
	s.time = time.Duration(v.m.Now())
	if !s.virtual.begun {
		s.virtual.begun, s.virtual.awaits, s.virtual.result = true, nil, nil
		s.virtual.current = s.first()
		v.sim.strict.Begin(&s.strict, s.virtual.current.check, string(s.virtual.current.kind))
		if s.virtual.skip = s.halted() && !s.virtual.current.always; !s.virtual.skip && s.virtual.current.begin != nil {
			s.virtual.awaits = s.virtual.current.begin(s)
			if w := s.virtual.awaits; w != nil {
				w.deadline, w.since = s.time+w.limit, time.Now()
			}
		}
	}
	k := &s.virtual.current
	if w := s.virtual.awaits; w != nil && !s.virtual.skip {
		ok, f := v.met(s, w)
		switch {
		case ok && f == nil:
			s.virtual.awaits = nil
		case ok:
			s.virtual.skip, s.virtual.result, s.virtual.awaits = true, f, nil
		case isClosed(s.life.stop):
			s.virtual.skip, s.virtual.awaits = true, nil
		case w.limit > 0 && s.time >= w.deadline && w.block == nil:
			s.virtual.skip, s.virtual.result, s.virtual.awaits = true, w.late(), nil
		default:
			v.blocked = append(v.blocked, s)
			return virtual.Need{}, false
		}
	}
	if s.virtual.skip {
		return virtual.Need{Kind: virtual.Call}, true
	}
	return k.need(), true
}

// met asks what a task waits for. What can only be waited for is waited for aside.
func (v *virtualClock) met(s *stream, w *waiting) (ok bool, f *failure) {
	if w.block == nil {
		if err := device.Guard(func() { ok, _ = w.met() }); err != nil {
			return true, failedAt(err)
		}
		if ok || w.block == nil {
			return ok, nil
		}
	}
	if block := w.block; w.ended == nil {
		w.ended = make(chan struct{})
		if v.sleeps { // a function of the program may wake it
			v.slept.Store(v.m.Now())
		}
		var expired <-chan time.Time
		if w.limit > 0 {
			expired = time.After(w.limit)
		}
		stop := s.life.stop
		go func() {
			defer v.changed()
			defer close(w.ended)
			w.inTime, w.failure = block(stop, expired)
		}()
		patience := time.NewTimer(hostPatience)
		defer patience.Stop()
		select {
		case <-w.ended:
		case <-stop:
		case <-patience.C:
		}
	}
	if !isClosed(w.ended) {
		return false, nil
	}
	if !w.inTime {
		return true, w.late()
	}
	return true, w.failure
}

// Begin runs the first task of a stream. Its contents change when it begins.
func (v *virtualClock) Begin(n int32) int64 {
	s := v.streams[n]
	s.time = time.Duration(v.m.Now())
	s.virtual.took = 0
	if s.virtual.skip || s.halted() && !s.virtual.current.always {
		return 0
	}
	if err := device.Guard(func() { s.virtual.took, s.virtual.result = s.virtual.current.perform(s) }); err != nil {
		s.virtual.result = failedAt(err)
	}
	return int64(max(s.virtual.took, 0))
}

// End ends the first task of a stream.
func (v *virtualClock) End(n int32) {
	s := v.streams[n]
	s.time = time.Duration(v.m.Now())
	s.virtual.begun = false
	k := s.virtual.current
	s.virtual.current = task{}
	s.ended(&k, s.virtual.took, s.virtual.result)
	if len(v.blocked) > 0 {
		v.askAll()
	}
	if l := s.lane; l != nil {
		if l.advance(); l.next() {
			v.m.Submit(n, v.m.Now(), true)
		} else {
			v.remove(s)
			l.execution.laneEnded()
			v.askAll()
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// spendCall lets the host time of a call pass that the model gives as a whole. Entering the call has spent a part of it.
func (s *Sim) spendCall(t *Thread, ns int64) {
	s.clock.spend(t, max(0, ns-s.model.Host.Call))
}

// waited lets the host time of a wait pass, on top of the time until the device was done, in virtual time. since is the thread's time
// when it began to wait.
func (s *Sim) waited(t *Thread, since time.Duration) {
	if s.opts.Virtual && t.host > since {
		s.clock.spend(t, s.model.Host.Sync)
	} else {
		s.spendCall(t, s.model.Host.Sync)
	}
}

// kernelTime is the device time of a kernel.
func (s *Sim) kernelTime(rule *model.Kernel, blocks uint32, bytes uint64) time.Duration {
	return time.Duration(s.model.KernelTime(rule, blocks, bytes))
}

// copyTime is the device time of a copy or a fill.
func (s *Sim) copyTime(kind model.CopyKind, n uint64) time.Duration {
	return time.Duration(s.model.CopyTime(kind, n))
}
