package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

func widened(w api.Window, at, size uint64) api.Window {
	return api.Window{From: min(w.From, at), To: max(w.To, at+size)}
}

// survey collects what the first call needs: the threads, all call times, late data, and recorded device addresses. It reads few columns
// of all calls, and whole calls only for functions that make or map memory.
func (p *compiler) survey() error {
	f := &p.Found
	complete := p.r.Completeness()
	f.Cut = complete.Cut
	if err := p.cast(); err != nil {
		return err
	}
	p.gaps, f.Scope = newGaps(complete), complete.Scope()
	if err := p.surveyMemory(); err != nil {
		return err
	}
	for d, err := range p.r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		k := *d
		k.Bytes = slices.Clone(d.Bytes)
		p.late[d.Call] = append(p.late[d.Call], k)
	}
	if d := p.r.Damage(); len(d) > 0 {
		return &d[0]
	}
	for _, name := range slices.Sorted(maps.Keys(p.r.Meta().Coverage.PassedBy)) {
		if !p.Model.Counted(name) {
			f.Asked = append(f.Asked, name) // not called: the CUDA runtime looks up all functions that it knows
			continue
		}
		f.Absent = append(f.Absent, Unsupported{Func: name, Calls: int(p.r.Meta().Coverage.PassedBy[name]), Reason: "recorded by its name alone, without arguments"})
	}
	if n := p.r.Meta().Coverage.Refused; n > 0 {
		f.Absent = append(f.Absent, Unsupported{Reason: fmt.Sprintf("never recorded: all calls of %s, whose rings could not be made", human.Plural(n, "thread"))})
	}
	if f.Cut != "" {
		f.Absent = append(f.Absent, Unsupported{Reason: "the trace was cut (" + f.Cut + "): calls after its last one are missing"})
	}
	for _, g := range complete.Lost {
		f.Absent = append(f.Absent, Unsupported{Calls: int(g.Calls), Reason: fmt.Sprintf("lost while recording (%s), %s to %s", g.Reason, human.Moment(g.From), human.Moment(g.To))})
	}
	return nil
}

// placeable reports whether the kind's objects are device address ranges.
func placeable(kind api.Object) bool { return kind == api.Device || kind == api.Reservation }

// surveyMemory finds the address ranges for device memory and pinned memory, and counts the objects in api.Model.Numbers.
func (p *compiler) surveyMemory() error {
	none := api.Window{From: ^uint64(0)}
	p.pointers.window = none
	var funcs []uint16
	for i := range p.Model.Funcs {
		if fn := &p.Model.Funcs[i]; !fn.Composite && !fn.Annotation && slices.ContainsFunc(fn.Params, p.givesAddresses) {
			funcs = append(funcs, uint16(fn.ID))
		}
	}
	if len(funcs) == 0 {
		return nil
	}
	for c, err := range p.r.Calls(&format.Filter{NoData: true, Funcs: funcs}) {
		if err != nil {
			return err
		}
		fn := p.Model.Func(api.ID(c.Func))
		whole := len(c.Args) == int(fn.Words)
		for i := range fn.Params {
			if q := &fn.Params[i]; q.Object == api.Registered && q.Role == api.Map && whole {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pointers.words.Pinned = widened(p.pointers.words.Pinned, c.Args[q.Word], n)
			}
		}
		for _, o := range c.Outs {
			if int(o.Param) < len(fn.Params) {
				p.surveyOut(fn, &fn.Params[o.Param], c, o.Value, whole)
			}
		}
	}
	return nil
}

// givesAddresses reports whether surveyMemory reads functions with such a parameter.
func (p *compiler) givesAddresses(q api.Param) bool {
	return q.Object == api.Registered && q.Role == api.Map || slices.Contains(p.Model.Numbers, q.Object) ||
		q.Role == api.New && q.Object == api.Host || q.Role.Makes() && addressed(q.Object)
}

// surveyOut takes in a stored value; whole is set if the call has all arguments.
func (p *compiler) surveyOut(fn *api.Func, q *api.Param, c *format.Call, v uint64, whole bool) {
	if slices.Contains(p.Model.Numbers, q.Object) {
		p.objects.counted++
	}
	if !whole {
		return
	}
	n, _ := q.Size.Bytes(fn, c.Args)
	if q.Role == api.New && q.Object == api.Host {
		p.pointers.words.Pinned = widened(p.pointers.words.Pinned, v, n)
	}
	if q.Role.Makes() && addressed(q.Object) {
		p.pointers.words.Device = widened(p.pointers.words.Device, v, n)
		if placeable(q.Object) {
			p.pointers.window = widened(p.pointers.window, v, n)
			// The simulator keeps managed memory in a separate range.
			if d := p.Model.Device; d.To == 0 || v >= d.From && v < d.To {
				p.pointers.low = min(p.pointers.low, v)
			}
		}
	}
}

// addressed reports whether payload words may be addresses in objects with the kind.
func addressed(kind api.Object) bool {
	return placeable(kind) || kind == api.Mapped || kind == api.Owned
}

// cast finds the threads that make calls, grouped by process, and all call times.
func (p *compiler) cast() error {
	threads, ps := p.r.Threads(), p.r.Processes()
	f := &p.Found
	p.sorted = true
	last, seen := int64(math.MinInt64), make([]int, len(threads)) // 1 + the index in p.Threads
	for b, err := range p.r.Batches(nil, format.FuncColumn|format.StartColumn|format.DurColumn|format.ThreadColumn) {
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
				return fmt.Errorf("call %d is of thread %d, which the trace does not describe", b.First+uint64(i), thread)
			}
			if fn != nil && fn.Annotation {
				continue // not replayed
			}
			if seen[thread] == 0 {
				p.Threads = append(p.Threads, Thread{thread: thread, TID: threads[thread].TID, pollsAt: -1, clocked: make([]int, 1)})
				seen[thread] = len(p.Threads)
			}
			if fn != nil && fn.Composite {
				continue
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
