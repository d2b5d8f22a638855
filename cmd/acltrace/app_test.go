package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/schema"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// terminal opens a pseudoterminal. said closes it and returns the output written to it.
func terminal(t *testing.T) (tty *os.File, said func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return tty, reader(master, tty)
}

// reader reads from a file until said closes the other end.
func reader(from, to *os.File) (said func() string) {
	var b strings.Builder
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(&b, from) // a closed terminal is an error
		close(done)
	}()
	return func() string {
		to.Close()
		<-done
		from.Close()
		return b.String()
	}
}

// longTrace has some calls and many MiB in payloads.
func longTrace(t *testing.T) string { return traceOf(t, 12, 1<<20) }

// traceOf writes a trace of calls with random payloads.
func traceOf(t *testing.T, calls, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.aclt")
	s := schema.Of(acl.Model)
	w, err := format.Create(path, &format.Meta{API: "acl"}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Process(format.Process{PID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Thread(format.Thread{TID: 1}); err != nil {
		t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{})
	b := make([]byte, size)
	for i := range calls {
		_, _ = rng.Read(b)
		if _, err := w.Call(&format.Call{Func: s.Functions[0].ID, Args: make([]uint64, s.Functions[0].Words), Start: int64(i), End: int64(i), Data: []format.Data{{Bytes: b, Len: uint64(size)}}}); err != nil {
			t.Fatal(err)
		}
		if i < 12 { // some chunks
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return path
}

// Long work shows progress on one terminal line and clears it at the end. A pipe gets no progress.
func TestProgressOnTerminalsOnly(t *testing.T) {
	was := progressEvery
	progressEvery = 0
	defer func() { progressEvery = was }()
	path := longTrace(t)
	broken := filepath.Join(t.TempDir(), "broken.aclt")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, b[:len(b)-1000], 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to.aclt")
	line := regexp.MustCompile(`\r\x1b\[K\d+ of \d+ (MiB|calls)`)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"fsck", path}, 0, "sound"},
		{[]string{"fsck", broken}, exitFailed, "has no end"},
		{[]string{"pack", path, "-f", "-o", to}, 0, "12 calls"},
		{[]string{"recover", broken, "-f", "-o", to}, exitLacks, "12 calls"},
		{[]string{"cat", path}, 0, "aclInit("},
	} {
		tty, said := terminal(t)
		code := run(c.args, strings.NewReader(""), tty, tty)
		got := said()
		if code != c.code || !line.MatchString(got) {
			t.Errorf("%v: code %d, and the terminal has no line of progress: %q", c.args, code, got)
		}
		// The final screen: each line without wiped or overwritten text.
		for _, l := range strings.Split(screen(got), "\n") {
			if strings.Contains(l, " of 1") {
				t.Errorf("%v leaves behind %q", c.args, l)
			}
		}
		if !strings.Contains(screen(got), c.says) {
			t.Errorf("%v: %q, without %q", c.args, got, c.says)
		}

		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		said = reader(r, w)
		code = run(c.args, strings.NewReader(""), w, w)
		if got := said(); code != c.code || strings.ContainsAny(got, "\r\x1b") || !strings.Contains(got, c.says) {
			t.Errorf("%v: code %d, and a pipe gets %q", c.args, code, got)
		}
	}
}

// screen returns the text that a terminal shows after wipes.
func screen(s string) string {
	var lines []string
	for _, l := range strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n") {
		if i := strings.LastIndex(l, wipe); i >= 0 {
			l = l[i+len(wipe):]
		}
		lines = append(lines, l)
	}
	return strings.Join(lines, "\n")
}

// Short work shows no progress line.
func TestProgressOfShortWork(t *testing.T) {
	tty, said := terminal(t)
	a := newApp(nil, tty, tty)
	was := progressEvery
	progressEvery = time.Hour
	defer func() { progressEvery = was }()
	show := a.progress("things")
	show(1, 3)
	show(3, 3)
	if got := said(); got != "" {
		t.Errorf("%q", got)
	}
}

// Work shows its parts once it counts them.
func TestBusyShowsParts(t *testing.T) {
	tty, said := terminal(t)
	a := newApp(nil, tty, tty)
	every, shown := progressEvery, progressShown
	defer func() { progressEvery, progressShown = every, shown }()
	lines := make(chan bool)
	progressEvery, progressShown = 0, func() {
		select {
		case lines <- true:
		default:
		}
	}
	count, end := a.busy("work")
	<-lines
	count("parts", 1000, 3000)
	<-lines // perhaps begun before
	<-lines
	end()
	if got := said(); !strings.Contains(got, "work: 1,000 of 3,000 parts") || screen(got) != "" {
		t.Errorf("%q", got)
	}
}

// A terminal shows failures in color and breaks lines at its width. Neither happens for a pipe, and NO_COLOR turns colors off.
func TestColorsAndWidth(t *testing.T) {
	trace := writeEvil(t) // a call fails
	for _, c := range []struct {
		name, noColor string
		terminal      bool
		color         bool
	}{{"terminal", "", true, true}, {"terminal with NO_COLOR", "1", true, false}, {"pipe", "", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColor)
			t.Setenv("TERM", "xterm")
			var tty *os.File
			var said func() string
			if c.terminal {
				tty, said = terminal(t)
				if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
					t.Fatal(err)
				}
			} else {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				tty, said = w, reader(r, w)
			}
			code := run([]string{"info", trace}, strings.NewReader(""), tty, io.Discard)
			got := said()
			if code != 0 || strings.Contains(got, "\x1b[31m") != c.color {
				t.Errorf("code %d, colors %v: %q", code, !c.color, got)
			}
			longest := 0
			for line := range strings.Lines(got) {
				if strings.HasPrefix(line, "payload") {
					longest = len(strings.TrimSpace(line))
				}
			}
			if (longest <= 60) != c.terminal {
				t.Errorf("a line with %d columns: %q", longest, got)
			}
		})
	}
}
