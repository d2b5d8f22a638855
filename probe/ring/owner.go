package ring

import "slices"

// ringOwner is the owner of a ring, as its header has it.
type ringOwner struct {
	tid, generation uint32
	name            [16]byte
}

// owner is a present or past thread of a ring. Its calls have the ring's numbers from first on. The thread made base calls
// before, in other rings.
type owner struct {
	ringOwner
	first, base uint64
}

// number returns a call's number in its thread.
func (o *owner) number(seq uint64) uint64 { return o.base + seq - o.first }

// owners are the threads that had a ring, in this order, as far as they are known. A thread can have made calls that were not read
// yet, to which the records of other rings refer.
type owners struct {
	list   []owner
	at     int    // owner at the read position
	looked uint64 // position before which no owner is unknown, if it is after the read position
}

// of returns the owner of a call.
func (os *owners) of(seq uint64) *owner {
	for i := len(os.list) - 1; i > 0; i-- {
		if seq >= os.list[i].first {
			return &os.list[i]
		}
	}
	return &os.list[0]
}

// add adds an owner, unless it is known, and returns its index.
func (os *owners) add(o owner) int {
	known := func(k owner) bool { return k.generation == o.generation }
	if i := slices.IndexFunc(os.list[min(os.at, len(os.list)):], known); i >= 0 {
		return os.at + i
	}
	os.list = append(os.list, o)
	return len(os.list) - 1
}
