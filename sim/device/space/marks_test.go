package space

import (
	"math/rand/v2"
	"testing"
)

// Marks are those of the last Set or Clear of each byte, and neighbours with the same mark are one range if one Set joined them.
func TestBytesHaveTheirLastMark(t *testing.T) {
	const size = 300
	r := rand.New(rand.NewPCG(3, 4))
	var m Marks[int]
	bytes := [size]int{}
	for step := range 5000 {
		s := Span{Addr: uint64(r.IntN(size)), Size: uint64(r.IntN(12))}
		s.Size = min(s.Size, size-s.Addr)
		mark := 1 + r.IntN(3)
		if r.IntN(4) == 0 {
			mark = 0
			m.Clear(s)
		} else {
			m.Set(s, &mark)
		}
		for a := s.Addr; a < s.End(); a++ {
			bytes[a] = mark
		}
		in := Span{Addr: uint64(r.IntN(size)), Size: 1 + uint64(r.IntN(60))}
		if step%10 == 0 {
			in = Span{Size: 2 * size}
		}
		got, at := [2 * size]int{}, in.Addr
		for _, p := range m.In(in) {
			if p.Addr < at || p.Size == 0 || p.End() > in.End() || p.Value == 0 {
				t.Fatalf("step %d: %+v in %+v, after %d", step, p, in, at)
			}
			at = p.End()
			for a := p.Addr; a < p.End(); a++ {
				got[a] = p.Value
			}
		}
		for a := in.Addr; a < min(in.End(), size); a++ {
			if got[a] != bytes[a] {
				t.Fatalf("step %d: byte %d has the mark %d, want %d", step, a, got[a], bytes[a])
			}
		}
	}
	m.Clear(Span{Size: size})
	one, two := 1, 1
	m.Set(Span{10, 10}, &one)
	m.Set(Span{30, 10}, &one)
	m.Set(Span{20, 10}, &two)
	if all := m.Ranges.All(); len(all) != 1 || all[0].Span != (Span{10, 30}) {
		t.Errorf("equal marks are %d ranges", len(all))
	}
}

// A handle is known until it is removed, and by no other table. Numbers are reused in order, with another handle each time.
func TestRemovedHandlesAreUnknown(t *testing.T) {
	streams, events := &Table[int]{Kind: KindStream}, &Table[int]{Kind: KindEvent}
	if streams.Get(NewHandle(KindStream, 0, 0)) != nil || streams.Live() != 0 {
		t.Error("an empty table has an object")
	}
	streams.Each(func(*int) { t.Error("an empty table has an object") })
	r := rand.New(rand.NewPCG(5, 6))
	live, dead := map[uint64]*int{}, map[uint64]bool{}
	for i := range 3000 {
		if len(live) < 40 || r.IntN(2) == 0 {
			o := new(int)
			*o = i
			h := streams.Add(o)
			if h == 0 || live[h] != nil || dead[h] || KindOf(h) != KindStream {
				t.Fatalf("handle %#x of kind %v is not new", h, KindOf(h))
			}
			live[h] = o
		} else {
			for h, o := range live {
				if streams.Remove(h) != o || streams.Remove(h) != nil {
					t.Fatalf("%#x was not removed once", h)
				}
				delete(live, h)
				dead[h] = true
				break
			}
		}
	}
	for h, o := range live {
		if streams.Get(h) != o || !streams.Has(h) || events.Has(h) || streams.Has(h+1) || streams.Has(h|1<<50) {
			t.Errorf("%#x is of %v", h, streams.Get(h))
		}
	}
	for h := range dead {
		if streams.Has(h) {
			t.Errorf("%#x has ended", h)
		}
	}
	seen := 0
	streams.Each(func(o *int) {
		for _, l := range live {
			if l == o {
				seen++
			}
		}
	})
	if seen != len(live) || streams.Live() != len(live) {
		t.Errorf("%d objects, %d live, want %d", seen, streams.Live(), len(live))
	}
	a, b := events.Add(new(int)), events.Add(new(int))
	events.Remove(b)
	events.Remove(a)
	if c, d := events.Add(new(int)), events.Add(new(int)); c>>4&(MaxHandles-1) != b>>4&(MaxHandles-1) || d>>4&(MaxHandles-1) != a>>4&(MaxHandles-1) || c == b || d == a {
		t.Errorf("%#x and %#x after %#x and %#x", c, d, b, a)
	}
	names := map[string]Kind{}
	for k := KindContext; k <= KindException; k++ {
		if other, twice := names[k.String()]; twice || k.String() == "" {
			t.Errorf("%v is also %d and %d", k, other, k)
		}
		names[k.String()] = k
		if got := KindOf(NewHandle(k, 12345, MaxHandles-1)); got != k {
			t.Errorf("a handle of kind %v is of kind %v", k, got)
		}
	}
	for _, none := range []uint64{0, 16, NewHandle(KindException+1, 0, 0), NewHandle(KindStream, 0, 0) | 8, NewHandle(0, 0, 0)} {
		if KindOf(none) != 0 {
			t.Errorf("%#x is of kind %v", none, KindOf(none))
		}
	}
}

// Pieces of an arena don't overlap, keep their bytes, and are used again after Put.
func TestArenaPiecesDoNotOverlap(t *testing.T) {
	var a Arena
	defer a.Close()
	texts := map[uint64]string{}
	var spans Regions[int]
	for i := range 400 {
		s := string(make([]byte, i%50)) + "x"
		size := uint64(8192)
		at := a.Get(size)
		if at%8 != 0 {
			t.Fatalf("%#x is not aligned", at)
		}
		if c := spans.At(at); c.OK() && c.Get().Addr < at+size {
			t.Fatalf("%#x overlaps %+v", at, c.Get().Span)
		}
		spans.Insert(Region[int]{Span: Span{at, size}})
		for k, b := range []byte(s) {
			Bytes(at, size)[k] = b + 1
		}
		texts[a.Add(s)] = s
	}
	for at, s := range texts {
		if got := string(Bytes(at, uint64(len(s))+1)); got != s+"\x00" {
			t.Errorf("%q, want %q", got, s)
		}
		if c := spans.At(at); c.OK() && c.Get().Addr < at+uint64(len(s))+1 {
			t.Errorf("text at %#x overlaps %+v", at, c.Get().Span)
		}
	}
	x, y := a.Get(64), a.Get(32)
	a.Put(x, 64)
	a.Put(y, 32)
	if a.Get(32) != y || a.Get(64) != x || a.Get(64) == x {
		t.Error("pieces are not used again once")
	}
}

func TestTextsAreCutAndFaultsCaught(t *testing.T) {
	b := []byte("ab\x00c")
	if got := GoString(&b[0]) + GoString(nil) + GoString(&b[3-1]); got != "ab" {
		t.Errorf("%q", got)
	}
	PutText(b[:3], "long")
	if string(b) != "lo\x00c" {
		t.Errorf("%q", b)
	}
	for n, want := range map[uint64]uint64{0: 0, 1: 8, 8: 8, 9: 16} {
		if got := RoundUp(n, 8); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
	page := MapAnywhere(PageSize)
	if page == 0 || MapAt(page, PageSize, 3) == nil {
		t.Error("memory is mapped over other memory")
	}
	Unmap(page, PageSize)
	if err := MapAt(page, PageSize, 3); err != nil {
		t.Error(err)
	}
	if err := Guard(func() { Bytes(page, 1)[0] = 1 }); err != nil {
		t.Error(err)
	}
	Unmap(page, PageSize)
	if err := Guard(func() { Bytes(page, 1)[0] = 1 }); err == nil {
		t.Error("memory that is not mapped was written")
	}
	for _, other := range []func(){func() { panic("other") }, func() { _ = b[len(b):][0] }} {
		func() {
			defer func() {
				if r := recover(); r == nil || Fault(r) != nil {
					t.Errorf("another panic ends as %v", r)
				}
			}()
			_ = Guard(other)
		}()
	}
}

func TestSpansContainAndJoin(t *testing.T) {
	s := Span{10, 10}
	for _, c := range []struct {
		addr, n uint64
		want    bool
	}{{10, 10, true}, {10, 11, false}, {9, 1, false}, {19, 1, true}, {20, 0, false}, {15, 6, false}, {15, 1 << 63, false}} {
		if s.Holds(c.addr, c.n) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
	for _, c := range [][3]Span{{s, {30, 5}, {10, 25}}, {{30, 5}, s, {10, 25}}, {s, {99, 0}, s}, {{99, 0}, s, s}, {s, {12, 3}, s}} {
		if got := c[0].With(c[1]); got != c[2] {
			t.Errorf("%v with %v is %v", c[0], c[1], got)
		}
	}
	var set Regions[int]
	for a := range uint64(300) {
		set.Insert(Region[int]{Span: Span{100 + 10*a, 5}, Value: int(a)})
	}
	if b := set.Bounds(); b != (Span{100, 2995}) {
		t.Errorf("bounds %+v", b)
	}
	if out := TakeOut(&set, Span{104, 7}); len(out) != 2 || out[0].Addr != 100 || out[1].Addr != 110 {
		t.Errorf("%+v", out)
	}
	if out := TakeOut(&set, Span{125, 5}); len(out) != 0 || len(set.All()) != 298 {
		t.Errorf("%+v", out)
	}
	set.Clear()
	if _, ok := set.Find(200); ok || set.Bounds() != (Span{}) {
		t.Error("an empty set has regions")
	}
}
