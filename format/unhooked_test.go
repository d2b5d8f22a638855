package format_test

import (
	"testing"

	"github.com/acltrace/acltrace/format"
)

// A process that had ended before its program was read was named with an empty path: "process 42, : …".
func TestSubjectOfAProcessWithoutAKnownProgram(t *testing.T) {
	for want, u := range map[string]format.Unhooked{
		"process 42":         {PID: 42},
		"process 42, /bin/x": {PID: 42, Exe: "/bin/x"},
		"/lib/y.so":          {Exe: "/lib/y.so"},
	} {
		if got := u.Subject(); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}
