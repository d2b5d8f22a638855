package ranks

import (
	"testing"

	"github.com/acltrace/acltrace/format"
)

// Ranks on one host had clocks that were estimated by collectives. In the merged trace a rank used an object 60 us before another one had
// made it, and the trace could not be replayed.
func TestRanksOfOneHostHaveItsClock(t *testing.T) {
	metas := []*format.Meta{
		{Host: "a", StartWall: 1e12, StartMono: 5e9},
		{Host: "b", StartWall: 1e12 + 1e6, StartMono: 5e9},                   // another host
		{Host: "a", StartWall: 1e12 + 2e9 + 3e6, StartMono: 7e9},             // 2 s later; the wall clock was slewed by 3 ms
		{Host: "a", StartWall: 1e12 + 2e9, StartMono: 1e9},                   // after another boot
		{StartWall: 1e12, StartMono: 5e9}, {StartWall: 1e12, StartMono: 5e9}, // unknown hosts
		{Host: "b", StartWall: 1e12 + 1e6 - 1e9, StartMono: 4e9}, // began before the first one of its host
	}
	at, first := starts(metas)
	clocks := make([]clock, len(metas))
	for i := range clocks {
		clocks[i] = clock{shift: at[i], matched: 9, err: 7, knots: []knot{{at: 100, add: int64(i)}, {at: 2e9, add: 10 * int64(i)}}}
	}
	shareClocks(clocks, first)
	for i, of := range []int{0, 1, 0, 3, 4, 5, 1} {
		c := &clocks[i]
		if first[i] != of || c.shared != (i != of) || c.shared == (c.matched > 0) {
			t.Errorf("rank %d has the clock of rank %d: %+v", i, first[i], c)
		}
		// The same moment on both ranks.
		for _, mono := range []int64{6e9, 7e9, 9e9} {
			if got, want := c.time(mono-metas[i].StartMono), clocks[of].time(mono-metas[of].StartMono); got != want {
				t.Errorf("rank %d: %d is %d, and %d on rank %d", i, mono, got, want, of)
			}
		}
	}
}
