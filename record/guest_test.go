package record_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// guests are programs that are hard to record.
var guests = []struct {
	mode  string
	flags []string // for the compiler
	disk  string   // size of the trace's file system, "" for enough
	some  bool     // some calls are lost without a count, and this is reported
}{
	{mode: "plain"},
	{mode: "killed"},
	{mode: "signal"},
	{mode: "seccomp"},
	{mode: "prefork"},
	{mode: "scribble", some: true},
	{mode: "truncate", some: true},
	{mode: "plain", disk: "700k", some: true},
	{mode: "plain", flags: []string{"-fsanitize=address"}},
	{mode: "prefork", flags: []string{"-fsanitize=address"}},
	{mode: "plain", flags: []string{"-fsanitize=thread"}},
}

// TestRecordedProgramsBehaveAsUnrecorded compares a recorded program with the same program unrecorded: its end, its output, and its own count of calls.
func TestRecordedProgramsBehaveAsUnrecorded(t *testing.T) { compareGuests(t, 1) }

// TestSoakGuests repeats TestRecordedProgramsBehaveAsUnrecorded.
func TestSoakGuests(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	compareGuests(t, 50)
}

func compareGuests(t *testing.T, times int) {
	env := fake(t)
	var made, recorded, counted uint64
	for _, g := range guests {
		name := strings.Join(append([]string{g.mode}, g.flags...), " ")
		if g.disk != "" {
			name += " on a full disk"
		}
		t.Run(name, func(t *testing.T) {
			if g.mode == "truncate" || g.disk != "" {
				root(t)
			}
			program := testenv.CompileC(t, "guest", []string{source("guest.c")}, g.flags...)
			for range times {
				o := record.Options{Env: env, Limits: record.Limits{Buffers: record.Buffers{Block: true, RingBytes: 256 << 10}}, Output: filepath.Join(t.TempDir(), "run.aclt")}
				if g.disk != "" {
					o.Output = filepath.Join(tmpfs(t, g.disk), "run.aclt")
				}
				cmd := exec.Command(program, g.mode)
				var stdout, stderr bytes.Buffer
				cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
				_ = cmd.Run()
				alone := cmd.ProcessState.Sys().(syscall.WaitStatus)
				out := wild(t, o, program, g.mode)
				if out.stdout != stdout.String() || alone.Exited() && out.ExitCode != alone.ExitStatus() || alone.Signaled() && out.Signal != int(alone.Signal()) {
					t.Fatalf("alone it ends with status %#x and %q, recorded %+v and %q; %s", alone, stdout.String(), out.Result, out.stdout, out.stderr)
				}
				lines := strings.Split(strings.TrimSpace(out.stderr), "\n") // a sanitizer's report may come first
				n, _ := strconv.ParseUint(lines[len(lines)-1], 10, 64)
				got, lost := uint64(len(out.calls)), out.Lost+out.Unwritten
				if n == 0 || got > n || got+lost != n && !g.some || got < n/4 && g.disk == "" {
					t.Fatalf("%d calls made, %d recorded, %d counted as lost; %+v", n, got, lost, out.Result)
				}
				if said := len(out.Unhooked) > 0 || out.File.Full || out.Incomplete != nil; got+lost != n && !said {
					t.Errorf("%d calls made, %d recorded, and nothing says why", n, got)
				}
				made, recorded, counted = made+n, recorded+got, counted+lost
			}
		})
	}
	t.Logf("%d programs, %d times each: %d calls made, %d recorded, %d counted as lost", len(guests), times, made, recorded, counted)
}
