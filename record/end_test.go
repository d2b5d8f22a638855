package record

import (
	"testing"

	"github.com/acltrace/acltrace/probe"
)

// A recording of programs that others started says how they ended: the first error, or why no exit code is known.
func TestEndOfProgramsOfOthers(t *testing.T) {
	well, failed := probe.End{PID: 1, Args: []string{"a"}, Clean: true}, probe.End{PID: 2, Args: []string{"b", "c"}, Clean: true, Code: 3}
	asked, crashed := probe.End{PID: 4, Args: []string{"d"}, Signal: 15}, probe.End{PID: 5, Args: []string{"e"}, Signal: 11}
	unknown := probe.End{PID: 6, Clean: true, Code: probe.NoCode}
	for name, c := range map[string]struct {
		ends  []probe.End
		alive bool
		code  int
		ended string
	}{
		"none":                {nil, false, 0, "no process was recorded"},
		"running":             {[]probe.End{well}, true, 0, "not during the recording: processes were still running"},
		"well":                {[]probe.End{well}, false, 0, ""},
		"an error":            {[]probe.End{failed}, false, 3, ""},
		"an error of several": {[]probe.End{well, failed, {PID: 7, Clean: true, Code: 9}}, false, 3, "process 2 (b c) with exit code 3"},
		"asked to end":        {[]probe.End{asked}, false, 0, "process 4 (d) was ended by signal 15"},
		"asked and an error":  {[]probe.End{asked, failed}, false, 3, "process 2 (b c) with exit code 3"},
		"crashed":             {[]probe.End{failed, crashed}, false, 0, "process 5 (e) crashed or was killed"},
		"unknown":             {[]probe.End{unknown}, false, 0, "by itself, with an unknown exit code"},
		"left out":            {[]probe.End{{PID: 8, Excluded: true}, {PID: 9, Replaced: true}, well}, false, 0, ""},
	} {
		if code, ended := seenEnd(c.ends, c.alive); code != c.code || ended != c.ended {
			t.Errorf("%s: %d, %q, want %d, %q", name, code, ended, c.code, c.ended)
		}
	}
}
