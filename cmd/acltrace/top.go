package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/analyze/live"
	"os"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

func (a *app) topCmd() *cobra.Command {
	var once, asJSON bool
	var interval time.Duration
	var which selectFlags
	c := &cobra.Command{
		Use:   "top FILE",
		Short: "follow a recording live",
		Long: "Shows the functions, operators, kernels, streams and copies of a recording while it is written: first the sums up to now, then the sums since the " +
			"previous refresh. It ends with the recording, or with Ctrl-C.\n\n" +
			"The flags that choose calls apply to the sums. Memory, losses and calls in progress are those of the whole recording.",
		Example: "acltrace top run.aclt\n" +
			"acltrace top --kernel 'matmul*' run.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if interval < 100*time.Millisecond {
				return usage("top: --interval %v: want at least 100ms", interval)
			}
			if err := which.check(); err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			screen := a.stdout != nil && !asJSON && !once && term.IsTerminal(int(a.stdout.Fd()))
			l := live.New(args[0], &which.Selection, open)
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for {
				t, err := l.Refresh()
				// A new recorder has not written its header yet.
				if !once && err != nil && (errors.Is(err, format.ErrTruncated) || empty(args[0])) {
					if screen {
						fmt.Fprint(a.stdout, clearScreen)
						report.Printf(a.out, "%s: waiting for the recording to begin\n", args[0])
					}
				} else if err != nil {
					return err
				} else if err := a.show(args[0], t, asJSON, screen); err != nil || once || !t.Recording {
					if !t.Recording {
						a.complete(args[0], t.Lacks)
					}
					return err
				}
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
			}
		},
	}
	c.SetFlagErrorFunc(notLive)
	which.addLive(c.Flags())
	c.Flags().BoolVar(&once, "once", false, "print once, then end")
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON each time")
	a.strictFlag(c.Flags())
	c.Flags().DurationVar(&interval, "interval", 2*time.Second, "`TIME`: time between refreshes")
	return c
}

// notLive words an error about a flag that chooses calls of a whole trace.
func notLive(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		switch flag := unknown.GetSpecifiedName(); flag {
		case "call", "step", "from", "to", "task", "first":
			return usage("%s: --%s chooses calls of a whole trace: use `acltrace stats` after the recording", c.CommandPath(), flag)
		}
	}
	return flagError(c, err)
}

// clearScreen moves the cursor home and erases the screen.
const clearScreen = "\x1b[H\x1b[J"

func empty(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Size() == 0
}

// show prints the sums over the previous screen, or after previous output.
func (a *app) show(path string, t *live.Top, asJSON, screen bool) error {
	t.Standing = inProgress(t.UUID, !t.Recording)
	if asJSON {
		return json.NewEncoder(report.NewJSON(a.raw)).Encode(t)
	}
	var b bytes.Buffer
	switch {
	case screen:
		b.WriteString(clearScreen)
	case t.Refreshes > 1:
		b.WriteString("\n")
	}
	s := report.NewScreen(&b)
	s.Color = a.out.Color
	if err := report.TopText(s, t, a.text()); err != nil {
		return err
	}
	_, err := a.raw.Write(b.Bytes())
	return err
}
