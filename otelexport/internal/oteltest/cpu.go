package oteltest

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime returns the processor time of this process.
func CPUTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Report adds spans per second and per processor second. Only the latter is comparable on a busy machine.
func Report(b *testing.B, spans int, began time.Duration) {
	b.ReportMetric(float64(spans)/b.Elapsed().Seconds()/1e6, "Mspans/s")
	b.ReportMetric(float64(spans)/(CPUTime()-began).Seconds()/1e6, "Mspans/cpu-s")
}

const (
	Upstream = "0af7651916cd43dd8448eb211c80319c"
	Caller   = "b7ad6b7169203331"
)
