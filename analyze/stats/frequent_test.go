package stats_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// casting is a program with 12 steps, in each of which an operator runs a number of times.
type casting struct {
	runs   int
	blocks uint64
	took   int64 // by a launch on the device, 0 if it is not measured
	own    int64 // of the program itself, in a step
	waits  int64 // for the device, in a step
}

func (p casting) sums(t *testing.T) *stats.Stats {
	t.Helper()
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Stream(testtrace.StreamA)
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "Cast"), testtrace.Outs("funcHandle", testtrace.Function))
	device := int64(0) // the stream's work has ended by then
	for range 12 {
		s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, 0x7f0000001000, 64, 1, testtrace.StreamA))
		for range p.runs {
			s.PhaseOne("aclnnCast", 0x7000, nil)
			s.PhaseTwo("aclnnCast", 0x7000, func() {
				s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, p.blocks, testtrace.DeviceA, 0, testtrace.StreamA), func(f *api.Func, c *format.Call) {
					if p.took > 0 {
						from := max(device, c.End)
						device = from + p.took
						task(from, device)(f, c)
					}
				})
			})
		}
		s.Now += p.own
		s.Call(0, s.Now+20, s.Now+30+p.waits, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		s.Now += 30 + p.waits
	}
	return sums(t, s.Load(), "")
}

// An operator of small launches that runs hundreds of times a step costs time on the host. No finding said which one.
func TestFrequentOperatorOfSmallLaunches(t *testing.T) {
	base := casting{runs: 600, blocks: 1, own: 300_000}
	s := base.sums(t)
	f := find(t, s, stats.FrequentOperator)
	if f.Name != "aclnnCast" || int64(f.Count) != 600*f.Steps || f.EachNS != 80 || fmt.Sprintf("%.2f", f.Share) != "0.13" || f.Step == nil || f.CostNS != 80*600*f.Steps {
		t.Errorf("%+v", f)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "run.aclt", s, &report.TextOptions{Width: 400}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"aclnnCast: 600 times a step with small launches, 13% of the step's time on the host, 80 ns each: ", fmt.Sprintf("acltrace cat --step %d --operator aclnnCast run.aclt\n", *f.Step)} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	for name, c := range map[string]struct {
		change func(p *casting)
		found  bool
	}{
		"as it is":                         {func(*casting) {}, true},
		"short measured launches":          {func(p *casting) { p.took = 20 }, true},
		"less often":                       {func(p *casting) { p.runs, p.own = 499, 240_000 }, false},
		"a small part of the step":         {func(p *casting) { p.own = 500_000 }, false},
		"launches that may fill a device":  {func(p *casting) { p.blocks = 8 }, false},
		"launches longer than their calls": {func(p *casting) { p.took = 90 }, false},
		"a step that waits for the device": {func(p *casting) { p.own, p.waits = 0, 300_000 }, false},
	} {
		p := base
		c.change(&p)
		got := p.sums(t)
		if got.Steps.Typical < 8 {
			t.Errorf("%s: %d steps", name, got.Steps.Typical)
		}
		if found := slices.ContainsFunc(got.Findings, func(f stats.Finding) bool { return f.Kind == stats.FrequentOperator }); found != c.found {
			t.Errorf("%s: %v, want %v: %+v", name, found, c.found, got.Findings)
		}
	}
}
