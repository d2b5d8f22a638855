package scene

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// copying is a copy that begins or ends at a moment.
type copying struct {
	at    int64
	rate  float64 // bytes per second, below 0 at the end
	of    *Counter
	order int // of what is at one moment, so that a walk is the same each time
}

// Before orders copyings: the earliest first, that of one moment by its counter.
func (a copying) Before(b copying) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.of != b.of {
		return a.of.ID < b.of.ID
	}
	return a.order < b.order
}

// copies notes when a task copies. Where times are a bracket, bytes over it would be no rate.
func (s *Scene) copies(c *timeline.HostCall, t *timeline.Task) {
	if t.Kind != api.Copy || !t.Measured {
		return
	}
	rate, _ := t.Rate()
	if rate == 0 {
		return
	}
	lane := &s.W.Lanes[t.Lane]
	of := s.counter(s.rates, s.process(lane.Process), lane.Device, "copy rate", BytesPerSecond)
	s.moving.Push(copying{max(t.From, c.Start), rate, of, s.moved})
	s.moving.Push(copying{max(t.To, c.Start), -rate, of, s.moved + 1})
	s.moved += 2
}

func (s *Scene) memoryPoint(p *timeline.MemoryPoint) error {
	return s.point(s.counter(s.memory, s.process(p.Process), p.Device, "memory in use", Bytes), p.Time, float64(p.Bytes))
}

func (s *Scene) depthPoint(p *timeline.DepthPoint) error {
	l := s.lane(p.Lane)
	if l.queue == nil {
		lane := &s.W.Lanes[p.Lane]
		l.queue = s.newCounter(s.process(lane.Process), lane.Device, lane.Name+" queue depth", Count)
	}
	return s.point(l.queue, p.Time, float64(p.Depth))
}

// pass shows what the rates of copies did before a moment.
func (s *Scene) pass(now int64) error {
	for s.moving.Len() > 0 && s.moving.Min().at < now {
		x := s.moving.Pop()
		x.of.rate += x.rate
		if s.moving.Len() > 0 {
			if next := s.moving.Min(); next.of == x.of && next.at == x.at {
				continue // one point for one moment
			}
		}
		if x.of.rate < 1 {
			x.of.rate = 0 // what a sum of fractions leaves
		}
		if err := s.point(x.of, x.at, x.of.rate); err != nil {
			return err
		}
	}
	return nil
}

// point shows a value that lasts to the next one. What a counter has when the window begins is shown there.
func (s *Scene) point(c *Counter, at int64, value float64) error {
	if at < s.o.From {
		at = s.o.From
	}
	if at >= s.o.To {
		return nil
	}
	s.Drawn.Points++
	return s.v.Point(c, at, value)
}

func (s *Scene) newCounter(process, device int, name string, u Unit) *Counter {
	s.counters++
	return &Counter{ID: s.counters - 1, Process: process, Device: device, Name: name, Unit: u}
}

func (s *Scene) counter(of map[[2]int]*Counter, process, device int, name string, u Unit) *Counter {
	k := [2]int{process, device}
	c := of[k]
	if c == nil {
		c = s.newCounter(process, device, name, u)
		of[k] = c
	}
	return c
}
