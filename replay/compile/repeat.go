package compile

import (
	"encoding/binary"
	"math/bits"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// Most launches in a loop repeat an earlier one: they have the same arguments, except for numbers. Such a launch has the same instruction,
// apart from the data of its argument blocks, and accesses the same memory, so it is not compiled again.

// repeatable reports whether the current call can repeat a launch, or be repeated. It must be a launch whose effects depend only on its
// arguments.
func (p *callCompiler) repeatable() bool {
	return p.facts.repeats && p.ok && p.cant == "" && p.e.Captured == nil && !p.e.AffectsGraphs() && len(p.before) == 0 && len(p.a.Data) == len(p.c.Data) &&
		!p.accesses.HasVisible() && len(p.sharing.tainted)+len(p.visible.hosted) == 0 && len(p.sharing.outsiders.memory) == 0 && len(p.gaps.all) == 0 &&
		!p.accesses.Tokens() && !p.accesses.Numbered() && len(p.Found.Relocated) >= MaxListed && p.Found.GuessesTotal == 0
}

// launchKey sets launches.key to everything that decides how a launch is compiled: its argument words, and the words in its argument blocks
// that may be addresses, or all of an operator. It returns false if the launch has arguments of another kind.
func (p *callCompiler) launchKey() bool {
	l, data := &p.launches, p.a.Data
	key := append(l.key[:0], uint64(p.f.ID)<<32|uint64(p.at.thread))
	key = append(key, p.c.Args...)
	words := key[1:]
	for _, i := range p.facts.absent {
		if words[p.f.Params[i].Word] != 0 {
			return false
		}
	}
	n := 0
	for _, i := range p.facts.blocks {
		word := &words[p.f.Params[i].Word]
		if *word == 0 {
			continue
		}
		if n == len(data) {
			return false
		}
		d := &data[n]
		if int(d.Param) != i || d.Item != 0 || d.Dir != format.DirIn || d.Status != format.Whole || d.Blob != 0 || d.Len == 0 || uint64(len(d.Bytes)) != d.Len {
			return false
		}
		*word, n = d.Len, n+1
	}
	if n != len(data) {
		return false
	}
	hash := uint64(0)
	for _, w := range key {
		hash = bits.RotateLeft64(hash, 5) ^ w
	}
	device, pinned := rangeOf(p.accesses.Words.Device), rangeOf(p.accesses.Words.Pinned)
	for i := range data {
		b, last := data[i].Bytes, uint64(0)
		operator := block.Is(b) // its numbers say what it accesses
		for k := 0; len(b) >= 8; k, b = k+8, b[8:] {
			w := binary.LittleEndian.Uint64(b)
			if device.has(w) || pinned.has(w) || operator {
				key = append(key, uint64(i)<<32|uint64(k), w)
				hash = bits.RotateLeft64(hash, 5) ^ w
			}
			if k > 0 && device.has(last>>32|w<<32) {
				return false // it may be a guess
			}
			last = w
		}
		if len(data[i].Bytes) >= 12 && len(b) >= 4 && device.has(last>>32|uint64(binary.LittleEndian.Uint32(b))<<32) {
			return false
		}
	}
	l.key, l.hash = key, hash*golden>>(64-launchBits)
	return true
}

// wordRange is an api.Window that is cheap to search.
type wordRange struct{ from, length uint64 }

func rangeOf(w api.Window) wordRange {
	if w.To < w.From {
		return wordRange{}
	}
	return wordRange{w.From, w.To - w.From + 1}
}

func (r wordRange) has(w uint64) bool { return w-r.from < r.length }

func (p *callCompiler) version() version {
	return version{p.state.Changes(), p.launches.bound, p.flow.Links()}
}

// repeat compiles the current call as a repeated launch. It returns false if it repeats none.
func (p *callCompiler) repeat(g *group) (bool, error) {
	l := p.launches.find(p.version(), p.e.Kernel)
	if l == nil {
		return false, nil
	}
	data := p.a.Data
	for i := range data {
		if _, err := p.Put(data[i].Bytes); err != nil {
			return false, err
		}
	}
	g.insts = append(g.insts, l.in)
	in := &g.insts[len(g.insts)-1]
	in.Base, in.Call, in.Want = uint32(p.data/plan.DataAlign), p.c.Index, p.c.Ret
	p.Found.Relocations += l.relocations
	if g.stream, g.kernel = l.stream, l.kernel; p.e.Stream == nil {
		g.stream = p.lane(p.e) // the default stream of the current device
	}
	p.place(g)
	return true, nil
}

// learn stores the current call as a launch that later calls may repeat. relocations is the number of relocations before it.
func (p *callCompiler) learn(in *plan.Instruction, g *group, relocations int) {
	if len(p.before)+len(p.after)+len(p.pending)+len(p.a.Named()) > 0 || p.temp != 0 {
		return
	}
	// Its data must be its argument blocks, in their order.
	next := uint64(0)
	for i := range p.a.Data {
		d := &p.a.Data[i]
		if p.words[p.f.Params[d.Param].Word] != (plan.Operand{Slot: p.ownSlot(p.at.thread), Addend: next}) {
			return
		}
		next = (next + d.Len + plan.DataAlign - 1) &^ (plan.DataAlign - 1)
	}
	if p.Aligned() != p.data+next {
		return
	}
	l := p.launches.room()
	l.key, l.version, l.in, l.relocations = append(l.key[:0], p.launches.key...), p.version(), *in, p.Found.Relocations-relocations
	l.stream, l.kernel, l.name = g.stream, g.kernel, p.e.Kernel
}
