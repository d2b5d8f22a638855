package main

import (
	"encoding/json"
	"errors"

	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/report/recording"
	"github.com/spf13/pflag"
)

// waiting prints the event that a recording waits for.
func (a *app) waiting(what string) { report.Printf(a.err, "acltrace: %s\n", what) }

// ending selects the summary after a recording.
type ending struct{ quiet, json bool }

func (e *ending) add(f *pflag.FlagSet) {
	f.BoolVarP(&e.quiet, "quiet", "q", false, "print no summary, unless no call was recorded")
	f.BoolVar(&e.json, "json", false, "print the summary as JSON on standard error")
}

// recorded prints how a recording ended and returns the exit code.
func (a *app) recorded(o *record.Options, res *record.Result, err error, end *ending) error {
	if err = inFlags(err); err != nil {
		return notStarted(o, err)
	}
	if end.json {
		if err := json.NewEncoder(report.NewJSON(a.err)).Encode(res.Summary()); err != nil {
			return err
		}
	} else {
		recording.Text(a.err, o, res, end.quiet)
	}
	if res.ExitCode != 0 {
		return &exit{code: res.ExitCode}
	}
	return nil
}

// notStarted gives an error exitStart if a program was to be started and did not start.
func notStarted(o *record.Options, err error) error {
	if len(o.Command) > 0 && errors.Is(err, record.ErrStart) && !errors.As(err, new(*exit)) {
		return &exit{exitStart, err}
	}
	return err
}
