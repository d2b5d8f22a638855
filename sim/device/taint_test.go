package device

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// newMachine returns two devices, at addresses that the process does not use.
func newMachine(t *testing.T, log io.Writer, uninitialised bool) *Machine {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	s := &Machine{}
	s.Start(Options{VABase: 0x2000_0000_0000, Devices: 2, Memory: 1 << 30, Model: m, Log: log, Uninitialised: uninitialised})
	for _, d := range s.Devices {
		if err := d.Memory.Reserve(); err != nil {
			t.Skip(err)
		}
	}
	t.Cleanup(s.Close)
	return s
}

// alloc allocates memory of the first device.
func alloc(t *testing.T, s *Machine, size uint64, access uint32) uint64 {
	t.Helper()
	at, f := s.Devices[0].Memory.Alloc(size, 0, memory.Block{Access: access}, t.Logf)
	if f != nil {
		t.Fatal(f)
	}
	return at
}

// page returns memory of the program, which does not move.
func page(t *testing.T) []uint64 {
	at := space.MapAnywhere(space.PageSize)
	if at == 0 {
		t.Fatal("no memory")
	}
	t.Cleanup(func() { space.Unmap(at, space.PageSize) })
	return space.List((*uint64)(space.Pointer(at)), space.PageSize/8)
}

const both = space.Read | space.Write

// marks describes the marks in memory, as OFFSET+SIZE NAME.
func marks(s *Machine, at, size uint64) string {
	var all []string
	for _, r := range s.in(space.Span{Addr: at, Size: size}) {
		why := r.Value.Why
		if reason, ok := MarkReason(why); ok {
			why = fmt.Sprint(reason)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%d+%d %s", r.Addr-at, r.Size, why)))
	}
	return strings.Join(all, ", ")
}

func wantMarks(t *testing.T, s *Machine, at, size uint64, want string) {
	t.Helper()
	if got := marks(s, at, size); got != want {
		t.Errorf("marks %q, want %q", got, want)
	}
}

func wantUnknown(t *testing.T, s *Machine, at, size uint64, want string, unknown bool) {
	t.Helper()
	if got, ok := s.Unknown(at, size); got != want || ok != unknown {
		t.Errorf("unknown: %q, %t; want %q, %t", got, ok, want, unknown)
	}
}

// taint marks memory with a kernel's name.
func (s *Machine) taint(at, size uint64, kernel string) {
	s.Taint(space.Span{Addr: at, Size: size}, &memory.Mark{Why: kernel})
}

func TestLaunchesCountByKernel(t *testing.T) {
	var l Launches
	l.Of("a").Add(2)
	l.Of("b")
	l.Of("a").Add(1)
	if got := l.All(); !maps.Equal(got, map[string]int64{"a": 3}) {
		t.Errorf("%v", got)
	}
}

// A kernel's name ranks above a caller's reason, above a race, above unwritten memory, above a weak reason. The highest mark in a range wins.
func TestMarksRank(t *testing.T) {
	order := []string{given(Weak).Why, "", RaceMark, given(Weak - 1).Why, "kernel"}
	for i := range order[1:] {
		if Rank(order[i]) >= Rank(order[i+1]) {
			t.Errorf("%q ranks above %q", order[i], order[i+1])
		}
	}
	if Rank(given(255).Why) != Rank(given(Weak).Why) || Rank(given(1).Why) != Rank(given(Weak-1).Why) {
		t.Error("reasons of a kind differ in rank")
	}
	if _, ok := MarkReason("kernel"); ok {
		t.Error("a kernel's name is a reason")
	}
	s := newMachine(t, io.Discard, false)
	a := alloc(t, s, 4096, both)
	wantUnknown(t, s, a, 4096, "", false)
	s.Mark(a, 8, 7)
	s.Mark(a+8, 8, 200)
	wantUnknown(t, s, a+8, 64, given(200).Why, true)
	wantUnknown(t, s, a, 64, given(7).Why, true)
	s.taint(a+16, 8, "k")
	wantUnknown(t, s, a, 64, "k", true)
	wantMarks(t, s, a, 64, "0+8 7, 8+8 200, 16+8 k")
	s.Mark(a+4, 16, 0)
	wantMarks(t, s, a, 64, "0+4 7, 20+4 k")
	wantUnknown(t, s, a+24, 64, "", false)
	s.Unknowns.Crashed.Store(&Crash{Kernel: "dead"})
	wantUnknown(t, s, a+24, 64, CrashMark+"dead", true)
}

// New memory is unknown until bytes are written that are not zero, also by kernels that do not declare it.
func TestNewMemoryIsUnknownUntilWritten(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := newMachine(t, io.Discard, on)
		a := alloc(t, s, 4096, both)
		s.MarkNew(space.Span{Addr: a, Size: 4096})
		wantUnknown(t, s, a, 4096, "", on)
		if !on {
			continue
		}
		s.taint(a+2048, 64, "k")
		b := space.Bytes(a, 4096)
		b[2050], b[100], b[199] = 1, 1, 1
		wantUnknown(t, s, a+100, 100, "", false)
		wantUnknown(t, s, a, 100, "", true)
		wantUnknown(t, s, a+200, 8, "", true)
		wantMarks(t, s, a, 4096, "0+100, 200+1848, 2048+64 k, 2112+1984")
	}
}

// Physical memory keeps its marks when it is mapped elsewhere. Addresses between mappings have marks of their own.
func TestPhysicalMemoryKeepsMarks(t *testing.T) {
	const g = memory.Granularity
	s := newMachine(t, io.Discard, true)
	m := &s.Devices[0].Memory
	p, f := memory.NewPhysical(m, g)
	if f != nil {
		t.Fatal(f)
	}
	base, f := m.ReserveRange(4*g, 0)
	if f != nil {
		t.Fatal(f)
	}
	maps := func(at uint64) {
		t.Helper()
		if err := m.MapPhysical(at, p, both); err != nil {
			t.Fatal(err)
		}
	}
	s.MarkPhysical(p)
	maps(base + g)
	wantUnknown(t, s, base+g, g, "", true)
	s.MarkKnown(base+g, g)
	wantUnknown(t, s, base+g, g, "", false)
	s.taint(base+g+16, 8, "k")
	wantMarks(t, s, base+g+20, g, "0+4 k")
	s.taint(base+g/2, 2*g, "all")
	wantMarks(t, s, base, 4*g, fmt.Sprintf("%d+%d all, %d+%d all, %d+%d all", g/2, g/2, g, g, 2*g, g/2))
	if err := m.UnmapPhysical(base + g); err != nil {
		t.Fatal(err)
	}
	wantMarks(t, s, base+g, g, "")
	maps(base + 3*g)
	wantMarks(t, s, base+3*g+8, g, fmt.Sprintf("0+%d all", g-8))
	if err := m.UnmapPhysical(base + 3*g); err != nil {
		t.Fatal(err)
	}
	p.Release()
}

// A copy passes the marks of each row on. Copies to the host with bytes that depend on a kernel are counted, and logged once for each kernel, but
// not for kernels that declare what they write.
func TestCopiesPassMarksOn(t *testing.T) {
	var log bytes.Buffer
	s := newMachine(t, &log, false)
	a, b := alloc(t, s, 4096, both), alloc(t, s, 4096, both)
	h := s.Host.Alloc(4096)
	s.Follow(&Transfer{Dst: b, Src: a, Width: 8, Height: 1}) // nothing is marked yet
	s.taint(a+4, 8, "k")
	s.taint(a+100, 4, "k")
	s.taint(b, 256, "old")
	s.Follow(&Transfer{Dst: b, Src: a, Width: 16, Height: 2, DstPitch: 32, SrcPitch: 96})
	wantMarks(t, s, b, 128, "4+8 k, 16+16 old, 36+4 k, 48+80 old")
	if copies, n := s.UnknownResults(); copies != 0 || n != 0 {
		t.Errorf("%d copies to the host, %d bytes", copies, n)
	}
	for range 2 {
		s.Follow(&Transfer{Dst: h, Src: b, Width: 16, Height: 2, DstPitch: 16, SrcPitch: 32})
	}
	if copies, n := s.UnknownResults(); copies != 2 || n != 24 {
		t.Errorf("%d copies to the host, %d bytes", copies, n)
	}
	want := fmt.Sprintf("aclsim: copy from %#x to the host at %#x: 12 of its 32 bytes depend on output of kernel \"k\", which is in no kernel library\n", b, h)
	if log.String() != want {
		t.Errorf("%q, want %q", &log, want)
	}
	wantMarks(t, s, h, 64, "4+8 k, 20+4 k")
	s.Follow(&Transfer{Dst: b + 512, Src: h, Width: 16, Height: 1}) // pinned memory keeps them
	wantMarks(t, s, b+512, 16, "4+8 k")
	s.Follow(&Transfer{Dst: h, Src: h + 16, Width: 16, Height: 1})
	if copies, _ := s.UnknownResults(); copies != 2 {
		t.Error("a copy on the host is counted")
	}
	s.Unknowns.Declared.Of("d").Add(1)
	s.taint(a, 8, "d")
	s.Follow(&Transfer{Dst: h, Src: a, Width: 4, Height: 1})
	s.Mark(a, 8, 9)
	s.Follow(&Transfer{Dst: h, Src: a, Width: 4, Height: 1})
	if copies, n := s.UnknownResults(); copies != 3 || n != 28 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%d copies, %d bytes\n%s", copies, n, &log)
	}
	s.Follow(&Transfer{Dst: a, Width: 4, Height: 1, Staged: make([]byte, 4)})
	wantMarks(t, s, a, 8, "4+4 9")
}

// The program may have written pageable memory since, so it keeps only a caller's marks. A doubt marks all bytes that come from the host.
func TestCopiesFromTheHost(t *testing.T) {
	s := newMachine(t, io.Discard, false)
	a := alloc(t, s, 4096, both)
	h := space.AddressOf(&page(t)[0])
	in := func(doubt uint8) {
		s.Follow(&Transfer{Dst: a, Src: h, Width: 32, Height: 1, Doubt: doubt})
	}
	in(0)
	wantMarks(t, s, a, 64, "")
	in(5)
	wantMarks(t, s, a, 64, "0+32 5")
	s.taint(h, 8, "k")
	s.Mark(h+8, 8, 7)
	s.Mark(h+16, 8, 200)
	in(0)
	wantMarks(t, s, a, 64, "8+8 7, 16+8 200")
	in(5)
	wantMarks(t, s, a, 64, "0+8 5, 8+8 7, 16+16 5")
	in(220)
	wantMarks(t, s, a, 64, "0+8 220, 8+8 7, 16+8 200, 24+8 220")
	if copies, _ := s.UnknownResults(); copies != 0 {
		t.Error("a copy to the device is counted")
	}
}

// The output of a kernel is unknown if it read unknown memory or if there is a doubt, and known otherwise. New memory as a workspace does not count.
func TestKernelsPassMarksOn(t *testing.T) {
	s := newMachine(t, io.Discard, true)
	a, b, c, out := alloc(t, s, 4096, both), alloc(t, s, 4096, both), alloc(t, s, 4096, both), alloc(t, s, 4096, both)
	read := func(at uint64) space.Extent { return space.Extent{Addr: at, Size: 64, Access: space.Read} }
	run := func(want string, args []Arg, doubt uint8, in ...space.Extent) {
		t.Helper()
		s.Spread(append(in, space.Extent{Addr: out, Size: 16, Access: space.Write}, space.Extent{Addr: out + 64, Access: space.Write}), args, doubt)
		wantMarks(t, s, out, 128, want)
	}
	run("", nil, 0, read(a))
	run("0+16 3", nil, 3, read(a))
	run("", nil, 0, read(a))
	s.Mark(a, 8, 7)
	g, o := &memory.Group{}, &memory.Group{}
	s.Taint(space.Span{Addr: b, Size: 8}, &memory.Mark{Why: "k", Group: g})
	s.Taint(space.Span{Addr: c, Size: 8}, &memory.Mark{Why: "l", Group: o})
	run("0+16 7", nil, 0, read(a))
	run("0+16 k", nil, 0, read(a), read(b))
	run("0+16 k", nil, 0, read(b), read(a))
	run("0+16 7", nil, 0, read(a), space.Extent{Addr: b, Access: space.Read}, space.Extent{Addr: b + 64, Size: 64, Access: both})
	s.clear(space.Span{Addr: b + 64, Size: 64})
	if g.Root() == o.Root() {
		t.Error("groups were joined that no kernel read")
	}
	run("0+16 k", nil, 0, read(b), read(c))
	if m, _ := s.unknown(space.Span{Addr: out, Size: 16}); g.Root() != o.Root() || m.Group.Root() != g.Root() {
		t.Error("the output does not have the memory of both kernels")
	}
	fresh := alloc(t, s, 4096, both)
	s.MarkNew(space.Span{Addr: fresh, Size: 4096})
	workspace := []Arg{{Kind: ArgWorkspace}, {Kind: ArgInput}}
	run("", workspace, 0, read(fresh))
	input := read(fresh)
	input.Arg = 1
	run("0+16", workspace, 0, input)
	s.TaintDeclared([]space.Extent{{Addr: out, Size: 8, Access: space.Write}, {Addr: out + 8, Size: 8, Access: space.Read}, {Addr: out + 20, Size: 4, Access: both}, {Addr: out + 40, Access: both}}, "d")
	wantMarks(t, s, out, 64, "0+8 d, 8+8, 20+4 d")
}

// Kernels that were launched are listed with the number of their launches. Others were only looked up.
func TestLaunchesAreCountedByKernel(t *testing.T) {
	var l Launches
	l.Of("once").Add(1)
	l.Of("never")
	l.Of("twice").Add(1)
	l.Of("twice").Add(1)
	if got, want := l.All(), map[string]int64{"once": 1, "twice": 2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A sleep does not end before its time, except by what a stream may be ahead. A long one ends when the stream stops.
func TestSleepUntil(t *testing.T) {
	c := newRealClock(&Machine{})
	for _, d := range []time.Duration{-time.Second, 0, slack / 2, time.Millisecond, 5 * time.Millisecond} {
		until := c.Now(nil) + d
		c.sleepUntil(until, nil)
		if now := c.Now(nil); now < until-slack {
			t.Errorf("a sleep of %v ended %v early", d, until-now)
		}
	}
	stop := make(chan struct{})
	close(stop)
	until := c.Now(nil) + time.Hour
	if c.sleepUntil(until, stop); c.Now(nil) >= until {
		t.Error("nothing ends a long sleep")
	}
}
