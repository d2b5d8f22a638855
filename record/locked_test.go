package record_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
)

// A program whose seccomp filter kills it for unknown system calls was killed by the shim: by a thread's first call, which created
// a ring, and by calls on old threads.
func TestProgramsThatLockThemselvesIn(t *testing.T) {
	// Asynchronous copies from pinned memory are read without a system call, from pageable memory they are not.
	program := testenv.CompileC(t, "locked", []string{source("locked.c")})
	env := fake(t)
	const work, waiting = 5, 3 * 5 // calls of a child, and rounds by threads that have waited
	type run struct {
		how, what         string
		unread            int // payloads that no system call may read
		threads, children int // not recorded: their calls are counted
	}
	runs := []run{
		{how: "prctl", what: "all", unread: waiting + 1},
		{how: "syscall", what: "all", unread: waiting + 1},
		{how: "before", what: "all", unread: waiting + 2},
		{how: "prctl", what: "threads"},
		{how: "syscall", what: "child", children: 1},
		// The shim notices this filter too late to have rings created.
		{how: "raw", what: "all", unread: 1, threads: 3},
		{how: "raw", what: "threads", threads: 8},
	}
	if runtime.GOARCH == "amd64" {
		// A thread in strict mode may not read the processor's counter there: its later calls are counted alone.
		runs = append(runs, run{how: "prctl", what: "strict", threads: 1}, run{how: "syscall", what: "strict", threads: 1})
	}
	for _, n := range []int{unix.SYS_OPENAT, unix.SYS_GETTID, unix.SYS_PROCESS_VM_READV, unix.SYS_MMAP} {
		runs = append(runs, run{how: "syscall", what: strconv.Itoa(n), unread: waiting + 1})
	}
	for _, c := range runs {
		t.Run(c.how+" "+c.what, func(t *testing.T) {
			var out *outcome
			made := 0
			for ms := 400; ms < 60_000; ms *= 4 { // a busy recorder creates rings later
				out = wild(t, record.Options{Env: env, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 1 << 20}}, Capture: record.Capture{Payload: record.Full}}, program, c.how, c.what, strconv.Itoa(ms))
				made, _ = strconv.Atoi(strings.TrimSpace(out.stdout))
				made += c.children * work
				if c.how != "raw" && c.what != "threads" || out.ExitCode == 5 && (c.how == "raw" || len(out.calls)+int(out.Lost) == made) {
					break
				}
			}
			if out.ExitCode != 5 || made == 0 || len(out.calls)+int(out.Lost) != made {
				t.Fatalf("exit code %d, %d calls made, %d recorded, %d lost; %+v; %s", out.ExitCode, made, len(out.calls), out.Lost, out.Result, out.stderr)
			}
			said := ""
			if n := c.threads + c.children; n > 0 {
				said = fmt.Sprintf("%d threads and children are not recorded", n)
			}
			if us := out.Unhooked; said == "" && len(us) > 0 || said != "" && (len(us) != 1 || us[0].Exe != program || !strings.HasSuffix(us[0].Reason, said)) {
				t.Errorf("%+v, want %q", us, said)
			}
			unread := 0
			for d, err := range out.r.Data(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Status == format.Missing && d.Reason == format.Filtered {
					unread++
				}
			}
			if unread != c.unread {
				t.Errorf("%d payloads not read for the filter, want %d", unread, c.unread)
			}
		})
	}
}

// A full ring made the shim look for its session, by system calls. So a filter that the shim had not noticed killed the program.
func TestFullRingMakesNoSystemCall(t *testing.T) {
	program := testenv.CompileC(t, "locked", []string{source("locked.c")})
	s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{RingBytes: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command(program, "raw", "full", "0")
	cmd.Env = append(fake(t), "LD_PRELOAD="+testenv.Built(t, "lib/libacltrace.so"), "ACLTRACE_SESSION="+s.Dir())
	made, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 5 {
		t.Fatalf("the program ended with %v", err)
	}
	n := sink{}
	if err := s.Finish(&n); err != nil {
		t.Fatal(err)
	}
	if all, _ := strconv.Atoi(strings.TrimSpace(string(made))); all < 300_000 || n.calls == 0 || n.calls+int(n.lost) != all {
		t.Errorf("%s calls made, %d recorded, %d lost", made, n.calls, n.lost)
	}
}
