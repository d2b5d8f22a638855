package shimtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// compileParts compiles a program in testdata with C files of the shim.
func compileParts(t *testing.T, program string, parts []string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	sources := []string{filepath.Join("testdata", program)}
	for _, part := range parts {
		sources = append(sources, filepath.Join("../shim", part))
	}
	testenv.Uses(t, sources...)
	bin := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../shim", "-o", bin}, flags...)
	if out, err := exec.Command(cc, append(args, sources...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}
