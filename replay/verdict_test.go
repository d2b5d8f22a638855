package replay

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay/verify"
)

// noKernels names no kernel library, in any environment.
var noKernels = []string{}

// verdictProgram returns the command of testdata/verdict.c without the last argument. It sets up the simulator with its kernels.
func verdictProgram(t *testing.T) []string {
	t.Helper()
	program := testenv.CompileC(t, "verdict", []string{"testdata/verdict.c"})
	binary := kernels(t)
	simulate(t)
	return []string{program, binary}
}

// A replay without the kernel library called results "identical" that no kernel had computed, because the bytes were equal.
func TestReplayMarksResultsOfUnknownKernelsUnproved(t *testing.T) {
	command := verdictProgram(t)
	path := recorded(t, append(command, "inplace")...)
	identical(t, run(t, path, &Options{Verify: true}), 1)
	r := run(t, path, &Options{Verify: true, KernelLibraries: noKernels})
	unproved(t, r, 0, map[verify.Reason]int{verify.Kernel: 1})
	if u := r.Unverified[0]; !strings.Contains(u.Reason, "kernel add,") || r.TrustsKernels {
		t.Errorf("%+v, kernels are trusted: %v", u, r.TrustsKernels)
	}

	// The kernel gets no address of the memory, but can reach it. The memory that it gets is not copied to the host.
	for _, how := range []string{"table", "mapped", "managed", "hidden"} {
		path := recorded(t, append(command, "reach", how)...)
		first := uint64(1) // a copy before the kernel
		if r := run(t, path, &Options{Verify: true}); !r.Identical {
			t.Errorf("%s with the kernels: %s, %+v", how, &r.Results, r.Unverified)
		}
		r := run(t, path, &Options{Verify: true, KernelLibraries: noKernels})
		if codes := r.codes(); r.Verdict != verify.Unproved || r.Results.Proved != first || codes[verify.Kernel] == 0 || len(codes) != 1 {
			t.Errorf("%s: %s, %+v", how, &r.Results, r.Unverified)
		}
	}
	r = run(t, recorded(t, append(command, "reach", "apart")...), &Options{Verify: true, KernelLibraries: noKernels})
	if identical(t, r, 2); !strings.Contains(r.Log, `kernel "add" is in no kernel library`) {
		t.Errorf("the log has no warning: %q", r.Log)
	}

	// Kernels in one process change another one's results, and so do kernels through another mapping.
	for _, name := range []string{"handoff", "peers", "vmm"} {
		program := testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
		path := recorded(t, program, command[1])
		r := run(t, path, &Options{Verify: true, KernelLibraries: noKernels})
		if r.Identical || r.Results.Proved > 0 && name != "peers" {
			t.Errorf("%s: %s", name, &r.Results)
		}
	}
}

// A kernel that crashed in its own code ended the recorded program. Memory may have any content since then: equal bytes prove nothing.
func TestReplayMarksResultsAfterACrashUnproved(t *testing.T) {
	command := append(verdictProgram(t), "crash")
	path := filepath.Join(t.TempDir(), "t.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := record.Run(context.Background(), &record.Options{Model: acl.Model, Output: path, Command: command, Sim: true, Capture: record.Capture{Replayable: true}, Stdin: null, Stdout: null})
	if err != nil || res.ExitCode != 0 || !slices.Equal(res.Kernels.Crashed, []string{"trap"}) || len(res.Kernels.Unexecuted) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	unproved(t, run(t, path, &Options{Verify: true}), 1, map[verify.Reason]int{verify.Crash: 1})
}

// A library that can't report its missing kernels is trusted, and the report says so.
func TestReplaySaysThatItTrustsTheLibrary(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.toDevice(dev, pattern(64, 1))
	tw.toHost(dev, pattern(64, 1))
	path := tw.close()
	r := run(t, path, &Options{Backend: l, Verify: true})
	identical(t, r, 1)
	if !r.TrustsKernels {
		t.Error("the report does not say that kernels are trusted")
	}
	if r := run(t, path, &Options{Backend: l}); r.Verdict != verify.NotCompared || r.TrustsKernels {
		t.Errorf("without comparison: %+v", r)
	}
}

// Results from unwritten memory were "identical" as long as the simulator's memory happened to be zero in both runs.
func TestReplayMarksResultsOfUnwrittenMemoryUnproved(t *testing.T) {
	command := verdictProgram(t)
	for how, want := range map[string]int{"unwritten": 1, "half": 1, "sum": 1, "physical": 1, "remapped": 0} {
		path := recorded(t, append(command, how)...)
		t.Run(how, func(t *testing.T) {
			r := run(t, path, &Options{Verify: true})
			if want == 0 {
				identical(t, r, 1)
				return
			}
			unproved(t, r, 0, map[verify.Reason]int{verify.Uninitialised: want})
		})
	}
}

// Results from unwritten memory could not be recognized: such memory was zero in every run.
func TestPoisonTellsWhatDependsOnUnwrittenMemory(t *testing.T) {
	command := verdictProgram(t)
	uninitialised := map[verify.Reason]int{verify.Uninitialised: 1}
	for how, depends := range map[string]bool{"inplace": false, "ignored": false, "sum": true, "half": true, "unwritten": true, "physical": true, "remapped": false} {
		path := recorded(t, append(command, how)...)
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			r := run(t, path, &Options{Verify: true, Poison: true, Place: place})
			if depends {
				unproved(t, r, 0, uninitialised)
			} else {
				identical(t, r, 1)
			}
			if r.Repeat == nil || r.Repeat.Runs != 3 {
				t.Errorf("%s: %+v", how, r.Repeat)
			}
		}
		if how == "ignored" { // the kernel has read it all
			unproved(t, run(t, path, &Options{Verify: true}), 0, uninitialised)
		}
	}
	// A result that varies by itself is not called uninitialised.
	unproved(t, run(t, recorded(t, append(command, "varies")...), &Options{Verify: true, Poison: true}), 0, map[verify.Reason]int{verify.Varies: 1})
}

// A replay in strict mode reported a race and still called its results "identical".
func TestStrictMarksResultsOfRacesUnproved(t *testing.T) {
	command := verdictProgram(t)
	path := recorded(t, testenv.CompileC(t, "race", []string{"testdata/race.c"}), command[1])
	r := run(t, path, &Options{Verify: true, Strict: true})
	unproved(t, r, 1, map[verify.Reason]int{verify.Race: 2})
	// Bytes that differ from run to run are no evidence of unwritten memory then.
	unproved(t, run(t, path, &Options{Verify: true, Strict: true, Poison: true}), 1, map[verify.Reason]int{verify.Race: 2})
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == "race-between-streams" }) {
		t.Errorf("found %+v", r.Findings)
	}
}

// A trace without results was reported as "nothing differs" with exit code 0, as after a comparison.
func TestReplayOfTraceWithoutResultsIsUnproved(t *testing.T) {
	r := run(t, recorded(t, append(verdictProgram(t), "none")...), &Options{Verify: true})
	unproved(t, r, 0, map[verify.Reason]int{})
	if s := r.Results.String(); s != "nothing differs; the trace has no results, so nothing is proved" {
		t.Error(s)
	}
}

// Repeated runs were compared with each other only with --verify, and a result that varied could count as different or as equal.
func TestRepeatMarksResultsThatVaryUnproved(t *testing.T) {
	path := recorded(t, append(verdictProgram(t), "varies")...)
	r := run(t, path, &Options{Verify: true, Repeat: 3})
	unproved(t, r, 0, map[verify.Reason]int{verify.Varies: 1})
	r = run(t, path, &Options{Repeat: 3})
	if r.Verdict != verify.NotCompared || len(r.Repeat.NotDeterministic) != 1 || r.DifferingTotal != 0 || len(r.Unverified) != 0 {
		t.Errorf("without comparison: %s, %+v, %+v", r.Verdict, r.Repeat, r.Differences)
	}
	if r = run(t, path, &Options{Verify: true}); r.Verdict != verify.Different {
		t.Errorf("played once: %s", r.Verdict)
	}
}

// A bundle had a verdict of its own: "identical" with exit code 0 although the replay of the same trace was not proved.
func TestBundleHasTheVerdictOfReplay(t *testing.T) {
	command := verdictProgram(t)
	for _, c := range []struct {
		how  string
		keep bool // the bundle contains the kernel library
		code int
		text string
	}{
		{"inplace", true, 0, "\nidentical: 1 result, 1 KiB compared\n"},
		{"inplace", false, 4, "\nnothing differs; 1 of 1 result is unproved: computed by kernels that no library here implements\n"},
		{"half", true, 4, "\nnothing differs; 1 of 1 result is unproved: it depends on memory that nothing has written\n"},
		{"unwritten", true, 4, "\nnothing differs; 1 of 1 result is unproved: it depends on memory that nothing has written\n"},
		{"none", true, 4, "\nnothing differs; the trace has no results, so nothing is proved\n"},
		{"varies", true, 3, "\ndifferent: 1 of 1 result differs\n"},
	} {
		path := recorded(t, append(command, c.how)...)
		o := Options{}
		if !c.keep {
			o.KernelLibraries = []string{}
		}
		dir := filepath.Join(t.TempDir(), "bundle")
		if _, err := Bundle(path, acl.Model, dir, &o); err != nil {
			t.Fatal(err)
		}
		out, code := runBundle(t, dir, filepath.Join(lib, "libascendcl.so"))
		if code != c.code || !strings.Contains(out, c.text) {
			t.Errorf("%s, kernels kept %v: exit code %d\n%s", c.how, c.keep, code, out)
		}
	}
}

// gapTrace is a trace with two buffers. Calls are missing after the first copies to the host, by gap. Then the kernel overwrites
// the second buffer, and both are copied to the host again.
func gapTrace(t *testing.T, gap format.Gap) string {
	tw := newTrace(t)
	tw.begin()
	a := pattern(64, 3)
	for i := range uint64(2) {
		tw.malloc(dev+512*i, 64)
		tw.toDevice(dev+512*i, a)
		tw.toHost(dev+512*i, a)
	}
	gap.From = tw.now
	tw.now += 1000
	gap.To = tw.now
	if err := tw.w.Gap(gap); err != nil {
		t.Fatal(err)
	}
	tw.now += 10
	tw.toDevice(dev+512, a)
	tw.toHost(dev+512, a)
	tw.toHost(dev, a)
	return tw.close()
}

// Results that depend on lost calls were "identical" if their bytes happened to be equal.
func TestReplayMarksResultsAfterGapsUnproved(t *testing.T) {
	l := library(t)
	simulate(t)
	for _, c := range []struct {
		gap  format.Gap
		code verify.Reason
		lost int // a loss is unproved by itself, a window is not
	}{
		{format.Gap{Thread: format.NoThread, Calls: 3, Reason: format.Dropped}, verify.Incomplete, 1},
		{format.Gap{Thread: format.NoThread, Calls: 3, Reason: format.Detached}, verify.Before, 0},
	} {
		path := gapTrace(t, c.gap)
		// The simulator knows the memory overwritten since then.
		unproved(t, run(t, path, &Options{Verify: true}), 3, map[verify.Reason]int{c.code: 1 + c.lost})
		// With another library nothing after the gap is known.
		unproved(t, run(t, path, &Options{Backend: l, Verify: true}), 2, map[verify.Reason]int{c.code: 2 + c.lost})
		if r := run(t, path, &Options{}); r.Verdict != verify.NotCompared || len(r.Lost) != c.lost {
			t.Errorf("%s: %s, lost %+v", c.code, r.Verdict, r.Lost)
		}
	}
}

// Results that depend on missing data, replaced by zeros, counted as compared.
func TestReplayMarksResultsOfMissingDataUnproved(t *testing.T) {
	command := verdictProgram(t)
	path := recorded(t, testenv.CompileC(t, "race", []string{"testdata/race.c"}), command[1])
	calls := load(t, path)
	toDevice := 0
	for _, c := range calls {
		f := acl.Model.Func(api.ID(c.Func))
		if f.Name != "aclrtMemcpy" || c.Args[4] != uint64(acl.ACL_MEMCPY_HOST_TO_DEVICE) {
			continue
		}
		if toDevice++; toDevice == 2 { // y
			c.Data = []format.Data{{Param: 2, Len: c.Args[3], Status: format.Missing, Reason: format.LevelExcluded}}
		}
	}
	r := run(t, rewrite(t, path, calls), &Options{Verify: true})
	unproved(t, r, 2, map[verify.Reason]int{verify.Data: 1})
	if len(r.Substituted) != 1 || toDevice != 2 {
		t.Errorf("%d copies to the device, substituted %+v", toDevice, r.Substituted)
	}
}

// A cut trace was "identical", and after its recovery nothing showed the cut.
func TestReplayOfCutTraceIsUnproved(t *testing.T) {
	simulate(t)
	whole := recorded(t, testenv.Example(t, "tiny_decoder"), "--tokens", "2")
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cut, recovered := filepath.Join(dir, "cut.aclt"), filepath.Join(dir, "recovered.aclt")
	// Without its last chunks: the index and the end.
	if err := os.WriteFile(cut, b[:len(b)-64], 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(cut, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := format.Copy(r, recovered, nil); err != nil {
		t.Fatal(err)
	}
	r.Close()
	for _, path := range []string{cut, recovered} {
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Completeness(); c.Whole() || c.Cut == "" || c.Window != format.WindowWhole {
			t.Errorf("%s: %+v", path, c)
		}
		r.Close()
		rep := run(t, path, &Options{Verify: true})
		if rep.Results.Proved == 0 || rep.Results.Unproved != 1 || rep.Unverified[0].Code != verify.Incomplete || !strings.Contains(rep.Unverified[0].Reason, "cut") {
			t.Errorf("%s: %s, %+v", path, &rep.Results, rep.Unverified)
		}
	}
}

// The player has numbers for some reasons: they must be those of package verify.
func TestPlayerKnowsReasons(t *testing.T) {
	b, err := os.ReadFile("player/plan.h")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`\bREASON_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(string(b), -1)
	for _, m := range reasons {
		if r := verify.Reason(strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))); m[2] != strconv.Itoa(int(r.Code())) {
			t.Errorf("plan.h has %s, package verify %d", m[0], r.Code())
		}
	}
	if len(reasons) != 7 || len(verify.Reasons) >= 32 {
		t.Errorf("plan.h has %d reasons and room for 31, package verify %d", len(reasons), len(verify.Reasons))
	}
}
