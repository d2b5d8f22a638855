package whatif_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/sim/model"
)

// waited records a program that works while a kernel may run, and then waits for the kernel.
func waited(t *testing.T, work, wait int64) string {
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	b.Call(0, 2*us+work, 2*us+work+wait, "aclrtSynchronizeStream", testtrace.A(streamA))
	return b.Load().Reader.Path()
}

// A long wait for a kernel shows its duration, which the prediction uses. A kernel that may have ended at any time while the host worked has
// no prediction.
func TestBoundsComeFromWaits(t *testing.T) {
	same, slow := plain(t, "same", 1, 1), plain(t, "slow", 2, 1)
	fast := plain(t, "fast", 0.5, 1)
	for _, tt := range []struct {
		name       string
		work, wait int64
		model      string
		lo, hi     int64
		predicted  bool
	}{
		{"waited for at once, slower", 0, 500 * us, slow, 1002 * us, 1002 * us, true},
		{"waited for at once, faster", 0, 500 * us, fast, 252 * us, 252 * us, true},
		{"the host works, slower", 500 * us, 1 * us, slow, 503 * us, 1004 * us, false},
		{"the host works, faster", 500 * us, 1 * us, fast, 502 * us, 503 * us, true},
		{"the host works, no change", 500 * us, 1 * us, same, 503 * us, 503 * us, true},
		{"both, slower", 500 * us, 500 * us, slow, 2002 * us, 2002 * us, true},
	} {
		r := simulate(t, waited(t, tt.work, tt.wait), &whatif.Options{Model: tt.model, Base: same})
		if lo, hi := r.BoundsNS[0], r.BoundsNS[1]; lo > tt.lo || hi < tt.hi || hi-lo > tt.hi-tt.lo+4*us || r.Predicted != tt.predicted {
			t.Errorf("%s: bounds %v, predicted %v, want %d to %d, %v; %+v", tt.name, r.BoundsNS, r.Predicted, tt.lo, tt.hi, tt.predicted, r)
		}
	}
}

// A total was printed for launches that took next to no time in the model, and might have taken all of it.
func TestNothingIsPredictedWithoutKnowledge(t *testing.T) {
	same, slow := plain(t, "same", 1, 1), plain(t, "slow", 2, 1)
	path := waited(t, 500*us, 1*us)
	r := simulate(t, path, &whatif.Options{Model: slow, Base: same})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); !strings.Contains(s, `"virtual_ns":null`) || !strings.Contains(s, `"change_percent":null`) || !strings.Contains(s, `"bounds_ns":[`) || r.Advice != whatif.NoTaskTimes {
		t.Errorf("%s", s)
	}
	out := filepath.Join(t.TempDir(), "new.aclt")
	if _, err := whatif.Run(t.Context(), path, acl.Model, &whatif.Options{Model: slow, Base: same, Output: out}); !errors.Is(err, whatif.NoTaskTimes) {
		t.Errorf("a trace of what is not predicted: %v", err)
	}
}

// A task that the trace never shows to be done has no upper bound, also if others on its stream have one.
func TestTasksThatNothingWaitsForAreUnbounded(t *testing.T) {
	same, slow := plain(t, "same", 1, 1), plain(t, "slow", 2, 1)
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	b.Call(0, 2*us, 52*us, "aclrtSynchronizeStream", testtrace.A(streamA))
	b.Call(0, 52*us, 53*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: slow, Base: same})
	if r.BoundsNS[1] != whatif.Unbounded || r.Predicted {
		t.Errorf("%+v", r)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), ",null]") {
		t.Errorf("%s, %v", b, err)
	}
}

// With fewer engines, copies that ran at once may wait for each other. The upper bound is the sum of their durations.
func TestFewerEnginesMayPutAllInARow(t *testing.T) {
	same := plain(t, "same", 1, 1)
	one := changed(t, "one", func(m *model.Model) {
		for k, c := range m.Copies {
			c.Engines, c.Sizes = 1, []model.CopySize{{Rate: 1}}
			m.Copies[k] = c
		}
	})
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamB))
	b.Call(0, 2*us, 3*us, "aclrtMallocHost", testtrace.A(0x7ffe0008, 1<<20), testtrace.Outs("hostPtr", testtrace.HostA))
	b.Call(0, 3*us, 4*us, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 100*us, testtrace.HostA, 100*us, 1, streamA))
	b.Call(0, 4*us, 5*us, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceB, 100*us, testtrace.HostA, 100*us, 1, streamB))
	b.Call(0, 5*us, 105*us, "aclrtSynchronizeDevice", nil)
	r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: one, Base: same})
	if r.BoundsNS[0] > 105*us || r.BoundsNS[1] < 204*us || r.BoundsNS[1] == whatif.Unbounded || r.Predicted {
		t.Errorf("%+v", r)
	}
}
