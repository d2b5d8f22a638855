package record_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
)

// By eBPF, the calls of callbacks were not in the trace, and a call that a callback had left seemed to hang. The trace says which calls may be
// over, and which functions have no visible end.
func TestUprobesSayWhichCallsHaveNoEnd(t *testing.T) {
	lib := testenv.CompileC(t, "libascendcl.so", []string{source("left.c")}, "-O2", "-DRUNTIME", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	program := testenv.CompileC(t, "left", []string{source("left.c")}, lib)
	o := record.Options{Model: acl.Model, Capture: record.Capture{Probe: "ebpf"}, Output: filepath.Join(t.TempDir(), "run.aclt"), Command: []string{program},
		Env: append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib))}
	res, err := record.Run(context.Background(), &o)
	testenv.Uprobes(t, err)
	r := open(t, o.Output)
	by, noEnd := map[string]int{}, map[string]int{}
	for _, c := range calls(t, r) {
		name := r.Schema().FuncName(c.Func)
		if by[name]++; c.Flags&format.NoEnd != 0 {
			noEnd[name]++
		}
		if c.Flags&format.NoEnd != 0 && c.Flags&format.Unfinished == 0 {
			t.Errorf("call %d has an end", c.Index)
		}
	}
	if res.ExitCode != 0 || by["aclrtMemset"] != 22 || by["aclrtProcessReport"] != 10 || by["aclrtProcessHostFunc"] != 1 || res.Lost != 0 {
		t.Errorf("%+v; calls %v", res, by)
	}
	if noEnd["aclrtProcessReport"] != 5 || noEnd["aclrtProcessHostFunc"] != 1 || len(noEnd) != 2 {
		t.Errorf("calls without an end: %v", noEnd)
	}
	if c := r.Meta().Coverage; c.NoEnd != 6 || !slices.Equal(c.Endless, []string{"aclrtProcessHostFunc"}) {
		t.Errorf("%+v", c)
	}
	info, err := report.NewInfo(o.Output, r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := info.Text(&text, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "6 calls, which may be over") || !strings.Contains(text.String(), "the ends of aclrtProcessHostFunc") {
		t.Errorf("info says\n%s", text.String())
	}
}

// Both processes of clone(CLONE_VM) are recorded.
func TestUprobesOfAProcessThatSharesMemory(t *testing.T) {
	program := testenv.CompileC(t, "sharing", []string{source("sharing.c")})
	o := record.Options{Model: acl.Model, Capture: record.Capture{Probe: "ebpf"}, Output: filepath.Join(t.TempDir(), "run.aclt"), Command: []string{program, strconv.Itoa(500)}, Env: fake(t)}
	res, err := record.Run(context.Background(), &o)
	testenv.Uprobes(t, err)
	if res.ExitCode != 0 || res.Calls != 1001 || res.Lost != 0 || res.Processes != 2 {
		t.Errorf("%+v", res)
	}
}
