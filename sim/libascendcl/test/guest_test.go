package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A signal handler that was set without SA_ONSTACK ran on a goroutine's stack and corrupted it: 5 of 6 runs crashed, with an empty handler.
func TestHandlersRunOnTheSignalStack(t *testing.T) {
	inAnyOrder(t, "guest", func(t *testing.T, exe string) { run(t, libraries(t), nil, exe, "handlers", "-") })
}

// A thread that took its signal stack away was without one in the engine, and a signal of Go's ended the program: python -X faulthandler at its end.
func TestThreadsKeepASignalStack(t *testing.T) {
	inAnyOrder(t, "guest", func(t *testing.T, exe string) { run(t, libraries(t), nil, exe, "stack", "-") })
}

// vLLM changes the titles of its processes before their first call. The engine then had no settings, and one device.
func TestSettingsOutliveTheTitle(t *testing.T) {
	run(t, libraries(t), []string{"ACLSIM_DEVICES=2"}, program(t, "guest", "ascendcl"), "title", "-")
}

// inAnyOrder runs a test with a program that is linked with the runtime alone, and with libc before the runtime, as a
// program that reaches the runtime through another library. The first calls of such programs crashed.
func inAnyOrder(t *testing.T, name string, test func(t *testing.T, exe string)) {
	for order, flags := range map[string][]string{"runtime first": nil, "libc first": {"-Wl,--no-as-needed", "-lc", "-lpthread"}} {
		t.Run(order, func(t *testing.T) { test(t, program(t, name, "ascendcl", flags...)) })
	}
}

// The functions of a program that loads the runtime are bound to libc. Its handlers kept their flags, and it closed the
// engine's descriptors. A wrapper in LD_PRELOAD did not find the runtime by RTLD_NEXT: a test of torch_npu failed.
func TestProgramLoadsTheRuntime(t *testing.T) {
	exe := program(t, "loads", "")
	run(t, "", nil, exe, libraries(t)+"/libascendcl.so")
	for _, flags := range []int{rtldNow, rtldNow | rtldGlobal, rtldNow | rtldDeepbind} {
		run(t, "", nil, exe, libraries(t)+"/libascendcl.so", strconv.Itoa(flags))
	}
	// Preloaded, it comes before libc.
	lib := libraries(t) + "/libascendcl.so"
	run(t, "", []string{"LD_PRELOAD=" + lib}, exe, lib, strconv.Itoa(rtldNow))
}

// A timer's signal for the process was delivered to threads of Go's.
func TestEngineThreadsBlockSignals(t *testing.T) {
	run(t, libraries(t), nil, program(t, "guest", "ascendcl"), "masks", "-")
}

// The first call of a thread unblocked SIGPROF and others, which the thread had blocked.
func TestFirstCallKeepsTheMask(t *testing.T) {
	run(t, libraries(t), nil, program(t, "guest", "ascendcl"), "blocked", "-")
}

// A call that a signal handler made while its thread was inside the engine never returned.
func TestCallsInsideTheEngineAreRefused(t *testing.T) {
	dir := libraries(t)
	exe := program(t, "guest", "ascendcl", "-rdynamic")
	for _, clock := range []string{"real", "virtual"} {
		_, stderr := run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so", "ACLSIM_CLOCK=" + clock}, exe, "calls", dir+"/kernels.o")
		if strings.Count(stderr, "aclsim: refuse call") != 1 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %q is not one line", clock, stderr)
		}
	}
}

// A program that closed all descriptors ended in Go's netpoll, and one that had files by their numbers found eight bytes in them.
func TestProgramClosesAllDescriptors(t *testing.T) {
	dir := libraries(t)
	inAnyOrder(t, "guest", func(t *testing.T, exe string) {
		for _, how := range []string{"close", "close_range", "closefrom"} {
			env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so", "ACLSIM_MODEL=" + modelOf(t, map[string]any{"name": "*", "duration_ns": 1_000_000})}
			run(t, dir, env, exe, how, dir+"/kernels.o")
		}
	})
}

// modelOf returns a cost model in which only kernels take time.
func modelOf(t *testing.T, kernels ...any) string {
	t.Helper()
	b, err := os.ReadFile(root + "/sim/model/presets/instant.json")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	m["kernels"] = kernels
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A kernel that crashed in its own code ended the program with 100 lines of Go.
func TestKernelCrashIsADeviceError(t *testing.T) {
	dir := libraries(t)
	inAnyOrder(t, "crash", func(t *testing.T, exe string) {
		for _, c := range []struct {
			kernel, how, clock, want string
		}{
			{"test_fail", "11", "real", "kernel test_fail crashed in its own code: SIGSEGV at address 0x8; "},
			{"test_fail", "7", "real", "kernel test_fail crashed in its own code: SIGBUS at address 0x"},
			{"test_fail", "8", "real", "kernel test_fail crashed in its own code: SIGFPE at address 0x"},
			{"test_fail", "4", "real", "kernel test_fail crashed in its own code: SIGILL at address 0x"},
			{"test_fail", "100", "real", "kernel test_fail crashed in its own code: SIGSEGV at address 0x"}, // its stack overflows
			{"test_fail_parallel", "11", "real", "kernel test_fail_parallel crashed in its own code: SIGSEGV at address 0x8; "},
			{"test_fail_extents", "11", "real", "kernel test_fail_extents crashed in its own code: SIGSEGV at address 0x8; "},
			{"test_fail", "11", "virtual", "kernel test_fail crashed in its own code: SIGSEGV at address 0x8; "},
			{"test_fail", "100", "virtual", "kernel test_fail crashed in its own code: SIGSEGV at address 0x"},
			{"handlers", "11", "real", "kernel test_fail crashed in its own code: SIGSEGV at address 0x8; "},
			{"handlers later", "11", "real", "kernel test_fail crashed in its own code: SIGSEGV at address 0x8; "},
			{"handlers", "8", "virtual", "kernel test_fail crashed in its own code: SIGFPE at address 0x"},
		} {
			env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so:" + dir + "/ready.so", "ACLSIM_CLOCK=" + c.clock}
			_, stderr := run(t, dir, env, exe, dir+"/kernels.o", dir+"/ready.o", c.kernel, c.how)
			if !strings.HasPrefix(stderr, "aclsim: "+c.want) || strings.Count(stderr, "\n") != 1 ||
				!strings.HasSuffix(stderr, "this process runs no more kernels of "+dir+"/kernels.so, and its later results are unproved\n") {
				t.Errorf("%+v: stderr is %q", c, stderr)
			}
		}
	})
}

// A kernel that ended the program, and a crash of the program's own code, were reported with all stacks of Go's.
func TestEndsWithoutTracesOfGo(t *testing.T) {
	dir := libraries(t)
	exe := program(t, "crash", "ascendcl")
	for _, c := range []struct {
		kernel, how string
		signal      syscall.Signal
		code        int
		stderr      string
	}{
		{"test_fail", "6", syscall.SIGABRT, 0, "aclsim: kernel test_fail called abort: the program ends\n"},
		{"test_fail", "101", 0, 7, "aclsim: kernel test_fail called exit: the program ends\n"},
		{"own", "0", syscall.SIGSEGV, 0, ""},
		{"raise", "0", syscall.SIGSEGV, 0, ""},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
		cmd := exec.CommandContext(ctx, exe, dir+"/kernels.o", dir+"/ready.o", c.kernel, c.how)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "ACLSIM_KERNELS="+dir+"/kernels.so:"+dir+"/ready.so")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		cancel()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		status := exit.Sys().(syscall.WaitStatus)
		if status.Signaled() != (c.signal != 0) || status.Signaled() && status.Signal() != c.signal || status.Exited() && status.ExitStatus() != c.code || stderr.String() != c.stderr {
			t.Errorf("%s %s: %v, stderr %q", c.kernel, c.how, err, &stderr)
		}
	}
}
