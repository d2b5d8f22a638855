package path

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/timeline"
)

// handovers are the launches of operators, by time.
type handovers struct {
	all  []handover
	some bool // an operator was prepared by another thread than the one that launched it
}

// A handover is a launch of an operator that one thread prepared and another one, or the same, launches.
type handover struct {
	at    int64 // begin of the launch
	queue int32 // the thread that launches
	by    int32 // the thread that prepared the operator, -1 if it is unknown
}

// hand takes the launch of a task.
func (f *Finder) hand(h *timeline.HostCall, k *timeline.Task) {
	if k.Operator == 0 && !f.hands.some {
		return
	}
	by := int32(-1)
	if thread, ok := f.w.Preparer(h.Thread); ok {
		by = int32(thread)
	}
	if by >= 0 && by != int32(h.Thread) && int(by) < len(f.threads) {
		f.hands.some, f.threads[h.Thread].queue, f.threads[by].fills = true, true, true
	}
	f.hands.all = append(f.hands.all, handover{h.Start, int32(h.Thread), by})
}

// forget drops the launches until a moment, without the latest one of a known thread.
func (x *handovers) forget(at int64) {
	n := x.after(at + 1)
	for i := n - 1; i >= 0; i-- {
		if x.all[i].by >= 0 {
			x.all[n-1] = x.all[i]
			n--
			break
		}
	}
	x.all = slices.Delete(x.all, 0, n)
}

// after returns the index of the first launch at a moment or after it.
func (x *handovers) after(at int64) int {
	return sort.Search(len(x.all), func(i int) bool { return x.all[i].at >= at })
}

// handOver prepares the launches of a step for a search. An operator of an unknown thread is of the thread that prepared those before and after it. A thread
// that prepares operators did not run while another one did so: the trace has only the sum of the times before a call in which it did not run.
func (f *Finder) handOver() {
	if !f.hands.some {
		return
	}
	all, last := f.hands.all, -1
	for i := range all {
		if all[i].by < 0 {
			continue
		}
		for k := last + 1; last >= 0 && k < i && all[last].by == all[i].by; k++ {
			all[k].by = all[i].by
		}
		last = i
	}
	for i := range f.threads {
		for k := range f.threads[i].calls {
			c := &f.threads[i].calls[k]
			if !f.threads[i].fills || c.blocked <= c.slept {
				continue
			}
			for n := f.hands.after(c.start) - 1; n >= 0 && all[n].at > c.blocked; n-- {
				if h := &all[n]; h.by >= 0 && h.by != int32(i) && h.by != h.queue {
					c.slept, c.blocked = c.slept+h.at-c.blocked, h.at
				}
			}
		}
	}
}

// filler returns the thread that prepared the operator for which a thread waited until a moment, -1 if it is unknown. The operator is the next one that the
// thread launches. If the thread prepares operators itself, it is the next one that is launched.
func (f *Finder) filler(waits int, until int64) int {
	if !f.hands.some || !f.threads[waits].queue && !f.threads[waits].fills {
		return -1
	}
	for i := f.hands.after(until); i < len(f.hands.all); i++ {
		if h := &f.hands.all[i]; int(h.queue) == waits || !f.threads[waits].queue && h.by != h.queue {
			if int(h.by) != waits {
				return int(h.by)
			}
			break
		}
	}
	return -1
}

// unknown reports whether the calls of a thread do not show when it ran before one of them: it has no earlier or no later call.
func (th *thread) unknown(next int) bool {
	return next >= len(th.calls) || next == 0 && th.calls[0].blocked == 0
}

// filledBefore returns the latest launch before a moment of an operator that another thread prepared, false for none. A thread that prepares operators went on
// from there, unless its calls show more.
func (f *Finder) filledBefore(on int, until int64) (h handover, ok bool) {
	if !f.hands.some || !f.threads[on].fills {
		return handover{}, false
	}
	for i := f.hands.after(until) - 1; i >= 0; i-- {
		if h = f.hands.all[i]; h.by >= 0 && int(h.by) != on {
			return h, true
		}
	}
	return handover{}, false
}
