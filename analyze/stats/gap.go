package stats

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// LongStep is the longest of the typical steps, on the thread that made it.
type LongStep struct {
	Index int   `json:"step"` // number of the step, from 0
	NS    int64 `json:"ns"`   // duration of the step
	Parts
	Call LongCall `json:"longest_call"` // longest call of the step
	Gap  *Gap     `json:"longest_gap"`  // own time of the program that is most above the mean of earlier steps, nil for none
	// More is what the step has more of than most: calls of a thread that copy far more, or else calls of the step's own thread that took more time, by most. It is nil for none.
	More *MoreCalls `json:"more_calls,omitempty"`
	// Thread made the step.
	Thread string `json:"thread"`
}

// LongCall is a long call.
type LongCall struct {
	Call uint64 `json:"call"` // call number
	Func string `json:"func"` // function
	NS   int64  `json:"ns"`   // duration
}

// MoreCalls are the calls of one function and thread in a step. Usual values are medians of the typical steps with such calls, 0 if most have none.
type MoreCalls struct {
	Thread string `json:"thread"` // thread that makes them
	CallSum
	UsualCalls int64 `json:"usual_calls"`           // median number in typical steps with such calls, 0 if most have none
	UsualBytes int64 `json:"usual_bytes,omitempty"` // the same of bytes
	UsualNS    int64 `json:"usual_ns"`              // the same of time
}

// Copies reports whether the calls copy far more than usual.
func (m *MoreCalls) Copies() bool {
	return m.Direction != "" && m.Bytes >= max(smallCopy, 2*uint64(m.UsualBytes))
}

// smallCopy is the size below which a copy takes about the same time for any size.
const smallCopy = 64 << 10

// callGroup has a thread's calls of one function, copies in one direction.
type callGroup struct {
	fn, direction      string
	now                callTotal // in the current step
	calls, bytes, took Histogram // of the typical steps with such calls
}

// longCalls are the calls of a group in the longest step.
type longCalls struct {
	group  *callGroup
	thread int
	callTotal
}

// more returns what the longest of n typical steps has more of than most.
func (x *Splitter) more() (out *MoreCalls) {
	for _, c := range x.calls {
		g, m := c.group, &MoreCalls{CallSum: CallSum{Func: c.group.fn, Direction: c.group.direction, callTotal: c.callTotal}}
		m.Thread, _ = x.thread(c.thread)
		if 2*int64(g.calls.n) > x.n {
			m.UsualCalls, m.UsualBytes, m.UsualNS = g.calls.Percentile(50), g.bytes.Percentile(50), g.took.Percentile(50)
		}
		if !m.Copies() && (m.Thread != x.longest.Thread || m.NS <= m.UsualNS) {
			continue
		}
		if out == nil || m.Copies() && !out.Copies() || m.Copies() == out.Copies() && m.NS-m.UsualNS > out.NS-out.UsualNS {
			out = m
		}
	}
	return out
}

// Gap is time of the program before a call of a step, own or blocked, on one thread. Call, Next and Step show one of them: in the latest typical step, or the longest
// if the gap is long in some steps only.
type Gap struct {
	Before    int     `json:"before"`               // next call's place in the step, from 1; one more after the last call
	After     string  `json:"after,omitempty"`      // function of the call before the gap, "" at the start of a step
	Func      string  `json:"func,omitempty"`       // function of the next call, "" at the end of a step
	NS        int64   `json:"ns"`                   // mean time in typical steps, or time in the one step
	BlockedNS int64   `json:"blocked_ns,omitempty"` // part in which the thread did not run
	Steps     int64   `json:"steps,omitempty"`      // typical steps in which it takes a tenth or more, and at least half of the longest time
	LongNS    int64   `json:"long_ns,omitempty"`    // mean time in these steps
	Copy      bool    `json:"copy,omitempty"`       // a copy to the device follows, at most two calls later
	Step      *int    `json:"step,omitempty"`       // number of a step with the gap
	Call      *uint64 `json:"call,omitempty"`       // number of the call before the gap in that step, nil at its start
	Next      *uint64 `json:"next,omitempty"`       // number of the next call, nil at the end of the step
}

// Rare reports whether most of the gap's time is in fewer than half of n steps.
func (g *Gap) Rare(n int64) bool {
	return g.Steps > 0 && 2*g.Steps < n && 2*g.LongNS*g.Steps > g.NS*n
}

// Spread sums up own times before calls of one function.
type Spread struct {
	Func string `json:"func"` // function of the calls
	Gaps int64  `json:"gaps"` // number of these calls in a step
	NS   int64  `json:"ns"`   // mean own time in a step before all of them
}

// gapBudget bounds the memory of all gaps.
type gapBudget struct{ used int }

// maxGaps is the number of gaps that are kept apart, 27 MiB.
const maxGaps = 1 << 17

// gaps sums up a thread's own times by their place in a step.
type gaps struct {
	places []place
	calls  int // in the current step
	long   LongCall
	first  idle // before the first call of the step, whose start is start
	start  int64
	tail   int                // place of the time after the last call of the latest typical step, until the thread's next call divides it
	took   int64              // duration of that step, 0 for none
	before map[string]*Spread // sums over typical steps of own times before calls, by function
}

// idle is a time between two calls of a thread, or a part of it: in the recorder, blocked, and own.
type idle struct{ ns, recording, blocked int64 }

// part returns ns of the time, divided as the whole.
func (i idle) part(ns int64) idle {
	switch {
	case ns <= 0 || i.ns <= 0:
		return idle{}
	case ns >= i.ns:
		return i
	}
	of := float64(ns) / float64(i.ns)
	return idle{ns, int64(of * float64(i.recording)), int64(of * float64(i.blocked))}
}

// program returns the time outside of the recorder.
func (i idle) program() int64 { return i.ns - i.recording }

// noCall stands for no call in a seen gap.
const noCall = timeline.NoCall

// seen is a gap in one step.
type seen struct {
	ns, blocked int64
	step        int
	call, next  uint64 // calls before and after it, noCall for none
	after, fn   string // their functions, "" for none
	// copies, marks, waits: the next call copies to the device, is a range or a mark, or waits for an event or the device.
	// busy: other threads launched in the second half of the time between the two calls, so nothing was late.
	copies, marks, waits, busy bool

	upToCopy int8 // calls up to a copy to the device, the copy included; 0 for none, or too many
}

// place is a place in a step: before a call, or after the last one.
type place struct {
	now     seen  // in the current step
	sum     int64 // in typical steps
	blocked int64
	latest  seen            // in the latest typical step with a gap
	long    map[int]*longer // in typical steps of which it takes a good part, by size
}

// longer sums up gaps of about one size: sizes are quarters of a power of two.
type longer struct {
	n, sum int64
	most   seen
}

// call adds the time before a call in a step. busy means that other threads launched meanwhile, see seen.
func (g *gaps) call(b *gapBudget, h *timeline.HostCall, k *timeline.Task, before idle, busy bool) {
	if ns := h.End - h.Start; ns > g.long.NS {
		g.long = LongCall{h.Index, h.Name, ns}
	}
	if g.calls == 0 {
		g.first, g.start = before, h.Start
	}
	if p := g.put(b, seen{ns: before.program(), blocked: before.blocked, step: h.During, call: noCall, next: h.Index, fn: h.Name}); p != nil {
		now := &p.now
		if g.calls > 0 {
			now.call, now.after = g.places[g.calls-1].now.next, g.places[g.calls-1].now.fn
		}
		now.copies = k != nil && k.Kind == api.Copy && k.Direction() == "HtoD"
		now.busy = busy
		now.marks = h.Fn != nil && h.Fn.Range != api.NoRange
		now.waits = h.Fn != nil && (h.Fn.Sync == api.SyncEvent || h.Fn.Sync == api.SyncDevice)
	}
	g.calls++
}

// put sets the gap at the current place. It returns nil if there is no room.
func (g *gaps) put(b *gapBudget, now seen) *place {
	for len(g.places) <= g.calls {
		if b.used == maxGaps {
			return nil
		}
		b.used++
		g.places = append(g.places, place{})
	}
	p := &g.places[g.calls]
	p.now = now
	return p
}

// outside takes the time before a step from the gap before its first call, and returns it.
func (g *gaps) outside(s *step.Step) (out idle) {
	if g.calls == 0 {
		return out
	}
	if out = g.first.part(min(s.From, g.start) - (g.start - g.first.ns)); len(g.places) > 0 {
		now := &g.places[0].now
		now.ns, now.blocked = now.ns-out.program(), now.blocked-out.blocked
	}
	return out
}

// step ends a step. tail is the time after its last call.
func (g *gaps) step(b *gapBudget, counts bool, s *step.Step, tail int64) {
	if g.calls == 0 {
		return
	}
	last := seen{next: noCall}
	if g.calls <= len(g.places) {
		last = g.places[g.calls-1].now
	}
	end := g.put(b, seen{ns: max(tail, 0), step: s.Index, call: last.next, next: noCall, after: last.fn})
	for i := range min(len(g.places), g.calls+1) {
		p := &g.places[i]
		if p == end && counts {
			g.tail, g.took = i, s.To-s.From
			continue
		}
		if counts {
			p.now.upToCopy = g.upToCopy(i)
			g.add(p)
			p.count(s.To - s.From)
		}
		p.now = seen{call: noCall, next: noCall}
	}
	g.calls, g.long, g.first = 0, LongCall{}, idle{}
}

// settle divides the time after the last call of a step: it is a part of the time before the thread's next call.
func (g *gaps) settle(whole idle) {
	if g.took == 0 {
		return
	}
	p := &g.places[g.tail]
	of := whole.part(p.now.ns)
	p.now.ns, p.now.blocked = p.now.ns-of.recording, of.blocked
	p.count(g.took)
	p.now, g.took = seen{call: noCall, next: noCall}, 0
}

// add adds the own time before a call of a typical step to its function's sum.
func (g *gaps) add(p *place) {
	own := p.now.ns - p.now.blocked
	if own <= 0 {
		return
	}
	s := g.before[p.now.fn]
	if s == nil {
		if g.before == nil {
			g.before = map[string]*Spread{}
		}
		s = &Spread{Func: p.now.fn}
		g.before[p.now.fn] = s
	}
	s.Gaps, s.NS = s.Gaps+1, s.NS+own
}

// count adds a typical step.
func (p *place) count(took int64) {
	p.sum, p.blocked = p.sum+p.now.ns, p.blocked+p.now.blocked
	if p.now.ns > 0 {
		p.latest = p.now
	}
	if p.now.ns > 0 && float64(p.now.ns) >= worthShare*float64(took) {
		size := int(4 * math.Log2(float64(p.now.ns)))
		l := p.long[size]
		if l == nil {
			if p.long == nil {
				p.long = map[int]*longer{}
			}
			l = &longer{}
			p.long[size] = l
		}
		if l.n, l.sum = l.n+1, l.sum+p.now.ns; p.now.ns > l.most.ns {
			l.most = p.now
		}
	}
}

// longest sums up the longest gap and those that take at least about half of its time: shorter ones are of another kind.
func (p *place) longest() (out longer) {
	most := slices.Max(append(slices.Collect(maps.Keys(p.long)), 0))
	for size, l := range p.long {
		if size <= most-4 {
			continue
		}
		if out.n, out.sum = out.n+l.n, out.sum+l.sum; l.most.ns > out.most.ns {
			out.most = l.most
		}
	}
	return out
}

// gapAt returns a gap at a place.
func (g *gaps) gapAt(i int, at seen) *Gap {
	out := &Gap{Before: i + 1, After: at.after, Func: at.fn, NS: at.ns, BlockedNS: at.blocked, Step: &at.step}
	if at.call != noCall {
		out.Call = &at.call
	}
	if at.next != noCall {
		out.Next = &at.next
	}
	out.Copy = at.upToCopy > 0
	return out
}

// nearCopy is the number of calls after a gap one of which is the copy that it delays.
const nearCopy = 3

// upToCopy returns the number of calls from a gap of the current step up to a copy to the device, 0 for none. Marks don't count: a framework marks its loader.
// A program that first waits for an event or for the device does not wait for a batch, and neither does one whose other threads launch meanwhile, as they do to
// compute gradients.
func (g *gaps) upToCopy(i int) (n int8) {
	if i < min(g.calls, len(g.places)) && g.places[i].now.busy {
		return 0
	}
	for ; i < min(g.calls, len(g.places)) && n < nearCopy; i++ {
		switch now := &g.places[i].now; {
		case now.copies:
			return n + 1
		case now.waits:
			return 0
		case !now.marks:
			n++
		}
	}
	return 0
}

// widest returns the gap of the current step that is most above the mean of the n typical steps before, nil for none.
func (g *gaps) widest(index int, tail, n int64) *Gap {
	most, at := int64(0), -1
	above := func(i int, ns int64) int64 { return ns - g.places[i].sum/max(n, 1) }
	for i := range g.places[:min(g.calls, len(g.places))] {
		if ns := above(i, g.places[i].now.ns); ns > most {
			most, at = ns, i
		}
	}
	if at < 0 {
		return nil
	}
	if g.calls < len(g.places) && above(g.calls, tail) > most {
		last := &g.places[g.calls-1].now
		return g.gapAt(g.calls, seen{ns: tail, step: index, call: last.next, next: noCall, after: last.fn})
	}
	now := g.places[at].now
	now.upToCopy = g.upToCopy(at)
	return g.gapAt(at, now)
}

// means returns the mean times of n typical steps, by place.
func (g *gaps) means(n int64) []Gap {
	g.settle(idle{})
	var out []Gap
	for i := range g.places {
		p := &g.places[i]
		if p.sum <= 0 {
			continue
		}
		gap, l := g.mean(i, n, p.latest), p.longest()
		if gap.Rare(n) {
			gap = g.mean(i, n, l.most)
		}
		out = append(out, gap)
	}
	return out
}

// mean returns the mean gap of n typical steps at a place, and one of them.
func (g *gaps) mean(i int, n int64, at seen) Gap {
	p := &g.places[i]
	out := *g.gapAt(i, at)
	out.NS, out.BlockedNS = p.sum/n, p.blocked/n
	if l := p.longest(); l.n > 0 {
		out.Steps, out.LongNS = l.n, l.sum/l.n
	}
	return out
}

// stalls returns the gaps that are long in fewer than half of n typical steps, each with its longest time, in which no other thread launches.
func (g *gaps) stalls(n int64) (out []Gap) {
	g.settle(idle{})
	for i := range g.places {
		if l := g.places[i].longest(); l.n > 0 && 2*l.n < n && !l.most.busy {
			out = append(out, g.mean(i, n, l.most))
		}
	}
	return out
}

// spread returns the function before whose calls most own time of n typical steps is, if those are several a step, nil for none.
func (g *gaps) spread(n int64) (out *Spread) {
	for _, sum := range g.before {
		s := &Spread{sum.Func, (sum.Gaps + n/2) / n, sum.NS / n}
		if s.Gaps > 1 && (out == nil || cmp.Or(cmp.Compare(s.NS, out.NS), cmp.Compare(out.Func, s.Func)) > 0) {
			out = s
		}
	}
	return out
}

// topCalls sums up the time in calls by what they do and by their function, and for copies by direction.
type topCalls struct {
	parts [PartOwn]struct {
		sums   map[callKey]*callSum
		latest *callSum
	}
	groups  []*callGroup
	touched []*callSum // with calls in the current step
}

// callKey identifies calls that are alike. Copies of different sizes are not.
type callKey struct {
	fn, direction string
	bytes         uint64
}

// maxCallSums bounds the sums of an activity. Copies beyond have no size of their own.
const maxCallSums = 256

// CallSum sums up calls to one function that wait, launch, copy, or do something else.
type CallSum struct {
	Func      string `json:"func"`                // function
	Direction string `json:"direction,omitempty"` // of copies
	callTotal
	size uint64
}

type callTotal struct {
	Calls uint64 `json:"calls"`           // number of calls
	Bytes uint64 `json:"bytes,omitempty"` // bytes that they copy
	NS    int64  `json:"ns"`              // time in them
}

func (t *callTotal) add(o callTotal) {
	t.Calls, t.Bytes, t.NS = t.Calls+o.Calls, t.Bytes+o.Bytes, t.NS+o.NS
}

// callSum has the sums of equal calls.
type callSum struct {
	callKey
	group             *callGroup
	now, typical, all callTotal // in the current step, in typical steps, and in all of them or in a trace without steps
}

func (c *topCalls) add(what Part, h *timeline.HostCall, k *timeline.Task, took int64) {
	t := &c.parts[what]
	key := callKey{fn: h.Name}
	if k != nil && k.Kind == api.Copy {
		if key.direction = k.Direction(); len(t.sums) < maxCallSums {
			key.bytes = k.Bytes
		}
	}
	s := t.latest
	if s == nil || s.callKey != key {
		if s = t.sums[key]; s == nil {
			if t.sums == nil {
				t.sums = map[callKey]*callSum{}
			}
			s = &callSum{callKey: key, group: c.group(h.Name, key.direction)}
			t.sums[key] = s
		}
		t.latest = s
	}
	if s.now.Calls == 0 {
		c.touched = append(c.touched, s)
	}
	one := callTotal{Calls: 1, NS: took}
	if k != nil {
		one.Bytes = k.Bytes
	}
	s.now.add(one)
	s.all.add(one)
	s.group.now.add(one)
}

// typical returns the number of calls in typical steps.
func (c *topCalls) typical() (n uint64) {
	for i := range c.parts {
		for _, s := range c.parts[i].sums {
			n += s.typical.Calls
		}
	}
	return n
}

// group returns the group of a function's calls.
func (c *topCalls) group(fn, direction string) *callGroup {
	for _, g := range c.groups {
		if g.fn == fn && g.direction == direction {
			return g
		}
	}
	g := &callGroup{fn: fn, direction: direction}
	c.groups = append(c.groups, g)
	return g
}

// step ends a step. Only calls in a step that counts are in the sums over typical steps.
func (c *topCalls) step(counts bool) {
	for _, s := range c.touched {
		if counts {
			s.typical.add(s.now)
		}
		s.now = callTotal{}
	}
	for _, g := range c.groups {
		if n := &g.now; counts && n.Calls > 0 {
			g.calls.Add(int64(n.Calls))
			g.bytes.Add(int64(n.Bytes))
			g.took.Add(n.NS)
		}
		g.now = callTotal{}
	}
	c.touched = c.touched[:0]
}

// most returns the calls with most time in an activity, in typical steps or in all of them, nil for none.
func (c *topCalls) most(what Part, typical bool) *CallSum {
	if what == PartOwn {
		return nil
	}
	var out *CallSum
	for k, s := range c.parts[what].sums {
		sum := s.all
		if typical {
			sum = s.typical
		}
		if sum.Calls > 0 && (out == nil || cmp.Or(cmp.Compare(sum.NS, out.NS), cmp.Compare(out.Func, k.fn), cmp.Compare(out.Direction, k.direction), cmp.Compare(out.size, k.bytes)) > 0) {
			out = &CallSum{k.fn, k.direction, sum, k.bytes}
		}
	}
	return out
}

// Shares divide a typical step on the thread that makes the steps. Without steps they divide the time of the thread that launches most.
type Shares struct {
	Steps   int64  `json:"steps"`   // typical steps, 0 for the whole time
	NS      int64  `json:"ns"`      // time that is divided: a step's mean, or the thread's time
	Thread  string `json:"thread"`  // thread name
	Process int    `json:"process"` // process id
	Rank    *int   `json:"rank"`    // rank of the process, null if not known
	Parts
	Gaps   []Gap   `json:"gaps,omitempty"`          // the longest own times, at most ten
	Spread *Spread `json:"spread,omitempty"`        // most of the own time before calls of one function
	Driver *Thread `json:"launches_from,omitempty"` // thread from which the launches come, if this one mostly waits for them
}

// shares returns the shares, nil if nothing has a duration.
func (x *Splitter) shares() *Shares {
	d, i := x.main()
	if d == nil {
		return nil
	}
	s := &Shares{Steps: x.n}
	s.Thread, s.Process = x.thread(i)
	s.Rank = rankOf(x.w, x.w.Process(uint32(i)))
	if x.n == 0 {
		s.NS = d.last - d.first
		s.Parts = partsOf(&d.all, s.NS)
		return s
	}
	of := d.sum
	for j := range of {
		of[j] /= x.n
	}
	s.NS = x.took / x.n
	s.Parts = partsOf(&of, s.NS)
	if from, at := x.driver(); from != d {
		s.Driver = &Thread{Parts: x.mean(from), DeviceNS: from.onSum / x.n}
		s.Driver.Thread, s.Driver.Process = x.thread(at)
	}
	s.Gaps = d.gaps.means(x.n)
	s.Spread = d.gaps.spread(x.n)
	slices.SortStableFunc(s.Gaps, func(a, b Gap) int { return cmp.Compare(b.NS, a.NS) })
	s.Gaps = s.Gaps[:min(len(s.Gaps), longest)]
	return s
}
