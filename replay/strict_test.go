package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A replay in strict mode finds unordered accesses, even if it has the recorded results. Findings had numbers of the player's calls, which no other output has.
func TestStrictFindsUnorderedAccesses(t *testing.T) {
	program := testenv.CompileC(t, "handoff", []string{"testdata/handoff.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	// The binary is never unloaded.
	if r := run(t, path, &Options{Verify: true, Strict: true}); !r.Identical || len(r.Findings) != 1 || r.Findings[0].Kind != "leak" {
		t.Errorf("identical %v, found %+v", r.Identical, r.Findings)
	}
	unordered := rewrite(t, path, slices.DeleteFunc(load(t, path), func(c *format.Call) bool { return acl.Model.Func(api.ID(c.Func)).Task == api.Wait }))
	// On a busy machine the kernel may start after the free, which is the finding then.
	var r *Report
	i := -1
	for try := 0; try < 10 && i < 0; try++ {
		r = run(t, unordered, &Options{Verify: true, Strict: true, Repeat: 2})
		i = slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == "race-between-streams" })
		if i < 0 && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == "freed-in-flight" }) {
			break
		}
	}
	if i < 0 || len(r.Findings[i].Calls) != 2 || !strings.Contains(r.Findings[i].Calls[0], "of kernel add on stream") || !strings.Contains(r.Findings[i].Text, "writes 256 bytes at") {
		t.Errorf("found %+v", r.Findings)
	} else if add := slices.IndexFunc(load(t, unordered), launchesKernel); !strings.Contains(r.Findings[i].Text, fmt.Sprintf("of kernel add on stream 1 (call %d of the trace)", add)) {
		t.Errorf("the launch is call %d of the trace, found %s", add, r.Findings[i].Text)
	}
	if _, err := Run(context.Background(), path, acl.Model, &Options{Strict: true, Backend: "/lib/runtime.so"}); err == nil || !strings.Contains(err.Error(), "simulator") {
		t.Errorf("error %v", err)
	}
}

func launchesKernel(c *format.Call) bool {
	return acl.Model.Func(api.ID(c.Func)).Task == api.Kernel
}

// Regression: strict mode said "no mistake found" of two processes that used shared memory without an order.
func TestStrictNamesUncheckedSharedMemory(t *testing.T) {
	program := testenv.CompileC(t, "peers", []string{"testdata/peers.c"})
	simulate(t)
	r := run(t, recorded(t, program, kernels(t)), &Options{Strict: true})
	if len(r.Unchecked) != 1 || !strings.Contains(r.Unchecked[0], "memory that they share") {
		t.Errorf("unchecked: %q", r.Unchecked)
	}
	if r := run(t, recorded(t, testenv.CompileC(t, "handoff", []string{"testdata/handoff.c"}), kernels(t)), &Options{Strict: true}); len(r.Unchecked) != 0 {
		t.Errorf("a process alone: unchecked: %q", r.Unchecked)
	}
}
