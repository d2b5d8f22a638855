package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// Launches between the begin and the end of an update looked like launches that run.
func TestLinesNameTheTaskThatAnUpdateReplaces(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	launch := func() { s.Then("aclrtLaunchKernel", testtrace.A(0x6600, 1, testtrace.DeviceA, 8, testtrace.StreamA)) }
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
	s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
	launch() // call 3
	s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", 0x99))
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
	s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, 0x99))
	launch() // call 7
	s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
	launch()
	r := s.Load().Reader
	for _, c := range []struct {
		json bool
		mark string
	}{{false, " replaces the task of call 3"}, {true, `"replaces":3`}} {
		var out bytes.Buffer
		if err := report.Lines(&out, r, acl.Model, &report.LineOptions{JSON: c.json}); err != nil {
			t.Fatal(err)
		}
		var marked []int
		for i, line := range strings.Split(out.String(), "\n") {
			if strings.Contains(line, c.mark) {
				marked = append(marked, i)
			}
		}
		if len(marked) != 1 || marked[0] != 7 {
			t.Errorf("%q is in lines %d of\n%s", c.mark, marked, out.String())
		}
	}
}
