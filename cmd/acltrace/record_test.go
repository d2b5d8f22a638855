package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/record"
)

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
