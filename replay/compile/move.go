package compile

import (
	"cmp"
	"math/bits"
	"math/rand/v2"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// With PlaceMove the simulator's address range lies elsewhere, and each allocation gets an address that is unrelated to its recorded address and
// to other allocations: another order, random gaps, and random bits above the alignment. So a program that keeps the distance of two
// allocations, or a part of an address, computes other results.

// A mover chooses addresses for allocations. Equal seeds give equal addresses.
type mover struct {
	random *rand.Rand
	base   uint64 // start of the simulator's addresses, 0 for the usual one
	model  *api.Simulator
	arenas map[arenaKey]*arena
	held   map[*timeline.Object]heldSlot
}

type arenaKey struct {
	process uint32
	model   *api.Arena
	device  int
}

// An arena hands out slots, whose sizes are powers of two. Freed slots are used again.
type arena struct {
	align    uint64
	from, to uint64                // not used yet
	free     [slotClasses][]uint64 // slots, by the binary logarithm of their size
}

// heldSlot is the slot of a live allocation.
type heldSlot struct {
	arena *arena
	class int
	at    uint64
}

const (
	slotClasses = 48
	// placeAlign is the alignment of allocations, to which all supported runtimes align their own.
	placeAlign = 512
	// placeSlack is the least room for random bits in a slot, in units of the alignment.
	placeSlack = 8
	// maxAlign is the largest alignment that a call may want.
	maxAlign = 1 << 32
	// baseUnit is the alignment of a simulator's addresses.
	baseUnit = 2 << 20
	// moveBy is the least distance by which all addresses are moved. moveMore bounds the random part.
	moveBy, moveMore = 1 << 40, 1 << 38
)

// newMover returns a mover for allocations whose first recorded address is low, access.NoAddress if the simulator's addresses stay.
func newMover(seed uint64, low uint64, model *api.Simulator) *mover {
	m := &mover{random: rand.New(rand.NewPCG(seed, seed)), model: model, arenas: map[arenaKey]*arena{}, held: map[*timeline.Object]heldSlot{}}
	if low != access.NoAddress {
		m.base = low/baseUnit*baseUnit + moveBy + m.random.Uint64N(moveMore/baseUnit)*baseUnit
	}
	return m
}

// place returns an address for device memory, managed memory or a reservation, 0 if there is none. align is the alignment that the call wants.
func (m *mover) place(o *timeline.Object, align uint64) uint64 {
	a := m.arena(o)
	if a == nil || o.Size >= 1<<(slotClasses-1) {
		return 0
	}
	align = max(align, a.align)
	class := bits.Len64(o.Size + placeSlack*align - 1)
	if class >= slotClasses || len(a.free[class]) == 0 && !a.grow(class, m.random) {
		return 0
	}
	last := len(a.free[class]) - 1
	at := a.free[class][last]
	a.free[class] = a.free[class][:last]
	m.held[o] = heldSlot{a, class, at}
	from := (at + align - 1) / align * align
	return from + m.random.Uint64N((at+1<<class-from-o.Size)/align)*align
}

// arena returns the arena of an allocation, nil if the simulator can't place it.
func (m *mover) arena(o *timeline.Object) *arena {
	model := &m.model.Arena
	switch {
	case o.Kind == api.Reservation:
		model = &m.model.Reserved
	case o.Hosted && m.model.Managed.Size != 0:
		model = &m.model.Managed
	}
	if model.Size == 0 || model.At == 0 && m.base == 0 {
		return nil
	}
	k := arenaKey{process: o.Process, model: model}
	if model.Stride != 0 {
		k.device = max(o.Device, 0)
	}
	a := m.arenas[k]
	if a == nil {
		from := cmp.Or(model.At, m.base) + model.After + uint64(k.device)*model.Stride
		a = &arena{align: max(model.Align, placeAlign), from: from, to: from + model.Size}
		m.arenas[k] = a
	}
	return a
}

// end gives back the address of an allocation that has ended.
func (m *mover) end(o *timeline.Object) {
	if h, ok := m.held[o]; ok {
		delete(m.held, o)
		free := &h.arena.free[h.class]
		*free = append(*free, h.at)
	}
}

// grow takes some slots from either end of the unused addresses, in random order. It returns false if there is no room.
func (a *arena) grow(class int, random *rand.Rand) bool {
	const (
		few   = 8
		chunk = 2 << 20
	)
	slot := uint64(1) << class
	for n := uint64(max(few, chunk>>class)); n > 0; n /= 2 {
		gap := random.Uint64N(slot+chunk) / a.align * a.align
		if n*slot+gap > a.to-a.from {
			continue
		}
		at := a.from + gap
		if random.IntN(2) == 0 {
			a.from = at + n*slot
		} else {
			at = (a.to - gap - n*slot) / a.align * a.align
			a.to = at
		}
		for _, i := range random.Perm(int(n)) {
			a.free[class] = append(a.free[class], at+uint64(i)*slot)
		}
		return true
	}
	return false
}
