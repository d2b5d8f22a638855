package minheap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number int

func (a number) Before(b number) bool { return a < b }

func TestPopReturnsTheSmallest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[number]
	var want []number
	for range 2000 {
		if h.Len() > 0 && r.IntN(3) == 0 {
			slices.Sort(want)
			if top := h.Min(); top != want[0] || h.Pop() != top {
				t.Fatalf("%d, want %d", top, want[0])
			}
			want = want[1:]
			continue
		}
		n := number(r.IntN(100))
		h.Push(n)
		want = append(want, n)
	}
	slices.Sort(want)
	for _, n := range want {
		if got := h.Pop(); got != n {
			t.Fatalf("%d, want %d", got, n)
		}
	}
	if h.Len() != 0 {
		t.Error("something is left")
	}
}
