package recording

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
)

// Regression: "No call was seen: the program did not call the runtime" was printed above a process whose calls were not
// recorded.
func TestNoCallDoesNotContradictWhatFollows(t *testing.T) {
	o := &record.Options{Model: acl.Model}
	for _, c := range []struct {
		res  record.Result
		want string
		not  string
	}{
		{record.Result{}, "did not call the runtime", "went past"},
		{record.Result{ExitCode: 127}, "a library or a command is missing; without a device, --sim", "did not call"},
		{record.Result{NoShim: []format.Unhooked{{PID: 7, Exe: "/bin/x", Reason: "its environment was cleared"}}}, "no call was seen: process 7", "did not call"},
		{record.Result{Unhooked: []format.Unhooked{{PID: 7}}}, "no call was recorded", "no call was seen"},
		{record.Result{PassedBy: map[string]uint64{"aclNew": 3}}, "no call was recorded", "no call was seen"},
	} {
		if s := nothing(o, &c.res); !strings.Contains(s, c.want) || strings.Contains(s, c.not) {
			t.Errorf("%q: want %q and not %q", s, c.want, c.not)
		}
	}
	o.Capture.Armed = true
	if s := nothing(o, &record.Result{}); !strings.Contains(s, "acltrace ctl start") || strings.Contains(s, "did not call") {
		t.Errorf("armed, and never started: %q", s)
	}
}

// Regression: "no call was recorded; calls that passed by the recorder:; the earlier file is kept" had a colon before nothing.
func TestNothingRecordedIsListedBelow(t *testing.T) {
	res := record.Result{Output: "x.aclt", File: record.FileResult{OlderKept: true}, Unhooked: []format.Unhooked{{PID: 7, Exe: "/bin/x", Reason: "why"}}}
	for _, quiet := range []bool{false, true} {
		var b strings.Builder
		Text(&b, &record.Options{Model: acl.Model}, &res, quiet)
		if want := "acltrace: x.aclt: no call was recorded; the earlier file is kept\nacltrace: NOT RECORDED: process 7, /bin/x: why\n"; b.String() != want {
			t.Errorf("%s, want %s", b.String(), want)
		}
	}
	res.Calls, res.Unhooked = 1, nil
	var b strings.Builder
	if Text(&b, &record.Options{Model: acl.Model}, &res, true); b.Len() > 0 {
		t.Errorf("quiet: %s", &b)
	}
}

// Regression: an eBPF recording with lost calls advised --policy block, which eBPF does not support.
func TestAdviceFitsTheProbe(t *testing.T) {
	for _, c := range []struct {
		o    record.Options
		want string
	}{
		{record.Options{Capture: record.Capture{Probe: "shim"}}, "--policy block waits instead"},
		{record.Options{Capture: record.Capture{Probe: "shim"}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, "a larger --ring-size loses fewer"},
		{record.Options{Capture: record.Capture{Probe: "ebpf"}, Command: []string{"p"}}, "a larger --ring-size loses fewer, --probe shim --policy block loses none"},
		{record.Options{Capture: record.Capture{Probe: "ebpf"}}, "--sample skips calls before any is lost"},
	} {
		if got := advice(&c.o); got != c.want {
			t.Errorf("%+v: %s", c.o, got)
		}
	}
}

// A recording in progress names its losses, if it has any.
func TestStatusNamesLosses(t *testing.T) {
	for lost, want := range map[uint64]string{0: "  5 calls of 2 processes\n", 3: "  5 calls of 2 processes, 3 LOST\n"} {
		var b strings.Builder
		Status(&b, &session.Status{Session: "s", Recording: true, Calls: 5, Processes: []int{1, 2}, Lost: lost})
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, &b)
		}
	}
}

// Each saved trace of a ring is named with its number of calls.
func TestSavedNamesTheCalls(t *testing.T) {
	tr := testtrace.New(t)
	for i := range 3 {
		tr.Call(0, int64(10*i), int64(10*i+5), "aclrtSynchronizeDevice", nil)
	}
	path := tr.Load().Reader.Path()
	var b strings.Builder
	saved(&b, []string{path})
	if want := "acltrace: saved " + path + ": the last 3 calls; "; !strings.HasPrefix(b.String(), want) {
		t.Errorf("%s, want %s", &b, want)
	}
}

// A collector has no command of its own, so nothing follows its process.
func TestStatusNamesTheCommandIfThereIsOne(t *testing.T) {
	for want, command := range map[string][]string{"by process 7: python train.py\n": {"python", "train.py"}, "by process 7\n": nil} {
		var b strings.Builder
		Status(&b, &session.Status{Session: "/dev/shm/acltrace-1", Recording: true, Recorder: 7, Command: command})
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
}

// Functions that are counted by name are told with their calls; others were only asked for.
func TestFunctionsPassedByAreCounted(t *testing.T) {
	declared := acl.Model.Declared
	res := record.Result{Output: "x.aclt", Calls: 1, PassedBy: map[string]uint64{declared[0]: 3, declared[1]: 4, "aclGone": 9}}
	var b strings.Builder
	Text(&b, &record.Options{Model: acl.Model}, &res, false)
	for _, want := range []string{"2 functions passed by, counted by name only (called 7 times)", "1 function that it does not know were looked up"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, &b)
		}
	}
}
