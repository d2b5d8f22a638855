package human

import (
	"fmt"
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
