package compile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline/access"
)

// Kernels know some objects by a number among their arguments, which differs from run to run. Small numbers are common, so an equal word
// alone proves nothing. A position in the arguments holds object numbers only if every launch of the kernel in the trace has such a
// number there.
//
// A token is a structure that the runtime fills and the program passes on unchanged, such as a tensor map or a part of a device
// (api.Param.Token). The call that makes a token stores this run's token into slots. The slots replace the recorded bytes wherever they
// occur later: in calls, kernel arguments and copies to the device.

// numbers records the argument words that may be object numbers. They stay unchanged until all launches are known.
func (p *callCompiler) numbers(i int, d *format.Data, from plan.Operand) error {
	if !p.accesses.Numbered() {
		return nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return err
	}
	for _, n := range p.a.Numbers(d, b) {
		w := plan.Number(b[n.At:][:8])
		word := numberWord{to: make([]*plan.Operand, len(n.Objects)), made: make([]uint64, len(n.Objects)), reloc: -1,
			say: Relocated{PayloadWord: p.payloadWord(&p.f.Params[i], d.Item, n.At, w), Evidence: ByHandle}}
		for k, o := range n.Objects {
			if op, ok := p.objects.operands.Get(o); ok && o != nil {
				word.to[k], word.made[k] = &op, o.Created
			}
		}
		at := p.objects.numbered[n.Place]
		if at == nil {
			at = &numbered{}
			p.objects.numbered[n.Place] = at
		}
		p.pending = append(p.pending, pendingNumber{at, len(at.words), len(p.relo)})
		p.relo = append(p.relo, plan.Reloc{At: from.Addend + n.At, Addend: w})
		at.words = append(at.words, word)
	}
	return nil
}

// settleNumbers relocates the positions that hold object numbers in all launches.
func (p *compiler) settleNumbers() {
	var all []Relocated
	for place, at := range p.objects.numbered {
		n := place.Kind()
		for _, w := range at.words {
			if n < 0 || w.to[n] == nil || w.reloc < 0 {
				continue
			}
			r := p.Reloc(w.reloc)
			r.Addend, r.Slot = w.to[n].Addend, w.to[n].Slot
			p.SetReloc(w.reloc, r)
			w.say.Allocation = w.made[n]
			all = append(all, w.say)
		}
	}
	slices.SortFunc(all, func(a, b Relocated) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Offset, b.Offset))
	})
	// They come first, since they are the least certain.
	p.Found.Relocations += len(all)
	all = append(all, p.Found.Relocated...)
	p.Found.Relocated = all[:min(len(all), MaxListed)]
}

// tokenAlign is a token's alignment in slots. Tensor maps need 128 bytes.
const tokenAlign = plan.SlotAlign

// makeTokens returns the address for the tokens that the current call makes by a parameter. A token that was made before has its slots, an
// overwritten token gets new ones.
func (p *callCompiler) makeTokens(i int, q *api.Param) plan.Operand {
	made := p.a.MadeTokens(i)
	if len(made) == 1 {
		if first, ok := p.objects.tokens[made[0]]; ok {
			return slotAddress(first)
		}
	}
	for len(p.slots)%tokenAlign != 0 {
		p.slot("", nil)
	}
	op := slotAddress(uint32(len(p.slots)))
	at := 0
	for _, t := range made {
		p.objects.tokens[t] = uint32(len(p.slots))
		for range len(t.Bytes) / 8 {
			p.slot(fmt.Sprintf("%s from call %d, word %d", q.Name, p.c.Index, at), nil)
			at++
		}
	}
	return op
}

// tokensIn returns the operand for memory with tokens from earlier calls.
func (p *callCompiler) tokensIn(q *api.Param, d *format.Data) (plan.Operand, error) {
	b, err := p.bytes(d)
	if err != nil {
		return plan.Operand{}, err
	}
	for at := 0; at+int(q.Token) <= len(b); at += int(q.Token) {
		if p.a.Token(b[at:]) == nil {
			p.cant = fmt.Sprintf("no call in the trace stored its parameter %s, and only the runtime understands it", q.Name)
			break
		}
	}
	op, relocs, err := p.content(d)
	p.relo = append(p.relo, relocs...)
	return op, err
}

// putToken returns the relocations that replace a recorded token by this run's token.
func (p *callCompiler) putToken(s *scan, t access.FoundToken) []plan.Reloc {
	relocs := make([]plan.Reloc, 0, len(t.Bytes)/8)
	for k := range len(t.Bytes) / 8 {
		relocs = append(relocs, plan.Reloc{At: s.at + t.At + 8*uint64(k), Slot: p.objects.tokens[t.Token] + uint32(k)})
	}
	if s.listed() {
		p.relocated(s.q, s.d.Item, t.At, binary.LittleEndian.Uint64(t.Bytes), Target{Allocation: t.Object.Created}, ByToken)
	}
	return relocs
}
