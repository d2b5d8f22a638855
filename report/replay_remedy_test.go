package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
)

// Unproved results did not say how to prove them. Advice never names a flag that was given.
func TestUnprovedResultsNameTheirRemedy(t *testing.T) {
	for _, c := range []struct {
		code       verify.Reason
		replayable bool
		want       string
	}{
		{verify.Kernel, true, "proof: a library with these kernels (--kernels FILE.so)\n"},
		{verify.Data, false, "proof: a recording with --replayable"},
		{verify.Data, true, ""},
		{verify.NotRecorded, false, "proof: a recording with --replayable"},
		{verify.Incomplete, false, "--policy block"},
		{verify.Race, false, "--strict"},
	} {
		rep := &replay.Report{}
		rep.Replayable = c.replayable
		for i := range uint64(2) {
			rep.Unverified = append(rep.Unverified, compile.Unverified{Call: i + 1, Code: c.code, Reason: string(c.code), Results: 1})
		}
		var w bytes.Buffer
		unprovedText(&w, rep)
		if n := strings.Count(w.String(), "proof: "); n != min(len(c.want), 1) || !strings.Contains(w.String(), c.want) {
			t.Errorf("%s: %s", c.code, &w)
		}
	}
}
