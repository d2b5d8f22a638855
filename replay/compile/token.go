package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A token is a structure that the runtime has filled for the program to hand on as it is, such as a tensor map, which describes memory in the device's
// own form, or a part of a device (api.Param.Token). The call that makes it stores this run's into slots, and wherever the recorded bytes come later, in
// other calls, among arguments of kernels or in what is copied to the device, the slots are put in their place.

// token is what a call has made of this kind.
type token struct {
	process uint32
	bytes   []byte
	first   uint32             // slot of the first word; the others follow
	made    *timeline.Object   // stands for the token among what calls name
	leads   []*timeline.Object // memory that it describes
	from    []plan.Operand     // what it was made of
}

// tokens are those that the trace has shown so far.
type tokens struct {
	byWord map[uint64][]*token // by the first word, the newest last
	seen   [1024]uint64        // a bit for each first word, by tokenBit
	most   uint64              // bytes of the largest
}

// kindToken is the kind of object that stands for a token.
const kindToken api.Object = "token"

// tokenAlign is the number of slots that a token's first slot is a multiple of: tensor maps want to lie at multiples of 128 bytes.
const tokenAlign = plan.SlotAlign

func tokenBit(w uint64) (word int, bit uint64) {
	h := w * 0x9e3779b97f4a7c15 >> 48
	return int(h >> 6), 1 << (h & 63)
}

// makeTokens takes note of the tokens that the call at hand makes, and returns where it stores this run's. What is overwritten there gets a place of its own.
func (p *callCompiler) makeTokens(q *api.Param, b []byte, anew bool) plan.Operand {
	size := int(q.Token)
	var leads []*timeline.Object
	var from []plan.Operand
	for i := range p.f.Params {
		if q := &p.f.Params[i]; q.Role == api.Address {
			op, in, _, _ := p.locate(i, 0, p.c.Args[q.Word])
			from = append(from, op)
			if in != nil {
				leads = append(leads, in)
			}
		}
	}
	if len(b) == size && len(from) > 0 && !anew {
		// Programs describe the same memory over and over.
		t := &token{process: p.owner(), bytes: b, from: from}
		all := p.objects.tokens.byWord[plan.Number(b[:8])]
		if k := slices.IndexFunc(all, t.equal); k >= 0 {
			t = all[k]
			p.fresh, p.made = append(p.fresh, t), append(p.made, t.made)
			return t.place()
		}
	}
	for len(p.slots)%tokenAlign != 0 {
		p.slot("", nil)
	}
	op := plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(len(p.slots))}
	for at := 0; at+size <= len(b); at += size {
		t := &token{process: p.owner(), bytes: slices.Clone(b[at : at+size]), first: uint32(len(p.slots)), leads: leads, from: from}
		for k := range size / 8 {
			p.slot(fmt.Sprintf("%s of call %d, word %d", q.Name, p.c.Index, at/8+k), nil)
		}
		t.made = &timeline.Object{Kind: kindToken, Process: t.process, Handle: plan.Number(t.bytes[:8]), Created: p.c.Index}
		p.fresh, p.made = append(p.fresh, t), append(p.made, t.made)
	}
	return op
}

// addTokens makes known what the call at hand has made, which may be as what it was given.
func (p *callCompiler) addTokens() {
	for _, t := range p.fresh {
		if p.objects.tokens.byWord == nil {
			p.objects.tokens.byWord = map[uint64][]*token{}
		}
		w := plan.Number(t.bytes[:8])
		all := slices.DeleteFunc(p.objects.tokens.byWord[w], func(o *token) bool { return o == t })
		p.objects.tokens.byWord[w] = append(all, t)
		p.objects.tokens.most = max(p.objects.tokens.most, uint64(len(t.bytes)))
		word, bit := tokenBit(w)
		p.objects.tokens.seen[word] |= bit
	}
	p.fresh = p.fresh[:0]
}

// tokensIn is memory with tokens that earlier calls have made.
func (p *callCompiler) tokensIn(q *api.Param, d *format.Data) (plan.Operand, error) {
	b, err := p.bytes(d)
	if err != nil {
		return plan.Operand{}, err
	}
	for at := 0; at+int(q.Token) <= len(b); at += int(q.Token) {
		if p.token(plan.Number(b[at:][:8]), b[at:]) == nil {
			p.cant = fmt.Sprintf("its parameter %s is not as any call of the trace has stored it: what it means only the runtime knows", q.Name)
			break
		}
	}
	op, relocs, err := p.content(d, false)
	p.relo = append(p.relo, relocs...)
	return op, err
}

func (t *token) equal(o *token) bool {
	return t.process == o.process && bytes.Equal(t.bytes, o.bytes) && slices.Equal(t.from, o.from)
}

func (t *token) place() plan.Operand {
	return plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(t.first)}
}

// token is the newest one that data begins with, nil where that is none.
func (p *callCompiler) token(w uint64, b []byte) *token {
	if word, bit := tokenBit(w); p.objects.tokens.seen[word]&bit == 0 {
		return nil
	}
	for _, t := range slices.Backward(p.objects.tokens.byWord[w]) {
		if t.process == p.owner() && bytes.HasPrefix(b, t.bytes) {
			return t
		}
	}
	return nil
}

// putToken is what makes recorded bytes this run's token, at an offset of data that lies at a place of the plan's.
func (p *callCompiler) putToken(t *token, d *format.Data, off, at uint64) []plan.Reloc {
	relocs := make([]plan.Reloc, 0, len(t.bytes)/8)
	for k := range len(t.bytes) / 8 {
		relocs = append(relocs, plan.Reloc{At: at + off + 8*uint64(k), Slot: t.first + uint32(k)})
	}
	if d.Dir != format.DirIn {
		return relocs
	}
	q := &p.f.Params[d.Param]
	how := TouchNames
	if q.Role == api.Reads {
		how = TouchPoints
	}
	for _, o := range t.leads {
		p.touch(o, 0, 0, how)
	}
	p.named = append(p.named, t.made)
	p.relocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Item: d.Item, Offset: off,
		Allocation: t.made.Created, Evidence: ByToken}, binary.LittleEndian.Uint64(t.bytes))
	return relocs
}
