package blame

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// WhereOptions choose the moment for a lookup. nil means the whole trace.
type WhereOptions struct {
	Call    *uint64        // when this call begins
	Task    *format.TaskID // when the call that made this task begins
	PID     int            // only this process; 0 for all
	History int            // calls listed for each allocation, 0 for 8
}

// Whereabouts has Where's findings.
type Whereabouts struct {
	format.Scope
	Addr   Hex        `json:"addr"`            // the address
	At     *Call      `json:"at,omitempty"`    // call at whose beginning the address was looked up, nil for the whole trace
	Places []Lifetime `json:"places"`          // allocations that held the address, in allocation order
	Below  *Place     `json:"below,omitempty"` // if none held it: the nearest allocation before it
	Above  *Place     `json:"above,omitempty"` // if none held it: the nearest allocation after it
}

// Where finds the allocations that held an address, the calls that made and ended them, and their last accesses.
func Where(r *format.Reader, m *api.Model, addr uint64, o *WhereOptions) (*Whereabouts, error) {
	if o == nil {
		o = &WhereOptions{}
	}
	w := &Whereabouts{Scope: r.Completeness().Scope(), Addr: Hex(addr)}
	at, err := o.at(r)
	if err != nil {
		return nil, err
	}
	until, in := int64(math.MaxInt64), int64(-1)
	if at != nil {
		until, in = at.Start, int64(r.ProcessOf(at.Thread))
	}
	s, st := timeline.NewState(m).Read(r), newStacks(r)
	var held []*timeline.Object
	var below, above *timeline.Object
	procs := r.Processes()
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		p := r.ProcessOf(c.Thread)
		st.see(p, c)
		e := s.Apply(p, c)
		if at != nil && c.Index == at.Index {
			w.At = describe(r, m, e)
		}
		if in >= 0 && int64(p) != in || o.PID != 0 && (int(p) >= len(procs) || procs[p].PID != o.PID) {
			continue
		}
		for _, u := range e.Uses {
			x := u.Object
			switch {
			case x.Created != c.Index || !x.Kind.Memory() || x.Kind == api.Reservation:
			case addr >= x.Handle && addr-x.Handle < max(x.Size, 1):
				held = append(held, x)
			case x.Handle+x.Size <= addr && (below == nil || x.Handle+x.Size >= below.Handle+below.Size):
				below = x
			case x.Handle > addr && (above == nil || x.Handle <= above.Handle):
				above = x
			}
		}
	}
	if w.Places, err = follow(r, m, held, until, o.History); err != nil {
		return nil, err
	}
	for i, x := range held {
		p, err := placeOf(r, m, x, addr)
		if err != nil {
			return nil, err
		}
		if p.Ended != nil && p.Ended.Start > until {
			p.Ended = nil
		}
		w.Places[i].Place = *p
	}
	if len(held) > 0 {
		calls := []*Call{w.At}
		for i := range w.Places {
			calls = append(calls, w.Places[i].Place.Made, w.Places[i].Place.Ended)
		}
		return w, st.of(calls)
	}
	if below != nil {
		if w.Below, err = placeOf(r, m, below, addr); err != nil {
			return nil, err
		}
	}
	if above != nil {
		w.Above, err = placeOf(r, m, above, above.Handle)
	}
	return w, err
}

// A Map is the live memory at a moment.
type Map struct {
	format.Scope
	At     *Call        `json:"at,omitempty"`   // call at whose beginning memory was looked up, nil for the trace's end
	Ranges []Allocation `json:"allocations"`    // live allocations, by process and address
	More   int          `json:"more,omitempty"` // number of live allocations that are not listed
}

// An Allocation is a live allocation in a Map.
type Allocation struct {
	PID int `json:"pid"` // process id
	Place
}

// maxRanges limits the allocations in a Map, to the oldest ones.
const maxRanges = 1 << 16

// MapAt returns live device and pinned allocations.
func MapAt(r *format.Reader, m *api.Model, o *WhereOptions) (*Map, error) {
	if o == nil {
		o = &WhereOptions{}
	}
	at, err := o.at(r)
	if err != nil {
		return nil, err
	}
	x, s, st := &Map{Scope: r.Completeness().Scope()}, timeline.NewState(m).Read(r), newStacks(r)
	until := int64(math.MaxInt64)
	if at != nil {
		until = at.Start
	}
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		st.see(r.ProcessOf(c.Thread), c)
		if at != nil && c.Index == at.Index {
			x.At = describe(r, m, &timeline.Event{Call: c, Fn: m.Func(api.ID(c.Func))})
			break
		}
		s.Apply(r.ProcessOf(c.Thread), c)
	}
	var live []*timeline.Object
	for n, p := range r.Processes() {
		if (o.PID == 0 || p.PID == o.PID) && (at == nil || uint32(n) == r.ProcessOf(at.Thread)) {
			live = append(live, s.Live(uint32(n))...)
		}
	}
	slices.SortFunc(live, func(a, b *timeline.Object) int { return cmp.Compare(a.Created, b.Created) }) // neighbouring calls are read together
	if len(live) > maxRanges {
		x.More, live = len(live)-maxRanges, live[:maxRanges]
	}
	var calls []*Call
	for _, l := range live {
		p, err := placeOf(r, m, l, l.Handle)
		if err != nil {
			return nil, err
		}
		p.Ended = nil
		calls = append(calls, p.Made)
		x.Ranges = append(x.Ranges, Allocation{PID: r.Processes()[l.Process].PID, Place: *p})
	}
	slices.SortStableFunc(x.Ranges, func(a, b Allocation) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Addr, b.Addr)) })
	return x, st.of(calls)
}

// at returns the call at whose beginning memory is looked up, nil for the trace's end.
func (o *WhereOptions) at(r *format.Reader) (*format.Call, error) {
	switch {
	case o.Call != nil:
		return r.Call(*o.Call)
	case o.Task != nil:
		for c, err := range r.Calls(&format.Filter{Task: o.Task, NoArgs: true, NoData: true}) {
			if err != nil {
				return nil, err
			}
			return c.Clone(), nil
		}
		return nil, fmt.Errorf("%s: no call of the trace has made task %d of stream %d", r.Path(), o.Task.Task, o.Task.Stream)
	}
	return nil, nil
}
