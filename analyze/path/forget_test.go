package path

import (
	"slices"
	"testing"
)

// Calls that stay keep their waits with the tasks, under new numbers.
func TestWaitsOfKeptCallsStay(t *testing.T) {
	f := &Finder{
		threads: []thread{{calls: []call{{index: 1, end: 5, wait: 0}, {index: 2, end: 10, wait: 1}, {index: 3, end: 20, wait: 2}, {index: 4, end: 30, wait: -1}, {index: 5, end: 40, wait: 3}}}},
		waits:   []wait{{from: 0, to: 1}, {from: 1, to: 2}, {from: 2, to: 4}, {from: 4, to: 5}},
		targets: []int{70, 71, 72, 73, 74},
	}
	targets := func() (all [][]int) {
		for _, c := range f.threads[0].calls {
			if c.wait < 0 {
				all = append(all, nil)
			} else {
				w := f.waits[c.wait]
				all = append(all, f.targets[w.from:w.to])
			}
		}
		return all
	}
	for range 2 { // the second time, the first wait has number 0
		f.forgetCalls(10)
		if got, want := targets(), [][]int{{72, 73}, nil, {74}}; !slices.EqualFunc(got, want, slices.Equal) || len(f.targets) != 3 {
			t.Errorf("%v of %v, want %v", got, f.targets, want)
		}
	}
}
