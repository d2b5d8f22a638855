package device

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/virtual"
)

// virtualClock runs the tasks of all streams as a discrete-event simulation, one task at a time in virtual time. Only
// calls of program threads drive it: a call first runs everything that happens before it, and a wait runs everything
// until its condition holds. A program with one thread therefore always runs in the same way.
//
// Each thread has its own time. A call takes the modelled time, a wait lasts until the device is done, and
// computation between calls takes no time.
type virtualClock struct {
	sim     *Machine
	latest  atomic.Int64  // largest thread time
	threads atomic.Int32  // known threads
	calls   atomic.Uint64 // calls so far, to detect a sleeping program
	slept   atomic.Int64  // time up to which work was done while the program slept

	mu      sync.Mutex // held by the thread that drives the devices
	m       *virtual.Machine
	streams []*Stream // by number in m
	blocked []*Stream // streams whose first task waits
	sleeps  bool      // all work is being done for a sleeping program

	boxMu sync.Mutex
	box   []arrival
	ask   bool          // blocked streams must check again
	news  chan struct{} // closed when the box changes
	awake bool          // a check for sleep is scheduled
}

type arrival struct {
	stream *Stream
	at     time.Duration
}

const (
	// hostPatience is how long, in real time, the devices wait for a program function. Then they continue without it.
	// A faster function takes the modelled time.
	hostPatience = time.Second
	// sleepAfter is the time without a call after which all work is done, since the program may wait for it in
	// another way.
	sleepAfter = 250 * time.Millisecond
)

func newVirtualClock(s *Machine) *virtualClock {
	v := &virtualClock{sim: s, news: make(chan struct{})}
	m, err := virtual.New(&virtual.Options{Model: s.Model, Devices: s.Options.Devices, Seed: s.Options.Seed, Tasks: v})
	if err != nil {
		panic(err) // only a wrong preset name can fail
	}
	m.Pass(int64(Uptime))
	v.m = m
	v.latest.Store(int64(Uptime))
	return v
}

func (v *virtualClock) Now(t *HostThread) time.Duration {
	if t == nil {
		return time.Duration(v.latest.Load())
	}
	return t.Time
}

func (v *virtualClock) Join(t *HostThread) {
	v.threads.Add(1)
	t.Time = time.Duration(v.latest.Load())
}

func (v *virtualClock) Leave(*HostThread) { v.threads.Add(-1) }

func (v *virtualClock) spend(t *HostThread, ns int64) {
	if t.Untimed == nil || *t.Untimed == 0 {
		v.Reach(t, t.Time+time.Duration(ns))
	}
}

func (v *virtualClock) Reach(t *HostThread, at time.Duration) {
	if t == nil || at <= t.Time {
		return
	}
	t.Time = at
	for {
		old := v.latest.Load()
		if old >= int64(at) || v.latest.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

func (v *virtualClock) Past(t *HostThread, at time.Duration) bool { return at <= t.Time }

// Enter runs everything that happens before the call, unless another thread drives the devices.
func (v *virtualClock) Enter(t *HostThread) {
	v.Reach(t, time.Duration(v.slept.Load()))
	v.spend(t, v.sim.Model.Host.Call)
	v.calls.Add(1)
	if v.mu.TryLock() {
		for v.step(int64(t.Time)) {
		}
		v.mu.Unlock()
	}
}

func (v *virtualClock) submitted(s *Stream, at time.Duration) {
	v.boxMu.Lock()
	v.box = append(v.box, arrival{s, at})
	v.wakeWaiters()
	if !v.awake {
		v.awake = true
		n := v.calls.Load()
		time.AfterFunc(sleepAfter/2, func() { v.lookForSleep(n, false) })
	}
	v.boxMu.Unlock()
}

func (v *virtualClock) Changed() {
	v.boxMu.Lock()
	v.ask = true
	v.wakeWaiters()
	v.boxMu.Unlock()
}

// wakeWaiters wakes waiters after a change. The caller holds boxMu.
func (v *virtualClock) wakeWaiters() {
	close(v.news)
	v.news = make(chan struct{})
}

func (v *virtualClock) newsChannel() <-chan struct{} {
	v.boxMu.Lock()
	defer v.boxMu.Unlock()
	return v.news
}

// lookForSleep does all work after two checks in a row saw no call. A single check could fall into a pause of the
// whole machine.
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

func (v *virtualClock) Wait(t *HostThread, ch <-chan struct{}, limit time.Duration) bool {
	deadline := time.Duration(math.MaxInt64)
	if limit != Forever {
		deadline = v.Now(t) + limit
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
		late := false // nothing can happen before the deadline
		var soon <-chan time.Time
		if v.mu.TryLock() {
			did := v.step(int64(deadline))
			_, later := v.m.Next()
			outside := slices.ContainsFunc(v.blocked, func(s *Stream) bool { return s.virtual.awaits.Block != nil })
			if len(v.blocked) > 0 {
				soon = time.After(time.Millisecond) // a limit may pass, or a word may change
			}
			v.mu.Unlock()
			if did {
				continue
			}
			late = (later || v.threads.Load() <= 1) && !outside
		} else {
			soon = time.After(time.Millisecond)
		}
		if limit != Forever && late {
			select {
			case <-ch:
				return true
			default:
			}
			v.Reach(t, deadline)
			return false
		}
		if limit != Forever && expired == nil {
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
			v.Reach(t, deadline)
			return false
		}
	}
}

// askAll has all blocked streams check again. The caller holds the lock.
func (v *virtualClock) askAll() {
	blocked := v.blocked
	v.blocked = nil
	for _, s := range slices.Backward(blocked) {
		v.m.Wake(s.virtual.number)
	}
}

// step runs the next event unless it is later than until. The caller holds the lock.
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
	// A limit passes if there is nothing else to do. With other program threads it also has to pass in real time.
	var first *Stream
	for _, s := range v.blocked {
		if w := s.virtual.awaits; w.Limit > 0 && (first == nil || w.deadline < first.virtual.awaits.deadline) {
			first = s
		}
	}
	if first == nil {
		return false
	}
	w := first.virtual.awaits
	if int64(w.deadline) > until || v.threads.Load() > 1 && time.Since(w.since) < w.Limit {
		return false
	}
	if at, ok := v.m.Next(); ok && at < int64(w.deadline) {
		return false
	}
	v.m.Pass(int64(w.deadline))
	v.askAll()
	return true
}

// add registers a stream in the scheduler.
func (v *virtualClock) add(s *Stream) {
	if s.virtual.known {
		return
	}
	s.virtual.known = true
	s.virtual.number = v.m.AddStream(int(s.Context.Device.ID), int(s.Priority))
	if int(s.virtual.number) == len(v.streams) {
		v.streams = append(v.streams, nil)
	}
	v.streams[s.virtual.number] = s
}

func (v *virtualClock) forget(s *Stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(s)
}

func (v *virtualClock) remove(s *Stream) {
	if s.virtual.known {
		s.virtual.known = false
		v.streams[s.virtual.number] = nil
		v.m.RemoveStream(s.virtual.number)
	}
}

// RunLane submits one task at a time, since each task decides which one follows.
func (v *virtualClock) RunLane(r *Stream) {
	if !r.Lane.Next() {
		r.Lane.Ended()
		return
	}
	v.add(r)
	v.m.Submit(r.virtual.number, v.m.Now(), true)
}

// Ready begins the first task of a stream and reports whether its condition holds.
func (v *virtualClock) Ready(n int32) (virtual.Need, bool) {
	s := v.streams[n]
	s.Time = time.Duration(v.m.Now())
	if !s.virtual.begun {
		s.virtual.begun, s.virtual.awaits, s.virtual.result = true, nil, nil
		s.virtual.current = s.first()
		v.sim.Strict.Begin(&s.Strict, s.virtual.current.Check, string(s.virtual.current.Kind))
		if s.virtual.skip = s.halted() && !s.virtual.current.Always; !s.virtual.skip && s.virtual.current.Begin != nil {
			s.virtual.awaits = s.virtual.current.Begin(s)
			if w := s.virtual.awaits; w != nil {
				w.deadline, w.since = s.Time+w.Limit, time.Now()
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
		case IsClosed(s.Life.Stop):
			s.virtual.skip, s.virtual.awaits = true, nil
		case w.Limit > 0 && s.Time >= w.deadline && w.Block == nil:
			s.virtual.skip, s.virtual.result, s.virtual.awaits = true, w.Late(), nil
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

// met checks a task's condition. Blocking waits run on another goroutine.
func (v *virtualClock) met(s *Stream, w *Waiting) (ok bool, f *fail.Failure) {
	if w.Block == nil {
		if err := space.Guard(func() { ok, _ = w.Met() }); err != nil {
			return true, failedAt(err)
		}
		if ok || w.Block == nil {
			return ok, nil
		}
	}
	if block := w.Block; w.ended == nil {
		w.ended = make(chan struct{})
		if v.sleeps { // the function may wake the program
			v.slept.Store(v.m.Now())
		}
		var expired <-chan time.Time
		if w.Limit > 0 {
			expired = time.After(w.Limit)
		}
		stop := s.Life.Stop
		go func() {
			defer v.Changed()
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
	if !IsClosed(w.ended) {
		return false, nil
	}
	if !w.inTime {
		return true, w.Late()
	}
	return true, w.failure
}

// Begin runs the first task of a stream. Memory changes at the beginning of a task.
func (v *virtualClock) Begin(n int32) int64 {
	s := v.streams[n]
	s.Time = time.Duration(v.m.Now())
	s.virtual.took = 0
	if s.virtual.skip || s.halted() && !s.virtual.current.Always {
		return 0
	}
	if err := space.Guard(func() { s.virtual.took, s.virtual.result = s.virtual.current.perform(s) }); err != nil {
		s.virtual.result = failedAt(err)
	}
	return int64(max(s.virtual.took, 0))
}

// End ends the first task of a stream.
func (v *virtualClock) End(n int32) {
	s := v.streams[n]
	s.Time = time.Duration(v.m.Now())
	s.virtual.begun = false
	k := s.virtual.current
	s.virtual.current = Task{}
	s.ended(&k, s.virtual.took, s.virtual.result)
	if len(v.blocked) > 0 {
		v.askAll()
	}
	if l := s.Lane; l != nil {
		if l.Advance(); l.Next() {
			v.m.Submit(n, v.m.Now(), true)
		} else {
			v.remove(s)
			l.Ended()
			v.askAll()
		}
	}
}
