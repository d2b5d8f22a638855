package record

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
)

// crashGuard keeps a program unrecorded at its next start if it has crashed soon after its first call, in code of the shim: the
// recording may be the cause. If the program then crashes too, the recording is not the cause, and the start after that is recorded
// again. The shim identifies a program by its file and script, independent of wrappers: see probe.End.Program. Only shared sessions
// have a guard, since the user of Run sees how the program ends.
type crashGuard struct {
	s      *ring.Session
	off    bool
	unseen *unseen
	log    func(string)
}

// guardedFor is how long after its first call the crash of a program counts.
const guardedFor = time.Minute

// begin logs the programs that are not recorded. If the guard is off, they are recorded again.
func (g *crashGuard) begin() error {
	if g.off {
		for program := range g.s.Excluded() {
			if err := g.s.Exclude(program, ""); err != nil {
				return err
			}
		}
	}
	for _, why := range g.s.Excluded() {
		g.log(why)
	}
	return nil
}

// reaped receives processes that have ended, and new processes that are not recorded.
func (g *crashGuard) reaped(ends, untraced []probe.End) {
	why := g.s.Excluded()
	for _, u := range untraced {
		g.unseen.add(format.Unhooked{PID: u.PID, Exe: u.Exe, Reason: why[u.Program], Cause: format.CrashGuard})
		g.log(fmt.Sprintf("process %d (%s) is not recorded: %s", u.PID, strings.Join(u.Args, " "), why[u.Program]))
	}
	for _, e := range ends {
		if g.off || e.Clean || e.Lived >= guardedFor || format.AsksToEnd(e.Signal) || e.Signal == int(syscall.SIGKILL) {
			continue
		}
		lived := human.Duration(e.Lived.Nanoseconds())
		if e.Excluded {
			if g.s.Exclude(e.Program, "") == nil {
				g.log(fmt.Sprintf("process %d (%s) crashed or was killed after %s although it was not recorded: its next start is recorded", e.PID, strings.Join(e.Args, " "), lived))
			}
			continue
		}
		if !e.InShim {
			continue
		}
		reason := fmt.Sprintf("%s crashed in code of acltrace %s after its first call at %s; to record it again, remove guard.%d from the session's folder",
			strings.Join(e.Args, " "), lived, time.Now().Format(time.DateTime), e.Program)
		if err := g.s.Exclude(e.Program, reason); err != nil {
			g.log(fmt.Sprintf("process %d (%s) crashed in code of acltrace; its next start is recorded nevertheless: %v", e.PID, e.Exe, err))
			continue
		}
		g.log(fmt.Sprintf("process %d: %s: its next start is not recorded", e.PID, reason))
	}
}
