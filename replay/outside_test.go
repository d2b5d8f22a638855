package replay

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// A graph's copy from pinned memory read the content of the capture in each run of a replay, so results were different.
func TestReplayOfGraphWhoseSourceChanges(t *testing.T) {
	program := testenv.CompileC(t, "sources", []string{"testdata/sources.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	const runs = 6
	for _, place := range []string{compile.PlaceAuto, compile.PlaceMove} {
		identical(t, run(t, path, &Options{Verify: true, Place: place}), 2*runs)
	}

	// Traces of earlier versions lack the content before each run.
	calls := load(t, path)
	for _, c := range calls {
		if acl.Model.Func(api.ID(c.Func)).Task == api.GraphRun {
			c.Data = keep(c.Data, func(d *format.Data) bool { return d.Dir == format.DirOut })
		}
	}
	r := run(t, rewrite(t, path, calls), &Options{Verify: true})
	unproved(t, r, 0, map[verify.Reason]int{verify.Managed: 2 * runs})
	if u := r.Unverified[0]; !strings.Contains(u.Reason, "copies host memory from call ") {
		t.Errorf("%+v", u)
	}
}

func keep(data []format.Data, want func(*format.Data) bool) (kept []format.Data) {
	for i := range data {
		if want(&data[i]) {
			kept = append(kept, data[i])
		}
	}
	return kept
}

// The calls of a process that was forked after its parent had called the runtime failed in the recording and succeeded in the replay.
func TestReplayOfProcessesForkedInUse(t *testing.T) {
	program := testenv.CompileC(t, "forks", []string{"testdata/forks.c"})
	simulate(t)
	path := recorded(t, program)
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	forked := 0
	for _, p := range r.Processes() {
		if p.ForkedFrom != 0 {
			forked++
			if p.ForkedFrom != r.Processes()[0].PID {
				t.Errorf("%+v is forked from another process than %d", p, r.Processes()[0].PID)
			}
		}
	}
	r.Close()
	if forked != 3 {
		t.Errorf("%d processes were forked in use", forked)
	}
	for range 3 {
		rep := run(t, path, &Options{Verify: true})
		identical(t, rep, 2)
		if rep.Replayed != rep.Calls || rep.Calls != 5*5+2 {
			t.Errorf("%d of %d calls replayed", rep.Replayed, rep.Calls)
		}
	}
}

// Results of memory that a process outside the trace may have written were different without a reason, or identical by chance.
func TestReplayMarksResultsOfExportedMemoryUnproved(t *testing.T) {
	program := testenv.CompileC(t, "exports", []string{"testdata/exports.c"})
	binary := kernels(t)
	simulate(t)
	r := run(t, recorded(t, program, binary), &Options{Verify: true})
	unproved(t, r, 2, map[verify.Reason]int{verify.Peer: 3})
	for _, u := range r.Unverified {
		if !strings.Contains(u.Reason, "exported to a process that is not in the trace") {
			t.Errorf("%+v", u)
		}
	}

	// Memory that another process of the trace imports is replayed.
	program = testenv.CompileC(t, "peers", []string{"testdata/peers.c"})
	identical(t, run(t, recorded(t, program, binary), &Options{Verify: true}), 5)
}
