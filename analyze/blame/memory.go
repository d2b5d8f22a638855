package blame

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// maxFormer limits the freed allocations that are kept, to the latest ones.
const maxFormer = 1 << 18

// memory has the allocations up to a call, live and freed, and other objects that a failure may depend on.
type memory struct {
	all   []*timeline.Object          // in allocation order
	ended map[handle]*timeline.Object // latest ended object by handle, without memory
}

// handle identifies an object in a process.
type handle struct {
	process uint32
	kind    api.Object
	value   uint64
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
		if u, ok := e.Use(i); ok && u.Object.Ended == timeline.NoCall && u.Object.Created != timeline.NoCall {
			continue
		}
		o := m.ended[handle{e.Process, q.Object, w}]
		if o == nil && q.Object.Memory() {
			o = m.former(e.Process, w)
		}
		if o != nil && o.Ended != e.Call.Index {
			all = append(all, gone{q.Name, o})
		}
	}
	return all
}

// see adds the objects that a call made, ended or recorded.
func (m *memory) see(e *timeline.Event) {
	if m.ended == nil {
		m.ended = map[handle]*timeline.Object{}
	}
	for _, u := range e.Uses {
		o := u.Object
		if o.Ended == e.Call.Index && !o.Kind.Memory() {
			m.ended[handle{o.Process, o.Kind, o.Handle}] = o
		}
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
	Captured bool `json:"captured,omitempty"`
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
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		e, hits := s.Apply(r.ProcessOf(c.Thread), c)
		for _, h := range hits {
			a := Access{Call: *describe(r, m, e), How: h.Kind.String(), Offset: h.Offset, Size: h.Size, Captured: e.Captured != nil}
			switch h.Kind {
			case access.Names:
				a.How = MayChange
			case access.Points:
				a.How = AddressCopied
			}
			if h.Via != nil {
				a.Via = timeline.Place(timeline.Use{Object: h.Via})
			}
			out[h.Target].add(a, most)
		}
	}
	return out, nil
}

// add adds an access and keeps the latest ones.
func (t *Lifetime) add(a Access, most int) {
	if len(t.Accesses) == most {
		t.Accesses = slices.Delete(t.Accesses, 0, 1)
		t.Before++
	}
	t.Accesses = append(t.Accesses, a)
}
