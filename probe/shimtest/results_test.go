package shimtest

import (
	"os/exec"
	"testing"
)

// Memory with a small result in it could be freed while another thread recorded the result.
func TestFreeingWaitsForRecording(t *testing.T) {
	bin := compileParts(t, "results_main.c", []string{"payload/results.c", "task/order.c", "base/limits.c", "base/sys.c", "base/state.c"}, "-fno-builtin", "-pthread")
	if out, err := exec.Command(bin).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
