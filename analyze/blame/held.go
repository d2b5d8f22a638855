package blame

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Held is the memory that was in use when an allocation failed, in its process and of its kind: on the device, or on the host.
type Held struct {
	Wanted      uint64      `json:"wanted"`      // bytes of the failed allocation
	Bytes       uint64      `json:"bytes"`       // bytes of the live allocations
	Allocations int         `json:"allocations"` // number of live allocations
	Groups      []HeldGroup `json:"groups"`      // by size, most bytes first, at most five
}

// A HeldGroup sums up live allocations of one size.
type HeldGroup struct {
	Each  uint64 `json:"each"`  // bytes of an allocation
	Count int    `json:"count"` // number of allocations
	First *Call  `json:"first"` // earliest of their calls, nil: before the trace began
	Last  *Call  `json:"last"`  // latest of their calls
}

const maxHeld = 5

// allocates returns the parameter for the memory that a function allocates, nil if it allocates none.
func allocates(f *api.Func) *api.Param {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.New && p.Object.Memory() && p.Object != api.Reservation {
			return p
		}
	}
	return nil
}

// held sums up the memory at a failed allocation, nil if the call is none.
func held(r *format.Reader, m *api.Model, s *timeline.State, e *timeline.Event) (*Held, error) {
	if e.Fn == nil {
		return nil, nil
	}
	p := allocates(e.Fn)
	if p == nil || !e.Fn.Failed(e.Call.Ret) || e.Call.Flags&format.Unfinished != 0 {
		return nil, nil
	}
	type group struct {
		size, first, last uint64 // calls
		count             int
	}
	h, groups := &Held{}, map[uint64]*group{}
	h.Wanted, _ = p.Size.Bytes(e.Fn, e.Call.Args)
	for _, o := range s.Live(e.Process) {
		if !o.Kind.Memory() || o.Kind == api.Reservation || o.Kind.OnHost() != p.Object.OnHost() {
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
