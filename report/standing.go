package report

import (
	"fmt"
	"io"

	"github.com/acltrace/acltrace/internal/human"
)

// Standing is a call in progress.
type Standing struct {
	PID     int    `json:"pid"`          // process id
	TID     int    `json:"tid"`          // thread id
	Func    string `json:"func"`         // function
	On      string `json:"on,omitempty"` // stream or event in the arguments, with its handle
	StartNS int64  `json:"start_ns"`     // start on the clock of the trace's calls
	ForNS   int64  `json:"for_ns"`       // duration until now
}

func (s *Standing) String() string {
	on := ""
	if s.On != "" {
		on = " on " + s.On
	}
	return fmt.Sprintf("thread %d of process %d in %s%s for %s", s.TID, s.PID, s.Func, on, human.Duration(s.ForNS))
}

// mostStanding limits the calls in the text form.
const mostStanding = 10

// StandingText writes a line for each of the oldest calls, after an indent.
func StandingText(w io.Writer, indent string, list []Standing) {
	for i := range list {
		if i == mostStanding {
			Printf(w, "%sand %s more threads in calls\n", indent, human.Count(len(list)-i))
			return
		}
		Printf(w, "%s%s\n", indent, &list[i])
	}
}
