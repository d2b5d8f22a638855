package whatif

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// The bounds of a prediction hold for all possible times of unmeasured tasks, if the trace represents its program and the models their
// devices. A model must be correct in launch latency, overhead, the cost of a wait, and shared resources. Both models together must be
// correct in the ratio of a task's times on the two devices. The absolute copy rates and kernel times of the base count in the
// prediction, not in its bounds.
//
// Two arguments give bounds, and the narrower ones count.
//
// Dilation: at every moment of the recording a host thread works, or tasks may be in flight. If time runs slower by the largest factor
// among those, by induction everything has happened by then. If it runs by the smallest factor, nothing has happened before then. See
// runner.dilate.
//
// Schedules: the program is simulated with the shortest and with the longest tasks that the trace allows. Tasks that a thread adds to one
// stream without a wait share the time until they were known to be done. See runner.brackets.
type bounds struct {
	low, high  []int64 // by task, as virtual.Op.Device
	unknown    bool    // some task was not measured
	endless    bool    // the trace ends before some task
	unbounded  bool    // some task has no upper bound for a schedule
	err        int64   // how far a simulated recording is off the real one
	lo, hi     int64   // for the whole program
	sharing    sharing
	minF, maxF float64 // smallest and largest task factor, including 1
}

// sharing compares shared resources on the simulated and the recorded device.
type sharing struct{ less, more bool }

// near is the largest ratio between bounds in a printed prediction.
const near = 1.25

// reordered widens the bounds, by a part of the time, if several streams share a device. Tasks that wait for the same cores or engine may
// run in another order then, so a longer task can shorten the program.
const reordered = 0.01

// resolution is for times between events: two device clock ticks, in nanoseconds.
const resolution = 40

// factor returns the ratio between a task's times on the simulated and on the recorded device. It is unknown if the model replaces the
// duration.
func (v *runner) factor(t *task) (f float64, known bool) {
	if t.kind == api.Kernel {
		s := &v.p.kernels.shapes[t.shape]
		if s.given {
			return 0, false
		}
		return s.rows * s.scale, true
	}
	if b := v.modelTime(t, v.base); b > 0 {
		return float64(v.modelTime(t, v.model)) / float64(b), true
	}
	return 1, true
}

func scaleOf(k *model.Kernel) float64 {
	if k.Scale == 0 {
		return 1
	}
	return k.Scale
}

// compare compares shared resources.
func (v *runner) compare() (s sharing) {
	one := func(was, is int) {
		if was == 0 {
			was = math.MaxInt
		}
		if is == 0 {
			is = math.MaxInt
		}
		s.less, s.more = s.less || is < was, s.more || is > was
	}
	one(v.base.Streams, v.model.Streams)
	one(v.base.Cores.Cube, v.model.Cores.Cube)
	one(v.base.Cores.Vector, v.model.Cores.Vector)
	for k := range model.NumCopyKinds {
		one(v.base.Copies[k].Engines, v.model.Copies[k].Engines)
	}
	for i := range v.p.kernels.shapes {
		h := &v.p.kernels.shapes[i]
		name, blocks := v.p.kernels.all[h.kernel].name, max(h.blocks, 1)
		was, is := v.base.Demand(v.base.Rule(name), blocks), v.model.Demand(v.model.Rule(name), blocks)
		s.less = s.less || is.Cube > was.Cube || is.Vector > was.Vector
		s.more = s.more || is.Cube < was.Cube || is.Vector < was.Vector
	}
	return s
}

// limit computes a prediction's bounds.
func (v *runner) limit() error {
	b := &v.bounds
	b.minF, b.maxF = 1, 1
	durations := v.rep.Durations
	defer func() { v.rep.Durations = durations }()
	v.fit(v.model)
	b.sharing = v.compare()
	v.brackets()
	// A polling program notices the end with its next poll.
	polling := int64(float64(v.p.waits.polling) * max(1, b.maxF))
	b.err += polling
	point := v.rep.VirtualNS
	if v.model == v.base && v.scale == 1 {
		b.lo, b.hi = v.recordedNS(), v.recordedNS() // nothing differs from the recording
		return nil
	}
	if !b.unknown && !v.p.between {
		b.lo, b.hi = max(0, point-b.err), point+b.err
		return nil
	}
	low, err := v.extreme(v.model, v.scale, b.low)
	if err != nil {
		return err
	}
	high := int64(Unbounded)
	if !b.unbounded {
		if high, err = v.extreme(v.model, v.scale, b.high); err != nil {
			return err
		}
	}
	low, high = low-b.err, high+b.err
	if !b.unknown {
		low, high = min(low, point-b.err), max(high, point+b.err)
	} else {
		lo, hi := v.dilate()
		low, high = max(low, lo-polling), min(high, hi+polling)
		if low > high {
			low, high = high, low // the models contradict the trace
		}
	}
	if !v.alone() {
		low, high = int64(float64(low)*(1-reordered)), int64(float64(high)*(1+reordered))
	}
	b.lo, b.hi = max(0, low), min(high, Unbounded)
	if b.endless {
		b.hi = Unbounded
	}
	return nil
}

// extreme returns the program's duration with the given task durations, nil for the predicted ones.
func (v *runner) extreme(m *model.Model, scale float64, times []int64) (int64, error) {
	v.given, v.quiet = times, true
	sum, err := v.play(m, scale)
	v.given, v.quiet = nil, false
	if err != nil {
		return 0, err
	}
	return sum.End(), nil
}

// conclude reports the prediction, its error and its basis.
func (v *runner) conclude() {
	rep, b := v.rep, &v.bounds
	whole := float64(max(rep.RecordedNS, 1))
	percent := func(ns int64) float64 { return 100 * (float64(ns)/whole - 1) }
	rep.BoundsNS = [2]int64{b.lo, b.hi}
	rep.ChangeBoundsPercent = [2]float64{percent(b.lo), percent(b.hi)}
	if rep.Predicted = float64(b.hi) <= near*float64(b.lo); rep.Predicted {
		rep.VirtualNS = min(max(rep.VirtualNS, b.lo), b.hi)
	}
	rep.ChangePercent = percent(rep.VirtualNS)
	var sum, measured, bracketed float64
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		if !takesTime(t.kind) && t.kind != api.GraphRun {
			continue
		}
		d := float64(t.over - t.began)
		if v.p.walk.Lanes[t.lane].Synchronous {
			d = float64(v.p.calls.at(int(t.call)).over - v.p.calls.at(int(t.call)).began)
		}
		sum += d
		switch _, ok := v.factor(t); {
		case !ok, t.kind == api.GraphRun && !t.measured:
		case v.known(t):
			measured += d
		case t.known != unknown:
			bracketed += d
		}
	}
	if sum > 0 {
		rep.Known = Known{Measured: measured / sum, Bracketed: bracketed / sum, Modelled: max(0, 1-(measured+bracketed)/sum)}
	}
	switch {
	case rep.Predicted:
	case !b.unknown:
		rep.Advice = OtherModel
	case v.inGraphs():
		rep.Advice = InGraphs
	default:
		rep.Advice = NoTaskTimes
	}
}

// inGraphs reports whether all tasks were measured, so that only durations in graphs are unknown.
func (v *runner) inGraphs() bool {
	runs := 0
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		if t.kind == api.GraphRun {
			runs++
		}
		if (takesTime(t.kind) || t.kind == api.GraphRun) && !v.known(t) {
			return false
		}
	}
	return runs > 0
}

// known reports whether a task's duration was measured.
func (v *runner) known(t *task) bool { return t.measured || v.p.walk.Lanes[t.lane].Synchronous }

// bracket is a task sequence that one thread put on one stream without a wait.
type bracket struct {
	first, last int32 // tasks, -1 for none
	n           int
	min, max    float64
	synced      bool // the preceding task on the stream was known to be done before the first task was added
	crossed     bool // other tasks or threads may have delayed some of them
}

// brackets computes the shortest and the longest durations that the trace allows.
func (v *runner) brackets() {
	p, b := v.p, &v.bounds
	b.low, b.high = make([]int64, p.tasks.n), make([]int64, p.tasks.n)
	flights := v.flights()
	open := make([]bracket, len(p.walk.Lanes))
	before := make([]int32, len(p.walk.Lanes)) // latest task, by lane
	crossed := make([]bool, len(p.walk.Lanes)) // the stream has waited for another one since
	for i := range open {
		open[i].first, before[i] = -1, -1
	}
	for i := range p.tasks.n {
		t := p.tasks.at(i)
		if t.kind == api.GraphRun {
			b.unknown, b.unbounded, b.endless = true, true, b.endless || t.by == math.MaxInt64
		}
		g := &open[t.lane]
		if !takesTime(t.kind) {
			if t.kind == api.Record {
				if g.first >= 0 && g.max < 1 {
					v.settle(g, t.lane, flights) // other streams may wait for the tasks so far
				}
				continue
			}
			v.settle(g, t.lane, flights)
			crossed[t.lane] = true
			continue
		}
		f, ok := v.factor(t)
		if ok {
			b.minF, b.maxF = min(b.minF, f), max(b.maxF, f)
		}
		if !ok || v.known(t) {
			v.settle(g, t.lane, flights)
			before[t.lane] = int32(i)
			b.low[i], b.high[i] = unknown, unknown
			if ok {
				b.low[i] = v.duration(t)
				b.high[i] = b.low[i]
				if t.between && b.low[i] != unknown {
					d := int64(resolution * max(1, f))
					b.low[i], b.high[i] = max(0, b.low[i]-d), b.high[i]+d
				}
			}
			continue
		}
		b.unknown, b.endless = true, b.endless || t.by == math.MaxInt64
		if g.first >= 0 {
			l := p.tasks.at(int(g.last))
			if l.epoch != t.epoch || p.calls.at(int(l.call)).thread != p.calls.at(int(t.call)).thread || l.by != t.by {
				v.settle(g, t.lane, flights)
			}
		}
		if g.first < 0 {
			*g = bracket{first: int32(i), min: math.Inf(1), synced: true, crossed: crossed[t.lane]}
			if n := before[t.lane]; n >= 0 {
				l := p.tasks.at(int(n))
				g.synced = l.by <= t.issued
			}
			crossed[t.lane] = false
		}
		g.n++
		g.last, g.min, g.max = int32(i), min(g.min, f), max(g.max, f)
		before[t.lane] = int32(i)
	}
	for lane := range open {
		v.settle(&open[lane], int32(lane), flights)
	}
}

// settle sets the bounds of the tasks in a bracket, and empties it. The first task may have taken all of the time until they were known
// to be done, or the last one. These are the extremes for longer and for shorter tasks.
func (v *runner) settle(g *bracket, lane int32, flights [][]window) {
	p, b := v.p, &v.bounds
	if g.first < 0 {
		return
	}
	first, last := p.tasks.at(int(g.first)), p.tasks.at(int(g.last))
	by := min(last.by, p.walk.End)
	slow, fast := max(1, v.scale), min(1, v.scale) // factors for the program's own time in between
	apart := float64(last.issued - first.issued)
	switch {
	// A stream that waits only for the program, on an otherwise idle device.
	case g.crossed || !v.aloneIn(flights, lane, first.issued, last.by):
		b.unbounded = true
	case g.max >= slow:
		b.high[g.first] = v.asDevice(first, g.max*float64(by-first.issued))
	case g.synced:
		b.high[g.last] = v.asDevice(last, g.max*float64(by-last.issued)+max(0, g.max-fast)*apart)
	default:
		b.high[g.last] = v.asDevice(last, g.max*float64(by-first.issued))
	}
	if !b.unbounded && g.synced && v.blocked(p.waits.took[last.by]) {
		idle := v.base.Host.Sync + v.base.Launch.Latency + int64(g.n)*v.base.Launch.Overhead
		rest := float64(last.by - p.calls.at(int(last.call)).end - idle)
		b.low[g.last] = v.asDevice(last, max(0, g.min*rest+min(0, g.min-slow)*apart))
	}
	*g = bracket{first: -1}
}

// asDevice returns a duration as virtual.Op.Device, which the machine scales for kernels.
func (v *runner) asDevice(t *task, d float64) int64 {
	if t.kind == api.Kernel {
		if f := v.p.kernels.shapes[t.shape].scale; f > 0 {
			d /= f
		}
	}
	return int64(min(d, Unbounded))
}

// window is a time in which a task may be in flight, with its duration factors.
type window struct {
	from, to int64
	min, max float64
}

// flights are the times in which each lane may have tasks in flight. Adjacent times are joined.
func (v *runner) flights() [][]window {
	all := make([][]window, len(v.p.walk.Lanes))
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		if takesTime(t.kind) || t.kind == api.GraphRun {
			all[t.lane] = joined(all[t.lane], window{from: t.issued, to: t.by})
		}
	}
	return all
}

// joined adds a window that does not begin earlier than the others.
func joined(all []window, w window) []window {
	if n := len(all); n > 0 && w.from <= all[n-1].to {
		l := &all[n-1]
		l.to, l.min, l.max = max(l.to, w.to), min(l.min, w.min), max(l.max, w.max)
		return all
	}
	return append(all, w)
}

// aloneIn reports whether no other stream on the lane's device may have a task in flight.
func (v *runner) aloneIn(flights [][]window, lane int32, from, to int64) bool {
	lanes := v.p.walk.Lanes
	d := v.device(lanes[lane].Process, lanes[lane].Device)
	for i, l := range lanes {
		if int32(i) == lane || l.Synchronous || v.device(l.Process, l.Device) != d {
			continue
		}
		n, _ := slices.BinarySearchFunc(flights[i], from, func(w window, at int64) int { return cmp.Compare(w.to, at+1) })
		if n < len(flights[i]) && flights[i][n].from < to {
			return false
		}
	}
	return true
}

// edge is where a window, or a thread's own work, starts or ends.
type edge struct {
	at       int64
	min, max float64
	begin    bool
	thread   bool
}

// dilate returns the program's shortest and longest duration, by the factors at each moment.
func (v *runner) dilate() (lo, hi int64) {
	p := v.p
	was, is := v.base, v.model
	begin, end := p.calls.at(0).start, p.walk.End
	edges, given, tasks, lanes := v.windows(begin, end)
	for _, h := range p.threads {
		if n := len(h.calls); n > 0 {
			edges = append(edges, edge{at: begin, begin: true, thread: true}, edge{at: p.calls.at(int(h.calls[n-1])).end, thread: true})
		}
	}
	edges = append(edges, v.waits()...)
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	slow, fast := max(1, v.scale), min(1, v.scale)
	var least, most, serial float64
	working, active := 0, map[[2]float64]int{}
	from, lowest, highest := begin, 1.0, 1.0
	for i := 0; i < len(edges); {
		at := edges[i].at
		if d := float64(at - from); d > 0 {
			l, h := lowest, highest
			if working > 0 {
				l, h, serial = min(l, fast), max(h, slow), serial+slow*d
			}
			least, most = least+l*d, most+h*d
			from = at
		}
		changed := false
		for ; i < len(edges) && edges[i].at == at; i++ {
			e := edges[i]
			step := -1
			if e.begin {
				step = 1
			}
			if e.thread {
				working += step
				continue
			}
			k := [2]float64{e.min, e.max}
			if active[k] += step; active[k] == 0 {
				delete(active, k)
			}
			changed = true
		}
		if !changed {
			continue
		}
		lowest, highest = math.Inf(1), 0
		for k := range active {
			lowest, highest = min(lowest, k[0]), max(highest, k[1])
		}
		if len(active) == 0 {
			lowest, highest = 1, 1
		}
	}
	least, most = least+float64(end-from), most+float64(end-from)

	// Each path from one task to the next through a thread adds a wait and a launch.
	more := func(n int, d float64) float64 { return float64(n) * max(0, d) }
	waits := len(p.waits.blocks)
	latency, sync := float64(is.Launch.Latency-was.Launch.Latency), float64(is.Host.Sync-was.Host.Sync)
	now, then := float64(is.Launch.Overhead), float64(was.Launch.Overhead)
	most += given + more(waits+1, latency) + more(waits, sync) + more(tasks, now-min(1, v.bounds.minF)*then)
	least -= more(waits+1, -latency) + more(waits, -sync) + more(tasks, max(1, v.bounds.maxF)*then-now)
	if v.bounds.sharing.less {
		// At each moment there is some activity, but possibly only one.
		for _, l := range lanes {
			for _, w := range l {
				serial += w.max * float64(w.to-w.from)
			}
		}
		most = given + serial + float64(waits+1)*float64(is.Launch.Latency) + float64(tasks)*now + float64(waits)*float64(is.Host.Sync)
	}
	if v.bounds.sharing.more {
		least = 0
	}
	return int64(max(0, least)), int64(math.Ceil(min(most, Unbounded)))
}

// windows returns the windows of all tasks and of each lane, the total time of tasks that the model fixes, and the number of tasks.
func (v *runner) windows(begin, end int64) (edges []edge, given float64, tasks int, lanes [][]window) {
	p, b := v.p, &v.bounds
	off := int64(0) // from measured times to the calls' clock
	if d := p.walk.Reader.Meta().DeviceTime; d != nil {
		off = d.ErrorNS
	}
	last, lanes := make([]window, len(p.walk.Lanes)), make([][]window, len(p.walk.Lanes))
	put := func(w window) {
		if w.to > w.from {
			edges = append(edges, edge{at: w.from, min: w.min, max: w.max, begin: true}, edge{at: w.to, min: w.min, max: w.max})
		}
	}
	for i := range p.tasks.n {
		t := p.tasks.at(i)
		w := window{t.issued, t.by, 1, 1}
		switch {
		case t.kind == api.GraphRun:
			var n int
			var d float64
			w.min, w.max, d, n = v.graphFactors(t)
			given, tasks = given+d, tasks+n
		case !takesTime(t.kind):
			continue
		case p.walk.Lanes[t.lane].Synchronous:
			if took := t.to - t.from; took > 0 {
				f := float64(v.blocking(t, took, v.model)) / float64(took)
				w.from, w.min, w.max = t.from, f, f
			}
			if f, ok := v.factor(t); !ok || f == 1 {
				w.min, w.max = 1, 1
			}
		default:
			tasks++
			if f, ok := v.factor(t); ok {
				w.min, w.max = f, f
			} else {
				w.min = 0
				given += float64(p.kernels.shapes[t.shape].fixed)
			}
			if t.measured {
				w.from, w.to = max(t.issued, t.from-off), t.to+off
			}
		}
		w.from, w.to = max(w.from, begin), min(w.to, end)
		b.minF, b.maxF = min(b.minF, w.min), max(b.maxF, w.max)
		lanes[t.lane] = joined(lanes[t.lane], w)
		if l := &last[t.lane]; w.min == l.min && w.max == l.max && w.from <= l.to {
			l.to = max(l.to, w.to)
		} else {
			put(*l)
			*l = w
		}
	}
	for _, w := range last {
		put(w)
	}
	return edges, given, tasks, lanes
}

// graphFactors returns the smallest and the largest factor of a graph's tasks, the total time that the model fixes, and the number of
// tasks.
func (v *runner) graphFactors(t *task) (least, most, given float64, tasks int) {
	least, most = 1, 1
	n, ok := v.p.graphs.runs[t.call]
	if !ok {
		return
	}
	for _, lane := range v.p.graphs.all[n].lanes {
		for i := range lane {
			op := &lane[i]
			f := 1.0
			switch op.Kind {
			case virtual.Kernel:
				name, blocks := v.p.kernels.all[op.Kernel].name, max(op.Blocks, 1)
				was, is := v.base.Rule(name), v.model.Rule(name)
				if is.Duration != 0 {
					given += float64(v.model.KernelTime(is, blocks, 0))
					f = 0
				} else {
					f = scaleOf(is)
					if a, b := v.base.Rows(was, blocks), v.model.Rows(is, blocks); a > 0 && b > 0 {
						f *= float64(b) / float64(a)
					}
				}
			case virtual.Copy:
				if b := v.base.CopyTime(op.Copy, op.Bytes); b > 0 {
					f = float64(v.model.CopyTime(op.Copy, op.Bytes)) / float64(b)
				}
			case virtual.HostFunc:
			default:
				continue
			}
			tasks++
			least, most = min(least, f), max(most, f)
		}
	}
	return
}

// waits returns the starts and ends of the threads' own time around waits, including launch and wait latency.
func (v *runner) waits() []edge {
	p := v.p
	var edges []edge
	var issued []int64 // where launching calls end, in order
	for i := range p.tasks.n {
		if t := p.tasks.at(i); !p.walk.Lanes[t.lane].Synchronous {
			issued = append(issued, p.calls.at(int(t.call)).end)
		}
	}
	slices.Sort(issued)
	for _, w := range p.waits.blocks {
		from, to := w.from, w.to-v.base.Host.Sync
		if !w.own && !v.blocked(w.to-w.from) {
			continue
		}
		if w.own {
			to = w.to
		}
		if n, _ := slices.BinarySearch(issued, w.from+1); n > 0 && !w.own {
			from = max(from, issued[n-1]+v.base.Launch.Latency)
		}
		if to > from {
			edges = append(edges, edge{at: from, thread: true}, edge{at: to, thread: true, begin: true})
		}
	}
	return edges
}
