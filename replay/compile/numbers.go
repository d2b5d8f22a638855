package compile

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Kernels know some objects by a number among their arguments, which another run has others of. It may be as small as any count, so that equal words
// are no proof. But what a kernel has in one place of its arguments is the same in all launches: the place is that of an object only if no launch of
// the kernel in the trace has anything else there.

// numberPlace is a place among the arguments of a kernel.
type numberPlace struct {
	kernel *timeline.Object
	role   api.Role
	item   uint32
	off    uint64
}

// numbered is what the launches of a kernel have in a place.
type numbered struct {
	not   []bool // there was what is no object of this kind; by the kinds of api.Model.Numbers
	words []numberWord
}

// numberWord is a word that may be the number of an object.
type numberWord struct {
	reloc int             // in Plan.relocs, -1 where its call is not made
	to    []*plan.Operand // by kind, nil for what stays as it is
	made  []uint64        // call
	say   Relocated
}

// pendingNumber is a word of the call at hand, by its place in planner.relo.
type pendingNumber struct {
	of   *numbered
	word int
	relo int
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
			op, ok := p.objects.operands[o]
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
