package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline/access"
)

// survey collects what the first call needs: the threads, all call times, late data, and recorded device addresses. It reads few columns
// of all calls, and whole calls only for functions that make or map memory.
func (p *compiler) survey() error {
	f := &p.Found
	complete := p.r.Completeness()
	f.Cut = complete.Cut
	if err := p.cast(); err != nil {
		return err
	}
	if err := p.surveyFaults(); err != nil {
		return err
	}
	p.gaps, f.Scope = newGaps(complete), complete.Scope()
	f.Replayable, f.Simulated = p.r.Meta().Replayable, p.r.Meta().Simulated
	var err error
	if p.accesses, err = access.New(p.r, p.Model, &access.Options{Objects: true, Scans: true, Guess: p.o.Guess, Results: true}); err != nil {
		return err
	}
	p.state, p.flow = p.accesses.State, p.accesses.Flow
	if d := p.r.Damage(); len(d) > 0 {
		return &d[0]
	}
	for _, name := range slices.Sorted(maps.Keys(p.r.Meta().Coverage.PassedBy)) {
		if !p.Model.Counted(name) {
			f.Asked = append(f.Asked, name) // not called: the CUDA runtime looks up all functions that it knows
			continue
		}
		if p.Model.Harmless(name) {
			continue
		}
		f.Absent = append(f.Absent, Unsupported{Func: name, Calls: int(p.r.Meta().Coverage.PassedBy[name]), Reason: "recorded by name only, without arguments"})
	}
	if n := p.r.Meta().Coverage.Refused; n > 0 {
		f.Absent = append(f.Absent, Unsupported{Reason: fmt.Sprintf("not recorded: all calls on %s, which had no memory for their buffers", human.Plural(n, "thread"))})
	}
	if f.Cut != "" {
		f.Absent = append(f.Absent, Unsupported{Reason: "the trace was cut (" + f.Cut + "): calls after its last one are missing"})
	}
	for _, g := range complete.Lost {
		f.Absent = append(f.Absent, Unsupported{Calls: int(g.Calls), Reason: fmt.Sprintf("lost while recording (%s), %s to %s", g.Reason, human.Moment(g.From), human.Moment(g.To))})
	}
	return nil
}

// cast finds the threads that make calls, grouped by process, and all call times.
func (p *compiler) cast() error {
	threads, ps := p.r.Threads(), p.r.Processes()
	f := &p.Found
	p.sorted = true
	last, seen := int64(math.MinInt64), make([]int, len(threads)) // 1 + the index in p.Threads
	for b, err := range p.r.Batches(nil, format.FuncColumn|format.StartColumn|format.DurColumn|format.ThreadColumn|format.RetColumn) {
		if err != nil {
			return err
		}
		f.Calls += uint64(b.N)
		for i, start := range b.Start {
			if start < last {
				p.sorted = false
			}
			last = start
			fn, thread := p.Model.Func(api.ID(b.Func[i])), b.Thread[i]
			if int(thread) >= len(threads) {
				return fmt.Errorf("call %d is on thread %d, which the trace does not describe", b.First+uint64(i), thread)
			}
			if fn != nil && fn.Annotation {
				continue // not replayed
			}
			if seen[thread] == 0 {
				p.Threads = append(p.Threads, Thread{thread: thread, TID: threads[thread].TID, clocked: make([]int, 1)})
				seen[thread] = len(p.Threads)
			}
			if fn != nil && fn.Composite {
				continue
			}
			if fn != nil && fn.RetError && p.Model.DeviceFault(int32(b.Ret[i])) {
				p.faults.reports(threads[thread].Process, b.First+uint64(i), start, int32(b.Ret[i]))
			}
			if f.To == 0 || start < f.From {
				f.From = start
			}
			f.To, f.Longest = max(f.To, start+b.Dur[i]), max(f.Longest, b.Dur[i])
			if fn != nil && fn.PollsCallbacks {
				pr := &p.Threads[seen[thread]-1]
				if pr.polls == nil {
					pr.polls = map[*api.Func]bool{}
				}
				pr.polls[fn] = true
			}
		}
	}
	p.thread = make([]int, len(threads))
	order := map[uint32]int{} // by process: rank by first call
	for _, t := range p.Threads {
		if _, ok := order[threads[t.thread].Process]; !ok {
			order[threads[t.thread].Process] = len(order)
		}
	}
	slices.SortStableFunc(p.Threads, func(a, b Thread) int { return order[threads[a.thread].Process] - order[threads[b.thread].Process] })
	for t := range p.Threads {
		pr := &p.Threads[t]
		owner := threads[pr.thread].Process
		i, ok := p.process[owner]
		if !ok {
			i = len(p.procs)
			p.process[owner] = i
			pid := 0
			if int(owner) < len(ps) {
				pid = ps[owner].PID
			}
			p.procs = append(p.procs, planned{process: owner, first: t, pid: pid})
		}
		p.procs[i].count++
		pr.Process, p.thread[pr.thread], pr.out = i, t, p.Thread()
	}
	return nil
}
