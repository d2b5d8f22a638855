package graphs

import "testing"

// Records release kept arguments if at least two, and more than three quarters, come without an update.
func TestRecordsReleaseKeptArguments(t *testing.T) {
	for _, c := range []struct {
		bare, records uint64
		want          bool
	}{{0, 0, false}, {1, 1, false}, {2, 2, true}, {3, 4, false}, {4, 5, true}, {6, 8, false}, {7, 9, true}, {2, 100, false}} {
		if got := (&external{bare: c.bare, records: c.records}).kept(); got != c.want {
			t.Errorf("%d of %d records: %t", c.bare, c.records, got)
		}
	}
}
