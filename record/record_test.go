package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
)

// run records a command and returns the trace, the result and the program's standard output.
func run(t *testing.T, o record.Options, command ...string) (*format.Reader, *record.Result, string) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	if o.Model == nil {
		o.Model = acl.Model
	}
	o.Output, o.Command, o.Sim = filepath.Join(t.TempDir(), "run.aclt"), command, true
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o.Stdout = out
	res, err := record.Run(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Incomplete != nil {
		t.Fatal(res.Incomplete)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, o.Output), res, string(b)
}

func open(t *testing.T, path string) *format.Reader {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func calls(t *testing.T, r *format.Reader) []*format.Call {
	t.Helper()
	var cs []*format.Call
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c.Clone())
	}
	return cs
}

// allData returns the data of all calls, also from later chunks.
func allData(t *testing.T, r *format.Reader) map[uint64][]format.Data {
	t.Helper()
	data, err := r.DataByCall(nil, func(*format.Data) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func count(cs []*format.Call, r *format.Reader) map[string]int {
	n := map[string]int{}
	for _, c := range cs {
		n[r.Schema().FuncName(c.Func)]++
	}
	return n
}

func source(name string) string { return filepath.Join("testdata", name) }

// Every example runs as it does without the recorder, and its trace is complete and sound.
func TestExamplesRunAsWithoutTheRecorder(t *testing.T) {
	for _, name := range []string{"hello", "vector_add", "matmul_pipeline", "tiny_decoder"} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Example(t, name)
			r, res, out := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
			if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Processes != 1 {
				t.Errorf("result %+v", res)
			}
			if !strings.Contains(out, name) && name != "hello" {
				t.Errorf("the program's output is %q", out)
			}
			if m := r.Meta(); !r.Complete() || !m.Simulated || !m.Replayable || m.CapturedBy != "shim" {
				t.Errorf("complete %v, meta %+v", r.Complete(), m)
			}
			rep, err := format.Check(r.Path(), nil)
			if err != nil || len(rep.Problems) > 0 {
				t.Errorf("check: %v %v", err, rep)
			}
			for _, c := range calls(t, r) {
				if c.Flags != 0 || c.End < c.Start {
					t.Errorf("call %d: flags %d, from %d to %d", c.Index, c.Flags, c.Start, c.End)
				}
				for _, d := range c.Data {
					if d.Status != format.Whole {
						t.Errorf("call %d %s: parameter %d is %v: %v", c.Index, r.Schema().FuncName(c.Func), d.Param, d.Status, d.Reason)
					}
				}
			}
		})
	}
}

// Launches of tiny_decoder have their arguments, and their number is the one that the program prints.
func TestLaunchesHaveTheirArguments(t *testing.T) {
	r, _, out := run(t, record.Options{}, testenv.Example(t, "tiny_decoder"), "--tokens", "5")
	n := 0
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) != "aclrtLaunchKernelWithHostArgs" {
			continue
		}
		n++
		if len(c.Data) == 0 || c.Data[0].Len != c.Args[5] || uint64(len(c.Data[0].Bytes)) != c.Args[5] {
			t.Fatalf("call %d: arguments of %d bytes, data %+v", c.Index, c.Args[5], c.Data)
		}
	}
	if !strings.Contains(out, "(2000 launches)") || n != 2000 {
		t.Errorf("%d launches recorded; the program says: %s", n, out)
	}
}

// Each launch has its task's ids from the runtime: one stream, ascending by one.
func TestTaskIDs(t *testing.T) {
	r, _, _ := run(t, record.Options{}, testenv.Example(t, "tiny_decoder"), "--tokens", "3", "--quiet")
	var last uint64
	n := 0
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) != "aclrtLaunchKernelWithHostArgs" {
			continue
		}
		outs := stored(c)
		if len(outs) != 1 || outs[0].Param != probe.TaskParam {
			t.Fatalf("call %d: outputs %v", c.Index, outs)
		}
		if id := outs[0].Value; n > 0 && (id>>32 != last>>32 || id <= last) {
			t.Fatalf("call %d: stream %d task %d after stream %d task %d", c.Index, id>>32, uint32(id), last>>32, uint32(last))
		}
		last = outs[0].Value
		n++
	}
	if n != 1200 {
		t.Errorf("%d launches", n)
	}
	// The runtime does a thread's first asynchronous copy without a task.
	r, _, _ = run(t, record.Options{}, testenv.Example(t, "matmul_pipeline"))
	of := map[string]int{}
	for _, c := range calls(t, r) {
		if i := slices.IndexFunc(c.Outs, func(o format.Out) bool { return o.Param == probe.TaskParam }); i >= 0 {
			of[r.Schema().FuncName(c.Func)]++
			if id := c.Outs[i].Value; uint32(id) == math.MaxUint32 {
				t.Errorf("call %d is stream %d task %d", c.Index, id>>32, uint32(id))
			}
		}
	}
	if of["aclrtMemcpyAsync"] == 0 || of["aclrtLaunchKernelWithHostArgs"] == 0 {
		t.Errorf("calls with ids: %v", of)
	}
	r, _, _ = run(t, record.Options{Capture: record.Capture{Calls: record.Calls{NoTaskIDs: true}}}, testenv.Example(t, "hello"))
	for _, c := range calls(t, r) {
		for _, o := range c.Outs {
			if o.Param == probe.TaskParam {
				t.Errorf("call %d has ids that were not asked for", c.Index)
			}
		}
	}
}

// Each call has its stack by name. Each different stack is stored once.
func TestEachStackIsStoredOnce(t *testing.T) {
	program := testenv.CompileC(t, "stack", []string{source("stack.c")}, "-fno-omit-frame-pointer", "-fno-inline", "-rdynamic")
	r, _, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{Stacks: 16}}}, program)
	stacks := timeline.NewStacks(r)
	ways := map[string]int{}
	written := 0
	for _, c := range calls(t, r) {
		frames := stacks.Of(0, c)
		if name := r.Schema().FuncName(c.Func); name != "aclrtGetDevice" {
			if len(frames) == 0 || frames[0].Name != "main" {
				t.Errorf("call %d %s: stack %v", c.Index, name, frames)
			}
			continue
		}
		written += len(c.Data)
		if len(frames) < 3 || frames[0].Name != "inner" || frames[2].Name != "main" {
			t.Fatalf("call %d: stack %v", c.Index, frames)
		}
		ways[frames[1].Name]++
	}
	if !maps.Equal(ways, map[string]int{"one_way": 100, "other_way": 100}) || written != 2 {
		t.Errorf("calls by way %v, stacks written %d times", ways, written)
	}
}

func TestThreadsLoseNoCalls(t *testing.T) {
	program := testenv.CompileC(t, "threads", []string{source("threads.c")})
	r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program, "8", "5000")
	cs := calls(t, r)
	per := map[uint32]int{}
	last := map[uint32]int64{}
	for _, c := range cs {
		per[c.Thread]++
		if c.Start < last[c.Thread] {
			t.Fatalf("call %d of thread %d starts before the one before it ends", c.Index, c.Thread)
		}
		last[c.Thread] = c.End
	}
	if len(cs) != 8*5000+2 || len(per) != 9 || res.Lost != 0 {
		t.Errorf("%d calls of %d threads, %d lost", len(cs), len(per), res.Lost)
	}
}

// Threads that come and go share rings, one after the other, and each keeps its own calls and results.
func TestRingsAreReused(t *testing.T) {
	program := testenv.CompileC(t, "churn", []string{source("churn.c")})
	const n = 14
	var r *format.Reader
	var res *record.Result
	for pause := 200; res == nil || res.Refused > 2 && pause < 10_000; pause *= 4 { // a busy recorder takes a ring back later
		r, res, _ = run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{MemoryLimit: 5 * 64 << 10, RingBytes: 64 << 10}}}, program, strconv.Itoa(n), strconv.Itoa(pause))
	}
	if res.ExitCode != 0 || res.Refused > 2 {
		t.Fatalf("result %+v", res)
	}
	per, data := map[uint32]int{}, allData(t, r)
	for _, c := range calls(t, r) {
		per[c.Thread]++
		if r.Schema().FuncName(c.Func) != "aclrtMemcpyAsync" {
			continue
		}
		if d := data[c.Index]; len(d) != 1 || d[0].Status != format.Whole || d[0].Len != 64 {
			t.Errorf("call %d: result %+v", c.Index, d)
		}
	}
	sum := uint64(0)
	for th, calls := range per {
		want := 12
		if r.Threads()[th].TID == r.Processes()[0].PID {
			want = 5 // the first thread's, which a recorder that was stopped may list after others
		}
		if calls != want {
			t.Errorf("thread %d has %d calls, not %d", th, calls, want)
		}
		sum += uint64(calls)
	}
	if len(per) < n-2 || sum+res.Lost != 5+n*12 {
		t.Errorf("%d threads in the trace, %d calls recorded and %d lost", len(per), sum, res.Lost)
	}
}

// Results are captured with very many events.
func TestManyEvents(t *testing.T) {
	r, _, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, testenv.CompileC(t, "manyevents", []string{"testdata/manyevents.c"}))
	there, data := 0, allData(t, r)
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) != "aclrtMemcpyAsync" {
			continue
		}
		if d := data[c.Index]; len(d) != 1 || d[0].Status != format.Whole {
			t.Errorf("call %d: %+v", c.Index, d)
		}
		there++
	}
	if there != 1000 {
		t.Errorf("%d copies", there)
	}
}

// A result that two threads wait for is the copied data, even if the first thread overwrites the memory.
func TestBothWait(t *testing.T) {
	r, _, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Replayable: true}}, testenv.CompileC(t, "bothwait", []string{"testdata/bothwait.c"}))
	want, there := bytes.Repeat([]byte{7}, 32<<20), 0
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Status != format.Whole {
			t.Fatalf("call %d: %+v", d.Call, d)
		}
		if b, err := r.Blob(d.Blob); err != nil || !bytes.Equal(b, want) {
			t.Errorf("call %d: not what the copy has brought, %v", d.Call, err)
		}
		there++
	}
	if there != 10 {
		t.Errorf("%d results", there)
	}
}

// A thread whose ring the program has overwritten does not wait for room in it, and its later calls are lost and counted. Other
// threads are recorded.
func TestRingWrittenOver(t *testing.T) {
	program := testenv.CompileC(t, "scribble", []string{"testdata/scribble.c"}, "-I"+filepath.Join(testenv.Root(t), "probe/shim"))
	r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true, RingBytes: 64 << 10}}}, program)
	others, own := uint64(0), uint64(0)
	for _, c := range calls(t, r) {
		if r.Threads()[c.Thread].TID != r.Processes()[0].PID {
			others++
		} else {
			own++
		}
	}
	if res.ExitCode != 0 || others != 2001 || res.Lost < 100_000 || own+res.Lost != 101_002 {
		t.Errorf("exit code %d, %d calls of the other thread, %d of the first one and %d lost; gaps %+v", res.ExitCode, others, own, res.Lost, r.Gaps())
	}
}

// A child that is forked before its parent uses the runtime is recorded as its own process. A child that is forked later is, too,
// and the simulator refuses its calls.
func TestForkedChildIsItsOwnProcess(t *testing.T) {
	program := testenv.CompileC(t, "forks", []string{source("forks.c")})
	r, res, _ := run(t, record.Options{}, program)
	if res.ExitCode != 0 {
		t.Fatalf("exit code %d", res.ExitCode)
	}
	n := count(calls(t, r), r)
	if len(r.Processes()) != 3 || n["aclInit"] != 2 || n["aclrtSetDevice"] != 2 || n["aclrtGetDevice"] != 3 || res.Failed != 1 {
		t.Errorf("%d processes, calls %v, %d failed", len(r.Processes()), n, res.Failed)
	}
}

// A program that crashes leaves all its calls.
func TestCrashLosesNoCalls(t *testing.T) {
	r, res, _ := run(t, record.Options{}, testenv.Example(t, "tiny_decoder"), "--crash-after", "777")
	n := count(calls(t, r), r)
	if res.ExitCode != 128+int(syscall.SIGABRT) || n["aclrtLaunchKernelWithHostArgs"] != 777 || !r.Complete() {
		t.Errorf("exit code %d, %d launches, complete %v", res.ExitCode, n["aclrtLaunchKernelWithHostArgs"], r.Complete())
	}
	if m := r.Meta(); m.ExitSignal != int(syscall.SIGABRT) {
		t.Errorf("signal %d in the trace", m.ExitSignal)
	}
}

// hang returns a program that hangs in a synchronization.
func hang(t *testing.T) []string {
	object := testenv.CompileC(t, "hang.o", []string{source("hang_kernel.c")}, "-c")
	library := testenv.CompileC(t, "hang.so", []string{source("hang_kernel.c")}, "-shared", "-fPIC")
	t.Setenv("ACLSIM_KERNELS", library)
	return []string{testenv.CompileC(t, "hang", []string{source("hang.c")}), object}
}

// A killed program leaves every finished call, and the unfinished one.
func TestKilledProgramLeavesItsUnfinishedCall(t *testing.T) {
	command := hang(t)
	acltrace := testenv.Built(t, "bin/acltrace")
	trace := filepath.Join(t.TempDir(), "run.aclt")
	cmd := exec.Command(acltrace, append([]string{"record", "--sim", "-o", trace, "--"}, command...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "waiting %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	// It sleeps only in the call.
	testenv.Wait(t, "the program in its call", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") S ")
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d", code)
	}
	r := open(t, trace)
	cs := calls(t, r)
	last := cs[len(cs)-1]
	if len(cs) != 7 || r.Schema().FuncName(last.Func) != "aclrtSynchronizeStream" || last.Flags != format.Unfinished {
		t.Errorf("%d calls, the last is %s with flags %d", len(cs), r.Schema().FuncName(last.Func), last.Flags)
	}
	for _, c := range cs[:len(cs)-1] {
		if c.Flags != 0 {
			t.Errorf("call %d has flags %d", c.Index, c.Flags)
		}
	}
	if !r.Complete() {
		t.Error("the file has no end")
	}
	loaded(t, r.Meta(), os.Getenv("ACLSIM_KERNELS")) // the simulator reports a library when it loads it
}

// A recorder that is killed or stopped costs data, never the program. Its written data is readable.
func TestRecorderGone(t *testing.T) {
	program := testenv.Example(t, "tiny_decoder")
	acltrace := testenv.Built(t, "bin/acltrace")
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			trace := filepath.Join(dir, "run.aclt")
			done := filepath.Join(dir, "done")
			cmd := exec.Command(acltrace, "record", "--sim", "--policy", "block", "--ring-size", "64K", "-o", trace, "--",
				"/bin/sh", "-c", fmt.Sprintf("%s --tokens 10 --quiet > %s.out; while [ ! -e %s.go ]; do sleep 0.02; done; %s --tokens 50 --quiet > %s.out; echo $? > %s.code; mv %s.code %s", program, done, done, program, done, done, done, done))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			testenv.Wait(t, "calls on the disk", func() bool {
				r, err := format.Open(trace, nil)
				if err != nil {
					return false // no header yet
				}
				defer r.Close()
				c, err := r.Counts()
				return err == nil && c.Calls >= 400
			})
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(done+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var code []byte
			testenv.Wait(t, "the end of the program", func() bool {
				var err error
				code, err = os.ReadFile(done)
				return err == nil
			})
			if got := strings.TrimSpace(string(code)); got != "0" {
				t.Errorf("the program ended with %s", got)
			}
			if sig == syscall.SIGSTOP {
				_ = cmd.Process.Signal(syscall.SIGCONT)
			}
			_ = cmd.Wait()
			r := open(t, trace)
			if n := len(calls(t, r)); n < 400 {
				t.Errorf("%d calls", n)
			}
			if r.Complete() != (sig == syscall.SIGSTOP) {
				t.Errorf("complete %v", r.Complete())
			}
			if sig == syscall.SIGSTOP {
				n := count(calls(t, r), r)
				var lost uint64
				for _, g := range r.Gaps() {
					lost += g.Calls
				}
				want := uint64((10 + 50) * 404)
				if got := r.Meta(); got.Replayable {
					t.Error("a trace with gaps says it can be replayed")
				}
				if total := uint64(len(calls(t, r))) + lost; lost == 0 || total < want {
					t.Errorf("%v: %d calls recorded and %d lost, of more than %d", n, len(calls(t, r)), lost, want)
				}
			}
		})
	}
}

// Polling loops, millions of calls at the full speed of their threads, lose nothing while a program waits for its recorder.
func TestSoakPolling(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes minutes: `make soak`")
	}
	program := testenv.CompileC(t, "threads", []string{source("threads.c")})
	const calls = 10_000_000
	r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program, "2", strconv.Itoa(calls))
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Calls != 2*calls+2 || res.Lost != 0 || len(r.Gaps()) != 0 {
		t.Errorf("%d calls recorded, %d lost, %d gaps", counts.Calls, res.Lost, len(r.Gaps()))
	}
}

// A full ring loses calls, and every one of them is counted.
func TestDropIsCounted(t *testing.T) {
	program := testenv.CompileC(t, "threads", []string{source("threads.c")})
	r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}}, program, "4", "200000")
	n := uint64(len(calls(t, r)))
	var lost uint64
	for _, g := range r.Gaps() {
		lost += g.Calls
	}
	if n+lost != 4*200000+2 || lost != res.Lost {
		t.Errorf("%d calls and %d lost (%d in the result), of %d made", n, lost, res.Lost, 4*200000+2)
	}
	if lost == 0 {
		t.Skip("the recorder kept up with a ring of 64 KiB")
	}
}

// Results of asynchronous copies are captured when the program has waited for them. If it never waits, or frees the memory before,
// the trace has the reason.
func TestCopiesAreCapturedAfterTheWait(t *testing.T) {
	program := testenv.CompileC(t, "result", []string{source("result.c")})
	r, res, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	if res.ExitCode != 0 {
		t.Fatalf("exit code %d", res.ExitCode)
	}
	want := []string{"A", "B", "C", "D", "E", format.Freed.String(), "never synchronized"}
	var got []string
	all := allData(t, r)
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) != "aclrtMemcpyAsync" {
			continue
		}
		data := all[c.Index]
		if len(data) != 1 || data[0].Dir != format.DirOut || data[0].Len != 8192 {
			t.Fatalf("call %d: data %+v", c.Index, data)
		}
		if data[0].Status == format.Missing {
			got = append(got, data[0].Reason.String())
			continue
		}
		b, err := r.Blob(data[0].Blob)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, bytes.Repeat(b[:1], 8192)) {
			t.Errorf("call %d: result is not of one letter", c.Index)
		}
		got = append(got, string(b[:1]))
	}
	if len(got) != len(want) {
		t.Fatalf("results %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("result %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// If a result was not captured, the trace has the reason. Later results are captured.
func TestResultsNotCaptured(t *testing.T) {
	program := testenv.CompileC(t, "pending", []string{source("pending.c")})
	for way, want := range map[string]map[format.Reason]int{
		"full":       {format.NoReason: 65538, format.TooManyPending: 1, format.Overwritten: 2},
		"many":       {format.NoReason: 20003 - 515, format.Overwritten: 515},
		"again":      {format.NoReason: 1, format.Overwritten: 1},
		"unregister": {format.Unregistered: 1},
		"free":       {format.Freed: 1},
		"streams":    {format.NoReason: 334 * 65, format.NeverSynchronized: 666 * 65},
		"event":      {format.NoReason: 1000, format.NeverSynchronized: 3000},
		"unmap":      {format.Unreadable: 1},
		"pinned":     {format.TooManyPending: 1},
	} {
		t.Run(way, func(t *testing.T) {
			r, res, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program, way)
			if res.ExitCode != 0 || res.Lost != 0 {
				t.Fatalf("exit code %d, %d calls lost", res.ExitCode, res.Lost)
			}
			got := map[format.Reason]int{}
			for d, err := range r.Data(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Dir != format.DirOut || d.Param == api.MemoryParam {
					continue
				}
				got[d.Reason]++
				if (d.Status == format.Missing) != (d.Reason != format.NoReason && d.Reason != format.Unchecked) {
					t.Errorf("call %d: %v because %v", d.Call, d.Status, d.Reason)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("results by what is missing: %v, want %v", got, want)
			}
		})
	}
}

// A wait for an event covers the record before the wait, not one that another thread makes meanwhile. Later results are captured
// when they are there.
func TestResultsBesideWait(t *testing.T) {
	src := []string{source("beside.c")}
	lib := testenv.CompileC(t, "libascendcl.so", src, "-DRUNTIME", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	program := testenv.CompileC(t, "beside", append(src, lib), "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
	r, res, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	if res.ExitCode != 0 {
		t.Fatalf("exit code %d", res.ExitCode)
	}
	var got []format.Data
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Dir == format.DirOut {
			got = append(got, *d)
		}
	}
	if len(got) != 1 || got[0].Status != format.Whole || !bytes.Equal(got[0].Bytes, bytes.Repeat([]byte("A"), 64)) {
		t.Errorf("results %+v", got)
	}
}

// Levels of payload.
func TestPayloadLevels(t *testing.T) {
	program := testenv.Example(t, "vector_add") // copies of 256 KiB
	none, _, _ := run(t, record.Options{Capture: record.Capture{Payload: record.None}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
	found := 0
	for _, c := range calls(t, none) {
		for _, d := range c.Data {
			if d.Len == 262144 {
				found++
				if d.Status != format.Missing || d.Reason != format.LevelExcluded {
					t.Errorf("none: call %d: %v, %v", c.Index, d.Status, d.Reason)
				}
			}
		}
	}
	if found == 0 {
		t.Error("none: no large copy in the trace")
	}
	full, _, _ := run(t, record.Options{Capture: record.Capture{Payload: record.Full}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
	hashed, _, _ := run(t, record.Options{Capture: record.Capture{Payload: record.Hash}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
	small, _, _ := run(t, record.Options{Capture: record.Capture{Payload: record.Small}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
	a, b := payloads(t, full, format.Whole), payloads(t, hashed, format.HashOnly)
	// At the level small the program's own thread hashes large payloads, at the level hash the recorder does.
	c := payloads(t, small, format.HashOnly)
	if len(a) == 0 || !slices.Equal(a, b) || !slices.Equal(a, c) {
		t.Errorf("hashes of whole payloads %x, hashed by the recorder %x, by the shim %x", a, b, c)
	}
	if rep, err := format.Check(hashed.Path(), nil); err != nil || len(rep.Problems) > 0 {
		t.Errorf("check: %v %v", err, rep)
	}
}

// With NoSmall, no copy below 4 KiB is in the file.
func TestNoSmallCopies(t *testing.T) {
	r, _, _ := run(t, record.Options{Capture: record.Capture{Replayable: true, NoSmall: true}}, testenv.Example(t, "tiny_decoder"), "--tokens", "3", "--quiet")
	if r.Meta().Replayable {
		t.Error("the trace says it can be replayed")
	}
	left, data := 0, allData(t, r)
	for _, c := range calls(t, r) {
		if acl.Model.Lookup(r.Schema().FuncName(c.Func)).Task != api.Copy {
			continue
		}
		for _, d := range data[c.Index] {
			if d.Len < record.SmallestCopy {
				left++
				if d.Status != format.Missing || d.Reason != format.LevelExcluded || len(d.Bytes) > 0 {
					t.Errorf("call %d: %d bytes are %v", c.Index, d.Len, d.Status)
				}
			}
		}
	}
	if left < 9 {
		t.Errorf("%d small copies in the trace", left)
	}
}

// payloads returns the hashes of large copies.
func payloads(t *testing.T, r *format.Reader, want format.Status) [][16]byte {
	t.Helper()
	var hashes [][16]byte
	for _, c := range calls(t, r) {
		for _, d := range c.Data {
			if d.Len != 262144 {
				continue
			}
			hash, size, _, err := r.BlobInfo(d.Blob)
			if err != nil || size != d.Len || d.Status != want {
				t.Fatalf("call %d: %v, %d bytes, %v", c.Index, d.Status, size, err)
			}
			hashes = append(hashes, hash)
			if _, err := r.Blob(d.Blob); errors.Is(err, format.ErrNotKept) != (want == format.HashOnly) {
				t.Errorf("content of a payload that is %v: %v", want, err)
			}
		}
	}
	return hashes
}

// The program's exit code, its environment and its output are its own.
func TestProgramKeepsCodeEnvironmentAndOutput(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	_, res, out := run(t, record.Options{}, "/bin/sh", "-c", "echo out; exit 7")
	if res.ExitCode != 7 || out != "out\n" {
		t.Errorf("exit code %d, output %q", res.ExitCode, out)
	}
	t.Setenv("LD_PRELOAD", testenv.CompileC(t, "other.so", []string{source("threads.c")}, "-shared", "-fPIC"))
	_, _, out = run(t, record.Options{}, "/bin/sh", "-c", "echo $LD_PRELOAD")
	if parts := strings.Split(strings.TrimSpace(out), ":"); len(parts) != 2 || !strings.HasSuffix(parts[0], "libacltrace.so") || !strings.HasSuffix(parts[1], "other.so") {
		t.Errorf("LD_PRELOAD is %q", out)
	}
}

// Neither the session nor the shim stays in shared memory.
func TestNothingLeftBehind(t *testing.T) {
	program := testenv.Example(t, "hello")
	_, _, out := run(t, record.Options{}, "/bin/sh", "-c", "echo $ACLTRACE_SESSION $LD_PRELOAD; "+program)
	first, _, _ := strings.Cut(out, "\n")
	paths := strings.Fields(first)
	if len(paths) != 2 || !strings.HasPrefix(paths[0], "/dev/shm/") {
		t.Fatalf("session and shim are %q", first)
	}
	for _, p := range []string{paths[0], filepath.Dir(paths[1])} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", p, err)
		}
	}
}
