package memory

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

const (
	testBase  = 0x2000_0000_0000
	testLimit = 1 << 30
)

// newMemory returns the memory of a device, at addresses that the process does not use.
func newMemory(t *testing.T) *Memory {
	t.Helper()
	m := &Memory{}
	m.Init(0, &Shares{}, testBase, testBase+4*ArenaStride, testLimit, space.Span{})
	if err := m.Reserve(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(m.Close)
	return m
}

var all = Block{Access: space.Read | space.Write}

func alloc(t *testing.T, m *Memory, size, want uint64) uint64 {
	t.Helper()
	at, f := m.Alloc(size, want, all, func(format string, a ...any) { t.Logf(format, a...) })
	if f != nil {
		t.Fatal(f)
	}
	return at
}

// isFailure reports whether a failure has a code and a text.
func isFailure(f *fail.Failure, code fail.Code, text string) bool {
	return f != nil && f.Code == code && strings.Contains(f.Text, text)
}

// isError reports whether an error has a text, nil if that is empty.
func isError(err error, text string) bool {
	return text == "" && err == nil || text != "" && err != nil && strings.Contains(err.Error(), text)
}

// Addresses are used again only after the whole arena, and freed memory reads as zero.
func TestFreedMemoryReadsAsZero(t *testing.T) {
	m := newMemory(t)
	if err := m.Reserve(); err != nil { // once
		t.Error(err)
	}
	a, b := alloc(t, m, 100, 0), alloc(t, m, 5<<20, 0)
	if a != testBase+Lead || b != a+512 || m.Used != 100+5<<20 || m.Peak != m.Used {
		t.Errorf("at %#x and %#x, %d bytes are used", a, b, m.Used)
	}
	copy(space.Bytes(b, 3), "abc")
	space.Bytes(b+5<<20-1, 1)[0] = 7
	if fd, base := m.File(b); fd != m.FD || fd < 0 || base != testBase {
		t.Errorf("file %d from %#x", fd, base)
	}
	if m.Free(b+1, ByMalloc) || m.Free(b, ByPool) || m.Free(b+1<<40, ByMalloc) {
		t.Error("memory was freed by another function or address")
	}
	var gone []space.Span
	m.Gone = func(s space.Span) { gone = append(gone, s) }
	if !m.Free(b, ByMalloc) || m.Free(b, ByMalloc) || m.Used != 100 || m.Peak != 100+5<<20 || len(gone) != 1 || gone[0] != (space.Span{Addr: b, Size: 5 << 20}) {
		t.Errorf("%d bytes are used, gone: %v", m.Used, gone)
	}
	if !bytes.Equal(space.Bytes(b, 5<<20), make([]byte, 5<<20)) {
		t.Error("freed memory keeps bytes")
	}
	if c := alloc(t, m, 64, 0); c != b+5<<20 {
		t.Errorf("at %#x, want %#x", c, b+5<<20)
	}
	m.cursor = m.End - 512 // the arena is nearly through
	if c := alloc(t, m, 512, 0); c != m.End-512 {
		t.Errorf("at %#x, want the end %#x", c, m.End)
	}
	if c := alloc(t, m, 512, 0); c != testBase {
		t.Errorf("at %#x, want the beginning", c)
	}
	small := alloc(t, m, 100, 0)
	copy(space.Bytes(small, 100), bytes.Repeat([]byte{1}, 100))
	m.Free(small, ByMalloc)
	if !bytes.Equal(space.Bytes(small, 100), make([]byte, 100)) {
		t.Error("a freed part of a page keeps bytes")
	}
	if _, f := m.Alloc(testLimit, 0, all, t.Logf); !isFailure(f, fail.OutOfMemory, "out of device memory") {
		t.Errorf("too much: %v", f)
	}
	if _, f := m.Alloc(testLimit-m.Used, 0, all, t.Logf); f != nil || m.Used != testLimit || m.Peak != testLimit {
		t.Errorf("all that is left: %v, %d bytes are used", f, m.Used)
	}
	m.Limit = 1 << 45
	was := m.Used
	if _, f := m.Alloc(1<<44, 0, all, t.Logf); !isFailure(f, fail.OutOfMemory, "too fragmented") || m.Used != was {
		t.Errorf("more than the arena has: %v, %d bytes are used", f, m.Used)
	}
	m.FreeAll()
	if m.Used != 0 || len(m.Live.All())+len(m.Taken.All()) != 0 || m.Ends.Load() != 1 || !bytes.Equal(space.Bytes(a, 100), make([]byte, 100)) {
		t.Errorf("%d bytes are left", m.Used)
	}
}

// Owners of addresses are found without an allocation. The last part of the arena has arguments.
func TestOwnAddresses(t *testing.T) {
	m := newMemory(t)
	for addr, want := range map[uint64][3]bool{
		testBase - 1: {}, testBase: {true, false, true}, m.End - 1: {true, false, true}, m.End: {true, true, false},
		testBase + ArenaStride - 1: {true, true, false}, testBase + ArenaStride: {},
	} {
		fd, base := m.File(addr)
		if got := [3]bool{m.Owns(addr), m.IsArgs(addr), fd == m.FD && base == testBase}; got != want {
			t.Errorf("%#x: %v, want %v", addr, got, want)
		}
	}
	at := uint64(testBase + 2*ArenaStride)
	if got := alloc(t, m, 100, at+8); got != at+8 {
		t.Fatalf("at %#x", got)
	}
	if fd, base := m.File(at); !m.Owns(at) || m.Owns(at+4096) || m.Owns(at-1) || fd != -1 || base != 0 || m.Placed() != (space.Span{Addr: at, Size: 4096}) {
		t.Errorf("placed memory at %#x, file %d", m.Placed(), fd)
	}
}

// An allocation gets the address that it wants if the address is free. Otherwise it gets another one.
func TestPlacedAllocations(t *testing.T) {
	m := newMemory(t)
	var logged []string
	place := func(size, want uint64) uint64 {
		t.Helper()
		at, f := m.Alloc(size, want, all, func(format string, a ...any) { logged = append(logged, fmt.Sprintf(format, a...)) })
		if f != nil {
			t.Fatal(f)
		}
		copy(space.Bytes(at, size), "x") // accessible
		return at
	}
	in, out := uint64(testBase+8<<20), uint64(testBase+2*ArenaStride)
	for _, c := range []struct {
		size, want uint64
		ok         bool
		why        string
	}{
		{4096, in, true, ""}, {4096, in + 4095, false, "an allocation of 4,096 bytes is at"}, {4096, in + 4096, true, ""}, {4096, in - 4096, true, ""}, {4097, in - 2*4096, false, "an allocation"},
		{4096, testBase - 1, false, "is not inside"}, {4096, m.End - 1, false, "is not inside"}, {4096, testBase + ArenaStride - 1, false, "is not inside"},
		{4096, out + 8, true, ""}, {8, out, true, ""}, {100, out + 3*4096, true, ""}, {5 * 4096, out + 2*4096, false, "an allocation"},
		{4096, out + 4*4096 - 3996, true, ""}, {8192, 4096 * 2, true, ""},
	} {
		logged = nil
		at := place(c.size, c.want)
		if c.want == 8192 { // the system decides
			continue
		}
		if (at == c.want) != c.ok || c.ok != (logged == nil) || !c.ok && !strings.Contains(logged[0], c.why) {
			t.Errorf("%d bytes at %#x are at %#x: %q", c.size, c.want, at, logged)
		}
	}
	// Pages that the process uses otherwise stay its own.
	mine := space.MapAnywhere(4096)
	defer space.Unmap(mine, 4096)
	logged = nil
	if at := place(3*4096, mine-4096); at == mine-4096 || len(logged) != 1 {
		t.Errorf("at %#x: %q", at, logged)
	}
	m.FreeAll()
}

// An access must be inside live memory, and be allowed there. The error says which memory is near.
func TestAccessMustBeInLiveMemory(t *testing.T) {
	m := newMemory(t)
	at := alloc(t, m, 100, 0)
	only, _ := m.Alloc(64, 0, Block{Access: space.Read}, t.Logf)
	freed := alloc(t, m, 64, 0)
	m.Free(freed, ByMalloc)
	reserved, f := m.ReserveRange(1, 0)
	if f != nil {
		t.Fatal(f)
	}
	for _, c := range []struct {
		addr, n uint64
		access  uint32
		want    string
	}{
		{at, 100, space.Read | space.Write, ""}, {at + 99, 1, space.Write, ""}, {at, 101, space.Read, "101 bytes at"}, {at, 102, space.Read, "up to 2 bytes past the end of the allocation (100 bytes"},
		{at + 100, 1, space.Read, "not in an allocation"}, {at - 1, 2, space.Read, "not in an allocation"}, {only, 64, space.Read, ""}, {only, 1, space.Write, "may not be written"},
		{only, 1, space.Read | space.Write, "may not be written"}, {freed, 1, space.Read, "in freed memory (64 bytes"}, {freed + 63, 1, space.Read, "in freed memory"}, {freed + 64, 1, space.Read, "not in an allocation"},
		{reserved, 1, space.Read, "in a reservation (2,097,152 bytes"}, {0, 1, space.Read, "not in an allocation"},
	} {
		if err := m.Check(c.addr, c.n, c.access); !isError(err, c.want) {
			t.Errorf("%d bytes at %#x: %v, want %q", c.n, c.addr, err, c.want)
		}
	}
	// The newest freed memory is remembered.
	for range freedKept/2 + 1 {
		m.remember(space.Span{Addr: 1 << 20, Size: 8})
	}
	if err := m.NotLive(freed, 1); !isError(err, "in freed memory") {
		t.Error(err)
	}
	for range freedKept / 2 {
		m.remember(space.Span{Addr: 1 << 20, Size: 8})
	}
	if err := m.NotLive(freed, 1); !isError(err, "not in an allocation") {
		t.Error(err)
	}
	if err := m.NotLive(1<<20+7, 1); !isError(err, "in freed memory (8 bytes") || len(m.freed) > 1024 {
		t.Errorf("%v, %d are remembered", err, len(m.freed))
	}
}

// Physical memory keeps its bytes while it is mapped at several addresses, one after the other.
func TestPhysicalMemory(t *testing.T) {
	m := newMemory(t)
	const size = Granularity
	p, f := NewPhysical(m, size)
	if f != nil || m.Used != size || p.Refs.Load() != 1 {
		t.Fatalf("%v, %d bytes are used", f, m.Used)
	}
	if _, f := NewPhysical(m, testLimit); !isFailure(f, fail.OutOfMemory, "out of device memory") || m.Used != size {
		t.Errorf("too much: %v", f)
	}
	if _, f := NewPhysical(m, 1<<63); !isFailure(f, fail.NoHostMemory, "no memory for") {
		t.Errorf("far too much: %v", f)
	}
	at, f := m.ReserveRange(3*size-1, 0)
	if f != nil || at%Granularity != 0 || at != m.far.Addr+uint64(Lead) || m.Used != size {
		t.Fatalf("reserved at %#x, want %#x: %v", at, m.far.Addr+Lead, f)
	}
	for addr, want := range map[uint64]string{at - 1: "not in one reservation", at + 2*size + 4096: "not in one reservation", 0: "2,097,152 bytes at 0x0"} {
		if err := m.MapPhysical(addr, p, space.Read); !isError(err, want) {
			t.Errorf("at %#x: %v", addr, err)
		}
	}
	if err := m.MapPhysical(at, p, space.Read); err != nil || p.Refs.Load() != 2 || p.Aliased.Load() || !m.Has.Mappings.Load() {
		t.Fatal(err)
	}
	copy(space.Bytes(at, 3), "abc")
	if err := m.MapPhysical(at, p, space.Read); !isError(err, "is mapped already") {
		t.Error(err)
	}
	if err := m.MapPhysical(at+size, p, space.Read); err != nil || !p.Aliased.Load() || string(space.Bytes(at+size, 3)) != "abc" {
		t.Errorf("%v: %q", err, space.Bytes(at+size, 3))
	}
	// Accesses may pass from one mapping to the next.
	for _, c := range []struct {
		n      uint64
		access uint32
		want   string
	}{{2 * size, space.Read, ""}, {size + 1, space.Write, "may not be written"}, {2*size + 1, space.Read, "up to 1 byte past the end of the allocation (4,194,304 bytes"}} {
		if err := m.Check(at, c.n, c.access); !isError(err, c.want) {
			t.Errorf("%d bytes: %v", c.n, err)
		}
	}
	for _, s := range [][2]uint64{{at + 1, size}, {at, size - 1}, {at, 3 * size}, {at + 2*size, size}} {
		if err := m.SetAccess(s[0], s[1], space.Write); !isError(err, "does not consist of whole mappings") {
			t.Errorf("access of %#x: %v", s, err)
		}
	}
	if err := m.SetAccess(at, size, space.Read|space.Write); err != nil || m.Check(at, size, space.Write) != nil || m.Check(at+size, 1, space.Write) == nil {
		t.Errorf("the access of the first: %v", err)
	}
	if err := m.SetAccess(at, 2*size, space.Write); err != nil || m.Check(at, 2*size, space.Write) != nil || m.Check(at, 1, space.Read) == nil {
		t.Errorf("the access of both: %v", err)
	}
	if err := m.ReleaseRange(at); !isError(err, "memory is still mapped at") {
		t.Error(err)
	}
	if m.Free(at, ByMalloc) || !isError(m.UnmapPhysical(at+1), "no mapping begins") || !isError(m.UnmapPhysical(at+2*size), "no mapping begins") {
		t.Error("a mapping ended at another address")
	}
	if err := m.UnmapPhysical(at); err != nil || p.Refs.Load() != 2 || p.mappings != 1 || !isError(m.Check(at, 1, space.Read), "in freed memory") {
		t.Errorf("%v: %d references", err, p.Refs.Load())
	}
	if space.Guard(func() { space.Bytes(at, 1)[0] = 1 }) == nil {
		t.Error("unmapped addresses are accessible")
	}
	p.Release()
	if m.Used != size {
		t.Error("mapped memory is counted as free")
	}
	if err := m.UnmapPhysical(at + size); err != nil || m.Used != 0 || p.Refs.Load() != 0 {
		t.Errorf("%v, %d bytes are used", err, m.Used)
	}
	if err := m.ReleaseRange(at + size); !isError(err, "no reservation begins") {
		t.Error(err)
	}
	if err := m.ReleaseRange(at); err != nil || m.Owns(at) || len(m.Taken.All()) != 0 {
		t.Error(err)
	}
	// What is left ends with the device's memory.
	p, _ = NewPhysical(m, size)
	at, _ = m.ReserveRange(size, 0)
	if err := m.MapPhysical(at, p, space.Read); err != nil {
		t.Fatal(err)
	}
	p.Release()
	m.FreeAll()
	if m.Used != 0 || p.Refs.Load() != 0 || m.Owns(at) || len(m.reservations) != 0 {
		t.Errorf("%d bytes and %d references are left", m.Used, p.Refs.Load())
	}
}

// Reservations are at the wanted addresses if these are free, and otherwise one after the other.
func TestReservationsTakeWantedAddresses(t *testing.T) {
	m := newMemory(t)
	reserve := func(want uint64) uint64 {
		t.Helper()
		at, f := m.ReserveRange(1, want)
		if f != nil {
			t.Fatal(f)
		}
		return at
	}
	a := reserve(0)
	if b := reserve(0); b != a+Granularity {
		t.Errorf("at %#x after %#x", b, a)
	}
	far := m.far.Addr + Giant*100
	if at := reserve(far); at != far {
		t.Errorf("at %#x, want %#x", at, far)
	}
	if at := reserve(m.far.Addr); at != m.far.Addr {
		t.Errorf("at %#x, want the first address", at)
	}
	for _, want := range []uint64{far, far + 4096, m.far.Addr - Granularity, a} {
		if at := reserve(want); at == want {
			t.Errorf("at %#x, which is not free", at)
		}
	}
	if at, f := m.ReserveAt(Granularity, far+Granularity); f != nil || at != far+Granularity || !m.Owns(at) {
		t.Errorf("at %#x: %v", at, f)
	}
	for _, addr := range []uint64{far, testBase, m.far.Addr - 1, testBase - 4096, 1<<64 - 4096} {
		if at, f := m.ReserveAt(Granularity, addr); !isFailure(f, fail.OutOfMemory, "the addresses are not free") {
			t.Errorf("%#x at %#x: %v", addr, at, f)
		}
	}
	// After the end of the range, the search begins again.
	m.farCursor = m.far.End() - Granularity
	if at := reserve(0); at != m.far.End()-Granularity {
		t.Errorf("at %#x, want the last address", at)
	}
	if at := reserve(0); at != m.far.Addr+Granularity {
		t.Errorf("at %#x, want one of the first, after %#x", at, m.far.Addr)
	}
	if _, f := m.ReserveRange(ReserveStride, 0); !isFailure(f, fail.NoHostMemory, "no address range is left") {
		t.Errorf("too much: %v", f)
	}
	// Addresses that the process uses are skipped.
	mine := m.far.Addr + Giant*500
	if err := space.MapAt(mine, 4096, 0); err != nil {
		t.Fatal(err)
	}
	defer space.Unmap(mine, 4096)
	m.farCursor = mine
	if at := reserve(0); at != mine+Giant {
		t.Errorf("at %#x, want %#x", at, mine+Giant)
	}
	n := len(m.reservations)
	m.FreeAll()
	if n < 9 || len(m.reservations) != 0 || m.Owns(far) || m.Placed() != (space.Span{}) {
		t.Errorf("%d reservations, %d are left", n, len(m.reservations))
	}
}

// Argument slots are powers of two, and are used again. A stream keeps those that it has used until it ends.
func TestArgumentSlotsAreReused(t *testing.T) {
	m := newMemory(t)
	get := func(of interface {
		Get(uint64) (uint64, *fail.Failure)
	}, size uint64) uint64 {
		t.Helper()
		at, f := of.Get(size)
		if f != nil {
			t.Fatal(f)
		}
		if !m.IsArgs(at) || !m.IsArgs(at+size-1) {
			t.Errorf("%d bytes at %#x are not in the argument space", size, at)
		}
		space.Bytes(at+size-1, 1)[0] = 1 // accessible
		return at
	}
	c := &ArgCache{Pool: &m.Args}
	a, b, d := get(c, 1), get(c, 512), get(c, 513)
	if a != m.End || b != a+512 || d != b+512 || get(&m.Args, 3<<20) != d+1024 {
		t.Errorf("slots at %#x, %#x, %#x", a, b, d)
	}
	c.Put(a, 1)
	c.Put(b, 512)
	if x, y := get(c, 300), get(c, 2); x != b || y != a {
		t.Errorf("slots at %#x and %#x are not used again", x, y)
	}
	c.Put(a, 1)
	other := get(&m.Args, 1)
	if other == a {
		t.Error("another stream uses the slot")
	}
	c.Close()
	c.Put(d, 600) // of a task that ends later
	if x, y := get(&m.Args, 1), get(&m.Args, 1024); x != a || y != d {
		t.Errorf("slots at %#x and %#x of an ended stream", x, y)
	}
	for _, size := range []uint64{argSpace + 1, argSpace, 1 << 40} {
		if _, f := c.Get(size); !isFailure(f, fail.NoHostMemory, "no room for") {
			t.Errorf("%d bytes: %v", size, f)
		}
	}
}

func TestManagedMemory(t *testing.T) {
	m := &Managed{}
	if m.Free(ManagedBase) || m.Owns(ManagedBase+Lead) {
		t.Error("there is managed memory")
	}
	a := m.Alloc(Granularity, 0)
	if a == 0 {
		t.Skip("the addresses of managed memory are taken")
	}
	defer m.Close()
	b, want := m.Alloc(4096, 0), uint64(ManagedBase+64<<30)
	c := m.Alloc(4096, want)
	if a != ManagedBase+Lead || b != a+Granularity || c != want {
		t.Errorf("at %#x, %#x, %#x", a, b, c)
	}
	for _, bad := range []uint64{want, want + 4096, ManagedBase - Granularity, ManagedBase + ManagedSize} { // taken, not aligned, outside
		if at := m.Alloc(4096, bad); at == bad || !m.Owns(at) {
			t.Errorf("at %#x", at)
		}
	}
	space.Bytes(a, 1)[0] = 1
	for addr, want := range map[uint64]bool{a: true, a + Granularity - 1: true, a - 1: false, 0: false, ManagedBase: false, ManagedBase + ManagedSize: false} {
		if got := m.Owns(addr); got != want {
			t.Errorf("%#x: %v", addr, got)
		}
	}
	if m.Check(a, Granularity) != nil || !isError(m.Check(a, Granularity+1), "2,097,153 bytes at") || !isError(m.Check(a-1, 1), "not in one allocation") {
		t.Error("a range outside an allocation is allowed")
	}
	if m.Free(a+1) || !m.Free(a) || m.Free(a) || m.Owns(a) || space.Guard(func() { space.Bytes(a, 1)[0] = 1 }) == nil {
		t.Error("freed memory is left")
	}
	m.cursor = ManagedBase + ManagedSize - 4096
	if at := m.Alloc(4096, 0); at != ManagedBase+ManagedSize-4096 {
		t.Errorf("at %#x, want the last address", at)
	}
	if at := m.Alloc(4096, 0); at != ManagedBase {
		t.Errorf("at %#x, want the first address", at)
	}
	if at := m.Alloc(ManagedSize+1, 0); at != 0 {
		t.Errorf("too much at %#x", at)
	}
	m.Close()
	if m.Owns(b) || m.cursor != 0 || space.Guard(func() { space.Bytes(b, 1)[0] = 1 }) == nil {
		t.Error("memory is left")
	}
}

func TestHostMemory(t *testing.T) {
	h := &Host{}
	a := h.Alloc(4097)
	if s, ok := h.Find(a + 8191); !ok || s != (space.Span{Addr: a, Size: 8192}) || h.Bounds() != s {
		t.Fatalf("%#x, %v", s, ok)
	}
	space.Bytes(a+8191, 1)[0] = 1
	if h.Alloc(1<<62) != 0 {
		t.Error("too much memory was allocated")
	}
	const pinned, mapped = 1 << 30, 2 << 30
	h.Registered.Insert(space.Region[Registration]{Span: space.Span{Addr: pinned, Size: 100}, Value: Registration{Pinned: true}})
	h.Registered.Insert(space.Region[Registration]{Span: space.Span{Addr: mapped, Size: 100}, Value: Registration{Access: space.Read}})
	for addr, want := range map[uint64]bool{pinned: true, pinned + 99: true, pinned + 100: false, mapped: false, a - 1: false, a + 8192: false} {
		if s, ok := h.Find(addr); ok != want || !ok && s != (space.Span{}) {
			t.Errorf("%#x: %v", addr, ok)
		}
	}
	if h.Bounds() != (space.Span{Addr: pinned, Size: a + 8192 - pinned}) {
		t.Errorf("bounds %#x", h.Bounds())
	}
	for _, c := range []struct {
		addr, n uint64
		access  uint32
		want    string
	}{
		{mapped, 100, space.Read, ""}, {mapped + 50, 50, space.Read, ""}, {mapped + 50, 51, space.Read, "up to 1 byte past the end of the registered host memory (100 bytes"},
		{mapped, 1, space.Write, "1 byte at 0x80000000 may not be written"}, {mapped, 1, space.Read | space.Write, "may not be written"}, {pinned, 1, space.Read, "not in an allocation of a device"},
		{mapped + 100, 1, space.Read, "not in an allocation of a device"},
	} {
		if err := h.Check(c.addr, c.n, c.access); !isError(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	h.Marks.Set(space.Span{Addr: a, Size: 8}, &Mark{Why: "k"})
	if h.Free(a+1) || !h.Free(a) || h.Free(a) || len(h.Marks.In(space.Span{Addr: a, Size: 8})) != 0 || space.Guard(func() { space.Bytes(a, 1)[0] = 1 }) == nil {
		t.Error("freed memory is left")
	}
	a = h.Alloc(1)
	h.Close()
	if _, ok := h.Find(a); ok || h.Bounds() != (space.Span{}) || space.Guard(func() { space.Bytes(a, 1)[0] = 1 }) == nil {
		t.Error("memory is left")
	}
}

// Groups that meet are one, with the memory of both and the latest times.
func TestGroupsThatMeetBecomeOne(t *testing.T) {
	at := func(n uint64) space.Span { return space.Span{Addr: n, Size: 1} }
	a, b, c := &Group{Searched: 9}, &Group{Searched: 9}, &Group{}
	a.Add(at(1), 5)
	a.Add(at(1), 3)
	a.Add(at(2), 1)
	b.Add(at(1), 7)
	b.Add(at(3), 2)
	b.Add(at(4), 2)
	if a.Root() != a || a.Join(a) != a || a.Searched != 9 {
		t.Error("a group joined itself")
	}
	if got := c.Join(a); got != a || c.Root() != a || got.Searched != 0 || len(a.Spans()) != 2 {
		t.Error("the larger group has not taken the smaller one")
	}
	g := c.Join(b)
	if a.Root() != g || b.Root() != g || c.Root() != g || g != b {
		t.Error("three groups are not one")
	}
	if got := fmt.Sprint(g.Spans()); got != "map[{1 1}:7 {2 1}:1 {3 1}:2 {4 1}:2]" {
		t.Error(got)
	}
}
