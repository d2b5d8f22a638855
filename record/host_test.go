package record_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// Each run of a host function is recorded on its thread, with its time and with the calls that it makes inside. A replay in real
// time keeps that time.
func TestHostFunctions(t *testing.T) {
	program := testenv.CompileC(t, "program", []string{source("host.c")})
	r, res, out := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	if res.ExitCode != 0 || res.Unfinished != 0 || res.Lost != 0 {
		t.Fatalf("%+v", res)
	}
	const each = 3e6 // nanoseconds that a run takes at least
	want := strings.Split(strings.TrimSpace(out), "\n")
	names := map[uint64]string{} // by the function's argument
	var got []string
	var until int64
	inside := 0
	for _, c := range calls(t, r) {
		f := acl.Model.Lookup(r.Schema().FuncName(c.Func))
		switch {
		case f.Name == "aclrtLaunchHostFunc":
			names[c.Args[2]] = "host"
			if len(names) == 3 {
				names[c.Args[2]] = "captured"
			}
		case f.Name == "aclrtLaunchCallback":
			names[c.Args[1]] = "callback"
		case f.HostCallback:
			got = append(got, fmt.Sprint(names[c.Args[1]], " ", r.Threads()[c.Thread].TID))
			if c.End-c.Start < each {
				t.Errorf("run %d took %d ns", len(got), c.End-c.Start)
			}
			until = c.End
		case f.Name == "aclrtGetRunMode" && c.End <= until:
			inside++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(want) != 5 || inside != 1 {
		t.Errorf("runs %q, the program's own are %q; %d calls inside one", got, want, inside)
	}

	for pace, kept := range map[string]bool{replay.PaceASAP: false, replay.PaceRecorded: true} {
		rep, err := replay.Run(context.Background(), r.Path(), acl.Model, &replay.Options{Verify: true, Pace: pace})
		if err != nil || rep.Verdict != verify.Unproved || rep.Results.Results != 0 || len(rep.Stubs) != 3 {
			t.Fatalf("%s: %v, %+v", pace, err, rep)
		}
		for _, s := range rep.Stubs {
			if strings.Contains(s.Reason, "takes the recorded time and") != kept {
				t.Errorf("%s: %+v", pace, s)
			}
		}
	}
}
