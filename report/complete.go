package report

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// Completeness describes missing calls in one line, "" if the trace has all calls. Calls outside the requested window
// are not lost.
func Completeness(c *format.Completeness) string {
	var all []string
	if c.Window != format.WindowWhole {
		window := "window " + string(c.Window)
		if len(c.Outside) > 0 {
			window += ", " + places("left out", c.Outside)
		}
		all = append(all, window)
	}
	if lost := losses(c); len(lost) > 0 {
		all = append(all, "not complete: "+strings.Join(lost, ", "))
	}
	return strings.Join(all, "; ")
}

func losses(c *format.Completeness) (all []string) {
	if c.Cut != "" {
		all = append(all, c.Cut)
	}
	if len(c.Lost) > 0 {
		all = append(all, places("lost", c.Lost))
	}
	if c.Refused > 0 {
		all = append(all, human.Plural(c.Refused, "thread")+" not recorded")
	}
	if c.Damaged > 0 {
		all = append(all, "damaged in "+human.Plural(c.Damaged, "place"))
	}
	return all
}

// places counts gaps, and their calls if known.
func places(what string, gaps []format.Gap) string {
	calls := uint64(0)
	for i := range gaps {
		calls += gaps[i].Calls
	}
	known := "how many is not known"
	if calls > 0 {
		known = human.Plural(calls, "call") + " known"
	}
	return fmt.Sprintf("calls %s at %s (%s)", what, human.Plural(len(gaps), "place"), known)
}
