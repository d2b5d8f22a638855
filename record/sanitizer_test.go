package record_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
)

// AddressSanitizer's shared runtime ended each recorded program, since the shim was loaded before it. A program with a shared or
// static sanitizer now ends as it does alone, even if a script starts it or the sanitizer is in LD_PRELOAD already, and the sanitizer
// still reports. The simulator's memory was in ThreadSanitizer's shadow, which ended the program.
func TestSanitizedProgramsEndAsAlone(t *testing.T) {
	t.Setenv("TSAN_OPTIONS", "atexit_sleep_ms=0")
	for _, s := range []struct{ name, compiler, flags, preload string }{
		{"address", "gcc", "-fsanitize=address", "libasan.so"},
		{"address static", "gcc", "-fsanitize=address -static-libasan", ""},
		{"thread", "gcc", "-fsanitize=thread", ""},
		{"thread static", "gcc", "-fsanitize=thread -static-libtsan", ""},
		{"undefined, leak", "gcc", "-fsanitize=undefined,leak", ""},
		{"clang address", "clang", "-fsanitize=address", ""},
		{"clang thread", "clang", "-fsanitize=thread", ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			program := sanitized(t, s.compiler, strings.Fields(s.flags)...)
			alone := exec.Command(program)
			alone.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(t, "lib/libascendcl.so")))
			var stderr strings.Builder
			alone.Stderr = &stderr
			stdout, _ := alone.Output()
			if alone.ProcessState.ExitCode() != 3 || string(stdout) != "sanitized\n" {
				t.Fatalf("alone: %v, %q, %q", alone.ProcessState, stdout, stderr.String())
			}
			recorded := map[string]*outcome{
				"itself":      wild(t, record.Options{Sim: true}, program),
				"by a script": wild(t, record.Options{Sim: true}, "/bin/sh", "-c", program+"; exit $?"),
			}
			if s.preload != "" {
				path, err := exec.Command(s.compiler, "-print-file-name="+s.preload).Output()
				if err != nil {
					t.Fatal(err)
				}
				env := append(os.Environ(), "LD_PRELOAD="+strings.TrimSpace(string(path)), "ASAN_OPTIONS=detect_leaks=0")
				recorded["preloaded"] = wild(t, record.Options{Sim: true, Env: env}, program)
			}
			for how, o := range recorded {
				if o.ExitCode != 3 || o.stdout != "sanitized\n" || o.stderr != stderr.String() || o.by["aclrtMemcpy"] != 2 {
					t.Errorf("%s: exit code %d, %q, %q, calls %v; alone: %q", how, o.ExitCode, o.stdout, o.stderr, o.by, stderr.String())
				}
				if rep, err := replay.Run(t.Context(), o.r.Path(), acl.Model, &replay.Options{Verify: true}); err != nil || !rep.Identical {
					t.Errorf("%s: replay: %+v, %v", how, rep, err)
				}
			}
			if strings.Contains(s.flags, "leak") {
				return
			}
			if o := wild(t, record.Options{Sim: true}, program, "bad"); !strings.Contains(o.stderr, "heap-use-after-free") || o.ExitCode == 0 {
				t.Errorf("a read of freed memory: exit code %d, %q", o.ExitCode, o.stderr)
			}
		})
	}
}

// The user's ASAN_OPTIONS come after the recorder's.
func TestSanitizerOptionsAreKept(t *testing.T) {
	o := wild(t, record.Options{Env: append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")}, "/bin/sh", "-c", "echo $ASAN_OPTIONS")
	if o.stdout != "verify_asan_link_order=0:detect_leaks=0\n" {
		t.Errorf("ASAN_OPTIONS is %q", o.stdout)
	}
}

// sanitized compiles testdata/sanitized.c. It skips the test if the compiler does not have the sanitizer.
func sanitized(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("%s is not installed", compiler)
	}
	probe := exec.Command(compiler, append(slices.Clone(flags), "-x", "c", "-", "-o", filepath.Join(t.TempDir(), "probe"))...)
	probe.Stdin = strings.NewReader("int main(void) { return 0; }")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("%s has no runtime for %s: %s", compiler, strings.Join(flags, " "), out)
	}
	lib, path := filepath.Dir(testenv.Built(t, "lib/libascendcl.so")), filepath.Join(t.TempDir(), "sanitized")
	args := append(flags, "-g", "-Wall", "-Wextra", "-Werror", "-I"+filepath.Join(testenv.Root(t), "api/acl/include"), source("sanitized.c"), "-o", path, "-L"+lib, "-lascendcl")
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, out)
	}
	return path
}
