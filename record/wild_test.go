package record_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
)

// outcome is a recording's result: the trace and the program's output.
type outcome struct {
	*record.Result
	r              *format.Reader
	calls          []*format.Call
	by             map[string]int // calls by function
	stdout, stderr string
}

// wild records a command; the trace need not be complete.
func wild(t *testing.T, o record.Options, command ...string) *outcome {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	o.Model, o.Command = acl.Model, command
	if o.Output == "" {
		o.Output = filepath.Join(t.TempDir(), "run.aclt")
	}
	dir := t.TempDir()
	files := map[string]**os.File{"stdout": &o.Stdout, "stderr": &o.Stderr}
	for name, f := range files {
		var err error
		if *f, err = os.Create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		defer (*f).Close()
	}
	res, err := record.Run(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	out := &outcome{Result: res, r: open(t, o.Output)}
	out.calls = calls(t, out.r)
	out.by = count(out.calls, out.r)
	for name, s := range map[string]*string{"stdout": &out.stdout, "stderr": &out.stderr} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		*s = string(b)
	}
	return out
}

// fake compiles a runtime with few functions and returns an environment in which programs find it.
func fake(t *testing.T) []string {
	t.Helper()
	lib := testenv.CompileC(t, "libascendcl.so", []string{filepath.Join(testenv.Root(t), "probe/shim/arm64test/runtime.c")},
		"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libascendcl.so")
	return append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib))
}

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// tmpfs mounts a file system with a size limit during a test.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Processes are created in every way, execute other programs, or outlive the started one. Every call is in the trace, with its
// process.
func TestWildProcesses(t *testing.T) {
	program := testenv.CompileC(t, "wild_process", []string{source("wild_process.c")})
	empty := t.TempDir()
	for _, c := range []struct {
		mode             []string
		calls, processes int
		root             bool
	}{
		{mode: []string{"vfork"}, calls: 9, processes: 2},
		{mode: []string{"spawn"}, calls: 9, processes: 2},
		{mode: []string{"exec"}, calls: 8, processes: 1},
		{mode: []string{"outlive"}, calls: 5, processes: 1},
		{mode: []string{"daemon"}, calls: 5, processes: 1},
		{mode: []string{"daemon-outlive"}, calls: 5, processes: 1},
		{mode: []string{"late-daemon"}, calls: 4, processes: 1},
		{mode: []string{"closefrom"}, calls: 5, processes: 1},
		{mode: []string{"chdir"}, calls: 5, processes: 1},
		{mode: []string{"chroot", empty}, calls: 6, processes: 1, root: true},
	} {
		t.Run(c.mode[0], func(t *testing.T) {
			if c.root {
				root(t)
			}
			out := wild(t, record.Options{Sim: true, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}}, append([]string{program}, c.mode...)...)
			code := 0
			if c.mode[0] == "outlive" {
				code = 3
			}
			if out.ExitCode != code || out.stderr != "" || out.Incomplete != nil {
				t.Fatalf("exit code %d, %v, %s", out.ExitCode, out.Incomplete, out.stderr)
			}
			if len(out.calls) != c.calls || out.Processes != c.processes || len(out.r.Processes()) != c.processes || out.Refused != 0 ||
				out.Lost != 0 || out.Unfinished != 0 || out.Failed != 0 {
				t.Errorf("%d calls %v, %+v", len(out.calls), out.by, out.Result)
			}
		})
	}
	// With uprobes the recording ends with the program, and lists processes that go on.
	t.Run("daemon by uprobes", func(t *testing.T) {
		until, told, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer until.Close()
		defer told.Close()
		o := record.Options{Sim: true, Capture: record.Capture{Probe: "ebpf"}, Model: acl.Model, Command: []string{program, "daemon", "until"}, Stdin: until, Output: filepath.Join(t.TempDir(), "run.aclt")}
		res, err := record.Run(t.Context(), &o)
		testenv.Uprobes(t, err)
		if len(res.Unhooked) != 1 || !strings.Contains(res.Unhooked[0].Reason, "outlives the started program") {
			t.Errorf("%+v", res)
		}
	})
	// In an empty root there is neither the simulator nor the session: programs work with libraries that they map already. Another
	// user may not open the session.
	for _, c := range []struct {
		mode           string
		calls, refused int
		reported       string
	}{
		{mode: "chroot-first", calls: 5},
		{mode: "chroot-closes", refused: 1},
		{mode: "chroot-hidden", reported: "it changed its root"},
		{mode: "another-user", reported: "it became user 65534 before its first call"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			root(t)
			env := fake(t)
			var out *outcome
			var us []format.Unhooked
			for ms := 1000; out == nil || c.reported != "" && len(us) == 0 && ms < 100_000; ms *= 4 { // a busy machine looks later
				out = wild(t, record.Options{Env: append(env, fmt.Sprintf("LINGER=%d", ms))}, program, c.mode, empty)
				us = out.r.Meta().Coverage.Unhooked
			}
			if out.ExitCode != 0 || out.stderr != "" || len(out.calls) != c.calls || out.Refused != c.refused || len(us) > 0 != (c.reported != "") ||
				len(us) > 0 && (us[0].Exe != program || !strings.HasPrefix(us[0].Reason, c.reported)) {
				t.Errorf("%+v, %s", out.Result, out.stderr)
			}
		})
	}
	t.Run("two at once", func(t *testing.T) {
		out := wild(t, record.Options{Sim: true}, "/bin/sh", "-c", fmt.Sprintf("%s use & %s spawn; wait", program, program))
		if out.ExitCode != 0 || len(out.calls) != 4+9 || out.Processes != 3 || out.Lost != 0 {
			t.Errorf("%d calls %v, %+v", len(out.calls), out.by, out.Result)
		}
		per := map[uint32]int{}
		for _, c := range out.calls {
			per[out.r.Threads()[c.Thread].Process]++
		}
		if len(per) != 3 {
			t.Errorf("calls by process: %v", per)
		}
	})
}

// Calls before an exec keep their own sequence numbers if the next program has the same TID and the recorder reads both together.
func TestWildExecKeepsCallsApart(t *testing.T) {
	program := testenv.CompileC(t, "wild_process", []string{source("wild_process.c")})
	shim := testenv.Built(t, "lib/libacltrace.so")
	s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{RingBytes: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command(program, "exec")
	cmd.Env = append(fake(t), "LD_PRELOAD="+shim, "ACLTRACE_SESSION="+s.Dir())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v, %s", err, out)
	}
	n := sink{}
	if err := s.Finish(&n); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(n.numbers, want) || n.processes != 1 {
		t.Errorf("numbers of the calls: %v, of %d processes", n.numbers, n.processes)
	}
}

// The recorder waited 10 s for a child that had hidden the session by its own /dev/shm. Its threads counted as one, and its calls were not counted.
func TestProcessThatHidesTheSession(t *testing.T) {
	root(t)
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here: %v %s", err, out)
	}
	program := testenv.CompileC(t, "wild_process", []string{source("wild_process.c")})
	env := fake(t)
	out := wild(t, record.Options{Env: env}, program, "own-shm")
	if out.ExitCode != 0 || len(out.calls) != 4 || out.Refused != 5 || out.Ringless.Why != ring.RefusedFiles || out.Ringless.Calls != 4+4 || out.Lost != out.Ringless.Calls {
		t.Errorf("%d calls, %+v, %s", len(out.calls), out.Result, out.stderr)
	}
	s, err := ring.Create(acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command(program, "own-shm")
	cmd.Env = append(env, "LD_PRELOAD="+testenv.Built(t, "lib/libacltrace.so"), "ACLTRACE_SESSION="+s.Dir())
	if b, err := cmd.CombinedOutput(); err != nil || s.Alive() {
		t.Errorf("%v, a process is waited for: %v, %s", err, s.Alive(), b)
	}
}

// Rings took the program's address space or the memory that it may lock, and its pthread_create failed.
func TestRingsLeaveTheProgramItsLimits(t *testing.T) {
	program := testenv.CompileC(t, "crowd", []string{source("crowd.c")})
	env := fake(t)
	for _, c := range []struct {
		name    string
		command []string
		root    bool
		ring    int
	}{
		{"address space", []string{"/bin/sh", "-c", `ulimit -s 8192; ulimit -v 400000; exec "$0" 32 1 50 0`, program}, false, 0},
		{"locked memory", []string{"/bin/sh", "-c", `ulimit -s 64; ulimit -l 8192; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$0" 32 1 50 0 lock`, program}, true, 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				root(t)
			}
			alone := exec.Command(c.command[0], c.command[1:]...)
			alone.Env = env
			if b, err := alone.CombinedOutput(); err != nil {
				t.Skipf("not possible here: %v %s", err, b)
			}
			out := wild(t, record.Options{Env: env, Limits: record.Limits{Buffers: record.Buffers{RingBytes: c.ring}}}, c.command...)
			if made := 32 * 50; out.ExitCode != 0 || len(out.calls)+int(out.Lost) != made || len(out.calls) < made/4 {
				t.Errorf("%d calls recorded of %d, %+v, %s", len(out.calls), made, out.Result, out.stderr)
			}
		})
	}
}

func TestWildThreads(t *testing.T) {
	program := testenv.CompileC(t, "wild_thread", []string{source("wild_thread.c")})
	env := fake(t)
	small := record.Options{Env: env, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}}

	t.Run("200 at once", func(t *testing.T) {
		o := small
		o.Limits.Block = true
		out := wild(t, o, program, "many", "200")
		if out.ExitCode != 0 || len(out.calls) != 200*50 || len(out.r.Threads()) != 200 || out.Refused != 0 || out.Lost != 0 {
			t.Errorf("%d calls of %d threads, %+v, %s", len(out.calls), len(out.r.Threads()), out.Result, out.stderr)
		}
	})
	t.Run("limit of memory", func(t *testing.T) {
		o := small
		o.Limits.MemoryLimit = 3 * 64 << 10
		out := wild(t, o, program, "many", "10")
		if out.ExitCode != 0 || len(out.calls) != 3*50 || out.Refused != 7 {
			t.Errorf("%d calls, %+v, %s", len(out.calls), out.Result, out.stderr)
		}
	})
	// The kernel ends a program by a signal if a file exceeds the limit.
	for what, blocks := range map[string]string{"rings": "100", "any file": "0"} {
		t.Run("limit of file size for "+what, func(t *testing.T) {
			out := wild(t, small, "/bin/sh", "-c", "ulimit -f "+blocks+"; exec "+program+" errno")
			if out.ExitCode != 0 || len(out.calls) != 0 || out.Refused != 1 {
				t.Errorf("%d calls, %+v, %s", len(out.calls), out.Result, out.stderr)
			}
		})
	}
	t.Run("no address space", func(t *testing.T) {
		out := wild(t, record.Options{Env: env}, "/bin/sh", "-c", "ulimit -v 14500; exec "+program+" errno")
		if out.ExitCode != 0 || len(out.calls) != 0 || out.Refused != 1 {
			t.Errorf("%d calls, %+v, %s", len(out.calls), out.Result, out.stderr)
		}
	})
	t.Run("_exit in calls", func(t *testing.T) {
		out := wild(t, small, program, "_exit", "3")
		if out.ExitCode != 5 || out.Unfinished != 3 || len(out.calls) != 4+3 || out.by["aclrtSynchronizeStream"] != 3 {
			t.Errorf("%d calls %v, %+v", len(out.calls), out.by, out.Result)
		}
	})
	t.Run("cancelled in a call", func(t *testing.T) {
		out := wild(t, small, program, "cancel")
		if out.ExitCode != 0 || out.Unfinished != 1 || out.by["aclrtSynchronizeStream"] != 1 || out.by["aclrtGetDevice"] != 1 {
			t.Errorf("%d calls %v, %+v, %s", len(out.calls), out.by, out.Result, out.stderr)
		}
	})
	t.Run("signal handler calls", func(t *testing.T) {
		const n = 200000
		o := small
		o.Limits.Block = true
		out := wild(t, o, program, "signal", strconv.Itoa(n))
		handled, _ := strconv.Atoi(strings.TrimSpace(out.stdout))
		if out.ExitCode != 0 || out.Unfinished != 0 || handled < 2 {
			t.Fatalf("%+v, %s, handled %d", out.Result, out.stderr, handled)
		}
		// A handler's call inside another call is counted.
		if g := out.by["aclrtGetDevice"]; g < n || g+int(out.Lost) != n+handled+1 || /* the first one calls twice */ out.by["aclrtSynchronizeStream"] != 1 || out.by["aclInit"] != 1 {
			t.Errorf("calls %v, %d handled", out.by, handled)
		}
		for _, c := range out.calls {
			if c.End < c.Start || c.Ret != 0 {
				t.Fatalf("call %d: from %d to %d, result %d", c.Index, c.Start, c.End, c.Ret)
			}
		}
	})
	t.Run("signal after each instruction", func(t *testing.T) {
		if runtime.GOARCH != "amd64" {
			t.Skip("only on x86-64 a program can have itself stopped after each instruction")
		}
		o := small
		o.Limits.Block = true
		out := wild(t, o, testenv.CompileC(t, "wild_step", []string{source("wild_step.c")}))
		var stepped, handled int
		_, err := fmt.Sscan(out.stdout, &stepped, &handled)
		if err != nil || out.ExitCode != 0 || out.Unfinished != 0 || stepped < 100 {
			t.Fatalf("%+v, %s, %d calls", out.Result, out.stderr, stepped)
		}
		if n := out.by["aclrtSetDevice"] + out.by["aclrtLaunchKernelWithHostArgs"]; n != stepped || out.by["aclrtGetDevice"] != stepped {
			t.Errorf("calls %v, want %d that were stopped in and as many others", out.by, stepped)
		}
		// Some of the handler's calls come before the other call has begun, or after its end. The rest is counted.
		if n := out.by["aclrtMalloc"]; n < 3 || n >= stepped || handled < stepped-4 || n+int(out.Lost) != handled+1 {
			t.Errorf("%d calls of the handler recorded and %d lost, of %d in %d calls", n, out.Lost, handled, stepped)
		}
	})
	// A call that is left by longjmp never ends, and the shim takes the thread's later calls for a part of it. The program goes
	// on.
	t.Run("left by longjmp", func(t *testing.T) {
		out := wild(t, small, program, "longjmp")
		if out.ExitCode != 0 || out.Unfinished != 1 || out.by["aclrtSynchronizeStream"] != 1 || out.by["aclrtGetDevice"] != 10 {
			t.Errorf("calls %v, %+v, %s", out.by, out.Result, out.stderr)
		}
	})
	t.Run("errno", func(t *testing.T) {
		out := wild(t, record.Options{Env: env, Capture: record.Capture{Replayable: true}}, program, "errno")
		if out.ExitCode != 0 || out.by["aclrtGetDevice"] != 100000 {
			t.Errorf("calls %v, %+v, %s", out.by, out.Result, out.stderr)
		}
	})
}

// A crash inside the runtime ends the program as without the recorder, and leaves every call.
func TestWildCrashInside(t *testing.T) {
	object := testenv.CompileC(t, "crash.o", []string{source("wild_crash_kernel.c")}, "-c")
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "crash.so", []string{source("wild_crash_kernel.c")}, "-shared", "-fPIC"))
	program := testenv.CompileC(t, "hang", []string{source("hang.c")})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	want, err := record.RunSimulated(acl.Model, []string{program, object}, null, null)
	if err != nil || want == 0 {
		t.Fatalf("without the recorder: exit code %d, %v", want, err)
	}
	out := wild(t, record.Options{Sim: true}, program, object)
	if out.ExitCode != want || out.by["aclrtLaunchKernelWithHostArgs"] != 1 || len(out.calls) < 6 || !out.r.Complete() {
		t.Errorf("calls %v, %+v, want exit code %d", out.by, out.Result, want)
	}
}

// Invalid arguments that the runtime does not read do not crash the program.
func TestWildArguments(t *testing.T) {
	out := wild(t, record.Options{Sim: true}, testenv.CompileC(t, "arguments", []string{source("arguments.c")}))
	if out.ExitCode != 0 || out.stdout != "refused\n" || out.by["aclrtLaunchKernelWithHostArgs"] != 1 || out.Failed != 1 {
		t.Errorf("calls %v, %+v, %s", out.by, out.Result, out.stderr)
	}
}

// A pipe is not read a second time, since the program would wait for ever.
func TestWildPipe(t *testing.T) {
	program := testenv.CompileC(t, "pipe", []string{source("pipe.c")})
	out := wild(t, record.Options{Sim: true}, program, filepath.Join(t.TempDir(), "pipe"), testenv.Built(t, "lib/aclsim_kernels.o"))
	if out.ExitCode != 0 || out.stdout != "loaded\n" || len(out.calls) != 3 || out.Failed != 0 {
		t.Errorf("calls %v, %+v, %s", out.by, out.Result, out.stderr)
	}
}

// A runtime that is unloaded and loaded again at another address is called there.
func TestWildUnload(t *testing.T) {
	env := fake(t)
	lib := strings.TrimPrefix(env[len(env)-1], "LD_LIBRARY_PATH=")
	program := testenv.CompileC(t, "wild_dlclose", []string{source("wild_dlclose.c")}, "-Wl,--as-needed")
	out := wild(t, record.Options{Env: env}, program, filepath.Join(lib, "libascendcl.so"))
	if out.ExitCode != 0 || out.by["aclrtSetDevice"] != 3 || out.by["aclrtGetDevice"] != 3 {
		t.Errorf("calls %v, %+v, %s", out.by, out.Result, out.stderr)
	}
}

// A program that gains rights works, and is not recorded, even if it is linked to the shim.
func TestWildSetuid(t *testing.T) {
	root(t)
	env := fake(t)
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lib := strings.TrimPrefix(env[len(env)-1], "LD_LIBRARY_PATH=")
	shim := testenv.Built(t, "lib/libacltrace.so")
	for from, to := range map[string]string{shim: "libacltrace.so", filepath.Join(lib, "libascendcl.so"): "libascendcl.so"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := testenv.CompileC(t, "setuid", []string{source("wild_process.c")}, "-Wl,--no-as-needed", filepath.Join(dir, "libacltrace.so"), "-L"+dir, "-Wl,-rpath,"+dir)
	b, err := os.ReadFile(build)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "setuid")
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	start := testenv.CompileC(t, "wild_process", []string{source("wild_process.c")})
	// The program is linked to the shim: only the shim itself keeps it from opening the session.
	session := func(args ...string) (string, sink) {
		s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{RingBytes: 64 << 10}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(env, "ACLTRACE_SESSION="+s.Dir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v, %s", args, err, out)
		}
		n := sink{}
		if err := s.Finish(&n); err != nil {
			t.Fatal(err)
		}
		return string(out), n
	}
	if out, n := session(program, "whoami"); out != "0 0\n" || n.calls != 4 {
		t.Fatalf("without set-uid: %q, %d calls", out, n.calls)
	}
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	out, n := session(start, "become-nobody", program)
	if out == "65534 65534\n" {
		t.Skip("set-uid programs have no effect on this file system")
	}
	if out != "65534 0\n" || n.calls != 0 || n.processes != 0 {
		t.Errorf("set-uid: %q, %+v", out, n)
	}
	// The same under the recorder. A program that has only dropped rights finds the shim and prints nothing.
	for _, p := range []string{program, start} {
		r := wild(t, record.Options{Env: env}, start, "become-nobody", p)
		if r.ExitCode != 0 || !strings.HasPrefix(r.stdout, "65534 ") || r.stderr != "" || len(r.calls) != 0 {
			t.Errorf("%s: %+v, %q, %q", p, r.Result, r.stdout, r.stderr)
		}
	}
}

// sink counts the items that a session reports.
type sink struct {
	calls, processes int
	numbers          []uint64
	lost             uint64
}

func (n *sink) Process(*probe.Process) error   { n.processes++; return nil }
func (n *sink) Payload(*probe.Payload) error   { return nil }
func (n *sink) Gap(g *probe.Gap) error         { n.lost += g.Calls; return nil }
func (n *sink) TaskTime(*probe.TaskTime) error { return nil }

func (n *sink) Call(c *probe.Call) error {
	n.calls++
	n.numbers = append(n.numbers, c.Seq)
	return nil
}

// On a full disk the program runs on, and the file has the calls that could be written.
func TestWildFullDisk(t *testing.T) {
	disk := tmpfs(t, "6m")
	program := testenv.CompileC(t, "wild_thread", []string{source("wild_thread.c")})
	trace := filepath.Join(disk, "run.aclt")
	out := wild(t, record.Options{Env: fake(t), Capture: record.Capture{Replayable: true}, Output: trace}, program, "copy", "300")
	if out.ExitCode != 6 || out.stdout != "done\n" {
		t.Errorf("exit code %d, output %q", out.ExitCode, out.stdout)
	}
	if out.Incomplete == nil || !strings.Contains(out.Incomplete.Error(), trace) || !strings.Contains(out.Incomplete.Error(), "no space left") {
		t.Errorf("the error is %v", out.Incomplete)
	}
	whole := 0
	for _, c := range out.calls {
		for _, d := range c.Data {
			if _, err := out.r.Blob(d.Blob); err == nil {
				whole++
			} else if !strings.Contains(err.Error(), "could not be written") {
				t.Errorf("call %d: %v", c.Index, err)
			}
		}
	}
	if whole < 3 || out.r.Meta().Replayable {
		t.Errorf("%d calls, %d payloads, replayable %v", len(out.calls), whole, out.r.Meta().Replayable)
	}
}

// small runs a command line in its own mount namespace, whose /dev/shm has a size. It returns the standard output and error, the
// exit code, and the files that are left in /dev/shm and the folder for temporary files.
func small(t *testing.T, size string, env []string, args ...string) (stdout, stderr string, code int, left string) {
	t.Helper()
	root(t)
	tmp := t.TempDir()
	script := `mount -t tmpfs -o size=$1 none /dev/shm || exit 77; shift; "$@"; code=$?; find /dev/shm "$TMPDIR" -mindepth 1 >&3; exit $code`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", size}, args...)...)
	cmd.Env = append(env, "TMPDIR="+tmp)
	// The mount is private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	list, err := os.Create(filepath.Join(t.TempDir(), "left"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	cmd.ExtraFiles = []*os.File{list}
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Skipf("no mount namespace can be made here: %v", err)
	}
	if code = cmd.ProcessState.ExitCode(); code == 77 {
		t.Skipf("nothing can be mounted here: %s", errs.String())
	}
	b, err := os.ReadFile(list.Name())
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code, string(b)
}

// A small /dev/shm makes buffers smaller. At worst it costs threads, whose calls are counted, and never the program. No file is left in it or in
// another folder.
func TestWildSmallMemory(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	program := testenv.CompileC(t, "wild_thread", []string{source("wild_thread.c")})
	env := fake(t)
	for _, c := range []struct {
		size, ring, says string
		code             int
	}{
		{"64m", "64K", " 1,000 calls, ", 0},
		{"64m", "8M", " 1,000 calls, ", 0},
		{"2m", "64K", "threads NOT RECORDED: no memory", 0},
		{"1m", "8M", "docker run --shm-size", 0},
		{"512k", "64K", "threads NOT RECORDED: no memory", 0}, // a ring of 64 KiB is at most half of what is left
		{"400k", "64K", "1,000 calls of 20 threads NOT RECORDED: no memory", 0},
		{"64k", "64K", "no space left on device", 125}, // too small for the table of threads
	} {
		t.Run(c.size, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "run.aclt")
			stdout, stderr, code, left := small(t, c.size, env, acltrace, "record", "--ring-size", c.ring, "-o", trace, "--", program, "many", "20")
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, want %d; stderr %q does not say %q", code, c.code, stderr, c.says)
			}
			if left != "" {
				t.Errorf("left behind: %s", left)
			}
			if code == 0 {
				if n, lost := sum(t, trace); n+lost != 1000 {
					t.Errorf("%d calls recorded and %d lost, of 1000", n, lost)
				}
			}
		})
	}
}

// sum returns how many calls a trace has, and how many were lost.
func sum(t *testing.T, trace string) (recorded, lost int) {
	t.Helper()
	r := open(t, trace)
	for _, g := range r.Gaps() {
		lost += int(g.Calls)
	}
	return len(calls(t, r)), lost
}

// With 64 MiB of /dev/shm, as containers of Docker have, two threads got all the memory, and the calls of the others were not counted. Later, a
// quarter of 10,000 threads got none: a thread had its ring until the recorder had emptied it, and 76 rings took all the memory.
func TestManyThreadsInASmallFolder(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	program := testenv.CompileC(t, "crowd", []string{source("crowd.c")})
	env := fake(t)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"16 threads of 10,000 calls a second", []string{"16", "1", "10000", "1000"}},
		{"10,000 short threads, 100 at a time", []string{"100", "100", "20", "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "run.aclt")
			args := append([]string{acltrace, "record", "-f", "-o", trace, "--", program}, c.args...)
			for range 3 { // a recorder that gets no core for a second may lose calls
				stdout, stderr, code, _ := small(t, "64m", env, args...)
				made, _ := strconv.Atoi(strings.TrimSpace(stdout))
				n, lost := sum(t, trace)
				if code != 0 || made == 0 || n+lost != made {
					t.Fatalf("exit code %d, %d calls made, %d recorded, %d lost: %s", code, made, n, lost, stderr)
				}
				if refused := open(t, trace).Meta().Coverage.Refused; refused > 0 || n < made/4 {
					t.Fatalf("%d calls recorded of %d, %d threads refused: %s", n, made, refused, stderr)
				}
				if lost == 0 {
					return
				}
			}
			t.Error("calls are lost each time")
		})
	}
}

// A program's output is the same with and without the recorder, to the byte, if it calls the runtime.
func TestWildOutput(t *testing.T) {
	acltrace, hello := testenv.Built(t, "bin/acltrace"), testenv.Example(t, "hello")
	for _, c := range [][]string{
		{testenv.Example(t, "tiny_decoder"), "--tokens", "3", "--quiet"},
		{hello},
		{"/bin/sh", "-c", "echo out; echo err >&2; " + hello + "; exec /bin/false"},
		{testenv.CompileC(t, "hang", []string{source("hang.c")}), "/nothing/here"}, // prints the runtime's own message
	} {
		var got [2][3]string
		for i, how := range [][]string{{"sim", "--"}, {"record", "--sim", "-q", "-o", filepath.Join(t.TempDir(), "run.aclt"), "--"}} {
			cmd := exec.Command(acltrace, append(how, c...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			got[i] = [3]string{out.String(), errs.String(), strconv.Itoa(cmd.ProcessState.ExitCode())}
		}
		if got[0] != got[1] {
			t.Errorf("%v: without %q, recorded %q", c, got[0], got[1])
		}
	}
}

// A program that outlives the recorded command finds the shim as long as it runs.
func TestWildShimOutlives(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	command := fmt.Sprintf("(while [ ! -e %s.go ]; do sleep 0.02; done; /bin/true; echo end) >%s.part 2>&1 && mv %s.part %s & exit 0", done, done, done, done)
	out := wild(t, record.Options{}, "/bin/sh", "-c", command)
	if out.ExitCode != 0 {
		t.Errorf("exit code %d", out.ExitCode)
	}
	if err := os.WriteFile(done+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var wrote []byte
	testenv.Wait(t, "the program that outlives the recording", func() bool {
		var err error
		wrote, err = os.ReadFile(done)
		return err == nil
	})
	if string(wrote) != "end\n" {
		t.Errorf("a program that outlived the recording wrote %q", wrote)
	}
}

// A trace's name may have the host, the PID and the rank.
func TestWildName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RANK", "5")
	testenv.Built(t, "lib/libacltrace.so")
	o := record.Options{Model: acl.Model, Output: filepath.Join(dir, "%h.%r.%p.aclt"), Sim: true, Command: []string{testenv.Example(t, "hello")}}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o.Stdout = null
	res, err := record.Run(context.Background(), &o)
	if err != nil || res.Incomplete != nil {
		t.Fatal(err, res)
	}
	r := open(t, res.Output)
	host, _ := os.Hostname()
	if want := fmt.Sprintf("%s.5.%d.aclt", host, r.Processes()[0].PID); filepath.Base(res.Output) != want {
		t.Errorf("the trace is %s, not %s", res.Output, want)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("files: %v", files)
	}
}

// cgroup creates a cgroup with a controller during a test, and reports whether it has version 2.
func cgroup(t *testing.T, controller string) (dir string, v2 bool) {
	t.Helper()
	root(t)
	dir = filepath.Join("/sys/fs/cgroup", controller)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, v2 = "/sys/fs/cgroup", true
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
	dir, err := os.MkdirTemp(dir, "acltrace-test-")
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		if !testenv.Await(func() bool {
			err = os.Remove(dir)
			return err == nil
		}) {
			t.Error(err)
		}
	})
	return dir, v2
}

// group creates a memory cgroup with a limit in bytes during a test. It returns its folder, and a function that counts processes
// that were killed in it for lack of memory.
func group(t *testing.T, limit int) (dir string, killed func() string) {
	t.Helper()
	dir, v2 := cgroup(t, "memory")
	file, events := "memory.limit_in_bytes", "memory.oom_control"
	if v2 {
		file, events = "memory.max", "memory.events"
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		t.Skipf("no memory cgroup here: %v", err)
	}
	return dir, func() string {
		b, err := os.ReadFile(filepath.Join(dir, events))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(n)
			}
		}
		return ""
	}
}

// A recorder with a hundredth of a core costs calls, or time if the program waits for it, and never the program: each call is in the
// trace or in a gap.
func TestWildStarvedRecorder(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	program := testenv.CompileC(t, "threads", []string{source("threads.c")})
	dir, v2 := cgroup(t, "cpu")
	file, little, all := "cpu.cfs_quota_us", "1000", "-1" // per 100 ms
	if v2 {
		file, little, all = "cpu.max", "1000 100000", "max"
	}
	quota := filepath.Join(dir, file)
	for _, c := range []struct {
		policy string
		calls  int
	}{{"drop", 200000}, {"block", 20000}} {
		t.Run(c.policy, func(t *testing.T) {
			if err := os.WriteFile(quota, []byte(little), 0); err != nil {
				t.Skipf("no cpu cgroup here: %v", err)
			}
			trace := filepath.Join(t.TempDir(), "run.aclt")
			// The recorder is the program's parent. At the end it may finish at full speed.
			script := fmt.Sprintf(`echo $PPID >%s/cgroup.procs || exit 77; %s 2 %d; code=$?; echo %s >%s; exit $code`, dir, program, c.calls, all, quota)
			cmd := exec.Command(acltrace, "record", "--sim", "--policy", c.policy, "--ring-size", "64K", "-o", trace, "--", "/bin/sh", "-c", script)
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			r := open(t, trace)
			n := len(calls(t, r))
			var lost uint64
			for _, g := range r.Gaps() {
				lost += g.Calls
			}
			if want := uint64(2*c.calls + 2); uint64(n)+lost != want || c.policy == "drop" && lost == 0 || !r.Complete() {
				t.Errorf("%d calls recorded and %d lost, of %d", n, lost, want)
			}
			t.Logf("%d calls recorded, %d lost", n, lost)
		})
	}
}

// If a memory cgroup, the program's own or a shared one, has little room for rings, they are smaller. At worst threads are not recorded, which is
// reported, and their calls are counted. No process is killed. The free memory is left to the program.
func TestWildMemoryCgroup(t *testing.T) {
	program := testenv.CompileC(t, "wild_thread", []string{source("wild_thread.c")})
	acltrace := testenv.Built(t, "bin/acltrace")
	env := fake(t)
	const into = `echo $$ >"$0/cgroup.procs" && exec "$@"`
	for _, c := range []struct {
		name     string
		limit    int
		threads  int
		min, max int // recorded threads
	}{
		{"some", 40 << 20, 200, 20, 160},
		{"all", 40 << 20, 12, 12, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, killed := group(t, c.limit)
			out := wild(t, record.Options{Env: env}, "/bin/sh", "-c", into, dir, program, "many", strconv.Itoa(c.threads))
			if n := len(out.calls) / 50; out.ExitCode != 0 || n < c.min || n > c.max || n+out.Refused != c.threads || len(out.calls)+int(out.Lost) != 50*c.threads || killed() != "0" {
				t.Errorf("%d threads recorded, %+v, %s processes killed, %s", n, out.Result, killed(), out.stderr)
			}
			if n := out.r.Meta().Coverage.Refused; n != out.Refused {
				t.Errorf("the trace says that %d threads are missing, the result %d", n, out.Refused)
			}
		})
		t.Run(c.name+", with the recorder", func(t *testing.T) {
			dir, killed := group(t, c.limit+64<<20)
			trace := filepath.Join(t.TempDir(), "run.aclt")
			cmd := exec.Command("/bin/sh", "-c", into, dir, acltrace, "record", "--replayable", "-o", trace, "--", program, "many", strconv.Itoa(c.threads))
			cmd.Env = env
			b, err := cmd.CombinedOutput()
			if err != nil || killed() != "0" || strings.Contains(string(b), "LOST") {
				t.Errorf("%v, %s processes killed, %s", err, killed(), b)
			}
		})
	}
}

// In a container, the limit of a version 2 cgroup is in the topmost folder.
func TestWildMemoryCgroupVersion2(t *testing.T) {
	root(t)
	if b, _ := os.ReadFile("/proc/self/cgroup"); !bytes.Contains(b, []byte("0::/")) {
		t.Skip("this kernel has no cgroups of version 2")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespaces can be made here, as in a chroot: %v", err)
	}
	program := testenv.CompileC(t, "wild_thread", []string{source("wild_thread.c")})
	env := fake(t)
	const script = `mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && echo $0 >memory.max && echo 900000000 >memory.current &&
		printf 'anon 1\nactive_file 7\ninactive_file %s\nother 3\n' $1 >memory.stat && shift && exec "$@"`
	for _, c := range []struct {
		max, cached string
		refused     int
	}{{"max", "0", 0}, {"900200000", "0", 1}, {"900200000", "800000000", 0}, {"800000000", "0", 1}} {
		out := wild(t, record.Options{Env: env}, "/usr/bin/unshare", "-m", "/bin/sh", "-c", script, c.max, c.cached, program, "many", "1")
		if out.ExitCode != 0 || out.Refused != c.refused || len(out.calls) != 50*(1-c.refused) {
			t.Errorf("%+v: %d calls, %+v, %s", c, len(out.calls), out.Result, out.stderr)
		}
	}
}

// A recording inside another one takes over its programs: each call is in one trace, and the outer trace names the inner one.
func TestWildNested(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	program := testenv.CompileC(t, "wild_process", []string{source("wild_process.c")})
	env := fake(t)
	for _, bind := range []string{"preload", "audit"} {
		t.Run(bind, func(t *testing.T) {
			inner := filepath.Join(t.TempDir(), "inner.aclt")
			script := fmt.Sprintf("%s use; %s record -q --bind %s -o %s -- %s spawn; %s use", program, acltrace, bind, inner, program, program)
			out := wild(t, record.Options{Env: env, Capture: record.Capture{Bind: bind}}, "/bin/sh", "-c", script)
			r := open(t, inner)
			n := len(calls(t, r))
			if out.ExitCode != 0 || out.stderr != "" || len(out.calls) != 4+4 || n != 9 || out.Processes != 2 || len(r.Processes()) != 2 {
				t.Errorf("%d calls in the outer trace, %d in the inner; %+v, %s", len(out.calls), n, out.Result, out.stderr)
			}
			us := out.r.Meta().Coverage.Unhooked
			if len(us) != 1 || us[0].Exe != program || !strings.Contains(us[0].Reason, "another acltrace records this process and its children, in "+inner) || us[0].PID != r.Processes()[0].PID {
				t.Errorf("the outer trace says %+v", us)
			}
			if us := r.Meta().Coverage.Unhooked; len(us) != 0 {
				t.Errorf("the inner trace says %+v", us)
			}
		})
	}
}
