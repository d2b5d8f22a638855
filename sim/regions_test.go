package sim

import (
	"math/rand/v2"
	"testing"
)

// A set of regions answers as a plain map does, through many changes: leaves and branches split and become empty.
func TestRegions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s regions[uint64]
	have := map[uint64]uint64{} // address → size, each in its own 100
	for step := range 100_000 {
		a := r.Uint64N(30_000) * 100
		switch size, live := have[a]; {
		case !live:
			size = 1 + r.Uint64N(100)
			have[a] = size
			s.insert(region[uint64]{span{a, size}, a})
		case step%3 == 0:
			s.replace(a, a)
		default:
			if got, ok := s.remove(a); !ok || got.size != size {
				t.Fatalf("remove(%d) is %v, %t", a, got, ok)
			}
			delete(have, a)
		}
		at := r.Uint64N(30_000 * 100)
		want, live := have[at/100*100]
		live = live && at%100 < want
		if got, ok := s.find(at); ok != live || ok && (got.v != at/100*100 || got.size != want) {
			t.Fatalf("find(%d) is %v, %t; want %t", at, got, ok, live)
		}
		if _, ok := s.remove(at/100*100 + 101); ok && have[at/100*100+101] == 0 {
			t.Fatal("something was removed that does not begin there")
		}
	}
	all := s.all()
	if len(all) != len(have) {
		t.Fatalf("%d regions, want %d", len(all), len(have))
	}
	for i := range all[1:] {
		if all[i].end() > all[i+1].addr {
			t.Fatalf("%v and %v are out of order", all[i].span, all[i+1].span)
		}
	}
}
