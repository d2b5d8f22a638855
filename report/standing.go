package report

import (
	"io"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/standing"
)

// mostStanding limits the calls in the text form.
const mostStanding = 10

// StandingText writes a line for each of the oldest calls, after an indent.
func StandingText(w io.Writer, indent string, list []standing.Call) {
	for i := range list {
		if i == mostStanding {
			Printf(w, "%sand %s more threads in calls\n", indent, human.Count(len(list)-i))
			return
		}
		Printf(w, "%s%s\n", indent, &list[i])
	}
}
