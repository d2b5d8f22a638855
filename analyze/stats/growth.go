package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/sample"
	"github.com/acltrace/acltrace/timeline"
)

// Growth is device memory that grows from step to step.
type Growth struct {
	Steps     int    `json:"steps"`      // steps from the first to the last value
	FromBytes uint64 `json:"from_bytes"` // memory in use after the first step
	ToBytes   uint64 `json:"to_bytes"`   // memory in use after the last step
	// PerStep is the slope of a line through the values: bytes that each step adds.
	PerStep     float64 `json:"bytes_per_step"`
	PerStepLow  float64 `json:"bytes_per_step_low"`  // the slope is above this with a probability of 99.5%
	PerStepHigh float64 `json:"bytes_per_step_high"` // the slope is below this with a probability of 99.5%
}

// stepSamples keeps evenly spaced typical steps: their index, duration, and the memory in use at their end.
type stepSamples struct{ sample.Even[stepSample] }

type stepSample struct {
	index int
	ns    int64
	bytes uint64
	live  [len(kept)]uint64
}

// kept are the kinds of objects that a program makes once, unless it forgets to end them.
var kept = [...]api.Object{api.Stream, api.Event, api.Notify, api.Graph}

// living counts objects that exist in the process that makes the steps, by kind.
type living struct {
	n    [len(kept)]uint64
	made [len(kept)]string // function that made the latest one
}

// call takes a call that may make or end objects.
func (x *living) call(w *timeline.Walk, h *timeline.HostCall) {
	if h.Fn == nil || h.Failed() || w.Process(h.Thread) != w.StepRule().Process {
		return
	}
	for i := range h.Fn.Params {
		p := &h.Fn.Params[i]
		made := p.Role == api.New || p.Role == api.Find && captures(h.Fn)
		if !made && p.Role != api.End {
			continue
		}
		switch k := slices.Index(kept[:], p.Object); {
		case k < 0:
		case made:
			x.n[k], x.made[k] = x.n[k]+1, h.Name
		case x.n[k] > 0:
			x.n[k]--
		}
	}
}

// near returns the index of a step whose duration is near ns, -1 for none.
func (s *stepSamples) near(ns int64) int {
	if len(s.Values) == 0 {
		return -1
	}
	off := func(x stepSample) int64 { return max(x.ns-ns, ns-x.ns) }
	return slices.MinFunc(s.Values, func(a, b stepSample) int { return cmp.Compare(off(a), off(b)) }).index
}

const (
	// stretches is the number of parts of a run in which memory is compared.
	stretches = 6
	// leastRises is the number of stretches that must begin with more memory than the one before. Programs allocate late once or twice.
	leastRises = 3
	// student is the 99.5% quantile of Student's distribution with stretches-2 degrees of freedom.
	student = 4.604
)

// growth returns the growth of a value of the steps, nil if there is none.
func (s *stepSamples) growth(of func(*stepSample) uint64) *Growth {
	return GrowthOf(len(s.Values), func(i int) (int, uint64) { return s.Values[i].index, of(&s.Values[i]) })
}

// GrowthOf returns the growth of n evenly spaced values, such as the memory in use at the end of steps, nil if there is none. Function at returns the step of a
// value and the value. The first quarter is left out, in which programs fill caches. The rest are six stretches. The value grows if its least value rises
// from one stretch to the next at least three times, the last time near the end, and if the interval of the slope excludes 0.
func GrowthOf(n int, at func(i int) (step int, value uint64)) *Growth {
	skipped := n / 4
	each := (n - skipped) / stretches
	if each == 0 {
		return nil
	}
	skipped = n - each*stretches
	var steps, means [stretches]float64
	var least [stretches]uint64
	for i := range least {
		least[i] = math.MaxUint64
		for j := range each {
			step, v := at(skipped + i*each + j)
			least[i] = min(least[i], v)
			steps[i] += float64(step) / float64(each)
			means[i] += float64(v) / float64(each)
		}
	}
	rises, latest := 0, 0
	for i := 1; i < stretches; i++ {
		if least[i] > least[i-1] {
			rises, latest = rises+1, i
		}
	}
	slope, off := line(steps[:], means[:])
	if rises < leastRises || latest < stretches-2 || slope-student*off <= 0 {
		return nil
	}
	first, from := at(skipped)
	last, to := at(n - 1)
	return &Growth{Steps: last - first, FromBytes: from, ToBytes: to, PerStep: slope, PerStepLow: slope - student*off, PerStepHigh: slope + student*off}
}

// line returns the slope of the line through points by least squares, and its standard error.
func line(x, y []float64) (slope, off float64) {
	n := float64(len(x))
	var mx, my, xx, xy, rest float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		xx, xy = xx+(x[i]-mx)*(x[i]-mx), xy+(x[i]-mx)*(y[i]-my)
	}
	if xx == 0 {
		return 0, 0
	}
	slope = xy / xx
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}
