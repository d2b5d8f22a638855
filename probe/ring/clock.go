package ring

import (
	"math"
	"time"

	"github.com/acltrace/acltrace/probe"
)

// clock converts the shim's counter to CLOCK_MONOTONIC in nanoseconds. It compares both clocks regularly, because the kernel
// adjusts the rate of CLOCK_MONOTONIC, and because the counter may jump when a machine is suspended or migrated.
type clock struct {
	counter bool // false: the shim calls clock_gettime for each record
	virtual bool // the shim reads a simulator's clock, which started at now.ns
	rate    float64
	span    int64 // nanoseconds between the comparisons that rate is from
	// The latest comparison, and the one that the rate measurement started with.
	now, base comparison
	next      int64             // time of the next comparison
	jumps     int               // detected
	compare   func() comparison // replaced in tests
	kept      *reading          // in the control file, for a later recorder; nil in tests
}

// reading is how the recorder reads the shim's clock since its latest comparison.
type reading struct {
	counter uint64
	ns      int64
	rate    float64 // 0 before the first one
}

// comparison is the value of both clocks at one moment.
type comparison struct {
	counter uint64
	ns      int64
}

const (
	compareEvery = int64(100 * time.Millisecond)
	rateSpan     = int64(time.Second)
	// The kernel adjusts CLOCK_MONOTONIC by 500 ppm at most. A larger deviation, plus some microseconds of delay, is a jump.
	maxDrift = 1e-3
	maxDelay = 20e3 // nanoseconds
)

func (c *clock) kind() uint32 {
	switch {
	case c.counter:
		return 0
	case c.virtual:
		return 2
	}
	return 1
}

// ticks converts a duration to ticks of the shim's clock.
func (c *clock) ticks(d time.Duration) uint32 {
	n := float64(d.Nanoseconds())
	if c.counter {
		n /= c.rate
	}
	return uint32(min(n, math.MaxUint32))
}

// duration converts ticks of the shim's clock to nanoseconds.
func (c *clock) duration(ticks uint64) int64 {
	if c.counter {
		return int64(float64(ticks) * c.rate)
	}
	return int64(ticks)
}

// start chooses the shim's clock and measures the counter's rate over some milliseconds, to about 50 ppm. Later comparisons
// improve it. It rejects a counter with an unsteady rate.
func (c *clock) start() {
	if c.compare == nil {
		c.compare = compare
	}
	if c.virtual {
		c.rate = 1
		c.keep()
		return
	}
	if c.counter = counterFit(); c.counter {
		c.counter = c.calibrate(func() { time.Sleep(10 * time.Millisecond) })
	}
}

// take uses the clock of an earlier recorder, and reads it as that one did. So times in both parts of a trace agree.
func (c *clock) take(kind uint32) {
	if c.compare == nil {
		c.compare = compare
	}
	was := reading{}
	if c.kept != nil {
		was = *c.kept
	}
	if c.virtual = kind == 2; c.virtual {
		c.now.ns, c.rate = was.ns, 1
	}
	if c.counter = kind == 0; c.counter && !c.resume(was) {
		c.calibrate(func() { time.Sleep(10 * time.Millisecond) })
	}
}

// resume continues with an earlier recorder's reading, unless the counter has jumped since, or a program has damaged it.
func (c *clock) resume(was reading) bool {
	if !(was.rate > 0 && was.rate < 1e3) { // also no number
		return false
	}
	c.now = comparison{was.counter, was.ns}
	c.base, c.rate, c.span = c.now, was.rate, compareEvery
	c.observe(c.compare())
	return c.jumps == 0
}

// keep stores the present reading.
func (c *clock) keep() {
	if c.kept != nil {
		*c.kept = reading{c.now.counter, c.now.ns, c.rate}
	}
}

// calibrate measures the rate over two pauses and reports whether both agree.
func (c *clock) calibrate(pause func()) bool {
	c.base = c.compare()
	pause()
	middle := c.compare()
	pause()
	c.now = c.compare()
	first, second := rate(c.base, middle), rate(middle, c.now)
	c.rate, c.span = rate(c.base, c.now), c.now.ns-c.base.ns
	c.next = c.now.ns + compareEvery
	c.keep()
	// A comparison whose every try was interrupted is wrong by some microseconds.
	most := maxDrift*first + 2*maxDelay/float64(middle.counter-c.base.counter)
	return first > 0 && second > first-most && second < first+most
}

func rate(a, b comparison) float64 {
	if b.counter <= a.counter {
		return 0
	}
	return float64(b.ns-a.ns) / float64(b.counter-a.counter)
}

// adjust compares the clocks again if it is time. After a jump, records from before the jump that are read after it get wrong
// times. All others are right.
func (c *clock) adjust() {
	if c.counter && probe.Now() >= c.next {
		c.observe(c.compare())
	}
}

func (c *clock) observe(n comparison) {
	defer c.keep()
	c.next = n.ns + compareEvery
	off, most := float64(n.ns-c.nanoseconds(n.counter)), maxDelay+maxDrift*float64(n.ns-c.now.ns)
	if off > most || off < -most {
		c.base, c.now = n, n // the rate is still valid
		c.jumps++
		return
	}
	if c.now.ns-c.base.ns >= rateSpan {
		c.base = c.now
	}
	c.now = n
	if over := n.ns - c.base.ns; over >= min(c.span, rateSpan) {
		c.rate, c.span = rate(c.base, n), over
	}
}

func (c *clock) nanoseconds(v uint64) int64 {
	switch {
	case c.virtual:
		return c.now.ns + int64(v)
	case !c.counter:
		return int64(v)
	}
	return c.now.ns + int64(float64(int64(v-c.now.counter))*c.rate)
}

// after corrects the time of an event that follows one at time last on the same thread. A comparison between the two may
// have set the clock back a little; then both get the same time. A jump is not corrected.
func after(at, last int64) int64 {
	if most := int64(maxDelay + maxDrift*float64(compareEvery)); at < last && last-at <= 2*most {
		return last
	}
	return at
}

// compare reads both clocks at nearly the same moment, with the smallest delay in ten tries.
func compare() comparison {
	var c comparison
	best := ^uint64(0)
	for range 10 {
		a := readCounter()
		n := probe.Now()
		b := readCounter()
		if b-a < best {
			best, c = b-a, comparison{a + (b-a)/2, n}
		}
	}
	return c
}
