package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/timeline"
)

const (
	maxCurves = 16
	maxPoints = 512 // of a curve
	maxOwners = 12
)

// memory is device memory in use over time.
type memory struct {
	Curves  []line `json:"curves"`
	Owners  table  `json:"owners"` // at the peak
	PeakAt  int64  `json:"peak_at_ns"`
	Peak    uint64 `json:"peak_bytes"`
	LeftOut int    `json:"left_out"` // curves
}

// line is a curve: each point is a time and the bytes from then on. Close points are one with the most bytes.
type line struct {
	Name   string     `json:"name"`
	Points [][2]int64 `json:"points"`

	every, skipped int // points
}

// curve makes a memory.
type curve struct {
	m     memory
	lines map[place]*line
	order []*line
	peak  *stats.Peak
	made  map[*timeline.Object]owner // of allocated memory, until the peak
}

type place struct {
	process uint32
	device  int
}

// owner made allocations of one size.
type owner struct {
	thread string
	fn     string
	size   uint64
}

func newCurve(s *stats.Stats) curve {
	c := curve{lines: map[place]*line{}, peak: s.Peak, made: map[*timeline.Object]owner{}, m: memory{Peak: s.PeakDeviceBytes}}
	if s.Peak != nil {
		c.m.PeakAt = s.Peak.Time
	}
	return c
}

func (c *curve) add(w *timeline.Walk, p *timeline.MemoryPoint) error {
	at := place{p.Process, p.Device}
	l := c.lines[at]
	if l == nil {
		if len(c.lines) == maxCurves {
			c.m.LeftOut = 1
			return nil
		}
		l = &line{Name: fmt.Sprintf("%s of process %d", timeline.DeviceName(w.Model, p.Device), w.PID(p.Process)), every: 1}
		c.lines[at] = l
		c.order = append(c.order, l)
	}
	l.add(p.Time, int64(p.Bytes))
	switch {
	case c.peak == nil || p.Call.Index > c.peak.Call:
	case p.Freed:
		delete(c.made, p.Object)
	default:
		c.made[p.Object] = owner{w.ThreadName(p.Call.Thread), p.Call.Name, p.Object.Size}
	}
	return nil
}

// add adds a point. If there are too many, each two neighbors become the higher one.
func (l *line) add(at, bytes int64) {
	n := len(l.Points)
	if l.skipped++; n > 0 && l.skipped < l.every {
		l.Points[n-1][1] = max(l.Points[n-1][1], bytes)
		return
	}
	l.skipped = 0
	if n == maxPoints {
		for i := 0; i < n; i += 2 {
			l.Points[i/2] = [2]int64{l.Points[i][0], max(l.Points[i][1], l.Points[i+1][1])}
		}
		l.Points, l.every = l.Points[:n/2], 2*l.every
	}
	l.Points = append(l.Points, [2]int64{at, bytes})
}

// out returns the memory over time, with the owners at the peak.
func (c *curve) out() memory {
	c.m.Curves, c.m.Owners = []line{}, table{Title: "Device memory at its peak", Columns: []column{{"bytes", "bytes"}, {"allocations", "count"}, {"each", "bytes"}, {"made by", "text"}, {"thread", "text"}}}
	for _, l := range c.order {
		c.m.Curves = append(c.m.Curves, *l)
	}
	count := map[owner]uint64{}
	for _, o := range c.made {
		count[o]++
	}
	owners := slices.SortedFunc(maps.Keys(count), func(a, b owner) int {
		return cmp.Or(cmp.Compare(count[b]*b.size, count[a]*a.size), cmp.Compare(a.thread, b.thread), cmp.Compare(a.fn, b.fn), cmp.Compare(a.size, b.size))
	})
	rest, others := uint64(0), uint64(0)
	for i, o := range owners {
		if i >= maxOwners {
			rest, others = rest+count[o]*o.size, others+count[o]
			continue
		}
		c.m.Owners.add(count[o]*o.size, count[o], o.size, cut(o.fn), cut(o.thread))
	}
	if others > 0 {
		c.m.Owners.add(rest, others, nil, "others", "")
	}
	return c.m
}
