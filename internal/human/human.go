// Package human formats times, sizes and counts for people. Every text that acltrace prints or exports uses it, so that
// one value looks the same everywhere. JSON does not: it has raw integers, with the unit in the name of the key.
package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Plural formats a count of things. The noun is given in the singular: Plural(2, "entry") is "2 entries".
func Plural(n uint64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, noun[:len(noun)-1])
	case strings.HasSuffix(noun, "h"), strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Duration formats nanoseconds in the largest unit that is below the value: "250 ns", "1.07 us", "2h0m5s".
func Duration(ns int64) string { return string(AppendDuration(nil, ns)) }

// AppendDuration appends Duration(ns) to dst. It does not allocate if dst has room.
func AppendDuration(dst []byte, ns int64) []byte {
	in := func(unit float64, name string) []byte {
		return append(strconv.AppendFloat(dst, float64(ns)/unit, 'f', 2, 64), name...)
	}
	switch d := time.Duration(ns); {
	case d < 0:
		return AppendDuration(append(dst, '-'), -max(ns, -math.MaxInt64)) // -MinInt64 overflows
	case d < time.Microsecond:
		return append(strconv.AppendInt(dst, ns, 10), " ns"...)
	case d < time.Millisecond:
		return in(1e3, " us")
	case d < time.Second:
		return in(1e6, " ms")
	case d < time.Hour:
		return in(1e9, " s")
	default:
		return append(dst, d.Round(time.Second).String()...)
	}
}

// Bytes formats a size in binary units: "512 B", "2.6 MiB".
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v /= 1024; v < 1024 {
			return fmt.Sprintf("%.1f %s", v, u)
		}
	}
	return fmt.Sprintf("%.1f EiB", v/1024)
}

// Moment formats nanoseconds since the beginning of a trace, rounded to microseconds: "1.002003s".
func Moment(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }

// Signal returns a signal's name, as SIGSEGV. 0 stands for a signal that is not known.
func Signal(n int) string {
	switch name := unix.SignalName(unix.Signal(n)); {
	case n == 0:
		return "a signal that is not known"
	case name != "":
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
