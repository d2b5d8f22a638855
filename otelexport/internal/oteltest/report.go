package oteltest

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// Report adds spans per second and per processor second. Only the latter is comparable on a busy machine.
func Report(b *testing.B, spans int, began time.Duration) {
	b.ReportMetric(float64(spans)/b.Elapsed().Seconds()/1e6, "Mspans/s")
	b.ReportMetric(float64(spans)/(testenv.CPUTime()-began).Seconds()/1e6, "Mspans/cpu-s")
}
