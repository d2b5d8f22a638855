package servingtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// clean returns the configurations without a fault. The first ones are the short matrix.
func clean() []config {
	all := []config{
		{flags: "--side", probe: "shim", clock: "virtual"},
		{flags: "--decode piecewise --helpers --queue 2 --sizes 4", probe: "shim", clock: "real"},
		{flags: "--helpers --events", probe: "ebpf", clock: "real"},
		{flags: "--decode eager --queue 0 --peer", probe: "shim", clock: "real"},
		{flags: "--ranks 2", probe: "shim", clock: "real"},
	}
	if !soak() {
		return all
	}
	add := func(probe, clock, flags string) { all = append(all, config{flags: flags, probe: probe, clock: clock}) }
	for _, decode := range []string{"--decode eager", "--decode full", "--decode piecewise"} {
		for i, flags := range []string{" --queue 0", " --helpers --side", " --queue 2 --events --helpers", " --sizes 7 --steps 120 --requests 20 --seed 7"} {
			add("shim", "virtual", decode+flags)
			add("shim", "real", decode+flags)
			if i%2 == 0 {
				add("ebpf", "real", decode+flags)
			}
		}
		for _, flags := range []string{" --ranks 2 --queue 0", " --ranks 2 --helpers --side", " --peer"} {
			add("shim", "virtual", decode+flags)
			add("ebpf", "real", decode+flags)
		}
		add("shim", "real", decode+" --ranks 2 --peer --layers 3")
	}
	add("shim", "virtual", "--decode eager --side --requests 50 --seed 16 --steps 300") // many sizes of blocks: memory grew
	add("shim", "virtual", "--seed 11 --layers 5 --sizes 6 --side --helpers --events --steps 60 --requests 30")
	add("shim", "real", "--seed 99 --decode piecewise --layers 1 --sizes 1 --queue 2 --peer --steps 25")
	return all
}

// Each of these findings says where time went. Others would say that something is wrong.
var allowed = []stats.FindingKind{stats.SlowSteps, stats.OddSteps, stats.Waits, stats.Launches, stats.Copies, stats.OtherCalls, stats.OwnTime, stats.IdleDevice,
	stats.ShortTasks, stats.Recorder, stats.Blocked}

func TestClean(t *testing.T) {
	for _, c := range clean() {
		t.Run(c.name(), func(t *testing.T) {
			if c.probe == "ebpf" {
				uprobes(t)
			}
			ranks := c.record(t)
			for _, r := range ranks {
				checkTrace(t, &c, r)
			}
			if len(ranks) > 1 {
				checkMerged(t, &c, merge(t, ranks), ranks)
			}
			if soak() && c.clock == "virtual" && strings.Contains(c.flags, "--queue 0") && len(ranks) == 1 { // one thread: each run takes the same time
				again := c.record(t)
				if out := acltrace(t, "diff", ranks[0].trace, again[0].trace); out.code != 0 {
					t.Errorf("diff ends with %d\n%s%s", out.code, out.text, out.errs)
				}
			}
		})
	}
}

func checkTrace(t *testing.T, c *config, r recording) {
	t.Helper()
	s := query[stats.Stats](t, "stats", r.trace)
	checkSums(t, s, r.truth)
	checkOperators(t, r)
	steps := checkSteps(t, r.trace, s, r.truth)
	checkFindings(t, s, c.byLoad()...)
	if b := acltrace(t, "blame", r.trace); b.code != 1 || !strings.Contains(b.errs, "no call failed and none is known to hang") {
		t.Errorf("blame ends with %d\n%s%s", b.code, b.text, b.errs)
	}
	checkLive(t, r.trace, r.truth)
	checkTop(t, r.trace, r.truth)
	if soak() || strings.Contains(c.flags, "--side") || strings.Contains(c.flags, "--ranks") {
		checkExports(t, r.trace, s, r.truth, steps)
	}
	if soak() && c.ranks() == 1 && !(c.clock == "virtual" && strings.Contains(c.flags, "--peer")) { // processes don't share a virtual clock
		checkReplay(t, r.trace)
	}
}

// Operators compute nothing, so results are unproved. None may differ, and strict mode finds nothing.
func checkReplay(t *testing.T, trace string) {
	t.Helper()
	if out := acltrace(t, "replay", "--verify", "--strict=fail", trace); out.code != 0 && out.code != 4 {
		t.Errorf("replay ends with %d\n%s%s", out.code, out.text, out.errs)
	}
}

// Each run of a graph waits for the updates of its attention. Its launches one by one must get the same updates.
func TestGraphsEqualTheirLaunches(t *testing.T) {
	c := config{flags: "--decode full --side --steps 10 --layers 2", probe: "shim", clock: "real"}
	out := acltrace(t, "replay", "--json", "--graphs", "eager", c.record(t)[0].trace)
	var r replay.Report
	if err := json.Unmarshal([]byte(out.text), &r); err != nil {
		t.Fatalf("%v\n%s%s", err, out.text, out.errs)
	}
	if r.Verdict != verify.Unproved || r.Eager == nil || r.Eager.Runs == 0 || r.Eager.Tasks < 20*r.Eager.Runs || r.Eager.First != nil || len(r.Eager.Freed) > 0 || r.Results.Unproved != 10 {
		t.Errorf("%s, %+v, %+v", r.Verdict, r.Eager, r.Results)
	}
}

// byLoad returns the findings that the machine's load can make: on the real clock threads wait for the processor, and others for them.
func (c *config) byLoad() []stats.FindingKind {
	if c.clock == "real" {
		return []stats.FindingKind{stats.Stalls}
	}
	return nil
}

func checkFindings(t *testing.T, s *stats.Stats, more ...stats.FindingKind) {
	t.Helper()
	for _, f := range s.Findings {
		if !slices.Contains(allowed, f.Kind) && !slices.Contains(more, f.Kind) {
			t.Errorf("finding %+v", f)
		}
	}
}

// The merged trace has the sums of all ranks, and blames none.
func checkMerged(t *testing.T, c *config, job string, ranks []recording) {
	t.Helper()
	s := query[stats.Stats](t, "stats", job)
	launches, inGraphs := counts{}, counts{}
	for _, r := range ranks {
		launches.add(r.truth.launches)
		inGraphs.add(r.truth.inGraphs)
	}
	checkKernels(t, s, launches, inGraphs)
	if b := acltrace(t, "blame", job); b.code != 1 {
		t.Errorf("blame ends with %d\n%s%s", b.code, b.text, b.errs)
	}
	// The machine's load makes a rank late, and each rank has a virtual clock of its own.
	checkFindings(t, s, append(c.byLoad(), stats.LateRank, stats.OddRank)...)
	if soak() && c.clock == "real" {
		checkReplay(t, job)
	}
}

// Each launch belongs to the operator that made it, also in graphs. Kernels have the names of operators here.
func checkOperators(t *testing.T, r recording) {
	t.Helper()
	launches, inGraphs := grouped(t, r.trace, "operator", func(g *stats.Group) string { return g.Name })
	if !maps.Equal(launches, r.truth.launches) || !maps.Equal(inGraphs, r.truth.inGraphs) {
		t.Errorf("operators %v, in graphs %v\ntruth     %v, in graphs %v", launches, inGraphs, r.truth.launches, r.truth.inGraphs)
	}
}

func grouped(t *testing.T, trace, by string, name func(g *stats.Group) string) (launches, inGraphs counts) {
	t.Helper()
	launches, inGraphs = counts{}, counts{}
	groups := query[struct{ Groups []stats.Group }](t, "stats", "--by", by, "--top", "0", trace).Groups
	for i := range groups {
		if g := &groups[i]; g.Launches > 0 {
			launches[name(g)] += g.Launches
		}
		if g := &groups[i]; g.InGraphs > 0 {
			inGraphs[name(g)] += g.InGraphs
		}
	}
	return launches, inGraphs
}

// Each launch has the tensors that the program made for its operator: by descriptions of the launches, or by the calls that made the tensors.
func TestLaunchesHaveTheirShapes(t *testing.T) {
	for _, level := range []string{"shapes", "all"} {
		for _, flags := range []string{"--queue 0 --side", "--queue 1 --decode eager", "--queue 1 --decode piecewise --sizes 4"} {
			c := config{flags: flags, probe: "shim", clock: "real", more: "--operators " + level} // a virtual clock has no order between the queue and the thread that fills it
			r := c.record(t)[0]
			checkOperators(t, r)
			launches, inGraphs := grouped(t, r.trace, "shape", func(g *stats.Group) string {
				return shapeKey(g.Name, g.Shapes[max(0, strings.IndexByte(g.Shapes, '(')):])
			})
			if !maps.Equal(launches, r.truth.shapes) || !maps.Equal(inGraphs, r.truth.shapesInGraphs) {
				t.Errorf("%s, %s: shapes %v, in graphs %v\ntruth  %v, in graphs %v", level, flags, launches, inGraphs, r.truth.shapes, r.truth.shapesInGraphs)
			}
		}
	}
}

func checkKernels(t *testing.T, s *stats.Stats, launches, inGraphs counts) {
	t.Helper()
	gotLaunches, gotInGraphs := counts{}, counts{}
	for _, k := range s.Kernels {
		gotLaunches[k.Name] = k.Count
		if k.InGraphs > 0 {
			gotInGraphs[k.Name] = k.InGraphs
		}
	}
	if !maps.Equal(gotLaunches, launches) || !maps.Equal(gotInGraphs, inGraphs) {
		t.Errorf("kernels %v, in graphs %v\ntruth   %v, in graphs %v", gotLaunches, gotInGraphs, launches, inGraphs)
	}
}

// Each kernel was launched and run by graphs as often as the program did, and the steps are those of its threads.
func checkSums(t *testing.T, s *stats.Stats, told *truth) {
	t.Helper()
	checkKernels(t, s, told.launches, told.inGraphs)
	by := []int{told.threads["main"], told.threads["acl_thread"]}
	for _, x := range s.Steps.Threads[:min(1, len(s.Steps.Threads))] {
		if !slices.ContainsFunc(by, func(tid int) bool { return tid != 0 && strings.Contains(x.Thread, " "+strconv.Itoa(tid)+" ") }) {
			t.Errorf("the steps are made by %s, not by %v", x.Thread, told.threads)
		}
	}
}

// Each step of the engine is a step, also the first one, which reads a prompt, and has the launches of the program's step. Returns the steps.
func checkSteps(t *testing.T, trace string, s *stats.Stats, told *truth) []step {
	t.Helper()
	steps, n := told.steps, s.Steps.Count
	if n != len(steps) {
		t.Errorf("%d steps, %s %s; truth %d", n, s.Steps.Source, s.Steps.Why, len(steps))
		return nil
	}
	groups := query[struct{ Groups []stats.Group }](t, "stats", "--by", "step", "--top", "0", trace).Groups
	groups = slices.DeleteFunc(groups, func(g stats.Group) bool { return !strings.HasPrefix(g.Name, "step ") })
	slices.SortFunc(groups, func(a, b stats.Group) int { return int(a.StartNS - b.StartNS) })
	for i, g := range groups {
		want := steps[i]
		if g.Launches != want.eager.sum() || g.InGraphs != want.inGraphs.sum() {
			t.Errorf("%s launches %d and %d in graphs; the %s step %d and %d", g.Name, g.Launches, g.InGraphs, want.kind, want.eager.sum(), want.inGraphs.sum())
		}
	}
	return steps
}

// aclrtGetMemInfo marks the moment at which the program looked at its memory.
func checkLive(t *testing.T, trace string, told *truth) {
	t.Helper()
	marks := strings.Fields(acltrace(t, "cat", "--func", "aclrtGetMemInfo", trace).text)
	if len(marks) == 0 {
		t.Fatal("no aclrtGetMemInfo")
	}
	call := strings.ReplaceAll(marks[0], ",", "")
	m := query[struct {
		Allocations []struct {
			Addr string
			Size uint64
		}
	}](t, "where", "--map", "--call", call, trace)
	live := map[string]uint64{}
	for _, a := range m.Allocations {
		live[a.Addr] = a.Size
	}
	for at, x := range told.live {
		if live[at] != x.bytes {
			t.Errorf("%s: %d bytes at %s, want %d", x.owner, live[at], at, x.bytes)
		}
	}
}

// top counts the launches of each kernel outside graphs.
func checkTop(t *testing.T, trace string, told *truth) {
	t.Helper()
	top := query[struct {
		Kernels []struct {
			Name  string
			Count uint64
		}
	}](t, "top", "--once", trace)
	got := counts{}
	for _, k := range top.Kernels {
		got[k.Name] = k.Count
	}
	if !maps.Equal(got, told.launches) {
		t.Errorf("top has %v\ntruth %v", got, told.launches)
	}
}
