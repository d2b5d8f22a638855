package replay

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// What only the runtime knows the meaning of is known again by its bytes: where a call was given a structure that another one had stored, it is
// given what that one stores now.

// tokenKey is what a structure held in a process.
type tokenKey struct {
	process uint32
	bytes   string
}

// tokensOut is memory of n bytes where the call at hand stores such structures.
func (p *planner) tokensOut(q *api.Param, d *format.Data, n uint64) (operand, error) {
	op := operand{Slot: slotSlots, Addend: 8 * uint64(len(p.slots))}
	for k := range (n + 7) / 8 {
		p.slot(fmt.Sprintf("%s of call %d, word %d", q.Name, p.c.Index, k), nil)
	}
	if d.Status != format.Whole || !p.ok {
		return op, nil
	}
	b, err := p.bytes(d)
	for size, at := int(q.Token), 0; err == nil && at+size <= len(b); at += size {
		p.fresh[tokenKey{p.owner(), string(b[at : at+size])}] = operand{Slot: op.Slot, Addend: op.Addend + uint64(at)}
	}
	return op, err
}

// tokensIn is memory with such structures, which earlier calls have stored.
func (p *planner) tokensIn(q *api.Param, d *format.Data) (operand, error) {
	b, err := p.bytes(d)
	if err != nil {
		return operand{}, err
	}
	op := p.lasting(d.Len)
	for size, at := int(q.Token), 0; at+size <= len(b); at += size {
		from, ok := p.tokens[tokenKey{p.owner(), string(b[at : at+size])}]
		if !ok {
			p.cant = fmt.Sprintf("its parameter %s is not as any call of the trace has stored it: what it means only the runtime knows", q.Name)
			return op, nil
		}
		p.store(operand{Slot: op.Slot, Addend: op.Addend + uint64(at)}, from, nil, contiguous(uint64(size)))
	}
	return op, nil
}
