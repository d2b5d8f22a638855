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
// alone proves nothing. A position in the arguments holds object numbers only if every launch of the kernel in the trace has such a
// number there.
//
// A token is a structure that the runtime fills and the program passes on unchanged, such as a tensor map or a part of a device
// (api.Param.Token). The call that makes a token stores this run's token into slots. The slots replace the recorded bytes wherever they
// occur later: in calls, kernel arguments and copies to the device.

// scanWords handles the words that start in the first n bytes of b, at an offset in the payload. It returns how many bytes are done, more
// than n if a token extends beyond them.
func (p *callCompiler) scanWords(s *scan, b []byte, off, n uint64) uint64 {
	if s.most > 0 {
		n = p.scanTokens(s, b, off, n)
	}
	if !s.addresses {
		return n
	}
	piece := b[:min(n+7, uint64(len(b)))] // words that begin in the first n bytes
	if s.either {
		words := p.pointers.words.Near(&s.payload, piece, off)
		s.suspect = s.suspect || len(words) > 0
		for i := range words {
			if s.tokens == nil || !s.inToken(words[i].At) {
				p.either(s, &words[i])
			}
		}
		return n
	}
	words, suspect := p.pointers.words.Find(&s.payload, piece, off)
	s.suspect = s.suspect || suspect
	for i := range words {
		if s.tokens == nil || !s.inToken(words[i].At) {
			p.word(s, &words[i])
		}
	}
	return n
}

// scanTokens is scanWords for tokens.
func (p *callCompiler) scanTokens(s *scan, b []byte, off, n uint64) uint64 {
	for k := uint64(0); k < n && k+8 <= uint64(len(b)); k += 8 {
		t := p.token(binary.LittleEndian.Uint64(b[k:]), b[k:])
		if t == nil {
			continue
		}
		s.suspect = true
		s.tokens = append(s.tokens, stretch{off + k, off + k + uint64(len(t.bytes))})
		p.found = append(p.found, p.putToken(t, s.d, off+k, s.at)...)
		k += uint64(len(t.bytes)) - 8
		n = max(n, min(k+8, uint64(len(b))))
	}
	return n
}

// inToken reports whether a word belongs to a token.
func (s *scan) inToken(at uint64) bool {
	return slices.ContainsFunc(s.tokens, func(t stretch) bool { return t.from <= at && at < t.to })
}

// numbers records the argument words that may be object numbers. They stay unchanged until all launches are known.
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
			continue // no object
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
			} else if ok && o != nil { // otherwise the object is destroyed, and the kernel does not use it
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

// settleNumbers relocates the positions that hold object numbers in all launches.
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
	// They come first, since they are the least certain.
	p.Found.Relocations += len(all)
	all = append(all, p.Found.Relocated...)
	p.Found.Relocated = all[:min(len(all), MaxListed)]
}

// tokenAlign is a token's alignment in slots. Tensor maps need 128 bytes.
const tokenAlign = plan.SlotAlign

func tokenBit(w uint64) (word int, bit uint64) {
	h := w * 0x9e3779b97f4a7c15 >> 48
	return int(h >> 6), 1 << (h & 63)
}

// makeTokens records the tokens that the current call makes, and returns the address for this run's tokens. An overwritten token gets new
// slots.
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
		// Programs often describe the same memory again.
		t := &token{process: p.owner(), bytes: b, from: from}
		all := p.objects.tokens.byWord[plan.Number(b[:8])]
		if k := slices.IndexFunc(all, t.equal); k >= 0 {
			t = all[k]
			p.fresh = append(p.fresh, t)
			return t.place()
		}
	}
	for len(p.slots)%tokenAlign != 0 {
		p.slot("", nil)
	}
	op := plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(len(p.slots))}
	for at := 0; at+size <= len(b); at += size {
		t := &token{process: p.owner(), bytes: slices.Clone(b[at : at+size]), first: uint32(len(p.slots)), leads: leads, from: from, call: p.c.Index}
		for k := range size / 8 {
			p.slot(fmt.Sprintf("%s of call %d, word %d", q.Name, p.c.Index, at/8+k), nil)
		}
		p.fresh = append(p.fresh, t)
	}
	return op
}

// addTokens adds the tokens that the current call makes, after its arguments were compiled.
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

// tokensIn returns the operand for memory with tokens from earlier calls.
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

// token returns the newest token that b starts with, nil for none.
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

// putToken returns the relocations that replace a recorded token by this run's token. at is the payload's offset in the plan's data.
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
	p.relocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Item: d.Item, Offset: off,
		Allocation: t.call, Evidence: ByToken}, binary.LittleEndian.Uint64(t.bytes))
	return relocs
}
