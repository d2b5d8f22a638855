package servingtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
)

// clean returns the configurations without a fault. The first ones are the short matrix.
func clean() []config {
	all := []config{
		{flags: "--side --expandable", probe: "shim", clock: "virtual"},
		{flags: "--decode piecewise --helpers --queue 2 --sizes 4", probe: "shim", clock: "real"},
		{flags: "--helpers --outputs --events", probe: "ebpf", clock: "real"},
		{flags: "--decode eager --queue 0 --peer", probe: "shim", clock: "real"},
	}
	if !soak() {
		return all
	}
	for _, decode := range []string{"--decode eager", "--decode full", "--decode piecewise"} {
		for i, flags := range []string{"--queue 0", "--queue 1 --helpers --side", "--queue 2 --events --outputs", "--sizes 7 --steps 120 --requests 20 --seed 7"} {
			for _, clock := range []string{"virtual", "real"} {
				all = append(all, config{flags: decode + " " + flags, probe: "shim", clock: clock})
			}
			if i%2 == 0 {
				all = append(all, config{flags: decode + " " + flags, probe: "ebpf", clock: "real"})
			}
		}
	}
	return all
}

// Each of these findings says where time went. Others would say that something is wrong.
var allowed = []stats.FindingKind{stats.SlowSteps, stats.OddSteps, stats.Waits, stats.Launches, stats.Copies, stats.OtherCalls, stats.OwnTime, stats.IdleDevice,
	stats.ShortTasks, stats.Recorder}

func TestClean(t *testing.T) {
	for _, c := range clean() {
		t.Run(c.name(), func(t *testing.T) {
			if c.probe == "ebpf" {
				uprobes(t)
			}
			trace, told := c.record(t)
			s := query[stats.Stats](t, "stats", trace)
			checkSums(t, s, told)
			checkSteps(t, trace, s, told)
			for _, f := range s.Findings {
				if !slices.Contains(allowed, f.Kind) {
					t.Errorf("finding %+v", f)
				}
			}
			if b := acltrace(t, "blame", trace); b.code != 1 || !strings.Contains(b.errs, "no call failed and none is unfinished") {
				t.Errorf("blame ends with %d\n%s%s", b.code, b.text, b.errs)
			}
			checkLive(t, trace, told)
			if soak() {
				checkExports(t, trace)
				if c.clock == "virtual" && strings.Contains(c.flags, "--queue 0") { // one thread: each run takes the same time
					again, _ := c.record(t)
					if out := acltrace(t, "diff", trace, again); out.code != 0 {
						t.Errorf("diff ends with %d\n%s%s", out.code, out.text, out.errs)
					}
				}
			}
		})
	}
}

// Each kernel was launched and run by graphs as often as the program did.
func checkSums(t *testing.T, s *stats.Stats, told *truth) {
	t.Helper()
	eager, inGraphs := maps.Clone(told.Outside), map[string]uint64{}
	for _, x := range told.Steps {
		for k, n := range x.Eager {
			eager[k] += n
		}
		for k, n := range x.InGraphs {
			inGraphs[k] += n
		}
	}
	gotEager, gotInGraphs := map[string]uint64{}, map[string]uint64{}
	for _, k := range s.Kernels {
		gotEager[k.Name] = k.Count
		if k.InGraphs > 0 {
			gotInGraphs[k.Name] = k.InGraphs
		}
	}
	if !maps.Equal(gotEager, eager) || !maps.Equal(gotInGraphs, inGraphs) {
		t.Errorf("kernels %v, in graphs %v\ntruth   %v, in graphs %v", gotEager, gotInGraphs, eager, inGraphs)
	}
	by := []int{told.Threads["main"], told.Threads["acl_thread"]}
	for _, x := range s.Steps.Threads[:min(1, len(s.Steps.Threads))] {
		if !slices.ContainsFunc(by, func(tid int) bool { return tid != 0 && strings.Contains(x.Thread, " "+itoa(tid)+" ") }) {
			t.Errorf("the steps are made by %s, not by %v", x.Thread, told.Threads)
		}
	}
}

// Each step of the engine is a step, also the first one, which reads a prompt.
func checkSteps(t *testing.T, trace string, s *stats.Stats, told *truth) {
	t.Helper()
	n := len(told.Steps)
	if s.Steps.Count != n {
		t.Errorf("%d steps, %s %s; truth %d", s.Steps.Count, s.Steps.Source, s.Steps.Why, n)
		return
	}
	groups := query[struct{ Groups []stats.Group }](t, "stats", "--by", "step", "--top", "0", trace).Groups
	groups = slices.DeleteFunc(groups, func(g stats.Group) bool { return !strings.HasPrefix(g.Name, "step ") })
	slices.SortFunc(groups, func(a, b stats.Group) int { return int(a.StartNS - b.StartNS) })
	sum := func(m map[string]uint64) (n uint64) {
		for _, x := range m {
			n += x
		}
		return n
	}
	for i, g := range groups {
		want := told.Steps[n-len(groups)+i]
		if g.Launches != sum(want.Eager) || g.InGraphs != sum(want.InGraphs) {
			t.Errorf("%s launches %d and %d in graphs; the %s step %d and %d", g.Name, g.Launches, g.InGraphs, want.Kind, sum(want.Eager), sum(want.InGraphs))
		}
	}
}

// aclrtGetMemInfo marks the moment at which the program looked at its memory.
func checkLive(t *testing.T, trace string, told *truth) {
	t.Helper()
	marks := strings.Fields(acltrace(t, "cat", "--func", "aclrtGetMemInfo", trace).text)
	if len(marks) == 0 {
		t.Fatal("no aclrtGetMemInfo")
	}
	m := query[struct {
		Allocations []struct {
			Addr string
			Size uint64
		}
	}](t, "where", "--map", "--call", strings.ReplaceAll(marks[0], ",", ""), trace)
	live := map[string]uint64{}
	for _, a := range m.Allocations {
		live[a.Addr] = a.Size
	}
	for _, x := range told.Live {
		if at := fmt.Sprintf("%#x", x.Address); live[at] != x.Bytes {
			t.Errorf("%s: %d bytes at %s, want %d", x.Owner, live[at], at, x.Bytes)
		}
	}
}

// Each viewer takes the trace.
func checkExports(t *testing.T, trace string) {
	t.Helper()
	for _, format := range []string{"perfetto", "chrome", "parquet", "pprof", "otlp"} {
		args := []string{"export", format, trace, "-o", filepath.Join(t.TempDir(), format)}
		if out := acltrace(t, args...); out.code != 0 {
			t.Errorf("%v ends with %d\n%s", args, out.code, out.errs)
		}
	}
	if out := acltrace(t, "top", "--once", trace); out.code != 0 {
		t.Errorf("top ends with %d\n%s", out.code, out.errs)
	}
	// Operators compute nothing, so results are unproved. None may differ, and strict mode finds nothing.
	if out := acltrace(t, "replay", "--verify", "--strict=fail", trace); out.code != 0 && out.code != 4 {
		t.Errorf("replay ends with %d\n%s%s", out.code, out.text, out.errs)
	}
}
