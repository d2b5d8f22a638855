package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
)

// A job and a collector run in separate PID namespaces, as two users with a common group.
func TestJobAndCollectorInSeparateContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces of processes and other users take root")
	}
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	p := newPod(t)
	root := filepath.Dir(p.session)
	bin := p.world()
	p.must([][]string{{"mkdir", p.session}, {"chgrp", "4711", p.session, p.out, root}, {"chmod", "2770", p.session, p.out}, {"chmod", "0775", root}})
	within := func(user, command string) *exec.Cmd {
		cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "setpriv", "--reuid", user, "--regid", user, "--groups", "4711", "--inh-caps", "-all", "--bounding-set", "-all",
			"sh", "-c", command)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RANK=3", "SECRET=x", "LD_LIBRARY_PATH=" + bin}
		return cmd
	}
	if out, err := within("1003", p.acltrace+" env --api acl --install "+p.session).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	collector := within("1001", "umask 077; "+p.acltrace+" collect "+p.session+" -o "+p.out+"/r%r.aclt --until-gone 1s")
	collector.Stderr = &p.log
	p.start(collector)
	// As in pods, both jobs have the same PIDs.
	var jobs []*exec.Cmd
	for _, n := range []string{"1", "2"} {
		job := within("1002", `eval "$(`+p.acltrace+" env "+p.session+`)"; umask 077; `+p.job+" "+p.result+n+" 100 0 wait")
		jobs = append(jobs, p.start(job))
	}
	// The collector ends when there has been no process for a second: no job ends before both have begun.
	for _, do := range []func(*pod){func(p *pod) { p.halfway() }, (*pod).letGo} {
		for _, n := range []string{"1", "2"} {
			at := *p
			at.result += n
			do(&at)
		}
	}
	for _, job := range jobs {
		if err := job.Wait(); err != nil {
			t.Fatalf("the job: %v", err)
		}
	}
	if err := collector.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.log.String())
	}
	r := open(t, filepath.Join(p.out, "r3.aclt"))
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Calls != 2*(4*100+8) || len(r.Gaps()) != 0 || len(r.Processes()) != 2 || len(r.Threads()) != 2 {
		t.Errorf("%d calls, gaps %+v, processes %+v", counts.Calls, r.Gaps(), r.Processes())
	}
	m := r.Meta()
	if len(m.Argv) == 0 || m.Argv[0] != p.job || m.Env["RANK"] != "3" || m.Env["SECRET"] != "" || !m.Simulated || len(m.Libraries) == 0 {
		t.Errorf("%q %v simulated %v, libraries %v", m.Argv, m.Env, m.Simulated, m.Libraries)
	}
	for _, proc := range r.Processes() {
		if proc.Exe != p.job {
			t.Errorf("%+v", proc)
		}
	}
	if m.Ended != "" || m.ExitCode != 0 {
		t.Errorf("ended %q with code %d", m.Ended, m.ExitCode)
	}
	if th := r.Threads()[0]; th.Name != "job" {
		t.Errorf("%+v", th)
	}
}

// world copies the program and its files to a folder that all users can access, and returns the folder.
func (p *pod) world() string {
	p.t.Helper()
	root, lib := filepath.Dir(p.session), filepath.Dir(testenv.Built(p.t, "lib/libascendcl.so"))
	bin := filepath.Join(root, "bin")
	p.must([][]string{{"chmod", "0755", root}, {"mkdir", bin}, {"cp", p.acltrace, p.job, filepath.Join(lib, "libascendcl.so"), filepath.Join(lib, "libaclsim.so"), bin}})
	p.acltrace, p.job = filepath.Join(bin, "acltrace"), filepath.Join(bin, "job")
	return bin
}

func (p *pod) must(commands [][]string) {
	p.t.Helper()
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			p.t.Fatalf("%q: %v %s", c, err, out)
		}
	}
}

// With --any-user, programs of unrelated users are recorded into one session. Without it they run unrecorded.
func TestAnyUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other users take root")
	}
	for _, flags := range [][]string{{"--any-user"}, nil} {
		p := newPod(t)
		bin := p.world()
		p.must([][]string{{"mkdir", "-m", "0777", filepath.Join(bin, "out")}})
		p.install(flags...)
		c := p.collect("--until-gone", "1s")
		p.rounds = "50"
		var jobs []*exec.Cmd
		for _, uid := range []uint32{1002, 1003} {
			p.result = filepath.Join(bin, "out", strconv.Itoa(int(uid)))
			job := p.command("wait")
			job.Env = append(job.Env, "LD_LIBRARY_PATH="+bin)
			job.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			job.Stderr = &p.log
			jobs = append(jobs, p.start(job))
			p.halfway()
		}
		for _, job := range jobs {
			p.result = job.Args[1]
			p.letGo()
			if err := job.Wait(); err != nil {
				t.Errorf("%q, %q: %v %s", flags, job.Args, err, p.log.String())
			}
		}
		if flags == nil {
			_ = c.Process.Signal(syscall.SIGTERM) // no process has come
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v %s", err, p.log.String())
		}
		calls, lost := p.traces()
		if want := uint64(len(flags) * 2 * (4*50 + 8)); calls != want || lost != 0 {
			t.Errorf("%q: %d calls and %d lost, want %d: %s", flags, calls, lost, want, p.log.String())
		}
	}
}

// asked sends a request to the pod's recording.
func (p *pod) asked(do session.Action) *session.Status {
	p.t.Helper()
	st, err := session.Ask(p.session, &session.Request{Do: do})
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// An armed session records nothing before a request, with or without a collector. A second collector continues in the state that
// requests have set on the first.
func TestArmedSession(t *testing.T) {
	p := newPod(t)
	p.rounds = "50"
	p.install("--armed")
	quiet := func(when string) {
		t.Helper()
		if err := p.command().Run(); err != nil {
			t.Error(err)
		}
		if rings, _ := filepath.Glob(filepath.Join(p.session, "ring.*")); len(rings) > 0 {
			t.Errorf("%s: there are rings", when)
		}
	}
	quiet("before there is a collector")
	first := p.collect()
	quiet("with a collector")
	if st := p.asked(session.ActStatus); st.Recording || st.Calls != 0 {
		t.Errorf("%+v", st)
	}
	p.asked(session.ActStart)
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	second := p.collect()
	if st := p.asked(session.ActStatus); !st.Recording {
		t.Errorf("the second collector: %+v", st)
	}
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	p.asked(session.ActStop)
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	p.end(second)
	if calls, lost := p.traces(); calls+lost != 2*(4*50+8) {
		t.Errorf("%d calls and %d lost: %s", calls, lost, p.log.String())
	}
}

// Options of Install, such as device times, apply to the collector.
func TestCollectDeviceTime(t *testing.T) {
	devtimeModel(t)
	program, binary := devtimeProgram(t)
	p := newPod(t)
	p.install("--device-time=all")
	c := p.collect()
	job := p.command()
	job.Path, job.Args = program, []string{program, binary, "4"}
	if out, err := job.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	p.end(c)
	r := open(t, filepath.Join(p.out, "t.aclt"))
	measured := uint64(0)
	for _, k := range scene(t, r).Tasks {
		if k.Measured {
			measured++
		}
	}
	if w := r.Meta().Window; w != format.WindowWhole { // the job recorded from its first call
		t.Errorf("the trace begins %v", w)
	}
	if said := r.Meta().DeviceTime; said == nil || said.Every != 1 || said.Measured != measured || measured < 10 {
		t.Errorf("%d tasks are measured: %+v", measured, said)
	}
}

// recordJob records the job in this process.
func recordJob(t *testing.T, p *pod, o *record.Options, args ...string) *record.Result {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o.Model, o.Sim, o.Command = acl.Model, true, append([]string{p.job, p.result, p.rounds, p.work}, args...)
	o.Output = filepath.Join(p.out, "t.aclt")
	o.Stdin, o.Stdout, o.Stderr = null, null, null
	res, err := record.Run(context.Background(), o)
	if o.Capture.Probe == "ebpf" {
		testenv.Uprobes(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// After a crash the crash guard kept record from recording every program with the same wrapper. Now record has no guard.
func TestRecordAfterCrash(t *testing.T) {
	p := newPod(t)
	p.rounds = "20"
	if res := recordJob(t, p, &record.Options{}, "crash"); res.Signal != int(syscall.SIGSEGV) {
		t.Fatalf("%+v", res)
	}
	if res := recordJob(t, p, &record.Options{}); res.ExitCode != 0 || res.Calls != 4*20+8 {
		t.Errorf("the start after a crash: %+v", res)
	}
}

// A recording by uprobes did not say how the program ended, so blame found nothing after a kill.
func TestEndsByUprobes(t *testing.T) {
	for how, want := range map[string]format.Process{"crash": {Killed: true, Signal: int(syscall.SIGSEGV)}, "exit": {ExitCode: 7}, "": {}} {
		p := newPod(t)
		p.rounds = "20"
		res := recordJob(t, p, &record.Options{Capture: record.Capture{Probe: "ebpf"}}, how)
		all := open(t, filepath.Join(p.out, "t.aclt")).Processes()
		if len(all) != 1 || len(res.Died) > 0 {
			t.Fatalf("%+v, died %+v", all, res.Died)
		}
		if got := all[0]; got.Killed != want.Killed || got.Signal != want.Signal || got.ExitCode != want.ExitCode || got.ExitUnknown || got.End == 0 {
			t.Errorf("%q: %+v", how, got)
		}
	}
}

// The libraries of a program that ended early are known from its own report.
func TestLibrariesOfOneThatEnded(t *testing.T) {
	p := newPod(t)
	p.rounds = "5"
	p.install()
	if err := p.command().Run(); err != nil {
		t.Fatal(err)
	}
	p.end(p.collect())
	m := open(t, filepath.Join(p.out, "t.aclt")).Meta()
	if len(m.Libraries) != 1 || filepath.Base(m.Libraries[0].Path) != "libascendcl.so" || len(m.Libraries[0].BuildID) != 40 || !m.Simulated {
		t.Errorf("libraries %+v, simulated %v", m.Libraries, m.Simulated)
	}
}

// A program that crashes soon in code of the shim is not recorded at its next start. If it crashes then too, it is recorded again. The
// collector detects the crash by itself. After a crash in its own code, which the user wants to see, each start is recorded.
func TestGuardShared(t *testing.T) {
	p := newPod(t)
	p.rounds = "20"
	p.install()
	c := p.collect()
	seen := func(what string) {
		t.Helper()
		if !testenv.Await(func() bool { return strings.Contains(p.log.String(), what) }) {
			t.Fatalf("%q does not come: %s", what, p.log.String())
		}
	}
	_ = p.command("exit").Run()
	_ = p.command("crash").Run()
	_ = p.command("crash").Run()
	_ = p.command("inside").Run()
	seen("its next start is not recorded")
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	seen("is not recorded: ")
	_ = p.command("crash").Run()
	seen("its next start is recorded")
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	p.end(c)
	r := open(t, filepath.Join(p.out, "t.aclt"))
	if n := len(r.Processes()); n != 5 {
		t.Errorf("%d processes, want those that ended with an error, crashed and came last: %s", n, p.log.String())
	}
	if how := r.Meta().Ended; !strings.Contains(how, "job") || !strings.Contains(how, "crashed or was killed") {
		t.Errorf("ended %q", how)
	}
	if us := r.Meta().Coverage.Unhooked; len(us) == 0 || !strings.Contains(us[0].Reason, "crashed in code of acltrace") {
		t.Errorf("%+v", us)
	}
}

// The crash guard identifies the program, not its wrapper: after a crash, another program in the same wrapper is recorded, and the
// crashed program is not recorded in another wrapper.
func TestGuardKnowsProgram(t *testing.T) {
	p := newPod(t)
	p.rounds = "4"
	p.install()
	c := p.collect()
	wrapped := func(name string, how ...string) {
		cmd := p.command(how...)
		cmd.Args[0] = name
		cmd.Args = append([]string{"env", "X=1"}, cmd.Args...)
		cmd.Path = "/usr/bin/env"
		_ = cmd.Run()
	}
	other := filepath.Join(t.TempDir(), "other")
	b, err := os.ReadFile(p.job)
	if err == nil {
		err = os.WriteFile(other, b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	wrapped(p.job, "inside")
	if !testenv.Await(func() bool { return strings.Contains(p.log.String(), "its next start is not recorded") }) {
		t.Fatal(p.log.String())
	}
	wrapped(other)
	if err := p.command().Run(); err != nil { // without the wrapper
		t.Error(err)
	}
	p.end(c)
	r := open(t, filepath.Join(p.out, "t.aclt"))
	var ran []string
	for _, proc := range r.Processes() {
		ran = append(ran, filepath.Base(proc.Exe))
	}
	if us := r.Meta().Coverage.Unhooked; !slices.Equal(ran, []string{filepath.Base(p.job), "other"}) || len(us) != 1 || us[0].Exe != p.job {
		t.Errorf("recorded %v, not recorded %+v: %s", ran, us, p.log.String())
	}
}

// A program that was started elsewhere reports its own exit code, and a crash has none.
func TestEndsOfShared(t *testing.T) {
	for _, c := range []struct {
		how   []string // how each job ends, "" for a return from main
		code  int
		ended string
	}{
		{[]string{""}, 0, ""},
		{[]string{"exit"}, 7, ""},
		{[]string{"quick_exit"}, 7, ""},
		{[]string{"", ""}, 0, ""},
		{[]string{"", "exit", ""}, 7, "with exit code 7"},
		{[]string{"exit", "crash"}, 0, "crashed or was killed"},
		{[]string{"vfork"}, 0, "crashed or was killed"}, // its child has called _exit in its memory
	} {
		p := newPod(t)
		p.rounds = "4"
		p.install()
		for _, how := range c.how {
			_ = p.command(how).Run()
		}
		p.end(p.collect())
		m := open(t, filepath.Join(p.out, "t.aclt")).Meta()
		if m.ExitCode != c.code || !strings.Contains(m.Ended, c.ended) || (m.Ended == "") != (c.ended == "") {
			t.Errorf("%q: exit code %d, ended %q", c.how, m.ExitCode, m.Ended)
		}
	}
}

// A collector with --until-gone also ends if no process was recorded, and its ring has the reason for the seal.
func TestCollectorGoes(t *testing.T) {
	p := newPod(t)
	p.rounds = "4"
	p.install("--ring", "1M")
	_ = p.command("inside").Run()
	for i, c := range []struct{ name, why string }{
		{"t.aclt", "the last process has ended: process"},
		{"t-2.aclt", "the last process has ended: no process was recorded"},
		{"t-3.aclt", "the last process has ended: with exit code 7"},
	} {
		switch i {
		case 1: // not recorded, after the crash
			if err := p.command().Run(); err != nil {
				t.Error(err)
			}
		case 2:
			guards, err := filepath.Glob(filepath.Join(p.session, "guard.*"))
			if err != nil || len(guards) != 1 {
				t.Fatalf("%v, guards %q", err, guards)
			}
			os.Remove(guards[0])
			_ = p.command("exit").Run()
		}
		ctx, stop := context.WithTimeout(context.Background(), testenv.Patience)
		out, err := exec.CommandContext(ctx, p.acltrace, "collect", p.session, "-o", filepath.Join(p.out, "t.aclt"), "--until-gone", "10ms").CombinedOutput()
		stop()
		if err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if m := open(t, filepath.Join(p.out, c.name)).Meta(); !strings.Contains(m.Sealed, c.why) {
			t.Errorf("%s: sealed since %q", c.name, m.Sealed)
		}
	}
}

// goWhenOff waits until this process has stopped recording a job, lets the job go on from its half, and returns the time.
func (p *pod) goWhenOff() <-chan int64 {
	went := make(chan int64, 1)
	go func() {
		if !testenv.Await(func() bool {
			for _, dir := range session.List("") {
				if st, err := session.Ask(dir, &session.Request{Do: session.ActStatus}); err == nil && st.Recorder == os.Getpid() {
					_, err := os.Stat(p.result + ".half")
					return err == nil && !st.Recording
				}
			}
			return false
		}) {
			p.t.Error("the recording does not stop")
		}
		went <- probe.Now()
		p.letGo()
	}()
	return went
}

// A recording ends when its file has the maximum size, and the program goes on.
func TestMaxSize(t *testing.T) {
	p := newPod(t)
	p.rounds = "2500"
	p.goWhenOff()
	res := recordJob(t, p, &record.Options{Limits: record.Limits{MaxSize: 1 << 20}}, "wait")
	// Buffered calls are written, too.
	if !res.File.Full || res.ExitCode != 0 || res.Calls > 4*2500/2+8 {
		t.Errorf("%+v", res)
	}
	if b, err := os.ReadFile(p.result); err != nil || !strings.Contains(string(b), "done") {
		t.Errorf("%v %s", err, b)
	}
}

// killedRing records the job with a ring, kills the recorder, waits until the job has ended, and returns the session's folder.
// The session is not salvaged before release is called.
func killedRing(t *testing.T, p *pod) (folder string, release func()) {
	t.Helper()
	return killed(t, p, "--ring", "1M", "-o", filepath.Join(p.out, "ring.aclt"))
}

func killed(t *testing.T, p *pod, flags ...string) (folder string, release func()) {
	t.Helper()
	p.rounds = "1000"
	cmd := exec.Command(p.acltrace, slices.Concat([]string{"record", "--sim", "-q"}, flags, []string{"--", p.job, p.result, p.rounds, p.work, "wait"})...)
	p.start(cmd)
	folder = p.recording(cmd.Process.Pid, 400)
	job := p.halfway()
	if p.kept != "" {
		testenv.Wait(t, "calls in "+p.kept, func() bool {
			r, err := format.Open(p.kept, nil)
			if err != nil {
				return false
			}
			defer r.Close()
			n, err := r.Accounted()
			return err == nil && n > 0
		})
	}
	user := exec.Command("sleep", "3600") // uses the session
	user.Env = []string{"ACLTRACE_SESSION=" + folder}
	p.start(user)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	p.letGo()
	p.ended()
	testenv.Wait(t, "the end of the job's process", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", job))
		return err != nil || strings.Contains(string(b), ") Z ") // a zombie may not be reaped
	})
	return folder, func() {
		_ = user.Process.Kill()
		_ = user.Wait()
	}
}

// checkSalvaged checks that a trace has a ring's calls, that it reports missing calls, and that the session is gone.
func checkSalvaged(t *testing.T, path, folder string) {
	t.Helper()
	r := open(t, path)
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	var lost uint64
	for _, g := range r.Gaps() {
		lost += g.Calls
	}
	if counts.Calls+lost != 4*1000+8 || counts.Calls == 0 || r.Meta().Recovered == "" {
		t.Errorf("%d calls and %d lost; %+v", counts.Calls, lost, r.Gaps())
	}
	pids := map[int]bool{}
	for _, x := range r.Processes() {
		if pids[x.PID] || x.End == 0 {
			t.Errorf("process %d is in the trace twice, or has no end: %+v", x.PID, x)
		}
		pids[x.PID] = true
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder is still there")
	}
}

// A killed recorder's ring becomes a trace.
func TestKilledRecordersRingBecomesATrace(t *testing.T) {
	for tries := 1; ; tries++ {
		p := newPod(t)
		folder, release := killedRing(t, p)
		out := filepath.Join(p.out, "saved.aclt")
		release()
		said, err := exec.Command(p.acltrace, "recover", folder, "-o", out).CombinedOutput()
		if err != nil && tries < 5 && testenv.Await(func() bool { return !session.IsSession(folder) }) {
			continue // another test has recorded just then, and salvaged it
		}
		if err != nil || !strings.Contains(string(said), "saved.aclt") {
			t.Fatalf("%v %s", err, said)
		}
		checkSalvaged(t, out, folder)
		return
	}
}

// After a recorder without a ring was killed, unread calls were lost, and its session stayed in memory for ever.
func TestSalvageFile(t *testing.T) {
	p := newPod(t)
	begun := filepath.Join(p.out, "all.aclt")
	p.kept = begun
	folder, release := killed(t, p, "-o", begun)
	before, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		return p.run("record", "-o", filepath.Join(p.out, "next.aclt"), "--", "true")
	}
	if said := next(); !strings.Contains(said, folder+" has unsaved calls") || !strings.Contains(said, "programs still use it") || !session.IsSession(folder) {
		t.Errorf("while a program uses it: %s", said)
	}
	release()
	testenv.Wait(t, "somebody to salvage "+folder, func() bool {
		next()
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
	checkSalvaged(t, filepath.Join(p.out, "all.recovered.aclt"), folder)
	if after, err := os.ReadFile(begun); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the recorder's own file has changed: %v", err)
	}
}

// The file that a killed recorder had begun leads to its session. A copy does not.
func TestRecoverFile(t *testing.T) {
	for tries := 1; ; tries++ {
		p := newPod(t)
		p.kept = filepath.Join(p.out, "all.aclt")
		folder, release := killed(t, p, "-o", p.kept)
		release()
		b, err := os.ReadFile(p.kept)
		duplicate, out := filepath.Join(p.out, "copy.aclt"), filepath.Join(p.out, "saved.aclt")
		if err = errors.Join(err, os.WriteFile(duplicate, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		said, errInfo := exec.Command(p.acltrace, "info", p.kept).CombinedOutput()
		saidOfCopy, _ := exec.Command(p.acltrace, "info", duplicate).CombinedOutput()
		copied, errCopy := exec.Command(p.acltrace, "recover", duplicate, "-o", filepath.Join(p.out, "whole.aclt")).CombinedOutput()
		saved, err := exec.Command(p.acltrace, "recover", p.kept, "-o", out).CombinedOutput()
		if tries < 5 && !strings.Contains(string(saved), "saved the calls") && testenv.Await(func() bool { return !session.IsSession(folder) }) {
			continue // another test has recorded just then, and salvaged it
		}
		if want := folder + " has the calls that its recorder had not written yet: acltrace recover " + p.kept + " -o FILE"; errInfo != nil || !strings.Contains(string(said), want) {
			t.Errorf("info: %v %s", errInfo, said)
		}
		if !strings.Contains(string(copied), "whole.aclt: ") || strings.Contains(string(saidOfCopy), folder) {
			t.Errorf("the copy: %v %s%s", errCopy, copied, saidOfCopy)
		}
		if err != nil || !strings.Contains(string(saved), "saved the calls in "+p.kept+" and "+folder) {
			t.Fatalf("%v %s", err, saved)
		}
		checkSalvaged(t, out, folder)
		return
	}
}

// The next recording of any program salvages a session that no program uses.
func TestSalvageByTheNext(t *testing.T) {
	p := newPod(t)
	folder, release := killedRing(t, p)
	out := filepath.Join(p.out, "ring.aclt")
	next := func() string {
		return p.run("record", "-o", filepath.Join(p.out, "next.aclt"), "--", "true")
	}
	if said := next(); strings.Contains(said, out) || !session.IsSession(folder) {
		t.Errorf("it is salvaged while a program uses it: %s", said)
	}
	release()
	// A recording of another test may salvage it first.
	testenv.Wait(t, "somebody to salvage "+folder, func() bool {
		next()
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
	checkSalvaged(t, out, folder)
}

// If the trace's folder is gone, later recordings leave the ring alone, and it can be salvaged to another folder.
func TestSalvageElsewhere(t *testing.T) {
	p := newPod(t)
	folder, release := killedRing(t, p)
	if err := os.RemoveAll(p.out); err != nil {
		t.Fatal(err)
	}
	release()
	elsewhere := t.TempDir()
	segments := func() []string {
		files, err := filepath.Glob(filepath.Join(folder, "flight", "*.aclt"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	before := segments()
	if said := p.run("record", "-o", filepath.Join(elsewhere, "next.aclt"), "--", "true"); !strings.Contains(said, "(the folder of its trace") || !strings.Contains(said, "acltrace recover "+folder+" -o FILE") {
		t.Errorf("what takes memory is not named: %s", said)
	}
	if after := segments(); len(before) == 0 || len(after) != len(before) {
		t.Errorf("%d segments, and %d when something was recorded next", len(before), len(after))
	}
	out := filepath.Join(elsewhere, "saved.aclt")
	p.run("recover", folder, "-o", out)
	checkSalvaged(t, out, folder)
}

// If the disk was full, later recordings leave the ring alone until it is salvaged to another disk.
func TestRingFullDisk(t *testing.T) {
	p := newPod(t)
	root(t)
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespace can be made here: %v", err)
	}
	dir := t.TempDir() // the script hides the pod's folder
	disk, saved := filepath.Join(dir, "disk"), filepath.Join(dir, "saved.aclt")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`set -ex
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o size=1m tmpfs %[1]s
%[2]s record --sim --ring 1M -o %[1]s/ring.aclt -- sh -c 'head -c 2M /dev/zero >%[1]s/full; exec %[3]s %[4]s 1000 0'
session=$(echo /dev/shm/acltrace-*)
test -d $session/flight
find /dev/shm -exec touch -d '1 hour ago' {} +
%[2]s doctor >/dev/null
%[2]s record --sim -o %[5]s.next -- %[3]s %[4]s 10 0
%[2]s recover $session -o %[5]s
test -z "$(ls /dev/shm)"
`, disk, p.acltrace, p.job, filepath.Join(dir, "result"), saved)
	cmd := exec.Command("unshare", "-m", "/bin/sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "save them: acltrace recover /dev/shm/acltrace-"); n != 2 {
		t.Errorf("it is said %d times, not by the recorder and the next:\n%s", n, out)
	}
	r := open(t, saved)
	counts, err := r.Counts()
	var lost uint64
	for _, g := range r.Gaps() {
		lost += g.Calls
	}
	if err != nil || counts.Calls == 0 || counts.Calls+lost != 4*1000+8 {
		t.Errorf("%d calls and %d lost, %v:\n%s", counts.Calls, lost, err, out)
	}
}

// A time limit also ends a recording with a ring, which is sealed at the end. A size limit excludes a ring.
func TestRingLimits(t *testing.T) {
	p := newPod(t)
	p.rounds = "400"
	var res *record.Result
	var resumed int64
	for limit := 500 * time.Millisecond; res == nil || res.Calls == 0 && limit < testenv.Patience; limit *= 4 { // on a machine that is slow, the job begins later
		for _, name := range []string{".half", ".go"} {
			_ = os.Remove(p.result + name)
		}
		went := p.goWhenOff()
		res = recordJob(t, p, &record.Options{Ring: &record.Ring{Bytes: 1 << 20}, Limits: record.Limits{For: limit}}, "wait")
		resumed = <-went
	}
	if len(res.Sealed) != 1 || res.Calls == 0 || res.Calls >= 4*400 {
		t.Fatalf("%+v", res)
	}
	r := open(t, res.Sealed[0])
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	off := 0
	for _, g := range r.Gaps() {
		if g.Reason == format.Detached && g.To >= resumed-r.Meta().StartMono {
			off++
		}
	}
	if off != 1 || counts.Calls == 0 || !strings.Contains(r.Meta().Sealed, "ended with code 0") {
		t.Errorf("%+v, gaps %+v, sealed since %s", counts, r.Gaps(), r.Meta().Sealed)
	}
	for _, args := range [][]string{{"record", "--ring", "1M", "--max-size", "1G", "-o", res.Output, "--", p.job}, {"env", "--install", p.session, "--ring", "1M", "--max-size", "1G"}} {
		out, err := exec.Command(p.acltrace, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--ring, which has its own size") || !strings.Contains(string(out), "--max-seals") {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}

// The YAML of env --k8s has the variables of the shell form.
func TestEnvForms(t *testing.T) {
	p := newPod(t)
	var pod struct {
		Volumes []struct {
			Name     string
			EmptyDir struct{ Medium string } `yaml:"emptyDir"`
		}
		InitContainers []struct {
			Name, Image   string
			RestartPolicy string `yaml:"restartPolicy"`
			Command       []string
		} `yaml:"initContainers"`
		Containers []struct {
			Env []struct{ Name, Value string }
		}
	}
	out := p.run("env", "/acltrace", "--k8s", "--ring", "64M", "--payload", "none", "-o", "/traces/%h-%p.aclt")
	if err := yaml.Unmarshal([]byte(out), &pod); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(pod.Volumes) != 2 || pod.Volumes[0].EmptyDir.Medium != "Memory" || len(pod.InitContainers) != 2 || pod.InitContainers[1].RestartPolicy != "Always" ||
		strings.Join(pod.InitContainers[0].Command, " ") != "acltrace env --install /acltrace --api=acl --payload=none --ring=64M" ||
		strings.Join(pod.InitContainers[1].Command, " ") != "acltrace collect /acltrace -o /traces/%h-%p.aclt" {
		t.Errorf("%+v\n%s", pod, out)
	}
	var js struct {
		Variables []record.Variable
	}
	if err := json.Unmarshal([]byte(p.run("env", "/acltrace", "--json")), &js); err != nil {
		t.Fatal(err)
	}
	docker, shell := p.run("env", "/acltrace", "--docker"), p.run("env", "/acltrace")
	for i, v := range js.Variables {
		if e := pod.Containers[0].Env[i]; e.Name != v.Name || e.Value != v.Value || !strings.Contains(docker, "-e "+v.Name+"="+v.Value) || !strings.Contains(shell, "export "+v.Name+"="+v.Value) {
			t.Errorf("%+v %+v\n%s\n%s", e, v, docker, shell)
		}
	}
	// The pod's own commands, with a local folder.
	p.run(append(strings.Split(strings.ReplaceAll(strings.Join(pod.InitContainers[0].Command[1:], " "), "/acltrace", p.session), " "), "--any-user")...)
	if flags, err := record.StoredFlags(p.session); err != nil || flags["ring"] != "64M" || flags["payload"] != "none" {
		t.Errorf("%v %v", flags, err)
	}
}

// The manifests in the documentation are valid YAML with valid commands.
func TestProductionManifests(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/howto/containers.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(b), "```yaml\n")
	if len(parts) < 3 {
		t.Fatalf("%d manifests", len(parts)-1)
	}
	for _, part := range parts[1:] {
		text, _, _ := strings.Cut(part, "```")
		var m struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &m); err != nil || m.Kind == "" {
			t.Errorf("%v, kind %q:\n%s", err, m.Kind, text)
		}
	}
}
