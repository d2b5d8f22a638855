package record_test

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
)

// Data that a program moved through the driver's library was in no trace, and no command said so.
func TestFunctionsBelowTheRuntime(t *testing.T) {
	build := func(name, part string, uses ...string) string {
		return testenv.CompileC(t, name, append([]string{source("below.c")}, uses...), "-D"+part, "-shared", "-fPIC", "-Wl,-soname,"+name, "-ldl")
	}
	driver := build("libascend_hal.so", "DRIVER")
	toolkit := build("libhccl.so", "HCCL", driver)
	user := build("libuser.so", "USER", driver, toolkit)
	var flags []string
	for _, lib := range []string{driver, toolkit, user} {
		flags = append(flags, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
	}
	program := testenv.CompileC(t, "below", []string{source("below.c"), user, driver}, flags...)
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(driver))
	linked := []string{"drvGetDevNum", "halMemCreate"}
	t.Run("shim", func(t *testing.T) {
		in, r := belowInfo(t, record.Capture{Replayable: true}, program, "0")
		checkBelow(t, in, append(slices.Clone(linked), "halMemMap", "ra_send"))
		// A line in the log has no effect on results.
		rep, err := replay.Run(t.Context(), r, acl.Model, &replay.Options{Verify: true})
		if err != nil || in.Coverage.PassedBy["aclAppLog"] != 1 || len(rep.Unsupported) != 0 || rep.Verdict != verify.Identical {
			t.Errorf("%v: %+v", err, rep)
		}
	})
	t.Run("ebpf", func(t *testing.T) {
		trials := uprobe.Try(acl.Model, false)
		testenv.Uprobes(t, trials[len(trials)-1].Err)
		// Look-ups are not seen. The recorder reads what a process maps after its first call.
		for _, stays := range []string{"200", "2000", "20000"} {
			in, _ := belowInfo(t, record.Capture{Probe: "ebpf"}, program, stays)
			if len(in.Coverage.Below) > 0 || stays == "20000" {
				checkBelow(t, in, linked)
				return
			}
		}
	})
}

// belowInfo records the program, which stays alive for some milliseconds after its work.
func belowInfo(t *testing.T, c record.Capture, program, stays string) (*report.Info, string) {
	t.Helper()
	r, res, out := run(t, record.Options{Capture: c}, program, stays)
	if res.ExitCode != 0 || out != "27\n" {
		t.Fatalf("%q, %+v", out, res)
	}
	in, err := report.NewInfo(r.Path(), r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	return in, r.Path()
}

// checkBelow checks the functions that info lists.
func checkBelow(t *testing.T, in *report.Info, want []string) {
	t.Helper()
	named := slices.DeleteFunc(slices.Sorted(maps.Keys(in.Coverage.PassedBy)), func(s string) bool { return s == "aclAppLog" })
	if !slices.Equal(in.Coverage.Below, want) || !slices.Equal(named, want) {
		t.Errorf("%v, below the runtime %q, want %q", in.Coverage.PassedBy, in.Coverage.Below, want)
	}
	for name, n := range in.Coverage.PassedBy {
		if n != 1 {
			t.Errorf("%s %d times", name, n)
		}
	}
	var text bytes.Buffer
	if err := in.Text(&text, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "data may move without a recorded call") {
		t.Error(&text)
	}
}
