package device

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// A kernel that did not run could have written all memory that it reaches: through the addresses in its argument block, through those in the
// memory that they point to, and so on. Memory here is device memory, managed memory, and host memory that the runtime knows.
//
// Three rules make the search complete:
//   - Memory that such a kernel has reached before may hold the address of anything that the kernel reached. The marks have these groups.
//   - If the content of reached memory is unknown for another reason, for example because the trace lacks it, any memory may be reached. So it is
//     if a kernel that was not computed declared to write it.
//   - A word is an address if it lies in such memory. At an offset that is not a multiple of 4 it must be the start of an allocation.
//     Addresses that are encoded are not found.

func (s *Machine) windows() windows {
	n := uint64(len(s.Devices))
	w := windows{{Addr: s.Options.VABase, Size: n * (memory.ArenaStride + memory.ReserveStride)}, {}, s.Managed.Live.Bounds(), s.Host.Bounds()}
	for _, d := range s.Devices {
		w[1] = w[1].With(d.Memory.Placed())
	}
	return w
}

// search is one search for the memory that a kernel reaches.
type search struct {
	*Machine
	windows
	found map[space.Span]target
	queue []target
	group *memory.Group
	any   bool // every memory may be reached
	open  bool // memory was reached that may change unseen
}

// target is memory that kernels may reach.
type target struct {
	space.Span
	block  *memory.Block // of device memory; nil for other memory
	memory *memory.Memory
	write  bool // kernels may write it
}

// TaintReached marks all memory that a kernel could have written which did not run. args is its argument block, which is in memory of the
// program if own is false.
func (s *Machine) TaintReached(args space.Span, own bool, kernel string) {
	r := &s.Unknowns.reach
	r.active.Store(true)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.ended == nil {
		r.ended = map[space.Span]uint64{}
	}
	f := &search{Machine: s, windows: s.windows(), found: map[space.Span]target{}, group: &memory.Group{}}
	if !own {
		f.address(args.Addr, true)
		f.content(args)
	}
	f.scan(args, 0, f.address)
	for len(f.queue) > 0 && !f.any {
		t := f.queue[0]
		f.queue = f.queue[1:]
		f.content(t.Span)
		f.pointers(t)
	}
	if f.any {
		f.everything()
	}
	g := f.group.Root()
	mark := &memory.Mark{Why: kernel, Group: g}
	r.clock++
	for span, t := range f.found {
		g.Add(span, r.clock)
		r.ended[span] += 0 // known from now on
		if t.write {
			s.mark(span, mark)
		}
	}
	if g.Searched = r.clock; f.open {
		g.Searched = 0
	}
}

// content takes in what the marks of memory say about its content.
func (f *search) content(at space.Span) {
	for _, m := range f.in(at) {
		g := m.Value.Group
		if r := Rank(m.Value.Why); r == givenRank || r == KernelRank && g == nil {
			f.any = true
		}
		if g != nil && g.Root() != f.group.Root() {
			f.join(g.Root())
		}
	}
}

// join adds the memory of a group. If it was searched before, only memory that has changed since is searched again.
func (f *search) join(g *memory.Group) {
	r := &f.Unknowns.reach
	add := func(span space.Span) {
		if at, in := g.Spans()[span]; in && r.ended[span] < at {
			f.address(span.Addr, true)
		}
	}
	if g.Searched > r.lost {
		k, _ := slices.BinarySearchFunc(r.changed, g.Searched, func(c change, at uint64) int { return cmp.Compare(c.at, at+1) })
		for _, c := range r.changed[k:] {
			for t, ok := f.at(c.where.Addr); ok && t.Addr < c.where.End(); t, ok = f.at(t.End()) {
				add(t.Span)
			}
		}
	} else {
		for span := range g.Spans() {
			add(span)
		}
	}
	f.group = f.group.Join(g)
}

// address adds the memory that a word points to. A word that is not aligned counts only if it is the start of an allocation.
func (f *search) address(word uint64, aligned bool) {
	t, ok := f.at(word)
	if !ok && aligned {
		t, ok = f.at(word - 1) // one past the end
	}
	if !ok || !aligned && word != t.Addr {
		return
	}
	f.add(t)
}

func (f *search) add(t target) {
	if _, known := f.found[t.Span]; !known {
		f.found[t.Span] = t
		f.queue = append(f.queue, t)
	}
}

// at returns the memory at an address.
func (s *Machine) at(addr uint64) (t target, ok bool) {
	if d := s.Locate(addr).Device; d != nil {
		r, ok := d.Memory.Live.Find(addr)
		return target{r.Span, &r.Value, &d.Memory, r.Value.Access&space.Write != 0}, ok
	}
	if r, ok := s.Managed.Live.Find(addr); ok {
		return target{Span: r.Span, write: true}, true
	}
	if r, ok := s.Host.Registered.Find(addr); ok {
		return target{Span: r.Span, write: r.Value.Access != space.Read}, true
	}
	r, ok := s.Host.Live.Find(addr)
	return target{Span: r.Span, write: true}, ok
}

// everything adds all memory.
func (f *search) everything() {
	for _, d := range f.Devices {
		for _, r := range d.Memory.Live.All() {
			f.add(target{r.Span, &r.Value, &d.Memory, r.Value.Access&space.Write != 0})
		}
	}
	for _, r := range f.Managed.Live.All() {
		f.add(target{Span: r.Span, write: true})
	}
	for _, r := range f.Host.Registered.All() {
		f.add(target{Span: r.Span, write: r.Value.Access != space.Read})
	}
	for _, r := range f.Host.Live.All() {
		f.add(target{Span: r.Span, write: true})
	}
}

// pointers takes in the addresses in memory. Memory that only this process can write, at one address, is searched once.
func (f *search) pointers(t target) {
	keeps := t.block != nil && (t.block.Physical == nil || !t.block.Physical.Aliased.Load())
	if keeps {
		f.shared(t.Span, func(*memory.Shared) bool { keeps = false; return true })
	}
	if !keeps {
		f.open = true
		f.scan(t.Span, 0, f.address)
		return
	}
	r := &f.Unknowns.reach
	for at := t.Addr; at < t.End(); at += pieceSize {
		p := r.pieces[at]
		if p == nil || p.windows != f.windows {
			p = &piece{windows: f.windows}
			f.stored(t, space.Span{Addr: at, Size: min(pieceSize, t.End()-at)}, func(s space.Span) { f.scan(s, min(7, t.End()-s.End()), p.add) })
			if len(p.aligned)+len(p.odd) <= pieceMost {
				if r.pieces == nil {
					r.pieces = map[uint64]*piece{}
				}
				r.pieces[at] = p
			}
		}
		for _, w := range p.aligned {
			f.address(w, true)
		}
		for _, w := range p.odd {
			f.address(w, false)
		}
	}
}

// stored visits the blocks of device memory that have ever been written, since reading the others would cost memory.
func (f *search) stored(t target, at space.Span, visit func(space.Span)) {
	fd, base := t.memory.File(t.Addr)
	if p := t.block.Physical; p != nil {
		fd, base = p.FD, t.Addr
	}
	if fd < 0 {
		visit(at)
		return
	}
	// A search for the end of the data would pass through all of it.
	for end := at.End(); at.Addr < end; at.Addr += at.Size {
		at.Size = min(block-(at.Addr-base)%block, end-at.Addr)
		data, err := unix.Seek(fd, int64(at.Addr-base), unix.SEEK_DATA)
		switch next := base + uint64(data); {
		case err == unix.ENXIO:
			return
		case err != nil: // the system can't tell
			visit(at)
		case next >= end:
			return
		case next >= at.End():
			at = space.Span{Addr: next} // go on there
		default:
			visit(at)
		}
	}
}

// scan visits the words in memory that may be addresses, at every offset. aligned reports whether that is a multiple of 4. Words may extend into
// the more bytes that follow.
func (f *search) scan(at space.Span, more uint64, visit func(word uint64, aligned bool)) {
	_ = space.Guard(func() {
		b := space.Bytes(at.Addr, at.Size+more)
		see := func(k int) {
			if w := binary.LittleEndian.Uint64(b[k:]); f.hold(w) {
				visit(w, (at.Addr+uint64(k))%4 == 0)
			}
		}
		k := 0
		for ; k+16 <= len(b); k += 8 {
			if mayHoldAddress(b[k : k+16 : k+16]) {
				for i := range 8 {
					see(k + i)
				}
			}
		}
		for ; k+8 <= len(b); k++ {
			see(k)
		}
	})
}

// mayHoldAddress reports whether one of the first 8 words, at each offset, may be an address: the last two bytes of those are 0.
func mayHoldAddress(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w, next := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	last := w>>48 | next<<16
	return (last-ones)&^last&highs != 0 && w|next != 0
}
