package kineto

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/format"
)

const (
	// mostApart is the largest difference between the clocks that is corrected, in nanoseconds.
	mostApart = int64(2e9)
	// coarse is the resolution of a large correction.
	coarse = int64(1e3)
	// near is the largest correction by which calls are only moved out of the bounds of operators.
	near = int64(1e5)
	// mostCalls limits the calls by which clocks are compared.
	mostCalls = 1 << 9
	// margin is the time by which operators enclose calls after a correction, if there is room.
	margin = int64(500)
)

// span is a recorded call on a thread with operators, or an operator.
type span struct {
	thread
	from, to int64
}

// An aligner compares operators with recorded calls. No call of the runtime calls an operator, so an operator that begins or ends inside a
// call shows that the clocks differ. And a call of the runtime is mostly inside an operator that takes not much longer.
type aligner struct {
	ops   map[thread][]span  // by begin
	edges map[thread][]int64 // begins and ends, by time
	calls []span             // in the time of the operators, and mostApart before and after
}

func newAligner(r *format.Reader, ops []op) (*aligner, error) {
	a := &aligner{ops: map[thread][]span{}, edges: map[thread][]int64{}}
	start := r.Meta().StartWall
	for i := range ops {
		o := &ops[i]
		s := span{o.thread, o.from - start, o.to - start}
		a.ops[o.thread] = append(a.ops[o.thread], s)
		a.edges[o.thread] = append(a.edges[o.thread], s.from, s.to)
	}
	for t := range a.ops {
		slices.SortFunc(a.ops[t], func(a, b span) int { return cmp.Compare(a.from, b.from) })
		slices.Sort(a.edges[t])
	}
	threads, processes := r.Threads(), r.Processes()
	for c, err := range r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return nil, err
		}
		if int(c.Thread) >= len(threads) || int(threads[c.Thread].Process) >= len(processes) {
			continue
		}
		t := threads[c.Thread]
		s := span{thread{int64(processes[t.Process].PID), int64(t.TID)}, c.Start, c.End}
		if at := a.edges[s.thread]; len(at) > 0 && s.from >= at[0]-mostApart && s.to <= at[len(at)-1]+mostApart {
			a.calls = append(a.calls, s)
		}
	}
	return a, nil
}

// crossing returns the calls between the first and the last operator of their threads, and those of them in which an operator begins or ends, if
// operators are later by some time.
func (a *aligner) crossing(later int64) (calls, crossing int) {
	for _, s := range a.calls {
		at := a.edges[s.thread]
		from, to := s.from-later, s.to-later
		if from < at[0] || to > at[len(at)-1] {
			continue
		}
		calls++
		if i, _ := slices.BinarySearch(at, from+1); i < len(at) && at[i] < to {
			crossing++
		}
	}
	return calls, crossing
}

// sample returns calls at equal distances.
func (a *aligner) sample() (calls []span) {
	for i := 0; i < len(a.calls); i += len(a.calls)/mostCalls + 1 {
		calls = append(calls, a.calls[i])
	}
	return calls
}

// tight reports whether a call explains most of an operator's time.
func tight(o, c span) bool { return o.to-o.from <= 20*(c.to-c.from) }

// far returns the time to add to operators so that most calls are inside an operator that takes not much longer, and few cross one.
func (a *aligner) far() int64 {
	score := make([]int32, 2*mostApart/coarse+2) // changes from one time to the next
	add := func(from, to int64, by int32) {
		if from, to = max(from, -mostApart), min(to, mostApart); from <= to {
			score[(from+mostApart)/coarse] += by
			score[(to+mostApart)/coarse+1] -= by
		}
	}
	for _, c := range a.sample() {
		ops := a.ops[c.thread]
		i, _ := slices.BinarySearchFunc(ops, c.from-mostApart, func(o span, at int64) int { return cmp.Compare(o.from, at) })
		for ; i < len(ops) && ops[i].from <= c.to+mostApart; i++ {
			o := ops[i]
			if tight(o, c) {
				add(c.to-o.to, c.from-o.from, 1)
			}
			add(c.from-o.from+1, c.to-o.from-1, -1)
			add(c.from-o.to+1, c.to-o.to-1, -1)
		}
	}
	best, most, sum, now := int64(0), int32(math.MinInt32), int32(0), int32(0)
	for i, by := range score[:len(score)-1] {
		sum += by
		at := int64(i)*coarse - mostApart
		if at == 0 {
			now = sum
		}
		if sum > most || sum == most && abs(at) < abs(best) {
			best, most = at, sum
		}
	}
	if most < now+max(now/2, 4) {
		return 0 // chance
	}
	return best
}

// close returns the time to add, besides later, so that fewest operators begin or end inside a call.
func (a *aligner) close(later int64) int64 {
	// Between two changes, a constant number of operators does.
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, s := range a.sample() {
		at := a.edges[s.thread]
		from, to := s.from-later, s.to-later
		i, _ := slices.BinarySearch(at, from-near)
		for ; i < len(at) && at[i] < to+near; i++ {
			changes = append(changes, change{from - at[i], 1}, change{to - at[i], -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	best, fewest, crossed := int64(0), math.MaxInt, 0
	for i := 0; i+1 < len(changes); i++ {
		crossed += changes[i].by
		from, to := max(changes[i].at, -near), min(changes[i+1].at, near)
		if from > to {
			continue
		}
		in := min((to-from)/2, margin)
		at := min(max(0, from+in), to-in)
		if from <= 0 && 0 <= to {
			at = 0
		}
		if crossed < fewest || crossed == fewest && abs(at) < abs(best) {
			best, fewest = at, crossed
		}
	}
	_, before := a.crossing(later)
	if _, after := a.crossing(later + best); after*2 > before {
		return 0 // chance
	}
	return best
}

// apart returns the time to add to operators, 0 if nothing is much better.
func (a *aligner) apart() int64 {
	later := a.far()
	return later + a.close(later)
}

func abs(v int64) int64 { return max(v, -v) }
