package torchtest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
)

// These findings say where time goes, or what a busy machine did, and not that something is wrong.
var always = []stats.FindingKind{stats.Waits, stats.Launches, stats.OtherCalls, stats.OwnTime, stats.Blocked, stats.IdleDevice, stats.ShortTasks, stats.Recorder, stats.SlowSteps, stats.OddSteps, stats.Stalls}

// queueHandsOn fails the test if most of the critical path is the queue's thread asleep: it waits for the threads that prepare operators.
func queueHandsOn(t *testing.T, trace string) {
	t.Helper()
	var p path.Summary
	read(t, &p, "stats", "--critical-path", trace)
	if len(p.Entries) == 0 {
		t.Error("no critical path")
	}
	for i := range p.Entries {
		if e := &p.Entries[i]; e.Kind == path.Blocked && strings.HasSuffix(e.Where, "acl_thread") && i < 2 {
			t.Errorf("the critical path has %s for %d ns", e, e.NS)
		}
	}
}

// Each problem of a training is named within three commands, with its steps and its cost, and no other problem is.
func TestTrainingProblemsAreNamed(t *testing.T) {
	for _, c := range []struct {
		problem string
		queue   int
		flags   string   // of record
		look    []string // commands after stats, on the trace
		names   []string // regular expressions
		kinds   []stats.FindingKind
		steps   int
		code    int
	}{
		{problem: "none", queue: 2, look: []string{"blame"}, names: []string{`no call failed and none is known to hang`}},
		{problem: "item", queue: 1, look: []string{"cat --step 12 --func aclrtMemcpy"}, names: []string{`a value from the device 3 times a step, .*as \.item\(\) does`, `count=4, kind=ACL_MEMCPY_DEVICE_TO_HOST`},
			kinds: []stats.FindingKind{stats.SyncReads}},
		{problem: "synchronize", queue: 2, names: []string{`waits for the device 3 times a step and copies nothing then`}, kinds: []stats.FindingKind{stats.Synchronizes}},
		{problem: "pageable", queue: 1, names: []string{`a copy of pageable memory to the device once a step, .*use pinned memory`}, kinds: []stats.FindingKind{stats.PageableCopies}},
		{problem: "empty_cache", queue: 0, names: []string{`freed after a wait for the device once a step.* as empty_cache does`}, kinds: []stats.FindingKind{stats.EmptiesCache, stats.Allocates}},
		{problem: "leak", queue: 0, names: []string{`device memory grows by [56]\d(\.\d)? KiB a step: from \d+ MiB to \d+ MiB`}, kinds: []stats.FindingKind{stats.Grows}, steps: 160},
		{problem: "small", queue: 0, flags: "--device-time all", look: []string{"stats --by kernel"}, names: []string{`between short kernels|before each of [34]\d\d calls a step`, `7,200 .* aclnnAdds$`}},
		{problem: "cast", queue: 0, look: []string{"stats --by operator"}, names: []string{`aclnnInplaceCopy: 60\d times a step with small launches`, `14,5\d\d .* aclnnInplaceCopy$`}, kinds: []stats.FindingKind{stats.FrequentOperator}},
		{problem: "stall", queue: 1, names: []string{`1 of 2[34] steps: thread \d+ acl_thread makes no call for .* before a copy to the device, as when a batch is late: step 20,`}},
		{problem: "python", queue: 2, names: []string{`^bound by +the host: thread \d+ python runs Python for|hands on the launches of thread \d+ python, which runs its own code for`}},
		{problem: "checkpoint", queue: 1, names: []string{`step 20 took .* \d+ calls of aclrtMemcpy DtoH .*took .* for 1.3\d* MiB, usually`}},
		{problem: "memory", queue: 1, look: []string{"blame"}, names: []string{`^failed +call \d+ aclrtMallocAlign32: .*207001`, `15 of 4 GiB`, `in use +60 GiB`}, kinds: []stats.FindingKind{stats.FailedCalls}, steps: 21, code: 1},
	} {
		t.Run(c.problem, func(t *testing.T) {
			t.Parallel()
			r := run{program: "planted.py " + c.problem, queue: c.queue, way: shim, flags: strings.Fields(c.flags)}
			o := r.do(t)
			if o.code != c.code {
				t.Fatalf("%s\n%s%s", o.end, o.text, o.errs)
			}
			var s stats.Stats
			read(t, &s, "stats", o.trace)
			all := ""
			for _, look := range append([]string{"stats"}, c.look...) {
				b, _ := exec.Command(testenv.Built(t, "bin/acltrace"), append(strings.Fields(look), o.trace)...).CombinedOutput()
				all += "$ acltrace " + look + "\n" + string(b)
			}
			if want := max(c.steps, 24*(1-min(c.steps, 1))); s.Steps.Count != want {
				t.Errorf("%d steps, want %d", s.Steps.Count, want)
			}
			for _, x := range c.names {
				if !regexp.MustCompile(`(?m)` + x).MatchString(all) {
					t.Errorf("not named: %s", x)
				}
			}
			// Threads that make no calls, or hand launches on, do nothing of their own.
			if x := regexp.MustCompile(`(?m)^.*(pt_autograd_\d+ runs Python|hands on the launches of thread \d+ (acl_thread|pt_autograd)|-\d+ [mun]s|NaN|%!).*$`).FindString(all); x != "" {
				t.Errorf("false: %s", x)
			}
			for _, f := range s.Findings {
				if !slices.Contains(always, f.Kind) && !slices.Contains(c.kinds, f.Kind) {
					t.Errorf("false finding %s %+v", f.Kind, f)
				}
			}
			if c.queue == 1 {
				queueHandsOn(t, o.trace)
			}
			if t.Failed() {
				t.Log(all)
			}
		})
	}
}
