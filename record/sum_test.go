package record_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/session"
)

// sumKinds are the ways to record, and sumEnds the ways in which a recording ends.
var (
	sumKinds = map[string][]string{
		"file":  nil,
		"small": {"--ring-size", "64K"},
		"block": {"--policy", "block"},
		"ring":  {"--ring", "1M"},
		"late":  {"--ring", "1M", "--ring-size", "64K"},
		"blobs": {"--payload", "full", "--blobs", "run.blobs"},
		"steps": {"--steps", "1000000:1000001"}, // the program does not reach them
	}
	sumEnds = []string{"program ends", "program killed", "recorder killed", "both killed", "snapshot"}
)

// A recovered trace counted lost calls twice. With a ring, calls that were lost in dropped segments were in no sum.
//
// However a recording ends, the calls that the program made are those in the trace, those that are lost, and those that were left
// out as older or outside the window. The program's library counts them, too.
func TestCallsAddUp(t *testing.T) { callsAddUp(t, 10) }

func TestSoakCallsAddUp(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	callsAddUp(t, 200)
}

func callsAddUp(t *testing.T, times int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newSum(t)
	var kinds []string
	for k := range sumKinds {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for i := range times {
		kind, end := kinds[random.IntN(len(kinds))], sumEnds[i%len(sumEnds)]
		if rings := []string{"ring", "late"}; end == "snapshot" {
			kind = rings[random.IntN(len(rings))]
		}
		t.Run(kind+" "+end, func(t *testing.T) { s.run(t, sumKinds[kind], end, 1+random.Uint64N(200_000)) })
	}
}

// tally is a program with a library that counts its calls.
type tally struct {
	acltrace, program string
	env               []string
}

func newSum(t *testing.T) *tally {
	testenv.Built(t, "lib/libacltrace.so")
	lib := testenv.CompileC(t, "libascendcl.so", []string{source("sum.c")}, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	return &tally{testenv.Built(t, "bin/acltrace"), testenv.CompileC(t, "sum", []string{source("sum.c")}), append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib))}
}

// sumThreads is the number of the program's threads that make calls. If it is killed, each may be about to call the library.
const sumThreads = 3

// run records the program until it has made a number of calls, ends it in a way, and compares the sums.
func (s *tally) run(t *testing.T, flags []string, end string, calls uint64) (dir string) {
	dir = t.TempDir()
	shared, trace := filepath.Join(dir, "shared"), filepath.Join(dir, "run.aclt")
	if err := os.WriteFile(shared, make([]byte, 24), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(shared, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page, err := syscall.Mmap(int(file.Fd()), 0, 24, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(page) }()
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(page[8*i:]) }

	cmd := exec.Command(s.acltrace, slices.Concat([]string{"record", "-q", "--no-task-ids", "-o", trace}, flags, []string{"--", s.program})...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(s.env, "SUM="+shared), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() { binary.NativeEndian.PutUint64(page[16:], 1) }
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer stop()
	testenv.Wait(t, "calls of the program", func() bool { return word(1) != 0 && word(0) >= calls })
	pid := int(word(1))
	folder := ""
	orphaned := end == "recorder killed" || end == "both killed"
	if orphaned {
		folder = sessionOf(t, cmd.Process.Pid)
		user := exec.Command("sleep", "3600") // other recordings leave the session alone
		user.Env = []string{"ACLTRACE_SESSION=" + folder}
		if err := user.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = user.Process.Kill(), user.Wait() }()
		defer os.RemoveAll(folder)
	}
	traces := []string{trace}
	switch end {
	case "program killed", "both killed":
		_ = syscall.Kill(pid, syscall.SIGKILL)
	case "snapshot":
		if _, err := session.Ask(sessionOf(t, cmd.Process.Pid), &session.Request{Do: session.ActSnapshot}); err != nil {
			t.Error(err)
		}
		traces = append(traces, filepath.Join(dir, "run-2.aclt"))
	}
	if orphaned {
		_ = cmd.Process.Kill()
	}
	stop()
	<-ended
	testenv.Wait(t, "the end of the program", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ") // a zombie may not be reaped
	})
	if orphaned {
		trace = filepath.Join(dir, "recovered.aclt")
		traces = []string{trace}
		if out, err := exec.Command(s.acltrace, "recover", folder, "-o", trace).CombinedOutput(); err != nil {
			t.Fatalf("recover: %v %s", err, out)
		}
	}
	made := word(0)
	for _, path := range traces {
		got, what := accounted(t, path)
		most := made
		if strings.Contains(end, "killed") {
			most += sumThreads
		}
		if path == traces[len(traces)-1] && (got < made || got > most) || got > most {
			t.Errorf("%s: %d calls made, %d accounted for (%+d): %s", filepath.Base(path), made, got, int64(got-made), what)
		}
	}
	return dir
}

// The same by uprobes, with a buffer that is too small.
func TestCallsAddUpByUprobes(t *testing.T) {
	trials := uprobe.Try(acl.Model, false)
	testenv.Uprobes(t, trials[len(trials)-1].Err)
	s := newSum(t)
	for _, end := range []string{"program ends", "program killed"} {
		t.Run(end, func(t *testing.T) { s.run(t, []string{"--probe", "ebpf", "--ring-size", "64K"}, end, 5_000) })
	}
}

// The trace that was recovered of a recording with --blobs named the old file of payloads and had all contents itself.
func TestRecoveredTraceHasNoContents(t *testing.T) {
	s := newSum(t)
	dir := s.run(t, sumKinds["blobs"], "recorder killed", 1000)
	path := filepath.Join(dir, "recovered.aclt")
	if copies, _ := contents(t, path); copies.short == 0 || copies.short != copies.all {
		t.Errorf("%+v contents", copies)
	}
	if err := os.Remove(filepath.Join(dir, "run.recovered.blobs")); err != nil {
		t.Fatal(err)
	}
	if copies, _ := contents(t, path); copies.short != 0 {
		t.Errorf("%+v contents without the file of payloads", copies)
	}
}

// accounted returns the sum of a trace, whose file must be sound.
func accounted(t *testing.T, path string) (n uint64, what string) {
	t.Helper()
	if rep, err := format.Check(path, nil); err != nil || len(rep.Problems) > 0 {
		t.Errorf("%v %+v", err, rep)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counts, err := r.Counts()
	n, err2 := r.Accounted()
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	gaps := map[string]uint64{}
	for _, g := range r.Gaps() {
		gaps[g.Reason.String()] += g.Calls
	}
	return n, fmt.Sprintf("%d calls, %d unfinished, gaps %v", counts.Calls, counts.Unfinished, gaps)
}

// sessionOf returns the session folder of a recorder.
func sessionOf(t *testing.T, recorder int) (folder string) {
	t.Helper()
	testenv.Wait(t, "the session", func() bool {
		for _, dir := range session.List("") {
			if session.ReadNote(dir).PID == recorder {
				folder = dir
			}
		}
		return folder != ""
	})
	return folder
}
