package report

import (
	"fmt"
	"strings"
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

// Idle times name their step from the first one on, and their call if it took most of the time.
func TestIdleTimes(t *testing.T) {
	call := uint64(7)
	s := &stats.Stats{Functions: []stats.Function{{TotalNS: 1}}, Idle: []stats.Idle{
		{NS: 5000, Time: 1_000_000, Step: 0, Stream: "stream 3", Next: "a", Process: 1},
		{NS: 4000, Time: 2_000_000, Step: 1, Stream: "stream 3", Next: "b", Process: 1, Mostly: stats.OtherCalls, Func: "aclrtMalloc", Call: &call, InCallNS: 3000},
		{NS: 3000, Time: 3_000_000, Step: -1, Stream: "stream 3", Next: "c", Process: 1},
	}}
	for width, want := range map[int]string{
		100: "aclrtMalloc (call 7); b", 101: "aclrtMalloc (call 7, 3.00 us); b",
	} {
		var b strings.Builder
		w := newTable(&b, &TextOptions{Width: width})
		streamText(w, s)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for line := range strings.Lines(b.String()) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[2], "s") {
				steps = append(steps, f[3])
			}
		}
		if !strings.Contains(b.String(), want) || strings.Join(steps, " ") != "0 1 -" {
			t.Errorf("width %d, steps %q:\n%s", width, steps, &b)
		}
	}
}
