package device

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// A kernel that no library knows writes nothing here, and would have written something on a device. What its arguments point to
// is marked as unknown, by the kernel's name, and copies, reductions and kernels that read it hand the mark on. What overwrites it with
// something known takes the mark away. A copy to the host that holds marked bytes is reported: its bytes are not those of a device.
//
// With Options.Uninitialised, new device memory is marked too, by the name "", and copies and kernels hand that mark on. New memory
// reads as zero. A kernel may write memory that its extents do not declare, so bytes that are no longer zero lose this mark. Memory that
// the host can access, mapped memory and memory of other processes do not get it.
//
// Memory that several addresses or processes see has a stain besides: the name of a kernel that may have written any of it. A stain
// stays as long as the memory.

// unknownResults is what was copied to the host and depends on unknown kernels.
type Unknowns struct {
	Launches sync.Map    // name of a kernel that no library knows → *atomic.Int64
	Any      atomic.Bool // some memory is marked, or was
	Crashed  atomic.Pointer[Crash]
	mu       sync.Mutex
	copies   int64
	bytes    uint64
	said     map[string]bool // kernels that were named
}

// marksOf returns the marks of the memory that an address lies in, and whether that is the host's.
func (s *Machine) marksOf(addr uint64) (u *space.Marks, host bool) {
	if d := s.Locate(addr).Device; d != nil {
		return &d.Memory.Unknown, false
	}
	return &s.Host.Marks, true
}

// Unknown reports whether bytes depend on memory that a kernel would have written which no library knows, and returns the kernel's name;
// or, with Options.Uninitialised, on memory that nothing has written: the name is "" then; or on memory that strict mode has found in a race: RaceMark. Host memory counts if a copy has written it last.
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
		if !ok || Rank(r.V) > Rank(kernel) {
			kernel, ok = r.V, true
		}
	}
	if s.Strict.Racy(at) && Rank(kernel) < Rank(RaceMark) {
		return RaceMark, true
	}
	return kernel, ok
}

// givenMark begins the names of marks that a caller has set; the reason follows.
const givenMark = "\x00given"

// Mark marks a range for a reason of the caller's, which Unknown hands back: see Given. Reason 0 takes marks away. Host memory keeps such a
// mark until a copy of the runtime's overwrites it or it is taken away.
func (s *Machine) Mark(addr, size uint64, reason uint8) {
	if reason == 0 {
		s.Known(addr, size)
		return
	}
	name := givenMark + string([]byte{reason})
	s.Taint(space.Span{Addr: addr, Size: size}, &name)
}

// Given returns the reason of a mark that a caller has set, false for another mark.
func Given(kernel string) (reason uint8, ok bool) {
	if !strings.HasPrefix(kernel, givenMark) {
		return 0, false
	}
	return kernel[len(kernel)-1], true
}

// CrashMark begins the answer of Unknown after a kernel has crashed in its own code; the kernel's name follows.
const CrashMark = "\x00crash"

// RaceMark stands in place of a kernel's name for memory that strict mode has found in a race.
const RaceMark = "\x00race"

// rank orders marks: of several in a range the highest counts.
func Rank(kernel string) int {
	switch kernel {
	case uninitialised:
		return 0
	case RaceMark:
		return 1
	}
	if _, ok := Given(kernel); ok {
		return givenRank
	}
	return KernelRank
}

// The ranks of marks that a caller has set, and of those that name a kernel.
const (
	givenRank  = 2
	KernelRank = 3
)

// marked returns the marked parts of a range. Bytes that were written unseen lose the mark of new memory.
func (s *Machine) marked(at space.Span) []space.Region[string] {
	u, _ := s.marksOf(at.Addr)
	found := u.In(at)
	if !s.Options.Uninitialised {
		return found
	}
	written := false
	for _, r := range found {
		if r.V != "" {
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

// mark marks a range.
func (s *Machine) Taint(at space.Span, kernel *string) {
	s.Unknowns.Any.Store(true)
	u, _ := s.marksOf(at.Addr)
	u.Set(at, kernel)
	if Rank(*kernel) == KernelRank {
		s.stain(at, *kernel)
	}
}

var uninitialised = ""

// fresh marks new device memory.
func (s *Machine) Fresh(at space.Span) {
	if s.Options.Uninitialised {
		s.Taint(at, &uninitialised)
	}
}

// UnknownLaunches returns the number of launches of each kernel that no library knew.
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

// UnknownResults returns how many copies to the host held bytes that depend on unknown kernels, and how many bytes.
func (s *Machine) UnknownResults() (copies int64, bytes uint64) {
	s.Unknowns.mu.Lock()
	defer s.Unknowns.mu.Unlock()
	return s.Unknowns.copies, s.Unknowns.bytes
}

// known says that bytes were overwritten with something known.
func (s *Machine) Known(addr, n uint64) {
	if s.Unknowns.Any.Load() {
		u, _ := s.marksOf(addr)
		u.Clear(space.Span{Addr: addr, Size: n})
	}
}

// follow hands marks on with a transfer that was made.
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
		dst, src := space.Span{Addr: x.Dst + i*x.Dpitch, Size: x.Width}, space.Span{Addr: x.Src + i*x.Spitch, Size: x.Width}
		var found []space.Region[string]
		found = s.marked(src)
		if k, ok := s.stained(src); ok {
			found = []space.Region[string]{{Span: src, V: k}}
		}
		if unpinned { // the program may have written it since, but for marks that the caller looks after
			found = slices.DeleteFunc(found, func(r space.Region[string]) bool { return Rank(r.V) != givenRank })
		}
		if len(found) == 0 && s.Strict.Racy(src) {
			found = []space.Region[string]{{Span: src, V: RaceMark}}
		}
		to.Clear(dst)
		for _, r := range found {
			s.Taint(space.Span{Addr: dst.Addr + r.Addr - src.Addr, Size: r.Size}, &r.V)
			if Rank(r.V) == KernelRank {
				kernel = r.V
				total += r.Size
			}
		}
	}
	if host && !fromHost && total > 0 {
		s.reportUnknown(x, kernel, total)
	}
}

// sayUnknown says what depends on an unknown kernel, once for each.
func (s *Machine) SayUnknown(kernel, format string, a ...any) {
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

// reportUnknown says that the host has got bytes that are not those of a device.
func (s *Machine) reportUnknown(x *Transfer, kernel string, n uint64) {
	u := &s.Unknowns
	u.mu.Lock()
	u.copies++
	u.bytes += n
	u.mu.Unlock()
	s.SayUnknown(kernel, "a copy from %#x to the host at %#x: %d of its %d bytes depend on what kernel %q would have written, which no kernel library knows",
		x.Src, x.Dst, n, x.Width*x.Height, kernel)
}

// spread hands marks on with a kernel that has run: where it has read something unknown, what it wrote is unknown too. args are the
// kernel's arguments, nil if its extents refer to none. Reading new memory as a workspace spreads nothing.
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

// stain keeps the name of a kernel with memory that has several addresses or is shared with other processes.
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

// stained returns the kernel that may have written memory at one of its other addresses.
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
		x := r.V.Shared
		if r.V.Physical != nil {
			x = r.V.Physical.Shared
		} else if x == nil {
			x = s.Shares.MemoryAt(r.Span)
		}
		if (r.V.Physical != nil || x != nil) && visit(r.V.Physical, x) {
			return
		}
	}
}

// expose prepares memory for being shared: its other sides see the kernels that may have written it.
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
		if Rank(r.V) == KernelRank {
			x.Slot.Stain(r.V)
		} else if r.V == uninitialised {
			u.Clear(r.Span) // another process may write it unseen
		}
	}
}
