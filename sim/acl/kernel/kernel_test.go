package kernel

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

func TestShapesHaveGridAndBlock(t *testing.T) {
	if got := Line(7); got != (Shape{Grid: [3]uint32{7, 1, 1}, Block: [3]uint32{1, 1, 1}}) {
		t.Errorf("%v", got)
	}
	if got := Cube(acl.Dim3{X: 1, Y: 2, Z: 3}, acl.Dim3{X: 4, Y: 5, Z: 6}); got != (Shape{Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}}) {
		t.Errorf("%v", got)
	}
	o := &Order{Func: &Function{}}
	if OrderOf(&device.Task{Order: o}) != o || OrderOf(&device.Task{}) != nil || o.Usual() != &o.Func.Took {
		t.Error("the launch of a task is another one")
	}
}

// Handles of parameters differ by list and number.
func TestParamHandles(t *testing.T) {
	seen := map[acl.ParamHandle]bool{}
	for _, list := range []uint64{0x10, 0x20} {
		for i := range MaxParams {
			h := ParamHandle(&ArgList{Handle: list}, i)
			if seen[h] || space.KindOf(uint64(h)) != space.KindParam {
				t.Fatalf("handle %#x", h)
			}
			seen[h] = true
		}
	}
}

// Code without a suffix is for cube cores, unless the kernel has code for both kinds.
func TestSuffixDecidesTheCoreKind(t *testing.T) {
	file := &kernelbin.File{Symbols: map[string]kernelbin.Symbol{"plain": {Offset: 1}, "mix_mix_aic": {Offset: 2}, "mix_mix_aiv": {Offset: 3}, "vector_mix_aiv": {Offset: 4}, "vector": {Offset: 5}}}
	at := func(s *kernelbin.Symbol) uint64 {
		if s == nil {
			return 0
		}
		return s.Offset
	}
	for name, want := range map[string][2]uint64{"plain": {1, 0}, "mix": {2, 3}, "vector": {0, 4}, "none": {0, 0}} {
		cube, vector := (&Function{Name: name, Bin: &Binary{Names: file}}).Parts()
		if got := [2]uint64{at(cube), at(vector)}; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := ParseBinary([]byte("text")); err == nil {
		t.Error("a text is a binary")
	}
}

// computer computes every block.
type computer struct{}

func (computer) Computes([]byte) bool { return true }
func (computer) Compute([]byte) bool  { return true }

// A kernel runs if it has code, and declares its memory if it does or if it is an operator.
func TestKernelRunsIfItHasCode(t *testing.T) {
	run := func(*device.Launch) {}
	extents := func(*device.Launch, []space.Extent) []space.Extent { return nil }
	for name, c := range map[string]struct {
		f                  *Function
		computes, declares bool
	}{
		"unknown": {&Function{}, false, false}, "operator": {&Function{Operator: true}, false, true}, "code": {&Function{Kernel: &device.Kernel{Run: run}}, true, true},
		"empty": {&Function{Kernel: &device.Kernel{}}, false, false}, "declaration": {&Function{Kernel: &device.Kernel{Extents: extents}}, false, true},
	} {
		if c.f.Computes() != c.computes || c.f.Declares() != c.declares {
			t.Errorf("%s: %v, %v", name, c.f.Computes(), c.f.Declares())
		}
	}
	for _, f := range []*Function{{}, {Operator: true}, {Operator: true, Computer: computer{}}, {Computer: computer{}}} {
		if f.Executes([]byte("no block")) {
			t.Errorf("an operator (%v) executes no block", f.Operator)
		}
	}
}

func machine(t *testing.T) *device.Machine {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	return &device.Machine{Model: m}
}

// A launch that takes longer than the operator time limit ends then. Without a limit, the usual one counts.
func TestTimeLimit(t *testing.T) {
	m := machine(t)
	for _, c := range []struct {
		limit, takes, want time.Duration
		late               bool
	}{{time.Second, time.Second, time.Second, false}, {time.Second, time.Second + 1, time.Second, true}, {0, OpDefault, OpDefault, false}, {0, OpDefault + 1, OpDefault, true},
		{NeverTimesOut, 24 * time.Hour, 24 * time.Hour, false}} {
		var limit atomic.Int64
		limit.Store(int64(c.limit))
		o := &Order{Limit: &limit, Func: &Function{Name: "k", Rule: &model.Kernel{}, Kernel: &device.Kernel{Duration: func(*device.Launch) time.Duration { return c.takes }}}}
		cost, f := o.cost(m, 0)
		if cost != c.want || (f != nil) != c.late || f != nil && (f.Code != fail.Code(acl.ACL_ERROR_RT_AICORE_TIMEOUT) || !strings.Contains(f.Text, "kernel k takes "+c.takes.String())) {
			t.Errorf("%+v: %v, %v", c, cost, f)
		}
	}
	o := &Order{Limit: &atomic.Int64{}, Func: &Function{Rule: &model.Kernel{Duration: 500}}, Blocks: 1}
	if cost, f := o.cost(m, 0); f != nil || cost != m.KernelTime(o.Func.Rule, 1, 0) {
		t.Errorf("%v, %v", cost, f)
	}
}

// After a crash the kernel fails, and others of its library do not run. All memory is unknown then.
func TestLibraryStopsAfterACrash(t *testing.T) {
	m := machine(t)
	var crash *device.Crash
	k := &device.Kernel{Crashed: func() *device.Crash { return crash }, Duration: func(*device.Launch) time.Duration { return 0 }}
	a, b := &Order{Func: &Function{Name: "a", Kernel: k, Rule: &model.Kernel{}}, Limit: &atomic.Int64{}}, &Order{Func: &Function{Name: "b", Kernel: k}}
	if f := a.crashed(m); f != nil || m.Unknowns.Any.Load() || (&Order{Func: &Function{}}).crashed(m) != nil {
		t.Errorf("%v before a crash", f)
	}
	crash = &device.Crash{Kernel: "a", Signal: "SIGSEGV", Address: 16}
	if f := a.crashed(m); f == nil || f.Code != fail.Code(acl.ACL_ERROR_RT_AICORE_EXCEPTION) || strings.Contains(f.Text, "is not run") {
		t.Errorf("%+v", f)
	}
	if f := b.crashed(m); f == nil || !strings.Contains(f.Text, "kernel b is not run, because its kernel library crashed before") {
		t.Errorf("%+v", f)
	}
	if m.Unknowns.Crashed.Load() != crash || !m.Unknowns.Any.Load() {
		t.Error("the memory is known")
	}
	if cost, f := a.cost(m, 0); cost != 0 || f == nil {
		t.Errorf("%v, %v", cost, f)
	}
}

func TestArgumentNames(t *testing.T) {
	o := &Order{Func: &Function{Kernel: &device.Kernel{Args: []device.Arg{{Name: "x"}, {Name: "y"}}}}}
	l := &device.Launch{Args: []byte("no block")}
	names := []string{o.argument(l, 0), o.argument(l, 1)}
	o.Func.Operator = true
	if names = append(names, o.argument(l, 1)); !slices.Equal(names, []string{"argument 0 (x)", "argument 1 (y)", "operand 1"}) {
		t.Errorf("%q", names)
	}
}
