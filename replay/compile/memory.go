package compile

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// temporary returns thread scratch memory that the next call reuses.
func (p *callCompiler) temporary(n uint64) plan.Operand {
	if !p.ok {
		n = min(n, 1<<30) // a call may have failed for its size
	}
	at := (p.temp + 63) &^ 63
	p.temp = at + n
	return plan.Operand{Slot: uint32(plan.SlotThreads + p.at.thread), Addend: at}
}

// region returns scratch memory that replaces a program memory range for the whole run.
func (p *callCompiler) region(addr, n uint64) plan.Operand {
	k := memoryKey{p.owner(), addr}
	r, ok := p.objects.regions[k]
	if !ok || r.size < n {
		// Keep the offset in the page.
		r = region{p.Reserve(n+pageSize) + addr%pageSize, n}
		r.at = (r.at-addr%pageSize+pageSize-1)/pageSize*pageSize + addr%pageSize
		p.objects.regions[k] = r
	}
	return plan.Operand{Slot: plan.SlotScratch, Addend: r.at}
}

// hostRange returns memory that replaces program memory registered for the device: at its recorded address, except with PlaceMove.
func (p *callCompiler) hostRange(addr, n uint64) plan.Operand {
	proc := p.Threads[p.at.thread].Process
	from, to := addr&^(pageSize-1), (addr+n+pageSize-1)&^(pageSize-1)
	k := memoryKey{p.owner(), from}
	i, ok := p.objects.hostMaps[k]
	if !ok {
		for j := range p.Found.maps { // it may lie in a registered range
			if m := &p.Found.maps[j]; m.Process == uint32(proc) && m.recorded <= from && to <= m.recorded+m.Size {
				i, ok = j, true
			}
		}
	}
	if !ok {
		i = len(p.Found.maps)
		p.objects.hostMaps[k] = i
		s := p.slot(fmt.Sprintf("host memory at %#x", from), nil)
		p.Found.maps = append(p.Found.maps, hostMap{plan.Map{Size: to - from, Slot: s, Process: uint32(proc)}, from})
		if p.o.Place != PlaceMove {
			p.Found.maps[i].At = from
		}
	}
	m := &p.Found.maps[i]
	m.Size = max(m.Size, to-m.recorded)
	return plan.Operand{Slot: m.Slot, Addend: addr - m.recorded}
}

const pageSize = 4096

// placeSize is how much memory the program provides for an object, which no parameter has.
const placeSize = 64 << 10

// nowhere refuses a device address that a successful call used and that lies in no known allocation.
func (p *callCompiler) nowhere(i int, w uint64) {
	p.refuse("its parameter %s, %#x, is outside all allocations in the trace", p.f.Params[i].Name, w)
}

// resolve returns the operand for a device address outside all allocations.
func (p *callCompiler) resolve(w uint64) plan.Operand {
	if o, off, ok := p.state.FindEnd(p.owner(), w); ok {
		return p.object(o).Plus(off)
	}
	return imm(w)
}

// locate returns the operand for a parameter's memory, and its allocation with the offset. The allocation is nil for program memory (own)
// and for unallocated device memory.
func (p *callCompiler) locate(i int, item uint32, w uint64) (op plan.Operand, in *timeline.Object, off uint64, own bool) {
	if o, off := p.a.Locate(i, item, w); o != nil {
		return p.object(o).Plus(off), o, off, false
	}
	if p.onDevice(w) && !p.f.SaysHost(i, p.c.Args) {
		return p.resolve(w), nil, 0, false
	}
	return imm(w), nil, 0, true
}

// onDevice reports whether an address is a device address, allocated or not.
func (p *compiler) onDevice(w uint64) bool {
	d := p.Model.Device
	return w >= d.From && w < d.To || w >= p.accesses.Placed.From && w < p.accesses.Placed.To
}

// memory returns the operand for memory that a copy or a fill accesses.
func (p *callCompiler) memory(i int, q *api.Param, item uint32, w uint64, s rows) (plan.Operand, error) {
	op, in, off, own := p.locate(i, item, w)
	in, off = aliased(in, off)
	if q.Object == api.Device && in != nil {
		return op, nil // any call may have made it
	}
	if !own && (in == nil || in.Kind == api.Device || in.Kind == api.Owned && p.onDevice(w)) {
		if in == nil && s.len > 0 {
			p.nowhere(i, w)
		}
		return op, nil
	}
	switch q.Role {
	case api.Fills:
		if own {
			op = p.temporary(s.span())
		}
		return op, nil
	case api.Reads:
		return p.source(i, item, w, op, in, off, own, s)
	}
	return p.destination(i, item, w, op, in, off, own, s)
}

// zero returns zeros for missing data.
func (p *compiler) zero(n uint64) plan.Operand {
	p.pointers.zeros = max(p.pointers.zeros, n)
	return plan.Operand{Slot: plan.SlotZeros}
}

func (p *callCompiler) substitute(i int, n uint64, d *format.Data) {
	reason := "not recorded"
	switch {
	case d == nil:
	case d.Status == format.HashOnly:
		reason = "only its hash was kept"
	case d.Status == format.Missing:
		reason = d.Reason.String()
	default:
		reason = fmt.Sprintf("recorded with %d bytes", d.Len)
	}
	p.pointers.payloadMissing = true
	p.Found.Substituted = append(p.Found.Substituted, Substituted{Call: p.c.Index, Func: p.f.Name, Param: p.f.Params[i].Name, Bytes: n, Reason: reason})
}

func (p *callCompiler) store(to, from plan.Operand, relocs []plan.Reloc, s rows) {
	if s.len == 0 {
		return
	}
	in := plan.Instruction{Op: plan.OpStore, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(to, from, imm(s.pitch)), Len: s.len, Width: s.width}
	in.Relocs = p.Relocs(relocs...)
	p.before = append(p.before, in)
}

// restore is store for host memory that gets its recorded content. It removes the marks of the memory.
func (p *callCompiler) restore(to, from plan.Operand, relocs []plan.Reloc, s rows) {
	p.store(to, from, relocs, s)
	if !p.o.Compare || s.len == 0 {
		return
	}
	if s.width == s.pitch {
		s = contiguous(s.len)
	}
	for done := uint64(0); done < s.len && s.len/s.width <= maxParts; done += s.width {
		p.before = append(p.before, p.mark(to.Plus(done/s.width*s.pitch), s.width, ""))
	}
}
