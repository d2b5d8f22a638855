package human

import (
	"math"
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "1000000": 1_000_000, "64K": 64 << 10, "64M": 64 << 20, "64MiB": 64 << 20, "1GiB": 1 << 30, "1G": 1 << 30, "2T": 2 << 40, "3TiB": 3 << 40,
		"9223372036854775807": math.MaxInt64, "8388607T": 8388607 << 40} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "M", "64MB", "64m", "64iB", "64B", "-1", "1.5G", "64 M", "64M ", "64MM", "64MiBiB", "0x10", "9223372036854775808", "8388608T", "many"} {
		if got, err := ParseBytes(s); err == nil || !strings.Contains(err.Error(), "want for example 512M or 1GiB") {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	for s, want := range map[string]Numbers{"0": {0, 0}, "7": {7, 7}, "100:110": {100, 110}, "5:5": {5, 5}} {
		got, err := ParseNumbers(s)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
		if back, err := ParseNumbers(got.String()); err != nil || back != got {
			t.Errorf("%s: %v, %v", s, back, err)
		}
	}
	for _, s := range []string{"", ":", "1:", ":2", "2:1", "a", "1:b", "-1", "1:2:3", "9223372036854775808", "1:9223372036854775808"} {
		if got, err := ParseNumbers(s); err == nil || !strings.Contains(err.Error(), "FIRST:LAST") {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestNumbersHoldBothEnds(t *testing.T) {
	n := Numbers{2, 4}
	for v, want := range []bool{false, false, true, true, true, false} {
		if n.Holds(uint64(v)) != want {
			t.Errorf("%s holds %d: %v", n, v, !want)
		}
	}
	if one := (Numbers{5, 5}); one.String() != "5" || n.String() != "2:4" {
		t.Errorf("%s, %s", one, n)
	}
}
