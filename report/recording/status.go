package recording

import (
	"fmt"
	"io"
	"strings"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/report"
)

// Status prints what a recording in progress does.
func Status(w io.Writer, st *session.Status) {
	state := "recording"
	switch {
	case !st.Recording:
		state = "waiting"
	case st.Only != 0:
		state = fmt.Sprintf("recording process %d only", st.Only)
	}
	report.Printf(w, "%s: %s for %s by process %d", st.Session, state, human.Duration(int64(st.Seconds*1e9)), st.Recorder)
	if len(st.Command) > 0 { // a collector has none
		report.Printf(w, ": %s", strings.Join(st.Command, " "))
	}
	report.Printf(w, "\n")
	report.Printf(w, "  %s of %s", human.Plural(st.Calls, "call"), human.Plural(len(st.Processes), "process"))
	if st.Lost > 0 {
		report.Printf(w, ", %s LOST", human.Count(st.Lost))
	}
	if st.Ring > 0 {
		report.Printf(w, "; the ring holds %s", human.Bytes(st.Ring))
	}
	report.Printf(w, "\n")
	report.StandingText(w, "  ", st.Standing)
	switch {
	case len(st.Sealed) > 0:
		report.Printf(w, "  saved %s\n", strings.Join(st.Sealed, ", "))
	default:
		report.Printf(w, "  into %s\n", st.Output)
	}
}
