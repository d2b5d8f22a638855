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

// peakOf is set in the environment of a process between a test and the program that it measures.
const peakOf = "ACLTRACE_TEST_PEAK"

// Peak runs a program and returns the most memory that it has had, in bytes, as the kernel counts it. The kernel counts
// that of the process that starts a program too: the test may have had a lot, so it is started again for that, and does
// nothing else there.
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
