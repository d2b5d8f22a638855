package step

import (
	"strings"

	"github.com/acltrace/acltrace/api"
)

// A Counter counts the steps in a process call by call. Unlike a Learner it does not read ahead, so a recorder can use it. Calls come in the order of
// their ends.
//
// A marker separates steps: each call of the function with that name ends a step, or each range or mark whose name begins with it begins one.
// Without a marker, ranges and marks with "step" or "iter" in their names begin steps. If there are none, a step ends where any thread waits for the
// device after a launch by any thread; the first function that does so is used from then on. Ranges that come later
// do not change the count. What a program launches for captures is in no step: without a marker and such ranges, a capture begins the count anew until a
// graph runs, since the waits before it are warm-up runs.
type Counter struct {
	marker   string
	by       countBy
	function api.ID // with byFunction
	busy     bool   // something was launched since the last wait
	at       int
	launched bool
	ran      bool // a graph
}

type countBy uint8

const (
	byAny countBy = iota // not known yet
	byRange
	byFunction
)

// NewCounter returns a Counter for a marker, "" for none.
func NewCounter(m *api.Model, marker string) *Counter {
	c := &Counter{marker: marker}
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

// At returns the index of the current step, -1 before the first one.
func (c *Counter) At() int { return c.at }

// Launched reports whether any call has launched a task.
func (c *Counter) Launched() bool { return c.launched }

// By describes the boundaries of steps in words.
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

// See takes a call, and the name of the range or mark that it begins. It returns the index of the step that the call belongs to: a call that begins
// or ends a step belongs to that step.
func (c *Counter) See(f *api.Func, name string) int {
	if f.Range == api.RangeBegin || f.Range == api.Mark {
		if c.names(name) && c.by != byFunction {
			if c.by == byRange {
				c.at++
			}
			c.by = byRange
		}
		return c.at
	}
	if (f.Capture == api.CaptureBegin || f.Capture == api.CaptureEnd) && c.marker == "" && c.by != byRange {
		if c.busy = false; !c.ran {
			c.at = 0
		}
	}
	c.ran = c.ran || f.Task == api.GraphRun
	launches := f.Task == api.Kernel || f.Task == api.GraphRun
	if launches {
		c.busy, c.launched = true, true
	}
	in := c.at
	switch {
	case launches && (c.marker == "" || c.function != f.ID):
	case c.by == byRange:
	case c.by == byFunction && c.function != f.ID:
	case c.marker == "" && !(c.busy && Waits(f) && f.Sync != api.SyncEvent):
	default:
		c.by, c.function, c.busy = byFunction, f.ID, false
		c.at++
	}
	return in
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
