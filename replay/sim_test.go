package replay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/verify"
)

// simulate points ACLTRACE_LIB to the built simulator and shim, and the current player.
func simulate(t *testing.T) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	testenv.Built(t, "lib/libaclsim.so")
	root := testenv.Root(t)
	library(t)
	for _, name := range []string{"libacltrace.so", "libaclsim.so", "libascendcl.so", "libacltrace-cuda.so", "fakecuda"} {
		if err := os.Symlink(filepath.Join(root, "lib", name), filepath.Join(lib, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	t.Setenv("ACLTRACE_LIB", lib)
}

func recorded(t *testing.T, command ...string) string {
	t.Helper()
	return recordedOf(t, acl.Model, command...)
}

func recordedOf(t *testing.T, m *api.Model, command ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := record.Run(context.Background(), &record.Options{Model: m, Output: path, Command: command, Sim: true, Capture: record.Capture{Replayable: true}, Stdin: null, Stdout: null})
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 || res.Incomplete != nil || res.Lost > 0 || res.Refused > 0 {
		t.Fatalf("%v: %+v", command, res)
	}
	return path
}

// again plans a trace for its recorded addresses and for others, and plays either plan n times. Then it plays it on no library.
func again(t *testing.T, path string, times int) *Report {
	t.Helper()
	var last *Report
	for place, want := range map[string]string{compile.PlaceSame: "same", compile.PlaceMove: "moved"} {
		r := run(t, path, &Options{Verify: true, Place: place, Repeat: times})
		if r.Verified.Results == 0 {
			t.Fatalf("nothing was verified: %+v", r)
		}
		if slices.ContainsFunc(r.Unverified, func(u compile.Unverified) bool { return u.Code != verify.HostFunction && u.Code != verify.Managed }) || len(r.Unverified) == 0 {
			identical(t, r, r.Verified.Results)
		} else if r.Verdict != verify.Unproved {
			t.Fatalf("%s: %+v", r.Verdict, r.Unverified)
		}
		if r.Placement != want {
			t.Fatalf("place %s: memory is %s", place, r.Placement)
		}
		if times > 1 && (r.Repeat.Runs != times || len(r.Repeat.NotDeterministic) > 0) {
			t.Fatalf("place %s, %d times: %+v", place, times, r.Repeat)
		}
		last = r
	}
	r := run(t, path, &Options{Backend: backend.NullName})
	if r.Replayed != last.Replayed || r.Crash != nil || r.Identical || r.Placement != "" || r.Verified.Results != 0 || r.DifferingTotal != 0 || !strings.Contains(r.Note, "no library") {
		t.Fatalf("without a library: %+v", r)
	}
	return last
}

// An allocation that waits in the recording until another thread frees its address gets that address in the replay, and not earlier.
func TestReusedAtOnce(t *testing.T) {
	simulate(t)
	tw := newTrace(t)
	two := onThread(tw.thread(0, 2))
	tw.begin()
	tw.call("aclrtSetDevice", []uint64{0}, two)
	a, b := pattern(4096, 7), pattern(4096, 9)
	tw.malloc(dev, 4096)
	tw.mallocHost(host, 4096)
	tw.toDevice(dev, a)
	late := tw.now + 50e6
	for _, c := range []struct {
		name, give string
		words      []uint64
		v          uint64
	}{
		{"aclrtMalloc", "aclrtFree", []uint64{page, 4096, 0}, dev},
		{"aclrtMallocHost", "aclrtFreeHost", []uint64{page, 4096}, host},
	} {
		at := tw.now
		tw.call(c.name, c.words, two, out(0, c.v), lasting(at, late+100))
		tw.now = late
		tw.call("aclrtMemcpy", []uint64{host, 4096, dev, 4096, 2}, got(0, a), lasting(late, late+10))
		tw.call(c.give, []uint64{c.v}, lasting(late+20, late+90))
		tw.now, late = late+200, late+50e6
		if c.v == dev {
			tw.call("aclrtMemcpy", []uint64{dev, 4096, page, 4096, 1}, in(2, a), two)
		}
	}
	tw.call("aclrtMemcpy", []uint64{dev, 4096, page, 4096, 1}, in(2, b), two)
	tw.call("aclrtMemcpy", []uint64{host, 4096, dev, 4096, 2}, got(0, b), two)
	tw.call("aclrtFreeHost", []uint64{host}, two)
	tw.call("aclrtFree", []uint64{dev}, two)
	path := tw.close()
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		identical(t, run(t, path, &Options{Verify: true, Place: place, Pace: PaceRecorded}), 3)
	}
}

// Memory that was freed while another thread waited for a result in it is not freed before that wait.
func TestGivenBackLate(t *testing.T) {
	simulate(t)
	tw := newTrace(t)
	two := onThread(tw.thread(0, 2))
	tw.begin()
	tw.call("aclrtSetDevice", []uint64{0}, two)
	a := pattern(4096, 7)
	tw.malloc(dev, 4096)
	tw.mallocHost(host, 4096)
	tw.toDevice(dev, a)
	c := tw.toHostAsync(host, dev, 4096)
	from := tw.now
	wait := from + 50e6
	tw.call("aclrtFreeHost", []uint64{host}, lasting(from, wait+1000))
	tw.call("aclrtSynchronizeStream", []uint64{stream}, two, lasting(wait, wait+10))
	d := format.Data{Call: c, Dir: format.DirOut, Bytes: a, Len: 4096, Addr: host, Time: wait + 15}
	if err := tw.w.Data(&d); err != nil {
		t.Fatal(err)
	}
	identical(t, run(t, tw.close(), &Options{Verify: true, Pace: PaceRecorded}), 1)
}

func TestExamplesReplayIdentically(t *testing.T) {
	for name, args := range map[string][]string{
		"hello": nil, "vector_add": {"--n", "5000"}, "matmul_pipeline": {"--tiles", "12", "--size", "32"}, "tiny_decoder": {"--tokens", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Example(t, name)
			simulate(t)
			r := again(t, recorded(t, append([]string{program}, args...)...), 3)
			if name == "tiny_decoder" && r.Replayed < 800 {
				t.Errorf("%d calls replayed", r.Replayed)
			}
		})
	}
}

// A race in a kernel is found by repeated runs: its outputs are not deterministic, and all other results are.
func TestRepeatedRunsFindARace(t *testing.T) {
	t.Setenv("GOMAXPROCS", "4") // blocks run at once and meet where they yield, on one processor too
	program := testenv.Example(t, "histogram")
	simulate(t)
	r := &Report{Identical: true}
	for values := 20_000; r.Identical && values < 5e6; values *= 4 { // on a busy machine few blocks meet
		r = run(t, recorded(t, program, "--n", strconv.Itoa(values)), &Options{Verify: true, Repeat: 5})
	}
	n := r.Repeat.NotDeterministic
	if r.Identical || len(n) != 1 || n[0].Func != "aclrtMemcpy" || len(n[0].Chain) < 2 || n[0].Chain[len(n[0].Chain)-1].Name != "histogram_racy" {
		t.Errorf("not deterministic: %+v, %+v", n, r.Differences)
	}
}

// programs are the programs in testdata beside the examples, with their least number of results.
var programs = map[string]uint64{
	"threads": 4*20*2 + 1, "pointers": 9, "paged": 30, "graph": 11, "retry": 1, "batches": 32 * 4096, "vmm": 4, "peers": 4, "callbacks": 10, "condition": 4, "handoff": 6, "jobs": 20, "hostfuncs": 6, "updates": 6,
}

// kernels compiles the programs' kernels, as the simulator's library and as a binary that a program loads.
func kernels(t *testing.T) (binary string) {
	t.Helper()
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "kernels.so", []string{"testdata/kernels.c"}, "-shared", "-fPIC"))
	return testenv.CompileC(t, "kernels.o", []string{"testdata/kernels.c"}, "-c", "-fPIC")
}

func TestProgramsReplayIdentically(t *testing.T) {
	for name, results := range programs {
		t.Run(name, func(t *testing.T) {
			program := testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
			binary := kernels(t)
			simulate(t)
			r := again(t, recorded(t, program, binary), 3)
			if r.Verified.Results < results || !r.Identical {
				t.Errorf("%s, %d results, at least %d were to be", r.Verdict, r.Verified.Results, results)
			}
		})
	}
}

// A graph that copies to the host has a result in each run, and each is compared. A recording without them has one, if
// any existed when the recorder looked; the others are listed.
func TestGraphResults(t *testing.T) {
	program := testenv.CompileC(t, "graph", []string{"testdata/graph.c"})
	binary := kernels(t)
	simulate(t)
	const runs, others = 5, 11
	for when, without := range map[string]uint64{"late": others + 1, "early": others} {
		path := recorded(t, program, binary, when)
		identical(t, run(t, path, &Options{Verify: true, Place: compile.PlaceMove}), others+runs)

		calls := load(t, path)
		brought := 0
		var captured *format.Data // the copy's data, which the first run overwrites
		for _, c := range calls {
			f := acl.Model.Func(api.ID(c.Func))
			for i := range c.Data {
				if d := &c.Data[i]; f.Task == api.Copy && d.Reason == format.Overwritten {
					captured = d
				}
			}
			if f.Task != api.GraphRun {
				continue
			}
			if brought == 0 && captured != nil {
				d := c.Data[0]
				captured.Bytes, captured.Time, captured.Status, captured.Reason = d.Bytes, d.Time, d.Status, d.Reason
			}
			brought += len(c.Data)
			c.Data = nil
		}
		if brought != runs || (captured != nil) != (when == "late") {
			t.Errorf("%s: %d results of runs are recorded, and of the copy %+v", when, brought, captured)
		}
		r := run(t, rewrite(t, path, calls), &Options{Verify: true, Place: compile.PlaceMove})
		if r.Identical || len(r.Differences) != 0 || r.Verified.Results != without || uint64(len(r.Unverified)) != runs+others-without {
			t.Errorf("%s: %d results, differences %+v, unverified %+v", when, r.Verified.Results, r.Differences, r.Unverified)
		}
		for _, u := range r.Unverified {
			if !strings.Contains(u.Reason, "its graph copies to the host") {
				t.Errorf("%s: %+v", when, u)
			}
		}
	}
}

// On a busy machine threads lose their core within calls, so calls overlap in rare ways.
func TestSoakBusy(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	for range 3 * runtime.NumCPU() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}()
	}
	for name := range programs {
		t.Run(name, func(t *testing.T) {
			program := testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
			binary := kernels(t)
			simulate(t)
			for range 10 {
				again(t, recorded(t, program, binary), 1)
			}
		})
	}
	t.Run("cujobs", func(t *testing.T) {
		again := cudaJobs(t)
		for range 10 {
			again()
			again("plain")
		}
	})
}

// Every program and example a hundred times, then with a player under ThreadSanitizer.
func TestSoakPrograms(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	for name := range programs {
		t.Run(name, func(t *testing.T) {
			program := testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
			binary := kernels(t)
			simulate(t)
			if name == "batches" {
				t.Setenv("ACLSIM_MODEL", "instant") // the model takes two thirds of the time, for 262144 copies
			}
			path := recorded(t, program, binary)
			again(t, path, soaked)
			sanitized(t, path)
		})
	}
	for _, name := range []string{"hello", "vector_add", "matmul_pipeline", "tiny_decoder"} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Example(t, name)
			simulate(t)
			path := recorded(t, program)
			again(t, path, soaked)
			sanitized(t, path)
		})
	}
}

// soaked is the number of replays for each placement.
const soaked = 100

// sanitized replays with a player under ThreadSanitizer, whose shadow covers the device's usual addresses.
func sanitized(t *testing.T, path string) {
	t.Helper()
	plain := lib
	lib = t.TempDir()
	defer func() { lib = plain }()
	sources, _ := filepath.Glob("player/*.c")
	buildC(t, filepath.Join(lib, "acltrace-player"), append(sources, "-fsanitize=thread", "-ldl", "-lpthread")...)
	simulate(t)
	for range 5 {
		r := run(t, path, &Options{Verify: true, Timeout: time.Minute, Env: []string{"ACLSIM_VA_BASE=0x550000000000", "TSAN_OPTIONS=exitcode=66 halt_on_error=1 ignore_noninstrumented_modules=1"}})
		if !r.Identical || strings.Contains(r.Log, "ThreadSanitizer") {
			t.Fatalf("under ThreadSanitizer: %+v\n%s", r, r.Log)
		}
	}
}

// The history of a byte in an item of a batch is that of the item's memory.
func TestExplainBatches(t *testing.T) {
	program := testenv.CompileC(t, "batches", []string{"testdata/batches.c"})
	binary := kernels(t)
	simulate(t)
	const items = 64
	path := recorded(t, program, binary, "1", "64")
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var batches []uint64
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Schema().FuncName(c.Func) == "aclrtMemcpyBatchAsync" {
			batches = append(batches, c.Index)
		}
	}
	var bytes []lab.Byte
	for k := range uint32(items) {
		bytes = append(bytes, lab.Byte{Call: batches[1], Item: 1 + k})
	}
	histories, err := lab.Explain(t.Context(), r, acl.Model, bytes)
	if err != nil {
		t.Fatal(err)
	}
	for k, h := range histories {
		if len(h.Chain) != 1 || h.Chain[0].Call != batches[0] || h.ChainTotal != 1 {
			t.Errorf("item %d: %+v, want call %d", 1+k, h, batches[0])
		}
	}
}
