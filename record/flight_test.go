package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/timeline"
)

// fly records testdata/flight.c with a ring.
func fly(t *testing.T, ring *Ring, args ...string) (*Result, string) {
	t.Helper()
	return flown(t, &Options{Ring: ring, Limits: Limits{Buffers: Buffers{Block: true}}}, nil, args...)
}

// flown records testdata/flight.c. If meanwhile is not nil, the program repeats its launches three times, and waits for the files
// that meanwhile creates. It waits for a recorder without a core for at most half a second: a run that has lost calls is repeated.
func flown(t *testing.T, o *Options, meanwhile func(first, second string), args ...string) (*Result, string) {
	t.Helper()
	for range 5 {
		args, done := slices.Clone(args), make(chan struct{})
		if meanwhile == nil {
			close(done)
		} else {
			dir := t.TempDir()
			first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
			args = append(args, first, second)
			go func() {
				defer close(done)
				meanwhile(first, second)
			}()
		}
		res, out := flownOnce(t, *o, args...)
		<-done
		if res.Lost == 0 {
			return res, out
		}
	}
	t.Fatal("calls are lost each time")
	return nil, ""
}

func flownOnce(t *testing.T, o Options, args ...string) (*Result, string) {
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
	o.Model, o.Output, o.Command, o.Sim = acl.Model, out, append([]string{prog, kernels}, args...), true
	o.Stdin, o.Stdout, o.Stderr = null, null, null
	res, err := Run(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 || res.Incomplete != nil {
		t.Fatalf("%+v", res)
	}
	return res, out
}

// sealed checks a flight recorder's trace: it is sound, has the newest calls, and creates all objects that its calls use.
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
	was := flight.LeastPast
	flight.LeastPast = 1 // remove ended objects each time
	defer func() { flight.LeastPast = was }()
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
	// The graph that was captured before the calls that left the ring has its tasks.
	tasks, runs := 0, 0
	w := timeline.NewWalk(r, acl.Model, nil)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	err := w.Run(&timeline.Visitor{
		Graph: func(_ *timeline.Object, g timeline.Graph) error {
			tasks += len(g.Tasks())
			return nil
		},
		Call: func(_ *timeline.HostCall, k *timeline.Task) error {
			if k != nil && k.Kind == api.GraphRun {
				runs++
			}
			return nil
		},
	})
	if err != nil || tasks != 3 || runs != 1 {
		t.Errorf("%v: %d tasks in graphs, %d runs of them", err, tasks, runs)
	}
}

// If a synchronization fails, the calls before it become one trace, and the calls until the end another one.
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

// An armed recording is switched on and off: the trace has the calls in between, and no others.
func TestArmedRecordingHasCallsInBetween(t *testing.T) {
	const launches = 500
	touch := func(path string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	res, out := flown(t, &Options{Capture: Capture{Calls: Calls{Armed: true}}}, func(first, second string) {
		defer touch(second)
		defer touch(first)
		mine, err := ownSession()
		if err != nil {
			t.Error(err)
			return
		}
		st, err := session.Ask(mine, &session.Request{Do: session.ActStatus})
		if err != nil || st.Recording || st.Calls != 0 || len(st.Command) == 0 {
			t.Errorf("%v: %+v", err, st)
		}
		if _, err := session.Ask(mine, &session.Request{Do: session.ActSnapshot}); !errors.Is(err, session.NoRing) {
			t.Errorf("a snapshot without a ring: %v", err)
		}
		time.Sleep(100 * time.Millisecond) // the first launches have ended, or will be recorded, too
		if st, err = session.Ask(mine, &session.Request{Do: session.ActStart}); err != nil || !st.Recording {
			t.Errorf("%v: %+v", err, st)
		}
		touch(first)
		testenv.Await(func() bool {
			st, err = session.Ask(mine, &session.Request{Do: session.ActStatus})
			return err != nil || st.Calls >= 3*launches
		})
		if st, err = session.Ask(mine, &session.Request{Do: session.ActStop}); err != nil || st.Recording {
			t.Errorf("%v: %+v", err, st)
		}
		touch(second)
	}, fmt.Sprint(launches))
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A launch, an allocation and its end each time, and a synchronization after 50. On a slow machine the first round is there,
	// too.
	want := uint64(3*launches + launches/50)
	if res.Calls < want || res.Calls >= 2*want+20 {
		t.Errorf("%d calls, want %d", res.Calls, want)
	}
	off := 0
	for _, g := range r.Gaps() {
		if g.Reason == format.Detached && g.To > g.From {
			off++
		}
	}
	if off != 2 {
		t.Errorf("gaps %+v", r.Gaps())
	}
}

// ownSession waits until this process records.
func ownSession() (mine string, err error) {
	if !testenv.Await(func() bool {
		for _, dir := range session.List("") {
			if st, err := session.Ask(dir, &session.Request{Do: session.ActStatus}); err == nil && st.Recorder == os.Getpid() {
				mine = dir
			}
		}
		return mine != ""
	}) {
		err = fmt.Errorf("no recording is found")
	}
	return mine, err
}

// pass lets testdata/flight.c go on when recording has stopped.
func pass(first, second string) {
	if mine, err := ownSession(); err == nil {
		testenv.Await(func() bool {
			st, err := session.Ask(mine, &session.Request{Do: session.ActStatus})
			return err != nil || !st.Recording
		})
	}
	_ = os.WriteFile(first, nil, 0o600)
	_ = os.WriteFile(second, nil, 0o600)
}

// After the selected steps recording stops.
func TestStepsStop(t *testing.T) {
	was := stepsGrace
	stepsGrace = time.Millisecond
	defer func() { stepsGrace = was }()
	res, out := flown(t, &Options{Steps: Steps{Range: &StepRange{First: 1, Last: 2}}, Limits: Limits{Buffers: Buffers{Block: true}}}, pass, "500")
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A step has 50 launches, each with an allocation and its end.
	off := slices.ContainsFunc(r.Gaps(), func(g format.Gap) bool { return g.Calls == 0 && g.Reason == format.Detached })
	if res.Calls < 300 || res.Calls > 3000 || !off {
		t.Errorf("%d calls, gaps %+v", res.Calls, r.Gaps())
	}
}

// For ends a recording before the program ends.
func TestForEndsTheRecording(t *testing.T) {
	const launches = 200
	var res *Result
	var out string
	for limit := 2 * time.Second; res == nil || res.Calls == 0 && limit < testenv.Patience; limit *= 4 { // on a machine that is slow, the program begins later
		res, out = flown(t, &Options{Limits: Limits{For: limit}}, pass, fmt.Sprint(launches))
	}
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if res.Calls == 0 || res.Calls > 4*launches || len(r.Gaps()) != 1 || r.Gaps()[0].Reason != format.Detached {
		t.Errorf("%d calls, gaps %+v", res.Calls, r.Gaps())
	}
}

// Each reason to seal a ring works alone.
func TestFlightReasons(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	program := testenv.CompileC(t, "flight", []string{"testdata/flight.c"})
	job := testenv.CompileC(t, "job", []string{"testdata/job.c"})
	launches := []string{program, kernels, "200"}
	for name, c := range map[string]struct {
		command []string
		faults  string
		ring    Ring
		want    string
	}{
		"end":          {launches, "", Ring{}, "the program ended with code 0"},
		"error":        {launches, "aclrtMalloc:50=207001", Ring{}, "the program ended with code 1"},
		"code":         {launches, "aclrtMalloc:50=207001", Ring{Codes: []int32{207002, 207001}}, "aclrtMalloc returned ACL_ERROR_RT_MEMORY_ALLOCATION (207001)"},
		"device error": {launches, "kernel:20=507015", Ring{}, "aclrtSynchronizeStream returned ACL_ERROR_RT_AICORE_EXCEPTION (507015)"},
		"crash":        {[]string{job, filepath.Join(t.TempDir(), "result"), "10", "0", "crash"}, "", Ring{}, "the program was ended by signal 11"},
		"slow call":    {launches, "", Ring{Slow: 1}, "aclInit "}, // finished or not
		"no slow call": {launches, "", Ring{Slow: time.Hour}, "the program ended with code 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ACLSIM_FAULTS", c.faults)
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			res, err := Run(context.Background(), &Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "f.aclt"), Command: c.command, Sim: true, Limits: Limits{Buffers: Buffers{Block: true}}, Ring: &c.ring,
				Stdin: null, Stdout: null, Stderr: null})
			if err != nil || res.Incomplete != nil || len(res.Sealed) == 0 {
				t.Fatalf("%v: %+v", err, res)
			}
			r, err := format.Open(res.Sealed[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got := r.Meta().Sealed; !strings.HasPrefix(got, c.want) {
				t.Errorf("sealed since %q, want %q", got, c.want)
			}
		})
	}
}

// A request seals the ring, and recording goes on.
func TestSnapshotSealsTheRing(t *testing.T) {
	const launches = 500
	res, out := flown(t, &Options{Ring: &Ring{}, Limits: Limits{Buffers: Buffers{Block: true}}}, func(first, second string) {
		defer func() { _, _ = os.WriteFile(first, nil, 0o600), os.WriteFile(second, nil, 0o600) }()
		mine, err := ownSession()
		if err != nil {
			t.Error(err)
			return
		}
		testenv.Await(func() bool {
			st, err := session.Ask(mine, &session.Request{Do: session.ActStatus})
			return err != nil || st.Calls >= 3*launches
		})
		st, err := session.Ask(mine, &session.Request{Do: session.ActSnapshot})
		if err != nil || len(st.Sealed) != 1 || !st.Recording {
			t.Errorf("%v: %+v", err, st)
		}
	}, fmt.Sprint(launches))
	if len(res.Sealed) != 2 || res.Sealed[0] != out {
		t.Fatalf("%+v", res)
	}
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counts, err := r.Counts()
	if err != nil || counts.Calls < 3*launches || counts.Calls >= res.Calls || r.Meta().Sealed != "a user requested it" {
		t.Errorf("%v: %d of %d calls, sealed since %q", err, counts.Calls, res.Calls, r.Meta().Sealed)
	}
	sealed(t, res.Sealed[1], res.Calls)
}

// Time-outs of idle polls used up all traces before the device failed: aclrtProcessReport, and a wait in short slices.
func TestPollsLeaveTracesForTheDeviceError(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	t.Setenv("ACLSIM_FAULTS", "kernel:1=507015")
	program := testenv.CompileC(t, "polls", []string{"testdata/polls.c"})
	res, err := Run(context.Background(), &Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "f.aclt"), Command: []string{program, kernels}, Sim: true,
		Limits: Limits{Buffers: Buffers{Block: true}}, Ring: &Ring{Most: 2, After: time.Millisecond}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v: %+v", err, res)
	}
	var reasons []string
	polls := 0
	for _, path := range res.Sealed {
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, r.Meta().Sealed)
		for c, err := range r.Calls(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if f := acl.Model.Func(api.ID(c.Func)); f.PollsCallbacks {
				if polls++; f.Failed(c.Ret) || r.Schema().Func(c.Func).Failed(c.Ret) {
					t.Errorf("call %d: a poll in vain counts as failed", c.Index)
				}
			}
		}
		r.Close()
	}
	want := []string{"aclrtSynchronizeStreamWithTimeout returned ACL_ERROR_RT_STREAM_SYNC_TIMEOUT (507046)", "aclrtSynchronizeStream returned ACL_ERROR_RT_AICORE_EXCEPTION (507015)"}
	if res.File.Look != 1 {
		t.Errorf("the look is at trace %d, want the device error's", res.File.Look)
	}
	if len(reasons) < 2 || !slices.Equal(reasons[:2], want) || polls != 6 { // the end may fall into the second one
		t.Errorf("%d polls, traces for %q, want %q", polls, reasons, want)
	}
}
