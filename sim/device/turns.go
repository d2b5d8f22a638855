package device

import (
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// Turns shares a device among tasks in real time, by the rules of virtual time. Host work starts at once; only the
// task's device time waits. Stream time runs ahead of the clock by up to slack, so a released resource may not be
// free yet: free has the exact times.
type Turns struct {
	limits [virtual.RunGraph]bool // whether the model limits a kind; constant

	mu     sync.Mutex
	shares *virtual.Shares
	free   struct { // sorted device times at which units become free; nil without a limit
		cube, vector, slots units
		engines             [model.NumCopyKinds]units
	}
	turns []*turn // waiting tasks by number
	idle  []int32
}

// turn is a waiting task.
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

// Take waits until a task can hold its resources for a time d, not before at. It returns the start time on the
// device, or false if stop was closed first.
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

// Give releases the resources of a task.
func (x *Turns) Give(n virtual.Need) {
	if !x.limits[n.Kind] {
		return
	}
	x.mu.Lock()
	x.shares.Give(n)
	x.next()
	x.mu.Unlock()
}

// next starts waiting tasks that can run. The caller holds the lock.
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

// hold reserves the resources of a task and returns its start time.
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

// units are the sorted times at which equal resources become free.
type units []time.Duration

// from returns the earliest time, not before at, at which n units are free.
func (u units) from(n int, at time.Duration) time.Duration {
	if n == 0 || len(u) == 0 {
		return at
	}
	return max(at, u[n-1])
}

// hold reserves n units from at until a time. It takes the units that became free last.
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
