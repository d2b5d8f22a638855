package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// Ranges of marks are those of a plain array.
func TestUnknownRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 64
	var u unknowns
	var want [n]string
	for range 5000 {
		at := r.Uint64N(n)
		s := span{at, 1 + r.Uint64N(n-at)}
		name := ""
		switch r.IntN(3) {
		case 0:
			u.clear(s)
		case 1:
			name = "a"
			u.set(s, &name)
		case 2:
			name = "b"
			u.set(s, &name)
		}
		for i := s.addr; i < s.end(); i++ {
			want[i] = name
		}
		for i := range want {
			got := ""
			if f := u.in(span{uint64(i), 1}); len(f) > 0 {
				got = f[0].v
			}
			if got != want[i] {
				t.Fatalf("byte %d is marked %q, want %q", i, got, want[i])
			}
		}
	}
	if all := u.marks.all(); len(all) > n {
		t.Errorf("%d ranges for %d bytes", len(all), n)
	}
}

// What depends on a kernel that nobody knows is known to, until something known overwrites it.
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
	// A part of it goes to another place, which is overwritten in part.
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
	// The host gets some of it, and sends it back.
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
	if l := e.log.String(); strings.Count(l, "64 of its 100 bytes depend on what kernel \"mystery\"") != 1 {
		t.Errorf("the log says %q", l)
	}
	e.ok(e.th.Free(a))
	unknown(a, 4096, false)
	e.ok(e.th.Finalize())
	if l := e.log.String(); !strings.Contains(l, "1 copies to the host held 64 bytes") {
		t.Errorf("the log says %q", l)
	}
}
