package record_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/session"
)

// pod is a job with a shared session, as in a pod with several containers, in which failures are injected.
type pod struct {
	t        *testing.T
	acltrace string
	job      string
	session  string // folder
	out      string // folder of traces
	result   string // file
	rounds   string
	work     string
	env      []string // the job's
	log      bytes.Buffer
	running  []*exec.Cmd
	kept     string // a trace that has calls before the recorder is killed
}

func newPod(t *testing.T) *pod {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	p := &pod{t: t, acltrace: testenv.Built(t, "bin/acltrace"), job: testenv.CompileC(t, "job", []string{source("job.c")}), rounds: "300", work: "0"}
	root, err := os.MkdirTemp("/dev/shm", "acltest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range p.running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		// Remove the session of a killed recorder.
		begun, _ := filepath.Glob(filepath.Join(ring.DefaultDir, "acltrace-*", "collector.json"))
		for _, path := range begun {
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(root)) {
				os.RemoveAll(filepath.Dir(path))
			}
		}
		os.RemoveAll(root)
	})
	p.session, p.out = filepath.Join(root, "session"), filepath.Join(root, "out")
	p.result = filepath.Join(root, "result")
	if err := os.Mkdir(p.out, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs acltrace and returns its output.
func (p *pod) run(args ...string) string {
	p.t.Helper()
	out, err := exec.Command(p.acltrace, args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("acltrace %q: %v %s", args, err, out)
	}
	return string(out)
}

func (p *pod) install(flags ...string) {
	p.t.Helper()
	p.run(append([]string{"env", "--install", p.session, "--json", "--api", "acl"}, flags...)...)
}

func (p *pod) start(cmd *exec.Cmd) *exec.Cmd {
	p.t.Helper()
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.running = append(p.running, cmd)
	return cmd
}

// collect starts a collector. If it is expected to get the session, collect waits for that.
func (p *pod) collect(flags ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(p.acltrace, append([]string{"collect", p.session, "-o", filepath.Join(p.out, "t.aclt"), "--wait", "0s"}, flags...)...)
	cmd.Stderr = &p.log
	p.start(cmd)
	if !testenv.Await(func() bool {
		st, err := session.Ask(p.session, &session.Request{Do: session.ActStatus})
		return err == nil && st.Recorder == cmd.Process.Pid
	}) {
		p.t.Errorf("the collector does not come: %s", p.log.String())
	}
	return cmd
}

func (p *pod) end(cmd *exec.Cmd) {
	p.t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		p.t.Errorf("collector: %v, %s", err, p.log.String())
	}
}

func (p *pod) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.job, append([]string{p.result, p.rounds, p.work}, args...)...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(p.t, "lib/libascendcl.so")),
		"LD_PRELOAD="+filepath.Join(p.session, "shim/libacltrace.so"), "ACLTRACE_SESSION="+p.session)
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// halfway waits until the job waits after half its rounds, and returns its process.
func (p *pod) halfway() (pid int) {
	p.t.Helper()
	testenv.Wait(p.t, "the half of the job", func() bool {
		b, err := os.ReadFile(p.result + ".half")
		_, _ = fmt.Sscan(string(b), &pid)
		return err == nil
	})
	return pid
}

func (p *pod) letGo() {
	p.t.Helper()
	if err := os.WriteFile(p.result+".go", nil, 0o600); err != nil {
		p.t.Error(err)
	}
}

// recording waits until a recorder has calls from the job, and returns its session.
func (p *pod) recording(pid int, calls uint64) (folder string) {
	p.t.Helper()
	testenv.Wait(p.t, "a recording", func() bool {
		for _, dir := range session.List("") {
			if st, err := session.Ask(dir, &session.Request{Do: session.ActStatus}); err == nil && st.Recorder == pid && st.Calls > calls {
				folder = dir
			}
		}
		return folder != ""
	})
	return folder
}

// traces returns how many calls the traces have, and how many they report as missing.
func (p *pod) traces() (calls, lost uint64) {
	p.t.Helper()
	files, _ := filepath.Glob(filepath.Join(p.out, "*.aclt"))
	for _, f := range files {
		if st, err := os.Stat(f); err == nil && st.Size() == 0 {
			continue // its recorder was killed as it made the file
		}
		r, err := format.Open(f, nil)
		if err != nil {
			p.t.Errorf("%s: %v", f, err)
			continue
		}
		c, err := r.Counts()
		if err != nil {
			p.t.Error(err)
		}
		calls += c.Calls
		for _, g := range r.Gaps() {
			lost += g.Calls
		}
		r.Close()
	}
	return calls, lost
}

// A failure is an event during a job that the job must not notice.
type failure struct {
	name   string
	before func(p *pod) // before the job starts
	during func(p *pod) // while it runs
	after  func(p *pod) // when it has ended
	record []string     // flags if acltrace record starts the job; nil for collectors
	root   bool         // needs root
	plain  bool         // runs without acltrace
}

var noAcltrace = &failure{name: "none, and no acltrace", plain: true}

var collector *exec.Cmd // the current pod's

func withCollector(flags ...string) func(*pod) {
	return func(p *pod) {
		p.install()
		collector = p.collect(flags...)
	}
}

func endCollector(p *pod) { p.end(collector) }

// whole checks that all calls are in the traces, or counted as lost.
func whole(p *pod) {
	p.t.Helper()
	calls, lost := p.traces()
	var rounds uint64
	fmt.Sscan(p.rounds, &rounds)
	if want := 4*rounds + 8; calls+lost != want {
		p.t.Errorf("%d calls and %d lost, want %d: %s", calls, lost, want, p.log.String())
	}
}

var failures = []failure{
	{name: "no collector", before: func(p *pod) { p.install() }, after: func(p *pod) {
		// It comes after the job, and finds all calls that the rings had room for.
		p.end(p.collect())
		if _, lost := p.traces(); lost != 0 && p.work == "0" {
			p.t.Errorf("%d calls are lost", lost)
		}
		whole(p)
	}},
	{name: "no collector and small rings", before: func(p *pod) { p.install("--ring-size", "64K") }, after: func(p *pod) {
		p.end(p.collect())
		if _, lost := p.traces(); lost == 0 {
			p.t.Error("nothing is lost")
		}
		whole(p)
	}},
	{name: "late collector", before: func(p *pod) { p.install() },
		during: func(p *pod) { collector = p.collect() }, after: func(p *pod) { endCollector(p); whole(p) }},
	{name: "collector that ends early", before: withCollector(), during: endCollector, after: func(p *pod) { p.end(p.collect()); whole(p) }},
	{name: "killed collector", before: withCollector(), during: kill},
	{name: "killed collector with a successor", before: withCollector(), during: func(p *pod) { kill(p); collector = p.collect() },
		after: func(p *pod) { endCollector(p); whole(p) }},
	{name: "frozen collector", before: withCollector(), during: func(*pod) { _ = collector.Process.Signal(syscall.SIGSTOP) },
		after: func(p *pod) { _ = collector.Process.Signal(syscall.SIGCONT); endCollector(p); whole(p) }},
	{name: "frozen collector of a job that waits for it", before: func(p *pod) {
		p.install("--ring-size", "64K", "--policy", "block")
		collector = p.collect()
	}, during: func(*pod) { _ = collector.Process.Signal(syscall.SIGSTOP) },
		after: func(p *pod) { _ = collector.Process.Signal(syscall.SIGCONT); endCollector(p); whole(p) }},
	{name: "two collectors", before: withCollector(), during: func(p *pod) {
		out, err := exec.Command(p.acltrace, "collect", p.session, "-o", filepath.Join(p.out, "second.aclt"), "--wait", "0s").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another recorder has it") {
			p.t.Errorf("%v %s", err, out)
		}
	}, after: func(p *pod) { endCollector(p); whole(p) }},
	{name: "collector killed while it seals its ring", before: withCollector("--ring", "1M"), during: func(p *pod) {
		_ = exec.Command(p.acltrace, "ctl", "snapshot", "--session", p.session).Run()
		kill(p)
	}, after: func(p *pod) {
		p.end(p.collect())
		if calls, _ := p.traces(); calls == 0 {
			p.t.Errorf("nothing was salvaged: %s", p.log.String())
		}
	}},
	{name: "control socket removed", before: withCollector(), during: func(p *pod) { os.Remove(filepath.Join(p.session, "socket")) },
		after: func(p *pod) { endCollector(p); whole(p) }},
	{name: "output folder removed", before: withCollector(), during: func(p *pod) { os.RemoveAll(p.out) },
		after: func(p *pod) { _ = collector.Process.Signal(syscall.SIGTERM); _ = collector.Wait() }},
	{name: "session folder removed", before: withCollector(), during: func(p *pod) { os.RemoveAll(p.session) },
		after: func(p *pod) { _ = collector.Process.Signal(syscall.SIGTERM); _ = collector.Wait() }},
	{name: "rings removed", before: withCollector(), during: func(p *pod) {
		rings, _ := filepath.Glob(filepath.Join(p.session, "ring.*"))
		for _, r := range rings {
			os.Remove(r)
		}
	}, after: func(p *pod) { endCollector(p); whole(p) }},
	{name: "session of another version", before: func(p *pod) {
		p.install()
		f, err := os.OpenFile(filepath.Join(p.session, "control"), os.O_RDWR, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		_, err = f.WriteAt([]byte{99}, 8)
		if err := errors.Join(err, f.Close()); err != nil {
			p.t.Fatal(err)
		}
	}, during: func(p *pod) {
		out, err := exec.Command(p.acltrace, "collect", p.session, "-o", filepath.Join(p.out, "t.aclt")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "another version") {
			p.t.Errorf("%v %s", err, out)
		}
	}},
	{name: "no shim", before: func(p *pod) { p.install(); os.RemoveAll(filepath.Join(p.session, "shim")) }},
	{name: "no session", before: func(p *pod) { p.install(); os.Remove(filepath.Join(p.session, "control")) }},
	{name: "no right to the session", root: true, before: func(p *pod) { p.install() }, during: func(p *pod) {
		cmd := exec.Command(p.acltrace, "collect", p.session, "-o", "/dev/null/x.aclt")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err == nil {
			p.t.Errorf("it collects: %s", out)
		}
	}},
	{name: "memory of the session full", root: true, before: func(p *pod) { p.mount(p.session, "size=9m"); p.install() },
		after: func(p *pod) { p.end(p.collect()) }},
	{name: "disk full", root: true, before: func(p *pod) { p.mount(p.out, "size=1m"); withCollector()(p) },
		after: func(p *pod) { _ = collector.Process.Signal(syscall.SIGTERM); _ = collector.Wait() }},
	{name: "disk read-only", root: true, before: func(p *pod) { p.mount(p.out, "size=64m"); withCollector()(p) },
		during: func(p *pod) { _ = syscall.Mount("", p.out, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") },
		after:  func(p *pod) { _ = collector.Process.Signal(syscall.SIGTERM); _ = collector.Wait() }},
	{name: "killed recorder", record: []string{}, during: func(*pod) { _ = collector.Process.Kill() }},
	{name: "killed recorder of a ring", record: []string{"--ring", "1M"}, during: func(*pod) { _ = collector.Process.Kill() }},
	{name: "frozen recorder", record: []string{"--policy", "block", "--ring-size", "64K"}, during: func(*pod) { _ = collector.Process.Signal(syscall.SIGSTOP) },
		after: func(*pod) { _ = collector.Process.Signal(syscall.SIGCONT) }},
	{name: "no folder for state", record: []string{}, before: func(p *pod) {
		p.env = []string{"XDG_STATE_HOME=/proc/nowhere"}
	}},
	{name: "metrics to nowhere", record: []string{"--metrics", "otlp"}, before: func(p *pod) {
		p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://192.0.2.1:4318", "OTEL_METRIC_EXPORT_INTERVAL=100"}
	}},
}

func kill(*pod) { _ = collector.Process.Kill(); _ = collector.Wait() }

// mount mounts a small file system on a folder.
func (p *pod) mount(dir, options string) {
	p.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		p.t.Skipf("mounting a file system takes root: %v", err)
	}
	p.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// play runs the job through a failure and returns its result.
func (p *pod) play(f *failure) (result string) {
	p.t.Helper()
	if f.root && os.Geteuid() != 0 {
		p.t.Skip("another user or a small file system takes root")
	}
	if f.before != nil {
		f.before(p)
	}
	var half []string
	if f.during != nil {
		half = []string{"wait"}
	}
	job := p.command(half...)
	if f.plain {
		job.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(p.t, "lib/libascendcl.so")))
	}
	if f.record != nil {
		args := append(append([]string{"record", "-o", filepath.Join(p.out, "t.aclt"), "--sim", "-q"}, f.record...), "--", p.job, p.result, p.rounds, p.work)
		job = exec.Command(p.acltrace, append(args, half...)...)
		job.Env = append(os.Environ(), p.env...)
		job.Stderr = &p.log
		collector = job
	}
	p.start(job)
	if f.during != nil {
		p.halfway()
		if f.record != nil {
			p.recording(job.Process.Pid, 40)
		}
		f.during(p)
		p.letGo()
	}
	result = p.ended()
	if f.record == nil {
		if err := job.Wait(); err != nil {
			p.t.Errorf("the job: %v", err)
		}
	}
	if f.after != nil {
		f.after(p)
	}
	return result
}

// ended waits until the job has ended, and returns its result.
func (p *pod) ended() (result string) {
	p.t.Helper()
	testenv.Wait(p.t, "the end of the job", func() bool {
		b, _ := os.ReadFile(p.result)
		result = string(b)
		return strings.HasSuffix(result, "done\n")
	})
	return result
}

// times are a job's processor time, wall time, and wall time without waiting for a core.
type times [3]time.Duration

func (p *pod) took() (d times) {
	p.t.Helper()
	b, err := os.ReadFile(p.result + ".time")
	if _, e := fmt.Sscan(string(b), &d[0], &d[1], &d[2]); err != nil || e != nil {
		p.t.Fatalf("the times of the job: %v, %q", err, b)
	}
	return d
}

func TestFailuresLeaveTheJobAlone(t *testing.T) {
	want := newPod(t).play(noAcltrace)
	for i := range failures {
		f := &failures[i]
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			if got := newPod(t).play(f); got != want {
				t.Errorf("the job's result is %q, want %q", got, want)
			}
		})
	}
}

// TestSoakFailures measures how much time failures cost the job, compared with the same job without acltrace. It runs all failures
// in turn, with a run without acltrace after every five, until each result is certain or the rounds are used up.
// ACLTRACE_FAILURES, a regular expression, selects failures by the beginnings of their names. ACLTRACE_ROUNDS limits the rounds,
// and ACLTRACE_JOB is the length of the job in its own rounds.
func TestSoakFailures(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("measures, which takes minutes: make soak")
	}
	chosen, err := regexp.Compile("^(" + os.Getenv("ACLTRACE_FAILURES") + ")")
	if err != nil {
		t.Fatal("ACLTRACE_FAILURES: ", err)
	}
	rounds := 15
	if n, err := strconv.Atoi(os.Getenv("ACLTRACE_ROUNDS")); err == nil {
		rounds = n
	}
	length := cmp.Or(os.Getenv("ACLTRACE_JOB"), "20000")
	var them []*failure
	for i := range failures {
		if f := &failures[i]; chosen.MatchString(f.name) && !(f.root && os.Geteuid() != 0) {
			them = append(them, f)
		}
	}
	runJob := func(f *failure) (took times) {
		t.Run("job", func(t *testing.T) {
			p := newPod(t)
			p.rounds, p.work = length, "400000"
			p.play(f)
			took = p.took()
			t.Logf("%s: %.3f s of the processor, %.3f s by the clock, %.3f s with a core whenever it was ready", f.name, took[0].Seconds(), took[1].Seconds(), took[2].Seconds())
		})
		return took
	}
	const least, between = 5, 5
	more := make([][len(times{})][]float64, len(them)) // percent of the time, of each run
	var without [len(times{})][]float64
	for round := range rounds {
		for i := 0; i < len(them); i += between {
			group := them[i:min(i+between, len(them))]
			took := []times{runJob(noAcltrace)}
			for _, f := range group {
				took = append(took, runJob(f))
			}
			took = append(took, runJob(noAcltrace))
			if t.Failed() {
				t.FailNow()
			}
			for what := range without {
				first, last := took[0][what].Seconds(), took[len(took)-1][what].Seconds()
				without[what] = append(without[what], 100*(last/first-1))
				for k := range group {
					at := float64(k+1) / float64(len(group)+1)
					more[i+k][what] = append(more[i+k][what], 100*(took[k+1][what].Seconds()/(first+at*(last-first))-1))
				}
			}
		}
		enough := round+1 >= least
		for i := range more {
			enough = enough && verdict(more[i]) != notShown
		}
		if enough {
			break
		}
	}
	line := func(name string, v [len(times{})][]float64, verdict string) {
		s := "| " + name
		for what := range v {
			median, off := middle(v[what])
			s += fmt.Sprintf(" | %+.1f ± %.1f", median, off)
		}
		t.Logf("%s | %d | %s |", s, len(v[0]), verdict)
	}
	t.Log("| failure | processor, % | clock, % | clock with a core whenever ready, % | runs | at most 2 % |")
	line(noAcltrace.name, without, "")
	for i, f := range them {
		line(f.name, more[i], verdict(more[i]))
	}
	runtime.KeepAlive(collector)
}

const (
	kept        = "kept"
	keptButCore = "kept, but for waits for a core"
	missed      = "**missed**"
	notShown    = "not shown"
)

// verdict returns whether a failure costs at most the allowed time, if the medians are twice as far from it as their error. A
// thread may wait for a core because of the recorder or of any other program.
func verdict(v [len(times{})][]float64) string {
	const allowed = 2 // percent
	within := func(what int) string {
		switch median, off := middle(v[what]); {
		case median+2*off <= allowed:
			return kept
		case median-2*off > allowed:
			return missed
		}
		return notShown
	}
	processor, clock, ready := within(0), within(1), within(2)
	switch {
	case processor == missed || ready == missed:
		return missed
	case processor != kept || ready != kept:
		return notShown
	case clock != kept:
		return keptButCore
	}
	return kept
}

func TestVerdictNeedsSureMeasurements(t *testing.T) {
	about := func(percent float64) []float64 {
		return []float64{percent - 0.2, percent - 0.1, percent, percent + 0.1, percent + 0.2}
	}
	wide := []float64{-6, -3, 0.5, 3, 6}
	for _, c := range []struct {
		v    [len(times{})][]float64
		want string
	}{
		{[...][]float64{about(0.5), about(-0.5), about(1)}, kept},
		{[...][]float64{about(0.5), about(9), about(1)}, keptButCore},
		{[...][]float64{about(0.5), wide, about(1)}, keptButCore},
		{[...][]float64{about(0.5), about(9), about(9)}, missed},
		{[...][]float64{about(3), wide, wide}, missed},
		{[...][]float64{about(0.5), wide, wide}, notShown},
		{[...][]float64{about(1.9), about(0.5), about(0.5)}, notShown},
	} {
		if got := verdict(c.v); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
}

// middle returns the median and its error: the standard error of normally distributed values with the same median deviation.
func middle(v []float64) (median, off float64) {
	half := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	median = half(v)
	var d []float64
	for _, x := range v {
		d = append(d, math.Abs(x-median))
	}
	return median, 1.253 * 1.483 * half(d) / math.Sqrt(float64(len(v)))
}
