package replay

import (
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// The program's stores to managed memory were not in the trace, and its loads were no results: a replay with a wrong kernel showed no difference,
// and registered memory among a kernel's arguments ended the replay.
// Allocated memory that was registered was no longer the allocation: the replay differed when it was freed.
func TestReplayComparesHostVisibleMemory(t *testing.T) {
	program := testenv.CompileC(t, "managed", []string{"testdata/managed.c"})
	binary := kernels(t)
	bug := []string{testenv.CompileC(t, "bug.so", []string{"testdata/kernels.c"}, "-shared", "-fPIC", "-DBUG=1")}
	simulate(t)
	for how, results := range map[string]uint64{"rounds": 3, "registered": 3, "aliased": 5, "later": 1, "busy": 1, "halves": 4} {
		t.Run(how, func(t *testing.T) {
			path := recorded(t, program, binary, how)
			r := run(t, path, &Options{Verify: true})
			if how == "halves" {
				// The program fills one half while a kernel changes the other: the writer of those bytes is unknown.
				unproved(t, r, 1, map[verify.Reason]int{verify.Managed: 3})
			} else {
				identical(t, r, results)
			}
			if how == "registered" || how == "aliased" {
				identical(t, run(t, path, &Options{Verify: true, Place: compile.PlaceMove}), results)
			}
			if r := run(t, path, &Options{Verify: true, KernelLibraries: bug}); r.Results.Different != results {
				t.Errorf("with a wrong kernel: %s: %+v", &r.Results, r.Unverified)
			}
		})
	}
}

// Results that depend on memory that the program accesses without a call, without its content in the trace, were compared as if they were proved.
func TestReplayMarksResultsOfUnknownHostVisibleMemoryUnproved(t *testing.T) {
	program := testenv.CompileC(t, "managed", []string{"testdata/managed.c"})
	binary := kernels(t)
	simulate(t)
	unproved(t, run(t, recorded(t, program, binary, "large"), &Options{Verify: true}), 0, map[verify.Reason]int{verify.Managed: 1})
	// A store while a task uses the memory is in no recording: it must not cause a difference.
	r := run(t, recorded(t, program, binary, "racing"), &Options{Verify: true})
	if r.Results.Different != 0 || r.Results.Results == 0 {
		t.Errorf("%s: %+v", &r.Results, r.Differences)
	}
}
