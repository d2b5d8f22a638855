package otelexport

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
)

// The memory of an export does not grow with the trace.
func TestMemoryDoesNotGrow(t *testing.T) {
	sizes := []int{100_000, 500_000}
	if os.Getenv("ACLTRACE_SOAK") != "" {
		sizes = append(sizes, 100_000_000)
	}
	held := func(calls int) (most uint64) {
		x, err := spans.New(testtrace.Decoding(t, calls, true), acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		every := max(calls/100_000, 2)
		if err := x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
			if b.Number%every == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			b.Reset()
			return b, nil
		}); err != nil {
			t.Fatal(err)
		}
		if x.Result().Traces < calls/1000 {
			t.Errorf("%d traces of %d calls", x.Result().Traces, calls)
		}
		t.Logf("%s calls: %.1f MB held at most, %d traces", strconv.Itoa(calls), float64(most)/1e6, x.Result().Traces)
		return most
	}
	first := held(sizes[0])
	for _, n := range sizes[1:] {
		if m := held(n); m > first+16<<20 {
			t.Errorf("an export of %d calls holds %d bytes, one of %d held %d", n, m, sizes[0], first)
		}
	}
}
