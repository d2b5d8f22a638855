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

// The longest step is explained by the part of it that is longer than in other steps by most: by the time without calls, by calls of one function if
// they explain more than a tenth of the excess, or by its longest call.
func TestWhatMakesAStepSlow(t *testing.T) {
	more := func(calls uint64, ns int64, bytes uint64) *stats.MoreCalls {
		m := &stats.MoreCalls{Thread: "1 main", UsualCalls: 2, UsualNS: 100}
		m.Func, m.Calls, m.NS = "aclrtMalloc", calls, ns
		if bytes > 0 {
			m.Func, m.Direction, m.Bytes, m.UsualBytes = "aclrtMemcpy", "DtoH", bytes, 1<<20
		}
		return m
	}
	inCalls, own := stats.Parts{OtherNS: 2000}, stats.Parts{OwnNS: 2000}
	gap := &stats.Gap{After: "a", Func: "b", NS: 900, Call: new(uint64), Next: new(uint64), BlockedNS: 450}
	long := stats.LongCall{Call: 7, Func: "aclrtFree", NS: 600}
	for _, c := range []struct {
		l     stats.LongStep
		count uint64
		want  string
	}{
		{stats.LongStep{Parts: own, Gap: gap, Call: long}, 1, ": 900 ns without a call between calls 0 (a) and 0 (b)"},
		{stats.LongStep{Parts: own, Call: long}, 1, ": own time"},
		{stats.LongStep{Parts: stats.Parts{BlockedNS: 2000}, Call: long}, 1, ": blocked"},
		{stats.LongStep{Parts: stats.Parts{RecordingNS: 2000}, Gap: gap, Call: long}, 1, ": the recorder"},
		{stats.LongStep{Parts: inCalls, Gap: gap}, 1, ": other calls"},
		{stats.LongStep{Parts: inCalls, Call: long}, 1, ": call 7, aclrtFree, took 600 ns"},
		{stats.LongStep{Parts: inCalls, Call: long, More: more(3, 200, 0)}, 1, ": call 7, aclrtFree, took 600 ns"},
		{stats.LongStep{Parts: inCalls, Call: long, More: more(3, 201, 0)}, 1, ": 3 calls of aclrtMalloc took 201 ns, usually 2 with 100 ns"},
		{stats.LongStep{Parts: inCalls, Call: long, More: more(3, 200, 8<<20)}, 1, ": call 7, aclrtFree, took 600 ns; 3 calls of aclrtMemcpy DtoH took 200 ns for 8 MiB, usually 2 with 100 ns for 1 MiB"},
		{stats.LongStep{Parts: inCalls, Call: long, More: more(3, 300, 8<<20)}, 1, ": 3 calls of aclrtMemcpy DtoH took 300 ns for 8 MiB, usually 2 with 100 ns for 1 MiB"},
		{stats.LongStep{Parts: own, Call: long, More: more(3, 900, 0)}, 1, ": own time"},
		{stats.LongStep{Parts: own, Call: long}, 2, ": own time; 2 steps took over twice the median"},
	} {
		c.l.Index, c.l.NS, c.l.Thread = 4, 2000, "1 main"
		s := &stats.Stats{Steps: stats.Steps{P50NS: 1000, Longest: &c.l}}
		if got, want := slowText(s, &stats.Finding{Count: c.count}), "step 4 took 2.00 us, 2 times the median"+c.want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
