package replay

import (
	"context"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// An allocation that failed for lack of memory took the next one's address in the replay, so --place same was refused.
func TestReplayPlacesAllocationsAfterFailedOnes(t *testing.T) {
	program := testenv.CompileC(t, "exhausted", []string{"testdata/exhausted.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	for _, place := range []string{compile.PlaceSame, compile.PlaceAuto, compile.PlaceMove} {
		r := run(t, path, &Options{Verify: true, Place: place})
		identical(t, r, 2*2*4*3)
		if (r.Placement == "moved") != (place == compile.PlaceMove) {
			t.Errorf("place %s: %s", place, r.Placement)
		}
	}
}

// An allocation that fails here only in the recording took a later one's address, too.
func TestReplayPlacesAllocationsThatFailedInTheRecording(t *testing.T) {
	program := testenv.CompileC(t, "retry", []string{"testdata/retry.c"})
	binary := kernels(t)
	simulate(t)
	t.Setenv("ACLSIM_FAULTS", "oom:4")
	path := recorded(t, program, binary)
	t.Setenv("ACLSIM_FAULTS", "")
	r, err := Run(context.Background(), path, acl.Model, &Options{Verify: true, Place: compile.PlaceSame, Env: []string{"ACLSIM_FAULTS="}})
	if err != nil || r.Placement != "same" || r.Verdict != verify.Different {
		t.Errorf("%v: %+v", err, r)
	}
}

// Host memory among device addresses, such as a Go program's heap, was taken for device memory, in spite of the copy's direction:
// its content was not recorded, and the replay was refused.
func TestReplayOfHostMemoryAmongDeviceAddresses(t *testing.T) {
	simulate(t)
	path := recorded(t, testenv.CompileC(t, "window", []string{"testdata/window.c"}))
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		identical(t, run(t, path, &Options{Verify: true, Place: place}), 3)
	}
}
