package stats_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// Kernels inside graphs were in no table.
func TestKernelsInGraphsAreCounted(t *testing.T) {
	s := sums(t, testtrace.Graphs(t, 3), "kernel")
	if len(s.Graphs) != 1 || len(s.Kernels) != 2 {
		t.Fatalf("%+v, %+v", s.Graphs, s.Kernels)
	}
	g, k := s.Graphs[0], s.Kernels[0]
	if g.Count != 40 || g.Graphs != 4 || g.Launches != 160 || g.Kernels != "3 attention, 1 mlp" || g.HostNS != 400 || g.Measured != 0 || g.AtMostNS == 0 {
		t.Errorf("%+v", g)
	}
	if k.Name != "attention" || k.Count != 4 || k.InGraphs != 120 || k.DeviceNS != 400 || k.InGraphsNS != 12_000 {
		t.Errorf("%+v", k)
	}
	if k := s.Kernels[1]; k.Name != "mlp" || k.Count != 0 || k.InGraphs != 40 || k.InGraphsNS != 0 {
		t.Errorf("%+v", k)
	}
	if by := s.Groups; len(by) != 2 || by[0].Name != "attention" || by[0].InGraphs != 120 || by[1].InGraphs != 40 {
		t.Errorf("%+v", by)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || strings.Contains(text.String(), "of kernel time is") {
		t.Fatalf("%v\n%s", err, &text)
	}
	for _, want := range []string{"4 launches of 1 kernel, 40 runs of 4 graphs with 160 launches", "  3 attention, 1 mlp\n", "120      ~ 12.0 us  attention\n", "<= "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// A kernel that graphs launch more often was invisible: "waiting".
func TestDiffSeesKernelsInGraphs(t *testing.T) {
	compare := func(a, b *timeline.Timeline) (*diff.Diff, string) {
		d, err := diff.New(a.Reader, b.Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.DiffText(&text, d, false, nil); err != nil {
			t.Fatal(err)
		}
		return d, text.String()
	}
	d, text := compare(testtrace.Graphs(t, 9), testtrace.Graphs(t, 10))
	if !d.Differs || !strings.Contains(text, "kernel attention in graphs 10 times a step (was 9)") {
		t.Errorf("%+v\n%s", d, text)
	}
	if d, text := compare(testtrace.Graphs(t, 9), testtrace.Graphs(t, 9)); d.Differs || strings.Contains(text, "graph") {
		t.Errorf("%+v\n%s", d, text)
	}
}

// diff asked for --device-time all though both runs were recorded with it.
func TestNoAdviceForAFlagThatWasGiven(t *testing.T) {
	waits := &diff.Diff{Cause: &diff.Cause{Part: stats.PartWaiting.String()}, Changes: []diff.Change{{Kind: "kernel", Name: "k", Metric: "host"}}}
	for _, timed := range []bool{false, true} {
		waits.A.Timed, waits.B.Timed = timed, timed
		var text bytes.Buffer
		if err := report.DiffText(&text, waits, false, nil); err != nil || strings.Contains(text.String(), "--device-time") == timed {
			t.Errorf("timed %v: %v\n%s", timed, err, &text)
		}
	}
}
