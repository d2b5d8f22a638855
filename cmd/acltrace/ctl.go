package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/report"
)

func (a *app) ctlCmd() *cobra.Command {
	var folder string
	var pid int
	var every, asJSON bool
	c := &cobra.Command{
		Use:   "ctl status|start|stop|snapshot",
		Short: "control recordings in progress",
		Long: `Controls the recordings that this user has started. status shows all of them. The other actions need one recording: the only one in
progress, the one that --session or --pid names, or with --all each of them.

  status    show what is recorded, and into which file
  start     record again after stop or --armed; with --pid this process only
  stop      pause recording
  snapshot  save the ring of record --ring as a trace`,
		Example: "acltrace ctl status\n" +
			"acltrace ctl snapshot --pid 4242",
		Args:      arguments(1, "status, start, stop or snapshot"),
		ValidArgs: []string{"status", "start", "stop", "snapshot"},
		RunE: func(_ *cobra.Command, args []string) error {
			q := session.Request{Do: session.Action(args[0])}
			switch q.Do {
			case session.ActStatus, session.ActStart, session.ActStop, session.ActSnapshot:
			default:
				return usage("ctl %s: want status, start, stop or snapshot", args[0])
			}
			sessions := []string{folder}
			if folder == "" {
				sessions = session.List("")
			}
			var meant []*session.Status
			var at []string  // session folders, as this process reaches them
			var failed error // errors from recordings that are not shown
			for i, r := range askAll(sessions) {
				s, st, err := sessions[i], r.status, r.err
				switch {
				case errors.Is(err, session.ErrNoRecorder) && folder == "":
					continue // left by a killed recorder
				case err != nil:
					failed = errors.Join(failed, err)
					continue
				case pid != 0 && st.Recorder != pid && !slices.Contains(st.Processes, pid):
					continue
				}
				meant, at = append(meant, st), append(at, s)
			}
			switch {
			case len(meant) == 0 && failed != nil:
				return failed
			case failed != nil && (pid != 0 || q.Do == session.ActStatus):
				report.Printf(a.err, "acltrace: %s\n", failed)
				failed = nil
			case failed != nil && !every:
				return failed // the target is ambiguous
			}
			switch {
			case len(meant) == 0 && pid != 0:
				return fmt.Errorf("no recording in progress has process %d", pid)
			case len(meant) == 0:
				return errors.New("no recording is in progress")
			case q.Do == session.ActStatus:
			case len(meant) > 1 && !every:
				var which []string
				for i, st := range meant {
					which = append(which, fmt.Sprintf("--session %s (process %d)", at[i], st.Recorder))
				}
				return usage("%d recordings are in progress: use --all, or one of %s", len(meant), strings.Join(which, "; "))
			default:
				var done []*session.Status
				for i, st := range meant {
					if q.PID = 0; q.Do == session.ActStart && pid != st.Recorder {
						q.PID = pid
					}
					st, err := ask(at[i], &q)
					if err != nil {
						failed = errors.Join(failed, err)
						continue
					}
					done = append(done, st)
				}
				meant = done
			}
			if asJSON {
				return errors.Join(a.printJSON(meant), failed)
			}
			for _, st := range meant {
				a.status(st)
			}
			if q.Do == session.ActSnapshot && len(meant) == 1 && len(meant[0].Sealed) > 0 {
				report.NextText(a.out, "acltrace", "stats", meant[0].Sealed[len(meant[0].Sealed)-1])
			}
			return failed
		},
	}
	c.Flags().StringVar(&folder, "session", "", "`DIR`: the recording with this folder")
	c.Flags().IntVarP(&pid, "pid", "p", 0, "`PID`: the recording of this process")
	explain(c.Flags(), "pid", "PID is a recorded process or the recorder.")
	c.Flags().BoolVar(&every, "all", false, "all recordings in progress")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

type answer struct {
	status *session.Status
	err    error
}

// askAll queries all recordings concurrently, so that a stopped recorder does not delay the others.
func askAll(sessions []string) []answer {
	answers := make([]answer, len(sessions))
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() {
			answers[i].status, answers[i].err = session.Ask(s, &session.Request{Do: session.ActStatus})
		})
	}
	all.Wait()
	return answers
}

func (a *app) status(st *session.Status) {
	state := "recording"
	switch {
	case !st.Recording:
		state = "waiting"
	case st.Only != 0:
		state = fmt.Sprintf("recording process %d only", st.Only)
	}
	report.Printf(a.out, "%s: %s for %s by process %d", st.Session, state, human.Duration(int64(st.Seconds*1e9)), st.Recorder)
	if len(st.Command) > 0 { // a collector has none
		report.Printf(a.out, ": %s", strings.Join(st.Command, " "))
	}
	report.Printf(a.out, "\n")
	report.Printf(a.out, "  %s of %s", human.Plural(st.Calls, "call"), human.Plural(len(st.Processes), "process"))
	if st.Lost > 0 {
		report.Printf(a.out, ", %s LOST", human.Count(st.Lost))
	}
	if st.Ring > 0 {
		report.Printf(a.out, "; the ring holds %s", human.Bytes(st.Ring))
	}
	report.Printf(a.out, "\n")
	report.StandingText(a.out, "  ", st.Standing)
	switch {
	case len(st.Sealed) > 0:
		report.Printf(a.out, "  saved %s\n", strings.Join(st.Sealed, ", "))
	default:
		report.Printf(a.out, "  into %s\n", st.Output)
	}
}
