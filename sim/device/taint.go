package device

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A kernel without a library writes nothing here, but would write on a device. The memory that its arguments point to
// is therefore marked with the kernel's name. Copies, reductions and kernels that read marked memory pass the mark
// on; known data removes it. A copy of marked bytes to the host is reported, since a device would have other bytes.
//
// With Options.Uninitialised, new device memory carries the mark "". Kernels may write more than their extents
// declare, so bytes that are not zero lose this mark. Memory that the host can access, mapped memory and imported
// memory never carry it.
//
// Memory with several addresses or processes also has a stain: the name of a kernel that may have written any part. A
// stain lasts as long as the memory.

// Unknowns counts launches of unknown kernels and copies that depend on them.
type Unknowns struct {
	Launches sync.Map    // kernel name → *atomic.Int64
	Any      atomic.Bool // some memory has been marked
	Crashed  atomic.Pointer[Crash]
	mu       sync.Mutex
	copies   int64
	bytes    uint64
	said     map[string]bool // kernels that were logged
}

// marksOf returns the marks for an address, and whether it is host memory.
func (s *Machine) marksOf(addr uint64) (u *space.Marks, host bool) {
	if d := s.Locate(addr).Device; d != nil {
		return &d.Memory.Unknown, false
	}
	return &s.Host.Marks, true
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
	at := space.Span{Addr: addr, Size: size}
	if kernel, ok = s.stained(at); ok {
		return kernel, true
	}
	for _, r := range s.marked(at) {
		if !ok || Rank(r.Value) > Rank(kernel) {
			kernel, ok = r.Value, true
		}
	}
	if s.Strict.Racy(at) && Rank(kernel) < Rank(RaceMark) {
		return RaceMark, true
	}
	return kernel, ok
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
	name := givenMark + string([]byte{reason})
	s.Taint(space.Span{Addr: addr, Size: size}, &name)
}

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
	case uninitialised:
		return 0
	case RaceMark:
		return 1
	}
	if _, ok := MarkReason(kernel); ok {
		return givenRank
	}
	return KernelRank
}

// Ranks of caller's marks and of kernel names.
const (
	givenRank  = 2
	KernelRank = 3
)

// marked returns the marked parts of a range. Bytes that are not zero lose the mark of new memory.
func (s *Machine) marked(at space.Span) []space.Region[string] {
	u, _ := s.marksOf(at.Addr)
	found := u.In(at)
	if !s.Options.Uninitialised {
		return found
	}
	written := false
	for _, r := range found {
		if r.Value != "" {
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
		u.Clear(space.Span{Addr: r.Addr + uint64(first), Size: uint64(last - first)})
		written = true
	}
	if written {
		return u.In(at)
	}
	return found
}

// Taint marks a range with a kernel's name.
func (s *Machine) Taint(at space.Span, kernel *string) {
	s.Unknowns.Any.Store(true)
	u, _ := s.marksOf(at.Addr)
	u.Set(at, kernel)
	if Rank(*kernel) == KernelRank {
		s.stain(at, *kernel)
	}
}

var uninitialised = ""

// MarkNew marks new device memory.
func (s *Machine) MarkNew(at space.Span) {
	if s.Options.Uninitialised {
		s.Taint(at, &uninitialised)
	}
}

// UnknownLaunches returns the launches of each unknown kernel.
func (s *Machine) UnknownLaunches() map[string]int64 {
	m := map[string]int64{}
	s.Unknowns.Launches.Range(func(name, n any) bool {
		if c := n.(*atomic.Int64).Load(); c > 0 {
			m[name.(string)] = c
		}
		return true
	})
	return m
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
		u, _ := s.marksOf(addr)
		u.Clear(space.Span{Addr: addr, Size: n})
	}
}

// Follow passes marks on after a transfer.
func (s *Machine) Follow(x *Transfer) {
	if !s.Unknowns.Any.Load() {
		return
	}
	to, host := s.marksOf(x.Dst)
	if x.Staged != nil {
		to.Clear(space.Span{Addr: x.Dst, Size: x.Width})
		return
	}
	_, fromHost := s.marksOf(x.Src)
	unpinned := false
	if fromHost {
		_, pinned := s.Host.Find(x.Src)
		unpinned = !pinned
	}
	var kernel string
	total := uint64(0)
	for i := range x.Height {
		dst, src := space.Span{Addr: x.Dst + i*x.DstPitch, Size: x.Width}, space.Span{Addr: x.Src + i*x.SrcPitch, Size: x.Width}
		found := s.marked(src)
		if k, ok := s.stained(src); ok {
			found = []space.Region[string]{{Span: src, Value: k}}
		}
		if unpinned { // the program may have written it since; only the caller's marks stay
			found = slices.DeleteFunc(found, func(r space.Region[string]) bool { return Rank(r.Value) != givenRank })
		}
		if len(found) == 0 && s.Strict.Racy(src) {
			found = []space.Region[string]{{Span: src, Value: RaceMark}}
		}
		to.Clear(dst)
		for _, r := range found {
			s.Taint(space.Span{Addr: dst.Addr + r.Addr - src.Addr, Size: r.Size}, &r.Value)
			if Rank(r.Value) == KernelRank {
				kernel = r.Value
				total += r.Size
			}
		}
	}
	if host && !fromHost && total > 0 {
		s.reportUnknown(x, kernel, total)
	}
}

// LogUnknown logs a dependence on an unknown kernel, once per kernel.
func (s *Machine) LogUnknown(kernel, format string, a ...any) {
	u := &s.Unknowns
	u.mu.Lock()
	first := !u.said[kernel]
	if u.said == nil {
		u.said = map[string]bool{}
	}
	u.said[kernel] = true
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
// arguments; nil if the extents refer to none. New memory that is read as a workspace spreads nothing.
func (s *Machine) Spread(extents []space.Extent, args []Arg) {
	if !s.Unknowns.Any.Load() {
		return
	}
	kernel, found := "", false
	for _, x := range extents {
		if x.Access&space.Read == 0 || x.Size == 0 {
			continue
		}
		k, ok := s.Unknown(x.Addr, x.Size)
		if !ok || k == "" && int(x.Arg) < len(args) && args[x.Arg].Kind == ArgWorkspace {
			continue
		}
		if !found || Rank(k) > Rank(kernel) {
			kernel, found = k, true
		}
	}
	for _, x := range extents {
		if x.Access&space.Write == 0 || x.Size == 0 {
			continue
		}
		if found {
			s.Taint(space.Span{Addr: x.Addr, Size: x.Size}, &kernel)
		} else {
			u, _ := s.marksOf(x.Addr)
			u.Clear(space.Span{Addr: x.Addr, Size: x.Size})
		}
	}
}

// stain keeps a kernel's name with memory that has several addresses or processes.
func (s *Machine) stain(at space.Span, kernel string) {
	s.aliased(at, func(p *memory.Physical, x *memory.Shared) bool {
		if p != nil {
			p.Stain.CompareAndSwap(nil, &kernel)
		}
		if x != nil {
			x.Slot.Stain(kernel)
		}
		return false
	})
}

// stained returns the kernel that may have written memory at another address.
func (s *Machine) stained(at space.Span) (kernel string, ok bool) {
	s.aliased(at, func(p *memory.Physical, x *memory.Shared) bool {
		if p != nil {
			if k := p.Stain.Load(); k != nil {
				kernel, ok = *k, true
			}
		}
		if x != nil && !ok {
			kernel, ok = x.Slot.StainedBy()
		}
		return ok
	})
	return kernel, ok
}

// aliased visits the memory in a range that has several addresses, until visit returns true.
func (s *Machine) aliased(at space.Span, visit func(*memory.Physical, *memory.Shared) bool) {
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
		if (r.Value.Physical != nil || x != nil) && visit(r.Value.Physical, x) {
			return
		}
	}
}

// Expose copies the marks of memory into its stain before other processes import it.
func (s *Machine) Expose(at space.Span, x *memory.Shared, p *memory.Physical) {
	s.Unknowns.Any.Store(true)
	if p != nil {
		if k := p.Stain.Load(); k != nil {
			x.Slot.Stain(*k)
		}
		return
	}
	u, _ := s.marksOf(at.Addr)
	for _, r := range u.In(at) {
		if Rank(r.Value) == KernelRank {
			x.Slot.Stain(r.Value)
		} else if r.Value == uninitialised {
			u.Clear(r.Span) // another process may write it unseen
		}
	}
}
