package timeline

import (
	"cmp"
	"iter"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// A MemoryPoint is a change of the device memory that is in use.
type MemoryPoint struct {
	Time    int64 // start of the call, nanoseconds since the beginning of the trace
	Process uint32
	Device  int     // NoDevice where that is not known
	Bytes   uint64  // allocated on this device by this process, after the change
	Total   uint64  // allocated by all processes on all devices, after the change
	Object  *Object // that was made or has ended
	Freed   bool
	Call    int // index into Timeline.Calls
}

// Memory goes through the allocations of device memory and their ends, in the order of the calls. It holds 16 bytes for each of them.
func (t *Timeline) Memory() iter.Seq[MemoryPoint] {
	return func(yield func(MemoryPoint) bool) {
		type change struct {
			call   uint64
			object int32
			freed  bool
		}
		var changes []change
		for i, o := range t.Objects {
			if o.Kind != api.Device || o.Size == 0 || o.Created == NoCall {
				continue
			}
			changes = append(changes, change{o.Created, int32(i), false})
			if o.Ended != NoCall {
				changes = append(changes, change{o.Ended, int32(i), true})
			}
		}
		if len(changes) == 0 {
			return
		}
		// Calls are numbered by their ends, and go by their starts here.
		wanted := make(map[uint64][]change, len(changes))
		for _, c := range changes {
			wanted[c.call] = append(wanted[c.call], c)
		}
		type place struct {
			process uint32
			device  int
		}
		used := map[place]uint64{}
		var total uint64
		for i := range t.Calls {
			h := &t.Calls[i]
			list := wanted[h.Index]
			slices.SortStableFunc(list, func(a, b change) int { // an address that is given out again was free before
				switch {
				case a.freed == b.freed:
					return 0
				case a.freed:
					return -1
				}
				return 1
			})
			for _, c := range list {
				o := t.Objects[c.object]
				p := place{o.Process, o.Device}
				if c.freed {
					used[p] -= o.Size
					total -= o.Size
				} else {
					used[p] += o.Size
					total += o.Size
				}
				if !yield(MemoryPoint{Time: h.Start, Process: p.process, Device: p.device, Bytes: used[p], Total: total, Object: o, Freed: c.freed, Call: i}) {
					return
				}
			}
		}
	}
}

// A DepthPoint is a change of the number of tasks that a stream holds.
type DepthPoint struct {
	Time  int64 // nanoseconds since the beginning of the trace
	Lane  int   // index into Timeline.Lanes
	Depth int   // tasks that have been issued and may not have ended: at most so many where their times are brackets
}

// Depths goes through the changes of all streams' queues in the order of time: one for each moment of a stream. It holds 8 bytes for
// each task.
func (t *Timeline) Depths() iter.Seq[DepthPoint] {
	return func(yield func(DepthPoint) bool) {
		var issued, ended []int32
		for i := range t.Tasks {
			if !t.Lanes[t.Tasks[i].Lane].Synchronous {
				issued = append(issued, int32(i))
				ended = append(ended, int32(i))
			}
		}
		slices.SortStableFunc(issued, func(a, b int32) int { return cmp.Compare(t.Tasks[a].Issued, t.Tasks[b].Issued) })
		slices.SortStableFunc(ended, func(a, b int32) int { return cmp.Compare(t.Tasks[a].To, t.Tasks[b].To) })
		depth := make([]int, len(t.Lanes))
		var now int64
		var changed []int // lanes, at the moment
		touch := func(at int64, lane, by int) bool {
			if at != now {
				for _, l := range changed {
					if !yield(DepthPoint{Time: now, Lane: l, Depth: depth[l]}) {
						return false
					}
				}
				changed, now = changed[:0], at
			}
			depth[lane] += by
			if !slices.Contains(changed, lane) {
				changed = append(changed, lane)
			}
			return true
		}
		for i, e := 0, 0; e < len(ended); {
			if i < len(issued) && t.Tasks[issued[i]].Issued <= t.Tasks[ended[e]].To {
				k := &t.Tasks[issued[i]]
				if !touch(k.Issued, k.Lane, 1) {
					return
				}
				i++
				continue
			}
			k := &t.Tasks[ended[e]]
			if !touch(k.To, k.Lane, -1) {
				return
			}
			e++
		}
		for _, l := range changed {
			if !yield(DepthPoint{Time: now, Lane: l, Depth: depth[l]}) {
				return
			}
		}
	}
}

// SizeClasses are the classes of copies, by their greatest length in bytes; 0 stands for all longer ones.
var SizeClasses = [...]struct {
	Name string
	Max  uint64
}{{"<=4KiB", 4 << 10}, {"<=64KiB", 64 << 10}, {"<=1MiB", 1 << 20}, {"<=16MiB", 16 << 20}, {"<=256MiB", 256 << 20}, {">256MiB", 0}}

// SizeClass returns the index into SizeClasses of a length.
func SizeClass(bytes uint64) int {
	for i, c := range SizeClasses {
		if bytes <= c.Max {
			return i
		}
	}
	return len(SizeClasses) - 1
}

// Direction returns HtoD, DtoH, DtoD or HtoH of a copy, "" for other tasks.
func (k *Task) Direction() string {
	if k.Kind != api.Copy {
		return ""
	}
	return k.Name[len(k.Name)-4:]
}

// Rate returns the bytes per second that a copy, or a fill, was done with, 0 where it took no time. Where its times are a
// bracket, it was at least that fast.
func (k *Task) Rate() (rate float64, atLeast bool) {
	if k.To <= k.From {
		return 0, false
	}
	return float64(k.Bytes) / float64(k.To-k.From) * 1e9, !k.Measured
}

// Idle is a time in which a stream had certainly nothing to do between two of its tasks.
type Idle struct {
	Lane     int
	From, To int64 // nanoseconds since the beginning of the trace
	Task     int   // that ended it, index into Timeline.Tasks
	// Call is the call in which the thread that ended it has spent most of the time, an index into Timeline.Calls, or -1 where it
	// made none; InCallNS is how much that was, and InCallsNS how much all its calls were. The rest is the program's own time.
	Call                int
	InCallNS, InCallsNS int64
}

// Idles returns the longest n times in which streams were idle, the longest first.
func (t *Timeline) Idles(n int) []Idle {
	var out []Idle
	less := func(a, b Idle) int {
		return cmp.Or(cmp.Compare(b.To-b.From, a.To-a.From), cmp.Compare(a.From, b.From), cmp.Compare(a.Lane, b.Lane))
	}
	until := make([]int64, len(t.Lanes))
	began := make([]bool, len(t.Lanes))
	for i := range t.Tasks {
		k := &t.Tasks[i]
		if t.Lanes[k.Lane].Synchronous {
			continue
		}
		if began[k.Lane] && k.From > until[k.Lane] {
			out = append(out, Idle{Lane: k.Lane, From: until[k.Lane], To: k.From, Task: i, Call: -1})
			if len(out) >= 4*n+64 { // keep few
				slices.SortFunc(out, less)
				out = out[:min(n, len(out))]
			}
		}
		began[k.Lane] = true
		until[k.Lane] = max(until[k.Lane], k.To)
	}
	slices.SortFunc(out, less)
	out = out[:min(n, len(out))]
	for i := range t.Calls {
		c := &t.Calls[i]
		for j := range out {
			d := &out[j]
			if c.Start >= d.To || c.End <= d.From || c.Thread != t.Tasks[d.Task].Thread {
				continue
			}
			in := min(c.End, d.To) - max(c.Start, d.From)
			d.InCallsNS += in
			if in > d.InCallNS {
				d.InCallNS, d.Call = in, i
			}
		}
	}
	return out
}
