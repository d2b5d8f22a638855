package oteltest

import (
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
	log   string   // file with the program's output
	Cmd   *exec.Cmd
	gone  chan struct{}
}

// An OpenTelemetry collector logs this when all its parts have started. Jaeger is one.
const ready = "Everything is ready. Begin running and processing data."

// start runs the program in an environment variable, or build/jaeger, which is a collector too, until the test ends. It replaces %[1]s,
// %[2]s, … in the configuration with free addresses and waits until the program says that it is ready. An answer at an
// address proves nothing: another process may have taken the port.
func start(t testing.TB, name, variable, config string, ports int) *Server {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		program = filepath.Join(testenv.Root(t), "build", "jaeger")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no %s to test with: `make servers` builds one, or %s names one (%v)", name, variable, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, name+".yaml")
	for tries := 0; ; tries++ {
		s := &Server{gone: make(chan struct{}), log: filepath.Join(dir, fmt.Sprintf("log.%d", tries))}
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
		log, err := os.Create(s.log)
		if err != nil {
			t.Fatal(err)
		}
		s.Cmd.Stdout, s.Cmd.Stderr = log, log
		err = s.Cmd.Start()
		log.Close()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			s.Cmd.Wait()
			close(s.gone)
		}()
		t.Cleanup(func() {
			s.Stop()
			if t.Failed() {
				t.Logf("%s said:\n%s", name, s.said())
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
		switch came := testenv.Await(func() bool { return ended() || strings.Contains(s.said(), ready) }); {
		case !came:
			t.Fatalf("%s is not ready after %v", name, testenv.Patience)
		case !ended():
			return s
		case tries > 20 || !strings.Contains(s.said(), "address already in use"): // another program may have taken a port
			t.Fatalf("%s ended at once:\n%s", name, s.said())
		}
	}
}

func (s *Server) said() string {
	b, _ := os.ReadFile(s.log)
	return string(b)
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
