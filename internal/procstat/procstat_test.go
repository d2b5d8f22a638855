package procstat

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process is read whose name contains brackets, spaces and line breaks.
func TestProcessNameWithBracketsAndBlanks(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a) Z 1\n(b")
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	before := now(t)
	cmd := exec.Command(program, "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // its group is not its parent
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	s := Read(pid)
	start := s.Start - Suspended()
	if !s.Lives() || s.Parent != os.Getpid() || s.Session != sid || s.Threads != 1 || start < before-2*Tick || start > now(t) {
		t.Errorf("%+v, started at %d after %d", s, start, before)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for !s.Zombie() {
		time.Sleep(time.Millisecond)
		s = Read(pid)
	}
	if s.Lives() || !s.Exists() || s.Exit != int(unix.SIGKILL) {
		t.Errorf("killed: %+v", s)
	}
	_ = cmd.Wait()
	if s = Read(pid); s.Exists() || s.Lives() {
		t.Errorf("reaped: %+v", s)
	}
	if s = Read(os.Getpid()); s.Threads < 2 {
		t.Errorf("this process: %+v", s)
	}
}

func now(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// The processor time is what the process itself reads.
func TestProcessorTime(t *testing.T) {
	used := func() (user, system int64) {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return u.Utime.Nano(), u.Stime.Nano()
	}
	for { // until both parts are larger than the error
		if user, system := used(); user > 10*Tick && system > 10*Tick {
			break
		}
		for range 1000 {
			_ = Read(os.Getpid())
		}
	}
	user, system := used()
	s := Read(os.Getpid())
	u, v := used()
	if s.CPU < user+system-4*Tick || s.CPU > u+v+4*Tick {
		t.Errorf("%d ns, between %d and %d", s.CPU, user+system, u+v)
	}
}
