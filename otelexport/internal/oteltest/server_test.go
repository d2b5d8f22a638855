package oteltest

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With runsIn set, this program is a server that start runs: the file with that name gets a byte for each run.
const runsIn = "OTELTEST_RUNS"

func TestMain(m *testing.M) {
	if runs := os.Getenv(runsIn); runs != "" && len(os.Args) == 3 && os.Args[1] == "--config" {
		serve(runs, os.Args[2])
	}
	os.Exit(m.Run())
}

// serve fails at its first run because "another process" has the port and answers there.
func serve(runs, config string) {
	b, err := os.ReadFile(runs)
	if err == nil {
		err = os.WriteFile(runs, append(b, '.'), 0o600)
	}
	address, err2 := os.ReadFile(config)
	if err != nil || err2 != nil {
		os.Exit(2)
	}
	if len(b) == 0 {
		l, err := net.Listen("tcp", strings.TrimSpace(string(address)))
		if err != nil {
			os.Exit(2)
		}
		time.Sleep(time.Second)
		l.Close()
		fmt.Println("listen tcp: bind: address already in use")
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	fmt.Println("info", ready)
	<-stop
	os.Exit(0)
}

// A server was taken as ready because its port answered, although another process had the port.
func TestServerSaysThatItIsReady(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(runs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(runsIn, runs)
	t.Setenv("OTELTEST_SERVER", self)
	s := start(t, "server", "OTELTEST_SERVER", "%[1]s\n", 1)
	if b, _ := os.ReadFile(runs); len(b) != 2 {
		t.Errorf("ready after %d runs, want 2", len(b))
	}
	s.Stop()
	if !s.Cmd.ProcessState.Success() {
		t.Errorf("the server ended with %v", s.Cmd.ProcessState)
	}
}
