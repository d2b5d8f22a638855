package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/record"
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
		{record.Result{Unhooked: []format.Unhooked{{PID: 7}}}, "calls that passed by the recorder:", "no call was seen"},
		{record.Result{PassedBy: map[string]uint64{"aclNew": 3}}, "calls that passed by the recorder:", "no call was seen"},
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

// The JSON summary had no key for the operators that were not computed, which the text names.
func TestSummaryNamesOperatorsThatAreNotComputed(t *testing.T) {
	var out, errs bytes.Buffer
	want := []string{"aclnnAbs", "aclnnAdd"}
	a := newApp(strings.NewReader(""), &out, &errs)
	if err := a.recorded(&record.Options{Model: acl.Model}, &record.Result{Kernels: record.KernelResult{NotComputed: want}}, nil, &ending{json: true}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		NotComputed []string `json:"not_computed"`
	}
	if err := json.Unmarshal(errs.Bytes(), &got); err != nil || !slices.Equal(got.NotComputed, want) {
		t.Errorf("%v: %s", err, errs.String())
	}
}

// A program and its workers that were ended by Ctrl-C or SIGTERM were called killed, and led to blame.
func TestSummaryOfAProgramThatWasAskedToEnd(t *testing.T) {
	for signal, want := range map[int][]string{
		2:  {"the program was ended by SIGINT", "next: acltrace stats run.aclt"},
		11: {"the program was killed by SIGSEGV", "next: acltrace blame run.aclt"},
	} {
		var out, errs bytes.Buffer
		a := newApp(nil, &out, &errs)
		res := &record.Result{Output: "run.aclt", Calls: 9, ExitCode: 128 + signal, Signal: signal, Died: []record.Died{{PID: 77, Command: "worker", Signal: 15}}}
		var code *exit
		if err := a.recorded(&record.Options{Model: acl.Model, Command: []string{"program"}}, res, nil, &ending{}); !errors.As(err, &code) || code.code != 128+signal {
			t.Errorf("%v", err)
		}
		for _, w := range want {
			if !strings.Contains(errs.String(), w) {
				t.Errorf("signal %d: want %q:\n%s", signal, w, &errs)
			}
		}
		if strings.Contains(errs.String(), "worker") {
			t.Errorf("a worker that SIGTERM ended is listed:\n%s", &errs)
		}
	}
}

// A program that ended by an error of its own led to stats, though blame has hints at wrong results and hangs.
func TestSummaryOfAProgramWithAnErrorOfItsOwnLeadsToBlame(t *testing.T) {
	for code, want := range map[int]string{0: "stats", 1: "blame", 124: "blame", 128 + 2: "stats", 128 + 15: "stats", 128 + 6: "blame"} {
		var out, errs bytes.Buffer
		_ = newApp(nil, &out, &errs).recorded(&record.Options{Model: acl.Model, Command: []string{"program"}}, &record.Result{Output: "run.aclt", Calls: 9, ExitCode: code}, nil, &ending{})
		if !strings.HasSuffix(errs.String(), "acltrace: next: acltrace "+want+" run.aclt\n") {
			t.Errorf("exit code %d: want %s:\n%s", code, want, &errs)
		}
	}
}
