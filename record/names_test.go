package record

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Recorded by eBPF, a thread that had ended before the recorder read its first call had no name in any view.
func TestThreadsThatEndHaveNames(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	program := testenv.CompileC(t, "names", []string{"testdata/names.c"})
	for _, probe := range []string{"shim", "ebpf"} {
		out := filepath.Join(t.TempDir(), "names.aclt")
		_, err := Run(context.Background(), &Options{Model: acl.Model, Output: out, Sim: true, Capture: Capture{Probe: probe}, Command: []string{program}})
		if probe == "ebpf" {
			testenv.Uprobes(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := format.Open(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		named := map[string]int{}
		for _, x := range r.Threads() {
			named[x.Name]++
		}
		for i := range 100 {
			if name := fmt.Sprintf("worker %d", i); named[name] != 1 {
				t.Fatalf("%s: %d threads are called %q, all %v", probe, named[name], name, named)
			}
		}
	}
}
