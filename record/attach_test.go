package record_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
)

// decoder returns a program that launches kernels until it is killed. It has its own name and copies of the libraries.
func decoder(t *testing.T, name, libraries string, before ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	b, err := os.ReadFile(testenv.Example(t, "tiny_decoder"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	kernels := testenv.Built(t, "bin/examples/decoder_kernels.o")
	command := append(before, program, "--kernels", kernels, "--tokens", "100000", "--sleep-ms", "10", "--quiet")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// attach records until during returns, and returns the trace.
func attach(t *testing.T, o record.AttachOptions, during func(l *launches)) (*format.Reader, *record.Result) {
	t.Helper()
	o.Model, o.Output = acl.Model, filepath.Join(t.TempDir(), "run.aclt")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := &launches{of: map[int]int{}}
	o.Follower = l
	go func() {
		defer stop()
		if testenv.Await(func() bool { return attached(o.Output) || ctx.Err() != nil }) {
			during(l)
		}
	}()
	res, err := record.Attach(ctx, &o)
	testenv.Uprobes(t, err)
	if res.Incomplete != nil || res.Lost != 0 {
		t.Errorf("%+v", res)
	}
	return open(t, o.Output), res
}

// attached reports whether a trace has begun, which it does after the probes are attached.
func attached(trace string) bool {
	_, err := os.Stat(trace)
	return err == nil
}

// launches counts the launches during a recording.
type launches struct {
	sync.Mutex
	pids []int // by process
	at   []int // by thread
	of   map[int]int
	all  int // calls, whatever they are
}

func (l *launches) Begin(*format.Meta) {}
func (l *launches) Process(p *format.Process) {
	l.pids = append(l.pids, p.PID)
}
func (l *launches) Thread(t *format.Thread) {
	l.at = append(l.at, l.pids[t.Process])
}
func (l *launches) Call(c *format.Call, _ bool) {
	l.Lock()
	l.all++
	l.Unlock()
	if f := acl.Model.Func(api.ID(c.Func)); f != nil && f.Name == "aclrtLaunchKernelWithHostArgs" {
		l.Lock()
		l.of[l.at[c.Thread]]++
		l.Unlock()
	}
}
func (l *launches) Device(uint32, *format.ProcessDevice) {}

func (l *launches) Measured(uint64, int64, int64) {}
func (l *launches) Gap(*format.Gap)               {}
func (l *launches) Drained(int64)                 {}
func (l *launches) End(int64)                     {}

// launching waits until n processes have launched many kernels.
func launching(t *testing.T, processes int) func(*launches) {
	return func(l *launches) {
		if !testenv.Await(func() bool {
			l.Lock()
			defer l.Unlock()
			n := 0
			for _, k := range l.of {
				if k > 800 {
					n++
				}
			}
			return n >= processes
		}) {
			t.Errorf("the launches of %d processes do not come, but %v", processes, l.of)
		}
	}
}

// launchers returns the processes in a trace that have launched kernels.
func launchers(t *testing.T, r *format.Reader) (pids []int) {
	t.Helper()
	launches := map[int]int{}
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) == "aclrtLaunchKernelWithHostArgs" {
			launches[r.Processes()[r.Threads()[c.Thread].Process].PID]++
		}
	}
	for pid, n := range launches {
		if n > 10 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// Present and future processes with a name are recorded, and no others.
func TestAttachByName(t *testing.T) {
	lib := ownLibraries(t)
	old := decoder(t, "named-decoder", lib)
	decoder(t, "other-decoder", lib)
	var young *exec.Cmd
	r, _ := attach(t, record.AttachOptions{Comm: "named-decoder"}, func(l *launches) {
		young = decoder(t, "named-decoder", lib)
		launching(t, 2)(l)
		if m := record.RuntimeOf([]*api.Model{cuda.Model, acl.Model}, &record.AttachOptions{Comm: "named-decoder"}); m != acl.Model {
			t.Errorf("the runtime of the processes of a name: %s", m.Name)
		}
	})
	want := []int{old.Process.Pid, young.Process.Pid}
	slices.Sort(want)
	if got := launchers(t, r); !slices.Equal(got, want) {
		t.Errorf("launches of %v, want of %v", got, want)
	}
}

// Recorded calls are written to the disk soon, so that they survive a killed recorder.
func TestAttachWritesMeanwhile(t *testing.T) {
	program := decoder(t, "decoder", ownLibraries(t)).Process
	l := &launches{of: map[int]int{}}
	o := record.AttachOptions{PID: program.Pid, Options: record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "run.aclt"), Follower: l}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read := make(chan bool, 1)
	go func() {
		defer stop()
		if !testenv.Await(func() bool { return attached(o.Output) || ctx.Err() != nil }) || ctx.Err() != nil {
			read <- false
			return
		}
		launching(t, 1)(l)
		_ = program.Signal(syscall.SIGSTOP) // before a full block is written
		read <- testenv.Await(func() bool { return unfinished(o.Output) > 800 })
	}()
	_, err := record.Attach(ctx, &o)
	stop()
	testenv.Uprobes(t, err)
	if !<-read {
		t.Error("what was recorded could not be read before the end")
	}
}

// unfinished returns how many calls can be read from a trace that is still being written.
func unfinished(trace string) (calls int) {
	r, err := format.Open(trace, nil)
	if err != nil {
		return 0
	}
	defer r.Close()
	for _, err := range r.Calls(nil) {
		if err != nil || r.Complete() {
			return 0
		}
		calls++
	}
	return calls
}

// Probes are attached to a working program that the shim records, and removed again. The calls that the probes saw are a part of
// those that the shim saw, word by word and without a gap. The program goes on calling.
func TestAttachAgainstShim(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	program := testenv.Example(t, "tiny_decoder")
	ownLibraries(t)
	l := &launches{of: map[int]int{}}
	o := record.Options{Model: acl.Model, Sim: true, Capture: record.Capture{Calls: record.Calls{NoTaskIDs: true}}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Follower: l, Output: filepath.Join(t.TempDir(), "shim.aclt"),
		Command: []string{program, "--tokens", "100000", "--sleep-ms", "100", "--quiet"}}
	ended := make(chan error, 1)
	go func() {
		_, err := record.Run(context.Background(), &o)
		ended <- err
	}()
	seen := func() (pid, n int) {
		l.Lock()
		defer l.Unlock()
		for pid, n = range l.of {
		}
		return pid, n
	}
	more := func(what string, than int) (n int) {
		testenv.Wait(t, what, func() bool { _, n = seen(); return n > than || len(ended) > 0 })
		return n
	}
	if more("a program in the middle of its work", 100) <= 100 {
		t.Fatalf("the program has ended: %v", <-ended)
	}
	pid, _ := seen()
	kill := sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	defer kill()
	trace := filepath.Join(t.TempDir(), "attached.aclt")
	attach := exec.Command(acltrace, "attach", "--pid", fmt.Sprint(pid), "-o", trace)
	var said bytes.Buffer
	attach.Stderr = &said
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() { left <- attach.Wait() }()
	testenv.Await(func() bool { return unfinished(trace) > 800 || len(left) > 0 })
	_ = attach.Process.Signal(os.Interrupt)
	err := <-left
	if out := said.String(); err != nil && (strings.Contains(out, "not permitted") || strings.Contains(out, "not support")) {
		testenv.Uprobes(t, fmt.Errorf("%w: %s", err, out))
	}
	if err != nil {
		t.Fatalf("%v %s", err, said.String())
	}
	_, n := seen()
	more("launches of a program that was left", n+100)
	kill()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	a, b := open(t, o.Output), open(t, trace)
	if aw, bw := a.Meta().Window, b.Meta().Window; aw != format.WindowWhole || bw != format.WindowAttached {
		t.Errorf("the windows are %s and %s", aw, bw) // regression: attach --pid said whole
	}
	as, bs := calls(t, a), calls(t, b)
	if len(bs) < 800 || len(bs) >= len(as) {
		t.Fatalf("the shim recorded %d calls, the uprobes %d", len(as), len(bs))
	}
	same := func(x, y *format.Call) bool {
		for _, d := range y.Data {
			i := slices.IndexFunc(x.Data, func(e format.Data) bool { return e.Param == d.Param && e.Item == d.Item && e.Dir == d.Dir })
			if i >= 0 && d.Bytes != nil && !bytes.Equal(x.Data[i].Bytes, d.Bytes) {
				return false // for example a launch for another token
			}
		}
		return x.Func == y.Func && slices.Equal(x.Args, y.Args) && (y.Flags&format.Unfinished != 0 || x.Ret == y.Ret && slices.Equal(stored(x), stored(y)))
	}
	best, at := 0, 0
	for from := range as[:len(as)-len(bs)] {
		n := 0
		for n < len(bs) && same(as[from+n], bs[n]) {
			n++
		}
		if n > best {
			best, at = n, from
		}
	}
	if best < len(bs) {
		t.Errorf("the calls that the uprobes have seen are not such that the shim has: %d of %d are, then one has %v where the other has %v", best, len(bs), bs[best], as[at+best])
	}
	ad, bd := late(t, a), late(t, b)
	for i := range best {
		x, y := as[at+i], bs[i]
		if y.Flags&format.Unfinished == 0 {
			compareData(t, acl.Model, a, b, x, append(x.Data, ad[x.Index]...), append(y.Data, bd[y.Index]...))
		}
	}
}

// Each thread is recorded from one call to another without a gap, although the kernel attaches and removes the probes one function
// at a time while the threads call.
func TestAttachLeavesNoHoles(t *testing.T) {
	cycle := []string{"aclrtMalloc", "aclrtMemset", "aclrtGetDevice", "aclrtMallocHost", "aclrtCreateStream", "aclrtMemcpyAsync", "aclrtCreateEvent", "aclrtRecordEvent",
		"aclrtStreamQuery", "aclrtSynchronizeEvent", "aclrtDestroyEvent", "aclrtSynchronizeStream", "aclrtDestroyStream", "aclrtFreeHost", "aclrtFree"}
	program := testenv.CompileC(t, "cycle", []string{source("cycle.c")}, "-lpthread")
	cmd := exec.Command(program, "3")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+ownLibraries(t))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	testenv.Wait(t, "a program in the middle of its work", func() bool { return ran(cmd.Process.Pid) > 20 })
	for range 3 {
		r, _ := attach(t, record.AttachOptions{PID: cmd.Process.Pid}, func(l *launches) {
			testenv.Await(func() bool {
				l.Lock()
				defer l.Unlock()
				return l.all > 1000
			})
		})
		at := map[uint32]int{}
		for _, c := range calls(t, r) {
			f := r.Schema().FuncName(c.Func)
			is := slices.Index(cycle, f)
			if was, ok := at[c.Thread]; ok && is != (was+1)%len(cycle) {
				t.Errorf("call %d of thread %d is %s, after %s", c.Index, c.Thread, f, cycle[was])
			}
			at[c.Thread] = is
		}
		if len(at) == 0 {
			t.Error("no thread was recorded")
		}
	}
}

// All processes that map the library are recorded.
func TestAttachToAll(t *testing.T) {
	lib := ownLibraries(t)
	a := decoder(t, "decoder", lib)
	var b *exec.Cmd
	r, _ := attach(t, record.AttachOptions{All: true, Options: record.Options{Capture: record.Capture{Library: filepath.Join(lib, "libascendcl.so")}}}, func(l *launches) {
		b = decoder(t, "decoder", lib)
		launching(t, 2)(l)
	})
	want := []int{a.Process.Pid, b.Process.Pid}
	slices.Sort(want)
	if got := launchers(t, r); !slices.Equal(got, want) {
		t.Errorf("launches of %v, want of %v", got, want)
	}
}

// Processes in a control group are recorded, with cgroup version 1 and 2.
func TestAttachToGroup(t *testing.T) {
	tried := false
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		group := filepath.Join(root, fmt.Sprintf("acltrace-test-%d", os.Getpid()))
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil || os.MkdirAll(filepath.Join(group, "below"), 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			_ = os.Remove(filepath.Join(group, "below"))
			_ = os.Remove(group)
		})
		if _, err := os.Stat(filepath.Join(group, "cgroup.procs")); err != nil {
			continue // a folder above control groups
		}
		tried = true
		t.Run(filepath.Base(root), func(t *testing.T) {
			lib := ownLibraries(t)
			in, out := decoder(t, "decoder", lib), decoder(t, "decoder", lib)
			if err := os.WriteFile(filepath.Join(group, "below", "cgroup.procs"), []byte(fmt.Sprint(in.Process.Pid)), 0o644); err != nil {
				t.Skipf("no process can be moved there: %v", err)
			}
			r, _ := attach(t, record.AttachOptions{Cgroup: group}, launching(t, 1))
			if got := launchers(t, r); !slices.Equal(got, []int{in.Process.Pid}) {
				t.Errorf("launches of %v, want of %d and not of %d", got, in.Process.Pid, out.Process.Pid)
			}
		})
	}
	if !tried {
		t.Skip("no control group can be made here")
	}
}

// A program in other mount and PID namespaces is recorded. Its library is visible only there.
func TestAttachToContainer(t *testing.T) {
	if err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	lib := ownLibraries(t)
	hidden := t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %s && cp -L %s/*.so %s && LD_LIBRARY_PATH=%s exec \"$@\"", hidden, lib, hidden, hidden)
	outer := decoder(t, "contained", lib, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh")
	pid := contained(t, outer)
	if _, err := os.Stat(filepath.Join(hidden, "libascendcl.so")); err == nil {
		t.Fatal("the library is seen from outside")
	}
	r, _ := attach(t, record.AttachOptions{PID: pid}, launching(t, 1))
	if got := launchers(t, r); !slices.Equal(got, []int{pid}) {
		t.Errorf("launches of %v, want of %d", got, pid)
	}
	if got := r.Meta().Libraries; len(got) == 0 || !strings.HasPrefix(got[0].Path, hidden) {
		t.Errorf("libraries %+v", got)
	}
}

// contained waits until a process in a new namespace maps the library, and returns it.
func contained(t *testing.T, outer *exec.Cmd) (pid int) {
	t.Helper()
	testenv.Wait(t, "a contained program that maps the library", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", outer.Process.Pid, outer.Process.Pid))
		_, err := fmt.Sscan(string(children), &pid)
		return err == nil && mapsLibrary(pid, "libascendcl")
	})
	return pid
}

// A library in an overlay file system, as in containers, is found and probed, in a lower layer and in the top one.
func TestAttachToOverlay(t *testing.T) {
	if err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	if b, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(b), "overlay") {
		t.Skip("the kernel has no overlay file system")
	}
	for name, change := range map[string]string{"below": "true", "on top": "touch all/libascendcl.so"} {
		t.Run(name, func(t *testing.T) {
			lib, dir := ownLibraries(t), t.TempDir()
			script := fmt.Sprintf("mount -t tmpfs none %[1]s && cd %[1]s && mkdir below top work all && cp -L %[2]s/*.so below && mount -t overlay none -o lowerdir=below,upperdir=top,workdir=work all && %[3]s && LD_LIBRARY_PATH=%[1]s/all exec \"$@\"", dir, lib, change)
			pid := contained(t, decoder(t, "overlaid", lib, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh"))
			r, _ := attach(t, record.AttachOptions{PID: pid}, launching(t, 1))
			if got := launchers(t, r); !slices.Equal(got, []int{pid}) {
				t.Errorf("launches of %v, want of %d", got, pid)
			}
			if got := r.Meta().Libraries; len(got) == 0 || !strings.HasPrefix(got[0].Path, filepath.Join(dir, "all")) {
				t.Errorf("libraries %+v", got)
			}
			if got := r.Meta().Ended; !strings.Contains(got, "still running") {
				t.Errorf("the end of a program that runs on: %q", got)
			}
		})
	}
}

func mapsLibrary(pid int, library string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return strings.Contains(string(b), library)
}

// A library that a program opens later, from a folder that is not searched, is recorded from then on, and reported as late.
// Attach to a launcher, as $! often is, asked for a library's name.
func TestAttachToALauncherNamesTheProgram(t *testing.T) {
	cmd := decoder(t, "launched", ownLibraries(t), "timeout", "600")
	children := fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid)
	want := ""
	testenv.Wait(t, "the program maps the library", func() bool {
		b, _ := os.ReadFile(children)
		want = strings.TrimSpace(string(b))
		maps, _ := os.ReadFile("/proc/" + want + "/maps")
		return want != "" && strings.Contains(string(maps), "libascendcl")
	})
	pid, _ := strconv.Atoi(want)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	o := &record.AttachOptions{PID: cmd.Process.Pid}
	o.Model, o.Output = acl.Model, filepath.Join(t.TempDir(), "run.aclt")
	if _, err := record.Attach(t.Context(), o); err == nil || !strings.Contains(err.Error(), "its descendant "+want+" does") {
		testenv.Uprobes(t, err)
		t.Errorf("%v, want one that names %s", err, want)
	}
}

func TestAttachToLibraryLoadedLater(t *testing.T) {
	lib := ownLibraries(t)
	program := testenv.CompileC(t, "later", []string{source("later.c")}, "-ldl")
	var n map[string]int
	var res *record.Result
	for pause := 500 * time.Millisecond; res == nil || n["aclInit"] == 0 && pause < testenv.Patience; pause *= 4 { // the probes come later on a busy machine
		cmd := exec.Command(program, filepath.Join(lib, "libascendcl.so"))
		in, _ := cmd.StdinPipe()
		stdout, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill() }()
		out := bufio.NewReader(stdout)
		if line, _ := out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("the program says %q", line)
		}
		var r *format.Reader
		r, res = attach(t, record.AttachOptions{Comm: "later"}, func(*launches) {
			_, _ = io.WriteString(in, "\n")
			if line, _ := out.ReadString('\n'); line != "opened\n" {
				t.Errorf("the program says %q", line)
			}
			time.Sleep(pause)
			_, _ = io.WriteString(in, "\n")
			if err := cmd.Wait(); err != nil {
				t.Errorf("the program: %v", err)
			}
		})
		n = count(calls(t, r), r)
	}
	if n["aclInit"] != 1 || n["aclFinalize"] != 1 {
		t.Errorf("calls: %v", n)
	}
	if len(res.Unhooked) != 1 || !strings.Contains(res.Unhooked[0].Reason, "was found late") {
		t.Errorf("unhooked: %+v", res.Unhooked)
	}
}

// A user with five capabilities, or three if the kernel attaches probes one by one, attaches to root's program and drops all other
// capabilities. Without them, the error lists the missing ones and the command that grants them.
func TestAttachWithCapabilities(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can hand out capabilities")
	}
	acltrace := testenv.Built(t, "bin/acltrace")
	lib := ownLibraries(t)
	c := decoder(t, "decoder", lib)
	dir, err := os.MkdirTemp("", "capabilities")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	_ = os.Chmod(dir, 0o777|os.ModeSticky)
	copied := filepath.Join(dir, "acltrace") // another user may not be able to read the built one
	b, err := os.ReadFile(acltrace)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(dir, "run.aclt")
	command := func(caps []uintptr, args ...string) *exec.Cmd {
		cmd := exec.Command(copied, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
		return cmd
	}
	needed := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
	names := "cap_bpf,cap_perfmon,cap_checkpoint_restore,cap_sys_ptrace,cap_dac_read_search"
	if ways := uprobe.Try(acl.Model, false); ways[len(ways)-1].OneByOne {
		needed = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
		names = "cap_sys_admin,cap_sys_ptrace,cap_dac_read_search"
	}
	cmd := command(append(needed, unix.CAP_NET_ADMIN), "attach", "--pid", fmt.Sprint(c.Process.Pid), "-o", trace)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Skipf("capabilities can't be handed out here: %v", err)
	}
	kept := uint64(0)
	for _, c := range needed {
		kept |= 1 << c
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	dropped, from := false, 0
	if !testenv.Await(func() bool {
		if !dropped && effective(cmd.Process.Pid) == kept {
			dropped, from = true, ran(c.Process.Pid)
		}
		return dropped && ran(c.Process.Pid) > from+20 || len(ended) > 0
	}) {
		t.Errorf("the capability that is not needed is given up: %v; the program ran for %d ticks since", dropped, ran(c.Process.Pid)-from)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := <-ended; err != nil {
		if strings.Contains(said.String(), "does not support") {
			t.Skip(said.String())
		}
		t.Fatalf("%v %s", err, said.String())
	}
	if got := launchers(t, open(t, trace)); !slices.Equal(got, []int{c.Process.Pid}) {
		t.Errorf("launches of %v, want of %d: %s", got, c.Process.Pid, said.String())
	}
	recorder := command(append(needed, unix.CAP_NET_ADMIN), "record", "--probe", "ebpf", "-q", "-o", filepath.Join(dir, "recorded.aclt"), "--", "sh", "-c", fmt.Sprintf("for i in $(seq 6000); do grep -q 'CapEff:.%016x$' /proc/$PPID/status && break; sleep 0.02; done; grep CapEff /proc/$PPID/status", kept))
	recorder.Env = append(recorder.Env, "LD_LIBRARY_PATH="+lib)
	var errs strings.Builder // has that no call was recorded
	recorder.Stderr = &errs
	if out, err := recorder.Output(); err != nil || string(out) != fmt.Sprintf("CapEff:\t%016x\n", kept) {
		t.Errorf("a recorder that has started its program: %v\n%s%s", err, out, errs.String())
	}
	for _, have := range [][]uintptr{nil, needed[:1]} { // the command names present ones, too, since it replaces them
		out, err := command(have, "doctor").Output()
		if want := "sudo setcap " + names + "+ep " + copied; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("doctor with capabilities %v: %v\n%s", have, err, out)
		}
	}
	if out, err := command(nil, "attach", "--pid", fmt.Sprint(c.Process.Pid)).CombinedOutput(); err == nil || !strings.Contains(string(out), "acltrace doctor") {
		t.Errorf("attach without capabilities: %v\n%s", err, out)
	}
	if out, _ := command(needed, "doctor").Output(); strings.Contains(string(out), "setcap") {
		t.Errorf("doctor with what is needed:\n%s", out)
	}
}

// ran returns the processor time of a process in ticks.
func ran(pid int) int { return int(procstat.Read(pid).CPU / procstat.Tick) }

// effective returns the capabilities that a process has.
func effective(pid int) (caps uint64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(b), "CapEff:")
	line, _, _ := strings.Cut(after, "\n")
	caps, _ = strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return caps
}

// A call during which the recording ended counted as one that never returned, and a thread that stood in a call since before the recording was not
// mentioned.
func TestAttachToStandingThreads(t *testing.T) {
	program := exec.Command(testenv.CompileC(t, "standing", []string{source("standing.c")}, "-pthread"))
	program.Env = append(os.Environ(), "LD_LIBRARY_PATH="+ownLibraries(t))
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	pid := program.Process.Pid
	// asleep reports whether a thread with a name sleeps in a wait for another thread, that is in no call of the system that the program makes itself.
	asleep := func(name string) (tid int) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			comm, _ := os.ReadFile(task + "/comm")
			call, _ := os.ReadFile(task + "/syscall")
			if strings.TrimSpace(string(comm)) == name && strings.HasPrefix(string(call), strconv.Itoa(unix.SYS_FUTEX)+" ") {
				tid, _ = strconv.Atoi(filepath.Base(task))
			}
		}
		return tid
	}
	send := func(b byte) bool {
		one := []byte{b}
		if _, err := in.Write(one); err != nil {
			return false
		}
		_, err := io.ReadFull(out, one)
		return err == nil
	}
	testenv.Wait(t, "the early thread waits", func() bool { return asleep("early") != 0 })
	r, res := attach(t, record.AttachOptions{PID: pid}, func(l *launches) {
		testenv.Await(func() bool {
			l.Lock()
			defer l.Unlock()
			return l.all > 0 || !send('.')
		})
		if !send('h') || !testenv.Await(func() bool { return asleep("standing") != 0 }) {
			t.Error("the first thread does not wait")
		}
	})
	if len(res.Asleep) != 1 || res.Asleep[0] != (format.Asleep{PID: pid, TID: asleep("early"), Name: "early", Library: "libascendcl.so"}) {
		t.Errorf("threads that slept: %+v", res.Asleep)
	}
	if got := r.Meta().Coverage; !slices.Equal(got.Asleep, res.Asleep) || got.Cut != 1 || got.NoEnd != 0 {
		t.Errorf("%+v", got)
	}
	all := calls(t, r)
	last := all[len(all)-1]
	if res.Unfinished != 1 || res.Cut != 1 || r.Schema().FuncName(last.Func) != "aclrtSynchronizeStream" || last.Flags != format.Unfinished|format.NoEnd|format.Cut || last.End <= last.Start {
		t.Errorf("%+v; the last call is %s %+v", res, r.Schema().FuncName(last.Func), last)
	}
	if s, err := stats.New(r, acl.Model, nil); err != nil || slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.Unfinished || f.Kind == stats.NoEnd }) {
		t.Errorf("%v: findings %+v", err, s.Findings)
	}
	rep, err := blame.Blame(r, acl.Model, nil)
	if err != nil || rep.Failure != nil || len(rep.Asleep) != 1 {
		t.Errorf("blame: %v, %+v", err, rep)
	}
}
