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

// virtualClock runs the tasks of all streams one at a time, in the order of virtual time, as a discrete-event simulation. Nobody
// but the threads of the program drives it: a call has everything done that happens before it, a wait everything up to what it
// waits for. So the program's memory changes as in virtual time, and a program with one thread runs in the same way each time.
//
// Each thread has a time of its own. A call takes what the model says, a wait until the device is done; what the program computes
// between its calls takes none.
type virtualClock struct {
	sim     *Machine
	latest  atomic.Int64  // time of the thread that is furthest
	threads atomic.Int32  // that are known
	calls   atomic.Uint64 // by which is known whether the program sleeps
	slept   atomic.Int64  // what was done while the program slept, it may have seen

	mu      sync.Mutex // held by who runs the devices
	m       *virtual.Machine
	streams []*Stream // by number in m
	blocked []*Stream // whose first task waits
	sleeps  bool      // all is done since the program makes no call

	boxMu sync.Mutex
	box   []arrival
	ask   bool          // those that wait are to be asked again
	news  chan struct{} // closed when there is something new in the box
	awake bool          // somebody looks whether the program sleeps
}

type arrival struct {
	stream *Stream
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

func newVirtualClock(s *Machine) *virtualClock {
	v := &virtualClock{sim: s, news: make(chan struct{})}
	m, err := virtual.New(&virtual.Options{Model: s.Model, Devices: s.Options.Devices, Seed: s.Options.Seed, Tasks: v})
	if err != nil {
		panic(err) // only a preset's name can be wrong
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

// enter has the devices do what happens before the call. Where another thread drives them, it does.
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
	v.tell()
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
		late := false // nothing can come before the deadline
		var soon <-chan time.Time
		if v.mu.TryLock() {
			did := v.step(int64(deadline))
			_, later := v.m.Next()
			outside := slices.ContainsFunc(v.blocked, func(s *Stream) bool { return s.virtual.awaits.Block != nil })
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

// add makes a stream known to the machine.
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

// A lane has one task on its stream at a time: which one is next is known when the one before it has ended.
func (v *virtualClock) RunLane(r *Stream) {
	if !r.Lane.Next() {
		r.Lane.Ended()
		return
	}
	v.add(r)
	v.m.Submit(r.virtual.number, v.m.Now(), true)
}

// Ready begins the first task of a stream and tells whether what it waits for has come.
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

// met asks what a task waits for. What can only be waited for is waited for aside.
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
		if v.sleeps { // a function of the program may wake it
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

// Begin runs the first task of a stream. Its contents change when it begins.
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
