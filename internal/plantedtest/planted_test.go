package plantedtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/whatif"
)

// program is the path of the compiled loop.
type program string

func compile(t *testing.T) program {
	t.Helper()
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "bin/examples/problem_kernels.so"))
	t.Setenv("KERNELS", testenv.Built(t, "bin/examples/problem_kernels.o"))
	t.Setenv("ACLSIM_CLOCK", "virtual")
	return program(testenv.CompileC(t, "loop", []string{"programs/loop.c", "programs/problems.c"}))
}

// record runs the loop in a manner with a problem, and returns the trace.
func (p program) record(t *testing.T, manner, problem, flags string) string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), manner+".aclt")
	args := append([]string{"record", "-q", "--sim", "-o", trace}, strings.Fields(flags)...)
	out, err := exec.Command(testenv.Built(t, "bin/acltrace"), append(args, "--", string(p), manner, problem)...).CombinedOutput()
	if _, missing := os.Stat(trace); missing != nil {
		t.Fatalf("%v %s", err, out)
	}
	return trace
}

func soak() bool { return os.Getenv("ACLTRACE_SOAK") != "" }

var planted = []struct {
	problem, manners string // the short form has the first manner
	flags            string // of record
	Want
}{
	{"item", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`a value from the device 7 times a step.*\.item\(\)`, `count=4, kind=ACL_MEMCPY_DEVICE_TO_HOST`},
		Kinds: []stats.FindingKind{stats.SyncReads, stats.Copies}}},
	{"sync-each-layer", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`waits for the device [67] times a step`, `aclrtSynchronizeDevice`},
		Kinds: []stats.FindingKind{stats.Synchronizes}}},
	{"pageable", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`30 asynchronous copies of pageable memory.*aclrtMemcpyAsync`},
		Kinds: []stats.FindingKind{stats.HiddenWaits}}},
	{"loader-slow", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`step time .*(thread \d+ loop makes no calls|is the program's own time).*the first of the step`},
		Kinds: []stats.FindingKind{stats.Stalls}}},
	{"loader-stall", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`1 of (29|30) steps: thread \d+ (loop|acl_thread) makes no call.*step 20|step 20 took`},
		Kinds: []stats.FindingKind{stats.Stalls, stats.SlowSteps}}},
	{"host-bound", "queue eager graphs", "", Want{Look: []string{"stats TRACE"}, Names: []string{`step time .*(thread \d+ loop makes no calls|is the program's own time)`}}},
	{"garbage", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`in 2 of 30 steps|2 of 30 steps:|steps took over twice`},
		Kinds: []stats.FindingKind{stats.Stalls, stats.SlowSteps}}},
	{"checkpoint", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`step \d+ took .*: 16 calls of aclrtMemcpy DtoH took .*, usually none; 3 steps took over twice`},
		Kinds: []stats.FindingKind{stats.OddSteps, stats.SlowSteps}}},
	{"leak", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`device memory grows by 64 KiB a step`, `aclrtMalloc`},
		Kinds: []stats.FindingKind{stats.Grows, stats.Allocates}}},
	{"leak-stream", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`streams pile up: .* 1 a step; aclrtCreateStream`},
		Kinds: []stats.FindingKind{stats.PilesUp}}},
	{"leak-events", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`events pile up: .* 6 a step; aclrtCreateEventWithFlag`},
		Kinds: []stats.FindingKind{stats.PilesUp}}},
	{"evaluate", "graphs queue eager", "", Want{Look: []string{"stats TRACE"}, Names: []string{`^steps +30 .*, 28 alike`, `steps? unlike most|steps took over twice`},
		Kinds: []stats.FindingKind{stats.OddSteps, stats.SlowSteps}}},
	{"empty-cache", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`as empty_cache does`, `aclrtFree`},
		Kinds: []stats.FindingKind{stats.EmptiesCache, stats.Allocates, stats.Synchronizes}}},
	{"allocate", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`device memory is allocated .*a step`, `aclrtMalloc`},
		Kinds: []stats.FindingKind{stats.Allocates}}},
	{"small-launches", "queue eager", "", Want{Look: []string{"stats TRACE"}, Names: []string{`kernels are short: the host launches one every .*, 122 a step, .* --device-time all`}}},
	{"small-launches", "eager queue", "--device-time all", Want{Look: []string{"stats TRACE"}, Names: []string{`between short kernels: a kernel takes`}}},
	{"recapture", "graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`a graph is captured once a step`, `aclmdlRICaptureEnd`},
		Kinds: []stats.FindingKind{stats.Recaptures, stats.PilesUp}}},
	{"error-ignored", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`30 calls failed.*aclrtMemcpyAsync`, `107000`},
		Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"rank-late", "ranks", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`rank \d+ spends more on own time than the median rank`}, Kinds: []stats.FindingKind{stats.OddRank}}},
	{"outside-graphs", "graphs", "", Want{Look: []string{"stats TRACE"}, Names: []string{`^ +15 .* none$`, `15 of 30 steps since the first run of a graph run none, but launch the kernels of steps that do`, `^steps +30 `},
		Kinds: []stats.FindingKind{stats.EagerSteps}}},
	{"never-run", "graphs", "", Want{Look: []string{"stats TRACE"}, Names: []string{` never +\d+$`}}},
	{"out-of-memory", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "blame TRACE"}, Names: []string{`^failed +call \d+ aclrtMalloc.*207001`, `in use +60 GiB`, `15 of 4 GiB`},
		Never: []string{`aclsys`}, Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"refused", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "blame TRACE"}, Names: []string{`^guilty: call \d+ aclrtMemcpy$`, `because count is 64.*destMax is 16`},
		Never: []string{`because src is an address in no known`}, Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"freed-twice", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "blame TRACE"}, Names: []string{`^guilty: call \d+ aclrtFree$`, `which call \d+ \(aclrtFree\) had ended`},
		Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"terminated", "ranks eager", "", Want{Look: []string{"stats TRACE"}, Names: []string{`^ended +process \d+ by SIGTERM$`}}},
	{"killed", "ranks eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`process \d+( of rank \d+)? was killed by SIGKILL`, `^died +process \d+`},
		Kinds: []stats.FindingKind{stats.Killed}}},
	{"crash", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`killed by SIGSEGV`, `^died .*after call \d+ aclrtSynchronizeStream`},
		Kinds: []stats.FindingKind{stats.Killed}}},
	{"kernel-fails", "eager queue graphs", "", Want{Look: []string{"stats TRACE", "next"}, Names: []string{`507015`, `^(guilty|suspect): call \d+ aclrtLaunchKernelWithHostArgs, kernel loss`},
		Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"notify-lost", "queue eager graphs", "", Want{Look: []string{"stats TRACE", "blame TRACE"}, Names: []string{`^(guilty|suspect): call \d+ aclrtWaitAndResetNotify`, `no call has recorded`},
		Kinds: []stats.FindingKind{stats.FailedCalls}}},
	{"slow-kernels", "graphs eager queue", "--device-time all", Want{Look: []string{"diff BASE TRACE"}, Names: []string{`^step .*slower`, `slower +.*(attention|mlp|gelu|graph)`}}},
	{"new-kernel", "eager queue graphs", "", Want{Look: []string{"diff BASE TRACE"}, Names: []string{`(?s)only in B.*kernel bias_gelu, 30 times`}, Never: []string{`slower 0 ns`}}},
}

// Each planted problem is named within three commands, and nothing else is reported.
func TestPlanted(t *testing.T) {
	p := compile(t)
	for _, x := range planted {
		for i, manner := range strings.Fields(x.manners) {
			if i > 0 && !soak() {
				break
			}
			t.Run(fmt.Sprintf("%s/%s", x.problem, manner), func(t *testing.T) {
				base := ""
				if strings.Contains(x.Look[0], "BASE") {
					base = p.record(t, manner, "none", x.flags)
				}
				x.Check(t, p.record(t, manner, x.problem, x.flags), base)
			})
		}
	}
}

// clean programs have no problem. Their last word is a finding that is true of them.
var clean = []struct {
	manner, variant string
	kinds           []stats.FindingKind
}{
	{manner: "eager", variant: "none"},
	{manner: "queue", variant: "none"},
	{manner: "graphs", variant: "none"},
	{manner: "ranks", variant: "none"},
	{manner: "workers", variant: "none"},
	{manner: "eager", variant: "ask"},
	{manner: "queue", variant: "two-streams"},
	{manner: "graphs", variant: "warm-up"},
	{manner: "eager", variant: "shapes", kinds: []stats.FindingKind{stats.SlowSteps}},
	{manner: "queue", variant: "poll"},
	{manner: "eager", variant: "event-each"},
	{manner: "graphs", variant: "event-pool"},
	{manner: "queue", variant: "event-pool"},
	{manner: "eager", variant: "second-input"},
	{manner: "ranks", variant: "second-input"},
	{manner: "eager", variant: "accumulate"},
}

// A program without a problem has its steps, and no finding that is false.
func TestClean(t *testing.T) {
	p := compile(t)
	for _, x := range clean {
		t.Run(x.manner+"/"+x.variant, func(t *testing.T) {
			trace := p.record(t, x.manner, x.variant, "")
			w := Want{Look: []string{"stats TRACE", "blame TRACE", "info TRACE"}, Kinds: x.kinds,
				Names: []string{`^steps +30 found`, `waits for the device`, `no call failed and none is known to hang`, `^complete +yes`},
				Never: []string{`next:.*blame`, `kind of step$`, `^ +! `, `was killed`, `step time (is|thread).*own time.*first of the step`}}
			w.Check(t, trace, "")
		})
	}
}

// Measured runs of graphs took the model's time, and what-if said that the trace lacks durations: a graph's kernels have none of their own.
func TestWhatIfOfGraphs(t *testing.T) {
	trace := compile(t).record(t, "graphs", "none", "--device-time all")
	base, err := os.ReadFile(filepath.Join(testenv.Root(t), "sim/model/presets/ascend910b.json"))
	if err != nil {
		t.Fatal(err)
	}
	predict := func(rule string) (text string, r whatif.Report) {
		model := filepath.Join(t.TempDir(), "model.json")
		if err := os.WriteFile(model, []byte(strings.Replace(string(base), `"kernels": [`, `"kernels": [`+rule, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		command := "acltrace replay --backend virtual --base ascend910b --model " + model + " " + trace
		if err := json.Unmarshal([]byte(shell(t, command+" --json")), &r); err != nil {
			t.Fatal(err)
		}
		return shell(t, command), r
	}
	_, same := predict("")
	busiest := slices.MaxFunc(same.Streams, func(a, b whatif.Stream) int { return cmp.Compare(a.BusyNS, b.BusyNS) })
	if d := busiest.VirtualNS - busiest.RecordedNS; !same.Predicted || 20*max(d, -d) > busiest.RecordedNS || same.Known.Measured < 0.99 {
		t.Errorf("%+v", same)
	}
	_, half := predict(`{"name": "attention", "scale": 0.5}, `) // 180 launches of 60 us
	if want := half.RecordedNS - 180*30_000; !half.Predicted || half.BoundsNS[0] > want || half.BoundsNS[1] < want || 50*max(half.VirtualNS-want, want-half.VirtualNS) > want {
		t.Errorf("want %d: %+v", want, half)
	}
	// Other shares of the kernels in a run allow too much.
	text, none := predict(`{"name": "attention", "scale": 0.01}, {"name": "mlp", "scale": 0.5}, `)
	if none.Predicted || none.Advice != whatif.InGraphs || !strings.Contains(text, "one duration, and not one for each of its tasks") {
		t.Errorf("%s%+v", text, none)
	}
}
