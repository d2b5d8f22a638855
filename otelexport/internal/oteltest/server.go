package oteltest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A Server is a real server program on localhost.
type Server struct {
	ports []string // addresses in the configuration
	log   bytes.Buffer
	Cmd   *exec.Cmd
	gone  chan struct{}
}

// start runs the program in an environment variable, or the one in build, until the test ends. It replaces %[1]s,
// %[2]s, … in the configuration with free addresses and waits until the program is ready.
func start(t testing.TB, name, variable, config string, ports int, ready func(s *Server) bool) *Server {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		program = filepath.Join(testenv.Root(t), "build", name)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no %[1]s to test with: `make %[1]s` builds build/%[1]s, or %[2]s names one (%[3]v)", name, variable, err)
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	for tries := 0; ; tries++ {
		s := &Server{gone: make(chan struct{})}
		var listeners []net.Listener // all stay open, so that the ports differ
		var args []any
		for range ports {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			s.ports = append(s.ports, l.Addr().String())
			args = append(args, l.Addr().String())
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, config, args...), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, l := range listeners {
			l.Close()
		}
		s.Cmd = exec.Command(program, "--config", file)
		s.Cmd.Env = append(os.Environ(), "OTEL_TRACES_SAMPLER=always_off") // the program's own spans
		s.Cmd.Stdout, s.Cmd.Stderr = &s.log, &s.log
		if err := s.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			s.Cmd.Wait()
			close(s.gone)
		}()
		t.Cleanup(func() {
			s.Stop()
			if t.Failed() {
				t.Logf("%s said:\n%s", name, &s.log)
			}
		})
		ended := func() bool {
			select {
			case <-s.gone:
				return true
			default:
				return false
			}
		}
		switch came := testenv.Await(func() bool { return ended() || ready(s) }); {
		case !came:
			t.Fatalf("%s is not ready after %v", name, testenv.Patience)
		case !ended():
			return s
		case tries > 20 || !strings.Contains(s.log.String(), "address already in use"): // another program may have taken a port
			t.Fatalf("%s ended at once:\n%s", name, &s.log)
		}
	}
}

// Stop interrupts the server, so that it flushes its output.
func (s *Server) Stop() {
	s.Cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.gone:
	case <-time.After(testenv.Patience):
		s.Cmd.Process.Kill()
		<-s.gone
	}
}
