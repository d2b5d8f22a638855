package record_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A program that cleared its environment in main was not recorded: the shim looked for the session's folder at the first call.
func TestEnvironmentClearedBeforeTheFirstCall(t *testing.T) {
	program := testenv.CompileC(t, "clearenv", []string{source("clearenv.c")})
	if out := wild(t, record.Options{Sim: true}, program); out.ExitCode != 0 || len(out.calls) != 4 {
		t.Errorf("exit code %d, %d calls, %s", out.ExitCode, len(out.calls), out.stderr)
	}
}

// Processes that were started without LD_PRELOAD and ended soon were recorded by nobody, and the trace said nothing of them: the recorder
// looks at processes now and then only. They reach the simulator, which leaves a note.
func TestShortProcessesWithoutTheShimAreNamed(t *testing.T) {
	program := testenv.CompileC(t, "cleared", []string{source("cleared.c")})
	out := wild(t, record.Options{Sim: true}, program)
	if want := "first Ascend910B1\nchild Ascend910B1\nitself Ascend910B1\n"; out.ExitCode != 0 || out.stdout != want {
		t.Errorf("exit code %d, %q, want %q; %s", out.ExitCode, out.stdout, want, out.stderr)
	}
	pids := map[int]bool{}
	for _, u := range out.Unhooked {
		if u.Exe != program || !strings.Contains(u.Reason, "libascendcl.so is loaded without the shim: LD_PRELOAD was changed before it was started") {
			t.Errorf("%+v", u)
		}
		pids[u.PID] = true
	}
	if len(out.Unhooked) != 2 || len(pids) != 2 || len(out.calls) == 0 {
		t.Errorf("%d calls, not seen %+v: want two processes", len(out.calls), out.Unhooked)
	}
}

// "No call was seen" did not say why: the program may have been started in a way that keeps the shim out of it.
func TestNoCallHasAReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wait := write("wait.c", "#include <unistd.h>\nint main(int argc, char **argv) { (void)argv; return usleep(argc > 1 ? 10000000 : 500000); }\n")
	compile := func(name string, flags ...string) string {
		out := filepath.Join(dir, name)
		if b, err := exec.Command("cc", append(flags, "-o", out, wait)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		return out
	}
	dynamic, static := compile("wait"), compile("static", "-static")
	for _, c := range []struct {
		name, want string
		command    []string
	}{
		{"nothing wrong", "", []string{dynamic}},
		{"cleared", dynamic + ": its environment was cleared", []string{"env", "-i", dynamic}},
		{"preload", dynamic + ": LD_PRELOAD was changed", []string{"env", "-u", "LD_PRELOAD", dynamic}},
		{"static", static + ": the program is linked statically (no loader)", []string{"sh", "-c", static + ` "$@"; true`, "sh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := wild(t, record.Options{}, c.command...)
			if len(out.NoShim) == 0 && c.want != "" { // a busy machine may not look at a program that ends soon
				out = wild(t, record.Options{}, append(c.command, "longer")...)
			}
			var got []string
			for _, u := range out.NoShim {
				got = append(got, fmt.Sprintf("%s: %s (%s)", u.Exe, u.Reason, u.Cause))
			}
			if c.want == "" && len(got) > 0 || !strings.Contains(strings.Join(got, "; "), c.want) || out.ExitCode != 0 {
				t.Errorf("%q, want %q; exit code %d", got, c.want, out.ExitCode)
			}
		})
	}
	t.Run("set-uid", func(t *testing.T) {
		root(t)
		program := compile("setuid")
		if err := os.Chown(program, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		if out := wild(t, record.Options{}, program); len(out.NoShim) != 1 || !strings.Contains(out.NoShim[0].Reason, "set-uid") {
			t.Errorf("%+v", out.NoShim)
		}
	})
}
