package device

import (
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// Turns is what the tasks of a device share in real time, by the rule of virtual time. A task's work is done at once, on as many
// of the host's cores as there are; it is its time that waits for the device's. Streams run ahead of the clock by up to slack, so what
// a task has held is there again a little too soon: free says from when.
type Turns struct {
	limits [virtual.RunGraph]bool // whether the model limits anything for a kind; constant

	mu     sync.Mutex
	shares *virtual.Shares
	free   struct { // device times from which each is free, in order; nil where there is no limit
		cube, vector, slots units
		engines             [model.NumCopyKinds]units
	}
	turns []*turn // by number, of those that wait
	idle  []int32
}

// turn is a task that waits.
type turn struct {
	need   virtual.Need
	at, d  time.Duration
	start  chan time.Duration
	cancel bool
}

func NewTurns(m *model.Model) *Turns {
	x := &Turns{shares: virtual.NewShares(m)}
	x.free.cube, x.free.vector, x.free.slots = make(units, m.Cores.Cube), make(units, m.Cores.Vector), make(units, m.Streams)
	x.limits[virtual.Kernel] = m.Cores.Cube+m.Cores.Vector+m.Streams > 0
	x.limits[virtual.Copy] = m.Streams > 0
	for k := range x.free.engines {
		n := m.Copies[model.CopyKind(k)].Engines
		x.free.engines[k] = make(units, n)
		x.limits[virtual.Copy] = x.limits[virtual.Copy] || n > 0
	}
	return x
}

// Take waits until a task of a stream has what it needs for a time d, from a moment on, and returns when on the device that is; false
// where the stream's work is discarded meanwhile.
func (x *Turns) Take(priority uint32, stop <-chan struct{}, n virtual.Need, at, d time.Duration) (time.Duration, bool) {
	if !x.limits[n.Kind] {
		return at, true
	}
	x.mu.Lock()
	if x.shares.Take(n) {
		at = x.hold(n, at, d)
		x.mu.Unlock()
		return at, true
	}
	w := &turn{need: n, at: at, d: d, start: make(chan time.Duration, 1)}
	id := int32(len(x.turns))
	if k := len(x.idle); k > 0 {
		id, x.idle = x.idle[k-1], x.idle[:k-1]
		x.turns[id] = w
	} else {
		x.turns = append(x.turns, w)
	}
	x.shares.Wait(id, int32(priority), n)
	x.next()
	x.mu.Unlock()
	select {
	case at = <-w.start:
		return at, true
	case <-stop:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.cancel = true; len(w.start) > 0 {
		x.shares.Give(n)
		x.next()
	}
	return at, false
}

// Give gives back what a task has taken.
func (x *Turns) Give(n virtual.Need) {
	if !x.limits[n.Kind] {
		return
	}
	x.mu.Lock()
	x.shares.Give(n)
	x.next()
	x.mu.Unlock()
}

// next begins the tasks whose turn has come. The caller holds the lock.
func (x *Turns) next() {
	for again := true; again; {
		again = false
		x.shares.Next(func(id int32) {
			w := x.turns[id]
			x.turns[id] = nil
			x.idle = append(x.idle, id)
			if w.cancel {
				x.shares.Give(w.need)
				again = true
				return
			}
			w.start <- x.hold(w.need, w.at, w.d)
		})
	}
}

// hold notes until when a task holds what it has, and returns from when on.
func (x *Turns) hold(n virtual.Need, at, d time.Duration) time.Duration {
	f := &x.free
	at = f.slots.from(1, at)
	if n.Kind == virtual.Copy {
		at = f.engines[n.Copy].from(1, at)
		f.engines[n.Copy].hold(1, at, at+d)
	} else {
		at = f.vector.from(n.Demand.Vector, f.cube.from(n.Demand.Cube, at))
		f.cube.hold(n.Demand.Cube, at, at+d)
		f.vector.hold(n.Demand.Vector, at, at+d)
	}
	f.slots.hold(1, at, at+d)
	return at
}

// units are the times from which each of some equal things is free, in order.
type units []time.Duration

// from is when n of them are free, not before a time.
func (u units) from(n int, at time.Duration) time.Duration {
	if n == 0 || len(u) == 0 {
		return at
	}
	return max(at, u[n-1])
}

// hold takes n of them from a time at which they are free, those that have become free last, until another one.
func (u units) hold(n int, at, until time.Duration) {
	if n == 0 || len(u) == 0 {
		return
	}
	free, _ := slices.BinarySearch(u, at+1)
	copy(u[free-n:], u[free:])
	to, _ := slices.BinarySearch(u[:len(u)-n], until)
	copy(u[to+n:], u[to:len(u)-n])
	for i := range n {
		u[to+i] = until
	}
}
