package scene

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/minheap"
	"github.com/acltrace/acltrace/timeline"
)

// Unit is the unit for a counter's values.
type Unit uint8

// The counter units.
const (
	Count Unit = iota
	Bytes
	BytesPerSecond
)

// A Counter is a value over time, 0 before its first point.
type Counter struct {
	ID      int // from 0
	Process int
	Device  int
	Name    string
	Unit    Unit

	rate   float64 // current copy rate
	before float64 // latest value before the window, drawn at its start
	held   bool    // before is not drawn yet
}

// counters are the counters made so far, and the copy rates that will change.
type counters struct {
	made   int
	memory map[[2]int]*Counter // by process and device
	rates  map[[2]int]*Counter // by process and device, for copies
	moving minheap.Heap[rateChange]
	pushed int        // rate changes so far
	held   []*Counter // with a value from before the window
}

func newCounters() counters {
	return counters{memory: map[[2]int]*Counter{}, rates: map[[2]int]*Counter{}}
}

// rateChange is a copy's start or end.
type rateChange struct {
	at    int64
	rate  float64 // bytes per second, negative at the end
	of    *Counter
	order int // makes ties deterministic
}

// Before orders rate changes by time, counter and order.
func (a rateChange) Before(b rateChange) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.of != b.of {
		return a.of.ID < b.of.ID
	}
	return a.order < b.order
}

// copies adds a measured copy's rate changes. A bracket is too long to give a rate.
func (s *Scene) copies(c *timeline.HostCall, t *timeline.Task) {
	if t.Kind != api.Copy || !t.Measured {
		return
	}
	rate, _ := t.Rate()
	if rate == 0 {
		return
	}
	k := &s.counters
	lane := &s.W.Lanes[t.Lane]
	of := k.counter(k.rates, s.process(lane.Process), lane.Device, "copy rate", BytesPerSecond)
	k.moving.Push(rateChange{max(t.From, c.Start), rate, of, k.pushed})
	k.moving.Push(rateChange{max(t.To, c.Start), -rate, of, k.pushed + 1})
	k.pushed += 2
}

func (s *Scene) memoryPoint(p *timeline.MemoryPoint) error {
	k := &s.counters
	return s.point(k.counter(k.memory, s.process(p.Process), p.Device, "memory in use", Bytes), p.Time, float64(p.Bytes))
}

func (s *Scene) depthPoint(p *timeline.DepthPoint) error {
	l := s.lane(p.Lane)
	if l.queue == nil {
		lane := &s.W.Lanes[p.Lane]
		l.queue = s.counters.add(s.process(lane.Process), lane.Device, lane.Name+" queue depth", Count)
	}
	return s.point(l.queue, p.Time, float64(p.Depth))
}

// pass draws the copy rates that change before a moment.
func (s *Scene) pass(now int64) error {
	moving := &s.counters.moving
	for moving.Len() > 0 && moving.Min().at < now {
		x := moving.Pop()
		x.of.rate += x.rate
		if moving.Len() > 0 {
			if next := moving.Min(); next.of == x.of && next.at == x.at {
				continue // one point a moment
			}
		}
		if x.of.rate < 1 {
			x.of.rate = 0 // rounding error
		}
		if err := s.point(x.of, x.at, x.of.rate); err != nil {
			return err
		}
	}
	return nil
}

// point draws a value that lasts until the next one. Of the values from before the window, the latest is drawn at its start.
func (s *Scene) point(c *Counter, at int64, value float64) error {
	from, to := s.W.Selector().Window()
	switch {
	case at < from:
		if !c.held {
			c.held, s.counters.held = true, append(s.counters.held, c)
		}
		c.before = value
		return nil
	case at >= to:
		return nil
	}
	if err := s.release(); err != nil {
		return err
	}
	return s.draw(c, at, value)
}

// release draws the values from before the window.
func (s *Scene) release() error {
	from, _ := s.W.Selector().Window()
	for _, c := range s.counters.held {
		c.held = false
		if err := s.draw(c, from, c.before); err != nil {
			return err
		}
	}
	s.counters.held = s.counters.held[:0]
	return nil
}

func (s *Scene) draw(c *Counter, at int64, value float64) error {
	s.Drawn.Points++
	return s.v.Point(c, at, value)
}

func (k *counters) add(process, device int, name string, u Unit) *Counter {
	k.made++
	return &Counter{ID: k.made - 1, Process: process, Device: device, Name: name, Unit: u}
}

func (k *counters) counter(of map[[2]int]*Counter, process, device int, name string, u Unit) *Counter {
	id := [2]int{process, device}
	c := of[id]
	if c == nil {
		c = k.add(process, device, name, u)
		of[id] = c
	}
	return c
}
