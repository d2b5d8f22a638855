package record_test

import (
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
)

// lower builds a job that launches by the lower library only, and its kernels, and returns its command.
func lower(t *testing.T) []string {
	t.Helper()
	data := filepath.Join(testenv.Root(t), "sim/libascendcl/test/testdata")
	kernels := testenv.CompileC(t, "kernels.so", []string{filepath.Join(data, "kernels.c")}, "-shared", "-fPIC", "-D_GNU_SOURCE")
	binary := testenv.CompileC(t, "kernels.o", []string{filepath.Join(data, "binary.c")}, "-c", "-w")
	program := testenv.CompileC(t, "lower", []string{filepath.Join(data, "lower.c")}, "-I"+filepath.Join(testenv.Root(t), "probe/shim"))
	t.Setenv("ACLSIM_KERNELS", kernels)
	return []string{program, binary}
}

// A job launches by the lower library only, opened by name, as frameworks on CANN 8 do. Its kernels run on the simulator, and every
// launch is recorded with its kernel's name.
func TestLowerLibrary(t *testing.T) {
	r, res, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, lower(t)...)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 {
		t.Fatalf("result %+v", res)
	}
	n := count(calls(t, r), r)
	for name, want := range map[string]int{"rtKernelLaunch": 3, "rtKernelLaunchWithHandleV2": 1, "rtKernelLaunchWithFlagV2": 100, "rtDevBinaryRegister": 1,
		"rtFunctionRegister": 4, "rtMemcpyAsync": 1, "rtStreamWaitEvent": 1, "rtMalloc": 5, "rtDeviceReset": 1, "aclInit": 0} {
		if n[name] != want {
			t.Errorf("%d calls of %s, want %d", n[name], name, want)
		}
	}
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true, Place: place})
		if err != nil {
			t.Fatal(err)
		}
		if !rep.Identical || rep.Verified.Results != 3 || rep.Replayed < 100 {
			t.Errorf("place %s: %d results, %d calls; unsupported %+v, differences %+v, unverified %+v, %q\n%s",
				place, rep.Verified.Results, rep.Replayed, rep.Unsupported, rep.Differences, rep.Unverified, rep.Note, rep.Log)
		}
	}
}

// Such a job's tasks are measured by the lower library's functions, and its own calls do not change.
func TestLowerDeviceTime(t *testing.T) {
	r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, lower(t)...)
	if d := r.Meta().DeviceTime; res.ExitCode != 0 || d.Measured < 100 || d.Refused+d.Unsound != 0 {
		t.Errorf("%+v, %+v", res, d)
	}
	if n := count(calls(t, r), r); n["rtEventRecord"] != 1 || n["rtEventCreateExWithFlag"] != 0 || n["rtKernelLaunchWithFlagV2"] != 100 {
		t.Errorf("calls %v", n)
	}
}
