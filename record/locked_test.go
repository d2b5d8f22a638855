package record_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A program whose seccomp filter kills it for unknown system calls was killed by the shim: by a thread's first call, which created
// a ring, and by calls on old threads.
func TestProgramsThatLockThemselvesIn(t *testing.T) {
	// Asynchronous copies from pinned memory are read without a system call, from pageable memory they are not.
	program := testenv.CompileC(t, "locked", []string{source("locked.c")})
	env := fake(t)
	const before, work, waiting = 4 + 5, 5, 3 * 5 // calls before the filter, calls for work, and rounds by threads that have waited
	type run struct {
		how, what         string
		calls, unread     int // recorded calls, 0 for all; payloads that no system call may read
		threads, children int // not recorded
	}
	runs := []run{
		{how: "prctl", what: "all", unread: waiting + 1},
		{how: "syscall", what: "all", unread: waiting + 1},
		{how: "before", what: "all", unread: waiting + 2},
		{how: "prctl", what: "threads"},
		{how: "syscall", what: "child", calls: before, children: 1},
		// The shim notices this filter too late to have rings created.
		{how: "raw", what: "all", calls: before + work, unread: 1, threads: 3},
		{how: "raw", what: "threads", calls: before, threads: 8},
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
				if c.how != "raw" && c.what != "threads" || out.ExitCode == 5 && (c.how == "raw" || len(out.calls)+int(out.Lost) == made) {
					break
				}
			}
			want := c.calls
			if want == 0 {
				want = made
			}
			if out.ExitCode != 5 || made == 0 || len(out.calls)+int(out.Lost) != want {
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
