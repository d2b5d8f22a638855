package replay

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// A replay could show that a graph repeats its results, and not that its launches have others by themselves.
func TestEagerReplayNamesTheFirstOtherLaunch(t *testing.T) {
	program := testenv.CompileC(t, "eager", []string{"testdata/eager.c"})
	binary := kernels(t)
	simulate(t)
	for _, c := range []struct {
		what, first string // the first launch whose result differs, "" if all are equal
		freed       int
		tasks       uint64
	}{
		{"freed", "add", 2, 6},
		{"again", "", 0, 6},
		{"during", "", 0, 9},
		{"before", "", 0, 9},
		{"after", "", 0, 9},
		{"joined", "", 0, 5},
		{"unjoined", "aclrtMemcpyAsync", 0, 6},
	} {
		t.Setenv("ACLSIM_CLOCK", map[bool]string{true: "virtual"}[c.what == "unjoined"])
		path := recorded(t, program, binary, c.what)
		if as := run(t, path, &Options{Verify: true}); !as.Identical {
			t.Errorf("%s: %s, differences %+v", c.what, as.Verdict, as.Differences)
		}
		r := run(t, path, &Options{Graphs: GraphsEager})
		e := r.Eager
		if e == nil || e.Tasks != c.tasks || len(e.Freed) != c.freed || len(r.Unsupported) > 0 || r.Crash != nil {
			t.Errorf("%s: %+v, unsupported %+v, crash %+v", c.what, e, r.Unsupported, r.Crash)
			continue
		}
		switch {
		case c.first == "":
			identical(t, r, r.Verified.Results)
			if e.First != nil || r.Verified.Results == 0 {
				t.Errorf("%s: %d results, %+v", c.what, r.Verified.Results, e.First)
			}
		case r.Verdict != verify.Different || e.First == nil || e.First.Name != c.first || e.First.Call == 0 || e.First.Result != r.Differences[0].Call:
			t.Errorf("%s: %s, %+v, differences %+v", c.what, r.Verdict, e.First, r.Differences)
		}
	}
}

// The launches of other test programs' graphs have the results of the graphs.
func TestEagerReplayEqualsGraphs(t *testing.T) {
	binary := kernels(t)
	simulate(t)
	for _, name := range []string{"graph"} {
		path := recorded(t, testenv.CompileC(t, name, []string{"testdata/" + name + ".c"}), binary, "late")
		r := run(t, path, &Options{Graphs: GraphsEager})
		if identical(t, r, r.Verified.Results); r.Eager.Tasks == 0 {
			t.Errorf("%s: %+v", name, r.Eager)
		}
	}
}

// What has no launch of its own is refused with its reason.
func TestEagerReplayRefuses(t *testing.T) {
	binary := kernels(t)
	simulate(t)
	for _, c := range [][]string{
		{"condition", "", "has a condition"},
		{"updates", "", "by its handle"},
		{"eager", "released", "waits for a record that comes later"},
	} {
		args := []string{testenv.CompileC(t, c[0], []string{"testdata/" + c[0] + ".c"}), binary}
		if c[1] != "" {
			args = append(args, c[1])
		}
		r := run(t, recorded(t, args...), &Options{Graphs: GraphsEager})
		if !r.Refused() || !strings.Contains(r.Unsupported[0].Reason, c[2]) {
			t.Errorf("%s: %s, unsupported %+v", c[0], r.Verdict, r.Unsupported)
		}
	}
	for _, o := range []Options{{Graphs: "odd"}, {Graphs: GraphsEager, Place: "same"}, {Graphs: GraphsEager, Backend: "null"}} {
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), "graphs ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
