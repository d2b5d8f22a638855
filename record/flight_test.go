package record

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/timeline"
)

// fly records testdata/flight.c with a ring.
func fly(t *testing.T, ring *Ring, args ...string) (*Result, string) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	prog := testenv.CompileC(t, "flight", []string{"testdata/flight.c"})
	out := filepath.Join(t.TempDir(), "f.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := Run(context.Background(), &Options{Model: acl.Model, Output: out, Command: append([]string{prog, kernels}, args...), Sim: true, Block: true, Ring: ring,
		Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 || res.Incomplete != nil || res.Lost > 0 {
		t.Fatalf("%+v", res)
	}
	return res, out
}

// sealed checks a trace of a flight recorder: sound, with the newest calls, and understandable: everything that its calls name was made in it.
func sealed(t *testing.T, path string, seen uint64) (r *format.Reader, gap format.Gap) {
	t.Helper()
	if rep, err := format.Check(path, nil); err != nil || len(rep.Problems) > 0 {
		t.Fatalf("%v %+v", err, rep)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, g := range r.Gaps() {
		if g.Reason != format.Outdated {
			t.Errorf("gap %+v", g)
		}
		gap = g
	}
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Calls+gap.Calls != seen {
		t.Errorf("%d calls and %d left out, want %d", counts.Calls, gap.Calls, seen)
	}
	s := timeline.NewState(acl.Model)
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range s.Apply(0, c).Uses {
			if u.Object.Created == timeline.NoCall {
				t.Fatalf("call %d, %s, names %s, which nothing has made", c.Index, r.Schema().FuncName(c.Func), timeline.Place(u))
			}
		}
	}
	return r, gap
}

func TestFlightRecorder(t *testing.T) {
	was := leastPast
	leastPast = 1 // what has ended is cleared away each time
	defer func() { leastPast = was }()
	res, out := fly(t, &Ring{Bytes: 1 << 18}, "60000")
	if len(res.Sealed) != 1 || res.Sealed[0] != out {
		t.Fatalf("sealed %q", res.Sealed)
	}
	r, gap := sealed(t, out, res.Calls)
	if !strings.Contains(r.Meta().Sealed, "ended with code 0") || r.Meta().Replayable {
		t.Errorf("%+v", r.Meta())
	}
	if gap.Calls == 0 {
		t.Errorf("none of %d calls was left out", res.Calls)
	}
	if st, err := os.Stat(out); err != nil || st.Size() > 1<<20 {
		t.Errorf("%v, %v", st.Size(), err)
	}
	// The graph that was captured before everything that has left the ring has its tasks.
	tasks, runs := 0, 0
	_, err := timeline.Scan(r, acl.Model, &timeline.Visitor{
		Graph: func(_ *timeline.Object, list []timeline.Task) { tasks += len(list) },
		Call: func(_ *timeline.HostCall, k *timeline.Task) {
			if k != nil && k.Kind == api.GraphRun {
				runs++
			}
		},
	})
	if err != nil || tasks != 3 || runs != 1 {
		t.Errorf("%v: %d tasks in graphs, %d runs of them", err, tasks, runs)
	}
}

// TestFlightSeals has a synchronization fail on the way: there is a trace of what led to it, and of the end one of its own.
func TestFlightSeals(t *testing.T) {
	res, out := fly(t, &Ring{Bytes: 1 << 18, After: 1}, "30000", "fail")
	if len(res.Sealed) != 2 || res.Sealed[0] != out || res.Sealed[1] != strings.TrimSuffix(out, ".aclt")+"-2.aclt" {
		t.Fatalf("sealed %q", res.Sealed)
	}
	first, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if why := first.Meta().Sealed; !strings.Contains(why, "aclrtSynchronizeStream returned") {
		t.Errorf("sealed since %q", why)
	}
	counts, err := first.Counts()
	if err != nil || counts.Failed != 1 {
		t.Errorf("%v: %+v", err, counts)
	}
	sealed(t, res.Sealed[1], res.Calls)
}

func TestFlightTime(t *testing.T) {
	res, out := fly(t, &Ring{Time: 100 * time.Millisecond, Slow: time.Hour}, "60000")
	_, gap := sealed(t, out, res.Calls)
	if gap.Calls == 0 {
		t.Skip("the program took less than the ring holds")
	}
}
