package order

import (
	"iter"
	"math"
	"slices"
)

// A Clock counts, for each lane, the tasks that precede. It is never changed. Clocks share their pages, so that a new Clock costs what differs.
type Clock []*page

const pageSize = 32

type page [pageSize]uint64

// At returns the number for a lane.
func (c Clock) At(id int32) uint64 {
	if i := int(id) / pageSize; i < len(c) && c[i] != nil {
		return c[i][id%pageSize]
	}
	return 0
}

// All iterates over the lanes with tasks, in their order.
func (c Clock) All() iter.Seq2[int32, uint64] {
	return func(yield func(int32, uint64) bool) {
		for i, p := range c {
			for k := 0; p != nil && k < pageSize; k++ {
				if p[k] > 0 && !yield(int32(i*pageSize+k), p[k]) {
					return
				}
			}
		}
	}
}

// With returns the Clock with at least n tasks for a lane.
func (c Clock) With(id int32, n uint64) Clock {
	if n <= c.At(id) {
		return c
	}
	i := int(id) / pageSize
	out := make(Clock, max(len(c), i+1))
	copy(out, c)
	p := &page{}
	if out[i] != nil {
		*p = *out[i]
	}
	p[id%pageSize] = n
	out[i] = p
	return out
}

// Join returns the maximum of two Clocks.
func (c Clock) Join(o Clock) Clock {
	out := c
	for i, p := range o {
		var q *page
		if i < len(out) {
			q = out[i]
		}
		m := maximum(q, p)
		if m == q {
			continue
		}
		if len(out) == len(c) && (len(c) == 0 || &out[0] == &c[0]) {
			out = make(Clock, max(len(c), len(o)))
			copy(out, c)
		}
		out[i] = m
	}
	return out
}

func maximum(a, b *page) *page {
	if a == b || b == nil {
		return a
	}
	if a == nil {
		return b
	}
	m := *a
	for i, v := range b {
		m[i] = max(m[i], v)
	}
	switch m {
	case *a:
		return a
	case *b:
		return b
	}
	return &m
}

// chain is the part of a track for clocks.
type chain struct {
	id     int32
	n      uint64 // tasks, counted from 1
	before Clock  // tasks of all tracks that precede the next task
	seen   int    // version of the host's clock in before
	recent []issue
	takes  []*take // waits for notifies that the host has not seen complete
	stamp  Stamp
}

// A take is a wait for a notify: the task with the number n.
type take struct {
	n    uint64
	of   *turns
	from point // its record, if met is true
	met  bool
}

// turns says whether the n-th wait for a notify follows its n-th record.
type turns struct {
	sure         bool // all that set and await it are known, and in order
	shared       bool // exported, and no import is known
	setOn, takOn int  // numbers of lanes plus 1
}

// turn takes in a task on a lane that sets or awaits the notify.
func (u *turns) turn(takes bool, lane int, sure bool) {
	on := &u.setOn
	if takes {
		on = &u.takOn
	}
	if *on == 0 {
		*on = lane + 1
	}
	u.sure = u.sure && sure && *on == lane+1
}

// An issue is a task whose call may overlap other calls.
type issue struct {
	n      uint64
	thread uint32
	end    int64
}

// A point is a place on a track: its first n tasks and what precedes them.
type point struct {
	on     *chain
	n      uint64
	before Clock
}

func (p point) clock() Clock { return p.before.With(p.on.id, p.n) }

// A Stamp is the place of a task.
type Stamp struct {
	id     int32
	thread uint32
	n, own uint64 // own: tasks on the track that certainly precede it
	before Clock
}

// Relation is how two tasks are ordered.
type Relation uint8

const (
	Unknown Relation = iota
	Yes
	No
)

// Precedes reports whether a certainly ends before b begins (Yes), or b before a begins (No). The begin of a stream's wait is when it ends.
func Precedes(a, b *Stamp) Relation {
	switch {
	case a.Before(b):
		return Yes
	case b.Before(a):
		return No
	}
	return Unknown
}

// Before reports whether a certainly ends before b begins.
func (a *Stamp) Before(b *Stamp) bool {
	if a.id == b.id && (a.n <= b.own || a.thread == b.thread && a.n < b.n) {
		return true
	}
	return a.n <= b.before.At(a.id)
}

// Stamp returns the place of the current call's task. Clocks must be set before the first call.
func (o *Order[K, T]) Stamp() Stamp { return o.now.stamp }

// Seen reports whether a host has seen a task complete when the current call began.
func (o *Order[K, T]) Seen(host int, s *Stamp) bool { return s.n <= o.host(host).before.At(s.id) }

// certainly returns how many tasks on the track were certainly made before a call.
func (t *chain) certainly(thread uint32, start int64) uint64 {
	n := t.n
	for _, r := range t.recent {
		if r.end >= start && r.thread != thread {
			n = min(n, r.n-1)
		}
	}
	return n
}

// upTo returns the place of a call that waits for the track.
func (t *chain) upTo(thread uint32, start int64) point {
	return point{t, t.certainly(thread, start), t.before}
}

// here returns the place of the latest task.
func (t *chain) here() point {
	p := point{t, t.stamp.own, t.before}
	if p.n == t.n-1 {
		p.n = t.n
	}
	return p
}

// clocks are the effects of waits.
type clocks struct {
	hosts   []hostClock
	pending []effect
}

// hostClock counts the tasks that a host has seen complete.
type hostClock struct {
	before  Clock
	version int
}

// An effect is the end of a wait: of a track, if on is set, otherwise of the host.
type effect struct {
	at     int64
	host   int
	on     *chain
	points []point
	still  func() bool // reports whether the record was the latest when the wait ended, nil for no record
}

// complete takes in that the host has seen tasks complete.
func (h *hostClock) complete(p point) {
	if b := h.before.Join(p.clock()); !same(b, h.before) {
		h.before = b
		h.version++
	}
	for len(p.on.takes) > 0 && p.on.takes[0].n <= p.n {
		t := p.on.takes[0]
		p.on.takes = p.on.takes[1:]
		if t.met && t.of.sure && !t.of.shared {
			h.complete(t.from)
		}
	}
}

// same reports whether two clocks are one.
func same(a, b Clock) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func (o *Order[K, T]) host(n int) *hostClock {
	for n >= len(o.ends.hosts) {
		o.ends.hosts = append(o.ends.hosts, hostClock{})
	}
	return &o.ends.hosts[n]
}

// clock puts the current task on the track's clock.
func (o *Order[K, T]) clock(c *Call[K], t *track[T]) {
	if h := o.host(t.Host); t.seen != h.version {
		t.seen = h.version
		t.before = t.before.Join(h.before)
	}
	own := t.certainly(c.Thread, c.Start)
	t.recent = slices.DeleteFunc(t.recent, func(r issue) bool { return r.end < c.Start })
	t.n++
	end := c.End
	if c.Unfinished {
		end = math.MaxInt64
	}
	t.recent = append(t.recent, issue{t.n, c.Thread, end})
	t.stamp = Stamp{t.id, c.Thread, t.n, own, t.before}
	if t.Synchronous && !c.Unfinished {
		o.later(c, effect{points: []point{t.here()}})
	}
}

// later makes a wait have its effect when its call ends.
func (o *Order[K, T]) later(c *Call[K], e effect) {
	if c.Unfinished {
		return
	}
	e.at, e.host = c.End, c.Host
	o.ends.pending = append(o.ends.pending, e)
}

// advance takes in the waits that ended before a time. A call that begins at the same time may have begun earlier.
func (o *Order[K, T]) advance(now int64) {
	n := 0
	for i := range o.ends.pending {
		e := &o.ends.pending[i]
		if e.at >= now {
			if n != i {
				o.ends.pending[n] = *e
			}
			n++
			continue
		}
		if e.still == nil || e.still() {
			o.end(e)
		}
	}
	clear(o.ends.pending[n:])
	o.ends.pending = o.ends.pending[:n]
}

func (o *Order[K, T]) end(e *effect) {
	for _, p := range e.points {
		if e.on != nil {
			e.on.before = e.on.before.Join(p.clock())
		} else {
			o.host(e.host).complete(p)
		}
	}
}

// lose drops the waits for records that a lost call may have replaced.
func (c *clocks) lose() {
	c.pending = slices.DeleteFunc(c.pending, func(e effect) bool { return e.still != nil })
}
