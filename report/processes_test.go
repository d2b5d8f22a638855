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
		in := newInfoProcess(&p, 0)
		if got := in.how(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
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
