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

// The compiler reads the calls once, ordered by start time. It keeps a window of calls for each thread: from the first call whose
// instructions can still change to the last call that it looked ahead to. A call leaves the window when its instructions are written. So
// memory grows with overlapping calls and result latency, not with the trace's length.

// A Thread is a captured thread with its window of calls.
type Thread struct {
	thread  uint32 // index into the trace's threads
	TID     int
	Process int // index into Plan.procs
	out     *plan.ThreadWriter

	polls map[*api.Func]bool // functions that it calls and that run callbacks

	window   []*group // calls that were read and are not written yet
	base     int      // the window's first call
	syncs    numbers  // calls in the window that wait for the device
	compiled int      // next call to compile
	laid     int      // next call to lay out

	forker forker
	prefix []plan.Instruction // goes before the next call that is laid out
	count  uint64             // instructions laid out
	known  []int              // by thread: how many of its calls this thread has waited for

	clocked []int // 1 + the last call's instruction number, 0 for none: over all streams, then by stream
}

// A group has one call's instructions: stores before it, the call, and comparisons after it.
type group struct {
	groupState
	insts     []plan.Instruction
	waits     []wait             // before the group
	order     []wait             // before the group, for calls that ended earlier
	late      []plan.Instruction // comparisons for earlier copies that are complete after this call
	lateWaits []wait             // before late
}

// groupState is a group without its lists.
type groupState struct {
	taskPlace
	call       uint64
	fn         *api.Func
	start, end int64
	stream     int     // see compiler.lane
	kernel     uint32  // launched kernel's name, as a number, 0 for none
	finish     *finish // nil if no other thread waits for it
	finished   uint64  // thread instructions up to the group's end, once it is laid out
}

// A forker is a thread's last call that has left the window and after which a process may be forked.
type forker struct {
	made bool
	call uint64
	end  int64
}

// A place is a call in a thread.
type place struct{ thread, group int }

// finish is how many instructions a thread must have played for a call to be complete.
type finish struct {
	laid  bool
	count uint64
}

// A wait is for another thread's call.
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

// here returns the current call.
func (p *callCompiler) here() *group { return p.Threads[p.at.thread].group(p.at.group) }

// numbers are call numbers in a window, ascending.
type numbers []int

// before returns how many calls started before a time.
func (ns numbers) before(pr *Thread, t int64) int {
	return sort.Search(len(ns), func(i int) bool { return pr.group(ns[i]).start >= t })
}

// leave removes a call that leaves the window.
func (ns *numbers) leave(n int) {
	if len(*ns) > 0 && (*ns)[0] == n {
		*ns = (*ns)[1:]
	}
}

// read returns how many calls were read.
func (pr *Thread) read() int { return pr.base + len(pr.window) }

// startedBefore returns the first call in the window that started at a time or later.
func (pr *Thread) startedBefore(t int64) int {
	return pr.base + sort.Search(len(pr.window), func(k int) bool { return pr.window[k].start >= t })
}

// endedBefore returns the first call that ended at a time or later. All calls that left the window ended before the next call to compile
// began.
func (pr *Thread) endedBefore(t int64) int {
	return pr.base + sort.Search(len(pr.window), func(k int) bool { return pr.window[k].end >= t })
}

// waitFor returns a wait for a call's end. The call may have left the window.
func (p *compiler) waitFor(at place) wait {
	pr := &p.Threads[at.thread]
	g := pr.group(at.group)
	switch {
	case g == nil: // it is laid out, and all instructions written so far belong to calls that have ended
		return wait{at.thread, &finish{true, pr.written()}}
	case g.finish == nil:
		g.finish = &finish{at.group < pr.laid, g.finished}
	}
	return wait{at.thread, g.finish}
}

// written returns how many instructions precede the window.
func (pr *Thread) written() uint64 { return uint64(pr.out.Count()) }

// calls iterates over the calls in start order.
func (p *compiler) calls(f *format.Filter) iter.Seq2[*format.Call, error] {
	if p.sorted {
		return p.r.Calls(f)
	}
	return p.r.CallsByStart(f)
}

// lookahead reads calls into the windows, aheadCalls at a time.
type lookahead struct {
	next  func() (error, bool)
	stop  func()
	used  []*group        // for reuse
	at    int64           // start of the last call in any window
	state *timeline.State // of the threads' devices and contexts only
	tasks taskOrder
}

// aheadCalls is how many calls are read at a time.
const aheadCalls = 128

func (p *compiler) newLookahead() lookahead {
	next, stop := iter.Pull(p.readAhead())
	return lookahead{next: next, stop: stop, at: math.MinInt64, state: timeline.NewState(p.Model), tasks: newTaskOrder()}
}

// readAhead reads all calls into the windows. It pauses after every aheadCalls calls.
func (p *compiler) readAhead() iter.Seq[error] {
	return func(yield func(error) bool) {
		n := 0
		for c, err := range p.calls(&format.Filter{NoData: true}) {
			if err != nil {
				yield(err)
				return
			}
			p.look.at = c.Start
			p.enter(c)
			if n++; n%aheadCalls == 0 && !yield(nil) {
				return
			}
		}
		p.look.at = math.MaxInt64
	}
}

// ahead reads all calls that start at a time or earlier, and at least one more.
func (p *compiler) ahead(until int64) error {
	for p.look.at <= until {
		if err, more := p.look.next(); err != nil || !more {
			return err
		}
	}
	return nil
}

// enter adds a call to its thread's window. The call has no data.
func (p *compiler) enter(c *format.Call) {
	fn := p.Model.Func(api.ID(c.Func))
	if fn != nil && (fn.Composite || fn.Annotation) {
		return
	}
	pr := &p.Threads[p.thread[c.Thread]]
	if fn != nil && p.factsOf(fn).contexts {
		p.look.state.Apply(p.procs[pr.Process].process, c)
	}
	g := p.newGroup()
	g.call, g.fn, g.start, g.end, g.stream, g.lane, g.device = c.Index, fn, c.Start, c.End, -1, -1, timeline.NoDevice
	if fn != nil {
		p.ordered(pr, g, c)
	}
	pr.window = append(pr.window, g)
}

// newGroup returns an empty group. Its lists keep their memory.
func (p *compiler) newGroup() *group {
	n := len(p.look.used)
	if n == 0 {
		return &group{}
	}
	g := p.look.used[n-1]
	p.look.used = p.look.used[:n-1]
	g.groupState = groupState{taskPlace: taskPlace{covers: g.covers[:0]}}
	g.insts, g.waits, g.order, g.late, g.lateWaits = g.insts[:0], g.waits[:0], g.order[:0], g.late[:0], g.lateWaits[:0]
	return g
}
