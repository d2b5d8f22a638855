package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
)

// Unproved results did not say how to prove them. Each reason has a remedy, and advice never names a flag that was given.
func TestUnprovedResultsNameTheirRemedy(t *testing.T) {
	text := func(code verify.Reason, given bool) string {
		rep, seed := &replay.Report{}, uint64(7)
		if rep.Replayable = given; given {
			rep.Findings, rep.Repeat = []replay.Finding{}, &replay.Repeat{}
		} else {
			rep.Seed = &seed
		}
		for i := range uint64(2) {
			rep.Unverified = append(rep.Unverified, compile.Unverified{Call: i + 1, Code: code, Reason: string(code), Results: 1})
		}
		var w bytes.Buffer
		unprovedText(&w, rep)
		return w.String()
	}
	for _, code := range verify.Reasons {
		for _, given := range []bool{false, true} {
			got := text(code, given)
			if strings.Count(got, "unproved: ") != 1 || strings.Count(got, "proof: ") != 1 || !strings.HasSuffix(got, "\n") {
				t.Errorf("%s, flags given %t: want one line for both results and one remedy:\n%s", code, given, got)
			}
			_, proof, _ := strings.Cut(got, "proof: ")
			for _, flag := range []string{"--replayable", "--strict", "--poison"} {
				if given && strings.Contains(proof, flag) {
					t.Errorf("%s: %s was given: %s", code, flag, proof)
				}
			}
		}
	}
	for code, want := range map[verify.Reason]string{verify.Kernel: "--kernels FILE.so", verify.Data: "--replayable", verify.NotRecorded: "--replayable", verify.Before: "--replayable",
		verify.Incomplete: "--policy block", verify.ByName: "version of acltrace", verify.Race: "--strict", verify.Varies: "--strict", verify.Uninitialised: "--poison", verify.Pointer: "--place same", verify.Peer: "acltrace merge"} {
		if got := text(code, false); !strings.Contains(got, "proof: ") || !strings.Contains(got, want) {
			t.Errorf("%s: want %s: %s", code, want, got)
		}
	}
	rep := &replay.Report{}
	for i, code := range []verify.Reason{verify.Data, verify.NotRecorded, verify.Before} {
		rep.Unverified = append(rep.Unverified, compile.Unverified{Call: uint64(i), Code: code, Reason: string(code), Results: 1})
	}
	var w bytes.Buffer
	if unprovedText(&w, rep); strings.Count(w.String(), "proof: ") != 1 {
		t.Errorf("the remedy of three reasons is not given once:\n%s", &w)
	}
}
