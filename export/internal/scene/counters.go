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

// copies notes when a task copies. Where times are a bracket, bytes over it would be no rate.
func (s *Scene) copies(c *timeline.HostCall, t *timeline.Task) {
	rate, atLeast := t.Rate()
	if t.Kind != api.Copy || rate == 0 || atLeast {
		return
	}
	lane := &s.T.Lanes[t.Lane]
	of := s.counter(s.rates, s.process(lane.Process), lane.Device, "copy rate", BytesPerSecond)
	s.moving.push(max(t.From, c.Start), rate, of)
	s.moving.push(max(t.To, c.Start), -rate, of)
}

// pass shows what the counters did before a moment.
func (s *Scene) pass(now int64) error {
	for s.memoryNext && s.memoryPoint.Time < now {
		p := &s.memoryPoint
		c := s.counter(s.memory, s.process(p.Process), p.Device, "memory in use", Bytes)
		if err := s.point(c, p.Time, float64(p.Bytes)); err != nil {
			return err
		}
		s.memoryPoint, s.memoryNext = s.nextMemory()
	}
	for s.depthNext && s.depthPoint.Time < now {
		p := &s.depthPoint
		c := s.queues[p.Lane]
		if c == nil {
			lane := &s.T.Lanes[p.Lane]
			c = s.newCounter(s.process(lane.Process), lane.Device, lane.Name+" queue depth", Count)
			s.queues[p.Lane] = c
		}
		if err := s.point(c, p.Time, float64(p.Depth)); err != nil {
			return err
		}
		s.depthPoint, s.depthNext = s.nextDepth()
	}
	for len(s.moving.items) > 0 && s.moving.items[0].at < now {
		x := s.moving.pop()
		x.of.rate += x.rate
		if next := s.moving.items; len(next) > 0 && next[0].of == x.of && next[0].at == x.at {
			continue // one point for one moment
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

// heap holds what will be copied, the earliest first, that of one moment by its counter.
type heap struct {
	items []copying
	n     int
}

func (a *copying) before(b *copying) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.of != b.of {
		return a.of.ID < b.of.ID
	}
	return a.order < b.order
}

func (h *heap) push(at int64, rate float64, of *Counter) {
	h.n++
	h.items = append(h.items, copying{at, rate, of, h.n})
	x := h.items
	for i := len(x) - 1; i > 0; {
		up := (i - 1) / 2
		if !x[i].before(&x[up]) {
			return
		}
		x[i], x[up] = x[up], x[i]
		i = up
	}
}

func (h *heap) pop() copying {
	x := h.items
	top := x[0]
	last := len(x) - 1
	x[0] = x[last]
	h.items = x[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return top
		}
		if c+1 < last && x[c+1].before(&x[c]) {
			c++
		}
		if !x[c].before(&x[i]) {
			return top
		}
		x[c], x[i] = x[i], x[c]
		i = c
	}
}
