package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
)

// A program that crashes within a minute of its first call, in a shared session, runs its next start without being recorded: it may
// have been the recording. If it crashes then too, it was not, and the start after that is recorded again. The shim knows the program
// by its own file and script, whatever wrapper has started it; see End.Program. Programs that acltrace starts itself have no guard:
// whoever starts them sees how they end.

// guarded is how long after its first call the crash of a program is laid to the recording.
const guarded = time.Minute

// guard notes which programs are not to be recorded at their next start.
func (r *recorder) guard(s *ring.Session, ends, untraced []probe.End, off bool, log func(string)) {
	why := s.Untraced()
	for _, u := range untraced {
		line := fmt.Sprintf("process %d (%s) runs without being recorded: %s", u.PID, strings.Join(u.Args, " "), why[u.Program])
		r.unseen = append(r.unseen, format.Unhooked{PID: u.PID, Exe: u.Exe, Reason: why[u.Program]})
		log(line)
	}
	for _, e := range ends {
		if off || e.Clean || e.Lived >= guarded {
			continue
		}
		lived := e.Lived.Round(time.Second / 10)
		if e.Untraced {
			if s.Untrace(e.Program, "") == nil {
				log(fmt.Sprintf("process %d (%s) ended without an exit after %v without being recorded as well: its next start is recorded again", e.PID, strings.Join(e.Args, " "), lived))
			}
			continue
		}
		reason := fmt.Sprintf("%s ended without an exit, by a crash or killed by somebody, %v after its first call while it was recorded at %s; acltrace collect --no-guard records it all the same, and removing guard.%d from the session's folder ends this",
			strings.Join(e.Args, " "), lived, time.Now().Format(time.DateTime), e.Program)
		if err := s.Untrace(e.Program, reason); err != nil {
			log(fmt.Sprintf("process %d (%s) ended without an exit; its next start is recorded all the same: %v", e.PID, e.Exe, err))
			continue
		}
		log(fmt.Sprintf("process %d: %s: its next start is not recorded", e.PID, reason))
	}
}
