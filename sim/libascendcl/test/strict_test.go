package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Strict mode finds each mistake, names both calls, and says nothing of the corrected program.
func TestStrictModeFindsEachMistake(t *testing.T) {
	exe, dir := program(t, "strict", "ascendcl"), libraries(t)
	const launch = "aclrtLaunchKernelWithHostArgs of kernel test_count on stream "
	for _, c := range []struct {
		name, kind string
		calls      []string
	}{
		{"pageable", "pageable-copy-in-capture", []string{"aclmdlRICaptureBegin on stream 1", "aclrtMemcpyAsync on stream 1"}},
		{"freed", "freed-in-flight", []string{launch + "1", "aclrtFree ("}},
		{"freed_host", "freed-in-flight", []string{"aclrtMemcpyAsync on stream 1", "aclrtFreeHost ("}},
		{"after_free", "use-after-free", []string{"aclrtFree (", "aclrtMemsetAsync on stream 1"}},
		{"unregistered", "freed-in-flight", []string{"aclrtMemcpyAsync on stream 1", "aclrtHostUnregister ("}},
		{"overwritten", "host-buffer-reused", []string{"aclrtMemcpyAsync on stream 1", "aclrtSynchronizeStream ("}},
		{"overwritten_by_copy", "host-buffer-reused", []string{"aclrtMemcpyAsync on stream 1", "aclrtMemcpy ("}},
		{"unsynchronized", "missing-synchronization", []string{launch + "1", "aclrtMemcpy ("}},
		{"unsynchronized_host", "missing-synchronization", []string{"aclrtMemcpyAsync on stream 1", "aclrtMemcpy ("}},
		{"racing", "race-between-streams", []string{launch + "1", "aclrtMemcpyAsync on stream 2"}},
		{"racing_in_model", "race-between-streams", []string{launch + "1", launch + "2"}},
		{"blocks", "block-dim", []string{"aclrtBinaryGetFunction (", launch + "1"}},
		{"wrong_current", "wrong-device", []string{"aclrtCreateStream (", "aclrtMemsetAsync on stream 1"}},
		{"wrong_memory", "wrong-device", []string{"aclrtMalloc (", "aclrtMemcpyAsync on stream 1"}},
		{"leaking", "leak", []string{"aclrtCreateEvent (", "aclFinalize ("}},
		{"leaking_host", "leak", []string{"aclrtMallocHost (", "aclFinalize ("}},
		{"leaking_device", "leak", []string{"aclrtMalloc (", "aclrtResetDevice ("}},
		{"finalized_twice", "unbalanced-init", []string{"aclFinalize (", "aclFinalize ("}},
		{"not_finalized", "unbalanced-init", []string{"aclInit (call 0 of thread "}}, // numbered as in traces,
	} {
		for _, clock := range []string{"real", "virtual"} {
			t.Run(c.name+"/"+clock, func(t *testing.T) {
				t.Parallel()
				env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so", "ACLSIM_DEVICES=2", "ACLSIM_STRICT=1", "ACLSIM_CLOCK=" + clock}
				_, wrong := run(t, dir, env, exe, dir+"/kernels.o", c.name, "wrong")
				if n := strings.Count(wrong, "aclsim: "+c.kind+": "); n != 1 || !strings.Contains(wrong, "aclsim: 1 finding") {
					t.Errorf("found %d times, and perhaps other things:\n%s", n, wrong)
				}
				at := 0
				for _, call := range c.calls {
					i := strings.Index(wrong[at:], "==   "+call)
					if i < 0 {
						t.Fatalf("%q is not named, or not in its place:\n%s", call, wrong)
					}
					at += i + 1
				}
				if strings.Contains(wrong, "\x1b") {
					t.Errorf("there is colour where no terminal is:\n%s", wrong)
				}
				_, right := run(t, dir, env, exe, dir+"/kernels.o", c.name, "right")
				if !strings.Contains(right, "aclsim: strict mode: no findings\n") {
					t.Errorf("the corrected program:\n%s", right)
				}
			})
		}
	}
}

// The same finding is reported once and counted; a log takes the report; abort ends the program with the first finding.
func TestStrictReport(t *testing.T) {
	exe, dir := program(t, "strict", "ascendcl"), libraries(t)
	log := filepath.Join(t.TempDir(), "log")
	env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so", "ACLSIM_STRICT_LOG=" + log}
	_, stderr := run(t, dir, append(env, "ACLSIM_STRICT=1"), exe, dir+"/kernels.o", "racing", "wrong")
	b, err := os.ReadFile(log)
	if err != nil || stderr != "" || !strings.Contains(string(b), "1 finding, 3 times (race-between-streams 1)") {
		t.Errorf("%v, stderr %q, log:\n%s", err, stderr, b)
	}
	cmd := exec.Command(exe, dir+"/kernels.o", "unsynchronized", "wrong")
	cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir, "ACLSIM_STRICT=abort"), env[0])
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 66 || strings.Count(string(out), "Meaning:") != 1 {
		t.Errorf("%v:\n%s", err, out)
	}
}
