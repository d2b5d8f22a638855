package scene

import "testing"

// Changes are ordered by time, then by counter, then by the order in which they were made.
func TestRateChangesAreInOrder(t *testing.T) {
	one, two := &Counter{ID: 1}, &Counter{ID: 2}
	all := []rateChange{{at: 1, of: two, order: 9}, {at: 2, of: one, order: 8}, {at: 2, of: one, order: 10}, {at: 2, of: two, order: 3}, {at: 3, of: one, order: 1}}
	for i, a := range all {
		for k, b := range all {
			if got := a.Before(b); got != (i < k) {
				t.Errorf("%d before %d: %t", i, k, got)
			}
		}
	}
}
