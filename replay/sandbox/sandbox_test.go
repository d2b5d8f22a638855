package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

const (
	descriptors = 1 << iota
	privileges
	files
	tcp
	signals
	calls

	landlock = files | tcp | signals // any of it keeps other processes from being traced
)

// ways are ways out, and the layers that stop each: by any of them alone. Others may too, on some kernels and for some users.
var ways = []struct {
	name   string
	by     int
	others int
}{
	{name: "read a file", by: files},
	{name: "list a folder", by: files},
	{name: "make a file", by: files},
	{name: "overwrite a file", by: files},
	{name: "cut a file", by: calls, others: files},
	{name: "remove a file", by: files},
	{name: "rename a file", by: files},
	{name: "link a file", by: files},
	{name: "make a symbolic link", by: files},
	{name: "make a pipe", by: files},
	{name: "make a device", by: files | privileges},
	{name: "make a folder", by: files},
	{name: "change a mode", by: calls},
	{name: "change an owner", by: calls, others: privileges},
	{name: "change a time", by: calls},
	{name: "set an attribute", by: calls},
	{name: "write to an inherited file", by: descriptors},
	{name: "open in an inherited folder", by: descriptors | files},
	{name: "open a file by its handle", by: calls, others: files | privileges},
	{name: "set a variable of the kernel", by: files},
	{name: "start a program", by: calls | files},
	{name: "start a program in memory", by: calls, others: files},
	{name: "connect to a socket", by: calls, others: files},
	{name: "connect to an abstract socket", by: calls | signals},
	{name: "connect by TCP", by: calls | tcp},
	{name: "serve TCP", by: calls | tcp},
	{name: "send by UDP", by: calls},
	{name: "set up an io_uring", by: calls, others: privileges},
	{name: "trace a process", by: calls, others: landlock | privileges},
	{name: "read a process", by: calls, others: landlock | privileges},
	{name: "open a process's memory", by: files, others: landlock | privileges},
	{name: "take a process's descriptor", by: landlock, others: privileges},
	{name: "kill a process", by: signals},
	{name: "limit a process", by: calls},
	{name: "slow a process", by: calls, others: privileges},
	{name: "leave the session", by: calls},
	{name: "use System V memory", by: calls},
	{name: "use BPF", by: calls, others: privileges},
	{name: "count events", by: calls, others: privileges},
	{name: "handle page faults", by: calls, others: privileges},
	{name: "add a key", by: calls},
	{name: "look for keys", by: calls},
	{name: "mount", by: calls | privileges, others: landlock},
	{name: "change the root", by: calls | privileges},
	{name: "make a namespace", by: calls},
	{name: "join a namespace", by: calls | privileges},
	{name: "clone into a namespace", by: calls},
	{name: "clone3 into a namespace", by: calls},
	{name: "load a module", by: calls | privileges},
	{name: "type into the terminal", by: calls, others: privileges | landlock},
	{name: "name the host", by: calls | privileges},
	{name: "become another user", by: privileges},
	{name: "call as 32 bits", by: calls},
}

const all = descriptors | privileges | files | tcp | signals | calls

// Calls and kernels of a trace ran with all rights of whoever replayed it. Each way out is stopped by each of its layers alone; with none of
// them it leads out, so that this test can fail.
func TestWaysOut(t *testing.T) {
	root := testenv.Root(t)
	program := testenv.CompileC(t, "ways", []string{"testdata/ways.c", filepath.Join(root, "replay/player/sandbox.c")}, "-DSANDBOX_TEST", "-I"+filepath.Join(root, "replay/player"))
	box, err := Try()
	if err != nil {
		t.Fatal(err)
	}
	has := 0
	for i, l := range layers {
		for _, name := range box.Layers {
			if l.name == name {
				has |= 1 << i
			}
		}
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			try := func(layers int) (out bool, why string) {
				own, outside := t.TempDir(), t.TempDir()
				if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(program, own, outside, w.name)
				cmd.Env = append(os.Environ(), fmt.Sprintf("SANDBOX_WITHOUT=%d", all&^layers))
				text, err := cmd.Output()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				if why = strings.TrimSpace(string(text)); cmd.ProcessState.ExitCode() == 2 {
					t.Skipf("this machine has no such way: %s", why)
				}
				return err == nil, why
			}
			if out, why := try(0); !out {
				t.Skipf("this machine has no such way: %s", why)
			}
			if w.by&has == 0 {
				t.Skipf("this kernel lacks the layer: %s", box)
			}
			if out, _ := try(all); out {
				t.Error("it leads out of the sandbox")
			}
			for i, l := range layers {
				if bit := 1 << i; w.by&has&bit != 0 {
					if out, _ := try(bit); out {
						t.Errorf("%s alone do not stop it", l.name)
					}
				}
			}
			if out, why := try(all &^ (w.by | w.others)); !out {
				t.Errorf("without the layers that are said to stop it: %s", why)
			}
		})
	}
}

// The usage text of the player named its flags and did not explain them.
func TestPlayerUsageExplainsItsArguments(t *testing.T) {
	out, err := exec.Command(testenv.Built(t, "lib/acltrace-player")).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("without arguments: %v, want exit code 2", err)
	}
	for _, of := range []string{"--sandbox", "--partial", "--read PATH", "PLAN", "LIBRARY", "RESULTS"} {
		if !regexp.MustCompile(`(?m)^  ` + of + ` +[a-z]`).Match(out) {
			t.Errorf("%s has no line of its own:\n%s", of, out)
		}
	}
	for line := range strings.Lines(string(out)) {
		if len(line) > 80 {
			t.Errorf("longer than 79 characters: %q", line)
		}
	}
}
