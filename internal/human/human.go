// Package human formats times, sizes and counts for people. Every text that acltrace prints or exports uses it, so that
// one value looks the same everywhere. JSON and CSV do not: they have raw integers, with the unit in the name of the key.
//
//	duration  250 ns, 1.07 us, 374 us, 12.3 s, 4m12s   three significant digits, whole seconds from one minute on
//	moment    1.720442s                                seconds since the trace began; --from, --to and --at take this form
//	size      512 B, 2.6 MiB, 384 KiB                  binary units
//	rate      160 MB/s, 1.93 GB/s                      decimal units, as in data sheets
//	count     8,440
//	share     40%, 3.2%, 0.41%
//	change    +12%, -3.1%
//	factor    22, 2.4
//
// Numbers that identify something, such as calls, steps, processes and streams, are no counts: they have no commas.
package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Integer is the type of a count.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64
}

// Count formats a count with commas: "8,440".
func Count[N Integer](n N) string {
	s := fmt.Sprint(n)
	first := len(s) - len(strings.TrimPrefix(s, "-"))
	for at := len(s) - 3; at > first; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Plural formats a count of things. The noun is given in the singular: Plural(2, "entry") is "2 entries".
func Plural[N Integer](n N, noun string) string { return Count(n) + " " + Noun(n, noun) }

// Noun returns a noun in the number that n requires: Noun(2, "entry") is "entries".
func Noun[N Integer](n N, noun string) string {
	switch {
	case n == 1:
		return noun
	case strings.HasSuffix(noun, "y"):
		return noun[:len(noun)-1] + "ies"
	case strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"), strings.HasSuffix(noun, "s"):
		return noun + "es"
	}
	return noun + "s"
}

// Duration formats nanoseconds: "250 ns", "1.07 us", "12.3 s", "4m12s".
func Duration(ns int64) string { return string(AppendDuration(nil, ns)) }

// AppendDuration appends Duration(ns) to dst. It does not allocate if dst has room.
func AppendDuration(dst []byte, ns int64) []byte {
	switch {
	case ns < 0:
		return AppendDuration(append(dst, '-'), -max(ns, -math.MaxInt64)) // -MinInt64 overflows
	case ns < 1000:
		return append(strconv.AppendInt(dst, ns, 10), " ns"...)
	case ns < 999_500:
		return append(appendThree(dst, float64(ns)/1e3), " us"...)
	case ns < 999_500_000:
		return append(appendThree(dst, float64(ns)/1e6), " ms"...)
	case ns < 59_950_000_000:
		return append(appendThree(dst, float64(ns)/1e9), " s"...)
	}
	return append(dst, time.Duration(ns).Round(time.Second).String()...)
}

// appendThree appends v, which is below 999.5, with three significant digits.
func appendThree(dst []byte, v float64) []byte {
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	}
	return strconv.AppendFloat(dst, v, 'f', decimals, 64)
}

// Bytes formats a size in binary units: "512 B", "2.6 MiB", "384 KiB".
func Bytes[N Integer](n N) string {
	v := float64(n)
	if v < 1024 {
		return Count(n) + " B"
	}
	unit := ""
	for _, unit = range []string{" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"} {
		if v /= 1024; v < 999.5 {
			break
		}
	}
	decimals := 1
	if v >= 99.95 {
		decimals = 0
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', decimals, 64), ".0") + unit
}

// Rate formats bytes per second in decimal units: "160 MB/s", "1.93 GB/s".
func Rate(bytesPerSecond float64) string {
	v, unit := bytesPerSecond, " B/s"
	for _, next := range []string{" kB/s", " MB/s", " GB/s", " TB/s"} {
		if v >= 999.5 {
			v, unit = v/1000, next
		}
	}
	return string(appendThree(nil, v)) + unit
}

// Moment formats nanoseconds since the beginning of a trace: "1.720442s". It drops the digits below a microsecond, so
// that --from with this moment includes the call that began then.
func Moment(ns int64) string {
	b := AppendMoment(nil, ns)
	return string(append(b[:len(b)-len("789s")], 's'))
}

// AppendMoment appends a moment with all digits: "1.720442391s". It does not allocate if dst has room.
func AppendMoment(dst []byte, ns int64) []byte {
	if ns < 0 {
		return AppendMoment(append(dst, '-'), -max(ns, -math.MaxInt64))
	}
	dst = append(strconv.AppendInt(dst, ns/1e9, 10), '.')
	at := len(dst)
	dst = append(strconv.AppendInt(dst, ns%1e9+1e9, 10), 's') // the leading digit keeps zeros
	return append(dst[:at], dst[at+1:]...)
}

// Share formats a part of a whole, which is 1: "40%", "3.2%", "0.41%".
func Share(part float64) string {
	percent, decimals := 100*part, 2
	switch v := math.Abs(percent); {
	case v >= 999.5 && v < math.MaxInt64:
		return Count(int64(math.Round(percent))) + "%"
	case v < 0.005:
		return "0%"
	case v >= 9.95:
		decimals = 0
	case v >= 0.995:
		decimals = 1
	}
	return strings.TrimSuffix(strconv.FormatFloat(percent, 'f', decimals, 64), ".0") + "%"
}

// Change formats a relative change: "+12%", "-3.1%".
func Change(by float64) string {
	text := Share(by)
	if by > 0 && text != "0%" {
		return "+" + text
	}
	return text
}

// Times formats a factor: "22", "2.4".
func Times(by float64) string {
	if by >= 9.95 {
		return Count(int64(math.Round(by)))
	}
	return strings.TrimSuffix(strconv.FormatFloat(by, 'f', 1, 64), ".0")
}

// Signal returns a signal's name, as SIGSEGV. 0 stands for a signal that is not known.
func Signal(n int) string {
	switch name := unix.SignalName(unix.Signal(n)); {
	case n == 0:
		return "an unknown signal"
	case name != "":
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
