package compile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Kernels know some objects by a number among their arguments, which differs from run to run. Small numbers are common, so an equal word
// alone proves nothing. A place in the arguments holds the number of an object only if every launch of the kernel in the trace has a number
// of such an object there.
//
// A token is a structure that the runtime fills for the program to pass on unchanged, such as a tensor map, which describes memory in a form
// of the device, or a part of a device (api.Param.Token). The call that makes a token stores this run's token into slots. Wherever the recorded
// bytes occur later, in calls, kernel arguments or copies to the device, the slots replace them.

// scanWords looks at the words that begin in the first n bytes of b, which lie at an offset of the data. It returns how many bytes of b are
// done with: a token may reach further.
func (p *callCompiler) scanWords(s *scan, b []byte, off, n uint64) uint64 {
	if !s.addresses && s.most == 0 {
		return n
	}
	device, pinned := p.pointers.addressed, p.pointers.pinned
	for k := uint64(0); k < n && k+8 <= uint64(len(b)); k += 8 {
		w := binary.LittleEndian.Uint64(b[k:])
		if s.most > 0 {
			if t := p.token(w, b[k:]); t != nil {
				s.suspect = true
				p.reused.relocs = append(p.reused.relocs, p.putToken(t, s.d, off+k, s.at)...)
				k += uint64(len(t.bytes)) - 8
				n = max(n, min(k+8, uint64(len(b))))
				continue
			}
		}
		if !s.addresses || (w < device.From || w > device.To) && !(s.reaches && w >= pinned.From && w <= pinned.To) {
			continue
		}
		s.suspect = true
		if r, ok := p.relocation(s, w, off+k); ok {
			p.reused.relocs = append(p.reused.relocs, r)
		}
	}
	return n
}

// numbers takes note of the words among arguments that may be numbers of objects. Until all launches are known they are what they were.
func (p *callCompiler) numbers(i int, d *format.Data, from plan.Operand) error {
	if p.objects.counted == 0 {
		return nil
	}
	b, err := p.bytes(d)
	kinds := p.Model.Numbers
	n := slices.IndexFunc(p.e.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Function })
	for k := 0; k+8 <= len(b); k += 8 {
		w := plan.Number(b[k:][:8])
		if w == 0 {
			continue // none
		}
		key := numberPlace{role: p.f.Params[i].Role, item: d.Item, off: uint64(k)}
		if n >= 0 {
			key.kernel = p.e.Uses[n].Object
		}
		at := p.objects.numbered[key]
		if at == nil {
			at = &numbered{not: make([]bool, len(kinds))}
			p.objects.numbered[key] = at
		}
		if !slices.Contains(at.not, false) {
			continue
		}
		word := numberWord{to: make([]*plan.Operand, len(kinds)), made: make([]uint64, len(kinds)), reloc: -1,
			say: Relocated{Call: p.c.Index, Func: p.f.Name, Param: p.f.Params[i].Name, Item: d.Item, Offset: uint64(k), Value: hexWord(w), Evidence: ByHandle}}
		for n, kind := range kinds {
			o := p.state.Known(p.owner(), kind, w)
			op, ok := p.objects.operands.get(o)
			if _, was := p.objects.former[objectKey{p.owner(), kind, w}]; !was {
				at.not[n] = true
			} else if ok && o != nil { // else it is gone, and the kernel does not look at it
				word.to[n], word.made[n] = &op, o.Created
				if !at.not[n] {
					p.named = append(p.named, o)
				}
			}
		}
		if slices.Contains(at.not, false) {
			p.pending = append(p.pending, pendingNumber{at, len(at.words), len(p.relo)})
			p.relo = append(p.relo, plan.Reloc{At: from.Addend + uint64(k), Addend: w})
			at.words = append(at.words, word)
		}
	}
	return err
}

// settleNumbers puts the numbers of this run in the place of those that are objects in all launches.
func (p *compiler) settleNumbers() {
	var all []Relocated
	for _, at := range p.objects.numbered {
		n := slices.Index(at.not, false)
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
	// They come first, since they are the ones to doubt.
	p.Found.Relocations += len(all)
	all = append(all, p.Found.Relocated...)
	p.Found.Relocated = all[:min(len(all), MaxListed)]
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
	how := access.Names
	if q.Role == api.Reads {
		how = access.Points
	}
	for _, o := range t.leads {
		p.access(o, 0, 0, how)
	}
	p.named = append(p.named, t.made)
	p.relocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Item: d.Item, Offset: off,
		Allocation: t.made.Created, Evidence: ByToken}, binary.LittleEndian.Uint64(t.bytes))
	return relocs
}
