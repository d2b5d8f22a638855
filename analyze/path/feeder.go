package path

import (
	"cmp"
	"slices"
)

// feeder returns the thread for which another one waited between two calls, -1 if that is not known. While the other one did not run, from a moment until
// another, the feeder ran for half the time or more, outside of waits for the device. So the thread of a queue waits for the next operator of
// the program's own code. Of several threads it is the one with the most calls, as a framework asks the runtime about each operator. The marks of operators
// show the feeder even if it makes no calls.
func (f *Finder) feeder(waits int, since, until int64) int {
	if until <= since {
		return -1
	}
	if filler := f.filler(waits, until); filler >= 0 {
		return filler
	}
	found, calls := -1, 0
	for i := range f.threads {
		th := &f.threads[i]
		if i != waits && len(th.calls) > calls && th.ran(since, until) {
			found, calls = i, len(th.calls)
		}
	}
	return found
}

// ran reports whether a thread ran for half of a time or more.
func (th *thread) ran(since, until int64) bool {
	next, _ := slices.BinarySearchFunc(th.calls, until, func(c call, at int64) int { return cmp.Compare(c.start, at) })
	busy := int64(0)
	for at := until; at > since; {
		from, ran := since, int64(0)
		in := next - 1 // the outermost call at the moment, or the one before it
		for in >= 0 && th.calls[in].outer >= 0 {
			in = int(th.calls[in].outer)
		}
		switch {
		case in >= 0 && th.calls[in].end >= at:
			from, next = max(since, th.calls[in].start), in
			if th.calls[in].wait < 0 {
				ran = at - from
			}
		case next == len(th.calls):
			return false // it may have ended
		default:
			if in >= 0 {
				from = max(since, th.calls[in].end)
			}
			if c := &th.calls[next]; !c.again {
				ran = max(0, at-max(from, c.recorded, c.blocked))
			}
		}
		busy, at = busy+ran, from
	}
	return 2*busy >= until-since
}
