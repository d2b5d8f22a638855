package record_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A job and a collector in namespaces of processes of their own, which see nothing of each other, as two users with one group in common.
func TestContainers(t *testing.T) {
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
	bin := filepath.Join(root, "bin")
	lib := filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))
	// Other users reach neither the test's own folder nor that of the build.
	for _, c := range [][]string{{"chmod", "0755", root}, {"mkdir", bin, p.session}, {"cp", p.acltrace, p.job, filepath.Join(lib, "libascendcl.so"), filepath.Join(lib, "libaclsim.so"), bin},
		{"chgrp", "4711", p.session, p.out, root}, {"chmod", "2770", p.session, p.out}, {"chmod", "0775", root}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", c, err, out)
		}
	}
	p.acltrace, p.job = filepath.Join(bin, "acltrace"), filepath.Join(bin, "job")
	within := func(user, command string) *exec.Cmd {
		cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "setpriv", "--reuid", user, "--regid", user, "--groups", "4711", "--inh-caps", "-all", "--bounding-set", "-all",
			"sh", "-c", command)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RANK=3", "SECRET=x", "LD_LIBRARY_PATH=" + bin}
		return cmd
	}
	if out, err := within("1003", p.acltrace+" env --install "+p.session).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	collector := within("1001", "umask 077; "+p.acltrace+" collect "+p.session+" -o "+p.out+"/r%r.aclt --until-gone 1s")
	collector.Stderr = &p.log
	p.start(collector)
	// As pods have it, both jobs have the same numbers of processes.
	var jobs []*exec.Cmd
	for _, n := range []string{"1", "2"} {
		job := within("1002", `eval "$(`+p.acltrace+" env "+p.session+`)"; umask 077; `+p.job+" "+p.result+n+" 100 0")
		jobs = append(jobs, p.start(job))
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
	if th := r.Threads()[0]; th.Name != "job" {
		t.Errorf("%+v", th)
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
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A program that crashes soon is not recorded at its next start; one that does so then too is, at the start after that.
func TestGuard(t *testing.T) {
	p := newPod(t)
	p.rounds = "20"
	state := t.TempDir()
	run := func(args ...string) *record.Result {
		return recordJob(t, p, &record.Options{State: state, Version: "v1"}, args...)
	}
	if res := run("exit"); res.ExitCode != 7 || res.Untraced != "" || res.Guard != "" {
		t.Fatalf("an error is no crash: %+v", res)
	}
	res := run("crash")
	if res.Signal != int(syscall.SIGSEGV) || !strings.Contains(res.Guard, "crashed by signal 11") || !strings.Contains(res.Guard, "--no-guard") {
		t.Fatalf("%+v", res)
	}
	if res = run(); res.ExitCode != 0 || !strings.Contains(res.Untraced, "crashed by signal 11") || res.Calls != 0 {
		t.Fatalf("the next start: %+v", res)
	}
	if res = recordJob(t, p, &record.Options{State: state, Version: "v1", NoGuard: true}); res.Untraced != "" || res.Calls != 4*20+8 {
		t.Fatalf("--no-guard: %+v", res)
	}
	if res = recordJob(t, p, &record.Options{State: state, Version: "v2"}); res.Untraced != "" {
		t.Fatalf("another version: %+v", res)
	}
	run("crash")
	if res = run("crash"); res.Untraced == "" || !strings.Contains(res.Guard, "without recording as well") {
		t.Fatalf("a crash without recording: %+v", res)
	}
	if res = run(); res.Untraced != "" || res.Calls != 4*20+8 {
		t.Fatalf("the start after that: %+v", res)
	}
}

// The same where nobody is told how a program ends.
func TestGuardShared(t *testing.T) {
	p := newPod(t)
	p.rounds = "20"
	p.install()
	c := p.collect()
	seen := func(what string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !strings.Contains(p.log.String(), what); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q does not come: %s", what, p.log.String())
			}
		}
	}
	_ = p.command("exit").Run()
	_ = p.command("crash").Run()
	seen("its next start is not recorded")
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	seen("runs without being recorded")
	_ = p.command("crash").Run()
	seen("is recorded again")
	if err := p.command().Run(); err != nil {
		t.Error(err)
	}
	p.end(c)
	r := open(t, filepath.Join(p.out, "t.aclt"))
	if n := len(r.Processes()); n != 3 {
		t.Errorf("%d processes, want those that ended with an error, crashed and came last: %s", n, p.log.String())
	}
	if us := r.Meta().Coverage.Unhooked; len(us) == 0 || !strings.Contains(us[0].Reason, "without an exit") {
		t.Errorf("%+v", us)
	}
}

func TestSteps(t *testing.T) {
	p := newPod(t)
	p.rounds = "40"
	// The job waits for its stream once a round, behind no launch, so that the function has to be named.
	steps := &record.StepRange{First: 10, Last: 12, Marker: "aclrtSynchronizeStream"}
	res := recordJob(t, p, &record.Options{Steps: steps, Block: true})
	r := open(t, res.Output)
	n := map[string]int{}
	for _, c := range calls(t, r) {
		n[r.Schema().FuncName(c.Func)]++
	}
	if n["aclrtSynchronizeStream"] != 3 || n["aclrtMalloc"] != 1 || n["aclrtCreateStream"] != 1 || n["aclrtMemcpy"] > 8 {
		t.Errorf("%v", n)
	}
	if len(r.Gaps()) == 0 || r.Gaps()[0].Reason != format.Detached {
		t.Errorf("%+v", r.Gaps())
	}
	if _, err := record.ParseSteps("5:3"); err == nil {
		t.Error("5:3 is a range")
	}
}

// A recording ends when its file has its size, and the program goes on.
func TestMaxSize(t *testing.T) {
	p := newPod(t)
	p.rounds = "2500"
	res := recordJob(t, p, &record.Options{MaxSize: 4 << 20})
	// What is on its way to the file comes too.
	if !res.Full || res.ExitCode != 0 || res.Calls >= 4*2500 {
		t.Errorf("%+v", res)
	}
	if b, err := os.ReadFile(p.result); err != nil || !strings.Contains(string(b), "done") {
		t.Errorf("%v %s", err, b)
	}
}

// What the ring of a recorder that was killed held becomes a trace.
func TestSalvage(t *testing.T) {
	p := newPod(t)
	p.rounds = "1000"
	cmd := exec.Command(p.acltrace, "record", "--sim", "-q", "--ring", "1M", "-o", filepath.Join(p.out, "ring.aclt"), "--", p.job, p.result, p.rounds, p.work)
	p.start(cmd)
	var session string
	for end := time.Now().Add(30 * time.Second); session == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, dir := range record.Sessions("") {
			if st, err := record.Ask(dir, &record.Request{Do: record.ActStatus}); err == nil && st.Recorder == cmd.Process.Pid && st.Calls > 400 {
				session = dir
			}
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(p.result); strings.Contains(string(b), "done") {
			break
		}
	}
	time.Sleep(100 * time.Millisecond) // the job ends
	out := filepath.Join(p.out, "saved.aclt")
	if said := p.run("recover", session, "-o", out); !strings.Contains(said, "saved.aclt") {
		t.Error(said)
	}
	r := open(t, out)
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
	if _, err := os.Stat(session); err == nil {
		t.Error("the session is still there")
	}
}

// What env prints for a cluster is YAML with what the shell form has.
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
		strings.Join(pod.InitContainers[0].Command, " ") != "acltrace env --install /acltrace --payload=none --ring=64M" ||
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
	// The pod's own commands, with its folder here.
	p.run(append(strings.Split(strings.ReplaceAll(strings.Join(pod.InitContainers[0].Command[1:], " "), "/acltrace", p.session), " "), "--any-user")...)
	if flags, err := record.StoredFlags(p.session); err != nil || flags["ring"] != "64M" || flags["payload"] != "none" {
		t.Errorf("%v %v", flags, err)
	}
}

// The manifests of the documentation are YAML that has the commands' names right.
func TestProductionManifests(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/production.md"))
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
