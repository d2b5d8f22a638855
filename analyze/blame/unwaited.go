package blame

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

const (
	leastWaited  = 5       // waits that show a habit
	waitedFactor = 4       // waits for each copy that was not waited for
	maxPlaces    = 1 << 16 // places in the program that are followed
)

// An Unwaited is an asynchronous copy to the host that the program did not wait for, although it waits at this place as a rule. If it reads the
// destination there, it reads earlier content. The host's own reads are not in the trace.
type Unwaited struct {
	Call
	Addr   Hex  `json:"addr"`   // destination
	Next   Call `json:"next"`   // next work of the thread, for which it waits as a rule
	Times  int  `json:"times"`  // such copies without a wait; Call is the first
	Waited int  `json:"waited"` // such copies with a wait
}

// place identifies copies that the same part of the program makes: the copy and the thread's next work.
type place struct {
	thread uint32
	lane   int
	fn     api.ID
	to     uint64 // address of the destination
	bytes  uint64
	next   string
}

type waitHabit struct {
	waited, unwaited int
	elsewhere        bool   // another thread waits: the order of its wait and of the next work is chance
	first, next      uint64 // calls of the first copy that was not waited for
}

// copyOut is a copy whose next work or end is not known.
type copyOut struct {
	place
	call, next uint64
	began      int64 // start of next, -1 if it is not known
	ended      int64 // when the program had waited for the copy, -1 if that is not known
	elsewhere  bool  // on another thread
}

// copiesOut follows the asynchronous copies to the host.
type copiesOut struct {
	last   map[uint32]*copyOut // by thread: its latest work, if that was such a copy
	open   map[int]*copyOut    // by Task.Index, without an end
	thread uint32              // of the current call
	habits map[place]*waitHabit
}

// unwaited finds copies to the host that the program did not wait for, unlike most others at their place.
func (b *blamer) unwaited() error {
	x := &copiesOut{last: map[uint32]*copyOut{}, open: map[int]*copyOut{}, habits: map[place]*waitHabit{}}
	w := timeline.NewWalk(b.r, b.m, &timeline.WalkOptions{Untimed: true})
	err := w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			x.thread = h.Thread
			if h.Start > b.until || k == nil || k.Kind == api.Record || k.Kind == api.Wait || k.Kind == api.Reset {
				return nil
			}
			if c := x.last[h.Thread]; c != nil {
				c.place.next, c.next, c.began = cmp.Or(h.Kernel, h.Name), h.Index, h.Start
				x.judge(c)
			}
			x.last[h.Thread] = x.begin(h, k)
			return nil
		},
		Task: func(k *timeline.Task) error {
			if c := x.open[k.Index]; c != nil {
				delete(x.open, k.Index)
				if c.ended, c.elsewhere = k.To, x.thread != c.thread; k.Open {
					c.ended, c.elsewhere = w.End+1, false
				}
				x.judge(c)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	b.breaches(x.habits)
	return nil
}

// begin follows a copy, and returns nil for other work. Synchronous copies have ended before the next work, as if the program had waited.
func (x *copiesOut) begin(h *timeline.HostCall, k *timeline.Task) *copyOut {
	if k.Direction() != "DtoH" || k.Pageable() {
		return nil
	}
	i := slices.IndexFunc(k.Fn.Params, func(p api.Param) bool { return p.Role == api.Writes && p.ItemSizes < 0 })
	if i < 0 || len(h.Raw.Args) <= int(k.Fn.Params[i].Word) {
		return nil
	}
	c := &copyOut{place: place{thread: h.Thread, lane: k.Lane, fn: k.Fn.ID, to: h.Raw.Args[k.Fn.Params[i].Word], bytes: k.Bytes}, call: h.Index, began: -1, ended: -1}
	x.open[k.Index] = c
	return c
}

// judge counts a copy whose next work and end are known.
func (x *copiesOut) judge(c *copyOut) {
	if c.began < 0 || c.ended < 0 {
		return
	}
	v := x.habits[c.place]
	if v == nil {
		if len(x.habits) == maxPlaces {
			return
		}
		v = &waitHabit{}
		x.habits[c.place] = v
	}
	v.elsewhere = v.elsewhere || c.elsewhere
	if c.ended <= c.began {
		v.waited++
		return
	}
	if v.unwaited++; v.unwaited == 1 || c.call < v.first {
		v.first, v.next = c.call, c.next
	}
}

// breaches lists the places with a habit that the program has broken, the rarest breach first.
func (b *blamer) breaches(habits map[place]*waitHabit) {
	for p, v := range habits {
		if v.unwaited > 0 && !v.elsewhere && v.waited >= leastWaited && v.waited >= waitedFactor*v.unwaited {
			b.rep.Unwaited = append(b.rep.Unwaited, Unwaited{Call: Call{Index: v.first}, Next: Call{Index: v.next}, Addr: Hex(p.to), Times: v.unwaited, Waited: v.waited})
		}
	}
	slices.SortFunc(b.rep.Unwaited, func(x, y Unwaited) int { return cmp.Or(cmp.Compare(x.Times, y.Times), cmp.Compare(x.Index, y.Index)) })
	b.rep.Unwaited = b.rep.Unwaited[:min(len(b.rep.Unwaited), maxSuspects)]
	for i := range b.rep.Unwaited {
		u := &b.rep.Unwaited[i]
		b.wanted[u.Index] = append(b.wanted[u.Index], &u.Call)
		b.wanted[u.Next.Index] = append(b.wanted[u.Next.Index], &u.Next)
	}
}
