package compile

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

func (p *callCompiler) touch(o *timeline.Object, lo, hi uint64, how TouchKind) {
	if o != nil && o.Kind.OnHost() && p.visibleOf(o) != nil {
		p.visible.host = append(p.visible.host, Touch{o, lo, hi, how})
	}
	if o != nil && !o.Kind.OnHost() && o.Kind != api.Reservation {
		p.touches = append(p.touches, Touch{o, lo, hi, how})
	}
}

// touchRange is touch for a range of addresses, which may go over several mappings beside each other.
func (p *callCompiler) touchRange(o *timeline.Object, addr, off, n uint64, how TouchKind) {
	for o != nil && n > 0 {
		here := n
		if o.Kind == api.Device && off < o.Size {
			here = min(n, o.Size-off)
		}
		p.touch(o, off, off+here, how)
		if n -= here; n == 0 {
			return
		}
		addr += here
		o, off, _ = p.state.Find(p.owner(), addr)
	}
}

func (p *compiler) contentOf(o *timeline.Object) *content {
	c := p.pointers.contents[o]
	if c == nil {
		c = &content{}
		p.pointers.contents[o] = c
	}
	return c
}

// arraysTouched adds the arrays that a copy names: what of them it comes to is not looked at.
func (p *callCompiler) arraysTouched() {
	if p.f.Task != api.Copy {
		return
	}
	for _, u := range p.e.Uses {
		if u.Object.Kind != api.Array || u.Param >= len(p.f.Params) {
			continue
		}
		how := TouchWrites
		if q := &p.f.Params[u.Param]; q.CopyDesc != nil && u.Field == q.CopyDesc.From.Array || q.CopyDesc == nil && slices.ContainsFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Writes }) {
			how = TouchReads
		}
		p.touch(u.Object, 1, 1, how)
		if of := u.Object.Parent; of != nil && of.Kind == api.MipmappedArray {
			p.touch(of, 1, 1, how)
		}
	}
}

// effects turns the touches of a call into what it may read and write, and follows where addresses go.
func (p *callCompiler) effects() {
	e, f := p.e, p.f
	if !p.ok || len(p.touches) == 0 && f.Task != api.Kernel && f.Task != api.GraphRun {
		return
	}
	var to []*timeline.Object // what takes the addresses that the call brings
	switch {
	case f.Task == api.Kernel:
	case f.Task == api.GraphRun:
		for o := range p.graphs.accessed {
			p.touches = append(p.touches, Touch{Object: o, How: TouchNames})
		}
	default:
		for _, t := range p.touches {
			if t.How == TouchWrites {
				to = append(to, t.Object)
			}
		}
		for _, u := range e.Uses {
			if u.Object.Kind == api.ArgsList || slices.Contains(p.Model.Numbers, u.Object.Kind) && u.Object.Created == e.Call.Index {
				to = append(to, u.Object)
			}
		}
		for _, o := range to {
			at := p.contentOf(o)
			for _, t := range p.touches {
				if t.How == TouchPoints || t.How == TouchNames {
					p.pointers.leads(at, t.Object)
				} else if t.How == TouchReads {
					for q := range p.contentOf(t.Object).points {
						p.pointers.leads(at, q)
					}
				}
			}
		}
	}
	if f.Task == api.Kernel || f.Task == api.GraphRun {
		p.reach()
	}
	for _, t := range p.touches {
		switch {
		case !t.Object.Hosted, p.visibleOf(t.Object) != nil && p.visibleOf(t.Object).known:
		case t.How == TouchReads:
			p.unseen = t.Object
		case t.How == TouchNames && (f.Task == api.Kernel || f.Task == api.GraphRun):
			p.zeroCopy(t.Object)
		}
		switch c := p.contentOf(t.Object); {
		case t.How == TouchNames && (f.Task == api.Kernel || f.Task == api.GraphRun):
			c.whole, c.written = true, nil
		case t.How == TouchWrites && !c.whole:
			c.write(t.Lo, t.Hi)
		}
		if e.Captured != nil {
			p.graphs.accessed[t.Object] = true
		}
	}
}

// reach adds to what a kernel names all that it can come to from there.
func (p *callCompiler) reach() {
	if !p.pointers.inMemory {
		return
	}
	seen := map[*timeline.Object]bool{}
	var next []*timeline.Object
	for _, t := range p.touches {
		if !seen[t.Object] {
			seen[t.Object] = true
			next = append(next, t.Object)
		}
	}
	for _, u := range p.e.Uses {
		if u.Object.Kind == api.ArgsList {
			next = append(next, u.Object)
		}
	}
	next = append(next, p.named...)
	for len(next) > 0 {
		c := p.pointers.contents[next[0]]
		next = next[1:]
		if c == nil {
			continue
		}
		for o := range c.points {
			if !seen[o] {
				seen[o] = true
				next = append(next, o)
				p.touches = append(p.touches, Touch{Object: o, How: TouchNames})
			}
		}
	}
}

// maxParts bounds into how many parts a result is cut; one with more is compared as one.
const maxParts = 256

// parts cuts a result into what something on the device has written and what nothing in the trace has.
func (p *callCompiler) parts(item uint32, s rows) []part {
	all := []part{{0, s.len, false}}
	o, off := p.origin(item)
	if o == nil || o.Kind != api.Device || o.Hosted || o.Created == timeline.NoCall || o.Parent != nil || p.pointers.payloadMissing {
		return all
	}
	c := p.pointers.contents[o]
	if c == nil {
		c = &content{}
	}
	if c.whole {
		return all
	}
	near := sort.Search(len(c.written), func(k int) bool { return c.written[k].hi > off })
	if s.width != s.pitch {
		if near == len(c.written) || c.written[near].lo >= off+s.span() {
			all[0].unset = true
		}
		return all
	}
	var ps []part
	at := uint64(0)
	for _, w := range c.written[near:] {
		if w.lo >= off+s.len {
			break
		}
		lo, hi := max(w.lo, off)-off, min(w.hi, off+s.len)-off
		if lo > at {
			ps = append(ps, part{at, lo, true})
		}
		ps = append(ps, part{lo, hi, false})
		at = hi
	}
	if at < s.len {
		ps = append(ps, part{at, s.len, true})
	}
	if len(ps) > maxParts {
		return all
	}
	return ps
}

// origin is the allocation that the copy at hand, or an item of it, reads, nil where that is not known.
func (p *callCompiler) origin(item uint32) (*timeline.Object, uint64) {
	for i := range p.f.Params {
		q := &p.f.Params[i]
		if q.CopyDesc != nil && len(p.arrays[i]) == api.BlockTo {
			o, off, _ := p.state.Find(p.owner(), p.arrays[i][api.BlockFrom-1])
			return o, off
		}
		if q.Role != api.Reads {
			continue
		}
		w := p.c.Args[q.Word]
		if q.ItemSizes >= 0 {
			d := p.find(i, 0, format.DirIn)
			if item == 0 || d == nil || d.Status != format.Whole || d.Len < 8*uint64(item) {
				return nil, 0
			}
			ws, err := p.array64(i, d.Len/8)
			if err != nil || ws == nil {
				return nil, 0
			}
			w = ws[item-1]
		}
		o, off, _ := p.state.Find(p.owner(), w)
		return o, off
	}
	return nil, 0
}

// Origin returns the allocation that the copy, or an item of a batch of copies, reads, and the offset in it; nil if it is not known.
func (l *Look) Origin(item uint32) (*timeline.Object, uint64) { return l.origin(item) }
