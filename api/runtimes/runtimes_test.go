package runtimes

import "testing"

func TestRuntimesAreFoundByName(t *testing.T) {
	for _, m := range All {
		if Named(m.Name) != m {
			t.Errorf("%s is another model", m.Name)
		}
	}
	if m := Named("none"); m != nil || len(All) < 2 {
		t.Errorf("%d runtimes, and a model of no runtime: %v", len(All), m)
	}
}
