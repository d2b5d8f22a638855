package oteltest

import (
	"syscall"
	"testing"
	"time"
)

// processor returns the time that this process had a processor.
func CPUTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report tells spans a second, and a second of the processor, which is the figure that counts on a machine with other work.
func Report(b *testing.B, spans int, began time.Duration) {
	b.ReportMetric(float64(spans)/b.Elapsed().Seconds()/1e6, "Mspans/s")
	b.ReportMetric(float64(spans)/(CPUTime()-began).Seconds()/1e6, "Mspans/cpu-s")
}

const (
	Upstream = "0af7651916cd43dd8448eb211c80319c"
	Caller   = "b7ad6b7169203331"
)
