package record_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/testenv"
)

// recordedWithSignals records a program that writes a line for each signal. Each step must produce its line, and no other line may
// appear.
func recordedWithSignals(t *testing.T, cmd *exec.Cmd, said io.Reader, steps []signalStep) {
	t.Helper()
	trace := cmd.Args[slices.Index(cmd.Args, "-o")+1]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout.(*os.File).Close() // to see the end of file when all writers have ended
	defer time.AfterFunc(testenv.Patience, func() { _ = cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(said)
	var told []string
	await := func(line string) {
		for lines.Scan() {
			s := strings.TrimSpace(lines.Text())
			if strings.HasSuffix(s, line) { // after the terminal's echo of a key
				return
			}
			told = append(told, s)
		}
		_ = cmd.Process.Kill()
		t.Fatalf("%q was not told; %q, %v", line, told, lines.Err())
	}
	await("ready")
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		await(s.told)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	await("TERM 1")
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the recording ends with %v", err)
	}
	told = slices.DeleteFunc(told, func(s string) bool { return s == "" || strings.HasPrefix(s, "^") || strings.HasPrefix(s, "acltrace: ") })
	if len(told) > 0 {
		t.Errorf("told too: %q", told)
	}
	if n := len(calls(t, open(t, trace))); n != 1 {
		t.Errorf("%d calls", n)
	}
}

type signalStep struct {
	do   func() error
	told string
}

// SIGINT and SIGQUIT to the recorder did not reach the program, so that a container with another stop signal than SIGTERM ended in
// SIGKILL. SIGUSR1 and SIGUSR2 ended only the recorder.
func TestSignalsReachTheProgram(t *testing.T) {
	program := testenv.CompileC(t, "signals", []string{source("signals.c")}, "-D_GNU_SOURCE")
	command := func() *exec.Cmd {
		return exec.Command(testenv.Built(t, "bin/acltrace"), "record", "--sim", "-o", filepath.Join(t.TempDir(), "s.aclt"), "--", program)
	}
	to := func(cmd *exec.Cmd, sig syscall.Signal, times int) signalStep {
		return signalStep{func() error { return cmd.Process.Signal(sig) }, fmt.Sprint(strings.TrimPrefix(unix.SignalName(sig), "SIG"), " ", times)}
	}
	t.Run("without a terminal", func(t *testing.T) {
		cmd := command()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd.Stdout, cmd.SysProcAttr = w, &syscall.SysProcAttr{Setsid: true}
		var steps []signalStep
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP} {
			steps = append(steps, to(cmd, sig, 1))
		}
		recordedWithSignals(t, cmd, r, steps)
	})
	t.Run("in a terminal", func(t *testing.T) {
		master, slave := terminal(t)
		cmd := command()
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = slave, slave, slave, &syscall.SysProcAttr{Setsid: true, Setctty: true}
		key := func(b byte, told string) signalStep {
			return signalStep{func() error { _, err := master.Write([]byte{b}); return err }, told}
		}
		resize := func() error {
			return unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
		}
		recordedWithSignals(t, cmd, master, []signalStep{key(3, "INT 1"), key(28, "QUIT 1"), key(26, "TSTP 1"), {resize, "WINCH 1"},
			to(cmd, syscall.SIGUSR1, 1), to(cmd, syscall.SIGUSR2, 1), to(cmd, syscall.SIGHUP, 1)})
	})
}

// terminal returns the two sides of a new terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
