package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A program that truncated its ring, or another file in the session, killed the recorder with SIGBUS. One that overwrote the count
// of lost calls made it report 15489848362267144218 of them.
func TestFilesOfTheRecordingTruncated(t *testing.T) {
	root(t) // opens /proc/self/map_files
	program := testenv.CompileC(t, "truncate", []string{source("truncate.c")})
	const parent, child = 2 + 2*1000, 2 + 1000
	for _, c := range []struct {
		mode, said  string
		calls, lost [2]int // at least, at most
	}{
		{"ring", "ring truncated by the program", [2]int{parent, parent + child}, [2]int{1, child}},
		{"lost", "ring overwritten by the program", [2]int{parent + child, parent + child}, [2]int{0, 0}},
		{"process", "", [2]int{parent + child, parent + child}, [2]int{0, 0}},
		{"control", "control file of the recording truncated", [2]int{0, parent - 1000 + child}, [2]int{0, 0}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			out := wild(t, record.Options{Sim: true, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 1 << 20}}}, program, c.mode)
			if out.ExitCode != 0 && c.mode != "control" { // whose destructors may end by SIGBUS
				t.Errorf("exit code %d, %s", out.ExitCode, out.stderr)
			}
			if n := len(out.calls); out.Incomplete != nil || n < c.calls[0] || n > c.calls[1] || int(out.Lost) < c.lost[0] || int(out.Lost) > c.lost[1] {
				t.Errorf("%d calls, want %v; %d lost, want %v; %v", n, c.calls, out.Lost, c.lost, out.Incomplete)
			}
			said := ""
			for _, u := range out.Unhooked {
				said += u.Reason
			}
			if c.said == "" && said != "" || !strings.Contains(said, c.said) || out.r.Completeness().Whole() != (c.said == "") {
				t.Errorf("reports %q, complete %v", said, out.r.Completeness().Whole())
			}
		})
	}
}

// A recording whose folder was removed lacked all later processes, and was called complete.
func TestFolderOfTheRecordingRemoved(t *testing.T) {
	program := testenv.CompileC(t, "orphan", []string{source("orphan.c")})
	out := wild(t, record.Options{Sim: true}, "sh", "-c", `rm -r "$ACLTRACE_SESSION"; exec "$0" < /dev/null`, program)
	folder := slices.ContainsFunc(out.Unhooked, func(u format.Unhooked) bool { return strings.Contains(u.Reason, "removed while it was in use") })
	other := slices.ContainsFunc(out.Unhooked, func(u format.Unhooked) bool { return !strings.Contains(u.Reason, "removed") }) // a process that lives long enough is named, too
	if len(out.calls) != 0 || !folder || other || out.r.Completeness().Whole() {
		t.Errorf("%d calls, reports %+v, complete %v", len(out.calls), out.Unhooked, out.r.Completeness().Whole())
	}
}
