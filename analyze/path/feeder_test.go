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

// queued is a program with a queue: one thread computes, asks the runtime and hands on launches; the other one launches. At the end of a step the first
// one waits until the queue is empty.
type queued struct {
	p     *program
	now   [2]int64 // ends of the latest calls of the queue's thread and of the one that fills it
	steps []int64  // their durations
	begun int64

	own, takes func() int64 // times between two calls of the program, and in the queue's thread before a launch
}

// call adds a call after a time in which the thread did not run and one in which it did.
func (q *queued) call(thread int, blocked, ran, in int64, fn string, args []uint64, mods ...tt.Mod) {
	from := q.now[thread] + blocked + ran
	if q.p != nil {
		if blocked > 0 {
			mods = append(mods, notRunning(uint64(blocked)))
		}
		q.p.Call(uint32(thread), from, from+in, fn, args, mods...)
	}
	q.now[thread] = from + in
}

// run runs steps with so many launches.
func (q *queued) run(steps, launches int) {
	for i := range steps {
		q.call(1, 0, 100, 100, "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", i)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
		q.begun = q.now[1] - 100
		for range launches {
			q.call(1, 0, q.own(), 1_000, "aclrtGetDevice", tt.A(0x7ffe0000))
			idle := max(0, q.now[1]-q.now[0])
			q.call(0, idle, q.takes(), 3_000, "aclrtLaunchKernel", tt.A(tt.Function, 8, tt.DeviceA, 64, tt.StreamA))
		}
		q.call(1, max(0, q.now[0]-q.now[1]), 500, 1_000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		q.call(1, 0, 100, 100, "mstxRangeEnd", tt.A(uint64(i+1)))
		q.steps = append(q.steps, q.now[1]-q.begun)
	}
}

// A path leads from a queue's thread to the one that fills the queue. The program's own time saves what the model of the program says: how much shorter steps are
// without it.
func TestQueuesWaitForTheProgram(t *testing.T) {
	const steps, launches = 12, 20
	driven := 0
	for seed := range uint64(40) {
		most := []int64{2_000, 20_000, 200_000}[seed%3] // a program faster than its queue, about as fast, and slower
		model := func(with bool, p *program) []int64 {
			r := rand.New(rand.NewPCG(seed, 7))
			q := queued{p: p, now: [2]int64{5_000, 1_000}, takes: func() int64 { return 2_000 + r.Int64N(10_000) }, own: func() int64 {
				if own := r.Int64N(most); with {
					return own
				}
				return 0
			}}
			q.run(steps, launches)
			return q.steps
		}
		p := newProgram(t)
		all, without := model(true, p), model(false, nil)
		i, own := 0, "own time, thread 4011"
		each := func(path *Path) error {
			want, at := all[i]-without[i], i
			i++
			taken, saves := int64(0), int64(0)
			for _, e := range path.Entries(0) {
				if e.String() == own {
					taken, saves = e.NS, e.SavesNS
				}
				if strings.HasPrefix(e.String(), "blocked") && 2*e.NS > path.Step.To-path.Step.From {
					t.Errorf("seed %d step %d: %v takes %d of %d", seed, at, &e, e.NS, path.Step.To-path.Step.From)
				}
			}
			if 2*want > all[at] {
				driven++
			}
			if near := int64(2_000); want > saves+near || saves > taken {
				t.Errorf("seed %d step %d: of %d the program's own time takes %d and saves %d; it is %d longer than without\n%s", seed, at, all[at], taken, saves, want, lines(path.Parts()))
			}
			return nil
		}
		if _, err := New(p.Load().Reader, acl.Model, &Options{Each: each}); err != nil || i < steps {
			t.Fatalf("seed %d: %v, %d paths", seed, err, i)
		}
	}
	if driven < 100 {
		t.Errorf("%d steps are bound by the program", driven)
	}
}
