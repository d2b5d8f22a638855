package replay

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// brokenSim is the simulator that breaks the rule in ACLSIM_BREAK, as a library to replay on.
func brokenSim(t *testing.T) string {
	t.Helper()
	testenv.Built(t, "lib/break/libaclsim.so")
	return filepath.Join(testenv.Root(t), "lib", "break", "libascendcl.so")
}

// A copy to the host with another count than in the recording was identical: only the common bytes were compared.
func TestReplayComparesLengthsOfResults(t *testing.T) {
	program := testenv.CompileC(t, "graph", []string{"testdata/graph.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary, "late")
	calls := load(t, path)
	kinds := map[api.Task]bool{}
	for i, c := range calls {
		f := acl.Model.Func(api.ID(c.Func))
		for k := range c.Data {
			d := &c.Data[k]
			if d.Dir != format.DirOut || len(d.Bytes) < 2 || kinds[f.Task] || f.Task != api.Copy && f.Task != api.GraphRun {
				continue
			}
			kinds[f.Task] = true
			n := uint64(len(d.Bytes))
			changes := map[uint64]func(c *format.Call){
				n / 2: func(c *format.Call) { c.Data[k].Bytes, c.Data[k].Len = c.Data[k].Bytes[:n/2], n/2 },
				2 * n: func(c *format.Call) {
					c.Data[k].Bytes, c.Data[k].Len = append(c.Data[k].Bytes[:n:n], c.Data[k].Bytes...), 2*n
				},
			}
			for recorded, change := range changes {
				cs := clones(calls)
				change(cs[i])
				r := run(t, rewrite(t, path, cs), &Options{Verify: true})
				if f.Task == api.GraphRun {
					// A graph run lists the destination and length of its results; this one belongs to no copy in the graph.
					if r.Verdict != verify.Unproved || r.Results.Unproved != 1 {
						t.Errorf("%s, result of %d bytes, recorded with %d: %s, %+v", f.Name, n, recorded, r.Verdict, r.Unverified)
					}
					continue
				}
				if r.Verdict != verify.Different || r.Results.Different != 1 || len(r.Differences) != 1 {
					t.Fatalf("%s, result of %d bytes, recorded with %d: %s, %+v", f.Name, n, recorded, r.Verdict, r.Differences)
				}
				if d := r.Differences[0]; d.Call != c.Index || d.Got != human.Count(n)+" bytes" || d.Want != human.Count(recorded)+" bytes" || len(d.Chain) != 0 {
					t.Errorf("%s, result of %d bytes, recorded with %d: %+v", f.Name, n, recorded, d)
				}
			}
		}
	}
	if !kinds[api.Copy] || !kinds[api.GraphRun] {
		t.Errorf("results of %v", kinds)
	}
}

// A copy whose count was changed to 0 was identical: there was nothing to compare.
func TestReplayComparesLengthsOfEmptyCopies(t *testing.T) {
	program := testenv.CompileC(t, "graph", []string{"testdata/graph.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	calls := load(t, path)
	last := map[format.Dir]int{} // the last copy with data
	for i, c := range calls {
		if f := acl.Model.Func(api.ID(c.Func)); f.Name == "aclrtMemcpy" && len(c.Data) == 1 {
			last[c.Data[0].Dir] = i
		}
	}
	if len(last) != 2 {
		t.Fatalf("copies with data: %v", last)
	}
	empty := func(i int) *Report {
		cs := clones(calls)
		f := acl.Model.Func(api.ID(cs[i].Func))
		cs[i].Args[f.Params[f.Param("count")].Word] = 0
		return run(t, rewrite(t, path, cs), &Options{Verify: true})
	}
	if r := empty(last[format.DirOut]); r.Verdict != verify.Different || len(r.Differences) != 1 || r.Differences[0].Got != "0 bytes" {
		t.Errorf("result: %s, %+v", r.Verdict, r.Differences)
	}
	if r := empty(last[format.DirIn]); r.Identical || len(r.Substituted) != 1 {
		t.Errorf("data to the device: %s, %+v", r.Verdict, r.Substituted)
	}
}

// The number of the bad copy, which a failing batch stores, was neither recorded nor compared.
func TestReplayComparesOutputsOfFailedCalls(t *testing.T) {
	program := testenv.CompileC(t, "retry", []string{"testdata/retry.c"})
	binary := kernels(t)
	simulate(t)
	broken := brokenSim(t)
	path := recorded(t, program, binary)
	if r := run(t, path, &Options{Verify: true}); r.Verdict != verify.Identical {
		t.Errorf("%s, %+v", r.Verdict, r.Differences)
	}
	t.Setenv("ACLSIM_BREAK", "index_of_the_bad_copy")
	r := run(t, path, &Options{Verify: true, Backend: broken, Trust: true})
	if r.Verdict != verify.Different || len(r.Differences) != 1 || r.Differences[0].Param != "failIndex" || r.Differences[0].Want != "0x1" || r.Differences[0].Got != "0x0" {
		t.Errorf("%s, %+v", r.Verdict, r.Differences)
	}
}

// A runtime that reads kernel arguments after the launch has returned passed, because a replay left them unchanged. In paged every
// launch has other arguments of the same size, and in jobs threads launch kernels on streams for which others wait.
func TestReplayOverwritesArguments(t *testing.T) {
	binary := kernels(t)
	simulate(t)
	for _, name := range []string{"paged", "jobs"} {
		path := recorded(t, testenv.CompileC(t, name, []string{"testdata/" + name + ".c"}), binary, "7")
		if r := run(t, path, &Options{Verify: true}); r.Verdict != verify.Identical {
			t.Errorf("%s: %s, %+v", name, r.Verdict, r.Differences)
		}
		if r, err := playLate(t, path); err != nil || r.Verdict != verify.Different {
			t.Errorf("%s, late: %v, %+v", name, err, r)
		}
	}
}

// playLate replays a trace on a runtime that reads kernel arguments after the launch has returned. On a busy machine it may read them in time.
func playLate(t *testing.T, path string) (r *Report, err error) {
	t.Helper()
	broken := brokenSim(t)
	t.Setenv("ACLSIM_BREAK", "host_arguments_are_taken")
	defer os.Unsetenv("ACLSIM_BREAK") // a recording keeps it
	for range 3 {
		r, err = Run(context.Background(), path, acl.Model, &Options{Verify: true, Backend: broken, Trust: true, Timeout: 3 * time.Second})
		if err != nil || r.Verdict == verify.Different || r.Crash != nil {
			break
		}
	}
	return r, err
}
