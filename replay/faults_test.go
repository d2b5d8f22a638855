package replay

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/replay/verify"
)

// After a task had failed in a context that stops on failure, launches returned its error from a moment on that depends on the device. A
// replay was different or identical by chance.
func TestReplayOfFailedTask(t *testing.T) {
	const (
		fault    = 507015
		launches = 6
		ok       = launches + 1 // no launch reports the failure
	)
	l := library(t)
	// record makes a trace in which the launches from a number on report the failure, and a wait does if waits is set.
	record := func(t *testing.T, stops uint64, from int, waits bool) string {
		tw := newTrace(t)
		tw.begin()
		tw.call("aclrtSetStreamFailureMode", []uint64{stream, stops})
		tw.load()
		tw.malloc(dev, 64)
		tw.toDevice(dev, pattern(64, 3))
		for n := 1; n <= launches; n++ {
			code := uint64(0)
			if n >= from {
				code = fault
			}
			tw.call("aclrtLaunchKernelWithHostArgs", []uint64{fun, 1, stream, 0, page, 32, 0, 0}, in(4, words(dev, dev, 64, 0)), fails(code))
		}
		if waits {
			tw.call("aclrtSynchronizeStream", []uint64{stream}, fails(fault))
		}
		tw.toHost(dev, pattern(64, 3))
		return tw.close()
	}
	for _, c := range []struct {
		name  string
		stops uint64
		from  int // the recorded launches from here on report the failure
		waits bool
		fault string // of the replay

		want     verify.Verdict
		reported int // calls at another moment
		earlier  bool
	}{
		{"same moment", 1, 4, true, "2,4", verify.Identical, 0, false},
		{"earlier", 1, 5, true, "2,3", verify.Identical, 2, true},
		{"later", 1, 3, true, "2,6", verify.Identical, 0, false}, // the replay waits for the failure
		{"only at the wait", 1, ok, true, "2,3", verify.Identical, 4, true},
		{"not at a launch", 1, ok, true, fmt.Sprint("2,", ok), verify.Identical, 0, false},
		{"without a wait", 1, 4, false, "2,6", verify.Identical, 0, false},
		{"another task", 1, 4, true, "6,6", verify.Different, 0, false},
		{"no failure", 1, 4, true, "", verify.Different, 0, false},
		{"no failure, without a wait", 1, 4, false, "", verify.Different, 0, false},
		{"no failure in the recording", 1, ok, false, "2,3", verify.Different, 0, false},
		{"context that does not stop", 0, 5, true, "2,3", verify.Different, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := record(t, c.stops, c.from, c.waits)
			o := &Options{Backend: l, Verify: true}
			if c.fault != "" {
				o.Env = []string{"FAKE_FAULT=" + c.fault}
			}
			r := run(t, path, o)
			if r.Verdict != c.want || c.want == verify.Identical && (r.ReportedTotal != c.reported || len(r.Reported) != c.reported || len(r.Reported) > 0 && r.Reported[0].Earlier != c.earlier) {
				t.Errorf("%s, %d reported %+v; differences %+v", r.Verdict, r.ReportedTotal, r.Reported, r.Differences)
			}
			o.Repeat = 2
			if again := run(t, path, o); again.Verdict != c.want {
				t.Errorf("repeated: %s, %+v", again.Verdict, again.Repeat.NotDeterministic)
			}
		})
	}
	// A bundle has the same verdict.
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := Bundle(record(t, 1, 5, true), acl.Model, dir, nil); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_FAULT", "2,3")
	out, code := runBundle(t, dir, l)
	if code != 0 || strings.Count(out, "reported earlier: call ") != 1 || !strings.Contains(out, "\nidentical: 1 result") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A call that failed in the replay alone had its outputs compared: whatever the memory held was printed as a value.
func TestCallThatFailsHereHasNoOutputs(t *testing.T) {
	simulate(t)
	tw := newTrace(t)
	tw.begin()
	asked := tw.call("aclrtCtxGetSysParamOpt", []uint64{0, page}, out(1, 5)) // the option was never set
	r := run(t, tw.close(), &Options{Verify: true})
	if len(r.Differences) != 1 || r.Differences[0].Call != asked || r.Differences[0].Param != "" || r.Results.Other != 1 {
		t.Errorf("%+v, %+v", r.Differences, r)
	}
}
