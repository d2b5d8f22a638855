package path

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	tt "github.com/acltrace/acltrace/internal/testtrace"
)

// A framework trains with a queue: its main thread prepares operators, another one those of the gradients, while the main thread sleeps, and the queue's thread launches
// them. From the second step on, executors come from caches: operators are prepared without any call.
type framework struct {
	*program
	main, gradients uint32
	now             [3]int64 // of the queue's thread, the main thread, and the one of the gradients
	slept           int64    // by the main thread since its latest call
	ran             [2]int64 // by the main thread and the one of the gradients in the current step
	cached          bool
}

// operator prepares an operator in a time and launches it.
func (f *framework) operator(name string, by int, takes int64) {
	executor := uint64(0x7000)
	f.now[by] += takes
	f.ran[by-1] += takes
	thread := [...]uint32{0, f.main, f.gradients}[by]
	if !f.cached {
		f.Call(thread, f.now[by]-2, f.now[by]-2, "InitL2Phase1Context", tt.A(0x10, 0x7ffe0020), tt.Text("name", name), f.sleeps(by))
		f.Call(thread, f.now[by]-1, f.now[by]-1, "OpDfxGuardEnd", tt.A(executor))
	}
	idle := max(0, f.now[by]-f.now[0])
	at := f.now[0] + idle + 10
	f.Call(0, at, at, "InitL2Phase2Context", tt.A(0x10, executor), tt.Text("name", name), notRunning(uint64(idle)))
	f.launch(0, at+10, at+200, "a", tt.StreamA)
	f.Call(0, at+210, at+210, "OpDfxGuardEnd", tt.A(0))
	f.now[0] = at + 210
}

// sleeps gives the next call of the main thread the time for which it did not run.
func (f *framework) sleeps(by int) tt.Mod {
	ns := f.slept
	if by != 1 || ns == 0 {
		return func(*api.Func, *format.Call) {}
	}
	f.slept = 0
	return notRunning(uint64(ns))
}

// step runs a step, with times from 1 to most for each operator.
func (f *framework) step(n int, takes func() int64) {
	f.Call(f.main, f.now[1]+1, f.now[1]+101, "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", n)), func(_ *api.Func, c *format.Call) {
		c.Ret = uint64(n + 1)
	}, f.sleeps(1))
	f.now[1], f.ran = f.now[1]+101, [2]int64{}
	for range 8 {
		f.operator("aclnnAdd", 1, takes())
		f.operator("aclnnMatmul", 1, takes())
	}
	f.now[2] = f.now[1]
	for i := range 20 {
		f.operator([]string{"aclnnMm", "aclnnMatmul", "aclnnGeluBackward"}[i%3], 2, takes())
	}
	f.slept += f.now[2] - f.now[1]
	f.now[1] = f.now[2]
	for range 6 {
		f.operator("aclnnAddcdiv", 1, takes())
	}
	f.Call(f.main, f.now[1]+10, f.now[1]+20, "mstxRangeEnd", tt.A(uint64(n+1)), f.sleeps(1))
	f.now[1] += 20
}

// The thread of a queue slept while the main thread slept too, as the framework computes gradients on a thread that makes no calls: "blocked" came first on the path.
func TestPathsEndInTheThreadThatPreparesOperators(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := &framework{program: newProgram(t), now: [3]int64{2_000, 2_000, 2_000}}
		f.main, f.gradients = 1, f.Thread(4012)
		most := []int64{3_000, 30_000}[seed%2]
		var want [][2]int64
		for n := range 6 {
			f.step(n, func() int64 { return 400 + r.Int64N(most) })
			want = append(want, f.ran)
			f.cached = true
		}
		i := 0
		each := func(path *Path) error {
			got, slept, saves := map[string]int64{}, int64(0), map[string]int64{}
			for _, e := range path.Entries(0) {
				got[e.String()], saves[e.String()] = e.NS, e.SavesNS
				if strings.HasPrefix(e.String(), "blocked") {
					slept += e.NS
				}
			}
			all := path.Step.To - path.Step.From
			for k, name := range []string{"own time, thread 4011", "own time, thread 4012"} {
				if ns := want[i][k]; got[name] < ns*8/10 || got[name] > ns*12/10+1_000 {
					t.Errorf("seed %d step %d of %d: %s has %d, it ran for %d\n%s", seed, i, all, name, got[name], ns, lines(path.Parts()))
				} else if saves[name] < ns*6/10 || saves[name] > got[name] {
					t.Errorf("seed %d step %d of %d: %s saves %d, it ran for %d", seed, i, all, name, saves[name], ns)
				}
			}
			if slept*20 > all {
				t.Errorf("seed %d step %d: threads sleep for %d of %d\n%s", seed, i, slept, all, lines(path.Parts()))
			}
			i++
			return nil
		}
		if _, err := New(f.Load().Reader, acl.Model, &Options{Each: each}); err != nil || i != 6 {
			t.Fatalf("seed %d: %v, %d paths", seed, err, i)
		}
		if t.Failed() {
			return
		}
	}
}

// Launches of operators from caches, whose threads are not known, were kept for ever.
func TestHandoversAreForgotten(t *testing.T) {
	var x handovers
	for i := range int64(100) {
		x.all = append(x.all, handover{at: i, by: -1})
	}
	x.all[30].by = 7
	x.forget(49)
	if len(x.all) != 51 || x.all[0].by != 7 || x.all[1].at != 50 {
		t.Errorf("%v", x.all)
	}
	x.all[0].by = -1
	if x.forget(98); len(x.all) != 1 || x.all[0].at != 99 {
		t.Errorf("%v", x.all)
	}
}
