package record_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
)

// A trace did not identify the libraries with operators. Their functions were taken for unknown ones of the runtime, and queries for doubts.
func TestOperatorLibraries(t *testing.T) {
	testenv.Built(t, "lib/libhccl.so")
	build := func(name, part string) string {
		return testenv.CompileC(t, name, []string{source("operators.c")}, "-D"+part, "-shared", "-fPIC", "-Wl,--build-id")
	}
	library, other := build("libopapi_math.so", "LIBRARY"), build("libother.so", "OTHER")
	program := testenv.CompileC(t, "operators", []string{source("operators.c")}, "-ldl")
	do := func(t *testing.T, c record.Capture, stays string) (*report.Info, string, bool) {
		r, res, _ := run(t, record.Options{Capture: c}, program, library, other, stays)
		if res.ExitCode != 0 {
			t.Fatalf("%+v", res)
		}
		in, err := report.NewInfo(r.Path(), r, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		return in, r.Path(), slices.Contains(in.Libraries, format.Library{Path: library, BuildID: elffile.BuildID(library)})
	}
	t.Run("shim", func(t *testing.T) {
		in, trace, listed := do(t, record.Capture{Replayable: true}, "0")
		if !listed || len(in.Libraries) != 2 {
			t.Errorf("%+v", in.Libraries)
		}
		if want := []string{"aclNewerThing"}; !slices.Equal(in.Coverage.AskedFor, want) {
			t.Errorf("looked up %q, want %q", in.Coverage.AskedFor, want)
		}
		if p := in.Coverage.PassedBy; p["aclGetCompileopt"] != 1 || p["aclGetCompileoptSize"] != 1 || in.Calls.ByFunction["HcclSetConfig"] != 1 {
			t.Errorf("%v, %v", p, in.Calls.ByFunction)
		}
		rep, err := replay.Run(t.Context(), trace, acl.Model, &replay.Options{Verify: true})
		if err != nil || len(rep.Unsupported)+len(rep.LeftOut) != 0 || rep.Verdict != verify.Identical {
			t.Errorf("%v: %+v", err, rep)
		}
	})
	t.Run("ebpf", func(t *testing.T) {
		trials := uprobe.Try(acl.Model, false)
		testenv.Uprobes(t, trials[len(trials)-1].Err)
		// Look-ups are not seen. The recorder may read what a process maps only after its first call.
		for _, stays := range []string{"200", "2000", "20000"} {
			in, _, listed := do(t, record.Capture{Probe: "ebpf"}, stays)
			if len(in.Coverage.AskedFor) > 0 {
				t.Errorf("looked up %q", in.Coverage.AskedFor)
			}
			if listed {
				return
			}
		}
		t.Error("the library is not in the trace")
	})
}
