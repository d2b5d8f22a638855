package format

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Distinct values are listed once each, in the order of their first mention, up to a limit, and none is left after a reset.
func TestDistinctValuesAreListedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d distinct
	for round := range 50 {
		values := 1 + r.Uint64N(2*maxHandles)
		var want []uint64
		for range 4 * maxHandles {
			v := r.Uint64N(values) * 0x1000
			d.add(v)
			if !slices.Contains(want, v) {
				want = append(want, v)
			}
		}
		if full := len(want) > maxHandles; d.full != full {
			t.Fatalf("round %d: %d values are too many: %t", round, len(want), d.full)
		} else if !slices.Equal(d.values, want[:min(len(want), maxHandles)]) {
			t.Fatalf("round %d: %d values, want %d", round, len(d.values), len(want))
		}
		d.reset()
	}
	if d.reset(); len(d.values) != 0 || d.full {
		t.Errorf("%d values are left", len(d.values))
	}
}
