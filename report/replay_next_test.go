package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// The next command after a strict replay without findings did not look for unwritten memory, which the strict simulator does not check.
func TestStrictWithoutFindingsLeadsToPoison(t *testing.T) {
	rep := &replay.Report{Findings: []replay.Finding{}}
	rep.Calls, rep.Verdict = 3, verify.NotCompared
	var w bytes.Buffer
	ReplayNext(&w, "t.aclt", rep)
	if !strings.Contains(w.String(), "acltrace replay --verify --poison t.aclt\n") {
		t.Error(w.String())
	}
}
