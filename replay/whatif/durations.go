package whatif

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/model"
)

// kernel is a kernel of the trace.
type kernel struct {
	name   string
	shapes map[uint32]int32 // by number of blocks
	last   int32            // the shape that was asked for last, -1 for none
}

// shape is what is known of a kernel's launches with one number of blocks.
type shape struct {
	kernel int32
	blocks uint32
	n, sum int64 // of those that were measured
	base   int64 // by the base's model, on a device without anything else: a trace does not tell how many bytes a kernel touches
	// By the model that is played:
	rows  float64 // how many times as many rows of blocks its cores run one after the other
	scale float64 // what a rule of it multiplies durations by
	fixed int64   // how long it takes by it, if nothing else is known
	given bool    // it says how long the kernel takes, whatever was recorded
}

// fit says what the model that is played makes of the kernels.
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

// takesTime reports whether tasks of the kind do.
func takesTime(k api.Task) bool {
	switch k {
	case api.Kernel, api.Copy, api.Fill, api.Reduce, api.HostFunc:
		return true
	}
	return false
}

// baseTime is what a task that takes time takes on the device of the trace as far as others tell: launches of the
// kernel that were measured, else the model of that device.
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

// modelTime is what a task takes by a model that is no kernel's.
func (v *runner) modelTime(t *task, m *model.Model) int64 {
	if t.kind == api.HostFunc {
		return m.Host.Function
	}
	return m.CopyTime(t.copy, t.bytes)
}

// covered are tasks that followed each other on a stream, and that the program waited for at their end.
type covered struct {
	tasks  []int32
	before int32 // the task of the stream before them, -1 for none
	// span is the time from the end of that, or the call of the first of them if it was later, to the end of the last.
	span int64
	sum  int64 // of their durations
}

// durations finds what the trace tells of the time that tasks took where nobody has measured it: where the program has
// waited for some that had the stream to themselves, each its share of the time in which the device was not waiting for
// the next of them; or what others of its kind took.
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
		// Where the program has hardly waited, the device may have been done long before.
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
				parts[i].time = 1 // the model does not tell them apart
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

// blocked reports whether a wait of this length was one for the device, and not the cost of the call.
func (v *runner) blocked(ns int64) bool { return ns >= max(4*v.base.Host.Sync, shortWait) }

// shortWait is what a wait for nothing may take, in nanoseconds.
const shortWait = 5000

// alone reports whether no device has tasks on more than one stream.
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

// part is a task on a stream of its own: when it was there, and a time that its duration is a multiple of.
type part struct {
	ready int64
	time  float64
}

// stretch finds by what the times of tasks that follow each other are to be multiplied for the last of them to end when
// it did: a time after the begin, on a stream that is free from a moment on. Where there is no such factor it is that
// by which their durations fill all of the time, or 0.
//
// The end is a convex function of the factor, a line where the device never waits for a task: coming from above, each
// step goes to where the line at hand has the wanted end.
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

// calibrate corrects the durations of groups: what a simulation shows besides them, the gaps in which the device had
// nothing to do, was in the recorded time too. It returns false where that would change next to nothing, and has not done it then.
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

// measure makes durations of the times between events: a simulation shows how much of them passed before the task began.
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

// duration is what the model makes of what the trace tells of a task's, or unknown, and counts it by where it comes
// from. The scale of a kernel's rule is applied by the machine; a copy takes longer as the model's copies take longer
// than those of the base, a kernel as its blocks run in more rows on the model's cores.
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

// blocking is how long a blocking copy takes by a model, of which a part is the call's own.
func (v *runner) blocking(t *task, known int64, m *model.Model) int64 {
	b := v.modelTime(t, v.base)
	if m == v.base || b == 0 {
		return known
	}
	own := min(known, v.base.Host.Sync)
	return m.Host.Sync*own/max(v.base.Host.Sync, 1) + int64(float64(known-own)*float64(v.modelTime(t, m))/float64(b))
}
