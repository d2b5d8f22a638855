package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device"
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
type unknownResults struct {
	launches sync.Map    // name of a kernel that no library knows → *atomic.Int64
	any      atomic.Bool // some memory is marked, or was
	crashed  atomic.Pointer[device.Crash]
	mu       sync.Mutex
	copies   int64
	bytes    uint64
	said     map[string]bool // kernels that were named
}

// marksOf returns the marks of the memory that an address lies in, and whether that is the host's.
func (s *Sim) marksOf(addr uint64) (u *device.Marks, host bool) {
	if d := s.locate(addr).dev; d != nil {
		return &d.mem.unknown, false
	}
	return &s.host.Marks, true
}

// Unknown reports whether bytes depend on memory that a kernel would have written which no library knows, and returns the kernel's name;
// or, with Options.Uninitialised, on memory that nothing has written: the name is "" then; or on memory that strict mode has found in a race: RaceMark. Host memory counts if a copy has written it last.
func (s *Sim) Unknown(addr, size uint64) (kernel string, ok bool) {
	if !s.unknowns.any.Load() {
		return "", false
	}
	if c := s.unknowns.crashed.Load(); c != nil {
		return CrashMark + c.Kernel, true
	}
	at := device.Span{Addr: addr, Size: size}
	if kernel, ok = s.stained(at); ok {
		return kernel, true
	}
	for _, r := range s.marked(at) {
		if !ok || rank(r.V) > rank(kernel) {
			kernel, ok = r.V, true
		}
	}
	if s.strict.Racy(at) && rank(kernel) < rank(RaceMark) {
		return RaceMark, true
	}
	return kernel, ok
}

// givenMark begins the names of marks that a caller has set; the reason follows.
const givenMark = "\x00given"

// Mark marks a range for a reason of the caller's, which Unknown hands back: see Given. Reason 0 takes marks away. Host memory keeps such a
// mark until a copy of the runtime's overwrites it or it is taken away.
func (s *Sim) Mark(addr, size uint64, reason uint8) {
	if reason == 0 {
		s.known(addr, size)
		return
	}
	name := givenMark + string([]byte{reason})
	s.mark(device.Span{Addr: addr, Size: size}, &name)
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
func rank(kernel string) int {
	switch kernel {
	case uninitialised:
		return 0
	case RaceMark:
		return 1
	}
	if _, ok := Given(kernel); ok {
		return givenRank
	}
	return kernelRank
}

// The ranks of marks that a caller has set, and of those that name a kernel.
const (
	givenRank  = 2
	kernelRank = 3
)

// marked returns the marked parts of a range. Bytes that were written unseen lose the mark of new memory.
func (s *Sim) marked(at device.Span) []device.Region[string] {
	u, _ := s.marksOf(at.Addr)
	found := u.In(at)
	if !s.opts.Uninitialised {
		return found
	}
	written := false
	for _, r := range found {
		if r.V != "" {
			continue
		}
		b := device.Bytes(r.Addr, r.Size)
		first := slices.IndexFunc(b, func(x byte) bool { return x != 0 })
		if first < 0 {
			continue
		}
		last := len(b)
		for b[last-1] == 0 {
			last--
		}
		u.Clear(device.Span{Addr: r.Addr + uint64(first), Size: uint64(last - first)})
		written = true
	}
	if written {
		return u.In(at)
	}
	return found
}

// mark marks a range.
func (s *Sim) mark(at device.Span, kernel *string) {
	s.unknowns.any.Store(true)
	u, _ := s.marksOf(at.Addr)
	u.Set(at, kernel)
	if rank(*kernel) == kernelRank {
		s.stain(at, *kernel)
	}
}

var uninitialised = ""

// fresh marks new device memory.
func (s *Sim) fresh(at device.Span) {
	if s.opts.Uninitialised {
		s.mark(at, &uninitialised)
	}
}

// UnknownLaunches returns the number of launches of each kernel that no library knew.
func (s *Sim) UnknownLaunches() map[string]int64 {
	m := map[string]int64{}
	s.unknowns.launches.Range(func(name, n any) bool {
		if c := n.(*atomic.Int64).Load(); c > 0 {
			m[name.(string)] = c
		}
		return true
	})
	return m
}

// UnknownResults returns how many copies to the host held bytes that depend on unknown kernels, and how many bytes.
func (s *Sim) UnknownResults() (copies int64, bytes uint64) {
	s.unknowns.mu.Lock()
	defer s.unknowns.mu.Unlock()
	return s.unknowns.copies, s.unknowns.bytes
}

// known says that bytes were overwritten with something known.
func (s *Sim) known(addr, n uint64) {
	if s.unknowns.any.Load() {
		u, _ := s.marksOf(addr)
		u.Clear(device.Span{Addr: addr, Size: n})
	}
}

// follow hands marks on with a transfer that was made.
func (s *Sim) follow(x *transfer) {
	if !s.unknowns.any.Load() {
		return
	}
	to, host := s.marksOf(x.dst)
	if x.staged != nil {
		to.Clear(device.Span{Addr: x.dst, Size: x.width})
		return
	}
	_, fromHost := s.marksOf(x.src)
	unpinned := false
	if fromHost {
		_, pinned := s.host.Find(x.src)
		unpinned = !pinned
	}
	var kernel string
	total := uint64(0)
	for i := range x.height {
		dst, src := device.Span{Addr: x.dst + i*x.dpitch, Size: x.width}, device.Span{Addr: x.src + i*x.spitch, Size: x.width}
		var found []device.Region[string]
		found = s.marked(src)
		if k, ok := s.stained(src); ok {
			found = []device.Region[string]{{Span: src, V: k}}
		}
		if unpinned { // the program may have written it since, but for marks that the caller looks after
			found = slices.DeleteFunc(found, func(r device.Region[string]) bool { return rank(r.V) != givenRank })
		}
		if len(found) == 0 && s.strict.Racy(src) {
			found = []device.Region[string]{{Span: src, V: RaceMark}}
		}
		to.Clear(dst)
		for _, r := range found {
			s.mark(device.Span{Addr: dst.Addr + r.Addr - src.Addr, Size: r.Size}, &r.V)
			if rank(r.V) == kernelRank {
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
func (s *Sim) sayUnknown(kernel, format string, a ...any) {
	u := &s.unknowns
	u.mu.Lock()
	first := !u.said[kernel]
	if u.said == nil {
		u.said = map[string]bool{}
	}
	u.said[kernel] = true
	u.mu.Unlock()
	if first {
		s.log(format, a...)
	}
}

// reportUnknown says that the host has got bytes that are not those of a device.
func (s *Sim) reportUnknown(x *transfer, kernel string, n uint64) {
	u := &s.unknowns
	u.mu.Lock()
	u.copies++
	u.bytes += n
	u.mu.Unlock()
	s.sayUnknown(kernel, "a copy from %#x to the host at %#x: %d of its %d bytes depend on what kernel %q would have written, which no kernel library knows",
		x.src, x.dst, n, x.width*x.height, kernel)
}

// markUnknown marks what a launch of an unknown kernel may have written: the allocations that its arguments point into.
func (o *order) markUnknown(d *npu, args device.Span) {
	if d.mem.check(args.Addr, args.Size, device.Read) != nil && !d.mem.isArgs(args.Addr) {
		return
	}
	block := device.Bytes(args.Addr, args.Size)
	for ; len(block) >= 8; block = block[8:] {
		p := binary.LittleEndian.Uint64(block)
		at := d.sim.locate(p).dev
		if at == nil {
			continue
		}
		if r, ok := at.mem.live.Find(p); ok && r.V.access&device.Write != 0 {
			d.sim.mark(r.Span, &o.fn.name)
		}
	}
}

// spread hands marks on with a kernel that has run: where it has read something unknown, what it wrote is unknown too. args are the
// kernel's arguments, nil if its extents refer to none. Reading new memory as a workspace spreads nothing.
func (s *Sim) spread(extents []device.Extent, args []device.Arg) {
	if !s.unknowns.any.Load() {
		return
	}
	kernel, found := "", false
	for _, x := range extents {
		if x.Access&device.Read == 0 || x.Size == 0 {
			continue
		}
		k, ok := s.Unknown(x.Addr, x.Size)
		if !ok || k == "" && int(x.Arg) < len(args) && args[x.Arg].Kind == device.ArgWorkspace {
			continue
		}
		if !found || rank(k) > rank(kernel) {
			kernel, found = k, true
		}
	}
	for _, x := range extents {
		if x.Access&device.Write == 0 || x.Size == 0 {
			continue
		}
		if found {
			s.mark(device.Span{Addr: x.Addr, Size: x.Size}, &kernel)
		} else {
			u, _ := s.marksOf(x.Addr)
			u.Clear(device.Span{Addr: x.Addr, Size: x.Size})
		}
	}
}

// stain keeps the name of a kernel with memory that has several addresses or is shared with other processes.
func (s *Sim) stain(at device.Span, kernel string) {
	s.aliased(at, func(p *physical, x *shared) bool {
		if p != nil {
			p.stain.CompareAndSwap(nil, &kernel)
		}
		if x != nil {
			x.slot.stain(kernel)
		}
		return false
	})
}

// stained returns the kernel that may have written memory at one of its other addresses.
func (s *Sim) stained(at device.Span) (kernel string, ok bool) {
	s.aliased(at, func(p *physical, x *shared) bool {
		if p != nil {
			if k := p.stain.Load(); k != nil {
				kernel, ok = *k, true
			}
		}
		if x != nil && !ok {
			kernel, ok = x.slot.stainedBy()
		}
		return ok
	})
	return kernel, ok
}

// aliased visits the memory in a range that has several addresses, until visit returns true.
func (s *Sim) aliased(at device.Span, visit func(*physical, *shared) bool) {
	d := s.locate(at.Addr).dev
	if d == nil {
		return
	}
	for c := d.mem.live.At(at.Addr); c.OK() && c.Get().Addr < at.End(); c.Next() {
		r := c.Get()
		x := r.V.shared
		if r.V.phys != nil {
			x = r.V.phys.shared
		} else if x == nil {
			x = s.shares.memoryAt(r.Span)
		}
		if (r.V.phys != nil || x != nil) && visit(r.V.phys, x) {
			return
		}
	}
}

// stain writes the name of a kernel into the page that all processes of the object see. The first one stays.
func (l *slot) stain(kernel string) {
	if l.stainState.CompareAndSwap(0, 1) {
		copy(l.stainName[:len(l.stainName)-1], kernel)
		l.stainState.Store(2)
	}
}

// stainedBy returns the name of the kernel, "" while another process is writing it.
func (l *slot) stainedBy() (kernel string, ok bool) {
	switch l.stainState.Load() {
	case 0:
		return "", false
	case 1:
		return "of another process", true
	}
	name, _, _ := bytes.Cut(l.stainName[:], []byte{0})
	return string(name), true
}

// expose prepares memory for being shared: its other sides see the kernels that may have written it.
func (s *Sim) expose(at device.Span, x *shared, p *physical) {
	s.unknowns.any.Store(true)
	if p != nil {
		if k := p.stain.Load(); k != nil {
			x.slot.stain(*k)
		}
		return
	}
	u, _ := s.marksOf(at.Addr)
	for _, r := range u.In(at) {
		if rank(r.V) == kernelRank {
			x.slot.stain(r.V)
		} else if r.V == uninitialised {
			u.Clear(r.Span) // another process may write it unseen
		}
	}
}
