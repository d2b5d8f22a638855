package step

import (
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
)

// A Counter counts the steps in a process call by call. Unlike a Learner it does not read ahead, so a recorder can use it. Calls come in the order of
// their ends.
//
// A marker separates steps: each call of the function with that name ends a step, or each range or mark whose name begins with it begins one.
// Without a marker, ranges and marks with "step" or "iter" in their names begin steps. If there are none, a step ends where any thread waits for the
// device after a launch by any thread; the first function that does so is used from then on. If copies of one size from the host come three times before that,
// with launches between them, such copies begin steps: the loop has no wait, or not one in each step. They do not if more is launched between the latest
// copy and the wait than between copies: then the copies are of micro-batches, and the wait is that of a step. Ranges that come later do not change the count. What a program launches for captures is in no step: without a marker and such ranges, a capture begins the count anew until a
// graph runs, since the waits before it are warm-up runs.
type Counter struct {
	marker   string
	by       countBy
	function api.ID // with byFunction
	busy     bool   // something was launched since the last wait
	at       int
	launches int
	ran      bool              // a graph
	inputs   map[uint64]inputs // by size, until the rule is known
	input    uint64            // size, with byInput
}

// inputs are copies of one size from the host.
type inputs struct {
	step     int // that the latest one begins
	launches int // before that
	period   int // launches between the latest two
}

const (
	maxSizes = 64 // of copies that are counted
	maxMicro = 32 // copies of inputs until the first wait; after more the loop has none
)

type countBy uint8

const (
	byAny countBy = iota // not known yet
	byRange
	byFunction
	byInput
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
func (c *Counter) Launched() bool { return c.launches > 0 }

// Made returns the number of steps so far. What comes after the last wait is a step if it launches something.
func (c *Counter) Made() int {
	if c.by == byFunction && !c.busy {
		return c.at
	}
	return c.at + 1
}

// By describes the boundaries of steps in words.
func (c *Counter) By(m *api.Model) string {
	switch {
	case c.by == byFunction:
		return "calls of " + m.Func(c.function).Name
	case c.marker != "":
		return "ranges and marks whose names begin with " + c.marker
	case c.by == byRange:
		return "ranges and marks with step or iter in their names"
	case c.by == byInput:
		return human.Bytes(c.input) + " copies from the host"
	}
	if size, x := c.mostOften(); x.step >= minSteps-1 {
		return human.Bytes(size) + " copies from the host"
	}
	return "waits for the device after a launch, or copies of inputs: it has neither"
}

// See takes a call, the name of the range or mark that it begins, and the bytes that it copies from the host to a device. It returns the index of the
// step that the call belongs to: a call that begins or ends a step belongs to that step.
func (c *Counter) See(f *api.Func, name string, input uint64) int {
	if f.Range == api.RangeBegin || f.Range == api.Mark {
		if c.names(name) && c.by != byFunction && c.by != byInput {
			if c.at++; c.by == byAny {
				c.by, c.at = byRange, 0
			}
		}
		return c.at
	}
	if (f.Capture == api.CaptureBegin || f.Capture == api.CaptureEnd) && c.marker == "" && c.by != byRange {
		if c.busy = false; !c.ran {
			c.at, c.inputs = 0, nil
			if c.by == byInput {
				c.by = byAny
			}
		}
	}
	c.ran = c.ran || f.Task == api.GraphRun
	launches := f.Task == api.Kernel || f.Task == api.GraphRun
	if launches {
		c.busy = true
		c.launches++
	}
	if input > 0 && c.marker == "" {
		c.copied(input)
	}
	in := c.at
	switch {
	case launches && (c.marker == "" || c.function != f.ID):
	case c.by == byRange || c.by == byInput:
	case c.by == byFunction && c.function != f.ID:
	case c.marker == "" && !(c.busy && Waits(f) && f.Sync != api.SyncEvent):
	default:
		if size, x := c.mostOften(); c.by == byAny && x.step >= minSteps-1 && c.launches-x.launches <= x.period {
			c.by, c.input = byInput, size
			return in
		}
		if c.by == byAny {
			c.by, c.function, c.at, c.inputs = byFunction, f.ID, 0, nil
			in = min(in, c.at)
		}
		c.busy = false
		c.at++
	}
	return in
}

// copied counts a copy from the host. Until the rule is known, the copies that came most often begin steps.
func (c *Counter) copied(size uint64) {
	x, known := c.inputs[size]
	switch {
	case c.by != byAny && (c.by != byInput || size != c.input), known && x.launches == c.launches, !known && len(c.inputs) == maxSizes:
		return
	case known:
		x.step++
	case c.inputs == nil:
		c.inputs = map[uint64]inputs{}
	}
	c.inputs[size] = inputs{x.step, c.launches, c.launches - x.launches}
	if c.at = max(c.at, x.step); x.step == maxMicro {
		c.by, c.input = byInput, size
	}
}

// mostOften returns the copies that came most often, the larger of two.
func (c *Counter) mostOften() (size uint64, x inputs) {
	for s, y := range c.inputs {
		if y.step > x.step || y.step == x.step && s > size {
			size, x = s, y
		}
	}
	return size, x
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
