package device

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// wantError compares an error with a part of its text, "" for no error.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("%v, want %q", err, text)
	}
}

// Both sides of a copy must be known memory from the first byte to the last one.
func TestCheckOfTransfers(t *testing.T) {
	s := newMachine(t, io.Discard, false)
	a, read := alloc(t, s, 4096, both), alloc(t, s, 4096, space.Read)
	managed, pinned, pageable := s.Managed.Alloc(memory.Granularity, 0), s.Host.Alloc(4096), space.AddressOf(&page(t)[0])
	for _, c := range []struct {
		x    Transfer
		want string
	}{
		{Plain(a, pageable, 4096), ""},
		{Plain(a, pageable, 4097), "bytes at"},
		{Plain(pageable, a+4090, 6), ""},
		{Plain(pageable, a+4090, 7), "bytes at"},
		{Plain(read, a, 8), "may not be written"},
		{Plain(a, read, 8), ""},
		{Transfer{Dst: a, Src: pageable, Width: 96, Height: 41, DstPitch: 100, SrcPitch: 100}, ""},
		{Transfer{Dst: a, Src: pageable, Width: 97, Height: 41, DstPitch: 100, SrcPitch: 100}, "bytes at"},
		{Transfer{Dst: pageable, Src: a, Width: 97, Height: 41, DstPitch: 100, SrcPitch: 100}, "bytes at"},
		{Transfer{Dst: a, Src: 0x10, Width: 8, Height: 1, Staged: make([]byte, 8)}, ""},
		{Plain(a, 0x10, 8), "0x10 is not a valid address"},
		{Plain(a, space.PageSize, 8), ""},
		{Plain(managed, managed+8, memory.Granularity-8), ""},
		{Plain(managed, managed+8, memory.Granularity-7), "not in one allocation of managed memory"},
		{Plain(a, pinned+8, 4088), ""},
		{Plain(a, pinned+9, 4088), "not in one host allocation"},
		{Transfer{Dst: a, Src: pinned, Width: 8, Height: 1, Pinned: true}, ""},
		{Transfer{Dst: a, Src: pageable, Width: 8, Height: 1, Pinned: true}, "not in one host allocation"},
		{Transfer{Dst: a, Src: pinned, Width: 8, Height: 1, FromDevice: true}, "not on a device"},
		{Transfer{Dst: pinned, Src: a, Width: 8, Height: 1, ToDevice: true}, "not on a device"},
	} {
		wantError(t, s.Check(&c.x), c.want)
	}
	wantError(t, s.Fill(pageable, []byte{0}, 8), "not in one host allocation")
}

// The kind of a copy depends on the memory of both sides.
func TestKindOfTransfers(t *testing.T) {
	s := newMachine(t, io.Discard, false)
	a, h := alloc(t, s, 64, both), s.Host.Alloc(64)
	o, f := s.Devices[1].Memory.Alloc(64, 0, memory.Block{Access: both}, t.Logf)
	if f != nil {
		t.Fatal(f)
	}
	for _, c := range []struct {
		x    Transfer
		want model.CopyKind
	}{
		{Plain(h, h, 8), model.HostToHost}, {Plain(a, h, 8), model.HostToDevice}, {Plain(h, a, 8), model.DeviceToHost},
		{Plain(a, a, 8), model.DeviceToDevice}, {Plain(o, a, 8), model.PeerToPeer}, {Transfer{Dst: a, Src: a, Staged: []byte{1}}, model.HostToDevice},
	} {
		if got := s.CopyKind(&c.x); got != c.want {
			t.Errorf("%+v: %v, want %v", c.x, got, c.want)
		}
	}
}

// Copies move the rows alone, and fills repeat their pattern up to the end, also in large memory.
func TestMoveAndFill(t *testing.T) {
	s := newMachine(t, io.Discard, false)
	const size = largeFill + 3*space.PageSize
	a, h := alloc(t, s, size, both), s.Host.Alloc(4096)
	b := space.Bytes(a, size)
	for _, c := range []struct {
		from, n uint64
		pattern string
	}{
		{0, size, "abc"}, {1, 30, "\x00\x00"}, {100, 90, "xyz"}, {5, largeFill + space.PageSize, "\x00"}, {space.PageSize, largeFill, "\x00"}, {space.PageSize + 1, 1, "q"}, {0, size, "\x00\x01\x00\x00"},
	} {
		n := c.n / uint64(len(c.pattern)) * uint64(len(c.pattern))
		want := bytes.Clone(b)
		for i := range n {
			want[c.from+i] = c.pattern[i%uint64(len(c.pattern))]
		}
		s.taint(a, size, "k")
		if err := s.Fill(a+c.from, []byte(c.pattern), n); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("wrong bytes after a fill of %d bytes with %q", n, c.pattern)
		}
		if _, unknown := s.Unknown(a+c.from, n); unknown {
			t.Error("filled memory is unknown")
		}
	}
	copy(space.Bytes(h, 16), "0123456789abcdef")
	x := Transfer{Dst: a, Src: h, Width: 3, Height: 3, DstPitch: 4, SrcPitch: 5}
	clear(b)
	if x.Move(); string(b[:12]) != "012\x00567\x00abc\x00" {
		t.Errorf("%q", b[:12])
	}
	if c := x.Copied(); c.Width != 3 || c.Height != 3 || c.DPitch != 4 || c.SPitch != 5 || c.Dst != a || c.Src != h || c.Staged {
		t.Errorf("%+v", c)
	}
	x = Transfer{Dst: a + 16, Src: h, Width: 2, Height: 1, Staged: []byte("yz")}
	if x.Move(); string(b[14:20]) != "\x00\x00yz\x00\x00" || !x.Copied().Staged {
		t.Errorf("%q", b[14:20])
	}
}

// A device accesses its own memory, memory of devices to which it has access, managed memory, and registered host memory.
func TestCheckOfADevice(t *testing.T) {
	s := newMachine(t, io.Discard, false)
	d, o := s.Devices[0], s.Devices[1]
	own := alloc(t, s, 64, both)
	other, f := o.Memory.Alloc(64, 0, memory.Block{Access: space.Read}, t.Logf)
	if f != nil {
		t.Fatal(f)
	}
	managed, host := s.Managed.Alloc(memory.Granularity, 0), s.Host.Alloc(4096)
	wantError(t, d.Check(own, 64, both), "")
	wantError(t, d.Check(own, 65, both), "bytes at")
	wantError(t, d.Check(managed, 64, both), "")
	wantError(t, d.Check(managed, memory.Granularity+1, both), "managed memory")
	wantError(t, d.Check(host, 8, space.Read), "not in an allocation of a device")
	wantError(t, d.Check(other, 8, space.Read), "on device 1, to which device 0 has no access")
	for _, id := range []int32{0, -1, MaxDevices} { // itself, and no devices
		d.EnablePeerAccess(id)
	}
	if d.Peers.Load() != 0 {
		t.Errorf("peers %b", d.Peers.Load())
	}
	d.EnablePeerAccess(1)
	wantError(t, d.Check(other, 8, space.Read), "")
	wantError(t, d.Check(other, 8, space.Write), "may not be written")
	wantError(t, o.Check(own, 8, space.Read), "on device 0, to which device 1 has no access")
	for at, want := range map[uint64]Location{own: {OnDevice, d}, other: {OnDevice, o}, managed: {InManaged, nil}, host: {Pinned, nil}, 0x1000: {Pageable, nil}} {
		if got := s.Locate(at); got != want {
			t.Errorf("%#x: %+v, want %+v", at, got, want)
		}
	}
}

// Memory that processes share keeps the name of the first kernel that may have written there, also if it is written later.
func TestSharedMemoryIsStained(t *testing.T) {
	s := newMachine(t, io.Discard, true)
	a, b, c := alloc(t, s, 4096, both), alloc(t, s, 4096, both), alloc(t, s, 4096, both)
	offer := func(at uint64) *memory.Shared {
		x, f := s.Shares.Offer(memory.SlotMemory, 0, true, nil)
		if f != nil {
			t.Skip(f.Text)
		}
		x.Memory = space.Span{Addr: at, Size: 4096}
		return x
	}
	s.MarkNew(space.Span{Addr: a, Size: 4096})
	s.taint(a+8, 8, "before")
	s.Mark(a+16, 8, 7)
	s.Expose(space.Span{Addr: a, Size: 4096}, offer(a), nil)
	s.Expose(space.Span{Addr: b, Size: 4096}, offer(b), nil)
	wantMarks(t, s, a, 4096, "8+8 before, 16+8 7")
	wantUnknown(t, s, a+100, 8, "before", true)
	wantUnknown(t, s, b, 8, "", false)
	s.Mark(b, 8, 7)
	wantUnknown(t, s, b+100, 8, "", false)
	s.taint(b, 8, "k")
	s.taint(b, 8, "l")
	s.MarkKnown(b, 4096)
	wantUnknown(t, s, b+100, 8, "k", true)
	wantUnknown(t, s, c, 8, "", false)
	s.Follow(&Transfer{Dst: c, Src: b + 4, Width: 8, Height: 1})
	wantMarks(t, s, c, 64, "0+8 k")
	x := &reaching{t, s} // what is there may have changed unseen
	x.store(b, c)
	s.MarkKnown(c, 4096)
	x.launch("m", b)
	x.want(c, "m")
	s.MarkKnown(c, 4096)
	x.launch("n", b)
	x.want(c, "n")
}

// A launch runs all blocks once, in parts only if it is large.
func TestKernelRunsAllBlocks(t *testing.T) {
	for _, c := range []struct {
		blocks uint32
		bytes  uint64
	}{{1, 1 << 20}, {7, 1 << 20}, {1000, minParallel}, {1000, minParallel - 1}} {
		var mu sync.Mutex
		ran, calls := make([]int, c.blocks), 0
		k := &Kernel{Blocks: func(_ *Launch, from, to uint32) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			for i := from; i < to; i++ {
				ran[i]++
			}
		}}
		k.Do(&Launch{NumBlocks: c.blocks}, c.bytes)
		for i, n := range ran {
			if n != 1 {
				t.Errorf("%+v: block %d ran %d times", c, i, n)
			}
		}
		if (c.blocks == 1 || c.bytes < minParallel) && calls != 1 {
			t.Errorf("%+v: %d parts", c, calls)
		}
	}
	ran := 0
	k := &Kernel{Run: func(*Launch) { ran++ }, Args: []Arg{{Name: "a", Size: 1}, {Size: 8}, {Size: 4}, {Size: 0}, {Size: 8}}}
	if k.Do(&Launch{NumBlocks: 4}, 1<<20); ran != 1 || !k.Computes() || (&Kernel{}).Computes() || k.Crash() != nil {
		t.Errorf("ran %d times", ran)
	}
	for arg, want := range []uint64{0, 8, 16, 20, 24} {
		if got := k.Offset(arg); got != want {
			t.Errorf("argument %d at %d, want %d", arg, got, want)
		}
	}
	if k.Offset(5) != 32 || k.ArgName(0) != "a" || k.ArgName(5) != "of unknown name" {
		t.Errorf("%d, %q, %q", k.Offset(5), k.ArgName(0), k.ArgName(5))
	}
}
