package record_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
)

// A program whose recorder was killed and whose session was removed went on writing records, and counting lost calls.
func TestProgramsWithoutASessionRecordNothing(t *testing.T) {
	program := testenv.CompileC(t, "orphan", []string{source("orphan.c")})
	shim := testenv.Built(t, "lib/libacltrace.so")
	for _, how := range []string{"closed", "removed"} {
		t.Run(how, func(t *testing.T) {
			s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{RingBytes: 64 << 10}})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program)
			cmd.Env = append(fake(t), "LD_PRELOAD="+shim, "ACLTRACE_SESSION="+s.Dir())
			cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			stdin, _ := cmd.StdinPipe()
			stdout, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			lines.Scan() // its ring is there
			if how == "removed" {
				err = os.RemoveAll(s.Dir())
			}
			if how == "closed" {
				err = s.Close()
			}
			stdin.Close()
			lines.Scan()
			said := strings.Fields(lines.Text())
			if err2 := cmd.Wait(); err != nil || err2 != nil || len(said) != 2 || said[1] != "0" {
				t.Errorf("%v, %v: calls lost before and since: %q", err, err2, said)
			}
			if how == "removed" {
				s.Close()
			}
		})
	}
}
