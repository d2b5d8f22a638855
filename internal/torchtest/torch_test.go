package torchtest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// python returns the interpreter with the framework.
func python(t *testing.T) string {
	t.Helper()
	p := os.Getenv("ACLTRACE_TORCH")
	if p == "" {
		t.Skip("no PyTorch: make test-torch installs it and runs these tests")
	}
	return p
}

// A way is how a program runs: alone on the simulator, or recorded.
type way string

const (
	alone way = "alone"
	shim  way = "shim"
	ebpf  way = "ebpf"
	// A program runs twice in one process. Its second run is recorded.
	attach way = "attach"
)

// run is one run of a program.
type run struct {
	program string // file, in programs/ unless it names a folder, and its arguments
	queue   int    // TASK_QUEUE_ENABLE: 0, 1 or 2
	way     way
	flags   []string // of record
	env     []string
}

// output is what a run left.
type output struct {
	text  string // standard output
	errs  string // standard error
	code  int
	end   string // "exit status 1", or "signal: killed" of acltrace itself
	trace string
}

// do runs a program. A trace goes to the test's folder.
func (r *run) do(t *testing.T) *output {
	t.Helper()
	python := python(t)
	o := &output{trace: filepath.Join(t.TempDir(), "run.aclt")}
	args := []string{"sim"}
	switch r.way {
	case shim:
		args = []string{"record", "--sim", "-q", "-o", o.trace}
	case ebpf, attach:
		if os.Geteuid() != 0 {
			t.Skip("eBPF needs root")
		}
		if r.way == attach {
			break
		}
		args = []string{"record", "--sim", "-q", "-o", o.trace, "--probe", "ebpf"}
	}
	args = append(append(args, r.flags...), "--", python)
	programs := filepath.Join(testenv.Root(t), "internal/torchtest/programs")
	if r.way == attach {
		args = append(args, filepath.Join(programs, "twice.py"))
	}
	words := strings.Fields(r.program)
	if strings.Contains(words[0], "/") {
		words[0] = filepath.Join(testenv.Root(t), words[0])
	} else {
		words[0] = filepath.Join(programs, words[0])
	}
	c := exec.Command(testenv.Built(t, "bin/acltrace"), append(args, words...)...)
	c.Env = append(os.Environ(), "TASK_QUEUE_ENABLE="+strconv.Itoa(r.queue), "ACLSIM_DEVICES=2", "PYTHONFAULTHANDLER=1")
	c.Env = append(c.Env, r.env...)
	var errs bytes.Buffer
	c.Stderr = &errs
	var err error
	if r.way == attach {
		o.text, err = o.attach(t, c)
	} else {
		var out []byte
		out, err = c.Output()
		o.text = string(out)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o.errs, o.code, o.end = errs.String(), c.ProcessState.ExitCode(), c.ProcessState.String()
	return o
}

// attach runs a command and records it from the end of its first run. It returns the output of the second one.
func (o *output) attach(t *testing.T, c *exec.Cmd) (text string, err error) {
	t.Helper()
	more, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	pid, lines := "", bufio.NewReader(from)
	for first := false; !first; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return line, c.Wait()
		}
		pid, first = strings.CutPrefix(strings.TrimSpace(line), "process ")
	}
	var errs bytes.Buffer
	recorder := exec.Command(testenv.Built(t, "bin/acltrace"), "attach", pid, "-o", o.trace)
	recorder.Stderr = &errs
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, "the recorder", func() bool { _, err := os.Stat(o.trace); return err == nil })
	more.Close()
	b, _ := io.ReadAll(lines)
	err = c.Wait()
	if err := recorder.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	return string(b), err
}

// ok fails the test unless the program ended well.
func (r *run) ok(t *testing.T) *output {
	t.Helper()
	o := r.do(t)
	if o.code != 0 {
		t.Fatalf("%s, queue mode %d, %s: %s\n%s%s", r.program, r.queue, r.way, o.end, o.text, o.errs)
	}
	return o
}

// read runs acltrace with --json and decodes its answer.
func read(t *testing.T, into any, args ...string) {
	t.Helper()
	var errs bytes.Buffer
	c := exec.Command(testenv.Built(t, "bin/acltrace"), append(args, "--json")...)
	c.Stderr = &errs
	b, err := c.Output()
	if err2 := json.Unmarshal(b, into); err2 != nil {
		t.Fatalf("acltrace %v: %v, %v\n%s%s", args, err, err2, b, errs.String())
	}
}

// info is a part of `acltrace info --json`.
type info struct {
	Complete  bool
	Libraries []struct {
		Path    string
		BuildID string `json:"build_id"`
	}
	Coverage struct {
		AskedFor []string `json:"asked_for"`
	}
	Calls struct {
		Total, Failed, Unfinished int
		By                        map[string]int `json:"by_function"`
	}
	Gaps struct {
		Lost int `json:"calls_lost"`
	}
}

func (o *output) info(t *testing.T) *info {
	t.Helper()
	var i info
	read(t, &i, "info", o.trace)
	return &i
}

// launches counts the launches of each kernel.
func (o *output) launches(t *testing.T) map[string]int {
	t.Helper()
	var kernels struct {
		Groups []struct {
			Name     string
			Launches int
		}
	}
	read(t, &kernels, "stats", "--by", "kernel", o.trace)
	all := map[string]int{}
	for _, k := range kernels.Groups {
		all[k.Name] += k.Launches
	}
	return all
}

const launch = "aclrtLaunchKernelWithHostArgs"

// A recorded program prints what it prints alone, and its trace is complete, in all modes of the framework's task queue.
func TestSameOutput(t *testing.T) {
	// Queue modes and ways are combined in pairs. Mode 2 refuses to capture graphs.
	all := "available copies views gradients absent_bias autocast convolution attention streams checkpoint memory two_devices"
	for _, r := range []run{
		{program: "smoke.py " + all + " graphs", queue: 1, way: shim},
		{program: "smoke.py " + all, queue: 2, way: ebpf},
		{program: "smoke.py " + all, queue: 0, way: shim},
		{program: "sizes.py", queue: 1, way: ebpf},
		{program: "workers.py", queue: 1, way: shim},
		{program: "caches.py", queue: 0, way: ebpf},
		{program: "caches.py", queue: 1, way: shim},
		{program: "caches.py", queue: 2, way: shim},
		{program: "smoke.py " + all, queue: 0, way: attach},
		{program: "sizes.py", queue: 1, way: attach},
		{program: "caches.py", queue: 2, way: attach},
	} {
		t.Run(fmt.Sprintf("%s/%d/%s", strings.Fields(r.program)[0], r.queue, r.way), func(t *testing.T) {
			t.Parallel()
			recorded := r.ok(t)
			bare := r
			bare.way = alone
			// Forked workers print nothing of the simulator's summary.
			if n := strings.Count(recorded.errs, "that no kernel library computes"); n != 1 && strings.HasPrefix(r.program, "workers.py") {
				t.Errorf("%d summaries:\n%s", n, recorded.errs)
			}
			if want := bare.ok(t).text; recorded.text != want || want == "" {
				t.Errorf("recorded:\n%s\nalone:\n%s", recorded.text, want)
			}
			if i := recorded.info(t); !i.Complete || i.Gaps.Lost > 0 || i.Calls.Unfinished > 0 || i.Calls.By[launch] == 0 {
				t.Errorf("%+v", i)
			}
		})
	}
}

// The operators of torch.profiler are on the time axis of the recording: each copy is inside the framework's own, and the profiler's steps are
// the steps.
func TestProfilerCopiesSurroundRecordedCopies(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	o := (&run{program: "profiled.py " + profile, queue: 1, way: shim}).ok(t)
	both := filepath.Join(t.TempDir(), "both.aclt")
	if b, err := exec.Command(testenv.Built(t, "bin/acltrace"), "merge", "-o", both, o.trace, profile).CombinedOutput(); err != nil || bytes.Contains(b, []byte("partly inside")) {
		t.Fatalf("%v %s", err, b)
	}
	r, err := format.Open(both, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	steps := tl.Steps()
	if steps.Source != step.Marked || len(steps.List) != 4 {
		t.Errorf("%d steps, %s", len(steps.List), steps.Source)
	}
	copies := 0
	for i := range tl.Calls {
		c := &tl.Calls[i]
		if c.Name != "aclrtMemcpy" || len(steps.List) == 0 || c.Start < steps.List[0].From || c.End > steps.List[len(steps.List)-1].To {
			continue
		}
		copies++
		if !slices.ContainsFunc(tl.Ranges, func(x timeline.Range) bool {
			return x.Name == "aten::copy_" && x.Thread == c.Thread && x.From <= c.Start && x.To >= c.End
		}) && !slices.ContainsFunc(tl.Ranges, func(x timeline.Range) bool {
			return x.Name == "aten::_local_scalar_dense" && x.Thread == c.Thread && x.From <= c.Start && x.To >= c.End
		}) {
			t.Errorf("call %d at %d is in no copy of the framework", c.Index, c.Start)
		}
	}
	if copies < 4*2 {
		t.Errorf("%d copies in 4 steps", copies)
	}
}

// Shim, eBPF and an interposer of this test count the same. Without the task queue no executor cache misses by chance.
func TestProbesAndInterposerCountTheSame(t *testing.T) {
	python(t)
	counter := testenv.CompileC(t, "count.so", []string{filepath.Join(testenv.Root(t), "internal/torchtest/programs/count.c")}, "-shared", "-fPIC", "-ldl")
	counts := filepath.Join(t.TempDir(), "counts")
	bare := run{program: "examples/pytorch/train.py 5", queue: 0, way: alone, env: []string{"LD_PRELOAD=" + counter, "COUNT_FILE=" + counts}}
	bare.ok(t)
	by := map[way]map[string]int{}
	for _, w := range []way{shim, ebpf} {
		i := (&run{program: "examples/pytorch/train.py 5", queue: 0, way: w}).ok(t).info(t)
		by[w] = i.Calls.By
		if !i.Complete {
			t.Errorf("%s: incomplete", w)
		}
	}
	// How often functions are polled depends on times: a busy event is asked again.
	polls := func(name string, _ int) bool {
		return strings.Contains(name, "Query") || strings.Contains(name, "GetInfo") || strings.Contains(name, "Capture")
	}
	maps.DeleteFunc(by[shim], polls)
	maps.DeleteFunc(by[ebpf], polls)
	if !maps.Equal(by[shim], by[ebpf]) {
		t.Errorf("shim: %v\neBPF: %v", by[shim], by[ebpf])
	}
	b, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if got := strconv.Itoa(by[shim][name]); got != n {
			t.Errorf("%s: recorded %s, counted %s", name, got, n)
		}
	}
}

// A training run has its steps, and its operators run on the device. The framework computes an operator that is missing on the CPU, unseen.
// A trace of a running program had one kernel and no steps, since it lacks the calls that found the operators.
func TestTrainingHasStepsAndKernels(t *testing.T) {
	for _, w := range []way{shim, attach} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			training(t, w)
		})
	}
}

func training(t *testing.T, w way) {
	o := (&run{program: "examples/pytorch/train.py 12", queue: 1, way: w}).ok(t)
	// Version queries failed, and helpers of the operators counted as unknown functions of the runtime.
	i := o.info(t)
	if i.Calls.Failed > 0 || slices.ContainsFunc(i.Coverage.AskedFor, func(name string) bool { return strings.HasPrefix(name, "acl") }) {
		t.Errorf("%+v", i)
	}
	for _, name := range []string{"libnnopbase.so", "libopapi_math.so"} {
		if !slices.ContainsFunc(i.Libraries, func(l struct {
			Path    string
			BuildID string `json:"build_id"`
		}) bool {
			return filepath.Base(l.Path) == name && l.BuildID != ""
		}) {
			t.Errorf("no %s in %v", name, i.Libraries)
		}
	}
	var s struct {
		Steps struct {
			Count int
			Why   string
		}
	}
	read(t, &s, "stats", o.trace)
	if s.Steps.Count < 11 || s.Steps.Count > 12 {
		t.Errorf("%d steps of 12: %s", s.Steps.Count, s.Steps.Why)
	}
	launches := o.launches(t)
	for _, k := range []string{"aclnnMm", "aclnnMatmul", "aclnnAddmm", "aclnnLayerNorm", "aclnnLayerNormBackward", "aclnnGelu", "aclnnSoftmax",
		"aclnnEmbedding", "aclnnInplaceCopy", "aclnnReduceSum", "aclnnAdd"} {
		if launches[k] < 12 {
			t.Errorf("%s: %d launches in 12 steps", k, launches[k])
		}
	}
	if t.Failed() {
		t.Log(slices.Sorted(maps.Keys(launches)))
	}
}

// A replay repeats a program without Python. Results of operators that compute nothing are unproved, with their reason.
func TestReplayWithoutPython(t *testing.T) {
	for _, r := range []run{
		{program: "examples/pytorch/train.py 3", queue: 1},
		{program: "sizes.py 10", queue: 1},
		{program: "caches.py", queue: 2},
	} {
		t.Run(r.program, func(t *testing.T) {
			t.Parallel()
			r.way, r.flags = shim, []string{"--replayable"}
			o := r.ok(t)
			for _, place := range []string{"same", "move"} {
				var v struct {
					Verdict string
					Results struct {
						Total, Proved, Different, Unproved int
					}
					Unverified []struct{ Reason string }
				}
				read(t, &v, "replay", "--verify", "--place", place, o.trace)
				if v.Results.Total == 0 || v.Results.Different > 0 || v.Results.Proved+v.Results.Unproved != v.Results.Total {
					t.Errorf("%s: %+v", place, v)
				}
				for _, u := range v.Unverified {
					if cmp.Or(u.Reason, "unknown") == "unknown" {
						t.Errorf("%s: no reason: %+v", place, u)
					}
				}
			}
		})
	}
}

// Two processes exchange numbers by collectives. A replay of both repeats them.
func TestReplayRepeatsCollectives(t *testing.T) {
	o := (&run{program: "ranks.py", queue: 1, way: shim, flags: []string{"--replayable"}}).ok(t)
	want := "sum of torch.float32 [3.0, 39.0]\nsum of torch.float16 [3.0, 39.0]\nsum of torch.bfloat16 [3.0, 39.0]\n" +
		"sum of torch.int32 [3, 39]\nsum of torch.int64 [3, 39]\nmaximum [2.0, 20.0]\nall_gather [0, 1, 2] [100, 101, 102]\nbroadcast [14.0]\n" +
		"reduce_scatter and send [3]\nall_to_all [5, 6]\n"
	if o.text != want {
		t.Errorf("rank 1 printed\n%swant\n%s", o.text, want)
	}
	i := o.info(t)
	if !i.Complete || i.Gaps.Lost > 0 || i.Calls.Failed > 0 || i.Calls.By["HcclAllReduce"] < 2*(6+4*2) || i.Calls.By["HcclCommInitRootInfoConfig"] != 4 {
		t.Errorf("%+v", i)
	}
	// All that the collectives do is in the trace of both ranks.
	var v struct {
		Verdict string
		Results struct{ Total, Proved int }
	}
	read(t, &v, "replay", "--verify", o.trace)
	if v.Verdict != "identical" || v.Results.Total < 20 || v.Results.Proved != v.Results.Total {
		t.Errorf("%+v", v)
	}
}

// Two processes train a model that is replicated or sharded. They have the same parameters, whose shards are padded. Comparing the parameters of
// the ranks failed, since an operator that pads them wrote nothing.
func TestShardedRanksHaveEqualParameters(t *testing.T) {
	o := (&run{program: "sharded.py", queue: 1, way: shim}).ok(t)
	want := "replicated equal\nunused (True, False)\nflat ([596], 'equal')\nsharded ([(20, 23), (20,), (20,), (20,), (1, 41), (1,)], 'equal')\n"
	if o.text != want {
		t.Errorf("rank 1 printed\n%swant\n%s", o.text, want)
	}
	i := o.info(t)
	if !i.Complete || i.Gaps.Lost > 0 || i.Calls.Failed > 0 {
		t.Errorf("%+v", i)
	}
	// Each rank reduces the gradients of a step at least once, and gathers shards before each use.
	const steps = 6
	for name, least := range map[string]int{"HcclAllReduce": 2 * 2 * steps, "HcclReduceScatter": 2 * 2 * steps, "HcclAllGather": 2 * 2 * steps} {
		if i.Calls.By[name] < least {
			t.Errorf("%d calls of %s: want at least %d", i.Calls.By[name], name, least)
		}
	}
}

// The end of the program is its own, recorded or not.
func TestExitCodesStayTheProgramsOwn(t *testing.T) {
	for how, code := range map[string]int{"return": 0, "exception": 1, "interrupt": 130, "terminate": 143, "abort": 134} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := &run{program: "ends.py " + how, queue: 1, way: shim}
			o := r.do(t)
			if o.code != code || !strings.Contains(o.text, "launched") {
				t.Fatalf("exit code %d, want %d\n%s%s", o.code, code, o.text, o.errs)
			}
			if i := o.info(t); i.Calls.By[launch] == 0 || i.Gaps.Lost > 0 || how == "terminate" && !i.Complete {
				t.Errorf("%+v", i)
			}
			// What the simulator did not compute is reported at an end by exit, once.
			if n, exits := strings.Count(o.errs, "aclsim:"), code < 128 || how == "interrupt"; n > 1 || (n == 1) != exits {
				t.Errorf("%d lines of the simulator:\n%s", n, o.errs)
			}
		})
	}
}

// Operators that the simulator computes have the numbers of the CPU, alone and in training. A missing one would be reported as not computed, or fall
// back to the CPU, so their launches are counted.
func TestOperatorsComputeAsTheCPU(t *testing.T) {
	t.Parallel()
	o := (&run{program: "same.py", queue: 1, way: shim}).ok(t)
	if o.text != "compared 86\ntrained 60\n" || strings.Contains(o.errs, "that no kernel library computes") {
		t.Errorf("%s%s", o.text, o.errs)
	}
	if n := o.info(t).Calls.By[launch]; n < 14_000 {
		t.Errorf("%d launches", n)
	}
}

// Operators have the CPU's numbers on samples of PyTorch's own database: shapes, strides, types and gradients. A missing operator would fall back to the
// CPU, so their launches are counted.
func TestSamplesComputeAsTheCPU(t *testing.T) {
	t.Parallel()
	each := 4
	if os.Getenv("ACLTRACE_SOAK") != "" {
		each = 0
	}
	o := (&run{program: fmt.Sprintf("samples.py %d", each), queue: 1, way: shim}).ok(t)
	compared, operators := 0, 0
	for line := range strings.Lines(o.text) {
		switch words := strings.Fields(line); words[0] {
		case "operator":
			operators++
		case "compared":
			compared, _ = strconv.Atoi(words[1])
		default:
			t.Error(line)
		}
	}
	if operators < 85 || compared < 1600 || strings.Contains(o.errs, "that no kernel library computes") {
		t.Errorf("%d comparisons of %d operators\n%s", compared, operators, o.errs)
	}
	launches, names := 0, 0
	for k, n := range o.launches(t) {
		if strings.HasPrefix(k, "aclnn") {
			launches += n
			names++
		}
	}
	if launches < compared || names < 120 {
		t.Errorf("%d launches of %d operators", launches, names)
	}
}

// Networks learn one batch as on the CPU: each step leaves the CPU's gradients, parameters, buffers and states of the optimizer. A missing operator would
// fall back to the CPU, so launches of each operator that matters are counted. A replay, which has no framework, proves all of it.
func TestNetworksLearnAsOnTheCPU(t *testing.T) {
	for name, want := range map[string]struct {
		text     string
		launches map[string]int
	}{
		"convolutions": {"convolutions 20 801\n", map[string]int{"aclnnConvolution": 63, "aclnnConvolutionBackward": 60, "aclnnBatchNorm": 42, "aclnnBatchNormBackward": 40,
			"aclnnMaxPool2dWithMask": 21, "aclnnMaxPool2dWithMaskBackward": 20, "aclnnAvgPool2d": 21, "aclnnAvgPool2dBackward": 20, "aclnnAdaptiveAvgPool2d": 21,
			"aclnnAdaptiveAvgPool2dBackward": 20}},
		"lstm":      {"lstm 20 621\n", map[string]int{"aclnnLSTM": 21, "aclnnLstmBackward": 20}},
		"gru":       {"gru 20 1821\n", map[string]int{"aclnnGRU": 21, "aclnnGRUBackward": 20}},
		"attention": {"attention 20 261\n", map[string]int{"aclnnFlashAttentionScore": 42, "aclnnFlashAttentionScoreGrad": 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := (&run{program: "networks.py " + name, queue: 1, way: shim, flags: []string{"--replayable"}}).ok(t)
			if o.text != want.text || strings.Contains(o.errs, "that no kernel library computes") {
				t.Errorf("%s%s", o.text, o.errs)
			}
			launches := o.launches(t)
			for k, n := range want.launches {
				if launches[k] != n {
					t.Errorf("%d launches of %s, want %d", launches[k], k, n)
				}
			}
			for _, place := range []string{"same", "move"} {
				var v struct{ Verdict string }
				if read(t, &v, "replay", "--verify", "--place", place, o.trace); v.Verdict != "identical" {
					t.Errorf("%s: %s", place, v.Verdict)
				}
			}
		})
	}
}
