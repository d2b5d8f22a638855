package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
)

// Reports showed mangled names.
func TestKernelsAreDemangled(t *testing.T) {
	const raw, shown = "_Z3addPKfPfi", "add(float const*, float*, int)"
	s := testtrace.NewSequence(t)
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", raw), testtrace.Outs("funcHandle", testtrace.Function))
	s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceB, 64, 0))
	r := s.Load().Reader
	for _, by := range []string{"", "kernel"} {
		sums, err := stats.New(r, acl.Model, &stats.Options{By: by})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if by == "" {
			if k := sums.Kernels[0]; k.Name != raw || k.Demangled != shown {
				t.Errorf("%+v", k)
			}
			err = report.StatsText(&text, "run.aclt", sums, nil)
		} else {
			err = report.Groups(&text, by, sums, nil)
		}
		if err != nil || !strings.Contains(text.String(), shown) || strings.Contains(text.String(), raw) {
			t.Errorf("%v:\n%s", err, text.String())
		}
	}
	var lines bytes.Buffer
	if err := report.Lines(&lines, r, acl.Model, nil); err != nil || !strings.Contains(lines.String(), "["+shown+"]") {
		t.Errorf("%v:\n%s", err, lines.String())
	}
	var text bytes.Buffer
	rep := &replay.Report{Verdict: verify.NotCompared, Repeat: &replay.Repeat{Runs: 1, ReplayedNS: []int64{1}, Launches: []lab.LaunchTimes{{Call: 7, Kernel: raw}}}}
	if err := report.ReplayText(&text, "run.aclt", rep, nil); err != nil || !strings.Contains(text.String(), shown) || strings.Contains(text.String(), raw) {
		t.Errorf("%v:\n%s", err, text.String())
	}
}
