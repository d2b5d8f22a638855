package shimtest

import (
	"os/exec"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// An asynchronous copy's payload was read by two system calls for each 4 KiB, which took 10 to 20 times as long as its hash.
func TestCarefulReadsAreLarge(t *testing.T) {
	testenv.Uses(t, "../shim/base/sys.c")
	bin := compileParts(t, "careful_main.c", []string{"base/hash.c", "base/state.c"}, "-fno-builtin")
	for _, kernel := range []string{"new", "old", "lies"} {
		t.Run(kernel, func(t *testing.T) {
			cmd := exec.Command(bin, kernel)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() == 77 {
				t.Skip("process_vm_readv is not allowed here")
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
