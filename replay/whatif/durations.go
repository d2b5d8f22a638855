package whatif

import (
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/model"
)

// kernel is what is known of the launches of one.
type kernel struct {
	name   string
	shapes []shape
	last   int // the shape that was asked for last
}

// shape is what is known of a kernel's launches with one number of blocks. By the models it takes so long, on a device without anything
// else: a trace does not tell how many bytes a kernel touches.
type shape struct {
	blocks      uint32
	n, sum      int64   // of those that were measured
	base, model int64   // by either model
	rows        float64 // how many times as many rows of blocks the model's cores run one after the other
	given       bool    // the model says how long it takes, whatever was recorded
}

// shape returns what is known of the launches that a task is one of.
func (v *runner) shape(t *task) *shape {
	k := &v.p.kernels[t.kernel]
	if k.last < len(k.shapes) && k.shapes[k.last].blocks == t.blocks {
		return &k.shapes[k.last]
	}
	for i := range k.shapes {
		if k.shapes[i].blocks == t.blocks {
			k.last = i
			return &k.shapes[i]
		}
	}
	blocks := max(t.blocks, 1)
	was, is := v.base.Rule(k.name), v.model.Rule(k.name)
	s := shape{blocks: t.blocks, base: v.base.KernelTime(was, blocks, 0), model: v.model.KernelTime(is, blocks, 0), rows: 1, given: is.Duration != 0}
	if a, b := v.base.Rows(was, blocks), v.model.Rows(is, blocks); a > 0 && b > 0 {
		s.rows = float64(b) / float64(a)
	}
	k.last = len(k.shapes)
	k.shapes = append(k.shapes, s)
	return &k.shapes[k.last]
}

// takesTime reports whether tasks of the kind do.
func takesTime(k api.Task) bool {
	switch k {
	case api.Kernel, api.Copy, api.Fill, api.Reduce, api.HostFunc:
		return true
	}
	return false
}

// baseTime is what a task that takes time takes on the device of the trace as far as others tell: launches of the kernel that were measured,
// else the model of that device.
func (v *runner) baseTime(t *task) int64 {
	if t.kind != api.Kernel {
		return v.modelTime(t, v.base)
	}
	s := v.shape(t)
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
}

// durations finds what the trace tells of the time that tasks took: measured; or, where the program has waited for some that had the stream to
// themselves, each its share of the time from their beginning to the end of the wait; or what others of its kind took.
func (v *runner) durations() {
	p := v.p
	lanes := p.walk.Lanes
	for i := range p.tasks.n {
		if t := p.tasks.at(i); t.measured && t.kind == api.Kernel {
			s := v.shape(t)
			s.n, s.sum = s.n+1, s.sum+t.to-t.from
		}
	}
	open := make([]covered, len(lanes))
	for i := range open {
		open[i].before = -1
	}
	end := func(lane int32) {
		g := open[lane]
		if len(g.tasks) == 0 {
			return
		}
		first, last := p.tasks.at(int(g.tasks[0])), g.tasks[len(g.tasks)-1]
		open[lane] = covered{before: last, tasks: g.tasks[:0]}
		end, begin := p.tasks.at(int(last)).to, first.issued
		if g.before >= 0 {
			begin = max(begin, p.tasks.at(int(g.before)).to)
		}
		// Where the program has hardly waited, the device may have been done long before.
		if p.tasks.at(int(last)).open || p.waited[end] < 4*v.base.Host.Sync {
			return
		}
		var sum int64
		for _, i := range g.tasks {
			sum += v.baseTime(p.tasks.at(int(i)))
		}
		if g.span = end - v.base.Host.Sync - begin; sum <= 0 || g.span <= 0 {
			return
		}
		for _, i := range g.tasks {
			t := p.tasks.at(int(i))
			t.known = int64(float64(g.span) * float64(v.baseTime(t)) / float64(sum))
		}
		v.groups = append(v.groups, g)
		open[lane].tasks = nil
	}
	for i := range p.tasks.n {
		t := p.tasks.at(i)
		switch {
		case t.known != unknown: // a run of a host function
			continue
		case t.measured || lanes[t.lane].Synchronous:
			t.known = t.to - t.from
			continue
		}
		g := &open[t.lane]
		if len(g.tasks) > 0 && p.tasks.at(int(g.tasks[0])).to != t.to {
			end(t.lane)
		}
		if takesTime(t.kind) {
			g.tasks = append(g.tasks, int32(i))
		}
	}
	for lane := range open {
		end(int32(lane))
	}
}

// settle gives the ops of tasks the durations that are known of them.
func (v *runner) settle() {
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		op := v.op(t)
		if !takesTime(t.kind) {
			continue
		}
		op.Device = t.known
		if t.known != unknown && v.p.walk.Lanes[t.lane].Synchronous && op.Kind == copyNow {
			op.Host = t.known
		}
	}
}

// calibrate corrects the durations of groups: what a simulation shows besides them, the gaps in which the device had
// nothing to do, was in the recorded time too. It returns how much it has changed, as a part of all.
func (v *runner) calibrate() float64 {
	p := v.p
	var all, changed float64
	for _, g := range v.groups {
		var sum int64
		for _, i := range g.tasks {
			sum += p.tasks.at(int(i)).known
		}
		first, last := p.tasks.at(int(g.tasks[0])), p.tasks.at(int(g.tasks[len(g.tasks)-1]))
		begin := p.calls.at(int(first.call)).began
		if g.before >= 0 {
			begin = max(begin, p.tasks.at(int(g.before)).over)
		}
		idle := last.over - begin - sum
		f := float64(max(g.span-idle, 0)) / float64(max(sum, 1))
		for _, i := range g.tasks {
			t := p.tasks.at(int(i))
			t.known = int64(float64(t.known) * f)
			v.op(t).Device = t.known
		}
		all += float64(sum)
		changed += math.Abs(f-1) * float64(sum)
	}
	return changed / max(all, 1)
}

// change has the durations that the trace tells be what the model makes of them. The scale of a kernel's rule is applied by the machine; a copy
// takes longer as the model's copies take longer than those of the base, a kernel as its blocks run in more rows on the model's cores.
func (v *runner) change() {
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		if !takesTime(t.kind) {
			continue
		}
		var s *shape
		if t.kind == api.Kernel {
			if s = v.shape(t); s.given {
				t.known = unknown
			}
		}
		switch {
		case t.known == unknown && (s == nil || s.given || s.n == 0):
			v.rep.Durations.Modelled++
			continue
		case t.known == unknown:
			v.rep.Durations.Alike++
			t.known = s.sum / s.n
		case t.measured:
			v.rep.Durations.Measured++
		default:
			v.rep.Durations.Estimated++
		}
		if s != nil {
			t.known = int64(float64(t.known) * s.rows)
		} else if b := v.modelTime(t, v.base); b > 0 {
			t.known = int64(float64(t.known) * float64(v.modelTime(t, v.model)) / float64(b))
		}
	}
	v.settle()
}
