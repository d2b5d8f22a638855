package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPercentilesAreNearlyExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, exactTimes, exactTimes + 1, 100_000} {
		for _, scale := range []float64{3, 8, 14, 40} {
			var h Histogram
			var all []int64
			var sum int64
			for range n {
				v := int64(math.Exp(r.Float64() * scale))
				h.Add(v)
				all = append(all, v)
				sum += v
			}
			slices.Sort(all)
			for _, p := range []int{1, 50, 99, 100} {
				want := all[(n*p+99)/100-1] // percentile 99 of three times is the greatest
				got := h.Percentile(p)
				if n <= exactTimes && got != want || math.Abs(float64(got-want)) > 0.004*float64(want) {
					t.Errorf("of %d times the percentile %d is %d, want %d", n, p, got, want)
				}
			}
			if h.min != all[0] || h.max != all[n-1] || h.sum != sum || h.n != uint64(n) {
				t.Errorf("%d to %d, %d", h.min, h.max, h.sum)
			}
		}
	}
	var none Histogram
	if none.Percentile(50) != 0 {
		t.Error("a percentile of nothing")
	}
}

// Values above a limit are those of all octaves, also beyond empty ones, and buckets count as wholes.
func TestValuesAboveALimit(t *testing.T) {
	for _, n := range []int{exactTimes / 2, exactTimes * 2} {
		var h Histogram
		for i := range n {
			h.Add([]int64{3, 1 << 40}[i%2])
		}
		for limit, want := range map[int64]int{0: n, 3: n / 2, 100: n / 2, 1 << 41: 0} {
			got, sum := h.above(limit)
			most := int64(want) << 40
			if limit == 0 {
				most = int64(n/2)<<40 + 3*int64(n/2)
			}
			if got != uint64(want) || math.Abs(float64(sum-most)) > 0.004*float64(most) {
				t.Errorf("%d of %d values are above %d, with the sum %d", got, n, limit, sum)
			}
		}
	}
}

func TestMergedHistogramsAreOne(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, exactTimes, exactTimes + 1, 5_000} {
		for _, m := range []int{0, 1, exactTimes, exactTimes + 1, 5_000} {
			var all, a, b Histogram
			for i := range n + m {
				v := 1_000 + r.Int64N(1<<30)
				if all.Add(v); i < n {
					a.Add(v)
				} else {
					b.Add(v)
				}
			}
			a.merge(&b)
			if a.n != all.n || a.sum != all.sum || a.min != all.min || a.max != all.max {
				t.Errorf("%d and %d values: %d from %d to %d, sum %d; want %d from %d to %d, sum %d", n, m, a.n, a.min, a.max, a.sum, all.n, all.min, all.max, all.sum)
			}
			for _, p := range []int{1, 50, 99} {
				if got, want := a.Percentile(p), all.Percentile(p); n+m > 0 && math.Abs(float64(got-want)) > 0.01*float64(want) {
					t.Errorf("%d and %d values: percentile %d is %d, want %d", n, m, p, got, want)
				}
			}
		}
	}
}

// A program that polls late, as under a debugger or load, waited "for the device" most of a step that had 2 % of device work.
func TestLateWaitsAreNotTheDevice(t *testing.T) {
	for _, c := range []struct {
		devices []Device
		want    Bound
	}{
		{[]Device{{Tasks: 5, Measured: 5, BusyAtMostNS: 30}}, Bound{By: ByWaits, Share: 0.7, Busy: 0.3}},
		{[]Device{{Tasks: 5, Measured: 5, BusyAtMostNS: 30}, {Tasks: 1, Measured: 1, BusyAtMostNS: 20}}, Bound{By: ByDevice, Share: 0.7}}, // half of it
		{[]Device{{Tasks: 5, Measured: 4, BusyAtMostNS: 30}}, Bound{By: ByDevice, Share: 0.7}},                                            // not all measured
		{nil, Bound{By: ByDevice, Share: 0.7}},
	} {
		b := Bound{By: ByDevice, Share: 0.7}
		if b.late(c.devices, 100); b != c.want {
			t.Errorf("%+v: %+v, want %+v", c.devices, b, c.want)
		}
	}
	b := Bound{By: ByHost}
	if b.late([]Device{{}}, 100); b.By != ByHost {
		t.Errorf("%+v", b)
	}
}
