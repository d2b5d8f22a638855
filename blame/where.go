package blame

import (
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// WhereOptions choose the moment at which an address is looked up; nil stands for the whole trace.
type WhereOptions struct {
	Call    *uint64        // the moment is the beginning of this call,
	Task    *format.TaskID // or of the call that made this task
	PID     int            // only in this process; 0 for all
	History int            // how many calls are listed for each allocation, 0 for 8
}

// Whereabouts is what a trace knows of an address.
type Whereabouts struct {
	Addr   Hex       `json:"addr"`
	At     *Call     `json:"at,omitempty"`    // the call at whose beginning the address was looked up
	Places []Touched `json:"places"`          // the allocations that held it, in the order in which they were made
	Below  *Place    `json:"below,omitempty"` // where none held it: the nearest allocation before it
	Above  *Place    `json:"above,omitempty"` // and behind it
}

// Where finds the allocations that held an address, who made and ended them, and who wrote and used them last.
func Where(r *format.Reader, m *api.Model, addr uint64, o *WhereOptions) (*Whereabouts, error) {
	if o == nil {
		o = &WhereOptions{}
	}
	w := &Whereabouts{Addr: Hex(addr)}
	at, err := o.at(r)
	if err != nil {
		return nil, err
	}
	until, in := int64(math.MaxInt64), int64(-1)
	if at != nil {
		until, in = at.Start, int64(process(r, at))
	}
	s := timeline.NewState(m).Read(r)
	var held []*timeline.Object
	var below, above *timeline.Object
	procs := r.Processes()
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		p := process(r, c)
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
		return w, nil
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

// at is the call at whose beginning the address is looked up, nil for the end of the trace.
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
