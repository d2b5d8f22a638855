package diff_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// eachStep is a program whose steps call operators: eager, or by a graph that captured them once. extra is called once a step.
func eachStep(t *testing.T, captured bool, extra string, mods ...testtrace.Mod) *timeline.Timeline {
	t.Helper()
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Stream(testtrace.StreamA)
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "norm"), testtrace.Outs("funcHandle", testtrace.Function))
	operator := func(name string, launches int) {
		s.PhaseOne(name, 0x7000, nil)
		s.PhaseTwo(name, 0x7000, func() {
			for range launches {
				s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA), mods...)
			}
		})
	}
	all := func() {
		operator("aclnnAdd", 1)
		operator("aclnnMatmul", 2)
		operator("aclnnAdd", 1)
	}
	if captured {
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
		all()
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000))
	}
	for range 12 {
		s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, 0x7f0000001000, 64, 1, testtrace.StreamA))
		if captured {
			s.Then("aclmdlRIExecuteAsync", testtrace.A(0x9000, testtrace.StreamA))
		} else {
			all()
		}
		if extra != "" {
			operator(extra, 1)
		}
		s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	return s.Load()
}

// took measures the task of a call.
func took(ns uint64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(c.End)}, format.Out{Param: api.TaskEndParam, Value: uint64(c.End) + ns})
	}
}

func operatorRows(d *diff.Diff) (rows []string) {
	for _, o := range d.Operators {
		rows = append(rows, fmt.Sprintf("%s %s %g %g %g %g, %g %g %g %g", o.Name, o.Only, o.A.Calls, o.A.Launches, o.A.InGraphs, o.A.HostNS, o.B.Calls, o.B.Launches, o.B.InGraphs, o.B.HostNS))
	}
	return rows
}

// An eager program and its captured form launch the same operators. The captured form had kernels in graphs only, which nothing joined with the eager ones.
func TestOperatorsOfEagerAndCapturedRunsAlign(t *testing.T) {
	d := compare(t, eachStep(t, false, ""), eachStep(t, true, ""), nil)
	if d.By != "steps" {
		t.Fatalf("by %s", d.By)
	}
	want := []string{"aclnnAdd  2 2 0 160, 0 2 2 0", "aclnnMatmul  1 2 0 100, 0 2 2 0"}
	if got := operatorRows(d); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if slices.ContainsFunc(slices.Concat(d.New, d.Gone), func(o diff.Only) bool { return o.Kind == "operator" }) {
		t.Errorf("%v, %v", d.New, d.Gone)
	}
}

// An operator that only one run has is new or gone, and makes the runs differ. It has the kernels of others, so that no kernel is new.
func TestOperatorsAreNewOrGone(t *testing.T) {
	without, with := eachStep(t, false, ""), eachStep(t, false, "aclnnCast")
	d := compare(t, without, with, nil)
	if x := d.Operators[0]; x.Name != "aclnnCast" || x.Only != diff.OnlyInB || x.B.Calls != 1 || !slices.Contains(d.New, diff.Only{Kind: "operator", Name: "aclnnCast", Count: 12}) || !d.Differs {
		t.Errorf("%q, new %v", operatorRows(d), d.New)
	}
	var text bytes.Buffer
	if err := report.DiffText(&text, d, false, &report.TextOptions{Width: 200}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  aclnnCast, new\n", "(2 more operators: -v shows them)", "1 operator only in B", "only in B\n  operator aclnnCast, 12 times\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	d = compare(t, with, without, nil)
	if x := d.Operators[0]; x.Name != "aclnnCast" || x.Only != diff.OnlyInA || !slices.Contains(d.Gone, diff.Only{Kind: "operator", Name: "aclnnCast", Count: 12}) {
		t.Errorf("%q, gone %v", operatorRows(d), d.Gone)
	}
}

// A run without marks has no operators to compare: those of the other run are not new. Marks are no calls.
func TestOperatorsNeedMarksInBothRuns(t *testing.T) {
	d := compare(t, testtrace.Graphs(t, 2), testtrace.Operators(t), nil)
	if len(d.Operators) > 0 || slices.ContainsFunc(d.New, func(o diff.Only) bool { return o.Kind == "operator" }) {
		t.Errorf("%q, new %v", operatorRows(d), d.New)
	}
	tl := testtrace.Operators(t)
	if d := compare(t, tl, tl, nil); d.A.Calls != uint64(len(tl.Calls))-24 || slices.ContainsFunc(d.Changes, func(c diff.Change) bool { return strings.Contains(c.Name, "Phase") }) {
		t.Errorf("%d calls, %v", d.A.Calls, d.Changes)
	} else if got, want := operatorRows(d)[0], "Cast  1 1 0 50, 1 1 0 50"; got != want { // without steps, in the run
		t.Errorf("got %q, want %q", got, want)
	}
}

// Device time counts if all launches of the operator were measured.
func TestOperatorsHaveDeviceTimes(t *testing.T) {
	a := eachStep(t, false, "", took(6))
	b := eachStep(t, false, "", took(18))
	d, err := diff.New(a.Reader, b.Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := d.Operators[0]
	if x.Name != "aclnnAdd" || !x.A.Measured || x.A.DeviceNS != 12 || x.B.DeviceNS != 36 || !d.Moved(&x) {
		t.Errorf("%+v", x)
	}
}
