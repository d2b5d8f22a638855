package report

import (
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// Completeness describes missing calls in one line, "" if the trace has all calls. Calls outside the requested window
// are not lost.
func Completeness(c *format.Completeness) string {
	var all []string
	if c.Window != format.WindowWhole && (c.Window != format.WindowRing || len(c.Outside) > 0) { // a ring may have had room for all calls
		all = append(all, outside(c))
	}
	if c.Recording {
		all = append(all, format.BeingRecorded)
	}
	if lost := losses(c); len(lost) > 0 {
		all = append(all, "not complete: "+strings.Join(lost, ", "))
	}
	return strings.Join(all, "; ")
}

// outside counts the calls outside the window. They were not to be recorded.
func outside(c *format.Completeness) string {
	calls := callsIn(c.Outside)
	text := "calls"
	if calls > 0 {
		text = human.Plural(calls, "call")
	}
	where, known := map[format.Window]string{
		format.WindowRing:      "from before the ring's oldest call are not in the trace",
		format.WindowSteps:     "outside the chosen steps were not recorded",
		format.WindowArmed:     "while recording was off were not recorded",
		format.WindowAttached:  "before acltrace attached were not recorded",
		format.WindowExtracted: "that the launch does not need were left out",
	}[c.Window]
	if !known {
		where = "outside the window " + string(c.Window) + " were not recorded"
	}
	return text + " " + where
}

func losses(c *format.Completeness) (all []string) {
	if c.Cut != "" && !c.Recording {
		all = append(all, c.Cut)
	}
	if n := len(c.Lost); n > 0 {
		lost := "calls lost at " + human.Plural(n, "place")
		if calls := callsIn(c.Lost); calls > 0 {
			lost = human.Plural(calls, "call") + " lost at " + human.Plural(n, "place")
		}
		all = append(all, lost)
	}
	if c.Refused > 0 {
		all = append(all, human.Plural(c.Refused, "thread")+" not recorded")
	}
	if c.Damaged > 0 {
		all = append(all, "damaged in "+human.Plural(c.Damaged, "place"))
	}
	return all
}

// callsIn counts the calls of gaps whose number is known.
func callsIn(gaps []format.Gap) (calls uint64) {
	for i := range gaps {
		calls += gaps[i].Calls
	}
	return calls
}
