package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// unknowns are the marked ranges of a memory. Looking up takes no lock.
type unknowns struct {
	mu    sync.Mutex // for changes
	marks regions[*writer]
}

// writer is the kernel that would have written a marked range last. The launches of a program mark the same buffers
// again and again: they change no more than this.
type writer struct{ kernel atomic.Pointer[string] }

func newWriter(kernel *string) *writer {
	w := &writer{}
	w.kernel.Store(kernel)
	return w
}

// unknownResults is what was copied to the host and depends on unknown kernels.
type unknownResults struct {
	launches sync.Map    // name of a kernel that no library knows → *atomic.Int64
	any      atomic.Bool // some memory is marked, or was
	crashed  atomic.Pointer[Crash]
	mu       sync.Mutex
	copies   int64
	bytes    uint64
	said     map[string]bool // kernels that were named
}

// in returns the marked parts of a range.
func (u *unknowns) in(s span) []region[string] {
	var found []region[string]
	for c := u.marks.at(s.addr); c.ok() && c.get().addr < s.end(); c.next() {
		r := c.get()
		from, to := max(r.addr, s.addr), min(r.end(), s.end())
		found = append(found, region[string]{span{from, to - from}, *r.v.kernel.Load()})
	}
	return found
}

// clear takes marks away.
func (u *unknowns) clear(s span) {
	if c := u.marks.at(s.addr); !c.ok() || c.get().addr >= s.end() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.carve(s)
}

// carve empties a range. The caller holds the lock.
func (u *unknowns) carve(s span) {
	for {
		c := u.marks.at(s.addr)
		if !c.ok() || c.get().addr >= s.end() {
			return
		}
		r, _ := u.marks.remove(c.get().addr)
		if r.addr < s.addr {
			u.marks.insert(region[*writer]{span{r.addr, s.addr - r.addr}, newWriter(r.v.kernel.Load())})
		}
		if r.end() > s.end() {
			u.marks.insert(region[*writer]{span{s.end(), r.end() - s.end()}, newWriter(r.v.kernel.Load())})
		}
	}
}

// set marks a range.
func (u *unknowns) set(s span, kernel *string) {
	same := func(r region[*writer]) bool { return *r.v.kernel.Load() == *kernel }
	if r, ok := u.marks.find(s.addr); s.size == 0 || ok && same(r) && r.holds(s.addr, s.size) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r, ok := u.marks.find(s.addr); ok && r.span == s {
		r.v.kernel.Store(kernel)
		return
	}
	u.carve(s)
	// Neighbours of the same kernel are one range.
	if s.addr > 0 {
		if r, ok := u.marks.find(s.addr - 1); ok && same(r) {
			u.marks.remove(r.addr)
			s = span{r.addr, r.size + s.size}
		}
	}
	if r, ok := u.marks.find(s.end()); ok && same(r) {
		u.marks.remove(r.addr)
		s.size += r.size
	}
	u.marks.insert(region[*writer]{s, newWriter(kernel)})
}

// marksOf returns the marks of the memory that an address lies in, and whether that is the host's.
func (s *Sim) marksOf(addr uint64) (u *unknowns, host bool) {
	if d := s.locate(addr).dev; d != nil {
		return &d.mem.unknown, false
	}
	return &s.host.unknown, true
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
	at := span{addr, size}
	if kernel, ok = s.stained(at); ok {
		return kernel, true
	}
	for _, r := range s.marked(at) {
		if !ok || rank(r.v) > rank(kernel) {
			kernel, ok = r.v, true
		}
	}
	if s.strict.isRacy(at) && rank(kernel) < rank(RaceMark) {
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
	s.mark(span{addr, size}, &name)
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
func (s *Sim) marked(at span) []region[string] {
	u, _ := s.marksOf(at.addr)
	found := u.in(at)
	if !s.opts.Uninitialised {
		return found
	}
	written := false
	for _, r := range found {
		if r.v != "" {
			continue
		}
		b := hostBytes(r.addr, r.size)
		first := slices.IndexFunc(b, func(x byte) bool { return x != 0 })
		if first < 0 {
			continue
		}
		last := len(b)
		for b[last-1] == 0 {
			last--
		}
		u.clear(span{r.addr + uint64(first), uint64(last - first)})
		written = true
	}
	if written {
		return u.in(at)
	}
	return found
}

// mark marks a range.
func (s *Sim) mark(at span, kernel *string) {
	s.unknowns.any.Store(true)
	u, _ := s.marksOf(at.addr)
	u.set(at, kernel)
	if rank(*kernel) == kernelRank {
		s.stain(at, *kernel)
	}
}

var uninitialised = ""

// fresh marks new device memory.
func (s *Sim) fresh(at span) {
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
		u.clear(span{addr, n})
	}
}

// follow hands marks on with a transfer that was made.
func (s *Sim) follow(x *transfer) {
	if !s.unknowns.any.Load() {
		return
	}
	to, host := s.marksOf(x.dst)
	if x.staged != nil {
		to.clear(span{x.dst, x.width})
		return
	}
	_, fromHost := s.marksOf(x.src)
	unpinned := false
	if fromHost {
		_, pinned := s.host.find(x.src)
		unpinned = !pinned
	}
	var kernel string
	total := uint64(0)
	for i := range x.height {
		dst, src := span{x.dst + i*x.dpitch, x.width}, span{x.src + i*x.spitch, x.width}
		var found []region[string]
		found = s.marked(src)
		if k, ok := s.stained(src); ok {
			found = []region[string]{{src, k}}
		}
		if unpinned { // the program may have written it since, but for marks that the caller looks after
			found = slices.DeleteFunc(found, func(r region[string]) bool { return rank(r.v) != givenRank })
		}
		if len(found) == 0 && s.strict.isRacy(src) {
			found = []region[string]{{src, RaceMark}}
		}
		to.clear(dst)
		for _, r := range found {
			s.mark(span{dst.addr + r.addr - src.addr, r.size}, &r.v)
			if rank(r.v) == kernelRank {
				kernel = r.v
				total += r.size
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
func (o *order) markUnknown(d *device, args span) {
	if d.mem.check(args.addr, args.size, Read) != nil && !d.mem.isArgs(args.addr) {
		return
	}
	block := hostBytes(args.addr, args.size)
	for ; len(block) >= 8; block = block[8:] {
		p := binary.LittleEndian.Uint64(block)
		at := d.sim.locate(p).dev
		if at == nil {
			continue
		}
		if r, ok := at.mem.live.find(p); ok && r.v.access&Write != 0 {
			d.sim.mark(r.span, &o.fn.name)
		}
	}
}

// spread hands marks on with a kernel that has run: where it has read something unknown, what it wrote is unknown too. args are the
// kernel's arguments, nil if its extents refer to none. Reading new memory as a workspace spreads nothing.
func (s *Sim) spread(extents []Extent, args []Arg) {
	if !s.unknowns.any.Load() {
		return
	}
	kernel, found := "", false
	for _, x := range extents {
		if x.Access&Read == 0 || x.Size == 0 {
			continue
		}
		k, ok := s.Unknown(x.Addr, x.Size)
		if !ok || k == "" && int(x.Arg) < len(args) && args[x.Arg].Kind == ArgWorkspace {
			continue
		}
		if !found || rank(k) > rank(kernel) {
			kernel, found = k, true
		}
	}
	for _, x := range extents {
		if x.Access&Write == 0 || x.Size == 0 {
			continue
		}
		if found {
			s.mark(span{x.Addr, x.Size}, &kernel)
		} else {
			u, _ := s.marksOf(x.Addr)
			u.clear(span{x.Addr, x.Size})
		}
	}
}

// stain keeps the name of a kernel with memory that has several addresses or is shared with other processes.
func (s *Sim) stain(at span, kernel string) {
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
func (s *Sim) stained(at span) (kernel string, ok bool) {
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
func (s *Sim) aliased(at span, visit func(*physical, *shared) bool) {
	d := s.locate(at.addr).dev
	if d == nil {
		return
	}
	for c := d.mem.live.at(at.addr); c.ok() && c.get().addr < at.end(); c.next() {
		r := c.get()
		x := r.v.shared
		if r.v.phys != nil {
			x = r.v.phys.shared
		} else if x == nil {
			x = s.shares.memoryAt(r.span)
		}
		if (r.v.phys != nil || x != nil) && visit(r.v.phys, x) {
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
func (s *Sim) expose(at span, x *shared, p *physical) {
	s.unknowns.any.Store(true)
	if p != nil {
		if k := p.stain.Load(); k != nil {
			x.slot.stain(*k)
		}
		return
	}
	u, _ := s.marksOf(at.addr)
	for _, r := range u.in(at) {
		if rank(r.v) == kernelRank {
			x.slot.stain(r.v)
		} else if r.v == uninitialised {
			u.clear(r.span) // another process may write it unseen
		}
	}
}
