package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// A fault of a captured graph names the calls on both sides, and the command that lists them.
func TestFaultsOfGraphsNameBothCalls(t *testing.T) {
	s := testtrace.NewSequence(t)
	for _, x := range []uint64{testtrace.StreamA, testtrace.StreamB} {
		s.Stream(x)
	}
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
	s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
	s.Then("aclrtLaunchKernel", testtrace.A(0x6600, 1, testtrace.DeviceA, 8, testtrace.StreamA))
	s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", 0x99))
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(0x77, testtrace.StreamA)) // call 7
	for range 2 {
		s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamB, 0x99)) // calls 8 and 11
		s.Then("aclrtLaunchKernel", testtrace.A(0x6600, 1, testtrace.DeviceA, 8, testtrace.StreamB))
		s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamB))
	}
	sums, err := stats.New(s.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.StatsText(&out, "run.aclt", sums, &report.TextOptions{Width: 400}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"an update of task_group#4 may overtake an earlier run of graph#5: nothing lets call 8, aclmdlRICaptureTaskUpdateBegin on stream#2 wait for call 7, aclmdlRIExecuteAsync on stream#1; 2 cases in all",
		"acltrace cat --call 7:8 run.aclt"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

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

// A graph is listed by the calls that captured its tasks, each with the number of its updates, and by the latest of these.
func TestLinesOfAGraph(t *testing.T) {
	const first, second, group = 0x77, 0x78, 0x99
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA) // stream#1
	launch := func() { s.Then("aclrtLaunchKernel", testtrace.A(0x6600, 1, testtrace.DeviceA, 8, testtrace.StreamA)) }
	capture := func(graph, group uint64) {
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		launch()
		s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
		launch()
		s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", group))
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	}
	capture(first, group)    // calls 1 to 6: graph#4
	capture(second, group+1) // calls 7 to 12: graph#6
	launch()                 // call 13
	for _, g := range []uint64{group, group + 1, group, group + 1, group} {
		s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, g)) // calls 14, 17, …
		launch()
		s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
	}
	r := s.Load().Reader
	for _, c := range []struct {
		graph      int
		json       bool
		list, mark string
	}{
		{6, false, "8 10 24", " replaced 2 times, last by call 24"},
		{6, true, "8 10 24", `"updates":2,"replaced_by":24`},
		{4, false, "2 4 27", " replaced 3 times, last by call 27"},
	} {
		var out bytes.Buffer
		o := &report.LineOptions{JSON: c.json}
		o.Graph = c.graph
		if err := report.Lines(&out, r, acl.Model, o); err != nil {
			t.Fatal(err)
		}
		var list, marked []string
		for line := range strings.Lines(out.String()) {
			call := strings.Trim(strings.Fields(strings.ReplaceAll(line, `{"i":`, ""))[0], ",")
			call, _, _ = strings.Cut(call, ",")
			if list = append(list, call); strings.Contains(line, c.mark) {
				marked = append(marked, call)
			}
		}
		if strings.Join(list, " ") != c.list || len(marked) != 1 || marked[0] != list[1] {
			t.Errorf("%+v: %v, marked %v:\n%s", c, list, marked, &out)
		}
	}
	o := &report.LineOptions{}
	o.Graph = 7
	if err := report.Lines(io.Discard, r, acl.Model, o); err == nil || err.Error() != "no graph#7 with tasks: the trace has graph#4, graph#6" {
		t.Error(err)
	}
}

// Graphs that hold most of a device's streams are named with the streams that joined them, and how many there were before.
func TestGraphsThatHoldTheStreamsAreNamed(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	for i := range uint64(1536) {
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000+i))
	}
	sums, err := stats.New(s.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.StatsText(&out, "run.aclt", sums, &report.TextOptions{Width: 400}); err != nil {
		t.Fatal(err)
	}
	const want = "1,536 graphs hold 1,536 streams of about 1,920 that a device has for them, as of call 3071, aclmdlRICaptureBegin, before which they held 1,535; 1,536 graphs from graph#2 to graph#1537: 1,536\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, out.String())
	}
}
