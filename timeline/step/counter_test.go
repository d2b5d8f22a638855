package step_test

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/timeline/step"
)

// Warm-up runs and captures of an engine counted as steps, so `record --steps` kept no run of a graph.
func TestCapturesAreInNoStep(t *testing.T) {
	funcs := map[string]*api.Func{}
	for i := range acl.Model.Funcs {
		funcs[acl.Model.Funcs[i].Name] = &acl.Model.Funcs[i]
	}
	const launch, wait = "aclrtLaunchKernel", "aclrtSynchronizeStream"
	see := func(c *step.Counter, names ...string) (in int) {
		for _, n := range names {
			in = c.See(funcs[n], "", 0)
		}
		return in
	}
	c := step.NewCounter(acl.Model, "")
	for range 3 { // three sizes
		see(c, launch, wait, launch, wait, "aclmdlRICaptureBegin", launch, "aclmdlRICaptureEnd", wait)
	}
	for i := range 8 {
		if in := see(c, "aclmdlRIExecuteAsync", wait); in != i {
			t.Fatalf("the run of a graph is in step %d, want %d", in, i)
		}
		if i == 4 { // a size that was not captured before
			see(c, "aclmdlRICaptureBegin", launch, "aclmdlRICaptureEnd", wait)
		}
	}
	c = step.NewCounter(acl.Model, wait)
	if in := see(c, launch, wait, "aclmdlRICaptureBegin", launch, "aclmdlRICaptureEnd", wait, launch, wait); in != 2 {
		t.Errorf("with a marker the third wait is in step %d", in)
	}
}
