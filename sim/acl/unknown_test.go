package acl

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Marks behave like a plain array.
func TestUnknownRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 64
	var u space.Marks[string]
	var want [n]string
	for range 5000 {
		at := r.Uint64N(n)
		s := space.Span{Addr: at, Size: 1 + r.Uint64N(n-at)}
		name := ""
		switch r.IntN(3) {
		case 0:
			u.Clear(s)
		case 1:
			name = "a"
			u.Set(s, &name)
		case 2:
			name = "b"
			u.Set(s, &name)
		}
		for i := s.Addr; i < s.End(); i++ {
			want[i] = name
		}
		for i := range want {
			got := ""
			if f := u.In(space.Span{Addr: uint64(i), Size: 1}); len(f) > 0 {
				got = f[0].Value
			}
			if got != want[i] {
				t.Fatalf("byte %d is marked %q, want %q", i, got, want[i])
			}
		}
	}
	if all := u.Ranges.All(); len(all) > n {
		t.Errorf("%d ranges for %d bytes", len(all), n)
	}
}

// Data that depends on an unknown kernel is marked until known data overwrites it.
func TestUnknownResults(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	bin := e.load(testBinary(11, "fill", "mystery"))
	mystery, fill := e.function(bin, "mystery"), e.function(bin, "fill")
	a, b, c := e.malloc(4096), e.malloc(4096), e.malloc(4096)
	h := e.pinned(4096)
	s := e.stream()
	args := make([]byte, 16)
	binary.LittleEndian.PutUint64(args[8:], a+100)
	unknown := func(p acl.Addr, n uint64, want bool) {
		t.Helper()
		e.ok(e.th.SynchronizeStream(s))
		if k, ok := e.sim.Unknown(p, n); ok != want || ok && k != "mystery" {
			t.Errorf("%d bytes at %#x are unknown: %v (%s), want %v", n, p, ok, k, want)
		}
	}
	e.ok(e.th.LaunchKernelWithHostArgs(mystery, 1, s, nil, addr(&args[0]), 16, nil, 0))
	unknown(a, 1, true)
	unknown(b, 4096, false)
	// A part is copied elsewhere and partly overwritten.
	e.ok(e.th.MemcpyAsync(b+64, 1024, a, 512, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, s))
	unknown(b, 64, false)
	unknown(b+575, 1, true)
	unknown(b+576, 64, false)
	e.ok(e.th.MemsetAsync(b, 512, 7, 512, s))
	unknown(b, 512, false)
	unknown(b+512, 1, true)
	// A reduction and a kernel hand it on.
	e.ok(e.th.ReduceAsync(c, b+512, 16, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
	unknown(c, 16, true)
	unknown(c+16, 16, false)
	f := fillArgs(3, c, 16)
	e.ok(e.th.LaunchKernelWithHostArgs(fill, 1, s, nil, addr(&f[0]), uint64(len(f)), nil, 0))
	unknown(c, 16, false)
	// The host receives a part and sends it back.
	if copies, _ := e.sim.UnknownResults(); copies != 0 || strings.Contains(e.log.String(), "to the host") {
		t.Errorf("%d results before any copy: %s", copies, e.log)
	}
	e.ok(e.th.MemcpyAsync(h, 4096, b+500, 100, acl.ACL_MEMCPY_DEVICE_TO_HOST, s))
	unknown(h, 12, false)
	unknown(h, 100, true)
	e.ok(e.th.MemcpyAsync(c, 4096, h, 100, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
	unknown(c, 12, false)
	unknown(c, 100, true)
	if copies, n := e.sim.UnknownResults(); copies != 1 || n != 64 {
		t.Errorf("%d copies of %d unknown bytes, want 1 of 64", copies, n)
	}
	if l := e.log.String(); strings.Count(l, "64 of its 100 bytes depend on output of kernel \"mystery\"") != 1 {
		t.Errorf("the log says %q", l)
	}
	e.ok(e.th.Free(a))
	unknown(a, 4096, false)
	e.ok(e.th.Finalize())
	if l := e.log.String(); !strings.Contains(l, "1 copy to the host read 64 B") {
		t.Errorf("the log says %q", l)
	}
}

// Regression: unwritten device memory counted as known, so results from it looked computed.
func TestUninitialisedMemory(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels(), Uninitialised: true})
	bin := e.load(testBinary(11, "load", "fill"))
	fill, load := e.function(bin, "fill"), e.function(bin, "load")
	a, b, c := e.malloc(4096), e.malloc(4096), e.malloc(4096)
	s := e.stream()
	unwritten := func(p acl.Addr, n uint64, want bool) {
		t.Helper()
		e.ok(e.th.SynchronizeStream(s))
		if k, ok := e.sim.Unknown(p, n); ok != want || k != "" {
			t.Errorf("%d bytes at %#x are unwritten: %v (%q), want %v", n, p, ok, k, want)
		}
	}
	unwritten(a, 1, true)
	e.ok(e.th.Memset(a, 4096, 0, 100))
	unwritten(a, 100, false)
	unwritten(a+100, 1, true)
	f := fillArgs(0, a, 200)
	e.ok(e.th.LaunchKernelWithHostArgs(fill, 1, s, nil, addr(&f[0]), uint64(len(f)), nil, 0))
	unwritten(a, 200, false)
	// A copy hands the mark on, and so does a kernel that reads marked memory.
	e.ok(e.th.MemcpyAsync(b, 4096, a+100, 200, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, s))
	unwritten(b, 100, false)
	unwritten(b+100, 1, true)
	table := make([]byte, 16)
	binary.LittleEndian.PutUint64(table, b+100)
	binary.LittleEndian.PutUint64(table[8:], c)
	e.ok(e.th.LaunchKernelWithHostArgs(load, 1, s, nil, addr(&table[0]), 16, nil, 0))
	unwritten(c, 8, true)
	binary.LittleEndian.PutUint64(table, b)
	e.ok(e.th.LaunchKernelWithHostArgs(load, 1, s, nil, addr(&table[0]), 16, nil, 0))
	unwritten(c, 8, false)
	// A kernel may write more than its extents declare: bytes that are not zero were written.
	space.Bytes(c+1000, 8)[3] = 7
	unwritten(c+1003, 1, false)
	unwritten(c+1000, 8, true)
	h := e.pinned(4096)
	e.ok(e.th.MemcpyAsync(h, 4096, c+1003, 1, acl.ACL_MEMCPY_DEVICE_TO_HOST, s))
	unwritten(h, 1, false)
	if copies, _ := e.sim.UnknownResults(); copies != 0 || e.log.String() != "" {
		t.Errorf("%d copies of unknown kernels' results: %s", copies, e.log)
	}
	// Memory that is freed and allocated again is new.
	e.ok(e.th.Memset(a, 4096, 1, 4096))
	unwritten(a, 4096, false)
	e.ok(e.th.Free(a))
	unwritten(e.malloc(4096), 1, true)
}

// Reading a workspace before writing it would make every kernel that has one depend on new memory.
func TestWorkspaceIsNoInput(t *testing.T) {
	e := newEnv(t, Options{Uninitialised: true})
	work, out := e.malloc(4096), e.malloc(4096)
	args := []device.Arg{{Name: "work", Kind: device.ArgWorkspace, Size: 8}, {Name: "out", Kind: device.ArgOutput, Size: 8}}
	extents := []space.Extent{{Addr: work, Size: 4096, Access: space.Read | space.Write, Arg: 0}, {Addr: out, Size: 4096, Access: space.Write, Arg: 1}}
	e.sim.Spread(extents, args, 0)
	if _, ok := e.sim.Unknown(out, 4096); ok {
		t.Error("what a kernel with a workspace wrote is unknown")
	}
	args[0].Kind = device.ArgInout
	in := e.malloc(4096)
	extents[0].Addr = in
	e.sim.Spread(extents, args, 0)
	if _, ok := e.sim.Unknown(out, 4096); !ok {
		t.Error("what a kernel computed of new memory is known")
	}
}

// Regression: memory that an unknown kernel may have written counted as known at its other addresses, in this process
// and in others.
func TestUnknownAtOtherAddresses(t *testing.T) {
	const unit = memory.Granularity
	a := newEnv(t, Options{Devices: 2, Memory: 64 << 20})
	b := a.other()
	launch := func(e *env, p acl.Addr) {
		t.Helper()
		mystery := e.function(e.load(testBinary(11, "mystery")), "mystery")
		args := binary.LittleEndian.AppendUint64(nil, p)
		s := e.stream()
		e.ok(e.th.LaunchKernelWithHostArgs(mystery, 1, s, nil, addr(&args[0]), 8, nil, 0))
		e.ok(e.th.SynchronizeStream(s))
	}
	unknown := func(e *env, p acl.Addr, want bool) {
		t.Helper()
		if k, ok := e.sim.Unknown(p, 8); ok != want || ok && k != "mystery" {
			t.Errorf("unknown: %v (%q), want %v", ok, k, want)
		}
		h := e.pinned(64)
		e.ok(e.th.Memcpy(h, 64, p, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
		if _, ok := e.sim.Unknown(h, 8); ok != want {
			t.Errorf("a copy is unknown: %v, want %v", ok, want)
		}
	}

	// Each side of exported memory sees the other side's unknown kernels.
	share := func(m acl.Addr) (p acl.Addr) {
		k := key()
		a.ok(a.th.IpcMemGetExportKey(m, 4096, &k[0], memory.KeySize, acl.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
		b.ok(b.th.IpcMemImportByKey(&p, &k[0], 0))
		return p
	}
	before, after, theirs := a.malloc(4096), a.malloc(4096), a.malloc(4096)
	launch(a, before)
	unknown(b, share(before), true)
	p := share(after)
	unknown(b, p, false)
	launch(a, after)
	unknown(b, p, true)
	p = share(theirs)
	launch(b, p)
	unknown(a, theirs, true)

	// Physical memory keeps its stain when it is mapped elsewhere.
	var va acl.Addr
	var h acl.DrvMemHandle
	a.ok(a.th.ReserveMemAddress(&va, 4*unit, 0, 0, 0))
	a.ok(a.th.MallocPhysical(&h, unit, deviceProp(), 0))
	a.ok(a.th.MapMem(va, unit, 0, h, 0))
	unknown(a, va, false)
	launch(a, va)
	a.ok(a.th.UnmapMem(va))
	a.ok(a.th.MapMem(va+2*unit, unit, 0, h, 0))
	unknown(a, va+2*unit, true)
}

// Regression: only memory that the argument block of an unknown kernel points to was marked. The kernel could have written memory that it
// reaches through other memory.
func TestUnknownKernelReaches(t *testing.T) {
	const unit = memory.Granularity
	e := newEnv(t, Options{Kernels: testKernels(), Devices: 2})
	bin := e.load(testBinary(11, "fill", "load", "mystery"))
	mystery, load := e.function(bin, "mystery"), e.function(bin, "load")
	s := e.stream()
	launch := func(fn acl.FuncHandle, words ...uint64) {
		t.Helper()
		var args []byte
		for _, w := range words {
			args = binary.LittleEndian.AppendUint64(args, w)
		}
		e.ok(e.th.LaunchKernelWithHostArgs(fn, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		e.ok(e.th.SynchronizeStream(s))
	}
	store := func(at acl.Addr, words ...uint64) {
		t.Helper()
		for i, w := range words {
			e.ok(e.th.Memcpy(at+8*uint64(i), 8, addr(&w), 8, acl.ACL_MEMCPY_HOST_TO_DEVICE))
		}
	}
	unknown := func(what string, p acl.Addr, want bool) {
		t.Helper()
		if _, ok := e.sim.Unknown(p, 64); ok != want {
			t.Errorf("%s: unknown is %v, want %v", what, ok, want)
		}
		e.ok(e.th.Memset(p, 64, 1, 64)) // known again
	}
	none := func() acl.Addr { p := e.malloc(4096); e.ok(e.th.Memset(p, 4096, 0, 4096)); return p }

	a, b, c, d, other := none(), none(), none(), none(), none()
	store(b+4, a)    // at an odd multiple of 4
	store(c+1001, b) // at no multiple of 4: the start of an allocation
	store(d, c+4096) // one past the end
	launch(mystery, d)
	unknown("through three tables", a, true)
	unknown("other memory", other, false)
	e.ok(e.th.Memset(b, 4096, 0, 4096))
	launch(mystery, d)
	unknown("after the address was overwritten", a, true) // the first kernel knew it
	x, y := none(), none()
	store(x+1001, y+8)
	launch(mystery, x)
	unknown("through a word at no multiple of 4 that is no start", y, false)

	// What a kernel has found is kept, and not longer than it is true.
	store(x+16, y)
	launch(mystery, x)
	unknown("through an address that was stored after a launch", y, true)
	big := e.malloc(3 << 20)
	e.ok(e.th.Memset(big, 3<<20, 0, 3<<20))
	launch(mystery, big)
	z := none()
	for _, at := range []uint64{2<<20 + 8, 1<<20 - 4, 64<<10 - 4, 3<<20 - 8} {
		e.ok(e.th.Memset(z, 4096, 0, 4096))
		launch(mystery, big)
		store(big+at, z)
		launch(mystery, big)
		unknown("through any part of large memory", z, true)
		z = none() // the group has the old one
	}

	// Kernels that run store addresses, and pass on what they may be.
	from, to, w := none(), none(), none()
	store(from, w)
	launch(load, from, to)
	launch(mystery, to)
	unknown("through an address that a kernel stored", w, true)
	e.ok(e.th.Memset(from, 4096, 0, 4096))
	e.ok(e.th.Memset(to, 4096, 0, 4096))
	launch(mystery, from, w) // it may store the address of w
	e.ok(e.th.Memset(w, 4096, 0, 4096))
	launch(load, from, to)
	launch(mystery, to)
	unknown("through an address that an unknown kernel may have stored, and a known one copied", w, true)

	// Memory that has ended is not reached by what knew it.
	holder, gone := none(), none()
	launch(mystery, holder, gone)
	e.ok(e.th.Free(gone))
	wish := gone
	e.th.Wish(&wish)
	again := e.malloc(4096)
	e.ok(e.th.Memset(again, 4096, 0, 4096))
	launch(mystery, holder)
	if again != gone {
		t.Errorf("the allocation is at %#x, want %#x", again, gone)
	}
	unknown("new memory at the address of old memory", again, false)

	// Managed, pinned and registered memory.
	var m acl.Addr
	e.ok(e.th.MemAllocManaged(&m, unit, 1))
	h := e.pinned(4096)
	p, q := none(), none()
	binary.LittleEndian.PutUint64(space.Bytes(m, 8), h)
	binary.LittleEndian.PutUint64(space.Bytes(h, 8), p)
	launch(mystery, m)
	for what, at := range map[string]acl.Addr{"managed memory": m, "pinned memory": h, "through both": p} {
		if _, ok := e.sim.Unknown(at, 8); !ok {
			t.Errorf("%s is known", what)
		}
	}
	e.ok(e.th.Memcpy(q, 64, m, 64, acl.ACL_MEMCPY_DEFAULT))
	unknown("a copy from managed memory", q, true)

	// Arguments in device memory, one of which an unknown kernel may have stored.
	block, r := none(), none()
	store(block, r)
	e.ok(e.th.LaunchKernel(mystery, 1, block, 8, s))
	e.ok(e.th.SynchronizeStream(s))
	unknown("through arguments in device memory", r, true)

	// If the content of reached memory is not known, any memory may be reached.
	table, everywhere := none(), none()
	e.sim.Mark(table+8, 8, 7)
	launch(mystery, table)
	unknown("any memory", everywhere, true)
}

// Physical memory keeps its marks, at each of its addresses.
func TestMarksOfPhysicalMemory(t *testing.T) {
	const unit = memory.Granularity
	e := newEnv(t, Options{Uninitialised: true})
	var va acl.Addr
	e.ok(e.th.ReserveMemAddress(&va, 8*unit, 0, 0, 0))
	var h [2]acl.DrvMemHandle
	for i := range h {
		e.ok(e.th.MallocPhysical(&h[i], unit, deviceProp(), 0))
		e.ok(e.th.MapMem(va+uint64(i)*unit, unit, 0, h[i], 0))
	}
	unwritten := func(p acl.Addr, n uint64, want bool) {
		t.Helper()
		if k, ok := e.sim.Unknown(p, n); ok != want || k != "" {
			t.Errorf("%d bytes at %#x are unwritten: %v (%q), want %v", n, p-va, ok, k, want)
		}
	}
	unwritten(va, 1, true)
	unwritten(va+unit, 1, true)
	e.ok(e.th.Memset(va+unit-64, 128, 0, 128)) // in both
	unwritten(va+unit-64, 128, false)
	unwritten(va+unit-65, 1, true)
	unwritten(va+unit+64, 1, true)
	// The first one gets a second address, and then other addresses.
	e.ok(e.th.MapMem(va+4*unit, unit, 0, h[0], 0))
	unwritten(va+5*unit-64, 64, false)
	e.ok(e.th.Memset(va+4*unit, 64, 0, 64))
	unwritten(va, 64, false)
	unwritten(va+64, 1, true)
	e.ok(e.th.UnmapMem(va))
	e.ok(e.th.UnmapMem(va + 4*unit))
	e.ok(e.th.MapMem(va+6*unit, unit, 0, h[0], 0))
	unwritten(va+6*unit, 64, false)
	unwritten(va+6*unit+64, 1, true)
}
