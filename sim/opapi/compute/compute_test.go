//go:build cgo

package compute

import (
	"slices"
	"testing"
)

// Operators are searched by name.
func TestNamesAreSorted(t *testing.T) {
	names := Names()
	if len(names) == 0 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%q", names)
	}
}
