package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// exports returns an export of trace in each format. out returns an output's path.
func exports(out func(name string) string, trace string) (commands [][]string) {
	for _, f := range exportFormats {
		commands = append(commands, []string{"export", f.name, "-o", out(f.name + "-export"), trace})
	}
	return commands
}

// hostileCommands are all commands that read a trace. FILE is the trace, DIR an empty folder.
var hostileCommands = append(joined(exports(func(name string) string { return "DIR/" + name }, "FILE")),
	"info FILE", "info --json FILE", "stats FILE", "stats --by kernel FILE", "stats --by step FILE", "stats --by stream --csv FILE", "stats --critical-path --json FILE", "stats --json FILE", "top --once FILE",
	"cat FILE", "cat --json FILE", "cat --raw FILE", "fsck FILE", "blame FILE", "blame --json FILE", "where --map FILE", "where --addr 0x124000000000 FILE", "diff FILE FILE",
	"export perfetto --gpu --zstd -o DIR/p FILE", "export chrome --mindstudio -o DIR/c FILE", "export otlp --layout nested -o DIR/o FILE", "recover -o DIR/r.aclt FILE", "pack -o DIR/k.aclt FILE",
	"merge -o DIR/m.aclt FILE", "extract --call 76 -o DIR/e.aclt FILE", "bundle -o DIR/b FILE", "replay --plan-only FILE", "replay --backend virtual FILE",
	"replay --backend virtual -o DIR/v.aclt FILE", replayOnSim,
)

func joined(commands [][]string) (lines []string) {
	for _, c := range commands {
		lines = append(lines, strings.Join(c, " "))
	}
	return lines
}

// replayOnSim starts a player, which takes ten times as long as other commands.
const replayOnSim = "replay --verify --timeout 2s --max-memory 512M --kernels= FILE"

// hostileEnv makes the test binary run commands, and names the file of a hostilePlan.
const hostileEnv = "ACLTRACE_TEST_HOSTILE"

// hostileTime is the time after which a command counts as hanging.
const hostileTime = 2 * time.Minute

// hostilePlan selects the commands and traces for a run.
type hostilePlan struct {
	Seed    uint64
	Many    int // objects in well-formed traces that claim many
	Pairs   int // pairs of well-formed trace and command; 0 for all
	Mutants int
	Each    int   // commands per mutant; 0 for all
	Memory  int64 // memory limit for one process after all commands
	Real    []string
	Root    string // of the repository
	Dir     string
}

// Regression: small hostile traces took gigabytes, and damaged ones made commands panic. 26 of 1,919 commands over
// files below 150 KB took more than 1 GiB, and mutants of real traces caused seven panics.
func TestHostileTraces(t *testing.T) {
	if os.Getenv(hostileEnv) != "" {
		runHostile(t)
		return
	}
	real := realTraces(t, hostileDir(t))
	hostileProcess(t, hostilePlan{Many: 5000, Pairs: 900, Memory: 1 << 30, Real: real})
	hostileProcess(t, hostilePlan{Many: 10, Pairs: 1, Mutants: 370, Each: 3, Memory: 1 << 30, Real: real})
}

// TestSoakHostileTraces runs every command on every well-formed trace, and one command on each of 10^5 mutants.
func TestSoakHostileTraces(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	real := realTraces(t, hostileDir(t))
	t.Run("well-formed", func(t *testing.T) {
		hostileProcess(t, hostilePlan{Many: 1_000_000, Memory: 4 << 30, Real: real}) // a plan with 10^6 objects takes 2 GiB
	})
	t.Run("mutants", func(t *testing.T) {
		for range 40 { // each in its own process, for its own peak: the library for flags keeps the flags of all commands, 80 KB each
			hostileProcess(t, hostilePlan{Many: 10, Pairs: 1, Mutants: 2_500, Each: 1, Memory: 1 << 30, Real: real})
		}
	})
}

// hostileDir returns a folder that is removed if the test passes.
func hostileDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "acltrace-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	return dir
}

// hostileProcess runs a plan in its own process, so that the peak memory belongs to the commands. If the test fails, the plan and its traces stay:
// recorded traces differ from one run to the next, so the seed alone does not determine their variants.
func hostileProcess(t *testing.T, p hostilePlan) {
	p.Root, p.Dir, p.Seed = testenv.Root(t), hostileDir(t), rand.Uint64()
	plan, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.Dir, "plan.json")
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestHostileTraces$", "-test.v", "-test.timeout", "3h")
	cmd.Env, cmd.Dir = append(os.Environ(), hostileEnv+"="+file), p.Dir
	out, err := cmd.CombinedOutput()
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("seed %d: %s, %d MiB at most", p.Seed, lastRuns(string(out)), peak>>20)
	if peak > p.Memory {
		err = errors.Join(err, fmt.Errorf("the commands took %d MiB, at most %d are allowed", peak>>20, p.Memory>>20))
	}
	if err != nil {
		t.Errorf("%v: `%s=%s go test -v -run '^TestHostileTraces$' ./cmd/acltrace` runs the same again\n%s", err, hostileEnv, file, out)
	}
}

// lastRuns returns the command count that the process printed last.
func lastRuns(out string) string { return regexp.MustCompile(`\d+ runs`).FindString(out) }

// realTraces records the examples with both runtimes into a folder.
func realTraces(t *testing.T, dir string) []string {
	acltrace, root := testenv.Built(t, "bin/acltrace"), testenv.Root(t)
	paths := []string{filepath.Join(root, "testdata/traces/v1.0.aclt"), filepath.Join(root, "testdata/traces/v1.1.aclt")}
	record := func(api, program string, args ...string) {
		path := filepath.Join(dir, fmt.Sprintf("%d.aclt", len(paths)))
		cmd := exec.Command(acltrace, append([]string{"record", "--api", api, "-o", path, "--", testenv.Example(t, program)}, args...)...)
		cmd.Env = os.Environ()
		if api == "cuda" {
			cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(root, "lib/fakecuda"))
		}
		if out, err := cmd.CombinedOutput(); err != nil && api != "cuda" { // some cases need a real GPU
			t.Fatalf("record %s: %v\n%s", program, err, out)
		}
		paths = append(paths, path)
	}
	for _, p := range []string{"hello", "vector_add --n 256", "matmul_pipeline --tiles 4 --size 8", "tiny_decoder --quiet --tokens 1", "histogram --n 256"} {
		f := strings.Fields(p)
		record("acl", f[0], f[1:]...)
	}
	for _, c := range []string{"load-data", "load-library", "packed", "copies", "rows", "planes", "fills", "pools", "mapped", "order", "callbacks", "graphs", "nodes", "graph-memory", "conditional-node"} {
		record("cuda", "cuda/driver", c)
	}
	return paths
}

// hostileRunner runs commands and collects faults.
type hostileRunner struct {
	t      *testing.T
	root   string // of the repository
	kept   string // for traces of faults
	dir    string // for the commands' output
	runs   int
	seen   map[string]bool // faults by place
	large  bool            // a command exceeded the memory limit
	memory int64
}

func runHostile(t *testing.T) {
	var p hostilePlan
	plan, err := os.ReadFile(os.Getenv(hostileEnv))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(plan, &p); err != nil {
		t.Fatal(err)
	}
	os.Unsetenv(hostileEnv)
	h := &hostileRunner{t: t, root: p.Root, kept: p.Dir, dir: filepath.Join(p.Dir, "out"), seen: map[string]bool{}, memory: p.Memory}
	h.wellFormed(&p)
	h.mutants(&p)
	t.Logf("%d runs", h.runs)
}

// wellFormed runs commands on hostileTraces.
func (h *hostileRunner) wellFormed(p *hostilePlan) {
	type pair struct{ trace, command int }
	traces := hostileTraces(p.Many)
	var pairs []pair
	for i := range traces {
		for k := range hostileCommands {
			pairs = append(pairs, pair{i, k})
		}
	}
	if p.Pairs > 0 {
		rnd := rand.New(rand.NewPCG(p.Seed, 1))
		rnd.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		pairs = pairs[:min(p.Pairs, len(pairs))]
		slices.SortFunc(pairs, func(a, b pair) int { return a.trace - b.trace })
	}
	path, of := "", -1
	var calls uint64
	for _, q := range pairs {
		if q.trace != of {
			os.Remove(path)
			var err error
			if path, calls, err = traces[q.trace].Write(p.Dir); err != nil {
				h.t.Fatal(err)
			}
			of = q.trace
		}
		code, out := h.run(traces[q.trace].Name, hostileCommands[q.command], path)
		h.count(hostileCommands[q.command], path, code, out, calls)
	}
	os.Remove(path)
}

// mutants runs commands on variants of real traces.
func (h *hostileRunner) mutants(p *hostilePlan) {
	m, err := newMutator(p.Seed, p.Real)
	if err != nil {
		h.t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(p.Seed, 3))
	path := filepath.Join(p.Dir, "mutant.aclt")
	// Calls that were read twice made these commands panic.
	for i := range m.bases {
		if err := m.Repeated(&m.bases[i], path); err != nil {
			h.t.Fatal(err)
		}
		h.run("repeated calls of "+m.bases[i].name, "replay --plan-only FILE", path)
	}
	for made := 0; made < p.Mutants; {
		what, ok, err := m.Next(path)
		if err != nil {
			h.t.Fatal(err)
		}
		if !ok {
			continue
		}
		made++
		commands := slices.Clone(hostileCommands)
		if p.Each > 0 {
			rnd.Shuffle(len(commands), func(i, j int) { commands[i], commands[j] = commands[j], commands[i] })
			commands = commands[:p.Each]
		}
		for _, c := range commands {
			code, out := h.run(what, c, path)
			if c == "info --json FILE" && code == 0 {
				// Commands that read summaries and commands that read calls agree, or report damage.
				h.counts(what, path, out)
			}
		}
	}
}

// run runs a command in this process and returns its exit code and output.
func (h *hostileRunner) run(what, command, path string) (int, string) {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	defer os.RemoveAll(h.dir)
	h.runs++
	before := peakMemory(h.t)
	args := strings.Fields(strings.NewReplacer("FILE", path, "DIR", h.dir).Replace(command))
	line := fmt.Sprintf("%s: acltrace %s", what, strings.Join(args, " "))
	// The test's last message if a signal ends it.
	late := time.AfterFunc(hostileTime, func() {
		stacks := make([]byte, 1<<20)
		fmt.Printf("%s: did not end in %v\n%s\n", line, hostileTime, stacks[:goruntime.Stack(stacks, true)])
		os.Exit(1)
	})
	defer late.Stop()
	code := -1
	var out limited
	func() {
		defer func() {
			if p := recover(); p != nil {
				h.fault(panicked(h.root, debug.Stack()), path, "%s: panic: %v", line, p)
			}
		}()
		var said bytes.Buffer
		code = run(args, strings.NewReader(""), &out, &said)
	}()
	switch peak := peakMemory(h.t); {
	case peak > h.memory && !h.large:
		h.large = true
		h.t.Errorf("%s: %d MiB, before %d MiB", line, peak>>20, before>>20)
	case peak > before+128<<20:
		h.t.Logf("%s: %d MiB, before %d MiB", line, peak>>20, before>>20)
	}
	return code, out.String()
}

// fault records a fault once per place in the code, and keeps the trace.
func (h *hostileRunner) fault(at, path, format string, args ...any) {
	if h.seen[at] {
		return
	}
	h.seen[at] = true
	kept := filepath.Join(h.kept, fmt.Sprintf("fault-%d.aclt", len(h.seen)))
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(kept, b, 0o600)
	}
	if err != nil {
		h.t.Error(err)
	}
	h.t.Errorf("%s at %s; the trace is %s", fmt.Sprintf(format, args...), at, kept)
}

// count compares the call count that a command prints with the true one.
func (h *hostileRunner) count(command, path string, code int, out string, want uint64) {
	if command != "info --json FILE" || code != 0 {
		return
	}
	if calls, marks := infoCalls(h.t, out); calls+marks != want {
		h.fault("info of "+path, path, "info says %d calls and %d marks, there are %d", calls, marks, want)
	}
}

func (h *hostileRunner) counts(what, path, info string) {
	code, out := h.run(what, "stats --json FILE", path)
	if code != 0 {
		return
	}
	var s struct {
		Calls uint64 `json:"calls"`
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		h.t.Fatalf("%s: stats --json: %v", what, err)
	}
	if n, _ := infoCalls(h.t, info); n != s.Calls {
		if code, _ := h.run(what, "fsck FILE", path); code == 0 {
			h.fault("counts", path, "%s: info says %d calls, stats %d, and fsck nothing", what, n, s.Calls)
		}
	}
}

func infoCalls(t *testing.T, out string) (calls, marks uint64) {
	var in struct {
		Calls struct {
			Total uint64 `json:"total"`
			Marks uint64 `json:"marks"`
		} `json:"calls"`
	}
	if err := json.Unmarshal([]byte(out), &in); err != nil {
		t.Fatalf("info --json: %v", err)
	}
	return in.Calls.Total, in.Calls.Marks
}

// limited keeps an output's first 32 MiB. A hostile trace made info print 12 MiB.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), max(0, 32<<20-l.Len()))])
	return len(b), nil
}

// panicked returns a panic's innermost places in this project.
func panicked(root string, stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "panic(")
	var at []string
	for _, l := range strings.Split(after, "\n") {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, root+"/") && strings.Contains(l, ".go:") && len(at) < 4 {
			place, _, _ := strings.Cut(l, " +")
			at = append(at, place)
		}
	}
	return strings.Join(at, ", ")
}

// peakMemory returns the most memory that this process took, or one of the players that it waited for.
func peakMemory(t *testing.T) (peak int64) {
	for _, of := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(of, &u); err != nil {
			t.Fatal(err)
		}
		peak = max(peak, u.Maxrss<<10)
	}
	return peak
}

// Regression: a seed was printed that made other variants the next time, because the traces were recorded again. A plan names its traces.
func TestHostileVariantsRepeat(t *testing.T) {
	root := testenv.Root(t)
	paths := []string{filepath.Join(root, "testdata/traces/v1.0.aclt"), filepath.Join(root, "testdata/traces/v1.1.aclt")}
	variants := func(seed uint64) (all []string) {
		m, err := newMutator(seed, paths)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "variant.aclt")
		for len(all) < 50 {
			what, ok, err := m.Next(path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); ok && err != nil {
				t.Fatal(err)
			} else if ok {
				all = append(all, what+string(b))
			}
		}
		return all
	}
	first := variants(1)
	if !slices.Equal(variants(1), first) {
		t.Error("the same seed makes other variants")
	}
	if slices.Equal(variants(2), first) {
		t.Error("each seed makes the same variants")
	}
}
