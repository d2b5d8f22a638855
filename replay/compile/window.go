package compile

import (
	"iter"
	"math"
	"sort"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// The compiler goes through the calls once, in the order of their beginnings. Of each thread it knows a window of calls: from the first one
// whose instructions can still change to the last one that it had to look ahead for. A call leaves the window once its instructions are
// written. So memory goes by how many calls overlap, and by how long results are on their way, and not by the length of the trace.

// program is the part of one captured thread: its calls in order.
type Thread struct {
	thread  uint32 // index into the trace's threads
	TID     int
	Process int // index into Plan.procs
	out     *plan.ThreadWriter

	polls map[*api.Func]bool // functions among its calls that run functions of the program

	window   []*group // calls that are read and not yet written
	base     int      // number of the first of them
	syncs    numbers  // those that wait for the device
	records  numbers  // those that record an event on a stream
	compiled int      // number of the call that is compiled next
	laid     int      // number of the call that is laid out next
	pollsAt  int      // number of the first call of an open run of polls, -1 if none is open

	forker forker
	prefix []plan.Instruction // to be put before the call that is laid out next
	count  uint64             // instructions laid out
	known  []int              // by thread: calls of it that have been played for sure

	clocked []int // 1 + the number of the instruction of the last call, 0 if there is none: of any stream, then by stream
}

// A group is what becomes of one call: what is stored before it, the call, and what is compared after it.
type group struct {
	call       uint64
	fn         *api.Func
	start, end int64
	stream     int    // index into Plan.lanes, -1 for none
	names      uint64 // number of the stream of a wait or of the record of an event
	event      uint64 // handle of the event of either
	unready    bool   // it asked, and was told that not all is complete
	on         uint64 // number of the stream that its task goes to
	kernel     uint32 // number of the name of the kernel that it launches, 0 for none
	insts      []plan.Instruction
	waits      []wait             // before the group
	order      []wait             // before the group, for calls that had ended
	late       []plan.Instruction // results of earlier copies that are complete after this call
	lateWaits  []wait             // before those
	poll       pollKey
	finish     *finish // nil if no other thread waits for it
	finished   uint64  // instructions of the thread up to its end, once it is laid out
}

// forker is the last call of a thread that has left the window and behind which a process may be forked.
type forker struct {
	made bool
	call uint64
	end  int64
}

// place is a call of a thread.
type place struct{ thread, group int }

// finish says when a call has been played: once its thread has played so many instructions.
type finish struct {
	laid  bool
	count uint64
}

// wait is for a call of another thread.
type wait struct {
	thread int
	*finish
}

// group returns a call that is in the window, or nil.
func (pr *Thread) group(n int) *group {
	if n < pr.base || n >= pr.base+len(pr.window) {
		return nil
	}
	return pr.window[n-pr.base]
}

// numbers are those of calls in a window, in their order.
type numbers []int

// before returns how many of the calls started before a time.
func (ns numbers) before(pr *Thread, t int64) int {
	return sort.Search(len(ns), func(i int) bool { return pr.group(ns[i]).start >= t })
}

// leave takes a call away that leaves the window.
func (ns *numbers) leave(n int) {
	if len(*ns) > 0 && (*ns)[0] == n {
		*ns = (*ns)[1:]
	}
}

// read is the number of calls that were read.
func (pr *Thread) read() int { return pr.base + len(pr.window) }

// startedBefore returns the number of the first call in the window that started at a time or later.
func (pr *Thread) startedBefore(t int64) int {
	return pr.base + sort.Search(len(pr.window), func(k int) bool { return pr.window[k].start >= t })
}

// endedBefore returns the number of the first call that ended at a time or later. All that left the window ended before any call
// that is to be compiled began.
func (pr *Thread) endedBefore(t int64) int {
	return pr.base + sort.Search(len(pr.window), func(k int) bool { return pr.window[k].end >= t })
}

// waitFor returns a wait for the end of a call, which may have left the window.
func (p *compiler) waitFor(at place) wait {
	pr := &p.Threads[at.thread]
	g := pr.group(at.group)
	switch {
	case g == nil: // then it has been laid out, and what comes after it in the plan has ended too
		return wait{at.thread, &finish{true, pr.written()}}
	case g.finish == nil:
		g.finish = &finish{at.group < pr.laid, g.finished}
	}
	return wait{at.thread, g.finish}
}

// written is the number of instructions up to the first call of the window.
func (pr *Thread) written() uint64 { return uint64(pr.out.Count()) }

// calls iterates over the calls in the order of their starts.
func (p *compiler) calls(f *format.Filter) iter.Seq2[*format.Call, error] {
	if p.sorted {
		return p.r.Calls(f)
	}
	return p.r.CallsByStart(f)
}

// A header is what a window holds of a call that is not compiled yet.
type header struct {
	fn         *api.Func
	call       uint64
	start, end int64
	thread     int    // index into Plan.Threads
	names      uint64 // as in group
	event      uint64 // as in group
	unready    bool   // as in group
}

// lookahead reads the headers of a trace into the windows, some at a time.
type lookahead struct {
	next func() ([]header, error, bool)
	stop func()
	some []header // read, and in no window yet
	used []*group // for reuse
	at   int64    // start of the last call in a window
}

// aheadCalls is how many headers are read at a time.
const aheadCalls = 128

func (p *compiler) newLookahead() lookahead {
	next, stop := iter.Pull2(p.headers())
	return lookahead{next: next, stop: stop, at: math.MinInt64}
}

// headers iterates over the headers of all calls. A slice is valid until the next one.
func (p *compiler) headers() iter.Seq2[[]header, error] {
	return func(yield func([]header, error) bool) {
		some := make([]header, 0, aheadCalls)
		for c, err := range p.calls(&format.Filter{NoData: true}) {
			if err != nil {
				yield(nil, err)
				return
			}
			some = append(some, p.header(c))
			if len(some) == aheadCalls {
				if !yield(some, nil) {
					return
				}
				some = some[:0]
			}
		}
		if len(some) > 0 {
			yield(some, nil)
		}
	}
}

func (p *compiler) header(c *format.Call) header {
	fn := p.Model.Func(api.ID(c.Func))
	h := header{fn: fn, call: c.Index, start: c.Start, end: c.End, thread: p.thread[c.Thread]}
	if fn != nil && (fn.Sync != api.NoSync || fn.Task == api.Record) && len(c.Args) == int(fn.Words) {
		if fn.Stream >= 0 {
			h.names = p.Model.StreamOf(fn, c.Args[fn.Params[fn.Stream].Word], c.Thread)
		}
		if fn.Event >= 0 {
			h.event = c.Args[fn.Params[fn.Event].Word]
		}
		h.unready = (fn.Sync == api.PollStream || fn.Sync == api.PollEvent) && !timeline.Polled(p.Model, fn, c)
	}
	return h
}

// ahead reads all calls that start at a time or earlier, and one more.
func (p *compiler) ahead(until int64) error {
	for p.look.at <= until {
		if len(p.look.some) == 0 {
			some, err, ok := p.look.next()
			if !ok {
				p.look.at = math.MaxInt64
				return nil
			}
			if err != nil {
				return err
			}
			p.look.some = some
		}
		h := &p.look.some[0]
		p.look.some = p.look.some[1:]
		p.look.at = h.start
		if h.fn != nil && (h.fn.Composite || h.fn.Annotation) {
			continue
		}
		pr := &p.Threads[h.thread]
		if h.fn != nil && h.fn.Sync != api.NoSync {
			pr.syncs = append(pr.syncs, pr.read())
		}
		if h.fn != nil && h.fn.Task == api.Record && h.fn.Graph < 0 {
			pr.records = append(pr.records, pr.read())
		}
		pr.window = append(pr.window, p.newGroup(h))
	}
	return nil
}

func (p *compiler) newGroup(h *header) *group {
	var g *group
	if n := len(p.look.used); n > 0 {
		g, p.look.used = p.look.used[n-1], p.look.used[:n-1]
	} else {
		g = &group{}
	}
	*g = group{
		call: h.call, fn: h.fn, start: h.start, end: h.end, stream: -1, names: h.names, event: h.event, unready: h.unready,
		insts: g.insts[:0], waits: g.waits[:0], order: g.order[:0], late: g.late[:0], lateWaits: g.lateWaits[:0],
	}
	return g
}
