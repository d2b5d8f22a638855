package access

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
)

// The argument block of an operator declares the memory that its launch accesses, and its address words. So its other words are numbers, and the
// launch reaches no other memory.

// operator returns the argument block of an operator's launch, nil for other data.
func (t *Tracker) operator(e *timeline.Event, q *api.Param, d *format.Data, b []byte) *block.Block {
	if q.Role != api.Args || d.Item != 0 || d.Dir != format.DirIn {
		return nil
	}
	return t.State.Operator(e, b)
}

// operands adds the accesses of an operator.
func (t *Tracker) operands(x *block.Block, param int) {
	for _, o := range x.Operands() {
		for _, kind := range kinds(&o) {
			t.buf = append(t.buf, Access{Addr: o.Addr + o.Lo, Size: o.Size, Kind: kind, Param: param, At: uint64(o.At)})
		}
	}
}

// kinds returns how an operator accesses an operand. If its output has gaps, it keeps what is there. A workspace has no content before and after.
func kinds(o *block.Operand) []Kind {
	switch {
	case o.Size == 0:
		return nil
	case o.Role == block.In:
		return []Kind{Reads}
	case o.Role == block.Scratch, o.Role == block.Out && o.Dense:
		return []Kind{Writes}
	}
	return []Kind{Reads, Writes}
}

// operand returns the operand of an address word of an operator's argument block, nil if the payload is no such block.
func (p *Payload) operand(at uint64) *block.Operand {
	i, ok := slices.BinarySearchFunc(p.Operands, at, func(o block.Operand, at uint64) int { return cmp.Compare(uint64(o.At), at) })
	if !ok {
		return nil
	}
	return &p.Operands[i]
}

// operand adds the accesses by an address word of an operator's argument block.
func (c *Call) operand(w *Word, x *block.Operand) {
	o, off := w.Object, w.Offset
	if o.Kind.OnHost() {
		c.name(o, off, Names)
		return
	}
	addr := x.Addr + x.Lo
	if at, offset, ok := c.State.Find(c.Event.Process, addr); ok {
		o, off = at, offset
	} else {
		off += x.Lo
	}
	for _, kind := range kinds(x) {
		c.span(o, addr, off, x.Size, kind)
	}
}

// operands appends the address words of an operator's argument block that begin in b, at an offset of the block.
func (x *Words) operands(p *Payload, b []byte, at uint64) {
	for _, o := range p.Operands {
		if k := uint64(o.At); k < at || k+8 > at+uint64(len(b)) {
			continue
		}
		recent := x.find(p.Process, o.Addr)
		of := recent.object
		if of == nil || of.Kind.OnHost() && !p.Host {
			continue
		}
		off := o.Addr - of.Handle
		if off != 0 && !recent.passed {
			recent.passed = true
			x.pass(p.Process, o.Addr)
		}
		x.words = append(x.words, Word{At: uint64(o.At), Addr: o.Addr, Object: of, Offset: off, Evidence: ByLayout})
	}
}
