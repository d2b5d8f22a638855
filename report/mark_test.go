package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
)

// Only Bad, Good and Doubtful color text: the same characters from a trace are escaped.
func TestOnlyMarksColorText(t *testing.T) {
	for _, c := range []struct {
		color bool
		want  string
	}{
		{true, "1 \x1b[31mfail\\033ed\x1b[m  \x1b[32midentical \x1b[m \\357\\267\\220x\n  calls  function\n     \x1b[33m12\x1b[m  f\n"},
		{false, "1 fail\\033ed  identical  \\357\\267\\220x\n  calls  function\n     12  f\n"},
	} {
		var b bytes.Buffer
		s := NewScreen(&b)
		s.Color = c.color
		Printf(s, "%d %s  %-10s %s\n", 1, Bad("fail\x1bed"), Good("identical"), "\uFDD0x")
		tab := newTable(s, nil)
		Printf(tab, "calls\t  function\n%s\t  f\n", Doubtful("12"))
		if err := tab.Flush(); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want {
			t.Errorf("color %v:\n%q, want\n%q", c.color, b.String(), c.want)
		}
	}
	var plain bytes.Buffer // no Screen, no colors
	if n, err := Printf(&plain, "%s\n", Bad("x")); n != 2 || err != nil || plain.String() != "x\n" {
		t.Errorf("%d, %v, %q", n, err, &plain)
	}
}

func TestLinesWrapBetweenWords(t *testing.T) {
	for width, want := range map[int]string{
		0:  "name  a value of several words",
		80: "name  a value of several words",
		20: "name  a value of\n      several words",
		16: "name  a value of\n      several\n      words",
		8:  "name  a\n      value\n      of\n      several\n      words",
	} {
		if got := wrap("name  a value of several words", width, 6); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// Regression: a call in two of 49 steps was "0 times a step".
func TestFindingCountsRareCalls(t *testing.T) {
	s := &stats.Stats{}
	s.Shares = &stats.Shares{Steps: 49}
	for n, want := range map[uint64]string{2: ": aclrtMemcpy 2 times in 49 steps, each 9.37 ms", 1: ": aclrtMemcpy once in 49 steps, each 9.37 ms", 98: ": aclrtMemcpy 2 times a step, each 9.37 ms"} {
		if got := eachText(s, &stats.Finding{Func: "aclrtMemcpy", Count: n, EachNS: 9_370_000}, ": "); got != want {
			t.Errorf("%d calls: %q, want %q", n, got, want)
		}
	}
}

// The finding that reports the cost of payloads names the flag that avoids it.
func TestFindingNamesTheFlagAgainstPayloads(t *testing.T) {
	if got := findingText(&stats.Stats{}, &stats.Finding{Kind: stats.Recorder, Share: 0.25}); !strings.Contains(got, "--payload none") {
		t.Errorf("%q names no flag", got)
	}
}

// A wait that comes after the copy of a value was said to come before it.
func TestWaitForValueHasNoOrder(t *testing.T) {
	f := &stats.Finding{Kind: stats.Waits, For: stats.SyncReads, Func: "aclrtSynchronizeStream", Share: 0.8, Count: 40}
	s := &stats.Stats{}
	s.Shares = &stats.Shares{}
	if got := findingText(s, f); !strings.Contains(got, "for a value that it copies, as .item() does") {
		t.Error(got)
	}
}
