package step

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// A Counter counts the steps of a process call by call, without a look at what comes later, which the steps of a
// Walk are learnt from: it is for who has to know at once. Calls of a thread come in their order, those of different
// threads in any.
//
// A marker says what tells steps apart: a function, each call of which ends one; else the beginning of the names of
// ranges and marks, each of which begins one. Without a marker ranges with "step" or "iter" in their names do, else a
// step ends where a thread waits for the device behind a launch, by the function with which one does so first. Ranges
// that come later than that change nothing: what was counted stays counted.
type Counter struct {
	marker   string
	by       countBy
	function api.ID          // with byFunction
	busy     map[uint32]bool // threads that have launched something since they waited
	at       int
	launched bool
}

type countBy uint8

const (
	byAny countBy = iota // it is not known yet
	byRange
	byFunction
)

// NewCounter returns a counter of steps that a marker tells apart, "" for none.
func NewCounter(m *api.Model, marker string) *Counter {
	c := &Counter{marker: marker, busy: map[uint32]bool{}}
	if marker == "" {
		return c
	}
	c.by, c.at = byRange, -1
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Name == marker {
			c.by, c.function, c.at = byFunction, f.ID, 0
		}
	}
	return c
}

// At is the step that goes on, from 0; -1 before the first one.
func (c *Counter) At() int { return c.at }

// Launched reports whether anything was launched.
func (c *Counter) Launched() bool { return c.launched }

// By is what tells steps apart, in words.
func (c *Counter) By(m *api.Model) string {
	switch {
	case c.by == byFunction:
		return "calls of " + m.Func(c.function).Name
	case c.marker != "":
		return "ranges and marks whose names begin with " + c.marker
	case c.by == byRange:
		return "ranges and marks with step or iter in their names"
	}
	return "waits for the device behind a launch"
}

// See takes in a call, with the name of the range or mark where it is one, and returns the step that the call belongs
// to: the one that it begins or ends, else the one that goes on.
func (c *Counter) See(f *api.Func, thread uint32, name string) int {
	if f.Range == api.RangeBegin || f.Range == api.Mark {
		if c.names(name) && c.by != byFunction {
			if c.by == byRange {
				c.at++
			}
			c.by = byRange
		}
		return c.at
	}
	if f.Task == api.Kernel || f.Task == api.GraphRun {
		c.busy[thread], c.launched = true, true
		return c.at
	}
	in := c.at
	switch {
	case c.by == byRange:
	case c.by == byFunction && c.function != f.ID:
	case c.marker == "" && !(c.busy[thread] && waits(f)):
	default:
		c.by, c.function, c.busy[thread] = byFunction, f.ID, false
		c.at++
	}
	return in
}

// waits reports whether a function does nothing but wait for what was launched. What waits to end something, as when a
// stream is destroyed, ends no step.
func waits(f *api.Func) bool {
	return (f.Sync == api.SyncDevice || f.Sync == api.SyncStream) && !slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.End })
}

func (c *Counter) names(name string) bool {
	if c.marker != "" {
		return strings.HasPrefix(name, c.marker)
	}
	return namesStep(name)
}

// namesStep reports whether a range is a step by its name.
func namesStep(name string) bool {
	lower := strings.ToLower(name)
	return strings.Contains(lower, "step") || strings.Contains(lower, "iter")
}
