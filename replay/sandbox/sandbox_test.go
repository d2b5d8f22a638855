package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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
	names

	landlock = files | tcp | signals // any of it keeps other processes from being traced
)

type way struct {
	name   string
	by     int
	others int
}

// ways are ways out, and the layers that stop each: by any of them alone. Others may too, on some kernels and for some users.
var ways = []way{
	{name: "read a file", by: files},
	{name: "query a file", by: names},
	{name: "query a file by a path", by: names},
	{name: "query a folder", by: names},
	{name: "list a folder", by: files | names},
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
	{name: "make a folder of its own", by: files},
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
	{name: "pin a process", by: calls, others: privileges},
	{name: "idle a process", by: calls, others: privileges},
	{name: "set a process's parameters", by: calls, others: privileges},
	{name: "set a process's attributes", by: calls, others: privileges},
	{name: "delay a process's files", by: calls, others: privileges},
	{name: "watch a folder", by: calls},
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

const all = descriptors | privileges | files | tcp | signals | calls | names

// Calls and kernels of a trace ran with all rights of whoever replayed it. Each way out is stopped by each of its layers alone; with none of
// them it leads out, so that this test can fail. An ordinary user's kernels are tried too: root's privileges hid that they could pin and
// delay the user's other processes.
func TestWaysOut(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	root := testenv.Root(t)
	public := publicFolder(t)
	program := filepath.Join(public, "ways")
	// Without the simulator, which replaces functions of the C library.
	if out, err := exec.Command(cc, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DSANDBOX_TEST", "-I"+filepath.Join(root, "replay/player"), "-o", program,
		"testdata/ways.c", filepath.Join(root, "replay/player/sandbox.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testenv.Built(t, "lib/acltrace-player") // for Try
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
	users := map[string]*syscall.Credential{"this user": nil}
	if os.Getuid() == 0 {
		users["an ordinary user"] = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	led := map[string]int{}
	for user, who := range users {
		t.Run(user, func(t *testing.T) {
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					led[user]++
					defer func() {
						if t.Skipped() {
							led[user]--
						}
					}()
					wayOut(t, &w, has, func(layers int) (out bool, why string) { return tryWay(t, program, public, w.name, who, layers) })
				})
			}
		})
		// A test program that did not start skipped all ways.
		if led[user] < len(ways)/2 {
			t.Errorf("%s: only %d of %d ways lead out of no sandbox", user, led[user], len(ways))
		}
	}
}

// ordinary is the id of a user without privileges.
const ordinary = 65534

// publicFolder makes a temporary folder in which every user can look up files.
func publicFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ways-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tryWay runs a way as a user in some layers.
func tryWay(t *testing.T, program, public, name string, who *syscall.Credential, layers int) (out bool, why string) {
	t.Helper()
	dir, err := os.MkdirTemp(public, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	own, outside := filepath.Join(dir, "own"), filepath.Join(dir, "outside")
	secret := filepath.Join(outside, "secret")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Mkdir(outside, 0o700), os.WriteFile(secret, []byte("secret\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, own, outside, name)
	if who != nil {
		for _, path := range []string{dir, own, outside, secret} {
			if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("SANDBOX_WITHOUT=%d", all&^layers))
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	switch why = strings.TrimSpace(string(text)); cmd.ProcessState.ExitCode() {
	case 0, 1:
	case 2:
		t.Skipf("this machine has no such way: %s", why)
	default:
		t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	return err == nil, why
}

func wayOut(t *testing.T, w *way, has int, try func(layers int) (out bool, why string)) {
	if out, why := try(0); !out {
		t.Skipf("this machine has no such way: %s", why)
	}
	if w.by&has == 0 {
		t.Skipf("this kernel lacks the layer")
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
	if out, why := try(all &^ (w.by | w.others | names)); !out { // names hides the files of most ways
		t.Errorf("without the layers that are said to stop it: %s", why)
	}
}

// The usage text of the player named its flags and did not explain them.
func TestPlayerUsageExplainsItsArguments(t *testing.T) {
	out, err := exec.Command(testenv.Built(t, "lib/acltrace-player")).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("without arguments: %v, want exit code 2", err)
	}
	for _, of := range []string{"--guard", "--sandbox", "--names", "--partial", "--read PATH", "PLAN", "LIBRARY", "RESULTS"} {
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
