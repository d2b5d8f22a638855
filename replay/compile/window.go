package compile

import (
	"iter"
	"math"
	"slices"
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

	clocked map[int]int // by stream, and -1 for all: number of the instruction of the last call
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
	kernel     string // that it launches, "" for none
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

// lookahead reads the calls of a trace into the windows.
type lookahead struct {
	next func() (*format.Call, error, bool)
	stop func()
	at   int64 // start of the last call that was read
}

func (p *compiler) newLookahead() lookahead {
	next, stop := iter.Pull2(p.r.CallsByStart(&format.Filter{NoData: true}))
	return lookahead{next, stop, math.MinInt64}
}

// ahead reads all calls that start at a time or earlier, and one more.
func (p *compiler) ahead(until int64) error {
	for p.look.at <= until {
		c, err, ok := p.look.next()
		if !ok {
			p.look.at = math.MaxInt64
			return nil
		}
		if err != nil {
			return err
		}
		p.look.at = c.Start
		fn := p.Model.Func(api.ID(c.Func))
		if fn != nil && (fn.Composite || fn.Annotation) {
			continue
		}
		t := p.thread[c.Thread]
		pr := &p.Threads[t]
		if fn != nil && fn.Sync != api.NoSync {
			pr.syncs = append(pr.syncs, pr.read())
		}
		if fn != nil && fn.Task == api.Record && fn.Graph < 0 {
			pr.records = append(pr.records, pr.read())
		}
		pr.window = append(pr.window, p.newGroup(fn, c))
	}
	return nil
}

func (p *compiler) newGroup(fn *api.Func, c *format.Call) *group {
	g := &group{}
	if n := len(p.used); n > 0 {
		g, p.used = p.used[n-1], p.used[:n-1]
	}
	*g = group{call: c.Index, fn: fn, start: c.Start, end: c.End, stream: -1, insts: g.insts[:0]}
	if fn != nil && (fn.Sync != api.NoSync || fn.Task == api.Record) && len(c.Args) == int(fn.Words) {
		if fn.Stream >= 0 {
			g.names = p.Model.StreamOf(fn, c.Args[fn.Params[fn.Stream].Word], c.Thread)
		}
		if fn.Event >= 0 {
			g.event = c.Args[fn.Params[fn.Event].Word]
		}
		g.unready = (fn.Sync == api.PollStream || fn.Sync == api.PollEvent) && !timeline.Polled(p.Model, fn, c)
	}
	return g
}

// emit writes the instructions of all calls that nothing can change any more, once the calls that started before a time are compiled:
// those that ended before it, without the polls of a run that may go on.
func (p *compiler) emit(frontier int64) {
	if frontier == math.MaxInt64 {
		defer func() {
			for t := range p.Threads {
				pr := &p.Threads[t]
				pr.out.Add(pr.prefix...)
			}
		}()
	}
	for t := range p.Threads {
		for p.layOut(&p.Threads[t], frontier) {
		}
	}
	for more := true; more; {
		more = false
		for t := range p.Threads {
			for p.writeNext(t) {
				more = true
			}
		}
	}
}

// layOut gives the next call of a thread, with the calls that it encloses, its place in the plan. It returns false if that is not known yet.
func (p *compiler) layOut(pr *Thread, frontier int64) bool {
	first := pr.group(pr.laid)
	if first == nil {
		return false
	}
	last := pr.laid
	if first.fn != nil && first.fn.PollsCallbacks {
		for g := pr.group(last + 1); g != nil && g.start < first.end; g = pr.group(last + 1) {
			last++
		}
	}
	for n := pr.laid; n <= last; n++ {
		if n >= pr.compiled || frontier != math.MaxInt64 && (pr.group(n).end >= frontier || pr.pollsAt >= 0 && n >= pr.pollsAt) {
			return false
		}
	}
	for n := pr.laid; n <= last; n++ {
		g := pr.group(n)
		if len(pr.prefix) > 0 {
			g.insts = slices.Insert(g.insts, 0, pr.prefix...)
			pr.prefix = nil
		}
		if !p.o.Backend.Computes() {
			p.calm(g)
		}
		pr.count += uint64(len(g.waits) + len(g.order) + len(g.insts) + len(g.lateWaits) + len(g.late))
		g.finished = pr.count
	}
	// Calls that were made in a function of the program's, which a call of the same thread ran, are made in the stub that it runs again.
	for n := last; n >= pr.laid && last > pr.laid; n-- {
		g := pr.group(n)
		inner := n
		for h := pr.group(inner + 1); h != nil && inner < last && h.start < g.end; h = pr.group(inner + 1) {
			inner++
		}
		if g.fn == nil || !g.fn.PollsCallbacks || inner == n || len(g.insts) == 0 || g.insts[len(g.insts)-1].Op != plan.OpUntil {
			continue
		}
		end := pr.group(inner).finished
		g.insts[len(g.insts)-1].Len = end - g.finished
		g.finished = end // they are finished together
	}
	for ; pr.laid <= last; pr.laid++ {
		if g := pr.group(pr.laid); g.finish != nil {
			*g.finish = finish{true, g.finished}
		}
	}
	return true
}

// writeNext writes the first call of a thread's window, and returns false if it is not laid out, or waits for one that is not.
func (p *compiler) writeNext(t int) bool {
	pr := &p.Threads[t]
	if pr.base >= pr.laid {
		return false
	}
	g := pr.window[0]
	for _, ws := range [...][]wait{g.waits, g.order, g.lateWaits} {
		for _, w := range ws {
			if !w.laid {
				return false
			}
		}
	}
	write := func(ws []wait) {
		for _, w := range ws {
			pr.out.Add(plan.Instruction{Op: plan.OpWait, Fn: uint32(w.thread), Want: w.count, Call: g.call})
		}
	}
	write(g.waits)
	write(g.order)
	p.clock(pr, g)
	add := func(insts []plan.Instruction) {
		p.graphs.locate(t, pr.out.Add(insts...), insts)
	}
	add(g.insts)
	write(g.lateWaits)
	add(g.late)
	if len(g.insts) > 0 && g.fn != nil && !g.fn.PollsCallbacks {
		pr.forker = forker{true, g.call, g.end}
	}
	pr.syncs.leave(pr.base)
	pr.records.leave(pr.base)
	pr.window[0] = nil
	pr.window = pr.window[1:]
	pr.base++
	p.used = append(p.used, g)
	return true
}

// clock says where the player reads its clock, which takes longer than all else that it does for a call: around calls that
// wait, where times of the report begin and end, and around every call where the pace is kept. It also notes the call for the report.
func (p *compiler) clock(pr *Thread, g *group) {
	k := slices.IndexFunc(g.insts, func(in plan.Instruction) bool { return in.Calls() && in.Flags&plan.InstAside == 0 })
	if k < 0 {
		return
	}
	for i := range g.insts {
		if in := &g.insts[i]; in.Calls() {
			in.At = uint64(float64(max(g.start-p.Found.From, 0)) * p.Scale)
		}
	}
	in := &g.insts[k]
	if pr.clocked == nil {
		pr.clocked = map[int]int{}
		in.Flags |= plan.InstStart | plan.InstEnd
	}
	switch {
	case p.Scale > 0:
		in.Flags |= plan.InstEnd
	case g.fn.Sync != api.NoSync, g.kernel != "" && p.o.TimeLaunches:
		in.Flags |= plan.InstStart | plan.InstEnd
	}
	if _, ok := pr.clocked[g.stream]; !ok {
		in.Flags |= plan.InstStart
	}
	at := pr.out.Count() + k
	pr.clocked[g.stream], pr.clocked[-1] = at, at
	call := plan.PlayedCall{Call: g.call, Start: g.start, End: g.end, Names: g.names, On: g.on, Fn: p.Function(g.fn), Stream: int32(g.stream)}
	if g.kernel != "" {
		call.Kernel = p.Kernel(g.kernel)
	}
	pr.out.Play(call)
}

// clockLast has the player read its clock after the last call of each stream.
func (p *compiler) clockLast() {
	for t := range p.Threads {
		pr := &p.Threads[t]
		for _, i := range pr.clocked {
			in := pr.out.At(i)
			in.Flags |= plan.InstEnd
			pr.out.Set(i, in)
		}
	}
}

// calm takes out of a group what needs more of a call than that it returns: comparisons, and stores to memory that calls
// were to make, or of what lies there.
func (p *compiler) calm(g *group) {
	made := p.processID(len(p.procs)) // the first slot that calls fill
	idle := func(in plan.Instruction) bool {
		switch in.Op {
		case plan.OpCheck, plan.OpTake, plan.OpMark:
			return true
		case plan.OpStore:
			to, from := p.Operand(in.Operands), p.Operand(in.Operands+1)
			return max(to.Slot, from.Slot) >= made
		}
		return false
	}
	g.insts, g.late = slices.DeleteFunc(g.insts, idle), slices.DeleteFunc(g.late, idle)
	for k := range g.insts {
		if in := &g.insts[k]; in.Calls() {
			in.Op, in.Flags, in.Bits, in.Len, in.Width = plan.OpCall, in.Flags&^plan.InstStop, 0, 0, 0
		}
	}
}

// order makes the call at hand wait for the calls of other threads that were over before it began.
func (p *callCompiler) order(g *group) {
	if len(g.insts) == 0 {
		return
	}
	pr := &p.Threads[p.at.thread]
	if pr.known == nil {
		pr.known = make([]int, len(p.Threads))
	}
	for u := range p.Threads {
		if u == p.at.thread {
			continue
		}
		us := &p.Threads[u]
		if n := us.endedBefore(g.start); n > pr.known[u] {
			pr.known[u] = n
			g.order = slices.DeleteFunc(g.order, func(w wait) bool { return w.thread == u })
			g.order = append(g.order, p.waitFor(place{u, n - 1}))
		}
	}
}

// asks notes a poll that found its object incomplete: it is one of a run that may end with an answer.
func (p *callCompiler) asks(key pollKey) {
	pr := &p.Threads[p.at.thread]
	pr.group(p.at.group).poll = key
	if was := pr.group(p.at.group - 1); pr.pollsAt < 0 || was == nil || was.poll != key {
		pr.pollsAt = p.at.group
	}
}

// takeBack drops the instructions of a run of polls that ends with the call at hand.
func (p *callCompiler) takeBack(key pollKey) {
	pr := &p.Threads[p.at.thread]
	g := pr.group(p.at.group)
	for k := p.at.group - 1; k >= 0; k-- {
		was := pr.group(k)
		if was == nil || was.poll != key {
			return
		}
		was.insts = was.insts[:0]
		for _, w := range was.order {
			if !slices.ContainsFunc(g.order, func(o wait) bool { return o.thread == w.thread }) {
				g.order = append(g.order, w)
			}
		}
		was.order = nil
	}
}
