package blame

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// maxFormer limits the freed allocations that are kept, to the latest ones.
const maxFormer = 1 << 18

// memory has the allocations up to a call, live and freed.
type memory struct {
	all []*timeline.Object // in allocation order
}

// gone returns the parameters of a call whose objects had ended before it.
func (m *memory) gone(e *timeline.Event) (all []gone) {
	if e.Fn == nil || len(e.Call.Args) != int(e.Fn.Words) {
		return nil
	}
	for i := range e.Fn.Params {
		q := &e.Fn.Params[i]
		if q.Object == "" || q.Role.Makes() || e.Call.Args[q.Word] == 0 {
			continue
		}
		w := e.Call.Args[q.Word]
		u, ok := e.Use(i)
		if ok && u.Object.Ended == timeline.NoCall && u.Object.Created != timeline.NoCall {
			continue
		}
		var o *timeline.Object
		if ok {
			o = u.Object.Former
		}
		if o == nil && q.Object.Memory() {
			o = m.former(e.Process, w)
		}
		if o != nil && o.Ended != e.Call.Index {
			all = append(all, gone{q.Name, o})
		}
	}
	return all
}

// see adds the allocations that a call made.
func (m *memory) see(e *timeline.Event) {
	for _, u := range e.Uses {
		o := u.Object
		if o.Created == e.Call.Index && o.Kind.Memory() && o.Kind != api.Reservation {
			m.all = append(m.all, o)
		}
	}
	if len(m.all) > 2*maxFormer {
		ended := len(m.all) - maxFormer
		m.all = slices.DeleteFunc(m.all, func(o *timeline.Object) bool {
			ended--
			return ended >= 0 && o.Ended != timeline.NoCall
		})
	}
}

// streamName names the stream of a call's task.
func streamName(e *timeline.Event) string {
	if e.Stream == nil {
		return "the default stream"
	}
	return timeline.Place(timeline.Use{Object: e.Stream})
}

// former returns the freed allocation that held an address last, nil for none.
func (m *memory) former(process uint32, addr uint64) *timeline.Object {
	for _, o := range slices.Backward(m.all) {
		if o.Ended != timeline.NoCall && o.Process == process && addr >= o.Handle && addr-o.Handle < max(o.Size, 1) {
			return o
		}
	}
	return nil
}

// An Access is a call that reads or writes an allocation, or may do so.
type Access struct {
	Call
	How    string `json:"how"`            // reads, writes, may change, or address copied to
	Offset uint64 `json:"offset"`         // offset of the first accessed byte, or of the copied address
	Size   uint64 `json:"size,omitempty"` // accessed bytes, 0 if only the kernel determines it
	Via    string `json:"via,omitempty"`  // memory that holds the address, if it was not an argument
	// Captured is true if the call gave its task to a graph, or changed one there. It accesses the memory when the graph runs.
	Captured   bool    `json:"captured,omitempty"`
	Replaces   *uint64 `json:"replaces,omitempty"`    // the captured call whose task in the graph the call replaced
	ReplacedBy *uint64 `json:"replaced_by,omitempty"` // the last call that replaced its task in the graph
}

const (
	MayChange     = "may change"
	AddressCopied = "address copied to"
)

// follow lists, for each target, the last calls up to a moment that access it, in time order.
func follow(r *format.Reader, m *api.Model, targets []*timeline.Object, until int64, most int) ([]Lifetime, error) {
	if most <= 0 {
		most = 8
	}
	out := make([]Lifetime, len(targets))
	s, err := access.NewSearch(r, m, targets)
	if err != nil {
		return nil, err
	}
	latest := map[uint64]uint64{} // updates, by the captured call
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		e, hits := s.Apply(r.ProcessOf(c.Thread), c)
		of, replaces := e.Part.Of, e.Part.Replaces()
		if replaces {
			latest[of] = c.Index
		}
		for _, h := range hits {
			a := Access{Call: *describe(r, m, e), How: h.Kind.String(), Offset: h.Offset, Size: h.Size, Captured: e.Captured != nil}
			switch h.Kind {
			case access.Names:
				a.How = MayChange
			case access.Points:
				a.How = AddressCopied
			}
			if replaces {
				a.Replaces = &of
			}
			if h.Via != nil {
				a.Via = timeline.Place(timeline.Use{Object: h.Via})
			}
			out[h.Target].add(a, most)
		}
	}
	for i := range out {
		for k := range out[i].Accesses {
			out[i].Accesses[k].replaced(latest)
		}
	}
	return out, nil
}

// replaced sets ReplacedBy, given the latest updates.
func (a *Access) replaced(latest map[uint64]uint64) {
	task := a.Index
	if a.Replaces != nil {
		task = *a.Replaces
	}
	if by, ok := latest[task]; ok && by != a.Index {
		a.ReplacedBy = &by
	}
}

// add adds an access and keeps the latest ones.
func (t *Lifetime) add(a Access, most int) {
	if len(t.Accesses) == most {
		t.Accesses = slices.Delete(t.Accesses, 0, 1)
		t.Before++
	}
	t.Accesses = append(t.Accesses, a)
}

// Held is the memory that was in use when an allocation failed, in its process and of its kind: on the device, or on the host.
type Held struct {
	Wanted      uint64      `json:"wanted"`              // bytes of the failed allocation
	Bytes       uint64      `json:"bytes"`               // bytes of the live allocations
	Elsewhere   uint64      `json:"elsewhere,omitempty"` // bytes on other devices, which are in no other sum
	Allocations int         `json:"allocations"`         // number of live allocations
	Groups      []HeldGroup `json:"groups"`              // by size, most bytes first, at most five
}

// A HeldGroup sums up live allocations of one size.
type HeldGroup struct {
	Each  uint64 `json:"each"`  // bytes of an allocation
	Count int    `json:"count"` // number of allocations
	First *Call  `json:"first"` // earliest of their calls, nil: before the trace began
	Last  *Call  `json:"last"`  // latest of their calls
}

const maxHeld = 5

// held sums up the memory at a failed allocation, nil if the call is none.
func held(r *format.Reader, m *api.Model, s *timeline.State, e *timeline.Event) (*Held, error) {
	if e.Fn == nil {
		return nil, nil
	}
	p := e.Fn.Allocates()
	if p == nil || !e.Fn.Failed(e.Call.Ret) || e.Call.Flags&format.Unfinished != 0 {
		return nil, nil
	}
	type group struct {
		size, first, last uint64 // calls
		count             int
	}
	h, groups := &Held{}, map[uint64]*group{}
	device := s.CurrentDevice(e.Process, e.Call.Thread)
	h.Wanted, _ = p.Size.Bytes(e.Fn, e.Call.Args)
	for _, o := range s.Live(e.Process) {
		if !o.Kind.Memory() || o.Kind == api.Reservation || o.Kind.OnHost() != p.Object.OnHost() {
			continue
		}
		if !o.Kind.OnHost() && device != timeline.NoDevice && o.Device != timeline.NoDevice && o.Device != device {
			h.Elsewhere += o.Size
			continue
		}
		g := groups[o.Size]
		if g == nil {
			g = &group{size: o.Size, first: o.Created, last: o.Created}
			groups[o.Size] = g
		}
		g.count++
		if o.Created != timeline.NoCall {
			g.first, g.last = min(g.first, o.Created), max(o.Created, g.last%timeline.NoCall)
		}
		h.Bytes, h.Allocations = h.Bytes+o.Size, h.Allocations+1
	}
	most := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.size*uint64(b.count), a.size*uint64(a.count)), cmp.Compare(b.size, a.size))
	})
	for _, g := range most[:min(len(most), maxHeld)] {
		x := HeldGroup{Each: g.size, Count: g.count}
		for _, of := range []struct {
			call uint64
			to   **Call
		}{{g.first, &x.First}, {g.last, &x.Last}} {
			if of.call == timeline.NoCall {
				continue
			}
			c, err := r.Call(of.call)
			if err != nil {
				return nil, err
			}
			*of.to = describe(r, m, &timeline.Event{Call: c, Fn: m.Func(api.ID(c.Func))})
		}
		h.Groups = append(h.Groups, x)
	}
	return h, nil
}
