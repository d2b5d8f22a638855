package virtual

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Entries leave the heap in the order of their times, and of their numbers at the same time, however pushes and pops are mixed.
func TestEntriesLeaveInOrderOfTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h heap
	var want []entry
	for i := range 20_000 {
		if len(want) > 0 && r.IntN(100) < 30+i%50 {
			least := 0
			for k := range want {
				if want[k].before(want[least]) {
					least = k
				}
			}
			if h[0] != want[least] {
				t.Fatalf("step %d: %+v is first of %d, want %+v", i, h[0], len(want), want[least])
			}
			h.pop()
			want = slices.Delete(want, least, least+1)
		} else if len(want) < 200 {
			e := entry{at: int64(r.IntN(20)), seq: uint64(i), id: int32(i)}
			h.push(e)
			want = append(want, e)
		}
		if len(h) != len(want) {
			t.Fatalf("step %d: %d entries, want %d", i, len(h), len(want))
		}
	}
}
