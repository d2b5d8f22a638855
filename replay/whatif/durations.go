package whatif

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/timeline"
)

// kernel is a recorded kernel.
type kernel struct {
	name   string
	shapes map[uint32]int32 // by block count
	last   int32            // most recently used shape, -1 for none
}

// shape has the durations for a kernel's launches with one block count.
type shape struct {
	kernel int32
	blocks uint32
	n, sum int64 // measured durations: number and sum
	base   int64 // by the base model, on an idle device: a trace does not show how many bytes a kernel accesses
	// By the played model:
	rows  float64 // ratio between the block rows that the cores run one after the other
	scale float64 // from the model's rule for the kernel
	fixed int64   // duration if no other is known
	given bool    // the model fixes the duration
}

// fit applies the played model to the kernels.
func (v *runner) fit(m *model.Model) {
	v.playing = m
	for i := range v.p.kernels.shapes {
		s := &v.p.kernels.shapes[i]
		name, blocks := v.p.kernels.all[s.kernel].name, max(s.blocks, 1)
		was, is := v.base.Rule(name), m.Rule(name)
		s.base, s.rows, s.given = v.base.KernelTime(was, blocks, 0), 1, is.Duration != 0
		s.scale, s.fixed = scaleOf(is), m.KernelTime(is, blocks, 0)
		if a, b := v.base.Rows(was, blocks), m.Rows(is, blocks); a > 0 && b > 0 {
			s.rows = float64(b) / float64(a)
		}
	}
}

// takesTime reports whether tasks with the kind take time.
func takesTime(k api.Task) bool {
	switch k {
	case api.Kernel, api.Copy, api.Fill, api.Reduce, api.HostFunc:
		return true
	}
	return false
}

// baseTime returns the duration of an unmeasured task on the recorded device: that of measured launches of the same kernel, otherwise the
// model's.
func (v *runner) baseTime(t *task) int64 {
	if t.kind != api.Kernel {
		return v.modelTime(t, v.base)
	}
	s := &v.p.kernels.shapes[t.shape]
	if s.n > 0 {
		return s.sum / s.n
	}
	return s.base
}

// modelTime returns a task's duration by a model, for tasks other than kernels.
func (v *runner) modelTime(t *task, m *model.Model) int64 {
	if t.kind == api.HostFunc {
		return m.Host.Function
	}
	return m.CopyTime(t.copy, t.bytes)
}

// covered is a task sequence on one stream that the program waited for at its end.
type covered struct {
	tasks  []int32
	before int32 // preceding task on the stream, -1 for none
	// span lasts from the end of that task, or from the first call if it is later, to the end of the last task.
	span int64
	sum  int64 // durations
}

// durations estimates how long unmeasured tasks took. If the program waited for tasks that had the stream to themselves, each gets a
// share in the time during which the device had work. Otherwise similar tasks count.
func (v *runner) durations() {
	p := v.p
	if !p.untimed {
		return
	}
	for i := range p.tasks.n {
		if t := p.tasks.at(i); t.measured && t.kind == api.Kernel {
			s := &p.kernels.shapes[t.shape]
			s.n, s.sum = s.n+1, s.sum+t.to-t.from
		}
	}
	v.settled = v.alone() && !p.nested
	open := make([]covered, len(p.walk.Lanes))
	for i := range open {
		open[i].before = -1
	}
	var parts []part
	end := func(lane int32) {
		g := open[lane]
		if len(g.tasks) == 0 {
			return
		}
		first, last := p.tasks.at(int(g.tasks[0])), g.tasks[len(g.tasks)-1]
		open[lane] = covered{before: last, tasks: g.tasks[:0]}
		end, begin, free := p.tasks.at(int(last)).to, first.issued, int64(math.MinInt64)
		if g.before >= 0 {
			free = p.tasks.at(int(g.before)).to
			begin = max(begin, free)
		}
		// After a short wait the device may have been done long before.
		if p.tasks.at(int(last)).open || !v.blocked(p.waits.took[end]) {
			return
		}
		parts = parts[:0]
		for _, i := range g.tasks {
			t := p.tasks.at(int(i))
			put := p.calls.at(int(t.call)).end
			if t.pageable {
				put = t.issued + v.base.Host.Submit
			}
			parts = append(parts, part{put + v.base.Launch.Latency, float64(v.baseTime(t))})
		}
		if !slices.ContainsFunc(parts, func(p part) bool { return p.time > 0 }) {
			for i := range parts {
				parts[i].time = 1 // the model has no ratio
			}
		}
		g.span = end - v.base.Host.Sync - begin
		f, fits := stretch(parts, free, begin, g.span, v.base.Launch.Overhead)
		if f == 0 {
			return
		}
		v.settled = v.settled && fits
		for n, i := range g.tasks {
			known := int64(f * parts[n].time)
			p.tasks.at(int(i)).known = known
			g.sum += known
		}
		v.groups = append(v.groups, g)
		open[lane].tasks = nil
	}
	for i := range p.tasks.n {
		t := p.tasks.at(i)
		if t.known != unknown {
			v.settled = v.settled && p.walk.Lanes[t.lane].Synchronous
			continue
		}
		g := &open[t.lane]
		if len(g.tasks) > 0 && p.tasks.at(int(g.tasks[0])).to != t.to {
			end(t.lane)
		}
		if takesTime(t.kind) {
			g.tasks = append(g.tasks, int32(i))
		} else if t.kind != api.Record {
			v.settled = false
		}
	}
	for lane := range open {
		end(int32(lane))
	}
}

// blocked reports whether a wait was long enough to be for the device, and not just the call's cost.
func (v *runner) blocked(ns int64) bool { return ns >= max(4*v.base.Host.Sync, timeline.ShortWait) }

// alone reports whether each device has tasks on one stream only.
func (v *runner) alone() bool {
	busy := map[int32]bool{}
	for _, l := range v.p.walk.Lanes {
		if l.Synchronous || l.Tasks == 0 {
			continue
		}
		d := v.device(l.Process, l.Device)
		if busy[d] {
			return false
		}
		busy[d] = true
	}
	return true
}

// part is a task in a sequence on one stream: its arrival, and a time proportional to its duration.
type part struct {
	ready int64
	time  float64
}

// stretch returns a factor for the times in a task sequence. With it the last task ends at the given time after the start, on a stream that
// becomes free at a given moment. If there is none, it returns the factor with which the durations fill all the time, or 0.
//
// The end is a convex function of the factor, and linear while the device never waits for a task. Starting from above, each step solves
// the line at the current factor.
func stretch(parts []part, free, begin, span, overhead int64) (factor float64, fits bool) {
	var sum float64
	for i := range parts {
		sum += parts[i].time
	}
	if sum <= 0 || span <= 0 {
		return 0, false
	}
	all := float64(span) / sum
	factor = all
	for range 10 {
		at, slope := free, 0.0
		for i := range parts {
			if at += overhead; at < parts[i].ready {
				at, slope = parts[i].ready, 0
			}
			at += int64(factor * parts[i].time)
			slope += parts[i].time
		}
		off := float64(at - begin - span)
		if math.Abs(off) <= calibrated*float64(span) {
			return factor, true
		}
		if factor -= off / slope; !(factor > 0) {
			break
		}
	}
	return all, false
}

// calibrate removes from the durations of groups the gaps in which a simulation shows an idle device, since the recorded time has them
// too. It returns false, and changes nothing, if the effect would be negligible.
func (v *runner) calibrate() bool {
	p := v.p
	var all, changed float64
	fit := func(g *covered) float64 {
		first, last := p.tasks.at(int(g.tasks[0])), p.tasks.at(int(g.tasks[len(g.tasks)-1]))
		begin := p.calls.at(int(first.call)).began
		if g.before >= 0 {
			begin = max(begin, p.tasks.at(int(g.before)).over)
		}
		idle := last.over - begin - g.sum
		return float64(max(g.span-idle, 0)) / float64(max(g.sum, 1))
	}
	for i := range v.groups {
		g := &v.groups[i]
		all += float64(g.sum)
		changed += math.Abs(fit(g)-1) * float64(g.sum)
	}
	if changed < calibrated*all {
		return false
	}
	for i := range v.groups {
		g := &v.groups[i]
		f := fit(g)
		g.sum = 0
		for _, i := range g.tasks {
			t := p.tasks.at(int(i))
			t.known = int64(float64(t.known) * f)
			g.sum += t.known
		}
	}
	return true
}

// measure converts times between events to durations: a simulation shows the part that passed before the task began.
func (v *runner) measure() error {
	p := v.p
	v.measuring = true
	_, err := v.play(v.base, 1)
	v.measuring = false
	if err != nil {
		return err
	}
	for i := range p.kernels.shapes {
		p.kernels.shapes[i].n, p.kernels.shapes[i].sum = 0, 0
	}
	for i := range p.tasks.n {
		t := p.tasks.at(i)
		if t.between {
			t.known = t.over - t.began
		}
		if t.measured && t.kind == api.Kernel {
			s := &p.kernels.shapes[t.shape]
			s.n, s.sum = s.n+1, s.sum+t.known
		}
	}
	return nil
}

// duration applies the model to a task's recorded duration, or returns unknown, and counts the source. The machine applies the factor of
// a kernel's rule. A copy changes by the ratio between the models' copies, a kernel by the rows of its blocks on the model's cores.
func (v *runner) duration(t *task) int64 {
	n, s, known := &v.rep.Durations, &v.p.kernels.shapes[t.shape], t.known
	switch {
	case t.kind == api.Kernel && s.given, known == unknown && (t.kind != api.Kernel || s.n == 0):
		n.Modelled++
		return unknown
	case known == unknown:
		n.Alike++
		known = s.sum / s.n
	case t.measured:
		n.Measured++
	default:
		n.Estimated++
	}
	if t.kind == api.Kernel {
		return int64(float64(known) * s.rows)
	}
	if v.p.walk.Lanes[t.lane].Synchronous {
		return v.blocking(t, known, v.playing)
	}
	if b := v.modelTime(t, v.base); v.playing != v.base && b > 0 {
		return int64(float64(known) * float64(v.modelTime(t, v.playing)) / float64(b))
	}
	return known
}

// blocking returns how long a blocking copy takes by a model, including the call's own part.
func (v *runner) blocking(t *task, known int64, m *model.Model) int64 {
	b := v.modelTime(t, v.base)
	if m == v.base || b == 0 {
		return known
	}
	own := min(known, v.base.Host.Sync)
	return m.Host.Sync*own/max(v.base.Host.Sync, 1) + int64(float64(known-own)*float64(v.modelTime(t, m))/float64(b))
}
