// Command vm is the init process in a virtual machine for tests. It mounts file systems, runs the commands in /commands, one a
// line, prints their exit codes, and powers off. A line "cd FOLDER" applies to the commands after it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/dev/shm"},
		{"tracefs", "/sys/kernel/tracing"}, {"debugfs", "/sys/kernel/debug"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		_ = os.MkdirAll(m.at, 0o755)
		if err := unix.Mount("none", m.at, m.kind, 0, ""); err != nil {
			fmt.Printf("mount %s: %v\n", m.at, err)
		}
	}
	// Without this, the kernel waits long when it removes each probe.
	_ = os.WriteFile("/sys/kernel/rcu_expedited", []byte("1"), 0)
	var name unix.Utsname
	_ = unix.Uname(&name)
	fmt.Printf("Linux %s\n", unix.ByteSliceToString(name.Release[:]))
	_ = os.Setenv("PATH", "/bin")
	_ = os.Setenv("HOME", "/tmp")
	if err := run(); err != nil {
		fmt.Println("vm:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	f, err := os.Open("/commands")
	if err != nil {
		return err
	}
	defer f.Close()
	dir := "/tmp"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		for len(words) > 0 && strings.Contains(words[0], "=") {
			name, value, _ := strings.Cut(words[0], "=")
			_ = os.Setenv(name, value)
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "cd" {
			dir = words[1]
			continue
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.Dir = os.Stdout, os.Stdout, dir
		if err := cmd.Run(); cmd.ProcessState == nil {
			return err
		}
		fmt.Printf("\n%s: exit code %d\n", lines.Text(), cmd.ProcessState.ExitCode())
	}
	tainted, err := os.ReadFile("/proc/sys/kernel/tainted")
	if err == nil && strings.TrimSpace(string(tainted)) == "0" {
		fmt.Println("the kernel has complained of nothing")
	}
	return err
}
