package access

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// memory is the shadow of one allocation.
type memory struct {
	near  []write // at most maxShadow bytes long, sorted by first byte
	wide  []write // longer writes, whose content is not kept
	whole []write // by kernels
	reads []read  // by tasks that may still run
}

// A write has changed memory, or may have.
type write struct {
	lo, hi uint64 // offsets in the allocation
	order.Stamp
	number uint64
	call   uint64
	known  bool // the content is known, and is in one of:
	bytes  []byte
	blob   format.BlobID
	fill   []byte // repeated
}

type read struct {
	lo, hi uint64
	order.Stamp
	call uint64
}

func (sh *shadow) write(lo, hi uint64, t order.Stamp, call uint64) write {
	sh.number++
	return write{lo: lo, hi: hi, Stamp: t, number: sh.number, call: call}
}

// latest adds a write to a list that keeps those that certainly precede no other.
func latest(ws []write, w write) []write {
	if slices.ContainsFunc(ws, func(o write) bool { return w.Before(&o.Stamp) }) {
		return ws
	}
	return append(slices.DeleteFunc(ws, func(o write) bool { return o.Before(&w.Stamp) }), w)
}

func (p *process) shadowOf(o *timeline.Object) *memory {
	m := p.memory[o]
	if m == nil {
		m = &memory{}
		p.memory[o] = m
	}
	return m
}

// cost is the memory that a write takes, in bytes, about.
func (w *write) cost() int { return 160 + len(w.bytes) }

// forget drops an allocation's shadow.
func (p *process) forget(o *timeline.Object) {
	if m := p.memory[o]; m != nil {
		for i := range m.near {
			p.sh.cost -= m.near[i].cost()
		}
		delete(p.memory, o)
	}
}

// store records a write to an address. Its range is relative to the address.
func (p *process) store(addr uint64, w write) {
	sh := p.sh
	o, off, ok := sh.State.Find(p.id, addr)
	if !ok || o.Kind != api.Device || w.hi == 0 {
		return
	}
	w.lo, w.hi = off, off+min(w.hi, o.Size-off)
	m := p.shadowOf(o)
	p.overtaken(m, w.lo, w.hi, &w.Stamp, w.call)
	// Writes that are certainly overwritten are dropped.
	from, to := m.span(w.lo, w.hi)
	n := from
	for i := from; i < to; i++ {
		if old := &m.near[i]; old.lo >= w.lo && old.hi <= w.hi && old.Before(&w.Stamp) {
			sh.cost -= old.cost()
			continue
		}
		m.near[n] = m.near[i]
		n++
	}
	m.near = slices.Delete(m.near, n, to)
	m.wide = slices.DeleteFunc(m.wide, func(old write) bool { return old.lo >= w.lo && old.hi <= w.hi && old.Before(&w.Stamp) })
	if w.hi-w.lo > maxShadow {
		if m.wide = append(m.wide, w); len(m.wide) > maxWide {
			for _, old := range m.wide {
				old.lo, old.hi = 0, math.MaxUint64
				m.whole = latest(m.whole, old)
			}
			m.wide = nil
		}
		return
	}
	if sh.cost += w.cost(); sh.cost > maxCost {
		sh.cost = 0
		for _, p := range sh.procs {
			p.off = "the trace copies more small pieces to the device than are followed"
			p.memory = map[*timeline.Object]*memory{}
		}
		return
	}
	i := sort.Search(len(m.near), func(i int) bool { return m.near[i].lo > w.lo })
	m.near = slices.Insert(m.near, i, w)
}

// span returns the indices of the near writes that may overlap a range.
func (m *memory) span(lo, hi uint64) (from, to int) {
	at := func(v uint64) int { return sort.Search(len(m.near), func(i int) bool { return m.near[i].lo >= v }) }
	return at(lo - min(lo, maxShadow)), at(hi)
}

// overtaken finds the reads that a new write may overtake: the reading task may still run when the write begins.
func (p *process) overtaken(m *memory, lo, hi uint64, t *order.Stamp, call uint64) {
	n := 0
	for i := range m.reads {
		r := &m.reads[i]
		over := r.Before(t)
		if !over && r.call != call && r.lo < hi && lo < r.hi {
			p.sh.found[r.call] = call
		}
		// A task that the host has seen complete precedes all later writes.
		if !p.sh.order.Seen(p.host, &r.Stamp) {
			m.reads[n] = *r
			n++
		}
	}
	m.reads = m.reads[:n]
}

// load returns the n bytes that a task reads at an address, or why they are unknown.
func (p *process) load(addr, n uint64, t *order.Stamp, call uint64) ([]byte, string) {
	sh := p.sh
	if p.off != "" {
		return nil, p.off
	}
	o, lo, ok := sh.State.Find(p.id, addr)
	switch {
	case n == 0:
		return []byte{}, ""
	case !ok || o.Kind != api.Device:
		return nil, "the address is in no allocation of the trace"
	case n > o.Size-lo:
		return nil, "they reach beyond the allocation"
	case n > maxShadow:
		return nil, "they are too long"
	}
	hi := lo + n
	m := p.shadowOf(o)
	m.reads = append(m.reads, read{lo, hi, *t, call})
	if len(m.reads) > maxReads {
		// Too many reads are in flight. Whether a later write overtakes the oldest one is not determined.
		sh.found[m.reads[0].call] = timeline.NoCall
		m.reads = slices.Delete(m.reads, 0, 1)
	}
	if by, ok := sh.spoiled[call]; ok {
		if by == timeline.NoCall {
			return nil, "a later call may overwrite them before the launch"
		}
		return nil, fmt.Sprintf("call %d may overwrite them before the launch", by)
	}
	return sh.assemble(p.overlapping(m, lo, hi), lo, n, t)
}

// overlapping returns the writes that may have changed a range, in call order.
func (p *process) overlapping(m *memory, lo, hi uint64) []*write {
	var writes []*write
	for _, ws := range [][]write{p.any, m.whole, m.wide} {
		for i := range ws {
			if ws[i].lo < hi && lo < ws[i].hi {
				writes = append(writes, &ws[i])
			}
		}
	}
	from, to := m.span(lo, hi)
	for i := from; i < to; i++ {
		if m.near[i].hi > lo {
			writes = append(writes, &m.near[i])
		}
	}
	slices.SortFunc(writes, func(a, b *write) int { return int(int64(a.number) - int64(b.number)) })
	return writes
}

// assemble returns the n bytes at an offset that a task finds after the writes, or why they are unknown.
func (sh *shadow) assemble(writes []*write, lo, n uint64, t *order.Stamp) ([]byte, string) {
	hi := lo + n
	out, seen := make([]byte, n), make([]bool, n)
	for i, w := range writes {
		if !w.Before(t) {
			return nil, w.name() + " may write them, in no certain order with the launch"
		}
		for _, old := range writes[:i] {
			if old.lo < w.hi && w.lo < old.hi && !old.Before(&w.Stamp) {
				return nil, fmt.Sprintf("%s and %s may write them, in no certain order", old.name(), w.name())
			}
		}
		a, b := max(lo, w.lo), min(hi, w.hi)
		for k := a; k < b; k++ {
			seen[k-lo] = w.known
		}
		if !w.known {
			continue
		}
		content := w.bytes
		if w.blob != 0 {
			var err error
			if content, err = sh.r.Blob(w.blob); err != nil || uint64(len(content)) < b-w.lo {
				return nil, fmt.Sprintf("the payload of call %d can't be read", w.call)
			}
		}
		for k := a; k < b; k++ {
			if w.fill != nil {
				out[k-lo] = w.fill[(k-w.lo)%uint64(len(w.fill))]
			} else {
				out[k-lo] = content[k-w.lo]
			}
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		at := lo + uint64(i)
		for _, w := range slices.Backward(writes) {
			if w.lo <= at && at < w.hi {
				return nil, w.name() + " may have written them, and what is not in the trace"
			}
		}
		return nil, fmt.Sprintf("nothing in the trace has written byte %d", i)
	}
	return out, ""
}

func (w *write) name() string {
	if w.call == timeline.NoCall {
		return "a call that was lost"
	}
	return fmt.Sprintf("call %d", w.call)
}
