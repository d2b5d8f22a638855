package step

import (
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
)

// A Counter counts the steps in a process call by call. Unlike a Learner it does not read ahead, so a recorder can use it. Calls come in the order of
// their ends.
//
// A marker separates steps: each call of the function with that name ends a step, or each range or mark whose name begins with it begins one. Without a
// marker one of three rules counts:
//   - Ranges and marks with "step" or "iter" in their names begin steps, unless more than minSteps waits came before.
//   - A step ends where any thread waits for the device after a launch by any thread. The first function that does so counts, until another one has done
//     so more often in a row: programs wait while they start, and may wait by another function in their loop. See waits for several in a step.
//   - Copies of one size from the host begin steps, if they come three times before a wait, with launches between them: the loop has no wait, or not one
//     in each step. They do not if more is launched between the latest copy and the wait than between copies: then the copies are of micro-batches.
//
// Launches for captures are in no step. Without a marker and such ranges, a capture begins the count anew until a graph runs: the waits before it are
// warm-up runs.
type Counter struct {
	marker   string
	by       countBy
	function api.ID // with byFunction
	at       int
	launches int
	ended    int               // launches at the latest call of the function
	ran      bool              // a graph
	waits    map[api.ID]*waits // by function, without a marker
	inputs   map[uint64]inputs // by size, while copies may begin steps
	closed   bool              // copies begin no steps
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
	if c.by == byFunction && c.launches == c.ended {
		return c.at
	}
	return c.at + 1
}

// By describes the boundaries of steps in words.
func (c *Counter) By(m *api.Model) string {
	size, x := c.mostOften()
	switch {
	case c.by == byRange && c.marker != "":
		return "ranges and marks whose names begin with " + c.marker
	case c.by == byRange:
		return "ranges and marks with step or iter in their names"
	case c.by == byInput:
		return human.Bytes(c.input) + " copies from the host"
	case x.step >= minSteps-1:
		return human.Bytes(size) + " copies from the host"
	case c.by == byFunction && c.marker == "" && c.waits[c.function].least > 0:
		return "calls of " + m.Func(c.function).Name + " after most launches of a step"
	case c.by == byFunction:
		return "calls of " + m.Func(c.function).Name
	}
	return "waits for the device after a launch, or copies of inputs: it has neither"
}

// See takes a call, the name of the range or mark that it begins, and the bytes that it copies from the host to a device. It returns the index of the
// step that the call belongs to: a call that begins or ends a step belongs to that step.
func (c *Counter) See(f *api.Func, name string, input uint64) int {
	if f.Range == api.RangeBegin || f.Range == api.Mark {
		c.named(name)
		return c.at
	}
	launches := f.Task == api.Kernel || f.Task == api.GraphRun
	if launches {
		c.launches++
	}
	c.ran = c.ran || f.Task == api.GraphRun
	if c.marker != "" {
		return c.told(f)
	}
	if c.by == byRange {
		return c.at
	}
	if f.Capture == api.CaptureBegin || f.Capture == api.CaptureEnd {
		c.captured()
	}
	if input > 0 {
		c.copied(input)
	}
	if launches || c.by == byInput || !Waits(f) || f.Sync == api.SyncEvent {
		return c.at
	}
	return c.waited(f)
}

// named takes the begin of a range, or a mark.
func (c *Counter) named(name string) {
	settled := c.by == byFunction && (c.marker != "" || c.waits[c.function].n > minSteps)
	switch {
	case !c.names(name) || c.by == byInput || settled:
	case c.by == byRange:
		c.at++
	default:
		c.by, c.at, c.inputs, c.waits = byRange, 0, nil, nil
	}
}

// told takes a call for a marker.
func (c *Counter) told(f *api.Func) int {
	in := c.at
	if c.by == byFunction && f.ID == c.function {
		c.at, c.ended = c.at+1, c.launches
	}
	return in
}

// captured begins the count anew, or goes on without what was launched for a capture.
func (c *Counter) captured() {
	if !c.ran {
		*c = Counter{launches: c.launches}
	}
	c.ended = c.launches
	for _, w := range c.waits {
		w.launches = c.launches
	}
}

// waited takes a call that waits for the device, and returns the step of the call.
func (c *Counter) waited(f *api.Func) int {
	w := c.waits[f.ID]
	if w == nil {
		w = &waits{launches: c.ended}
		if c.waits == nil {
			c.waits = map[api.ID]*waits{}
		}
		c.waits[f.ID] = w
	}
	if c.launches == max(c.ended, w.launches) {
		return c.at
	}
	if c.awaited() {
		return c.at
	}
	in := w.add(c.launches, c.ran)
	if c.by == byFunction && f.ID != c.function {
		if n := c.waits[c.function].n; n > minSteps || w.row <= n {
			return c.at
		}
	}
	in = min(in, w.steps)
	c.by, c.function, c.at, c.ended = byFunction, f.ID, w.steps, c.launches
	c.closed = c.closed || w.n > 1
	for _, o := range c.waits {
		o.row = 0
	}
	return in
}

// awaited takes a wait that may be one of a loop in which copies begin steps, and reports whether it is. Copies before it are of micro-batches, unless it
// waits for the latest of them.
func (c *Counter) awaited() bool {
	if c.closed {
		return false
	}
	size, x := c.mostOften()
	if x.step >= minSteps-1 && c.launches-x.launches <= x.period {
		c.by, c.input = byInput, size
		return true
	}
	if x.step == 0 || c.launches > x.launches {
		c.closed, c.inputs = x.step > 0, nil
	}
	return false
}

// copied counts a copy from the host. Until the rule is known, the copies that came most often begin steps.
func (c *Counter) copied(size uint64) {
	x, known := c.inputs[size]
	switch {
	case c.closed || c.by == byInput && size != c.input, known && x.launches == c.launches, !known && len(c.inputs) == maxSizes:
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

// waits are calls of a function that wait for the device after a launch.
//
// A step may wait several times by one function, as when a program reads its loss and the norm of its gradients. Then the launches before its waits
// alternate, and only waits after most launches end steps. The first wait ends no step if few launches come before it: a program waits for its first
// tensors. In programs with graphs all waits end steps, since a graph is a single launch.
type waits struct {
	n, steps int
	row      int   // waits since the latest one by the function that counts
	launches int   // at the latest one
	before   []int // launches before each, at most maxBefore
	least    int   // launches before a wait that ends a step, 0 until they alternate
	within   int   // waits since the latest one that ended a step
}

const (
	maxBefore = 64 // waits that are examined
	maxPeriod = 4  // waits in a step
	// mostOf is the part of the launches before another wait of a step, with which a wait ends a step as well.
	mostOf = 0.75
)

// add takes a wait, with the launches until then, and returns its step.
func (w *waits) add(launches int, graphs bool) (in int) {
	gap := launches - w.launches
	w.n, w.row, w.launches, w.within = w.n+1, w.row+1, launches, w.within+1
	if len(w.before) < maxBefore {
		w.before = append(w.before, gap)
		if w.least == 0 && !graphs {
			w.alternates()
		}
		if w.n == 2 && 2*w.before[0] < gap && !graphs { // the first one came while the program started
			w.steps = 0
		}
	}
	if w.within > 2*maxPeriod { // the loop has changed
		w.least = 0
	}
	if gap < w.least {
		return w.steps
	}
	w.steps, w.within = w.steps+1, 0
	return w.steps - 1
}

// alternates finds out whether the launches before waits alternate: whether the latest waits repeat those before them, except the very first, which comes
// after what a program launches while it starts. Then it counts the steps before the latest wait anew.
func (w *waits) alternates() {
	for period := 2; period <= maxPeriod && 2*period < len(w.before); period++ {
		latest := w.before[len(w.before)-period:]
		most := slices.Max(latest)
		if !slices.Equal(latest, w.before[len(w.before)-2*period:][:period]) || float64(slices.Min(latest)) >= mostOf*float64(most) {
			continue
		}
		w.least, w.steps = int(math.Ceil(mostOf*float64(most))), 0
		for _, gap := range w.before[:len(w.before)-1] {
			if gap >= w.least {
				w.steps++
			}
		}
		return
	}
}
