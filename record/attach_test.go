package record_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"golang.org/x/sys/unix"
)

// decoder is a program that launches kernels until it is killed, under a name and with libraries of its own.
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

// attach records for a while, and returns the trace.
func attach(t *testing.T, o record.AttachOptions, during func()) (*format.Reader, *record.Result) {
	t.Helper()
	o.Model, o.Output = acl.Model, filepath.Join(t.TempDir(), "run.aclt")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for !attached(o.Output) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		during()
		stop()
	}()
	res, err := record.Attach(ctx, &o)
	permitted(t, err)
	if res.Incomplete != nil || res.Lost != 0 {
		t.Errorf("%+v", res)
	}
	return open(t, o.Output), res
}

// attached reports whether a trace has begun: the probes are there by then.
func attached(trace string) bool {
	_, err := os.Stat(trace)
	return err == nil
}

func sleep(d time.Duration) func() { return func() { time.Sleep(d) } }

// pids returns the processes in a trace that launched something.
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

// Processes of a name are recorded, those that run and those that come, and no others.
func TestAttachByName(t *testing.T) {
	lib := ownLibraries(t)
	old := decoder(t, "named-decoder", lib)
	decoder(t, "other-decoder", lib)
	var young *exec.Cmd
	r, _ := attach(t, record.AttachOptions{Comm: "named-decoder"}, func() {
		young = decoder(t, "named-decoder", lib)
		time.Sleep(2 * time.Second)
	})
	want := []int{old.Process.Pid, young.Process.Pid}
	slices.Sort(want)
	if got := launchers(t, r); !slices.Equal(got, want) {
		t.Errorf("launches of %v, want of %v", got, want)
	}
}

// All processes that map the library are recorded.
func TestAttachToAll(t *testing.T) {
	lib := ownLibraries(t)
	a := decoder(t, "decoder", lib)
	var b *exec.Cmd
	r, _ := attach(t, record.AttachOptions{All: true, Options: record.Options{Library: filepath.Join(lib, "libascendcl.so")}}, func() {
		b = decoder(t, "decoder", lib)
		time.Sleep(2 * time.Second)
	})
	want := []int{a.Process.Pid, b.Process.Pid}
	slices.Sort(want)
	if got := launchers(t, r); !slices.Equal(got, want) {
		t.Errorf("launches of %v, want of %v", got, want)
	}
}

// Processes in a control group are recorded, of either version.
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
		tried = true
		t.Run(filepath.Base(root), func(t *testing.T) {
			lib := ownLibraries(t)
			in, out := decoder(t, "decoder", lib), decoder(t, "decoder", lib)
			if err := os.WriteFile(filepath.Join(group, "below", "cgroup.procs"), []byte(fmt.Sprint(in.Process.Pid)), 0o644); err != nil {
				t.Skipf("no process can be moved there: %v", err)
			}
			r, _ := attach(t, record.AttachOptions{Cgroup: group}, sleep(time.Second))
			if got := launchers(t, r); !slices.Equal(got, []int{in.Process.Pid}) {
				t.Errorf("launches of %v, want of %d and not of %d", got, in.Process.Pid, out.Process.Pid)
			}
		})
	}
	if !tried {
		t.Skip("no control group can be made here")
	}
}

// A program in other mount and process namespaces, whose library nobody else sees, is found and recorded.
func TestAttachToContainer(t *testing.T) {
	if err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	lib := ownLibraries(t)
	hidden := t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs none %s && cp -L %s/*.so %s && LD_LIBRARY_PATH=%s exec \"$@\"", hidden, lib, hidden, hidden)
	outer := decoder(t, "contained", lib, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh")
	pid := 0
	for range 200 {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", outer.Process.Pid, outer.Process.Pid))
		if _, err := fmt.Sscan(string(children), &pid); err == nil && mapsLibrary(pid, "libascendcl") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := os.Stat(filepath.Join(hidden, "libascendcl.so")); err == nil {
		t.Fatal("the library is seen from outside")
	}
	r, _ := attach(t, record.AttachOptions{PID: pid}, sleep(time.Second))
	if got := launchers(t, r); !slices.Equal(got, []int{pid}) {
		t.Errorf("launches of %v, want of %d", got, pid)
	}
	if got := r.Meta().Libraries; len(got) == 0 || !strings.HasPrefix(got[0].Path, hidden) {
		t.Errorf("libraries %+v", got)
	}
}

func mapsLibrary(pid int, library string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return strings.Contains(string(b), library)
}

// A library that a program opens later, from where nobody looks, is recorded from then on, and that it came late is said.
func TestAttachToLibraryLoadedLater(t *testing.T) {
	lib := ownLibraries(t)
	program := testenv.CompileC(t, "later", []string{source("later.c")}, "-ldl")
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
	r, res := attach(t, record.AttachOptions{Comm: "later"}, func() {
		_, _ = io.WriteString(in, "\n")
		if line, _ := out.ReadString('\n'); line != "opened\n" {
			t.Errorf("the program says %q", line)
		}
		time.Sleep(time.Second)
		_, _ = io.WriteString(in, "\n")
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program: %v", err)
		}
	})
	if n := count(calls(t, r), r); n["aclInit"] != 1 || n["aclFinalize"] != 1 {
		t.Errorf("calls: %v", n)
	}
	if len(res.Unhooked) != 1 || !strings.Contains(res.Unhooked[0].Reason, "loaded where nobody looked for it") {
		t.Errorf("unhooked: %+v", res.Unhooked)
	}
}

// A user with five capabilities attaches to a program of root's, and gives up what he has beyond them. Without them, what is missing
// is said, with the command that grants it.
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
	_ = os.Chmod(dir, 0o777)
	copied := filepath.Join(dir, "acltrace") // the built one may lie where another user may not look
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
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
		return cmd
	}
	needed := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
	cmd := command(append(needed, unix.CAP_NET_ADMIN), "attach", "--pid", fmt.Sprint(c.Process.Pid), "--for", "1s", "-o", trace)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Skipf("capabilities can't be handed out here: %v", err)
	}
	var have uint64
	for cmd.ProcessState == nil && have&(1<<unix.CAP_NET_ADMIN) == 0 {
		have = effective(cmd.Process.Pid)
	}
	dropped := false
	go func() {
		for !attached(trace) {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		dropped = effective(cmd.Process.Pid) == 1<<unix.CAP_BPF|1<<unix.CAP_PERFMON|1<<unix.CAP_CHECKPOINT_RESTORE|1<<unix.CAP_SYS_PTRACE|1<<unix.CAP_DAC_READ_SEARCH
	}()
	if err := cmd.Wait(); err != nil {
		if strings.Contains(said.String(), "does not support") {
			t.Skip(said.String())
		}
		t.Fatalf("%v %s", err, said.String())
	}
	if !dropped {
		t.Error("the capability that is not needed was kept")
	}
	if got := launchers(t, open(t, trace)); !slices.Equal(got, []int{c.Process.Pid}) {
		t.Errorf("launches of %v, want of %d: %s", got, c.Process.Pid, said.String())
	}
	out, err := command(nil, "doctor").Output()
	if want := "sudo setcap cap_bpf,cap_perfmon,cap_checkpoint_restore,cap_sys_ptrace,cap_dac_read_search+ep " + copied; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("doctor without capabilities: %v\n%s", err, out)
	}
	if out, _ := command(needed, "doctor").Output(); strings.Contains(string(out), "setcap") {
		t.Errorf("doctor with what is needed:\n%s", out)
	}
}

// effective returns the capabilities that a process has.
func effective(pid int) (caps uint64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(b), "CapEff:")
	line, _, _ := strings.Cut(after, "\n")
	caps, _ = strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return caps
}
