package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// LongStep is the longest of the typical steps, on the thread that made it.
type LongStep struct {
	Index int   `json:"step"` // number of the step, from 0
	NS    int64 `json:"ns"`   // duration of the step
	Parts
	Call LongCall `json:"longest_call"` // longest call of the step
	Gap  *Gap     `json:"longest_gap"`  // longest own time of the program in the step, nil for none
}

// LongCall is a long call.
type LongCall struct {
	Call uint64 `json:"call"` // call number
	Func string `json:"func"` // function
	NS   int64  `json:"ns"`   // duration
}

// Gap is own time of the program before a call of a step. Calls are counted from 1, on one thread.
type Gap struct {
	Before int    `json:"before"`            // next call's place in the step, from 1; one more after the last call
	After  string `json:"after,omitempty"`   // function of the call before the gap, "" at the start of a step
	Func   string `json:"func,omitempty"`    // function of the next call, "" at the end of a step
	NS     int64  `json:"ns"`                // mean own time in typical steps, or own time in the one step
	Steps  int64  `json:"steps,omitempty"`   // typical steps of which it takes a tenth or more
	LongNS int64  `json:"long_ns,omitempty"` // mean own time in these steps
}

// Spread sums up own times before calls of one function.
type Spread struct {
	Func string `json:"func"` // function of the calls
	Gaps int64  `json:"gaps"` // number of these calls in a step
	NS   int64  `json:"ns"`   // mean own time in a step before all of them
}

// gapBudget bounds the memory of all gaps.
type gapBudget struct{ used int }

// maxGaps is the number of gaps that are kept apart, 18 MiB.
const maxGaps = 1 << 18

// gaps sums up a thread's own times by their place in a step.
type gaps struct {
	places []place
	calls  int // in the current step
	long   LongCall
}

// place is a place in a step: before a call, or after the last one.
type place struct {
	now   int64  // in the current step
	next  string // function of the call in the current step
	usual string // function of the call in most typical steps
	votes int    // for usual, more than against it
	sum   int64  // in typical steps
	long  int64  // in typical steps of which it takes a good part
	often int64  // number of these steps
}

// call adds the own time before a call. idle is the time since when no call ran on the thread.
func (g *gaps) call(b *gapBudget, h *timeline.HostCall, idle int64) {
	if h.Start < idle && g.calls > 0 {
		return // in another call
	}
	if ns := h.End - h.Start; ns > g.long.NS {
		g.long = LongCall{h.Index, h.Name, ns}
	}
	own := max(h.Start-idle-h.Recording, 0)
	if idle == 0 { // the first call of the thread
		own = 0
	}
	g.put(b, own, h.Name)
	g.calls++
}

func (g *gaps) put(b *gapBudget, own int64, name string) {
	for len(g.places) <= g.calls {
		if b.used == maxGaps {
			return
		}
		b.used++
		g.places = append(g.places, place{})
	}
	g.places[g.calls].now, g.places[g.calls].next = own, name
}

// step ends a step of a duration. tail is the own time after its last call.
func (g *gaps) step(b *gapBudget, counts bool, took, tail int64) {
	if g.calls == 0 {
		return
	}
	g.put(b, max(tail, 0), "")
	for i := range min(len(g.places), g.calls+1) {
		p := &g.places[i]
		if counts {
			p.count(took)
		}
		p.now = 0
	}
	g.calls, g.long = 0, LongCall{}
}

// count adds a typical step.
func (p *place) count(took int64) {
	p.sum += p.now
	if float64(p.now) >= worthShare*float64(took) {
		p.long, p.often = p.long+p.now, p.often+1
	}
	switch { // a majority vote: a step may have more calls or fewer
	case p.votes == 0:
		p.usual, p.votes = p.next, 1
	case p.usual == p.next:
		p.votes++
	default:
		p.votes--
	}
}

// gapAt returns the gap at a place, where function names a place's call.
func (g *gaps) gapAt(i int, ns int64, function func(*place) string) *Gap {
	out := &Gap{Before: i + 1, Func: function(&g.places[i]), NS: ns}
	if i > 0 {
		out.After = function(&g.places[i-1])
	}
	return out
}

// widest returns the longest gap of the current step, nil for none.
func (g *gaps) widest(tail int64) *Gap {
	most, at := int64(0), -1
	for i := range g.places[:min(g.calls, len(g.places))] {
		if ns := g.places[i].now; ns > most {
			most, at = ns, i
		}
	}
	if at < 0 {
		return nil
	}
	next := func(p *place) string { return p.next }
	if tail > most && g.calls < len(g.places) {
		out := g.gapAt(g.calls, tail, next)
		out.Func = ""
		return out
	}
	return g.gapAt(at, most, next)
}

// means returns the mean own times of n typical steps, by place.
func (g *gaps) means(n int64) []Gap {
	var out []Gap
	for i := range g.places {
		if p := &g.places[i]; p.sum > 0 {
			gap := g.gapAt(i, p.sum/n, func(p *place) string { return p.usual })
			if gap.Steps = p.often; p.often > 0 {
				gap.LongNS = p.long / p.often
			}
			out = append(out, *gap)
		}
	}
	return out
}

// spread returns the function before whose calls most own time is, if those are several, nil for none.
func spread(list []Gap) *Spread {
	var out *Spread
	byFunc := map[string]*Spread{}
	for i := range list {
		g := &list[i]
		s := byFunc[g.Func]
		if s == nil {
			s = &Spread{Func: g.Func}
			byFunc[g.Func] = s
		}
		s.Gaps, s.NS = s.Gaps+1, s.NS+g.NS
		if s.Func != "" && s.Gaps > 1 && (out == nil || s.NS > out.NS) {
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
	touched []*callSum // with calls in the current step
}

type callKey struct{ fn, direction string }

// CallSum sums up calls to one function that wait, launch, copy, or do something else.
type CallSum struct {
	Func      string `json:"func"`
	Direction string `json:"direction,omitempty"` // of copies
	callTotal
}

type callTotal struct {
	Calls uint64 `json:"calls"`
	Bytes uint64 `json:"bytes,omitempty"`
	NS    int64  `json:"ns"`
}

func (t *callTotal) add(o callTotal) {
	t.Calls, t.Bytes, t.NS = t.Calls+o.Calls, t.Bytes+o.Bytes, t.NS+o.NS
}

// callSum has the sums of equal calls.
type callSum struct {
	callKey
	now, typical, all callTotal // in the current step, in typical steps, and in all of them or in a trace without steps
}

func (c *topCalls) add(what Part, h *timeline.HostCall, k *timeline.Task, took int64) {
	key := callKey{fn: h.Name}
	if k != nil && k.Kind == api.Copy {
		key.direction = k.Direction()
	}
	t := &c.parts[what]
	s := t.latest
	if s == nil || s.callKey != key {
		if s = t.sums[key]; s == nil {
			if t.sums == nil {
				t.sums = map[callKey]*callSum{}
			}
			s = &callSum{callKey: key}
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
}

// step ends a step. Only calls in a step that counts are in the sums over typical steps.
func (c *topCalls) step(counts bool) {
	for _, s := range c.touched {
		if counts {
			s.typical.add(s.now)
		}
		s.now = callTotal{}
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
		if sum.Calls > 0 && (out == nil || cmp.Or(cmp.Compare(sum.NS, out.NS), cmp.Compare(out.Func, k.fn), cmp.Compare(out.Direction, k.direction)) > 0) {
			out = &CallSum{k.fn, k.direction, sum}
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
	Rank    *int   `json:"rank"`    // rank of the process in a merged trace, otherwise null
	Parts
	Gaps   []Gap   `json:"gaps,omitempty"`   // the longest own times, at most ten
	Spread *Spread `json:"spread,omitempty"` // most of the own time before calls of one function
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
	s.Gaps = d.gaps.means(x.n)
	s.Spread = spread(s.Gaps)
	slices.SortStableFunc(s.Gaps, func(a, b Gap) int { return cmp.Compare(b.NS, a.NS) })
	s.Gaps = s.Gaps[:min(len(s.Gaps), longest)]
	return s
}
