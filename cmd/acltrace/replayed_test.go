package main

import (
	"errors"
	"testing"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// Calls that returned other errors, and races, ended with 1 or 0, so that a script took them for a failure or for nothing.
func TestReplayedCodes(t *testing.T) {
	for name, c := range map[string]struct {
		rep  replay.Report
		code int
	}{
		"identical":                   {replay.Report{Verdict: verify.Identical}, 0},
		"different":                   {replay.Report{Verdict: verify.Different}, exitDiffers},
		"other errors, not compared":  {replay.Report{Coverage: replay.Coverage{DifferingTotal: 1}}, exitDiffers},
		"other errors, some unproved": {replay.Report{Verdict: verify.Unproved, Coverage: replay.Coverage{DifferingTotal: 1}}, exitDiffers},
		"race":                        {replay.Report{Verdict: verify.Identical, Findings: make([]replay.Finding, 1)}, exitDiffers},
		"race, some unproved":         {replay.Report{Verdict: verify.Unproved, Findings: make([]replay.Finding, 1)}, exitDiffers},
		"unproved":                    {replay.Report{Verdict: verify.Unproved}, exitLacks},
		"crash":                       {replay.Report{Verdict: verify.Different, Crash: &replay.Crash{}}, exitFailed},
	} {
		code := 0
		if e := (*exit)(nil); errors.As(replayed(&c.rep), &e) {
			code = e.code
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
	}
}
