package sim

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// A kernel that no library knows writes nothing here, and would have written something on a device. What its arguments point to
// is marked as unknown, by the kernel's name, and copies, reductions and kernels that read it hand the mark on. What overwrites it with
// something known takes the mark away. A copy to the host that holds marked bytes is reported: its bytes are not those of a device.

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
	any    atomic.Bool // some memory is marked, or was
	mu     sync.Mutex
	copies int64
	bytes  uint64
	said   map[string]bool // kernels that were named
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

// Unknown tells whether bytes depend on what a kernel that no library knows would have written, and names the kernel. Host memory
// counts where a copy has written it last.
func (s *Sim) Unknown(addr, size uint64) (kernel string, ok bool) {
	if !s.unknowns.any.Load() {
		return "", false
	}
	u, _ := s.marksOf(addr)
	found := u.in(span{addr, size})
	if len(found) == 0 {
		return "", false
	}
	return found[0].v, true
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
	from, fromHost := s.marksOf(x.src)
	if fromHost {
		if _, pinned := s.host.find(x.src); !pinned {
			from = nil // the program may have written it since
		}
	}
	var kernel string
	total := uint64(0)
	for i := range x.height {
		dst, src := span{x.dst + i*x.dpitch, x.width}, span{x.src + i*x.spitch, x.width}
		var found []region[string]
		if from != nil {
			found = from.in(src)
		}
		to.clear(dst)
		for _, r := range found {
			to.set(span{dst.addr + r.addr - src.addr, r.size}, &r.v)
			kernel = r.v
			total += r.size
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
			d.sim.unknowns.any.Store(true)
			at.mem.unknown.set(r.span, &o.fn.name)
		}
	}
}

// spread hands marks on with a kernel that has run: where it has read something unknown, what it wrote is unknown too.
func (s *Sim) spread(extents []Extent) {
	if !s.unknowns.any.Load() {
		return
	}
	kernel := ""
	for _, x := range extents {
		if x.Access&Read != 0 && x.Size > 0 {
			if k, ok := s.Unknown(x.Addr, x.Size); ok {
				kernel = k
				break
			}
		}
	}
	for _, x := range extents {
		if x.Access&Write == 0 || x.Size == 0 {
			continue
		}
		u, _ := s.marksOf(x.Addr)
		if kernel != "" {
			u.set(span{x.Addr, x.Size}, &kernel)
		} else {
			u.clear(span{x.Addr, x.Size})
		}
	}
}
