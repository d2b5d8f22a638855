package format

import (
	"maps"
	"slices"
)

// Counts are the totals of a trace.
type Counts struct {
	Calls      uint64
	Failed     uint64 // returned a status other than zero
	Unfinished uint64
	Functions  []FuncCount // by ascending id, only called ones
	GapCalls   uint64      // calls known to be missing
}

// A FuncCount is the total of one function.
type FuncCount struct {
	Func       uint16
	Calls      uint64
	Failed     uint64
	Unfinished uint64
	Time       uint64 // total duration of its calls, nanoseconds
}

// A Handle is a value by which the program names an object, with the object's kind: Param.Handle.
type Handle struct {
	Kind  int
	Value uint64 // 0 with AnyHandle
	// Any means all values of the kind: there are too many to list.
	Any bool
}

// A TaskRange is a range of tasks on one stream, by the runtime's own numbers.
type TaskRange struct {
	Stream    uint32
	Low, High uint32 // inclusive
}

// ChunkInfo describes the calls in an events chunk without reading it. Its slices must not be changed.
type ChunkInfo struct {
	First   uint64 // index of the first call
	Calls   uint64
	TMin    int64 // its calls' earliest start and latest end, or its data's times if it has no calls
	TMax    int64
	Known   bool     // false: only Calls and the times are known, and the chunk may hold anything
	Funcs   []uint32 // ascending, like threads and handles
	Threads []uint32
	Handles []Handle
	Tasks   []TaskRange

	seq  uint64
	rows uint64
	late lateRange
}

// Handle reports if the chunk may hold a call with the handle h.
func (c *ChunkInfo) Handle(h Handle) bool {
	return !c.Known || slices.ContainsFunc(c.Handles, func(x Handle) bool { return x.Kind == h.Kind && (x.Any || x.Value == h.Value) })
}

// Task reports if the chunk may hold the call of a task.
func (c *ChunkInfo) Task(stream, task uint32) bool {
	return !c.Known || slices.ContainsFunc(c.Tasks, func(t TaskRange) bool { return t.Stream == stream && task >= t.Low && task <= t.High })
}

// distinct collects up to maxHandles different values.
type distinct struct {
	values []uint64
	slots  [2 * maxHandles]uint16 // 1 + index in values, 0 if free
	last   uint64
	full   bool
}

func (d *distinct) add(v uint64) {
	if v == d.last && len(d.values) > 0 || d.full {
		return
	}
	d.last = v
	for h := v * 0x9E3779B97F4A7C15 >> 55; ; h = (h + 1) % uint64(len(d.slots)) {
		switch at := d.slots[h]; {
		case at == 0:
			if len(d.values) == maxHandles {
				d.full = true
				return
			}
			d.values = append(d.values, v)
			d.slots[h] = uint16(len(d.values))
			return
		case d.values[at-1] == v:
			return
		}
	}
}

func (d *distinct) reset() {
	if len(d.values) > 0 {
		d.values = d.values[:0]
		clear(d.slots[:])
		d.full = false
	}
}

// sums are totals by function.
type sums map[uint16]*FuncCount

func (s sums) add(f FuncCount) {
	t := s[f.Func]
	if t == nil {
		t = &FuncCount{Func: f.Func}
		s[f.Func] = t
	}
	t.Calls += f.Calls
	t.Failed += f.Failed
	t.Unfinished += f.Unfinished
	t.Time += f.Time
}

func (s sums) counts() *Counts {
	c := &Counts{}
	for _, id := range slices.Sorted(maps.Keys(s)) {
		f := *s[id]
		c.Functions = append(c.Functions, f)
		c.Calls += f.Calls
		c.Failed += f.Failed
		c.Unfinished += f.Unfinished
	}
	return c
}
