package toolkit

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// ranksProgram compiles the program of several ranks.
func ranksProgram(t *testing.T) string {
	t.Helper()
	lib := strings.TrimSuffix(testenv.Built(t, "lib/libhccl.so"), "/libhccl.so")
	return testenv.CompileC(t, "ranks", []string{"testdata/ranks.c"}, "-L"+lib, "-lhccl", "-Wl,-rpath,"+lib)
}

// together runs ranks with variables and returns their output.
func together(t *testing.T, program, args string, variables ...string) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, strings.Fields(args)...)
	cmd.Env = slices.Concat(os.Environ(), []string{"ACLSIM_DEVICES=2", "ACLSIM_KERNELS_BESIDE=1", "HCCL_BUFFSIZE=1"}, variables)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // ranks are processes of the program
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", args, err, &o, &e)
	}
	return o.String(), e.String()
}

// The program compares the results of each collective, type and reduction, of messages larger than a buffer, in graphs, and in
// communicators of some ranks.
func TestCollectivesOfSeveralRanks(t *testing.T) {
	program := ranksProgram(t)
	for _, c := range []struct {
		args      string
		variables []string
	}{
		{"threads 2", []string{"ACLSIM_STRICT=1"}},
		{"processes 2", []string{"ACLSIM_STRICT=1"}},
		{"threads 2", []string{"ACLSIM_CLOCK=virtual"}},
		{"processes 2", []string{"ACLSIM_CLOCK=virtual"}},
		{"processes 3", nil},
		{"all 4", nil},
	} {
		t.Run(c.args+strings.Join(c.variables, ""), func(t *testing.T) {
			t.Parallel()
			if _, errs := together(t, program, c.args, c.variables...); strings.Contains(strings.ReplaceAll(errs, "no findings", ""), "finding") {
				t.Error(errs)
			}
		})
	}
}

// A trace of all ranks has all that collectives do. A replay called them left out, and all results unproved.
func TestReplayOfAllRanks(t *testing.T) {
	program, acltrace := ranksProgram(t), testenv.Built(t, "bin/acltrace")
	for _, args := range []string{"threads 2", "processes 2"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			trace := filepath.Join(t.TempDir(), "ranks.aclt")
			together(t, acltrace, "record --sim -q -f --replayable -o "+trace+" -- "+program+" "+args)
			var r struct {
				Verdict string
				Results struct{ Total, Proved int }
				LeftOut []struct {
					Func   string
					Reason string
				} `json:"left_out"`
			}
			out, _ := together(t, acltrace, "replay --verify --json "+trace)
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if r.Verdict != "identical" || r.Results.Total < 200 || r.Results.Proved != r.Results.Total {
				t.Errorf("%+v", r)
			}
			for _, l := range r.LeftOut {
				if !strings.HasSuffix(l.Reason, "do all of it") {
					t.Errorf("%+v", l)
				}
			}
			if out, _ := together(t, acltrace, "replay --verify "+trace); strings.Contains(out, "left out:") || !strings.Contains(out, "identical: ") {
				t.Error(out)
			}
		})
	}
}

// Root information that has been used is refused. The descriptor that it names may be another file's then, which was resized.
func TestUsedRootInformation(t *testing.T) {
	if _, errs := together(t, ranksProgram(t), "again 2"); !strings.Contains(errs, "was used by other ranks already") {
		t.Error(errs)
	}
}

// A rank that never joins, that makes no collective, or whose process is killed ends the wait of the others with an error.
func TestAbsentRank(t *testing.T) {
	program := ranksProgram(t)
	for _, c := range []struct{ args, variable, out, errs string }{
		{"threads 2 late", "HCCL_CONNECT_TIMEOUT=1", "9\n", "rank 0 of 2 waits for rank 1, which has not come in 1 s; HCCL_CONNECT_TIMEOUT sets the limit"},
		{"processes 2 late", "HCCL_CONNECT_TIMEOUT=1", "9\n", "waits for rank 1, which has not come in 1 s"},
		{"processes 3 dies", "HCCL_CONNECT_TIMEOUT=900", "21\n", "rank 0 of 3 waits for rank 1, which has failed or ended"},
		{"threads 2 missing", "HCCL_EXEC_TIMEOUT=1", "107019 0\n", ""},
		{"processes 2 missing", "HCCL_EXEC_TIMEOUT=1", "107019 0\n", ""},
		{"processes 2 ends", "HCCL_EXEC_TIMEOUT=0", "507022 21\n", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			if out, errs := together(t, program, c.args, c.variable); out != c.out || !strings.Contains(errs, c.errs) {
				t.Errorf("it printed %q, want %q\n%s", out, c.out, errs)
			}
		})
	}
}
