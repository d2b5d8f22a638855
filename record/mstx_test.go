package record_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// Ranges that a program names are recorded if their functions are linked, found by dlsym, or compiled in, with and without a
// tool that also receives them.
func TestNamedRangesAreRecorded(t *testing.T) {
	include := "-I" + filepath.Join(testenv.Root(t), "probe/shim")
	build := func(out string, args ...string) string {
		return testenv.CompileC(t, out, []string{source("mstx.c")}, append(args, include)...)
	}
	lib := build("libms_tools_ext.so", "-DIMPLEMENTATION", "-shared", "-fPIC", "-ldl", "-Wl,-soname,libms_tools_ext.so")
	tool := build("libtool.so", "-DTOOL", "-shared", "-fPIC")
	ways := map[string][]string{
		"linked":      {build("linked", "-DPROGRAM", lib, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))},
		"by dlsym":    {build("asks", "-DPROGRAM", "-DASKS"), lib},
		"compiled in": {build("inside", "-DPROGRAM", "-DIMPLEMENTATION")},
	}
	for way, command := range ways {
		for _, injected := range []string{"", tool} {
			name := way
			if injected != "" {
				name += ", with a tool"
			}
			t.Run(name, func(t *testing.T) {
				env := os.Environ()
				if injected != "" {
					env = append(env, "MSTX_INJECTION_PATH="+injected)
				}
				errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
				if err != nil {
					t.Fatal(err)
				}
				defer errs.Close()
				r, res, _ := run(t, record.Options{Env: env, Stderr: errs, Capture: record.Capture{Replayable: true}}, command...)
				if res.ExitCode != 0 || res.Unfinished != 0 {
					t.Fatalf("%+v", res)
				}
				if said, _ := os.ReadFile(errs.Name()); injected != "" && !strings.Contains(string(said), "tool: 1 2 1\n") {
					t.Errorf("the tool says %q", said)
				}
				tl, err := timeline.Load(r, acl.Model)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]timeline.Range{}
				for _, x := range tl.Ranges {
					got[x.Name] = x
				}
				one, load, half, two := got["step 1"], got["load"], got["half"], got["step 2"]
				if len(tl.Ranges) != 4 || one.Open || one.Thread == one.EndThread || one.Stream == nil || one.Domain != "" || two.To != tl.End || !two.Open || !half.Mark || half.From < one.From || half.To > one.To {
					t.Errorf("ranges %+v", tl.Ranges)
				}
				// A tool without domain functions leaves domains to the recorder.
				if load.Domain != "data" || load.Open || load.From < one.From || load.To > one.To || load.Thread != load.EndThread {
					t.Errorf("range of a domain: %+v", load)
				}
				if s, err := stats.New(tl.Reader, acl.Model, nil); err != nil || len(s.Ranges) != 4 || s.Ranges[0].TotalNS == 0 {
					t.Errorf("statistics %+v", s.Ranges)
				}
				n := count(calls(t, r), r)
				for _, f := range []string{"mstxMemHeapRegister", "mstxMemHeapUnregister", "mstxMemRegionsRegister", "mstxMemRegionsUnregister"} {
					if n[f] != 1 {
						t.Errorf("%d calls of %s", n[f], f)
					}
				}
				var text strings.Builder
				if err := report.Lines(&text, r, acl.Model, &report.LineOptions{Selection: timeline.Selection{Funcs: []string{"mstxRangeStartA", "mstxRangeEnd"}}}); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(text.String(), `mstxRangeStartA(message="step 1", stream=stream#1) = `) || !strings.Contains(text.String(), "(step 1)") {
					t.Errorf("shown as\n%s", text.String())
				}
				if rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true}); err != nil || rep.DifferingTotal != 0 || len(rep.Unverified) != 0 || len(rep.LeftOut) != 0 {
					t.Errorf("replay: %+v, %v", rep, err)
				}
			})
		}
	}
}
