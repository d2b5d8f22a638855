package record_test

import (
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/google/go-cmp/cmp"
)

// A process has the facts about its devices that the runtime reported to it: of the device that a call names, or that the
// thread has selected. Failed calls and calls in an unknown context report nothing.
func TestDeviceFacts(t *testing.T) {
	zero := 0
	t.Setenv("ACLSIM_DEVICES", "2")
	t.Setenv("OTEL_SERVICE_NAME", "trainer")
	r, res, _ := run(t, record.Options{}, testenv.CompileC(t, "devices", []string{source("devices.c")}))
	want := []format.ProcessDevice{
		{Number: 0, HostNumber: &zero},
		{Number: 1, UUID: "61636c74-7261-6365-2073-696d00000001", PCI: "0000:C1:00.0", MemoryBytes: 64 << 30},
	}
	if d := cmp.Diff(want, r.Processes()[0].Devices); res.ExitCode != 0 || d != "" {
		t.Errorf("exit code %d (-want +got):\n%s", res.ExitCode, d)
	}

	// The process numbers the devices that it sees. A logical id is not its own number.
	t.Setenv("ACLSIM_DEVICES", "4")
	t.Setenv("ASCEND_RT_VISIBLE_DEVICES", "0,2")
	two := 2
	visible, res, _ := run(t, record.Options{}, testenv.CompileC(t, "devices", []string{source("devices.c")}))
	want = []format.ProcessDevice{{Number: 1, HostNumber: &two, UUID: "61636c74-7261-6365-2073-696d00000002", PCI: "0000:C2:00.0", MemoryBytes: 64 << 30}}
	if d := cmp.Diff(want, visible.Processes()[0].Devices); res.ExitCode != 0 || d != "" {
		t.Errorf("visible devices: exit code %d (-want +got):\n%s", res.ExitCode, d)
	}

	if got := r.Processes()[0].Resource; got["service.name"] != "trainer" {
		t.Errorf("the process's resource is %v", got)
	}

	testenv.Built(t, "lib/libacltrace-cuda.so")
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	t.Setenv("FAKECUDA_DEVICES", "2")
	program := testenv.CompileC(t, "devices-cuda", []string{source("devices.c")}, "-DCUDA", "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda")
	r, res, _ = run(t, record.Options{Model: cuda.Model}, program)
	const uuid = "fafafa-fafa-fafa-fafa-fafafafafafa"
	want = []format.ProcessDevice{
		{Number: 0, UUID: "GPU-00" + uuid, PCI: "0000:01:00.0", MemoryBytes: 4 << 30},
		{Number: 1, UUID: "GPU-01" + uuid, PCI: "0000:02:00.0", MemoryBytes: 4 << 30},
	}
	if d := cmp.Diff(want, r.Processes()[0].Devices); res.ExitCode != 0 || d != "" {
		t.Errorf("exit code %d (-want +got):\n%s", res.ExitCode, d)
	}
}
