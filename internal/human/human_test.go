package human

import (
	"math"
	"testing"
	"time"
)

func TestDurationsHaveThreeDigits(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0 ns", 7: "7 ns", 999: "999 ns", 1000: "1.00 us", 1066: "1.07 us", 9_994: "9.99 us", 9_995: "10.0 us", 99_949: "99.9 us", 99_950: "100 us",
		374_470: "374 us", 999_499: "999 us", 999_500: "1.00 ms", 37_752_000: "37.8 ms", 999_500_000: "1.00 s", 1_720_442_391: "1.72 s", 59_949_999_999: "59.9 s",
		59_950_000_000: "1m0s", int64(4*time.Minute + 12*time.Second + 600*time.Millisecond): "4m13s", int64(2*time.Hour + 5*time.Second): "2h0m5s",
		-1066: "-1.07 us", math.MinInt64: "-2562047h47m16.854775807s",
	} {
		if got := Duration(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}

// A moment is what --from takes, and includes the call that began then.
func TestMomentsAreReadBackByFlags(t *testing.T) {
	for ns, want := range map[int64]string{0: "0.000000s", 999: "0.000000s", 1_720_442_391: "1.720442s", 61_000_000_999: "61.000000s", -1_500: "-0.000001s"} {
		got := Moment(ns)
		if got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
		if d, err := time.ParseDuration(got); err != nil || ns >= 0 && (d.Nanoseconds() > ns || d.Nanoseconds() < ns-999) {
			t.Errorf("%d ns is %q, which is %d ns to a flag: %v", ns, got, d, err)
		}
	}
	if got := string(AppendMoment([]byte("at "), 1_002_003_004)); got != "at 1.002003004s" {
		t.Error(got)
	}
}

func TestBytesAndRatesHaveUnits(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 512: "512 B", 1023: "1,023 B", 1024: "1 KiB", 1536: "1.5 KiB", 384 << 10: "384 KiB", 1023 << 10: "1 MiB", 1_023_487: "999 KiB", 1_023_488: "1 MiB", 102_348: "99.9 KiB", 102_349: "100 KiB", 393_626: "384 KiB", 2_726_297: "2.6 MiB", 2 << 20: "2 MiB", 64 << 30: "64 GiB", math.MaxUint64: "16 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for rate, want := range map[float64]string{0: "0.00 B/s", 999: "999 B/s", 999.5: "1.00 kB/s", 999.6: "1.00 kB/s", 160e6: "160 MB/s", 1.934e9: "1.93 GB/s", 5e15: "5000 TB/s"} {
		if got := Rate(rate); got != want {
			t.Errorf("%g is %q, want %q", rate, got, want)
		}
	}
}

func TestCountsHaveSeparatorsAndPlurals(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 8440: "8,440", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 entries", 1: "1 entry", 8440: "8,440 entries"} {
		if got := Plural(n, "entry"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Plural(uint64(2), "launch") + ", " + Plural(uint32(1), "launch") + ", " + Plural(3, "process") + ", " + Plural(1000, "call"); got != "2 launches, 1 launch, 3 processes, 1,000 calls" {
		t.Error(got)
	}
}

func TestSharesAndChangesAreRounded(t *testing.T) {
	for part, want := range map[float64]string{0: "0%", 0.0041: "0.41%", 0.032: "3.2%", 0.05: "5%", 0.00005: "0.01%", 0.00004: "0%", 0.00996: "1%", 0.09949999999999999: "10%", 0.0996: "10%", 9.994: "999%", 9.996: "1,000%", 0.4: "40%", 1: "100%", 22: "2,200%", -0.031: "-3.1%"} {
		if got := Share(part); got != want {
			t.Errorf("%g is %q, want %q", part, got, want)
		}
	}
	if got := Times(22.3) + " " + Times(2.44) + " " + Times(3) + " " + Times(1234) + " " + Times(9.95); got != "22 2.4 3 1,234 10" {
		t.Error(got)
	}
	if got := Change(0.12) + " " + Change(-0.031) + " " + Change(0) + " " + Change(-1e-9) + " " + Change(1e-9); got != "+12% -3.1% 0% 0% 0%" {
		t.Error(got)
	}
}

func TestSignalsHaveNames(t *testing.T) {
	for n, want := range map[int]string{0: "an unknown signal", 1: "SIGHUP", 11: "SIGSEGV", 99: "signal 99"} {
		if got := Signal(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
