package replay

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// If one of two processes that share memory and a notify is missing, waits for it are refused by name before anything runs.
// With --stub-comm the rest is replayed, and results that may depend on the missing process are not compared.
func TestAbsentPeer(t *testing.T) {
	program := testenv.CompileC(t, "peers", []string{"testdata/peers.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	exporter := uint32(0)
	calls := load(t, path)
	for _, c := range calls {
		if r.Schema().FuncName(c.Func) == "aclrtIpcMemGetExportKey" {
			exporter = r.Threads()[c.Thread].Process
		}
	}
	for _, side := range []struct {
		name   string
		has    bool
		refuse []string
		stub   string
	}{
		{"exporter", true, []string{"aclrtWaitAndResetNotify"}, "left out"},
		{"importer", false, []string{"aclrtIpcMemImportByKey", "aclrtNotifyImportByKey"}, "replaces it"},
	} {
		t.Run(side.name, func(t *testing.T) {
			var own []*format.Call
			for _, c := range clones(calls) {
				if (r.Threads()[c.Thread].Process == exporter) == side.has {
					own = append(own, c)
				}
			}
			half := rewrite(t, path, own)
			rep := run(t, half, &Options{Verify: true})
			if rep.Replayed != 0 || len(rep.Unsupported) < len(side.refuse) {
				t.Fatalf("%+v", rep)
			}
			for i, f := range side.refuse {
				if u := rep.Unsupported[i]; u.Func != f || !strings.Contains(u.Reason, "not in the trace") || u.Stub == "" {
					t.Errorf("%+v", u)
				}
			}
			rep = run(t, half, &Options{Verify: true, StubComm: true})
			if rep.Crash != nil || len(rep.Differences) > 0 || len(rep.Unsupported) > 0 || rep.Identical || len(rep.Unverified) == 0 {
				t.Fatalf("with a stand-in: %+v", rep)
			}
			if !strings.Contains(rep.Unverified[0].Reason, side.stub) {
				t.Errorf("%+v", rep.Unverified)
			}
		})
	}
}
