package human

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Numbers is a range of numbers of calls or steps, written N or N:M. Both ends are included. It is a flag's value.
type Numbers struct{ First, Last uint64 }

// ParseNumbers parses N or N:M.
func ParseNumbers(s string) (Numbers, error) {
	from, to, both := strings.Cut(s, ":")
	if !both {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 63)
	b, err2 := strconv.ParseUint(to, 10, 63)
	if err != nil || err2 != nil || b < a {
		return Numbers{}, fmt.Errorf("invalid range %q: want a number, or FIRST:LAST as 100:110", s)
	}
	return Numbers{a, b}, nil
}

// Holds reports whether a number is in the range.
func (n *Numbers) Holds(v uint64) bool { return n.First <= v && v <= n.Last }

func (n Numbers) String() string {
	if n.First == n.Last {
		return strconv.FormatUint(n.First, 10)
	}
	return fmt.Sprintf("%d:%d", n.First, n.Last)
}

// ParseBytes parses a size: bytes, or a number with K, M, G or T, or with KiB, MiB, GiB or TiB, which mean the same.
func ParseBytes(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTiB")
	unit, i := strings.CutSuffix(s[len(digits):], "iB")
	shift, ok := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !ok || i && unit == "" || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("invalid size %q: want for example 512M or 1GiB", s)
	}
	return int64(n) << shift, nil
}
