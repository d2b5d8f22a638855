package device

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A kernel without a library writes nothing here, but would write on a device. All memory that it could reach (see reach.go) is therefore
// marked with the kernel's name. A kernel that is not computed, but declares what it writes, marks that alone. Copies, reductions and kernels that read marked memory pass the mark on; known data removes it. A copy of
// marked bytes to the host is reported, since a device would have other bytes.
//
// With Options.Uninitialised, new device memory and physical memory carry a mark too. Kernels may write more than their extents declare, so
// bytes that are not zero lose this mark. Memory that the host can access and memory of other processes never carry it.
//
// Memory that processes share also has a stain: the name of a kernel that may have written any part. A stain lasts as long as the memory.

// Unknowns counts launches of kernels that are not executed, and copies that depend on them.
type Unknowns struct {
	Launches Launches    // of unknown kernels
	Declared Launches    // of kernels that declare what they write
	Any      atomic.Bool // some memory has been marked
	Crashed  atomic.Pointer[Crash]
	mu       sync.Mutex
	copies   int64
	bytes    uint64
	said     map[string]bool // that LogOnce has logged
	reach
}

// Launches counts launches by kernel.
type Launches struct{ byName sync.Map }

// Of returns the count of a kernel, which only grows.
func (l *Launches) Of(kernel string) *atomic.Int64 {
	n, _ := l.byName.LoadOrStore(kernel, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// All returns the launches of each kernel that was launched.
func (l *Launches) All() map[string]int64 {
	m := map[string]int64{}
	l.byName.Range(func(name, n any) bool {
		if c := n.(*atomic.Int64).Load(); c > 0 {
			m[name.(string)] = c
		}
		return true
	})
	return m
}

// marks calls visit with the parts of a range and the marks that each has. In the marks, a part begins at the address of in.
func (s *Machine) marks(at space.Span, visit func(u *space.Marks[memory.Mark], part, in space.Span)) {
	d := s.Locate(at.Addr).Device
	switch {
	case d == nil:
		visit(&s.Host.Marks, at, at)
		return
	case !d.Memory.Has.Mappings.Load():
		visit(&d.Memory.Unknown, at, at)
		return
	}
	for c := d.Memory.Live.At(at.Addr); at.Size > 0; {
		part, in, u := at, at, &d.Memory.Unknown
		if c.OK() && c.Get().Addr < at.End() {
			r := c.Get()
			if r.Addr > at.Addr { // not mapped
				part.Size = r.Addr - at.Addr
			} else {
				part.Size = min(at.Size, r.End()-at.Addr)
				c.Next()
			}
			in = part
			if p := r.Value.Physical; p != nil && r.Addr <= at.Addr {
				u, in.Addr = &p.Unknown, part.Addr-r.Addr
			}
		}
		visit(u, part, in)
		at = space.Span{Addr: part.End(), Size: at.Size - part.Size}
	}
}

// in returns the marked parts of a range.
func (s *Machine) in(at space.Span) (found []space.Region[memory.Mark]) {
	s.marks(at, func(u *space.Marks[memory.Mark], part, in space.Span) {
		for _, r := range u.In(in) {
			r.Addr += part.Addr - in.Addr
			found = append(found, r)
		}
	})
	return found
}

// clear removes the marks of a range.
func (s *Machine) clear(at space.Span) {
	s.marks(at, func(u *space.Marks[memory.Mark], _, in space.Span) { u.Clear(in) })
}

// onHost reports whether an address is in host memory, and whether the program may change that unseen.
func (s *Machine) onHost(addr uint64) (host, pageable bool) {
	l := s.Locate(addr)
	_, registered := s.Host.Registered.Find(addr)
	return l.Device == nil, l.Kind == Pageable && !registered
}

// Unknown reports whether bytes depend on an unknown kernel, and returns its name. With Options.Uninitialised it
// reports unwritten memory as "". Memory in a race is reported as RaceMark. Host memory counts if a copy wrote it
// last.
func (s *Machine) Unknown(addr, size uint64) (kernel string, ok bool) {
	if !s.Unknowns.Any.Load() {
		return "", false
	}
	if c := s.Unknowns.Crashed.Load(); c != nil {
		return CrashMark + c.Kernel, true
	}
	m, ok := s.unknown(space.Span{Addr: addr, Size: size})
	return m.Why, ok
}

// unknown is Unknown without crashes. The mark has the groups of all kernels that did not run.
func (s *Machine) unknown(at space.Span) (m memory.Mark, ok bool) {
	for _, r := range s.marked(at) {
		m.Group = s.Unknowns.join(m.Group, r.Value.Group)
		if !ok || Rank(r.Value.Why) > Rank(m.Why) {
			m.Why, ok = r.Value.Why, true
		}
	}
	if kernel, stained := s.stained(at); stained {
		m.Why, ok = kernel, true
	}
	if s.Strict.Racy(at) && Rank(m.Why) < Rank(RaceMark) {
		m.Why, ok = RaceMark, true
	}
	return m, ok
}

// givenMark is the prefix of marks that a caller set. The reason follows.
const givenMark = "\x00given"

// Mark marks a range with a caller's reason, which MarkReason extracts from the result of Unknown. Reason 0 removes marks.
// Host memory keeps the mark until a copy overwrites it.
func (s *Machine) Mark(addr, size uint64, reason uint8) {
	if reason == 0 {
		s.MarkKnown(addr, size)
		return
	}
	m := given(reason)
	s.Taint(space.Span{Addr: addr, Size: size}, &m)
}

// Weak is the least reason whose marks give way to all others.
const Weak = 128

func given(reason uint8) memory.Mark { return memory.Mark{Why: givenMark + string([]byte{reason})} }

// MarkReason returns the reason of a mark that a caller set.
func MarkReason(kernel string) (reason uint8, ok bool) {
	if !strings.HasPrefix(kernel, givenMark) {
		return 0, false
	}
	return kernel[len(kernel)-1], true
}

// CrashMark is the prefix of Unknown's result after a kernel crashed. The kernel's name follows.
const CrashMark = "\x00crash"

// RaceMark is Unknown's result for memory in a race.
const RaceMark = "\x00race"

// Rank orders marks. The highest mark in a range wins.
func Rank(kernel string) int {
	switch kernel {
	case uninitialised.Why:
		return 0
	case RaceMark:
		return 1
	}
	if reason, ok := MarkReason(kernel); ok && reason >= Weak {
		return weakRank
	} else if ok {
		return givenRank
	}
	return KernelRank
}

// Ranks of caller's marks and of kernel names.
const (
	weakRank   = -1
	givenRank  = 2
	KernelRank = 3
)

// marked returns the marked parts of a range. Bytes that are not zero lose the mark of new memory.
func (s *Machine) marked(at space.Span) []space.Region[memory.Mark] {
	found := s.in(at)
	if !s.Options.Uninitialised {
		return found
	}
	written := false
	for _, r := range found {
		if r.Value != uninitialised {
			continue
		}
		b := space.Bytes(r.Addr, r.Size)
		first := slices.IndexFunc(b, func(x byte) bool { return x != 0 })
		if first < 0 {
			continue
		}
		last := len(b)
		for b[last-1] == 0 {
			last--
		}
		s.clear(space.Span{Addr: r.Addr + uint64(first), Size: uint64(last - first)})
		written = true
	}
	if written {
		return s.in(at)
	}
	return found
}

// Taint marks a range.
func (s *Machine) Taint(at space.Span, m *memory.Mark) {
	s.written(at)
	s.mark(at, m)
}

// mark is Taint by a search.
func (s *Machine) mark(at space.Span, m *memory.Mark) {
	s.Unknowns.Any.Store(true)
	s.marks(at, func(u *space.Marks[memory.Mark], _, in space.Span) { u.Set(in, m) })
	if Rank(m.Why) == KernelRank {
		s.stain(at, m.Why)
	}
}

var uninitialised memory.Mark

// MarkNew marks new device memory.
func (s *Machine) MarkNew(at space.Span) {
	if s.Options.Uninitialised {
		s.Taint(at, &uninitialised)
	}
}

// MarkPhysical marks new physical memory.
func (s *Machine) MarkPhysical(p *memory.Physical) {
	if s.Options.Uninitialised {
		s.Unknowns.Any.Store(true)
		p.Unknown.Set(space.Span{Size: p.Size}, &uninitialised)
	}
}

// written forgets what was found in memory that was written.
func (s *Machine) written(at space.Span) {
	r := &s.Unknowns.reach
	d := s.Locate(at.Addr).Device
	if !r.active.Load() || d == nil {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.change(at)
	for c := d.Memory.Live.At(at.Addr); c.OK() && c.Get().Addr < at.End(); c.Next() {
		start := c.Get().Addr
		from := start
		if at.Addr > start+7 { // a word may begin in the piece before
			from += (at.Addr - 7 - start) / pieceSize * pieceSize
		}
		for ; from < min(at.End(), c.Get().End()) && len(r.pieces) > 0; from += pieceSize {
			delete(r.pieces, from)
		}
	}
}

// UnknownResults returns the number of copies to the host with tainted bytes, and the number of those bytes.
func (s *Machine) UnknownResults() (copies int64, bytes uint64) {
	s.Unknowns.mu.Lock()
	defer s.Unknowns.mu.Unlock()
	return s.Unknowns.copies, s.Unknowns.bytes
}

// MarkKnown removes marks after known data was written.
func (s *Machine) MarkKnown(addr, n uint64) {
	if s.Unknowns.Any.Load() {
		s.written(space.Span{Addr: addr, Size: n})
		s.clear(space.Span{Addr: addr, Size: n})
	}
}

// Follow passes marks on after a transfer.
func (s *Machine) Follow(x *Transfer) {
	if !s.Unknowns.Any.Load() && x.Doubt == 0 {
		return
	}
	if x.Staged != nil {
		s.MarkKnown(x.Dst, x.Width)
		return
	}
	host, _ := s.onHost(x.Dst)
	fromHost, pageable := s.onHost(x.Src)
	var kernel string
	total := uint64(0)
	for i := range x.Height {
		dst, src := space.Span{Addr: x.Dst + i*x.DstPitch, Size: x.Width}, space.Span{Addr: x.Src + i*x.SrcPitch, Size: x.Width}
		found := s.marked(src)
		if _, ok := s.stained(src); ok {
			m, _ := s.unknown(src)
			found = []space.Region[memory.Mark]{{Span: src, Value: m}}
		}
		if pageable { // the program may have written it since; only the caller's marks stay
			found = slices.DeleteFunc(found, func(r space.Region[memory.Mark]) bool {
				return Rank(r.Value.Why) != givenRank && Rank(r.Value.Why) != weakRank
			})
		}
		if len(found) == 0 && s.Strict.Racy(src) {
			found = []space.Region[memory.Mark]{{Span: src, Value: memory.Mark{Why: RaceMark}}}
		}
		s.MarkKnown(dst.Addr, dst.Size)
		if fromHost && x.Doubt != 0 {
			s.Mark(dst.Addr, dst.Size, x.Doubt)
			doubt := given(x.Doubt)
			found = slices.DeleteFunc(found, func(r space.Region[memory.Mark]) bool { return Rank(r.Value.Why) < Rank(doubt.Why) })
		}
		for _, r := range found {
			s.Taint(space.Span{Addr: dst.Addr + r.Addr - src.Addr, Size: r.Size}, &r.Value)
			if Rank(r.Value.Why) == KernelRank {
				kernel = r.Value.Why
				total += r.Size
			}
		}
	}
	if host && !fromHost && total > 0 {
		s.reportUnknown(x, kernel, total)
	}
}

// TaintDeclared marks the memory that a kernel declares to write which was not computed.
func (s *Machine) TaintDeclared(extents []space.Extent, kernel string) {
	m := &memory.Mark{Why: kernel}
	for _, x := range extents {
		if x.Access&space.Write != 0 && x.Size > 0 {
			s.Taint(space.Span{Addr: x.Addr, Size: x.Size}, m)
		}
	}
}

// LogUnknown logs a dependence on an unknown kernel, once per kernel. Those that declare what they write are counted at the end alone.
func (s *Machine) LogUnknown(kernel, format string, a ...any) {
	if s.Unknowns.Declared.Of(kernel).Load() == 0 {
		s.LogOnce(kernel, format, a...)
	}
}

// LogOnce logs something once.
func (s *Machine) LogOnce(what, format string, a ...any) {
	u := &s.Unknowns
	u.mu.Lock()
	first := !u.said[what]
	if u.said == nil {
		u.said = map[string]bool{}
	}
	u.said[what] = true
	u.mu.Unlock()
	if first {
		s.Log(format, a...)
	}
}

// reportUnknown counts and logs a copy of tainted bytes to the host.
func (s *Machine) reportUnknown(x *Transfer, kernel string, n uint64) {
	u := &s.Unknowns
	u.mu.Lock()
	u.copies++
	u.bytes += n
	u.mu.Unlock()
	s.LogUnknown(kernel, "copy from %#x to the host at %#x: %d of its %d bytes depend on output of kernel %q, which is in no kernel library",
		x.Src, x.Dst, n, x.Width*x.Height, kernel)
}

// Spread passes marks on after a kernel ran: if it read tainted memory, its output is tainted. args are the kernel's
// arguments; nil if the extents refer to none. New memory that is read as a workspace spreads nothing. doubt is a reason to mark all output, 0
// for none.
func (s *Machine) Spread(extents []space.Extent, args []Arg, doubt uint8) {
	if !s.Unknowns.Any.Load() && doubt == 0 {
		return
	}
	s.Unknowns.rescan() // it may have written more than it declares
	var from memory.Mark
	found := doubt != 0
	if found {
		from = given(doubt)
	}
	for _, x := range extents {
		if x.Access&space.Read == 0 || x.Size == 0 {
			continue
		}
		m, ok := s.unknown(space.Span{Addr: x.Addr, Size: x.Size})
		if !ok || m.Why == uninitialised.Why && int(x.Arg) < len(args) && args[x.Arg].Kind == ArgWorkspace {
			continue
		}
		if g := s.Unknowns.join(from.Group, m.Group); !found || Rank(m.Why) > Rank(from.Why) {
			from, found = memory.Mark{Why: m.Why, Group: g}, true
		} else {
			from.Group = g
		}
	}
	for _, x := range extents {
		if x.Access&space.Write == 0 || x.Size == 0 {
			continue
		}
		if found {
			s.Taint(space.Span{Addr: x.Addr, Size: x.Size}, &from)
		} else {
			s.clear(space.Span{Addr: x.Addr, Size: x.Size})
		}
	}
}

// stain keeps a kernel's name with memory that processes share.
func (s *Machine) stain(at space.Span, kernel string) {
	s.shared(at, func(x *memory.Shared) bool {
		x.Slot.Stain(kernel)
		return false
	})
}

// stained returns the kernel that may have written memory in another process.
func (s *Machine) stained(at space.Span) (kernel string, ok bool) {
	s.shared(at, func(x *memory.Shared) bool {
		kernel, ok = x.Slot.StainedBy()
		return ok
	})
	return kernel, ok
}

// shared visits the memory in a range that processes share, until visit returns true.
func (s *Machine) shared(at space.Span, visit func(*memory.Shared) bool) {
	d := s.Locate(at.Addr).Device
	if d == nil {
		return
	}
	for c := d.Memory.Live.At(at.Addr); c.OK() && c.Get().Addr < at.End(); c.Next() {
		r := c.Get()
		x := r.Value.Shared
		if r.Value.Physical != nil {
			x = r.Value.Physical.Shared
		} else if x == nil {
			x = s.Shares.MemoryAt(r.Span)
		}
		if x != nil && visit(x) {
			return
		}
	}
}

// Expose copies the marks of memory into its stain before other processes import it. p is physical memory; nil for memory with an address.
func (s *Machine) Expose(at space.Span, x *memory.Shared, p *memory.Physical) {
	s.Unknowns.Any.Store(true)
	u := &space.Marks[memory.Mark]{}
	if p != nil {
		u, at = &p.Unknown, space.Span{Size: p.Size}
	} else if d := s.Locate(at.Addr).Device; d != nil {
		u = &d.Memory.Unknown
	}
	for _, r := range u.In(at) {
		if Rank(r.Value.Why) == KernelRank {
			x.Slot.Stain(r.Value.Why)
		} else if r.Value == uninitialised {
			u.Clear(r.Span) // another process may write it unseen
		}
	}
}
