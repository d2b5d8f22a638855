package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// peakOf is set in the environment of a process that runs between a test and the measured program.
const peakOf = "ACLTRACE_TEST_PEAK"

// Peak runs a program and returns its peak resident memory in bytes. The kernel includes the memory of the parent at the
// start of the program, and a test may use much. So Peak starts the test binary again as a small parent.
func Peak(t testing.TB, name string, args ...string) int64 {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), peakOf+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, said.String())
	}
	n, err := strconv.ParseInt(string(out), 10, 64)
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return n
}

func init() {
	if os.Getenv(peakOf) == "" {
		return
	}
	os.Unsetenv(peakOf)
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10)
	os.Exit(0)
}
