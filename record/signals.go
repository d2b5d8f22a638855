package record

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// jobSignals are signals that a terminal or a shell sends to all processes of a job. programSignals are for the program only.
var (
	jobSignals     = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH}
	programSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
)

// forwardSignals sends signals on to the program, and keeps the recorder alive to write the file. It does not forward signals
// that the terminal has sent to both.
func forwardSignals(p *os.Process) (stop func()) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tty = nil // no terminal
	}
	c := make(chan os.Signal, 16)
	signal.Notify(c, slices.Concat(jobSignals, programSignals)...)
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		for s := range c {
			switch {
			case !slices.Contains(jobSignals, s) || !foreground(tty, p.Pid):
				_ = p.Signal(s)
			case s == syscall.SIGTSTP:
				// The recorder stops as well, or the shell would wait for it.
				signal.Reset(s)
				_ = syscall.Kill(os.Getpid(), syscall.SIGTSTP)
				signal.Notify(c, s)
			}
		}
	})
	return func() {
		signal.Stop(c)
		close(c)
		forwarding.Wait()
		tty.Close()
	}
}

// foreground reports whether this process and another are in the foreground group of their terminal.
func foreground(tty *os.File, pid int) bool {
	if tty == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	other, err2 := unix.Getpgid(pid)
	return err == nil && err2 == nil && group == unix.Getpgrp() && other == group
}
