package report

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
)

// The longest step was one with a thread that makes it, so the 99th percentile exceeded it.
func TestLongestStepIsTheLongestOfAll(t *testing.T) {
	for _, c := range []struct {
		longest int64
		want    string
	}{
		{3000, "9 found by waits: median 1.00 us, p99 5.00 us, longest 5.00 us"},
		{5000, "9 found by waits: median 1.00 us, p99 5.00 us, longest 5.00 us (step 4)"},
	} {
		st := &stats.Steps{Source: "found", By: "waits", Count: 9, Typical: 9, P50NS: 1000, P99NS: 5000, MaxNS: 5000, Longest: &stats.LongStep{Index: 4, NS: c.longest}}
		got := ""
		stepRow(func(_, text string, args ...any) { got = fmt.Sprintf(text, args...) }, st)
		if got != c.want {
			t.Errorf("steps %s, want %s", got, c.want)
		}
	}
}
