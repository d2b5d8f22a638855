package test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A signal handler that was set without SA_ONSTACK ran on a goroutine's stack and corrupted it: 5 of 6 runs crashed, with an empty handler.
func TestHandlersRunOnTheSignalStack(t *testing.T) {
	run(t, libraries(t), nil, program(t, "guest", "ascendcl"), "handlers", "-")
}

// The handlers of a program that loads the runtime are set past libascendcl.so, and kept their flags.
func TestHandlersOfAProgramThatLoadsTheRuntime(t *testing.T) {
	run(t, "", nil, program(t, "loads", ""), libraries(t)+"/libascendcl.so")
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
	exe := program(t, "guest", "ascendcl")
	for _, how := range []string{"close", "close_range", "closefrom"} {
		env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so", "ACLSIM_MODEL=" + modelOf(t, map[string]any{"name": "*", "duration_ns": 1_000_000})}
		run(t, dir, env, exe, how, dir+"/kernels.o")
	}
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
