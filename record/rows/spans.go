package rows

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// spans hold the allocations whose address does not show whether they are host or device memory: host memory inside the
// device's address window, and device memory outside it.
type spans struct {
	window    api.Window
	byProcess map[int][]span // in ascending order
}

type span struct {
	from, to uint64
	kind     api.Object
}

// allocation reports whether a parameter is memory that a call allocates or frees. Device memory that is mapped into a
// reservation is part of the reservation.
func allocation(p *api.Param) bool {
	switch p.Object {
	case api.Host, api.Registered:
		return p.Role == api.New || p.Role == api.Map || p.Role == api.End
	case api.Device, api.Reservation:
		return p.Role == api.New || p.Role == api.End
	}
	return false
}

// note adds or removes a call's allocations.
func (s *spans) note(pid int, f *api.Func, c *format.Call) {
	for i := range f.Params {
		p := &f.Params[i]
		if !allocation(p) {
			continue
		}
		addr, known := c.Args[p.Word], p.Role != api.New
		for _, o := range c.Outs {
			if p.Role == api.New && int(o.Param) == i {
				addr, known = o.Value, true
			}
		}
		n, sized := p.Size.Bytes(f, c.Args)
		at, found := s.find(pid, addr)
		switch {
		case !known:
		case p.Role == api.End:
			if found && s.byProcess[pid][at].kind == p.Object {
				s.byProcess[pid] = slices.Delete(s.byProcess[pid], at, at+1)
			}
		case !found && sized && s.inWindow(addr) == p.Object.OnHost():
			s.byProcess[pid] = slices.Insert(s.byProcess[pid], at, span{addr, addr + n, p.Object})
		}
	}
}

// find returns the index at which a span begins at addr, or would be inserted.
func (s *spans) find(pid int, addr uint64) (int, bool) {
	return slices.BinarySearchFunc(s.byProcess[pid], addr, func(g span, addr uint64) int { return cmp.Compare(g.from, addr) })
}

func (s *spans) inWindow(addr uint64) bool { return addr >= s.window.From && addr < s.window.To }

// onHost reports whether an address is host memory.
func (s *spans) onHost(pid int, addr uint64) bool {
	at, found := s.find(pid, addr)
	if !found {
		at--
	}
	if at >= 0 {
		if g := &s.byProcess[pid][at]; addr < g.to {
			return g.kind.OnHost()
		}
	}
	return addr != 0 && !s.inWindow(addr)
}
