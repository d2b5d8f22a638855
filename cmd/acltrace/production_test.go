package main

import (
	"errors"
	"fmt"
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

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/session"
)

// page runs the command blocks in a documentation page, in order, in a folder where small programs replace the named
// ones.
type page struct {
	t        *testing.T
	dir      string
	acltrace string
	env      []string
}

// newPage uses one program in place of all: it frees a buffer too early and the device fails. ./server runs until a
// file `over` exists.
func newPage(t *testing.T) *page {
	t.Helper()
	for _, tool := range []string{"sh", "timeout"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	lib := filepath.Dir(testenv.Built(t, "lib/libacltrace.so"))
	p := &page{t: t, dir: t.TempDir(), acltrace: testenv.Built(t, "bin/acltrace")}
	program := testenv.CompileC(t, "early_free", []string{filepath.Join(testenv.Root(t), "analyze/blame/testdata/early_free.c")})
	job := fmt.Sprintf("LD_LIBRARY_PATH=%s ACLSIM_KERNELS=%[1]s/aclsim_kernels.so %s %[1]s/aclsim_kernels.o 60 1 after 8 >/dev/null 2>&1\n", lib, program)
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bin/python":  job + "exit 0\n",
		"bin/python3": job + "exit 0\n",
		"bin/torchrun": `n=0; with=python3
while :; do
case "$1" in
--no-python) with=; shift ;;
--nproc-per-node) n=$2; shift 2 ;;
*) break ;;
esac
done
for r in $(seq 0 $((n - 1))); do RANK=$r $with "$@" & done
wait
`,
		"app":    job + "exit 0\n",
		"server": "until test -e over || ! test -d bin; do\n" + job + "done\nexit 0\n",
		// ctl waits for calls in the ring. Scripts do not show their runtime, and the machine may have another one, so
		// --api is given.
		"bin/acltrace": `if [ "$1" = record ]; then shift; set -- record --api acl "$@"; fi
if [ "$1" != ctl ]; then exec ` + p.acltrace + ` "$@"; fi
until ` + p.acltrace + ` ctl status --json --session "$4" 2>refused | grep -q '"calls": [1-9]'; do sleep 0.02; done
until ` + p.acltrace + ` "$@" 2>refused; do test $? -eq 1 || exit 2; sleep 0.02; done
`,
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(p.dir, "state"))
	return p
}

// run runs a block with some words replaced.
func (p *page) run(block string, instead ...string) {
	p.t.Helper()
	script := "set -e\ntrap 'touch over; wait; rm -f over' EXIT\n" + strings.NewReplacer(instead...).Replace(block)
	cmd := exec.Command("timeout", fmt.Sprint(testenv.Patience.Seconds()), "sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		refused, _ := os.ReadFile(filepath.Join(p.dir, "refused"))
		p.t.Fatalf("%v\n%s\n%s%s", err, block, out, refused)
	}
}

// has checks that traces exist and have calls.
func (p *page) has(names ...string) {
	p.t.Helper()
	for _, name := range names {
		r, err := format.Open(filepath.Join(p.dir, name), nil)
		if err != nil {
			p.t.Error(err)
			continue
		}
		if c, err := r.Counts(); err != nil || c.Calls == 0 {
			p.t.Errorf("%s: %v, %+v", name, err, c)
		}
		r.Close()
	}
}

// TestProductionPage runs the command lines with placeholders in the README and in the pages about production. TestPagesShowRealOutput in docs runs the rest.
func TestProductionPage(t *testing.T) {
	p := newPage(t)
	var blocks []string
	for _, page := range []string{"reference/recording.md", "reference/metrics.md", "howto/containers.md"} {
		b, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split("\n"+string(b), "\n```") {
			if block, ok := strings.CutPrefix(part, "sh\n"); ok && i%2 == 1 {
				blocks = append(blocks, block+"\n")
			}
		}
	}
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of command lines: run each in this test", len(blocks))
	}
	launching, handing, shared := blocks[0], blocks[1], blocks[2]
	ranks := "for r in 0 1 2; do RANK=$r acltrace record -o rank%r.aclt -- ./app & done; wait\nacltrace merge -o job.aclt rank*.aclt\nacltrace stats job.aclt\n"
	p.run(launching, "8", "3", "rank%r.aclt", "of%r.aclt")
	p.has("of0.aclt", "of1.aclt", "of2.aclt", "of0.1.aclt", "of1.1.aclt", "of2.1.aclt")
	p.run(handing, ":9464", "127.0.0.1:0")
	p.has("run.aclt")
	p.run(ranks)
	p.has("rank0.aclt", "rank1.aclt", "rank2.aclt", "job.aclt")
	p.run(npuCommands(t), "8", "3", "rank%r.aclt", "npu%r.aclt", "--backend ascend", "--backend "+testenv.Built(t, "lib/libascendcl.so"))
	p.has("run.1.aclt", "run.2.aclt", "npu0.aclt", "npu1.aclt", "npu2.aclt")
	if err := os.Remove(filepath.Join(p.dir, "job.aclt")); err != nil {
		t.Fatal(err)
	}
	session, err := os.MkdirTemp("/dev/shm", "acltest-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(session)
	p.run(shared, "/dev/shm/job", session, "python train.py", "./server") // it exists until the snapshot is done
	p.has("job.aclt")
}

// npuCommands returns the README's commands for an NPU host, except the one that sets the environment. A replay may have any verdict.
func npuCommands(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testenv.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(b), "set_env.sh\n$ ")
	block, _, ok := strings.Cut(block, "\n```")
	if !ok || strings.Count(block, "\n") != 3 || !strings.Contains(block, "--backend ascend") {
		t.Fatalf("README.md has no commands for an NPU: %q", block)
	}
	return strings.ReplaceAll(block, "\n$ ", "\n") + " || test $? -ge 3\n"
}

// With several recordings in progress, ctl does nothing until one is named.
func TestCtlNamesWhich(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	testenv.Built(t, "lib/libacltrace.so")
	ctl := func(args ...string) (string, error) {
		out, err := exec.Command(acltrace, append([]string{"ctl"}, args...)...).CombinedOutput()
		return string(out), err
	}
	var recorders []string
	for range 2 {
		cmd := exec.Command(acltrace, "record", "-q", "-o", filepath.Join(t.TempDir(), "t.aclt"), "--", "cat")
		until, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = until.Close()
			_ = cmd.Wait()
		})
		pid := strconv.Itoa(cmd.Process.Pid)
		testenv.Wait(t, "a recording", func() bool {
			return slices.ContainsFunc(session.List(""), func(dir string) bool {
				st, err := session.Ask(dir, &session.Request{Do: session.ActStatus})
				return err == nil && st.Recorder == cmd.Process.Pid
			})
		})
		recorders = append(recorders, pid)
	}
	for _, do := range []string{"stop", "start", "snapshot"} {
		out, err := ctl(do)
		var failed *exec.ExitError
		if !errors.As(err, &failed) || failed.ExitCode() != 2 || !strings.Contains(out, "--all") {
			t.Errorf("%s: %v %s", do, err, out)
		}
		for _, pid := range recorders {
			if !strings.Contains(out, "(process "+pid+")") {
				t.Errorf("%s does not name the recording of %s: %s", do, pid, out)
			}
		}
	}
	if out, err := ctl("stop", "--pid", recorders[0]); err != nil || !strings.Contains(out, "waiting") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := ctl("status", "--pid", recorders[1]); err != nil || !strings.Contains(out, "recording") {
		t.Errorf("%v %s", err, out)
	}
	// A stopped recorder does not delay the others.
	stopped, err := strconv.Atoi(recorders[0])
	if err != nil || syscall.Kill(stopped, syscall.SIGSTOP) != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(stopped, syscall.SIGCONT) }()
	var both sync.WaitGroup
	both.Go(func() {
		if out, err := ctl("status"); err != nil || !strings.Contains(out, "did not respond") || !strings.Contains(out, "by process "+recorders[1]) {
			t.Errorf("%v %s", err, out)
		}
	})
	both.Go(func() {
		if out, err := ctl("snapshot"); err == nil || !strings.Contains(out, "did not respond") {
			t.Errorf("%v %s", err, out)
		}
	})
	both.Wait()
}
