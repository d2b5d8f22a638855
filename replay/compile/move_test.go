package compile

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// span is a live allocation at its place.
type span struct {
	o        *timeline.Object
	from, to uint64
}

// Allocations of any sizes get aligned places in their arena, which don't overlap. Ended ones make room, and a seed always gives the same places.
func TestPlacesOfAllocations(t *testing.T) {
	model := &api.Simulator{Arena: api.Arena{At: 1 << 40, After: 1 << 20, Size: 1 << 30, Stride: 1 << 32, Align: 1 << 12}, Managed: api.Arena{At: 1 << 44, Size: 1 << 28},
		Reserved: api.Arena{At: 1 << 45, Size: 1 << 30, Align: 1 << 21}}
	run := func(seed uint64) (places []uint64) {
		m, r := newMover(seed, access.NoAddress, model), rand.New(rand.NewPCG(7, 7))
		var live []span
		for range 2000 {
			if len(live) > 40 || len(live) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(live))
				m.end(live[i].o)
				live = slices.Delete(live, i, i+1)
				continue
			}
			o := &timeline.Object{Size: 1 + r.Uint64N(1<<r.IntN(21)), Device: r.IntN(3) - 1}
			from, size, align := uint64(1<<40+1<<20)+uint64(max(o.Device, 0))<<32, uint64(1<<30), uint64(1<<12)
			switch r.IntN(5) {
			case 0:
				o.Kind, from, align = api.Reservation, 1<<45, 1<<21
			case 1:
				o.Hosted, from, size, align = true, 1<<44, 1<<28, placeAlign
			}
			wish := uint64(0)
			if r.IntN(4) == 0 {
				wish = 1 << r.IntN(16)
			}
			at := m.place(o, wish)
			if at == 0 || at%max(align, wish, 1) != 0 || at < from || at+o.Size > from+size {
				t.Fatalf("%+v with alignment %d is at %#x, its arena is at %#x", o, wish, at, from)
			}
			for _, x := range live {
				if at < x.to && x.from < at+o.Size {
					t.Fatalf("%#x to %#x overlaps %#x to %#x", at, at+o.Size, x.from, x.to)
				}
			}
			live, places = append(live, span{o, at, at + o.Size}), append(places, at)
		}
		return places
	}
	a, b := run(1), run(1)
	if !slices.Equal(a, b) || slices.Equal(a, run(2)) {
		t.Error("the places do not follow from the seed")
	}
	if slices.IsSorted(a[:8]) {
		t.Error("the places are in order")
	}
}

// A full arena, and one that the simulator lacks, has no place. Processes have arenas of their own.
func TestNoPlace(t *testing.T) {
	model := &api.Simulator{Arena: api.Arena{At: 1 << 40, Size: 64 << 20}}
	m := newMover(1, access.NoAddress, model)
	n := 0
	for m.place(&timeline.Object{Size: 1 << 20}, 0) != 0 {
		if n++; n > 64 {
			t.Fatal("an arena has more than its size")
		}
	}
	if n < 4 {
		t.Errorf("%d allocations of a MiB fit into 64 MiB", n)
	}
	if m.place(&timeline.Object{Size: 1 << 20, Process: 1}, 0) == 0 {
		t.Error("a full arena of another process")
	}
	for _, o := range []*timeline.Object{{Size: 1 << 47}, {Size: 1 << 46}, {Size: 65 << 20, Process: 2}, {Size: 1, Kind: api.Reservation}} {
		if at := m.place(o, 0); at != 0 {
			t.Errorf("%+v is at %#x", o, at)
		}
	}
	m.end(&timeline.Object{}) // was not placed
}

// The simulator's addresses are moved far away from the recorded ones.
func TestMovedBase(t *testing.T) {
	const low = 1<<42 + 12345
	model := &api.Simulator{Arena: api.Arena{After: 1 << 20, Size: 1 << 30}}
	if m := newMover(1, access.NoAddress, model); m.base != 0 || m.place(&timeline.Object{Size: 1}, 0) != 0 {
		t.Errorf("base %#x", m.base)
	}
	seen := map[uint64]bool{}
	for seed := range uint64(10) {
		m := newMover(seed, low, model)
		if seen[m.base] = true; m.base%baseUnit != 0 || m.base < low-baseUnit+moveBy || m.base > low+moveBy+moveMore {
			t.Errorf("base %#x", m.base)
		}
		if at := m.place(&timeline.Object{Size: 1}, 0); at < m.base+1<<20 || at >= m.base+1<<20+1<<30 {
			t.Errorf("%#x is not in the arena at %#x", at, m.base+1<<20)
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d bases of 10 seeds", len(seen))
	}
}
