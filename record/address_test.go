package record_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
)

// Allocations decide whether an end of a copy is host memory: pinned memory inside the device's address window is captured, and
// device memory outside it is not read.
func TestAllocationsDecideWhatIsHostMemory(t *testing.T) {
	lib := testenv.CompileC(t, "libascendcl.so", []string{source("address.c")}, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	program := testenv.CompileC(t, "address", []string{source("address.c"), lib}, "-Wl,-rpath,"+filepath.Dir(lib))
	out := wild(t, record.Options{Capture: record.Capture{Replayable: true}, Env: os.Environ()}, program)
	if out.ExitCode != 0 || out.Unfinished != 0 || out.Lost != 0 {
		t.Fatalf("%+v %s", out.Result, out.stderr)
	}
	var got []string
	for d, err := range out.r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		first := byte('-')
		if d.Status == format.Whole && len(d.Bytes) > 0 {
			first = d.Bytes[0]
		}
		got = append(got, fmt.Sprintf("call %d %v %c %v", d.Call, d.Dir, first, d.Reason))
	}
	slices.Sort(got)
	want := []string{
		fmt.Sprintf("call 2 %v p %v", format.DirIn, format.TakenEarly),
		fmt.Sprintf("call 5 %v p %v", format.DirOut, format.NoReason),
		fmt.Sprintf("call 8 %v h %v", format.DirIn, format.NoReason),
	}
	if !slices.Equal(got, want) {
		t.Errorf("payloads %q\nwant     %q", got, want)
	}
}

// The same is captured if the simulator's device memory is among the addresses of ordinary program memory.
func TestSimulatorElsewhere(t *testing.T) {
	program := testenv.Example(t, "matmul_pipeline")
	payloads := func(r *format.Reader) map[string]int {
		n := map[string]int{}
		for d, err := range r.Data(nil) {
			if err != nil {
				t.Fatal(err)
			}
			n[fmt.Sprintf("%v, %d bytes, %v because %v", d.Dir, d.Len, d.Status, d.Reason)]++
		}
		return n
	}
	usual, _, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	t.Setenv("ACLSIM_VA_BASE", "0x550000000000")
	other, res, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	if a, b := payloads(usual), payloads(other); res.ExitCode != 0 || !maps.Equal(a, b) || len(a) == 0 {
		t.Errorf("payloads %v\nelsewhere %v", a, b)
	}
	if rep, err := replay.Run(t.Context(), other.Path(), acl.Model, &replay.Options{Verify: true}); err != nil || !rep.Identical {
		t.Errorf("replay: %+v, %v", rep, err)
	}
}
