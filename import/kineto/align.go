package kineto

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/format"
)

const (
	// mostApart is the largest difference between the clocks that is corrected, in nanoseconds.
	mostApart = 1e6
	// mostCalls limits the calls by which clocks are compared. Of more, every second one counts, or every fourth.
	mostCalls = 1 << 12
	// margin is the time by which operators enclose calls after a correction, if there is room.
	margin = 500
)

// span is a recorded call on a thread with operators.
type span struct {
	thread
	from, to int64
}

// bounds are the begins and ends of operators, by thread and time.
type bounds map[thread][]int64

func boundsOf(ops []op, start int64) bounds {
	b := bounds{}
	for i := range ops {
		o := &ops[i]
		b[o.thread] = append(b[o.thread], o.from-start, o.to-start)
	}
	for _, at := range b {
		slices.Sort(at)
	}
	return b
}

// each passes the recorded calls between the first and the last operator of their threads.
func (b bounds) each(r *format.Reader, pass func(span)) error {
	threads, processes := r.Threads(), r.Processes()
	for c, err := range r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		if int(c.Thread) >= len(threads) || int(threads[c.Thread].Process) >= len(processes) {
			continue
		}
		t := threads[c.Thread]
		s := span{thread{int64(processes[t.Process].PID), int64(t.TID)}, c.Start, c.End}
		if at := b[s.thread]; len(at) > 0 && s.from >= at[0] && s.to <= at[len(at)-1] {
			pass(s)
		}
	}
	return nil
}

// crossed reports whether an operator begins or ends inside a call.
func (b bounds) crossed(s span) bool {
	at := b[s.thread]
	i, _ := slices.BinarySearch(at, s.from+1)
	return i < len(at) && at[i] < s.to
}

// apart returns the time to add to operators so that fewest of them begin or end inside a call: no runtime call calls an
// operator, so such a call shows that the clocks differ. It is 0 if nothing is much better.
func (b bounds) apart(r *format.Reader) (int64, error) {
	var calls []span
	n, stride := 0, 1
	if err := b.each(r, func(s span) {
		if n++; (n-1)%stride != 0 {
			return
		}
		if calls = append(calls, s); len(calls) == mostCalls {
			for i := range len(calls) / 2 {
				calls[i] = calls[2*i]
			}
			calls, stride = calls[:len(calls)/2], 2*stride
		}
	}); err != nil {
		return 0, err
	}
	// Between two edges, a constant number of calls is crossed.
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, s := range calls {
		at := b[s.thread]
		i, _ := slices.BinarySearch(at, s.from-mostApart)
		for ; i < len(at) && at[i] < s.to+mostApart; i++ {
			edges = append(edges, edge{s.from - at[i], 1}, edge{s.to - at[i], -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	before := 0
	for _, s := range calls {
		if b.crossed(s) {
			before++
		}
	}
	best, fewest, crossed := int64(0), math.MaxInt, 0
	for i := 0; i+1 < len(edges); i++ {
		crossed += edges[i].by
		from, to := max(edges[i].at, -mostApart), min(edges[i+1].at, mostApart)
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
	if fewest*2 > before {
		return 0, nil // chance
	}
	return best, nil
}

func abs(v int64) int64 { return max(v, -v) }
