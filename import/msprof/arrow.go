package msprof

import (
	"cmp"
	"slices"
)

// hostToDeviceArrow is the category of arrows from a call to the task that it made.
const hostToDeviceArrow = "HostToDevice"

// arrows tie tasks to calls in text profiles. Not all profilers give both the same connection_id.
type arrows struct {
	from, to map[string]end // by id
}

// end is an end of an arrow.
type end struct{ pid, tid, at int64 }

func (a *arrows) add(from bool, id string, e end) {
	if a.from == nil {
		a.from, a.to = map[string]end{}, map[string]end{}
	}
	if from {
		a.from[id] = e
	} else {
		a.to[id] = e
	}
}

// madeUp is the first connection of a call that has none. Profiles count from 0.
const madeUp = int64(1) << 62

// tie gives tasks the connection of the calls from which arrows lead to them, unless a call has the task's own one.
func (a *arrows) tie(rows []raw, processes map[int64]string) {
	type place struct{ pid, tid int64 }
	calls, known := map[place][]*raw{}, map[int64]bool{}
	tasks := map[end][]*raw{}
	for i := range rows {
		r := &rows[i]
		switch processes[r.pid] {
		case cann:
			p := place{r.pid, r.tid}
			calls[p] = append(calls[p], r)
			known[r.conn] = r.conn >= 0
		case hardware:
			e := end{r.pid, r.tid, r.start}
			tasks[e] = append(tasks[e], r)
		}
	}
	longest := map[place]int64{}
	for p, list := range calls {
		slices.SortStableFunc(list, func(a, b *raw) int { return cmp.Compare(a.start, b.start) })
		for _, r := range list {
			longest[p] = max(longest[p], r.dur)
		}
	}
	for id, from := range a.from {
		to, ok := a.to[id]
		if !ok {
			continue
		}
		p := place{from.pid, from.tid}
		call := innermost(calls[p], from.at, longest[p])
		if call == nil {
			continue
		}
		for _, task := range tasks[to] {
			if known[task.conn] {
				continue
			}
			if call.conn < 0 {
				call.conn = madeUp + int64(len(known))
				known[call.conn] = true
			}
			task.conn = call.conn
		}
	}
}

// innermost returns the last call to begin among those that run at a moment, nil for none. No call takes more than longest.
func innermost(calls []*raw, at, longest int64) *raw {
	i, _ := slices.BinarySearchFunc(calls, at+1, func(r *raw, v int64) int { return cmp.Compare(r.start, v) })
	for i--; i >= 0 && calls[i].start >= at-longest; i-- {
		if calls[i].start+calls[i].dur >= at {
			return calls[i]
		}
	}
	return nil
}
