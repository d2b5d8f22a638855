package space

import (
	"math/rand/v2"
	"testing"
)

// Regions behaves like a map while leaves and branches split and become empty.
func TestRegionsBehaveLikeAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Regions[uint64]
	have := map[uint64]uint64{} // address → size; one slot per 100 bytes
	for step := range 100_000 {
		a := r.Uint64N(30_000) * 100
		switch size, live := have[a]; {
		case !live:
			size = 1 + r.Uint64N(100)
			have[a] = size
			s.Insert(Region[uint64]{Span: Span{Addr: a, Size: size}, Value: a})
		case step%3 == 0:
			s.Replace(a, a)
		default:
			if got, ok := s.Remove(a); !ok || got.Size != size {
				t.Fatalf("remove(%d) is %v, %t", a, got, ok)
			}
			delete(have, a)
		}
		at := r.Uint64N(30_000 * 100)
		want, live := have[at/100*100]
		live = live && at%100 < want
		if got, ok := s.Find(at); ok != live || ok && (got.Value != at/100*100 || got.Size != want) {
			t.Fatalf("find(%d) is %v, %t; want %t", at, got, ok, live)
		}
		if _, ok := s.Remove(at/100*100 + 101); ok && have[at/100*100+101] == 0 {
			t.Fatal("something was removed that does not begin there")
		}
	}
	all := s.All()
	if len(all) != len(have) {
		t.Fatalf("%d regions, want %d", len(all), len(have))
	}
	for i := range all[1:] {
		if all[i].End() > all[i+1].Addr {
			t.Fatalf("%v and %v are out of order", all[i].Span, all[i+1].Span)
		}
	}
}
