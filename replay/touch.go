package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// touch is how the call at hand comes to an allocation of device memory: by a range that it copies or fills, by a word
// among its arguments, or by a word of a payload.
type touch struct {
	object *timeline.Object
	lo, hi uint64 // of a range
	how    touchKind
}

type touchKind uint8

const (
	touchReads  touchKind = iota // the range is copied from
	touchWrites                  // the range is overwritten
	touchNames                   // an argument is an address in it
	touchPoints                  // a payload has an address in it
)

// content is what the planner knows of an allocation's content.
type content struct {
	whole   bool   // any of it may have been written
	written []span // otherwise: by copies and fills, in order, without overlaps
	points  map[*timeline.Object]bool
}

type span struct{ lo, hi uint64 }

func (p *callCompiler) touch(o *timeline.Object, lo, hi uint64, how touchKind) {
	if o != nil && o.Kind.OnHost() && p.visibleOf(o) != nil {
		p.visible.host = append(p.visible.host, touch{o, lo, hi, how})
	}
	if o != nil && !o.Kind.OnHost() && o.Kind != api.Reservation {
		p.touches = append(p.touches, touch{o, lo, hi, how})
	}
}

// touchRange is touch for a range of addresses, which may go over several mappings beside each other.
func (p *callCompiler) touchRange(o *timeline.Object, addr, off, n uint64, how touchKind) {
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
		how := touchWrites
		if q := &p.f.Params[u.Param]; q.CopyDesc != nil && u.Field == q.CopyDesc.From.Array || q.CopyDesc == nil && slices.ContainsFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Writes }) {
			how = touchReads
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
			p.touches = append(p.touches, touch{object: o, how: touchNames})
		}
	default:
		for _, t := range p.touches {
			if t.how == touchWrites {
				to = append(to, t.object)
			}
		}
		for _, u := range e.Uses {
			if u.Object.Kind == api.ArgsList || slices.Contains(p.model.Numbers, u.Object.Kind) && u.Object.Created == e.Call.Index {
				to = append(to, u.Object)
			}
		}
		for _, o := range to {
			at := p.contentOf(o)
			for _, t := range p.touches {
				if t.how == touchPoints || t.how == touchNames {
					p.pointers.leads(at, t.object)
				} else if t.how == touchReads {
					for q := range p.contentOf(t.object).points {
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
		case !t.object.Hosted, p.visibleOf(t.object) != nil && p.visibleOf(t.object).known:
		case t.how == touchReads:
			p.unseen = t.object
		case t.how == touchNames && (f.Task == api.Kernel || f.Task == api.GraphRun):
			p.zeroCopy(t.object)
		}
		switch c := p.contentOf(t.object); {
		case t.how == touchNames && (f.Task == api.Kernel || f.Task == api.GraphRun):
			c.whole, c.written = true, nil
		case t.how == touchWrites && !c.whole:
			c.write(t.lo, t.hi)
		}
		if e.Captured != nil {
			p.graphs.accessed[t.object] = true
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
		if !seen[t.object] {
			seen[t.object] = true
			next = append(next, t.object)
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
				p.touches = append(p.touches, touch{object: o, how: touchNames})
			}
		}
	}
}

// leads notes that memory holds an address of an object.
func (p *pointers) leads(c *content, o *timeline.Object) {
	if c.points == nil {
		c.points = map[*timeline.Object]bool{}
	}
	c.points[o], p.inMemory = true, true
}

func (c *content) write(lo, hi uint64) {
	if lo >= hi {
		return
	}
	from := sort.Search(len(c.written), func(k int) bool { return c.written[k].hi >= lo })
	to := from
	for to < len(c.written) && c.written[to].lo <= hi {
		lo, hi = min(lo, c.written[to].lo), max(hi, c.written[to].hi)
		to++
	}
	c.written = slices.Replace(c.written, from, to, span{lo, hi})
}

// part is a range of a result, and whether something has written it on the device.
type part struct {
	lo, hi uint64
	unset  bool
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

// Writer is a call that wrote, or may have written, memory.
type Writer struct {
	Call uint64 `json:"call"`
	Name string `json:"name"` // of the kernel, else of the function
	// Note says why what it wrote may not be what it wrote when it was recorded, "" for no reason.
	Note string `json:"note,omitempty"`
}

// maxChain bounds how many calls are listed for one difference: the last ones.
const maxChain = 50

// entry is a write of an allocation.
type entry struct {
	Writer
	lo, hi uint64
	whole  bool // may be anywhere
	in     bool // its content comes from the program
}

// explain adds to differences the calls that wrote what came back. It plans once more, to see what each call touches.
func explain(ctx context.Context, r *format.Reader, p *Plan, rep *Report, o *Options) error {
	want := map[uint64][]*Difference{}
	for i := range rep.Differences {
		if d := &rep.Differences[i]; d.result && !d.length {
			want[d.Call] = append(want[d.Call], d)
		}
	}
	if rep.Repeat != nil {
		for i := range rep.Repeat.NotDeterministic {
			if d := &rep.Repeat.NotDeterministic[i]; d.result {
				want[d.Call] = append(want[d.Call], d)
			}
		}
	}
	if len(want) == 0 {
		return nil
	}
	log := map[*timeline.Object][]entry{}
	spoiled := map[*timeline.Object]*timeline.Object{} // by memory that may depend on them, those that the program writes to without a call
	return survey(ctx, r, p, o, func(q *callCompiler) {
		e := q.e
		for _, d := range want[q.c.Index] {
			if o, off := q.origin(d.item); o != nil {
				d.chain(log[o], off+d.Offset)
				if o.Hosted {
					d.Reason = fmt.Sprintf("the program may write to the memory of call %d without a call", o.Created)
				}
			}
		}
		kernel := q.f.Task == api.Kernel || q.f.Task == api.GraphRun
		name := q.f.Name
		if e.Kernel != "" {
			name = e.Kernel
		}
		note := ""
		if slices.ContainsFunc(q.pieces, func(d format.Data) bool { return d.Reason == format.TakenEarly }) {
			note = "its data was " + format.TakenEarly.String()
		}
		hosted := q.unseen
		for _, t := range q.touches {
			if hosted == nil && t.how != touchWrites {
				hosted = spoiled[t.object]
			}
		}
		if note == "" && hosted != nil {
			note = fmt.Sprintf("it may depend on what the program wrote without a call, to the memory of call %d", hosted.Created)
		}
		seen := map[*timeline.Object]bool{}
		for _, t := range q.touches {
			switch {
			case kernel && t.how == touchNames && !seen[t.object]:
				seen[t.object] = true
				if hosted != nil {
					spoiled[t.object] = hosted
				}
				log[t.object] = append(log[t.object], entry{Writer: Writer{q.c.Index, name, note}, whole: true})
			case t.how == touchWrites:
				in := !slices.ContainsFunc(q.touches, func(t touch) bool { return t.how == touchReads })
				if in && t.lo == 0 && t.hi >= t.object.Size {
					log[t.object] = nil // nothing before it can be of interest
					delete(spoiled, t.object)
				}
				if hosted != nil {
					spoiled[t.object] = hosted
				}
				log[t.object] = append(log[t.object], entry{Writer: Writer{q.c.Index, name, note}, lo: t.lo, hi: t.hi, in: in})
			}
		}
	})
}

// chain lists the writes of one byte since the last copy in, with that.
func (d *Difference) chain(log []entry, at uint64) {
	for i := len(log) - 1; i >= 0; i-- {
		w := &log[i]
		if !w.whole && (at < w.lo || at >= w.hi) {
			continue
		}
		d.ChainTotal++
		if len(d.Chain) < maxChain {
			d.Chain = append(d.Chain, w.Writer)
		}
		if w.in {
			break
		}
	}
	slices.Reverse(d.Chain)
}

// survey plans a trace for nothing but to see what every call touches.
func survey(ctx context.Context, r *format.Reader, p *Plan, o *Options, see func(*callCompiler)) error {
	dir, err := os.MkdirTemp("", "acltrace-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out, err := createPlan(os.DevNull, p.model)
	if err != nil {
		return err
	}
	out.o = o
	defer out.close()
	q := newCompiler(out, r, dir, o)
	q.see = func(q *callCompiler) error {
		see(q)
		return ctx.Err()
	}
	return q.compile()
}
