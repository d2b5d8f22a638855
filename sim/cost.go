package sim

import (
	"math"
	"time"
)

// Cost tells how long tasks take on a device. The figures are plausible for a training card of the class that is simulated
// and were measured on none.
type Cost struct {
	// Launch is the time of a kernel whose library gives none.
	Launch time.Duration
	// Copy and Fill are the latencies of a copy between host and device and of what stays on the device.
	Copy, Fill time.Duration
	// LinkRate is the rate between host and device, MemoryRate that of the device's memory, in bytes a second.
	LinkRate, MemoryRate float64
}

// DefaultCost is used where Options give none.
var DefaultCost = Cost{
	Launch: 3 * time.Microsecond, Copy: 6 * time.Microsecond, Fill: 2 * time.Microsecond,
	LinkRate: 25e9, MemoryRate: 800e9,
}

func (c *Cost) link(n uint64) time.Duration {
	return c.Copy + time.Duration(math.Ceil(float64(n)/c.LinkRate*1e9))
}

func (c *Cost) memory(n uint64) time.Duration {
	return c.Fill + time.Duration(math.Ceil(float64(n)/c.MemoryRate*1e9))
}

const (
	// tick is the resolution of the device's time stamps.
	tick = 20 * time.Nanosecond
	// slack is how far the time of a stream may run ahead of the clock before the stream waits for it: less than that
	// can't be slept with any precision.
	slack = 100 * time.Microsecond
	// uptime is how long the device had been running when the program began.
	uptime = 10 * time.Second
)

// clock is the time of the devices, in nanoseconds since they booted.
type clock struct{ began time.Time }

func (c *clock) start() { c.began = time.Now().Add(-uptime) }

func (c *clock) now() time.Duration { return time.Since(c.began) }

// sleepUntil waits until the time, unless stop is closed before.
func (c *clock) sleepUntil(t time.Duration, stop <-chan struct{}) {
	d := t - c.now()
	if d <= slack {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
