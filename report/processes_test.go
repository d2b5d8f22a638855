package report

import (
	"testing"

	"github.com/acltrace/acltrace/format"
)

func TestHowProcessesEnded(t *testing.T) {
	for want, p := range map[string]format.Process{
		"":                    {},
		"exit code 0":         {End: 1},
		"exit code 5":         {End: 1, ExitCode: 5},
		"killed by SIGSEGV":   {End: 1, Killed: true, Signal: 11},
		"ended by SIGTERM":    {End: 1, Killed: true, Signal: 15},
		"exit code not known": {End: 1, ExitUnknown: true},
	} {
		in := newInfoProcess(&p, &format.Meta{}, nil)
		if got := in.how(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

// A worker was listed with its parent's command and nothing else, and the processes of a merged trace without their ranks.
func TestProcessesHaveTheirRoles(t *testing.T) {
	known := map[int]bool{4001: true}
	for want, c := range map[string]struct {
		p      format.Process
		merged int
	}{
		"4002 from 0.000000s: train":                    {format.Process{PID: 4002, PPID: 1}, 0},
		"4002, started by 4001, from 0.000000s: train":  {format.Process{PID: 4002, PPID: 4001}, 0},
		"4002, forked from 4001, from 0.000000s: train": {format.Process{PID: 4002, PPID: 4001, ForkedFrom: 4001}, 0},
		"4002, rank 3, from 0.000000s: train":           {format.Process{PID: 4002, Rank: 3}, 2},
	} {
		c.p.Argv = []string{"train"}
		var m format.Meta
		m.Merged = make([]format.Merged, c.merged)
		in := &Info{InfoExtent: InfoExtent{ProcessList: []InfoProcess{newInfoProcess(&c.p, &m, known), {}}}}
		if got := in.processes()[0]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Ctrl-C counted as a failure: info led to blame, which found none.
func TestSignalsThatAskForTheEndAreNoFailure(t *testing.T) {
	for signal, want := range map[int]string{2: "acltrace stats run.aclt", 1: "acltrace stats run.aclt", 11: "acltrace blame run.aclt"} {
		in := &Info{path: "run.aclt", InfoProgram: InfoProgram{ExitSignal: signal, ExitCode: 128 + signal}}
		if got := in.next(); got != want {
			t.Errorf("signal %d: %s", signal, got)
		}
	}
}
