package ring

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/acltrace/acltrace/probe"
)

// machine is a pair of clocks that are compared with a random delay.
type machine struct {
	counter, ns float64
	rate        float64 // nanoseconds for each tick
	r           *rand.Rand
}

func (m *machine) run(ns float64)     { m.ns += ns; m.counter += ns / m.rate }
func (m *machine) off(c *clock) int64 { return c.nanoseconds(uint64(m.counter)) - int64(m.ns) }
func (m *machine) compare() comparison {
	return comparison{uint64(m.counter), int64(m.ns) + m.r.Int64N(61) - 30}
}

func calibrated(t *testing.T) (*machine, *clock) {
	m := &machine{counter: 1e12, ns: 5e12, rate: 0.4, r: rand.New(rand.NewPCG(1, 2))}
	c := &clock{counter: true, compare: m.compare}
	if !c.calibrate(func() { m.run(10e6) }) {
		t.Fatal("a steady counter is said to be none")
	}
	return m, c
}

func abs(v int64) int64 { return max(v, -v) }

// The converted counter follows CLOCK_MONOTONIC while the kernel adjusts it at the maximum rate.
func TestClockFollows(t *testing.T) {
	m, c := calibrated(t)
	for i := range 600 {
		switch i {
		case 100:
			m.rate *= 1 + 500e-6
		case 300:
			m.rate *= 1 - 1000e-6
		}
		m.run(float64(compareEvery))
		if off := abs(m.off(c)); off > 105_000 || (i < 100 || i > 120 && i < 300 || i > 320) && off > 600 {
			t.Fatalf("after %d comparisons the time is %d ns off", i, off)
		}
		c.observe(m.compare())
		if off := abs(m.off(c)); off > 40 {
			t.Fatalf("at comparison %d the time is %d ns off", i, off)
		}
	}
}

// A recorder that takes over reads the clock as the one before: at its latest comparison the same, and right afterwards. It measures anew if
// the counter has jumped, or if what is kept is damaged.
func TestClockTakenOver(t *testing.T) {
	var kept reading
	m, first := calibrated(t)
	first.kept = &kept
	for range 20 {
		m.run(float64(compareEvery))
		first.observe(m.compare())
	}
	seam, before := uint64(m.counter)+1000, uint64(m.counter-50e6/m.rate)
	m.rate *= 1 + 20e-6
	m.run(3600e9)
	take := func(was reading) *clock {
		c := &clock{kept: &was, compare: func() comparison { m.run(10e6); return m.compare() }}
		c.take(0)
		return c
	}
	c := take(kept)
	for _, v := range []uint64{before, seam} {
		if off := abs(c.nanoseconds(v) - first.nanoseconds(v)); off > 2000 {
			t.Errorf("the recorders differ by %d ns", off)
		}
	}
	if off := abs(m.off(c)); off > 100 || c.jumps != 0 {
		t.Errorf("%d ns off after an hour, %d jumps", off, c.jumps)
	}
	for _, damaged := range []reading{{}, {kept.counter, kept.ns, math.NaN()}, {kept.counter, kept.ns, math.Inf(1)}, {kept.counter, kept.ns, -1}, {kept.counter + 1e12, kept.ns, kept.rate}} {
		if off := abs(m.off(take(damaged))); off > 100 {
			t.Errorf("%+v: %d ns off", damaged, off)
		}
	}
	virtual := &clock{kept: &reading{ns: 77, rate: 1}}
	if virtual.take(2); virtual.nanoseconds(5) != 82 {
		t.Errorf("virtual time goes on at %d", virtual.nanoseconds(5))
	}
}

// A counter that jumps, for example after a suspend, has wrong times only until the next comparison. Its rate stays.
func TestClockJump(t *testing.T) {
	for _, jump := range []float64{3600e9 / 0.4, -100e9 / 0.4, 1e6} {
		m, c := calibrated(t)
		for range 30 {
			m.run(float64(compareEvery))
			c.observe(m.compare())
		}
		m.counter += jump
		for range 30 {
			c.observe(m.compare())
			m.run(float64(compareEvery))
			if off := abs(m.off(c)); off > 600 {
				t.Fatalf("after a jump of %g ticks the time is %d ns off", jump, off)
			}
		}
		if c.jumps != 1 {
			t.Errorf("a jump of %g ticks was counted %d times", jump, c.jumps)
		}
	}
}

// A counter with an unsteady rate is rejected.
func TestClockUnfit(t *testing.T) {
	for _, change := range []float64{0.5, 0.98, 1.02, 2} {
		m := &machine{counter: 1e12, ns: 5e12, rate: 0.4, r: rand.New(rand.NewPCG(1, 2))}
		c := &clock{compare: m.compare}
		if c.calibrate(func() { m.run(10e6); m.rate *= change }) {
			t.Errorf("a counter whose rate changes by %g is used", change)
		}
	}
	m := &machine{ns: 5e12, rate: 1e300, r: rand.New(rand.NewPCG(1, 2))}
	if c := (&clock{compare: m.compare}); c.calibrate(func() { m.run(10e6) }) {
		t.Error("a counter that stands still is used")
	}
}

// A counter is steady if its rate changes by less than the comparisons may be wrong: here by 4.5 parts of a thousand.
func TestClockSteady(t *testing.T) {
	for change, steady := range map[float64]bool{0.994: false, 0.996: true, 1: true, 1.004: true, 1.006: false} {
		m := &machine{counter: 1e12, ns: 5e12, rate: 0.4, r: rand.New(rand.NewPCG(1, 2))}
		c := &clock{compare: m.compare}
		if got := c.calibrate(func() { m.run(10e6); m.rate *= change }); got != steady {
			t.Errorf("a counter whose rate changes by %g is steady: %t", change, got)
		}
	}
}

// Each comparison improves the rate: it is as exact as two comparisons that far apart can be.
func TestClockRate(t *testing.T) {
	m, c := calibrated(t)
	began := c.base.ns
	for i := range 15 {
		if off, most := (c.rate-m.rate)/m.rate, 62/float64(min(c.now.ns-began, rateSpan)); off > most || off < -most {
			t.Fatalf("after %d comparisons the rate is wrong by %g, want at most %g", i, off, most)
		}
		m.run(float64(compareEvery))
		c.observe(m.compare())
	}
}

// The clocks are compared when it is time, and not before.
func TestClockAdjust(t *testing.T) {
	for ahead, want := range map[int64]int{int64(time.Hour): 0, -int64(time.Hour): 1} {
		m := &machine{counter: 1e12, ns: float64(probe.Now() + ahead), rate: 0.4, r: rand.New(rand.NewPCG(1, 2))}
		n := 0
		c := &clock{counter: true, compare: func() comparison { n++; return m.compare() }}
		c.calibrate(func() { m.run(10e6) })
		n = 0
		if c.adjust(); n != want {
			t.Errorf("compared %d times, want %d", n, want)
		}
		c.counter, n = false, 0
		if c.adjust(); n != 0 {
			t.Error("the clocks are compared though no counter is used")
		}
	}
}

// The converted counter of this machine is CLOCK_MONOTONIC.
func TestClockHere(t *testing.T) {
	var c clock
	if c.start(); !c.counter {
		t.Skip("the counter of this machine is not fit")
	}
	for range 100 {
		before := probe.Now()
		at := c.nanoseconds(readCounter())
		if after := probe.Now(); at < before-100_000 || at > after+100_000 {
			t.Fatalf("%d is not between %d and %d", at, before, after)
		}
		c.adjust()
	}
}

// Events of one thread keep their order although an imprecise comparison comes between them.
func TestClockSetBack(t *testing.T) {
	_, c := calibrated(t)
	n := c.compare()
	first := c.nanoseconds(n.counter)
	c.observe(comparison{n.counter, n.ns - 15_000})
	second := c.nanoseconds(n.counter + 1)
	if second >= first {
		t.Fatalf("%d is not before %d", second, first)
	}
	if at := after(second, first); at != first {
		t.Errorf("the call is at %d, and the one before it at %d", at, first)
	}
	if at := after(first-int64(time.Second), first); at != first-int64(time.Second) {
		t.Errorf("a jump of a second makes %d of %d", at, first)
	}
	if at := after(first+1, first); at != first+1 {
		t.Errorf("%d became %d", first+1, at)
	}
}
