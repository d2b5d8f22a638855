package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// stuck runs acltrace and stops at the first progress line. If UNTIL is SIGINT, the work goes on after that signal.
func stuck() {
	progressEvery = 0
	on := make(chan os.Signal, 1)
	if os.Getenv("UNTIL") == "SIGINT" {
		signal.Notify(on, syscall.SIGINT)
	}
	shown := false
	progressShown = func() {
		if !shown {
			shown = true
			if err := os.WriteFile(os.Getenv("HELD"), nil, 0o600); err != nil {
				panic(err)
			}
			<-on
		}
	}
	main()
}

// slowReceiver accepts the first spans, and does not answer the later requests.
func slowReceiver(t *testing.T) (url string) {
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); len(b) > 0 && requests.Add(1) > 1 {
			<-r.Context().Done()
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Regression: Ctrl-C left a progress line on the terminal, in front of the message or of the shell's prompt.
func TestInterruptWipesProgress(t *testing.T) {
	path, large := traceOf(t, 1<<17, 8), longTrace(t)
	for _, args := range [][]string{
		{"fsck", large},
		{"stats", path},
		{"stats", path, "--critical-path"},
		{"cat", path},
		{"diff", path, path},
		{"pack", large, "-o", "OUT"},
		{"recover", large, "-o", "OUT"},
		{"merge", path, "-o", "OUT"},
		{"export", "perfetto", path, "-o", "OUT"},
		{"export", "pprof", path, "-o", "OUT"},
		{"export", "chrome", path, "-o", "-"},
		{"export", "html", path, "-o", "OUT"},
		{"export", "parquet", path, "-o", "OUT"},
		{"export", "otlp", path, "-o", "OUT"},
		{"export", "parquet", path, "--partition", "job", "-o", "OUT"},
	} {
		args[len(args)-1] = strings.Replace(args[len(args)-1], "OUT", filepath.Join(t.TempDir(), "out"), 1)
		t.Run(args[0], func(t *testing.T) {
			got, err := interrupted(t, nil, args...)
			var e *exec.ExitError
			if !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("%v ends with %v: %q", args, err, got)
			}
			if got != "" {
				t.Errorf("%v leaves %q", args, got)
			}
		})
	}
	// An export to a receiver stores its progress before it ends.
	decoder := filepath.Join(t.TempDir(), "decoder.aclt")
	if out, err := exec.Command("acltrace", "record", "--sim", "-o", decoder, "--", testenv.Example(t, "tiny_decoder"), "--tokens", "100").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := interrupted(t, []string{"UNTIL=SIGINT"}, "export", "otlp", decoder, "--protocol", "http/protobuf", "--endpoint", slowReceiver(t))
	if err == nil || !strings.HasPrefix(got, "acltrace: the progress is saved in ") || strings.Contains(got, "calls sent") || !strings.HasSuffix(got, " calls: interrupted\n") {
		t.Errorf("an interrupted export to a receiver: %v: %q", err, got)
	}
	// Work that counts only some parts shows its time before.
	for _, args := range [][]string{
		{"replay", decoder},
		{"replay", "--backend", "virtual", decoder},
		{"extract", decoder, "--call", "452", "-o", filepath.Join(t.TempDir(), "one.aclt")},
	} {
		if got, _ := interrupted(t, []string{"UNTIL=SIGINT"}, args...); !strings.HasPrefix(got, "acltrace: ") || !strings.HasSuffix(got, ": interrupted\n") {
			t.Errorf("%v leaves %q", args, got)
		}
	}
}

// interrupted runs a command with a terminal as stderr, and sends SIGINT after its first progress line. It returns the
// final screen.
func interrupted(t *testing.T, env []string, args ...string) (shown string, err error) {
	t.Helper()
	tty, said := terminal(t)
	mark := filepath.Join(t.TempDir(), "held")
	cmd := exec.Command("acltrace-stuck", args...)
	cmd.Env = append(append(os.Environ(), "HELD="+mark), env...)
	cmd.Stderr = tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	testenv.Wait(t, "a progress line", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		_, err := os.Stat(mark)
		return err == nil
	})
	_ = cmd.Process.Signal(syscall.SIGINT)
	<-ended
	got := said()
	if !strings.Contains(got, "\r") {
		t.Errorf("%v: no progress line: %q", args, got)
	}
	return screen(got), err
}
