package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A paced replay kept eight bytes for each call.
func TestLatenessOfManyCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l lateTimes
	var all []int64
	for range exactTimes + 1000 {
		v := int64(rng.Uint64() >> (20 + rng.IntN(40)))
		if rng.IntN(4) == 0 {
			v = -v
		}
		l.add(v)
		all = append(all, v)
	}
	if len(l.exact) > 0 || len(l.buckets) > 1<<17 {
		t.Fatalf("%d values and %d buckets in memory", len(l.exact), len(l.buckets))
	}
	slices.Sort(all)
	got := l.lateness(7)
	for _, c := range [][2]int64{{got.P50, all[len(all)/2]}, {got.P99, all[len(all)*99/100]}} {
		if d := c[1] - c[0]; d < 0 || d > max(c[1], -c[1])/1000+1 {
			t.Errorf("quantile %d, exact %d", c[0], c[1])
		}
	}
	if got.Max != all[len(all)-1] || got.Last != 7 {
		t.Errorf("%+v", got)
	}
}

func TestLatenessOfFewCalls(t *testing.T) {
	var l lateTimes
	if l.lateness(0) != nil {
		t.Error("lateness of no calls")
	}
	for _, v := range []int64{30, -5, 10} {
		l.add(v)
	}
	if got := *l.lateness(1); got != (Lateness{P50: 10, P99: 30, Max: 30, Last: 1}) {
		t.Errorf("%+v", got)
	}
}
