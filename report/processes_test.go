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
		"killed by SIGTERM":   {End: 1, Killed: true, Signal: 15},
		"exit code not known": {End: 1, ExitUnknown: true},
	} {
		in := newInfoProcess(&p, 0)
		if got := in.how(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
