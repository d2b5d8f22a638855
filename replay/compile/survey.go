package compile

import (
	"fmt"
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

func widened(w api.Window, at, size uint64) api.Window {
	return api.Window{From: min(w.From, at), To: max(w.To, at+size)}
}

// survey learns what must be known before the first call is compiled: the threads with their calls, the data that
// comes long after its call, and where device memory was.
func (p *compiler) survey() error {
	f := &p.Found
	complete := p.r.Completeness()
	f.Cut = complete.Cut
	if err := p.cast(); err != nil {
		return err
	}
	p.gaps, f.Scope = newGaps(complete), complete.Scope()
	p.pointers.window, p.pointers.addressed, p.pointers.pinned = api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		fn := p.Model.Func(api.ID(c.Func))
		f.Calls++
		if fn != nil && (fn.Composite || fn.Annotation) {
			continue
		}
		if f.To == 0 || c.Start < f.From {
			f.From = c.Start
		}
		f.To = max(f.To, c.End)
		f.Longest = max(f.Longest, c.End-c.Start)
		if fn == nil {
			continue
		}
		if fn.PollsCallbacks {
			pr := &p.Threads[p.thread[c.Thread]]
			if pr.polls == nil {
				pr.polls = map[*api.Func]bool{}
			}
			pr.polls[fn] = true
		}
		for i := range fn.Params {
			if q := &fn.Params[i]; q.Object == api.Registered && q.Role == api.Map && len(c.Args) == int(fn.Words) {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pointers.pinned = widened(p.pointers.pinned, c.Args[q.Word], n)
			}
		}
		for _, o := range c.Outs {
			if int(o.Param) >= len(fn.Params) {
				continue
			}
			q := &fn.Params[o.Param]
			if slices.Contains(p.Model.Numbers, q.Object) {
				p.objects.counted++
			}
			if len(c.Args) == int(fn.Words) && q.Role == api.New && q.Object == api.Host {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pointers.pinned = widened(p.pointers.pinned, o.Value, n)
			}
			if len(c.Args) != int(fn.Words) || !q.Role.Makes() || !placeable(q.Object) && q.Object != api.Mapped && q.Object != api.Owned {
				continue
			}
			n, _ := q.Size.Bytes(fn, c.Args)
			p.pointers.addressed = widened(p.pointers.addressed, o.Value, n)
			if placeable(q.Object) {
				p.pointers.window = widened(p.pointers.window, o.Value, n)
			}
		}
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
	for _, name := range sortedKeys(p.r.Meta().Coverage.PassedBy) {
		if !p.Model.Counted(name) {
			f.Asked = append(f.Asked, name) // no call was seen: the CUDA runtime asks for all functions that it knows
			continue
		}
		f.Absent = append(f.Absent, Unsupported{Func: name, Calls: int(p.r.Meta().Coverage.PassedBy[name]), Reason: "recorded by its name alone, without arguments"})
	}
	if n := p.r.Meta().Coverage.Refused; n > 0 {
		f.Absent = append(f.Absent, Unsupported{Reason: fmt.Sprintf("never recorded: all calls of %d threads, whose rings could not be made", n)})
	}
	if f.Cut != "" {
		f.Absent = append(f.Absent, Unsupported{Reason: "the trace was cut (" + f.Cut + "): calls after its last one are missing"})
	}
	for _, g := range complete.Lost {
		f.Absent = append(f.Absent, Unsupported{Calls: int(g.Calls), Reason: fmt.Sprintf("lost while recording (%s), %d to %d ns", g.Reason, g.From, g.To)})
	}
	return nil
}

// placeable reports whether objects of the kind are ranges of device addresses.
func placeable(kind api.Object) bool { return kind == api.Device || kind == api.Reservation }

// cast finds the threads that have calls, those of one process beside each other.
func (p *compiler) cast() error {
	threads, ps := p.r.Threads(), p.r.Processes()
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		if int(c.Thread) >= len(threads) {
			return fmt.Errorf("call %d is of thread %d, which the trace does not describe", c.Index, c.Thread)
		}
		if fn := p.Model.Func(api.ID(c.Func)); fn != nil && fn.Annotation {
			continue // nothing is played
		}
		if _, ok := p.thread[c.Thread]; !ok {
			p.thread[c.Thread] = 0
			p.Threads = append(p.Threads, Thread{thread: c.Thread, TID: p.r.Threads()[c.Thread].TID, pollsAt: -1})
		}
	}
	order := map[uint32]int{} // of a process, by its first call
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

func sortedKeys(m map[string]uint64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// makes reports whether a call stores handles or addresses that later calls need.
func Makes(f *api.Func) bool {
	return slices.ContainsFunc(f.Params, func(q api.Param) bool {
		return q.Role == api.New || q.Role == api.Place || q.Role == api.Buffer || q.Inside()
	})
}

// retBits is how many bits of the returned value must come again.
func retBits(f *api.Func, c *format.Call, facts *facts) uint8 {
	if f.Ret.Makes() && c.Ret == 0 {
		return 64
	}
	return facts.retBits
}

// facts returns those of a function, which are collected once.
func (p *compiler) facts(f *api.Func) *facts {
	known := p.known[f.ID]
	if known == nil {
		known = &facts{makes: Makes(f), retBits: comparedBits(f)}
		for i := range f.Params {
			q := &f.Params[i]
			known.exceptions = known.exceptions || q.Object == api.Exception
		}
		p.known[f.ID] = known
	}
	return known
}

func comparedBits(f *api.Func) uint8 {
	switch {
	case f.RetVoid, f.RetVolatile, f.Ret == api.Text, f.Ret == api.Address, f.Ret.Makes():
		return 0
	}
	return uint8(8 * f.RetWidth)
}
