package device

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// RealClock is host time: devices run beside the program and take as long as their tasks.
type RealClock struct {
	sim   *Machine
	began time.Time

	sweeping atomic.Bool // a sweep is scheduled
}

// keepAlive is how long an idle server waits for work before it ends; up to twice as long.
const keepAlive = 50 * time.Millisecond

func newRealClock(s *Machine) *RealClock { return &RealClock{sim: s, began: time.Now().Add(-Uptime)} }

// parked schedules a sweep.
func (c *RealClock) parked() {
	if !c.sweeping.Load() && c.sweeping.CompareAndSwap(false, true) {
		time.AfterFunc(keepAlive, c.sweep)
	}
}

// sweep ends servers that were idle since the last sweep.
func (c *RealClock) sweep() {
	c.sweeping.Store(false) // servers that park from now on schedule another sweep
	left := false
	for _, d := range c.sim.Devices {
		d.Lock()
		streams := slices.Clone(d.Streams)
		d.Unlock()
		for _, s := range streams {
			if s == nil {
				continue
			}
			s.Lock()
			if s.server.parked && s.server.swept == s.server.parks {
				s.endServer()
			}
			s.server.swept = s.server.parks
			left = left || s.server.parked
			s.Unlock()
		}
	}
	if left {
		c.parked()
	}
}

// Now subtracts the delay of a late thread.
func (c *RealClock) Now(t *HostThread) time.Duration {
	d := time.Since(c.began)
	if t != nil && t.LateBy != nil {
		d -= time.Duration(*t.LateBy)
	}
	return d
}

func (c *RealClock) Join(*HostThread) {}

func (c *RealClock) Leave(*HostThread) {}

func (c *RealClock) Enter(*HostThread) {}

func (c *RealClock) spend(*HostThread, int64) {}

// Reach waits out the slack by which a stream was ahead of the clock: no thread sees an event before its time stamp.
func (c *RealClock) Reach(_ *HostThread, at time.Duration) {
	for !c.Past(nil, at) {
		runtime.Gosched()
	}
}

func (c *RealClock) Past(_ *HostThread, at time.Duration) bool { return c.Now(nil) >= at }

func (c *RealClock) Changed() {}

func (c *RealClock) forget(*Stream) {}

func (c *RealClock) submitted(s *Stream, _ time.Duration) { s.startServer() }

func (c *RealClock) RunLane(r *Stream) {
	go func() {
		debug.SetPanicOnFault(true)
		for r.Lane.Next() {
			k := r.Lane.Task()
			r.runTask(c, &k)
			r.Lane.Advance()
		}
		r.Lane.Ended()
	}()
}

func (c *RealClock) Wait(_ *HostThread, ch <-chan struct{}, limit time.Duration) bool {
	if limit == Forever {
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

// sleepUntil sleeps until a time. Closing stop ends long sleeps.
func (c *RealClock) sleepUntil(t time.Duration, stop <-chan struct{}) {
	// Go timers fire up to a millisecond late, so a system timer sleeps the rest.
	const rest = 1500 * time.Microsecond
	d := t - c.Now(nil)
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
		d = t - c.Now(nil)
	}
	if d > 0 {
		Alarms.Sleep(d)
	}
}
