package rows

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// placed keeps the times of tasks by call.
type placed struct {
	nobody
	at map[uint64][2]int64
}

func (p *placed) Measured(call uint64, from, to int64) { p.at[call] = [2]int64{from, to} }

// Tasks that two threads put on the same streams do not overlap, whatever the order in which their times arrive.
func TestTaskTimes(t *testing.T) {
	for seed := range uint64(200) {
		late := []int64{80e6, 600e6}[seed%2] // at most, from one of the threads
		rnd := rand.New(rand.NewPCG(seed, 1))
		follower := &placed{at: map[uint64][2]int64{}}
		times := New(&Options{Model: acl.Model, Meta: &format.Meta{}, Follower: follower}, nil).times
		seg := &Segment{Gone: true} // nothing is written
		type task struct {
			probe.TaskTime
			start, arrives int64
			began          int64
		}
		var tasks []task
		ahead, now := rnd.Int64N(1e6), int64(1e9) // the device's clock is ahead
		var idle [2]int64
		for i := range 300 {
			now += rnd.Int64N(4e6)
			s := i % 2
			m := probe.TaskTime{PID: 1, TID: rnd.IntN(2), Seq: uint64(i), Stream: uint64(s), Issued: now + 1000, Closed: now + 3000}
			begin := max(now+2000, idle[s])
			m.Elapsed = 1000 + rnd.Int64N(3e6)
			idle[s] = begin + m.Elapsed
			m.From, m.To = (begin+ahead)/tick*tick, (idle[s]+ahead)/tick*tick
			m.Seen = max(m.Closed, idle[s]) + 500
			if rnd.IntN(3) == 0 { // the thread was stopped
				m.Seen += rnd.Int64N(20e6)
			}
			tasks = append(tasks, task{m, now, m.Seen + int64(m.TID)*rnd.Int64N(late), begin})
		}
		byArrival := slices.Clone(tasks)
		slices.SortStableFunc(byArrival, func(a, b task) int { return cmp.Compare(a.arrives, b.arrives) })
		for _, k := range byArrival {
			if err := times.add(timedCall{place{seg, k.Seq}, k.start}, &k.TaskTime); err != nil {
				t.Fatal(err)
			}
		}
		if err := times.finish(); err != nil {
			t.Fatal(err)
		}
		if n := len(follower.at) + int(times.summary.Unsound); n != len(tasks) || late < timedLate && times.summary.Unsound > 0 {
			t.Errorf("seed %d: %d measured and %d not, of %d", seed, len(follower.at), times.summary.Unsound, len(tasks))
		}
		if e := times.summary.TypicalErrorNS; e > 20_000 || e > times.summary.ErrorNS {
			t.Errorf("seed %d: times are typically wrong by up to %d ns, at most %d", seed, e, times.summary.ErrorNS)
		}
		var last [2]int64
		for i := range tasks {
			k := &tasks[i]
			at, ok := follower.at[k.Seq]
			if !ok {
				continue
			}
			if at[0] < k.start || at[1] > k.Seen || at[0] < last[k.Stream] || at[1]-at[0] > k.Elapsed {
				t.Errorf("seed %d: task %d from %d to %d: called at %d, seen at %d, took %d; the stream was busy until %d", seed, i, at[0], at[1], k.start, k.Seen, k.Elapsed, last[k.Stream])
			}
			last[k.Stream] = at[1]
			if off := at[0] - k.began; max(off, -off) > times.summary.ErrorNS+2*tick && times.summary.Unsound == 0 {
				t.Errorf("seed %d: task %d began at %d, not at %d: wrong by more than %d ns", seed, i, k.began, at[0], times.summary.ErrorNS)
			}
		}
	}
}
