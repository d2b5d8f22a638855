package step

// anyLane is the lane of a beat that follows a thread.
const anyLane = -2

// A beat selects the ops that are pulses. A beat on a lane takes its tasks. From the threads that launch there or wait for it, it also takes waits,
// and copies from and to the host. A thread that only waits for events does so at any time. A beat on a thread takes the thread's ops on any lane
// instead of the lane's tasks. A wait counts if it covers work that no earlier wait has covered.
type beat struct {
	process uint32
	lane    int
	thread  uint32          // with anyLane
	threads map[uint32]bool // that launch, or wait for what is launched
	others  map[int32]bool  // further lanes with launches: their copies don't count
	fresh   map[int32]int32 // device by lane, for lanes with work that was not waited for
	last    uint64          // id of the latest launch, copy or wait
	task    uint64          // id of the latest launch or copy
	input   bool            // that is a copy from the host
}

// pulse returns the id and the class of an op. Equal ops have equal ids in one run of this program. ok is false if the op is no pulse. A wait for an
// input ends no step, so its class is Other. The id of a copy to the host depends on the task before it, and the id of a wait also on a wait before it.
func (b *beat) pulse(d *Op) (id uint64, class Class, ok bool) {
	if d.Process != b.process {
		return 0, Other, false
	}
	class = d.Class
	takes := b.threads[d.Thread]
	if class == Sync {
		if !takes || !b.covers(d) {
			return 0, Other, false
		}
		if b.input {
			class = Other
		}
	} else {
		main := d.Lane == int32(b.lane) || b.lane == anyLane && d.Thread == b.thread
		if !main && (!takes || class != CopyIn && class != CopyOut || b.others[d.Lane]) {
			return 0, Other, false
		}
		if !d.Host {
			b.fresh[d.Lane] = d.Device
		}
	}
	id = Mix(d.What, uint64(class))
	switch d.Class {
	case Other:
		return id, class, true
	case Sync:
		id = Mix(id, b.last)
	case CopyOut:
		id = Mix(id, b.task)
	}
	if b.last = id; d.Class != Sync {
		b.task = id
	}
	b.input = class == CopyIn
	return id, class, true
}

// covers reports whether a wait covers work that no earlier wait has covered.
func (b *beat) covers(wait *Op) bool {
	n := len(b.fresh)
	if wait.Lane != AllLanes {
		delete(b.fresh, wait.Lane)
		return len(b.fresh) < n
	}
	for lane, device := range b.fresh {
		if wait.Device < 0 || device < 0 || device == wait.Device {
			delete(b.fresh, lane)
		}
	}
	return len(b.fresh) < n
}

// reset forgets the work so far, so that the beat can follow the ops from their beginning.
func (b *beat) reset() { b.fresh, b.last, b.task, b.input = map[int32]int32{}, 0, 0, false }

// Mix hashes two numbers.
func Mix(a, b uint64) uint64 {
	a ^= b * 0x9e3779b97f4a7c15
	a ^= a >> 29
	return a * 1099511628211
}
