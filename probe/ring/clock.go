package ring

import (
	"math"
	"time"

	"github.com/acltrace/acltrace/probe"
)

// clock turns the shim's counter into nanoseconds of CLOCK_MONOTONIC. It compares the two again and again: the rate of
// CLOCK_MONOTONIC itself is steered, and the counter may jump where a machine was suspended or moved to another host.
type clock struct {
	counter bool // false: the shim asks the system for the time of each record
	virtual bool // the shim asks a simulator, whose time began with now.ns
	rate    float64
	span    int64 // nanoseconds that the rate was measured over
	// The latest comparison, and the one that the rate is measured from.
	now, base comparison
	next      int64             // when to compare again
	jumps     int               // seen
	compare   func() comparison // not the clocks themselves in tests
}

// comparison is both clocks at one moment.
type comparison struct {
	counter uint64
	ns      int64
}

const (
	compareEvery = int64(100 * time.Millisecond)
	rateOver     = int64(time.Second)
	// CLOCK_MONOTONIC is steered by 500 ppm at most. What two comparisons differ by more than this share, and by more than some
	// microseconds of delay, is no drift.
	mostDrift = 1e-3
	mostDelay = 20e3 // nanoseconds
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

// ticks is how long a time is on the shim's clock.
func (c *clock) ticks(d time.Duration) uint32 {
	n := float64(d.Nanoseconds())
	if c.counter {
		n /= c.rate
	}
	return uint32(min(n, math.MaxUint32))
}

// duration is how many nanoseconds so many ticks of the shim's clock are.
func (c *clock) duration(ticks uint64) int64 {
	if c.counter {
		return int64(float64(ticks) * c.rate)
	}
	return int64(ticks)
}

// start compares the two clocks over some milliseconds: 50 ppm of error in the rate are 50 ns in the first millisecond,
// and later comparisons make it better. A counter that does not keep its rate even so long is not used.
func (c *clock) start() {
	if c.compare == nil {
		c.compare = compare
	}
	if c.virtual {
		return
	}
	if c.counter = counterFit(); c.counter {
		c.counter = c.calibrate(func() { time.Sleep(10 * time.Millisecond) })
	}
}

// take has the clock be the one that another process has chosen.
func (c *clock) take(kind uint32) {
	if c.compare == nil {
		c.compare = compare
	}
	if c.virtual = kind == 2; c.virtual {
		c.now.ns = probe.Now()
	}
	if c.counter = kind == 0; c.counter {
		c.calibrate(func() { time.Sleep(10 * time.Millisecond) })
	}
}

// calibrate reports whether the counter had one rate over two pauses.
func (c *clock) calibrate(pause func()) bool {
	c.base = c.compare()
	pause()
	middle := c.compare()
	pause()
	c.now = c.compare()
	first, second := rate(c.base, middle), rate(middle, c.now)
	c.rate, c.span = rate(c.base, c.now), c.now.ns-c.base.ns
	c.next = c.now.ns + compareEvery
	// A comparison that was interrupted each time it was tried is some microseconds off.
	most := mostDrift*first + 2*mostDelay/float64(middle.counter-c.base.counter)
	return first > 0 && second > first-most && second < first+most
}

func rate(a, b comparison) float64 {
	if b.counter <= a.counter {
		return 0
	}
	return float64(b.ns-a.ns) / float64(b.counter-a.counter)
}

// adjust compares the clocks again where it is time to. Records that were written before a jump of the counter and are read
// after it have a wrong time; those before and after them have the right one.
func (c *clock) adjust() {
	if c.counter && probe.Now() >= c.next {
		c.observe(c.compare())
	}
}

func (c *clock) observe(n comparison) {
	c.next = n.ns + compareEvery
	off, most := float64(n.ns-c.nanoseconds(n.counter)), mostDelay+mostDrift*float64(n.ns-c.now.ns)
	if off > most || off < -most {
		c.base, c.now = n, n // and the rate as it was
		c.jumps++
		return
	}
	if c.now.ns-c.base.ns >= rateOver {
		c.base = c.now
	}
	c.now = n
	if over := n.ns - c.base.ns; over >= min(c.span, rateOver) {
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

// behind is the time of what a thread did after something else, whose time was taken for last: between the two the clocks may have been
// compared again, which puts this one back by as much as a comparison may be off. A jump stays one.
func behind(at, last int64) int64 {
	if most := int64(mostDelay + mostDrift*float64(compareEvery)); at < last && last-at <= 2*most {
		return last
	}
	return at
}

// compare reads both clocks at the same moment, as nearly as of some tries.
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
