package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/report/recording"
)

func (a *app) ctlCmd() *cobra.Command {
	var t control
	var asJSON bool
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
		ValidArgs: actions,
		RunE: func(_ *cobra.Command, args []string) error {
			t.q.Do = session.Action(args[0])
			if !slices.Contains(actions, args[0]) {
				return usage("ctl %s: want status, start, stop or snapshot", args[0])
			}
			found, failed := t.find()
			if failed != nil && len(found) > 0 && (t.pid != 0 || t.q.Do == session.ActStatus) {
				report.Printf(a.err, "acltrace: %s\n", failed)
				failed = nil
			}
			if failed != nil && (len(found) == 0 || !t.every) {
				return failed // without all, the target is ambiguous
			}
			if t.q.Do != session.ActStatus {
				if err := t.unambiguous(found); err != nil {
					return err
				}
				failed = errors.Join(failed, t.do(found))
				found = slices.DeleteFunc(found, func(f *controlled) bool { return f.err != nil })
			}
			if asJSON {
				return errors.Join(a.printJSON(statuses(found)), failed)
			}
			for _, f := range found {
				recording.Status(a.out, f.status)
			}
			if t.q.Do == session.ActSnapshot && len(found) == 1 && len(found[0].status.Sealed) > 0 {
				sealed := found[0].status.Sealed
				report.NextText(a.out, "acltrace", "stats", sealed[len(sealed)-1])
			}
			return failed
		},
	}
	c.Flags().StringVar(&t.folder, "session", "", "`DIR`: the recording with this folder")
	c.Flags().IntVarP(&t.pid, "pid", "p", 0, "`PID`: the recording of this process")
	explain(c.Flags(), "pid", "PID is a recorded process or the recorder.")
	c.Flags().BoolVar(&t.every, "all", false, "all recordings in progress")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

var actions = []string{"status", "start", "stop", "snapshot"}

// control says what ctl does, and with which recordings.
type control struct {
	folder string // of the session
	pid    int    // of a recorded process or a recorder
	every  bool
	q      session.Request
}

// controlled is a recording in progress.
type controlled struct {
	folder string // of its session, as this process reaches it
	status *session.Status
	err    error
}

// find returns the recordings that are meant, and the errors of others. The error is not nil if there are none.
func (t *control) find() (found []*controlled, failed error) {
	folders := []string{t.folder}
	if t.folder == "" {
		folders = session.List("")
	}
	for _, c := range askAll(folders) {
		switch {
		case errors.Is(c.err, session.ErrNoRecorder) && t.folder == "": // left by a killed recorder
		case c.err != nil:
			failed = errors.Join(failed, c.err)
		case t.pid == 0 || c.status.Recorder == t.pid || slices.Contains(c.status.Processes, t.pid):
			found = append(found, c)
		}
	}
	switch {
	case len(found) > 0 || failed != nil:
	case t.pid != 0:
		failed = fmt.Errorf("no recording in progress has process %d", t.pid)
	default:
		failed = errors.New("no recording is in progress")
	}
	return found, failed
}

func (t *control) unambiguous(found []*controlled) error {
	if len(found) < 2 || t.every {
		return nil
	}
	var which []string
	for _, c := range found {
		which = append(which, fmt.Sprintf("--session %s (process %d)", c.folder, c.status.Recorder))
	}
	return usage("%d recordings are in progress: use --all, or one of %s", len(found), strings.Join(which, "; "))
}

// do makes the recordings act.
func (t *control) do(found []*controlled) (failed error) {
	for _, c := range found {
		if t.q.PID = 0; t.q.Do == session.ActStart && t.pid != c.status.Recorder {
			t.q.PID = t.pid
		}
		c.status, c.err = ask(c.folder, &t.q)
		failed = errors.Join(failed, c.err)
	}
	return failed
}

// askAll queries all recordings concurrently, so that a stopped recorder does not delay the others.
func askAll(folders []string) []*controlled {
	found := make([]*controlled, len(folders))
	var all sync.WaitGroup
	for i, f := range folders {
		all.Go(func() {
			found[i] = &controlled{folder: f}
			found[i].status, found[i].err = session.Ask(f, &session.Request{Do: session.ActStatus})
		})
	}
	all.Wait()
	return found
}

func statuses(found []*controlled) []*session.Status {
	all := make([]*session.Status, len(found))
	for i, c := range found {
		all[i] = c.status
	}
	return all
}
