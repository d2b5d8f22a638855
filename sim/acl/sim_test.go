package acl

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/strict"
	"golang.org/x/sys/unix"
)

// freeBase returns the start of free addresses for some devices. Go's heap starts at a random address.
func freeBase(tb testing.TB, devices uint64) uint64 {
	tb.Helper()
	for base := uint64(0x100000000000); base < 0x180000000000; base += 2 * devices * memory.ArenaStride { // with room for some reservations
		if space.MapAt(base, devices*memory.ArenaStride, unix.PROT_NONE) == nil {
			space.Unmap(base, devices*memory.ArenaStride)
			return base
		}
	}
	tb.Fatal("no free addresses for a device")
	return 0
}

// logBuffer collects warnings.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// env is a simulator with one thread that has set device 0.
type env struct {
	*testing.T
	sim *Sim
	th  *Thread
	log *logBuffer
}

// preset is a cost model that is built in.
func preset(tb testing.TB, name string) *model.Model {
	tb.Helper()
	m, err := model.Load(name)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// patience is testenv.Patience in milliseconds, for calls that must not hang.
const patience = int32(testenv.Patience / time.Millisecond)

var inVirtualTime = flag.Bool("virtual", false, "run the tests in virtual time")

// inStrictMode runs all tests in strict mode and prints findings: go test ./sim/acl -strict -v.
var inStrictMode = flag.Bool("strict", false, "run the tests in strict mode")

func newEnv(t *testing.T, o Options) *env {
	t.Helper()
	o.Virtual = o.Virtual || *inVirtualTime
	if *inStrictMode && o.Strict == nil {
		o.Strict = &Strict{Report: func(f *strict.Finding) { t.Log(f.Text(0, false)) }}
	}
	l := &logBuffer{}
	o.Log = l
	if o.VABase == 0 {
		o.VABase = freeBase(t, 1)
	}
	s := New(&o)
	t.Cleanup(s.Close)
	e := &env{t, s, s.NewThread(), l}
	e.ok(e.th.Init(nil))
	e.ok(e.th.SetDevice(0))
	return e
}

func (e *env) ok(err acl.Error) {
	e.Helper()
	e.want(0, err)
}

func (e *env) want(want, got acl.Error) {
	e.Helper()
	if got != want {
		e.Fatalf("got %v, want %v: %s", got, want, e.th.message)
	}
}

// message wants all parts in the last error text.
func (e *env) message(parts ...string) {
	e.Helper()
	text := ""
	if a := e.th.GetRecentErrMsg(); a != 0 {
		text = space.GoString((*byte)(space.Pointer(a)))
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			e.Fatalf("the error text %q does not contain %q", text, p)
		}
	}
}

func (e *env) malloc(n uint64) acl.Addr {
	e.Helper()
	var a acl.Addr
	e.ok(e.th.Malloc(&a, n, 0))
	return a
}

func (e *env) pinned(n uint64) acl.Addr {
	e.Helper()
	var a acl.Addr
	e.ok(e.th.MallocHost(&a, n))
	return a
}

// pageable is host memory that the runtime does not know.
func (e *env) pageable(n uint64) acl.Addr {
	size := space.RoundUp(n, space.PageSize)
	a := space.MapAnywhere(size)
	e.Cleanup(func() { space.Unmap(a, size) })
	return a
}

func (e *env) stream() acl.Stream {
	e.Helper()
	var s acl.Stream
	e.ok(e.th.CreateStream(&s))
	return s
}

func (e *env) event() acl.Event {
	e.Helper()
	var ev acl.Event
	e.ok(e.th.CreateEventExWithFlag(&ev, acl.ACL_EVENT_SYNC|acl.ACL_EVENT_TIME_LINE))
	return ev
}

// hold puts a task on a stream that ends when the returned function is called.
func (e *env) hold(h acl.Stream) (release func()) {
	e.Helper()
	s, err := e.th.stream(h)
	e.ok(err)
	ch := make(chan struct{})
	e.ok(e.th.submit(s, device.Task{Run: func(*device.Stream) (time.Duration, *fail.Failure) { return 0, nil }, Begin: func(*device.Stream) *device.Waiting {
		return &device.Waiting{Met: func() (bool, <-chan struct{}) { return device.IsClosed(ch), ch }}
	}}))
	return sync.OnceFunc(func() {
		close(ch)
		e.sim.Clock.Changed()
	})
}

// breakStream makes a stream task fail.
func (e *env) breakStream(h acl.Stream) {
	e.Helper()
	s, err := e.th.stream(h)
	e.ok(err)
	e.ok(e.th.submit(s, device.Task{Run: func(*device.Stream) (time.Duration, *fail.Failure) {
		return 0, status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "broken by the test")
	}}))
}

// addr returns the address of a variable on the heap, since stacks move.
func addr[T any](p *T) acl.Addr {
	if never {
		escaped = p
	}
	return uint64(uintptr(unsafe.Pointer(p)))
}

var (
	never   bool
	escaped any
)

func cstring(s string) *byte { return &append([]byte(s), 0)[0] }

// kernelMap is a set of kernels by name.
type kernelMap map[string]*device.Kernel

func (m kernelMap) Lookup(name string, entry uint64) *device.Kernel {
	if k := m[name]; k != nil && (entry == 0 || k.Entry == entry) {
		return k
	}
	return nil
}

// testKernels: fill stores a value into n bytes, read from its arguments when it runs.
func testKernels() kernelMap {
	fill := &device.Kernel{
		Name: "fill", Entry: 11,
		Args: []device.Arg{{Name: "value", Kind: device.ArgScalar, Size: 1}, {Name: "out", Kind: device.ArgOutput, Size: 8}, {Name: "n", Kind: device.ArgScalar, Size: 4}},
		Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
			return append(to, space.Extent{Addr: binary.LittleEndian.Uint64(l.Args[8:]), Size: uint64(binary.LittleEndian.Uint32(l.Args[16:])), Access: space.Write, Arg: 1})
		},
		Run: func(l *device.Launch) {
			out := space.Bytes(binary.LittleEndian.Uint64(l.Args[8:]), uint64(binary.LittleEndian.Uint32(l.Args[16:])))
			for i := range out {
				out[i] = l.Args[0]
			}
		},
	}
	slow := &device.Kernel{Name: "slow", Duration: func(*device.Launch) time.Duration { return 20 * time.Millisecond }}
	load := &device.Kernel{
		Name: "load", Args: []device.Arg{{Name: "table", Kind: device.ArgTiling, Size: 8}, {Name: "out", Kind: device.ArgOutput, Size: 8}},
		Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
			return append(to, space.Extent{Addr: binary.LittleEndian.Uint64(l.Args), Size: 8, Access: space.Read, Arg: 0}, space.Extent{Addr: binary.LittleEndian.Uint64(l.Args[8:]), Size: 8, Access: space.Write, Arg: 1})
		},
		Run: func(l *device.Launch) {
			copy(space.Bytes(binary.LittleEndian.Uint64(l.Args[8:]), 8), space.Bytes(binary.LittleEndian.Uint64(l.Args), 8))
		},
	}
	return kernelMap{"fill": fill, "slow": slow, "load": load}
}

func fillArgs(value byte, out acl.Addr, n uint32) []byte {
	b := make([]byte, 24)
	b[0] = value
	binary.LittleEndian.PutUint64(b[8:], out)
	binary.LittleEndian.PutUint32(b[16:], n)
	return b
}

// testBinary is an ELF file that names kernels, the last with a tiling key in its metadata.
func testBinary(entry uint64, names ...string) []byte {
	return testenv.KernelBinary(entry, nil, names...)
}

func (e *env) load(b []byte) acl.BinHandle {
	e.Helper()
	var h acl.BinHandle
	e.ok(e.th.BinaryLoadFromData(addr(&b[0]), uint64(len(b)), nil, &h))
	return h
}

func (e *env) function(bin acl.BinHandle, name string) acl.FuncHandle {
	e.Helper()
	var f acl.FuncHandle
	e.ok(e.th.BinaryGetFunction(bin, cstring(name), &f))
	return f
}

func TestStaleAndForeignHandlesFail(t *testing.T) {
	e := newEnv(t, Options{})
	s1 := e.stream()
	ev := e.event()
	e.ok(e.th.DestroyStream(s1))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.SynchronizeStream(s1))
	e.message("destroyed")
	s2 := e.stream()
	if s1 == s2 {
		t.Fatal("the handle of a destroyed stream came back at once")
	}
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.SynchronizeStream(acl.Stream(ev)))
	e.message("kind event")
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.SynchronizeStream(0x1234))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.DestroyStream(0))
}

func TestTableReuse(t *testing.T) {
	tab := space.Table[int]{Kind: space.KindEvent}
	seen := map[uint64]bool{}
	for i := range 1000 {
		h := tab.Add(&i)
		if seen[h] || tab.Get(h) != &i {
			t.Fatalf("handle %#x of object %d is not its own", h, i)
		}
		seen[h] = true
		if tab.Remove(h) != &i || tab.Get(h) != nil || tab.Remove(h) != nil {
			t.Fatalf("handle %#x lives on", h)
		}
	}
}

// SetDevice is reference counted; the NULL stream is the default stream of the context.
func TestDeviceAndContext(t *testing.T) {
	s := New(&Options{VABase: freeBase(t, 2), Devices: 2})
	defer s.Close()
	th := s.NewThread()
	e := &env{t, s, th, nil}
	var n uint32
	e.ok(th.GetDeviceCount(&n))
	e.ok(th.Init(nil))
	e.want(acl.ACL_ERROR_REPEAT_INITIALIZE, th.Init(nil))
	e.ok(th.GetDeviceCount(&n))
	if n != 2 {
		t.Fatalf("%d devices", n)
	}
	var p acl.Addr
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th.Malloc(&p, 64, 0))
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, th.SetDevice(2))
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICEID, th.SetDevice(-1))
	e.ok(th.SetDevice(1))
	e.ok(th.SetDevice(1))
	var ctx, other acl.Context
	e.ok(th.GetCurrentContext(&ctx))
	th2 := s.NewThread()
	e.ok(th2.SetDevice(1))
	e.ok(th2.GetCurrentContext(&other))
	if ctx != other {
		t.Fatal("two threads have different default contexts")
	}
	var s1, s2 acl.Stream
	e.ok(th.CtxGetCurrentDefaultStream(&s1))
	e.ok(th2.CtxGetCurrentDefaultStream(&s2))
	if s1 != s2 {
		t.Fatal("two threads of one context have different default streams")
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.DestroyStream(s1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.DestroyContext(ctx))
	e.ok(th.CreateContext(&other, 1))
	e.want(acl.ACL_ERROR_RT_STREAM_CONTEXT, th.SynchronizeStream(s1))
	e.ok(th.DestroyContext(other))
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th.Malloc(&p, 64, 0))
	e.ok(th.SetCurrentContext(ctx))
	e.ok(th.Malloc(&p, 64, 0))
	e.ok(th.ResetDevice(1))
	e.ok(th.ResetDevice(1))
	e.ok(th.SynchronizeStream(0))
	e.ok(th.ResetDevice(1))
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th.SynchronizeStream(0))
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th2.SynchronizeStream(0))
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th.ResetDevice(1))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, th.SetCurrentContext(ctx))
	e.ok(th.SetDevice(1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.Free(p)) // the memory went with the last context
	var left uint64
	e.ok(th.FinalizeReference(&left))
	if left != 1 {
		t.Fatalf("%d references left", left)
	}
	e.ok(th.Finalize())
	e.want(acl.ACL_ERROR_REPEAT_FINALIZE, th.Finalize())
}

// Sizes are rounded to 32 with a pad of 32; addresses are aligned to 64 at least.
func TestAllocationsAreRoundedAndAligned(t *testing.T) {
	e := newEnv(t, Options{Memory: 1 << 20})
	a, b := e.malloc(1), e.malloc(600)
	if a%memory.AllocAlign != 0 || b%memory.AllocAlign != 0 || b < a+64 {
		t.Fatalf("allocations at %#x and %#x", a, b)
	}
	for _, c := range []struct {
		n  uint64
		ok bool
	}{{64, true}, {65, false}} {
		if err := e.th.Memset(a, c.n, 1, c.n); (err == 0) != c.ok {
			t.Errorf("a fill of %d bytes of an allocation of 1 returned %v", c.n, err)
		}
	}
	var p acl.Addr
	e.ok(e.th.MallocAlign32(&p, 33, 0))
	e.ok(e.th.Memset(p, 64, 1, 64))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(p, 65, 1, 65))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Malloc(&p, 0, 0))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Malloc(nil, 1, 0))
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.Malloc(&p, 1<<20, 0))
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.Malloc(&p, ^uint64(0), 0))
	var free, total uint64
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &free, &total))
	if total != 1<<20 || free != total-64-(608+32)-64 {
		t.Fatalf("%d of %d bytes free", free, total)
	}
	e.ok(e.th.Memset(b, 600, 7, 600))
	e.ok(e.th.Free(b))
	if space.Bytes(b, 600)[5] != 0 {
		t.Error("freed memory does not read as zero")
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(b))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(a+8))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Free(0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(b, 600, 7, 600))
	e.message("freed")
	if c := e.malloc(600); c == b {
		t.Error("a freed address came back at once")
	}
}

func TestAllocationIsDeterministicAndReusesLate(t *testing.T) {
	base := freeBase(t, 1)
	run := func() (all []acl.Addr) {
		e := newEnv(t, Options{VABase: base})
		defer e.sim.Close()
		// A small arena, so that the allocator comes round.
		m := &e.sim.Devices[0].Memory
		m.End = m.Base + 64*memory.AllocAlign
		var live []acl.Addr
		for i := range 500 {
			a := e.malloc(uint64(i*37%900 + 1))
			all, live = append(all, a), append(live, a)
			if len(live) > 20 {
				j := i * 7 % len(live)
				e.ok(e.th.Free(live[j]))
				live = append(live[:j], live[j+1:]...)
			}
		}
		return all
	}
	a, b := run(), run()
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("allocation %d lies at %#x and at %#x", i, a[i], b[i])
		}
	}
}

// An untouched device of 64 GiB costs nothing.
func TestMemoryIsReserved(t *testing.T) {
	e := newEnv(t, Options{})
	a := e.malloc(60 << 30)
	space.Bytes(a, 60<<30)[59<<30] = 1
	b := e.pageable(8)
	e.ok(e.th.Memcpy(b, 8, a+59<<30, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if *(*byte)(space.Pointer(b)) != 1 {
		t.Fatal("the last GiB does not hold what was stored")
	}
	var p acl.Addr
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.Malloc(&p, 5<<30, 0))
}

func TestAllocationsTakeListedAddresses(t *testing.T) {
	base := freeBase(t, 1)
	far := uint64(0x12c041200000)
	e := newEnv(t, Options{VABase: base, Place: []uint64{far, far + 512, 0, base + 1<<30, far + 128, far + 1<<20}})
	want := []uint64{far, far + 512, base + memory.Lead, base + 1<<30, 0, far + 1<<20}
	for i, w := range want {
		a := e.malloc(100)
		if w != 0 && a != w {
			t.Errorf("allocation %d lies at %#x, not %#x", i, a, w)
		}
		e.ok(e.th.Memset(a, 100, 1, 100))
	}
	if l := e.log.String(); !strings.Contains(l, fmt.Sprintf("%#x", far+128)) || strings.Count(l, "\n") != 1 {
		t.Errorf("warnings: %q", l)
	}
	e.ok(e.th.Free(far))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(far, 100, 1, 100))
	e.ok(e.th.Memset(far+512, 100, 1, 100))
	b := e.pinned(100)
	e.ok(e.th.MemcpyAsync(far+512, 100, b, 100, acl.ACL_MEMCPY_DEFAULT, 0))
	e.ok(e.th.SynchronizeStream(0))
}

func TestPlacementThatCannotBeHad(t *testing.T) {
	taken := space.MapAnywhere(space.PageSize)
	defer space.Unmap(taken, space.PageSize)
	e := newEnv(t, Options{Place: []uint64{taken}})
	if a := e.malloc(10); a == taken {
		t.Fatal("an allocation lies on memory of the program's")
	}
	if !strings.Contains(e.log.String(), fmt.Sprintf("%#x", taken)) {
		t.Errorf("no warning names the address: %q", e.log.String())
	}
}

func TestArenaThatCannotBeHad(t *testing.T) {
	e := newEnv(t, Options{})
	s := New(&Options{VABase: e.sim.opts.VABase, Log: e.log})
	defer s.Close()
	th := s.NewThread()
	e.ok(th.Init(nil))
	if err := th.SetDevice(0); err != acl.ACL_ERROR_RT_DEV_SETUP_ERROR {
		t.Fatalf("two devices at one address: %v", err)
	}
	if !strings.Contains(e.log.String(), "ACLSIM_VA_BASE") {
		t.Errorf("the warning names no remedy: %q", e.log.String())
	}
}

func TestPointerAttributes(t *testing.T) {
	e := newEnv(t, Options{})
	for _, c := range []struct {
		a    acl.Addr
		want acl.MemLocationType
	}{
		{e.malloc(100) + 50, acl.ACL_MEM_LOCATION_TYPE_DEVICE},
		{e.pinned(100) + 50, acl.ACL_MEM_LOCATION_TYPE_HOST},
		{e.pageable(100), acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED},
	} {
		var a acl.PtrAttributes
		e.ok(e.th.PointerGetAttributes(c.a, &a))
		if a.Location.Type != c.want {
			t.Errorf("%#x lies at %d, not %d", c.a, a.Location.Type, c.want)
		}
	}
}

// The kind of an asynchronous copy follows the actual locations.
func TestAsyncCopyTable(t *testing.T) {
	e := newEnv(t, Options{})
	mem := map[byte][2]acl.Addr{
		'D': {e.malloc(64), e.malloc(64)}, 'H': {e.pinned(64), e.pinned(64)}, 'U': {e.pageable(64), e.pageable(64)},
	}
	const (
		no  = acl.ACL_ERROR_RT_PARAM_INVALID
		h2h = acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT
		dma = acl.ACL_ERROR_RT_SYS_DMA // the device can't reach pageable memory: its task fails
		ok  = acl.ACL_SUCCESS
	)
	for _, c := range []struct {
		places string
		want   [6]acl.Error // by kind: H2H, H2D, D2H, D2D, DEFAULT, HOST_TO_BUF_TO_DEVICE
	}{
		{"HD", [6]acl.Error{ok, ok, ok, ok, ok, ok}},
		{"DH", [6]acl.Error{ok, ok, ok, ok, ok, no}},
		{"HH", [6]acl.Error{h2h, h2h, h2h, h2h, h2h, no}},
		{"DD", [6]acl.Error{ok, ok, ok, ok, ok, no}},
		{"UD", [6]acl.Error{no, ok, no, dma, ok, ok}},
		{"DU", [6]acl.Error{no, no, ok, dma, ok, no}},
		{"HU", [6]acl.Error{h2h, no, no, no, h2h, no}},
		{"UH", [6]acl.Error{h2h, no, no, no, h2h, no}},
		{"UU", [6]acl.Error{h2h, no, no, dma, h2h, no}},
	} {
		for kind, want := range c.want {
			src, dst := mem[c.places[0]][0], mem[c.places[1]][1]
			for i := range space.Bytes(src, 64) {
				space.Bytes(src, 64)[i], space.Bytes(dst, 64)[i] = byte(kind+1), 0xee
			}
			s := e.stream()
			got := e.th.MemcpyAsync(dst, 64, src, 64, acl.MemcpyKind(kind), s)
			if got == 0 {
				got = e.th.SynchronizeStream(s)
			}
			if got != want {
				t.Errorf("%s, kind %d: %v, want %v", c.places, kind, got, want)
			}
			if copied := space.Bytes(dst, 64)[63] == byte(kind+1); copied != (want == 0) {
				t.Errorf("%s, kind %d: copied is %t", c.places, kind, copied)
			}
			e.ok(e.th.DestroyStream(s))
		}
	}
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemcpyAsync(mem['D'][0], 64, mem['H'][0], 64, acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, 0))
}

// Valid copy arguments.
func TestCopyArguments(t *testing.T) {
	e := newEnv(t, Options{})
	d, h := e.malloc(64), e.pageable(64)
	const (
		no  = acl.ACL_ERROR_RT_PARAM_INVALID
		ok  = acl.ACL_SUCCESS
		h2d = acl.ACL_MEMCPY_HOST_TO_DEVICE
	)
	for _, c := range []struct {
		name     string
		dst      acl.Addr
		destMax  uint64
		src      acl.Addr
		count    uint64
		kind     acl.MemcpyKind
		want     acl.Error
		syncOnly bool
	}{
		{"plain", d, 64, h, 64, h2d, ok, false},
		{"count 0", d, 0, h, 0, h2d, ok, false},
		{"count 0, null", 0, 0, 0, 0, h2d, ok, false},
		{"same place", d, 64, d, 64, h2d, ok, false},
		{"count > destMax", d, 63, h, 64, h2d, no, false},
		{"null dst", 0, 64, h, 64, h2d, acl.ACL_ERROR_INVALID_PARAM, false},
		{"null src", d, 64, 0, 64, h2d, acl.ACL_ERROR_INVALID_PARAM, false},
		{"kind below", d, 64, h, 64, -1, acl.ACL_ERROR_INVALID_PARAM, false},
		{"kind above", d, 64, h, 64, 8, acl.ACL_ERROR_INVALID_PARAM, false},
		{"behind the allocation", d + 64, 64, h, 64, h2d, no, true},
		{"kind is not matched with the places", h, 64, d, 64, h2d, ok, true},
		{"host to host", h, 32, h + 32, 32, acl.ACL_MEMCPY_HOST_TO_HOST, ok, true},
	} {
		if got := e.th.Memcpy(c.dst, c.destMax, c.src, c.count, c.kind); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.syncOnly {
			continue
		}
		if got := e.th.MemcpyAsync(c.dst, c.destMax, c.src, c.count, c.kind, 0); got != c.want {
			t.Errorf("%s, asynchronous: %v, want %v", c.name, got, c.want)
		}
	}
	e.want(no, e.th.Memcpy(d, 64, 0x10, 64, h2d))
	hole := space.MapAnywhere(space.PageSize)
	space.Unmap(hole, space.PageSize)
	e.want(no, e.th.Memcpy(d, 64, hole, 64, h2d)) // a fault is an error and not a crash
	e.message("fault")
}

// Pinned memory is read when the task runs, staged memory at the call, pageable memory after a wait.
func TestWhenHostBytesAreRead(t *testing.T) {
	e := newEnv(t, Options{})
	d, out := e.malloc(8), e.pageable(8)
	value := func() byte {
		e.ok(e.th.Memcpy(out, 8, d, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
		return *(*byte)(space.Pointer(out))
	}
	h := e.pinned(8)
	for _, c := range []struct {
		kind acl.MemcpyKind
		want byte
	}{{acl.ACL_MEMCPY_HOST_TO_DEVICE, 2}, {acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, 1}} {
		s := e.stream()
		release := e.hold(s)
		*(*byte)(space.Pointer(h)) = 1
		e.ok(e.th.MemcpyAsync(d, 8, h, 8, c.kind, s))
		*(*byte)(space.Pointer(h)) = 2
		release()
		e.ok(e.th.SynchronizeStream(s))
		if got := value(); got != c.want {
			t.Errorf("kind %d copied %d, want %d", c.kind, got, c.want)
		}
	}
	s, u := e.stream(), e.pageable(8)
	release := e.hold(s)
	returned := make(chan acl.Error)
	go func() {
		returned <- e.th.MemcpyAsync(d, 8, u, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE, s)
	}()
	select {
	case <-returned:
		t.Error("a copy of pageable memory did not wait for its stream")
	case <-time.After(30 * time.Millisecond):
		release()
		e.ok(<-returned)
	}
	release()
}

// A synchronous copy does not wait for streams.
func TestSyncCopyDoesNotWaitForStreams(t *testing.T) {
	e := newEnv(t, Options{})
	d, h := e.malloc(8), e.pageable(8)
	release := e.hold(0)
	defer release()
	e.ok(e.th.Memcpy(d, 8, h, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE))
	var st acl.StreamStatus
	e.ok(e.th.StreamQuery(0, &st))
	if st != acl.ACL_STREAM_STATUS_NOT_READY {
		t.Error("the stream is done")
	}
}

func TestPinnedMemoryFreedInFlight(t *testing.T) {
	e := newEnv(t, Options{})
	d, h, s := e.malloc(8), e.pinned(8), e.stream()
	release := e.hold(s)
	e.ok(e.th.MemcpyAsync(d, 8, h, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
	e.ok(e.th.FreeHost(h))
	// The memory is reused by the time the task runs.
	if err := space.MapAt(h, space.PageSize, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		defer space.Unmap(h, space.PageSize)
	}
	release()
	e.want(acl.ACL_ERROR_RT_SYS_DMA, e.th.SynchronizeStream(s))
	e.message(fmt.Sprintf("%#x", h), "host allocation")
}

// Pitches, widths and heights of 2-D copies.
func TestTwoDimensionalCopiesUsePitches(t *testing.T) {
	e := newEnv(t, Options{})
	d, h, u, out := e.malloc(4096), e.pinned(4096), e.pageable(4096), e.pageable(4096)
	for i := range space.Bytes(h, 4096) {
		space.Bytes(h, 4096)[i], space.Bytes(u, 4096)[i] = byte(i%251+1), byte(i%251+1)
	}
	const h2d, d2h = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
	for name, cp := range map[string]func() acl.Error{
		"sync":     func() acl.Error { return e.th.Memcpy2d(d, 128, h, 100, 60, 10, h2d) },
		"async":    func() acl.Error { return e.th.Memcpy2dAsync(d, 128, h, 100, 60, 10, h2d, 0) },
		"pageable": func() acl.Error { return e.th.Memcpy2dAsync(d, 128, u, 100, 60, 10, h2d, 0) },
	} {
		e.ok(e.th.Memset(d, 4096, 0, 4096))
		e.ok(cp())
		e.ok(e.th.SynchronizeStream(0))
		e.ok(e.th.Memcpy2d(out, 64, d, 128, 64, 10, d2h))
		for r := range uint64(10) {
			if got := space.Bytes(out+r*64, 64); !bytes.Equal(got[:60], space.Bytes(h+r*100, 60)) || got[60] != 0 {
				t.Fatalf("%s: row %d is %v", name, r, got)
			}
		}
	}
	const no = acl.ACL_ERROR_RT_PARAM_INVALID
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Memcpy2d(d, 128, h, 100, 60, 10, acl.ACL_MEMCPY_DEFAULT))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Memcpy2d(d, 128, d, 128, 60, 10, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
	e.want(no, e.th.Memcpy2d(d, 128, h, 100, 60, 10, d2h))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Memcpy2d(d, 59, h, 100, 60, 10, h2d))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Memcpy2d(d, 128, h, 59, 60, 10, h2d))
	e.ok(e.th.Memcpy2d(d, 128, h, 100, 0, 10, h2d))
	e.want(no, e.th.Memcpy2d(d, 512, h, 100, 100, 9, h2d)) // the last row ends after the allocation
	e.want(no, e.th.Memcpy2dAsync(d, 6000000, h, 6000000, 5000001, 1, h2d, 0))
	e.want(no, e.th.Memcpy2dAsync(d, 1, h, 1, 1, 5<<20+1, h2d, 0))
}

// Batches of copies.
func TestCopyBatch(t *testing.T) {
	e := newEnv(t, Options{})
	const n = 3
	d, h, u := e.malloc(64*n), e.pinned(64*n), e.pageable(64*n)
	var dsts, srcs, sizes, maxs [n]uint64
	var attrs [n]acl.MemcpyBatchAttr
	var indexes [n]uint64
	reset := func() {
		for i := range uint64(n) {
			dsts[i], srcs[i], sizes[i], maxs[i], indexes[i] = d+64*i, h+64*i, 64, 64, i
			attrs[i] = acl.MemcpyBatchAttr{
				DstLoc: acl.MemLocation{Type: acl.ACL_MEM_LOCATION_TYPE_DEVICE}, SrcLoc: acl.MemLocation{Type: acl.ACL_MEM_LOCATION_TYPE_HOST},
			}
			space.Bytes(srcs[i], 1)[0] = byte(i + 1)
			space.Bytes(dsts[i], 1)[0] = 0
		}
	}
	const (
		no   = acl.ACL_ERROR_RT_PARAM_INVALID
		none = ^uint64(0)
	)
	for _, c := range []struct {
		name     string
		change   func()
		numAttrs uint64
		want     acl.Error
		fail     uint64
	}{
		{"plain", func() {}, n, 0, none},
		{"one attribute for all", func() {}, 1, 0, none},
		{"pageable", func() { srcs[1] = u; space.Bytes(u, 1)[0] = 2 }, n, 0, none},
		{"back", func() {
			dsts[2], srcs[2] = h+128, d+128
			space.Bytes(d+128, 1)[0] = 3
			attrs[2].DstLoc, attrs[2].SrcLoc = attrs[2].SrcLoc, attrs[2].DstLoc
		}, n, 0, none},
		{"too small", func() { maxs[1] = 63 }, n, acl.ACL_ERROR_INVALID_PARAM, 1},
		{"null", func() { srcs[2] = 0 }, n, no, 2},
		{"wrong place", func() { attrs[2].SrcLoc.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE }, n, no, 2},
		{"wrong device", func() { attrs[0].DstLoc.Id = 1 }, n, no, 0},
		{"on the device", func() {
			srcs[1] = d
			attrs[1].SrcLoc.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE
		}, n, acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 1},
		{"reserved", func() { attrs[1].Rsv[3] = 1 }, n, acl.ACL_ERROR_INVALID_PARAM, none},
		{"first index", func() { indexes[0] = 1 }, n, no, none},
		{"descending", func() { indexes[1], indexes[2] = 2, 1 }, n, no, none},
		{"twice the same index", func() { indexes[2] = 1 }, n, no, none},
		{"index too high", func() { indexes[2] = 3 }, n, no, none},
		{"no attributes", func() {}, 0, no, none},
	} {
		for _, async := range []bool{false, true} {
			reset()
			c.change()
			var fail uint64
			var got acl.Error
			if async {
				got = e.th.MemcpyBatchAsync(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], c.numAttrs, &fail, 0)
				e.ok(e.th.SynchronizeStream(0))
			} else {
				got = e.th.MemcpyBatch(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], c.numAttrs, &fail)
			}
			if got != c.want || fail != c.fail {
				t.Errorf("%s (async %t): %v, failIndex %d, want %v, %d", c.name, async, got, int64(fail), c.want, int64(c.fail))
			}
			for i := range dsts {
				if b := space.Bytes(dsts[i], 1)[0]; c.want == 0 && b != byte(i+1) {
					t.Errorf("%s (async %t): copy %d holds %d", c.name, async, i, b)
				}
			}
		}
	}
	reset()
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemcpyBatchAsync(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], n, nil, 0))
	e.ok(e.th.MemcpyBatchAsyncV2(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], n, 0))
	e.ok(e.th.MemcpyBatchV2(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], n))
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.MemcpyBatch(&dsts[0], &maxs[0], &srcs[0], &sizes[0], n, &attrs[0], &indexes[0], n, nil))
}

func TestMemsetFillsOnlyItsRange(t *testing.T) {
	e := newEnv(t, Options{})
	d, h, u := e.malloc(1000), e.pinned(1000), e.pageable(8)
	for _, a := range []acl.Addr{d, h} {
		e.ok(e.th.Memset(a, 1000, 0x1ab, 999))
		b := space.Bytes(a, 1000)
		if b[0] != 0xab || b[998] != 0xab || b[999] != 0 {
			t.Errorf("%#x holds %#x %#x %#x", a, b[0], b[998], b[999])
		}
		e.ok(e.th.MemsetAsync(a, 1000, 0, 1000, 0))
		e.ok(e.th.SynchronizeStream(0))
		if b[500] != 0 {
			t.Errorf("%#x holds %#x", a, b[500])
		}
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(d, 10, 1, 11))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(u, 8, 1, 8))
	e.ok(e.th.Memset(d, 0, 1, 0))
}

// FIFO inside a stream, none among streams.
func TestStreamOrder(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	d, h := e.malloc(8), e.pageable(8)
	s := e.stream()
	f := e.function(e.load(testBinary(5, "fill")), "fill")
	for i := range 200 {
		args := fillArgs(byte(i), d, 8)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 24, nil, 0))
	}
	e.ok(e.th.SynchronizeStream(s))
	e.ok(e.th.Memcpy(h, 8, d, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if got := *(*byte)(space.Pointer(h)); got != 199 {
		t.Errorf("the last of 200 launches is %d", got)
	}
	release := e.hold(s)
	other := e.stream()
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, other))
	e.ok(e.th.SynchronizeStream(other))
	e.ok(e.th.MemsetAsync(d, 8, 2, 8, 0)) // the default stream waits for none either
	e.ok(e.th.SynchronizeStream(0))
	release()
	e.ok(e.th.DestroyStream(s)) // waits
}

// Timeouts in milliseconds, -1 for ever; 507046 and 507047.
func TestWaitsEndAtTheirTimeout(t *testing.T) {
	if *inVirtualTime {
		t.Skip("it measures real time")
	}
	e := newEnv(t, Options{})
	s, ev := e.stream(), e.event()
	release := e.hold(s)
	e.ok(e.th.RecordEvent(ev, s))
	began := time.Now()
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 20))
	if d := time.Since(began); d < 20*time.Millisecond {
		t.Errorf("a timeout of 20 ms took %v", d)
	}
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 0))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeDeviceWithTimeout(5))
	e.want(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, e.th.SynchronizeEventWithTimeout(ev, 5))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SynchronizeStreamWithTimeout(s, -2))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.SynchronizeEventWithTimeout(ev, -2))
	var st acl.StreamStatus
	e.ok(e.th.StreamQuery(s, &st))
	if st != acl.ACL_STREAM_STATUS_NOT_READY {
		t.Error("a stream at work is complete")
	}
	release()
	e.ok(e.th.SynchronizeStreamWithTimeout(s, -1))
	e.ok(e.th.SynchronizeDeviceWithTimeout(-1))
	e.ok(e.th.SynchronizeEventWithTimeout(ev, -1))
	e.ok(e.th.StreamQuery(s, &st))
	if st != acl.ACL_STREAM_STATUS_COMPLETE {
		t.Error("an idle stream is not complete")
	}
}

// Records, waits and queries of events.
func TestEventCoversEarlierWorkOnly(t *testing.T) {
	e := newEnv(t, Options{})
	s, waiter, ev := e.stream(), e.stream(), acl.Event(0)
	e.ok(e.th.CreateEvent(&ev))
	status := func() acl.EventRecordedStatus {
		var st acl.EventRecordedStatus
		e.ok(e.th.QueryEventStatus(ev, &st))
		return st
	}
	if status() != acl.ACL_EVENT_RECORDED_STATUS_COMPLETE {
		t.Error("an event that was never recorded is not complete")
	}
	e.ok(e.th.StreamWaitEvent(waiter, ev)) // and is not waited for
	e.ok(e.th.SynchronizeEvent(ev))
	e.ok(e.th.SynchronizeStream(waiter))

	release := e.hold(s)
	e.ok(e.th.RecordEvent(ev, s))
	late := e.hold(s) // later work does not count
	e.ok(e.th.StreamWaitEvent(waiter, ev))
	d := e.malloc(8)
	e.ok(e.th.MemsetAsync(d, 8, 9, 8, waiter))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(waiter, 10))
	var old acl.EventStatus
	var waits acl.EventWaitStatus
	e.ok(e.th.QueryEvent(ev, &old))
	e.ok(e.th.QueryEventWaitStatus(ev, &waits))
	if status() != acl.ACL_EVENT_RECORDED_STATUS_NOT_READY || old != acl.ACL_EVENT_STATUS_NOT_READY || waits != acl.ACL_EVENT_WAIT_STATUS_NOT_READY {
		t.Error("a pending event is complete")
	}
	if space.Bytes(d, 1)[0] != 0 {
		t.Error("the work behind a wait ran")
	}
	release()
	e.ok(e.th.SynchronizeEvent(ev))
	e.ok(e.th.SynchronizeStream(waiter))
	e.ok(e.th.QueryEvent(ev, &old))
	e.ok(e.th.QueryEventWaitStatus(ev, &waits))
	if status() != acl.ACL_EVENT_RECORDED_STATUS_COMPLETE || old != acl.ACL_EVENT_STATUS_COMPLETE || waits != acl.ACL_EVENT_WAIT_STATUS_COMPLETE {
		t.Error("a complete event is pending")
	}

	// After a new record, waits for the old one are done and the new one is pending.
	e.ok(e.th.RecordEvent(ev, s))
	if status() != acl.ACL_EVENT_RECORDED_STATUS_NOT_READY {
		t.Error("a recorded event is complete before its stream")
	}
	late()
	e.ok(e.th.SynchronizeEvent(ev))
	e.ok(e.th.DestroyEvent(ev))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.DestroyEvent(ev))
}

// An event may be ended while a stream waits for it.
func TestDestroyEventInUse(t *testing.T) {
	e := newEnv(t, Options{})
	s, waiter, ev := e.stream(), e.stream(), e.event()
	release := e.hold(s)
	e.ok(e.th.RecordEvent(ev, s))
	e.ok(e.th.StreamWaitEvent(waiter, ev))
	e.ok(e.th.DestroyEvent(ev))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(waiter, 5))
	release()
	e.ok(e.th.SynchronizeStream(waiter))
}

// The reference of aclrtCreateEvent* lists the abilities of each kind of event.
func TestEventKinds(t *testing.T) {
	e := newEnv(t, Options{})
	var plain, flagSync, flagTime, exSync, exTime acl.Event
	e.ok(e.th.CreateEvent(&plain))
	e.ok(e.th.CreateEventWithFlag(&flagSync, acl.ACL_EVENT_SYNC))
	e.ok(e.th.CreateEventWithFlag(&flagTime, acl.ACL_EVENT_TIME_LINE))
	e.ok(e.th.CreateEventExWithFlag(&exSync, acl.ACL_EVENT_SYNC))
	e.ok(e.th.CreateEventExWithFlag(&exTime, acl.ACL_EVENT_TIME_LINE))
	const no, ok = acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acl.ACL_SUCCESS
	for _, c := range []struct {
		name                     string
		ev                       acl.Event
		wait, reset, query, wqry acl.Error
	}{
		{"plain", plain, ok, no, ok, ok},
		{"flag sync", flagSync, ok, ok, ok, ok},
		{"flag time", flagTime, no, no, ok, no},
		{"ex sync", exSync, ok, no, no, no},
		{"ex time", exTime, no, no, no, no},
	} {
		e.ok(e.th.RecordEvent(c.ev, 0))
		e.ok(e.th.SynchronizeEvent(c.ev))
		var st acl.EventStatus
		var wst acl.EventWaitStatus
		for name, got := range map[string][2]acl.Error{
			"wait": {e.th.StreamWaitEvent(0, c.ev), c.wait}, "reset": {e.th.ResetEvent(c.ev, 0), c.reset},
			"query": {e.th.QueryEvent(c.ev, &st), c.query}, "wait status": {e.th.QueryEventWaitStatus(c.ev, &wst), c.wqry},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %s returned %v, want %v", c.name, name, got[0], got[1])
			}
		}
	}
	var ev acl.Event
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.CreateEventWithFlag(&ev, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.CreateEventWithFlag(&ev, 0x80))
}

// Event times: milliseconds as float, microseconds since boot, only with TIME_LINE.
func TestEventTimes(t *testing.T) {
	if *inVirtualTime {
		t.Skip("its kernel sleeps in real time")
	}
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(5, "slow")), "slow")
	a, b := e.event(), e.event()
	var noTime acl.Event
	var ms float32
	var us, us2 uint64
	e.ok(e.th.CreateEventWithFlag(&noTime, acl.ACL_EVENT_SYNC))
	e.want(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, e.th.EventElapsedTime(&ms, a, b))
	release := e.hold(0)
	e.ok(e.th.RecordEvent(a, 0))
	e.ok(e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, 0, 0, nil, 0))
	e.ok(e.th.RecordEvent(b, 0))
	e.ok(e.th.RecordEvent(noTime, 0))
	e.want(acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE, e.th.EventElapsedTime(&ms, a, b))
	began := time.Now()
	release()
	e.ok(e.th.SynchronizeStream(0))
	took := time.Since(began) // on a busy machine longer than the kernel, like the device times
	if took < 20*time.Millisecond {
		t.Errorf("a kernel of 20 ms took %v", took)
	}
	e.ok(e.th.EventElapsedTime(&ms, a, b))
	if ms < 20 || ms > float32(took.Seconds()*1e3) {
		t.Errorf("%v ms around a kernel of 20 ms, in %v", ms, took)
	}
	e.ok(e.th.EventGetTimestamp(a, &us))
	e.ok(e.th.EventGetTimestamp(b, &us2))
	if us == 0 || us2-us < 19999 || us2-us > uint64(took.Microseconds())+1 {
		t.Errorf("time stamps %d and %d", us, us2)
	}
	e.want(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, e.th.EventElapsedTime(&ms, b, a))
	e.want(acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, e.th.EventGetTimestamp(noTime, &us))
}

func TestWaitTimeout(t *testing.T) {
	e := newEnv(t, Options{})
	s, waiter, ev := e.stream(), e.stream(), e.event()
	release := e.hold(s)
	defer release()
	e.ok(e.th.RecordEvent(ev, s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.StreamWaitEventWithTimeout(waiter, ev, -1))
	e.ok(e.th.StreamWaitEventWithTimeout(waiter, ev, 1))
	e.want(acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, e.th.SynchronizeStream(waiter))
}

// With stop on failure, the first failing task stops its whole context, and the error stays.
func TestErrorsStick(t *testing.T) {
	e := newEnv(t, Options{})
	s, other, ev, before := e.stream(), e.stream(), e.event(), e.event()
	d := e.malloc(8)
	const broken = acl.ACL_ERROR_RT_AICORE_EXCEPTION
	e.ok(e.th.SetStreamFailureMode(s, acl.ACL_STOP_ON_FAILURE))
	release := e.hold(s)
	e.ok(e.th.RecordEvent(before, s))
	e.breakStream(s)
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, s)) // the error is not known yet
	e.ok(e.th.RecordEvent(ev, s))
	e.ok(e.th.StreamWaitEvent(other, ev))
	release()
	e.want(broken, e.th.SynchronizeStream(s))
	e.message("broken by the test")
	e.want(broken, e.th.SynchronizeStream(s))
	e.want(broken, e.th.MemsetAsync(d, 8, 1, 8, s))
	e.want(broken, e.th.RecordEvent(ev, s))
	e.want(broken, e.th.SynchronizeDevice())
	e.want(broken, e.th.SynchronizeEvent(ev))
	e.ok(e.th.SynchronizeEvent(before))
	var st acl.StreamStatus
	e.want(broken, e.th.StreamQuery(s, &st))
	e.want(broken, e.th.SynchronizeStream(other)) // who waits for a failed stream is not held up
	if space.Bytes(d, 1)[0] != 0 {
		t.Error("a task behind a failed one ran")
	}
	e.want(broken, e.th.PeekAtLastError(acl.ACL_RT_THREAD_LEVEL))
	e.want(broken, e.th.GetLastError(acl.ACL_RT_THREAD_LEVEL))
	e.ok(e.th.GetLastError(acl.ACL_RT_THREAD_LEVEL))
	e.ok(e.th.DestroyStream(s))
	e.want(broken, e.th.SynchronizeDevice())

	var ctx acl.Context
	e.ok(e.th.CreateContext(&ctx, 0))
	unseen := e.stream()
	e.breakStream(unseen)
	e.want(broken, e.th.DestroyStream(unseen))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.DestroyStream(unseen))
}

// Otherwise a stream continues, and the next synchronization returns the failure.
func TestErrorsAreToldOnce(t *testing.T) {
	e := newEnv(t, Options{})
	s, ev := e.stream(), e.event()
	d := e.malloc(8)
	release := e.hold(s)
	e.breakStream(s)
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, s))
	e.ok(e.th.RecordEvent(ev, s))
	release()
	e.ok(e.th.SynchronizeEvent(ev))
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
	e.ok(e.th.SynchronizeStream(s))
	if space.Bytes(d, 1)[0] != 1 {
		t.Error("a task behind a failed one did not run")
	}
	e.ok(e.th.MemsetAsync(d, 8, 2, 8, s))
	e.ok(e.th.DestroyStream(s))
}

func TestErrorsBelongToThreads(t *testing.T) {
	e := newEnv(t, Options{})
	th := e.sim.NewThread()
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.Free(0))
	if th.PeekAtLastError(acl.ACL_RT_THREAD_LEVEL) != 0 || th.GetRecentErrMsg() != 0 {
		t.Error("a thread sees the error of another")
	}
	e.message("devPtr")
	if e.th.GetRecentErrMsg() != 0 {
		t.Error("the text is there twice")
	}
}

func TestDestroyByForce(t *testing.T) {
	e := newEnv(t, Options{})
	s, ev := e.stream(), e.event()
	d := e.malloc(8)
	e.hold(s)
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, s))
	e.ok(e.th.RecordEvent(ev, s))
	e.ok(e.th.DestroyStreamForce(s))
	e.ok(e.th.SynchronizeEvent(ev))
	if space.Bytes(d, 1)[0] != 0 {
		t.Error("discarded work ran")
	}
	e.hold(0)
	e.ok(e.th.ResetDeviceForce(0))
}

func TestStreamLimitsAndIds(t *testing.T) {
	e := newEnv(t, Options{})
	seen := map[int32]bool{}
	var last acl.Stream
	for range device.MaxStreams - 1 {
		last = e.stream()
		var id int32
		e.ok(e.th.StreamGetId(last, &id))
		if seen[id] {
			t.Fatalf("two streams have id %d", id)
		}
		seen[id] = true
	}
	var s acl.Stream
	e.want(acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, e.th.CreateStream(&s))
	e.ok(e.th.DestroyStream(last))
	e.ok(e.th.CreateStreamWithConfig(&s, 7, acl.ACL_STREAM_FAST_LAUNCH))
	var p, f uint32
	e.ok(e.th.StreamGetPriority(s, &p))
	e.ok(e.th.StreamGetFlags(s, &f))
	if p != 7 || f != acl.ACL_STREAM_FAST_LAUNCH {
		t.Errorf("priority %d, flags %d", p, f)
	}
}

func TestTaskIds(t *testing.T) {
	e := newEnv(t, Options{})
	d := e.malloc(8)
	var first, second uint32
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, 0))
	e.ok(e.th.GetThreadLastTaskId(&first))
	e.ok(e.th.MemsetAsync(d, 8, 1, 8, 0))
	e.ok(e.th.GetThreadLastTaskId(&second))
	if second != first+1 {
		t.Errorf("task ids %d and %d", first, second)
	}
}

func TestKernelsHaveNamesAndEntries(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	data := testBinary(42, "fill", "other_123", "unknown", "pair_mix_aic", "pair_mix_aiv", "last")
	bin := e.load(data)
	fill := e.function(bin, "fill")
	if fill != e.function(bin, "fill") {
		t.Error("a kernel has two handles")
	}
	e.function(bin, "pair")
	var f acl.FuncHandle
	e.want(acl.ACL_ERROR_RT_KERNEL_LOOKUP, e.th.BinaryGetFunction(bin, cstring("pair_mix_aic"), &f))
	e.want(acl.ACL_ERROR_RT_KERNEL_LOOKUP, e.th.BinaryGetFunction(bin, cstring("slow"), &f)) // the library has it, the binary has not
	name := make([]byte, 64)
	for entry, want := range map[uint64]string{42: "last", 123: "other_123", 11: "fill"} {
		e.ok(e.th.BinaryGetFunctionByEntry(bin, entry, &f))
		e.ok(e.th.GetFunctionName(f, 64, &name[0]))
		if got := space.GoString(&name[0]); got != want {
			t.Errorf("entry %d is %s, not %s", entry, got, want)
		}
	}
	e.want(acl.ACL_ERROR_RT_KERNEL_LOOKUP, e.th.BinaryGetFunctionByEntry(bin, 99, &f))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.GetFunctionName(fill, 4, &name[0]))
	e.ok(e.th.GetFunctionName(fill, 5, &name[0]))
	var n, off, size uint64
	e.ok(e.th.FunctionGetParamCount(uint64(fill), &n))
	e.ok(e.th.FunctionGetParamInfo(uint64(fill), 2, &off, &size))
	if n != 3 || off != 16 || size != 4 {
		t.Errorf("%d parameters, the last of %d bytes at %d", n, size, off)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.FunctionGetParamInfo(uint64(fill), 3, &off, &size))
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.FunctionGetParamCount(uint64(e.function(bin, "unknown")), &n))
	e.want(acl.ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, e.th.FunctionGetParamCount(0x401000, &n))

	image := e.th.CreateBinary(addr(&data[0]), uint64(len(data)))
	var bin2 acl.BinHandle
	e.ok(e.th.BinaryLoad(image, &bin2))
	e.ok(e.th.DestroyBinary(image))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.BinaryLoad(image, &bin2))
	e.ok(e.th.BinaryUnLoad(bin))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.GetFunctionName(fill, 64, &name[0]))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.BinaryUnLoad(bin))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.BinaryGetFunction(bin, cstring("fill"), &f))
	e.want(acl.ACL_ERROR_RT_FILE_OPEN, e.th.BinaryLoadFromFile(cstring("/nonexistent.o"), nil, &bin))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.BinaryLoadFromData(addr(&name[0]), 64, nil, &bin))
}

// Damaged binaries are refused or read, never fatal.
func FuzzParseBinary(f *testing.F) {
	f.Add(testBinary(42, "a", "b"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = kernel.ParseBinary(b) })
}

func TestDamagedBinaries(t *testing.T) {
	whole := testBinary(42, "a", "b")
	for i := range whole {
		_, _ = kernel.ParseBinary(whole[:i])
		b := bytes.Clone(whole)
		b[i] ^= 0xff
		_, _ = kernel.ParseBinary(b)
	}
}

// Placeholders are patched in the caller's buffer, and the bytes are taken at the call.
func TestHostArgs(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(5, "load")), "load")
	out, h := e.malloc(8), e.pageable(8)
	args := make([]byte, 32)
	binary.LittleEndian.PutUint64(args[8:], out)
	binary.LittleEndian.PutUint64(args[24:], 0x1122334455667788)
	place := []acl.PlaceHolderInfo{{AddrOffset: 0, DataOffset: 24}}
	release := e.hold(0)
	e.ok(e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 32, &place[0], 1))
	p := binary.LittleEndian.Uint64(args)
	if e.sim.Locate(p).Device == nil {
		t.Errorf("the placeholder holds %#x", p)
	}
	clear(args)
	release()
	e.ok(e.th.SynchronizeStream(0))
	e.ok(e.th.Memcpy(h, 8, out, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if got := binary.LittleEndian.Uint64(space.Bytes(h, 8)); got != 0x1122334455667788 {
		t.Errorf("the kernel saw %#x", got)
	}
	const no = acl.ACL_ERROR_RT_PARAM_INVALID
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 15, nil, 0)) // shorter than the parameters
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, 0, 32, nil, 0))
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 32, nil, 1))
	place[0].AddrOffset = 25
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 32, &place[0], 1))
	place[0] = acl.PlaceHolderInfo{AddrOffset: 0, DataOffset: 32}
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 32, &place[0], 1))
	cfg := acl.LaunchKernelCfg{NumAttrs: 1}
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, &cfg, addr(&args[0]), 32, nil, 0))
	attr := acl.LaunchKernelAttr{Id: 10}
	cfg.Attrs = addr(&attr)
	e.want(no, e.th.LaunchKernelWithHostArgs(f, 1, 0, &cfg, addr(&args[0]), 32, nil, 0))
}

// 1 to 65535 blocks.
func TestBlockCounts(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(5, "slow")), "slow")
	for n, want := range map[uint32]acl.Error{0: acl.ACL_ERROR_RT_PARAM_INVALID, 1: 0, 65535: 0, 65536: acl.ACL_ERROR_RT_PARAM_INVALID} {
		if got := e.th.LaunchKernelWithHostArgs(f, n, 0, nil, 0, 0, nil, 0); got != want {
			t.Errorf("%d blocks: %v, want %v", n, got, want)
		}
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.LaunchSIMTKernelWithHostArgs(uint64(f), acl.Dim3{X: 1 << 31, Y: 1 << 31, Z: 4}, acl.Dim3{X: 1, Y: 1, Z: 1}, 0, 0, nil, 0, 0, nil, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.LaunchSIMTKernelWithHostArgs(uint64(f), acl.Dim3{X: 1, Y: 1, Z: 1}, acl.Dim3{X: 1, Y: 1}, 0, 0, nil, 0, 0, nil, 0))
}

// Arguments in device memory are read when the kernel runs.
func TestDeviceArgs(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(5, "fill")), "fill")
	d, block := e.malloc(8), e.malloc(24)
	h := e.pinned(24)
	release := e.hold(0)
	copy(space.Bytes(h, 24), fillArgs(1, d, 8))
	e.ok(e.th.Memcpy(block, 24, h, 24, acl.ACL_MEMCPY_HOST_TO_DEVICE))
	e.ok(e.th.LaunchKernel(f, 1, block, 24, 0))
	copy(space.Bytes(h, 24), fillArgs(2, d, 8))
	e.ok(e.th.Memcpy(block, 24, h, 24, acl.ACL_MEMCPY_HOST_TO_DEVICE))
	release()
	e.ok(e.th.SynchronizeStream(0))
	if got := space.Bytes(d, 1)[0]; got != 2 {
		t.Errorf("the kernel saw the arguments of %d", got)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.LaunchKernel(f, 1, h, 24, 0)) // in host memory
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.LaunchKernel(f, 1, block, 12, 0))
	e.ok(e.th.Free(block))
	e.ok(e.th.LaunchKernel(f, 1, block, 24, 0))
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(0))
	e.message("fill", "freed")
}

func TestDeclaredExtents(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(5, "fill")), "fill")
	d := e.malloc(32)
	freed := e.malloc(32)
	e.ok(e.th.Free(freed))
	for _, c := range []struct {
		name string
		addr acl.Addr
		n    uint32
		ok   bool
		text string
	}{
		{"inside", d, 64, true, ""},
		{"nothing", 0, 0, true, ""},
		{"behind", d, 65, false, "up to 1 byte past the end of the allocation (64 bytes"},
		{"freed", freed, 8, false, "freed"},
		{"nowhere", 0x1000, 8, false, "not in an allocation"},
	} {
		s := e.stream()
		args := fillArgs(1, c.addr, c.n)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 24, nil, 0))
		got := e.th.SynchronizeStream(s)
		if (got == 0) != c.ok || got != 0 && got != acl.ACL_ERROR_RT_AICORE_EXCEPTION {
			t.Errorf("%s: %v", c.name, got)
		}
		if !c.ok {
			e.message("kernel fill", "argument 1 (out)", "written", fmt.Sprintf("%#x", c.addr), c.text)
		}
		e.ok(e.th.DestroyStream(s))
	}
}

func TestUnknownKernels(t *testing.T) {
	e := newEnv(t, Options{})
	bin := e.load(testBinary(5, "mystery"))
	f := e.function(bin, "mystery")
	args := fillArgs(1, e.malloc(8), 8)
	for range 3 {
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, 0, nil, addr(&args[0]), 24, nil, 0))
	}
	e.ok(e.th.SynchronizeStream(0))
	if n := e.sim.Unknowns.Launches.All()["mystery"]; n != 3 {
		t.Errorf("%d unknown launches", n)
	}
	if l := e.log.String(); strings.Count(l, "mystery") != 1 {
		t.Errorf("warnings: %q", l)
	}
	array := []acl.Addr{addr(&args[0])}
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.LaunchKernelWithArgsArray(uint64(f), 1, 0, nil, &array[0]))
	e.ok(e.th.Finalize())
	if l := e.log.String(); !strings.Contains(l, "3 launches of 1 kernel without") {
		t.Errorf("warnings: %q", l)
	}
}

// Argument lists.
func TestArgLists(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	bin := e.load(testBinary(5, "load", "fill", "mystery"))
	load, fill := e.function(bin, "load"), e.function(bin, "fill")
	const no = acl.ACL_ERROR_RT_PARAM_INVALID
	out := e.malloc(8)
	value := uint64(77)

	var l acl.ArgsHandle
	var ph, p, extra acl.ParamHandle
	var buf acl.Addr
	e.ok(e.th.KernelArgsInit(load, &l))
	e.ok(e.th.KernelArgsAppendPlaceHolder(l, &ph))
	e.want(no, e.th.KernelArgsAppend(l, addr(&out), 4, &p)) // the kernel takes 8 bytes there
	e.ok(e.th.KernelArgsAppend(l, addr(&value), 8, &p))
	e.want(no, e.th.KernelArgsAppend(l, addr(&value), 8, &extra)) // it has two parameters
	e.want(no, e.th.KernelArgsFinalize(l))                        // the placeholder has no buffer
	e.want(no, e.th.KernelArgsGetPlaceHolderBuffer(l, p, 8, &buf))
	e.want(no, e.th.KernelArgsGetPlaceHolderBuffer(l, ph, 1<<20, &buf))
	e.ok(e.th.KernelArgsGetPlaceHolderBuffer(l, ph, 8, &buf))
	e.want(no, e.th.LaunchKernelWithConfig(load, 1, 0, nil, l, 0)) // not finalized
	e.ok(e.th.KernelArgsFinalize(l))
	e.ok(e.th.KernelArgsParaUpdate(l, p, addr(&out), 8))
	e.ok(e.th.KernelArgsFinalize(l))
	e.want(no, e.th.KernelArgsParaUpdate(l, p, addr(&out), 4))
	e.want(no, e.th.LaunchKernelWithConfig(fill, 1, 0, nil, l, 0)) // another kernel's
	for i := range uint64(3) {
		binary.LittleEndian.PutUint64(space.Bytes(buf, 8), 100+i)
		e.ok(e.th.LaunchKernelWithConfig(load, 1, 0, nil, l, 0))
		e.ok(e.th.SynchronizeStream(0))
		if got := binary.LittleEndian.Uint64(space.Bytes(out, 8)); got != 100+i {
			t.Errorf("launch %d stored %d", i, got)
		}
	}

	// A kernel without a known layout: each parameter at its natural alignment.
	var m acl.ArgsHandle
	e.ok(e.th.KernelArgsInit(e.function(bin, "mystery"), &m))
	e.ok(e.th.KernelArgsAppend(m, addr(&value), 1, &p))
	e.ok(e.th.KernelArgsAppend(m, addr(&value), 4, &p))
	e.ok(e.th.KernelArgsAppend(m, addr(&value), 8, &p))
	list, err := e.th.argList(m)
	e.ok(err)
	if p := list.Params; p[0].Offset != 0 || p[1].Offset != 4 || p[2].Offset != 8 {
		t.Errorf("offsets %d %d %d", p[0].Offset, p[1].Offset, p[2].Offset)
	}
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.KernelArgsParaUpdate(m, ph, addr(&value), 8)) // of another list

	// The thread's oldest list ends.
	for range kernel.KeptLists {
		e.ok(e.th.KernelArgsInit(load, &m))
	}
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.KernelArgsFinalize(l))
}

// 8 threads with 32 streams each run as many increments as they launch.
func TestManyStreams(t *testing.T) {
	const threads, streams, rounds = 8, 32, 20
	count := &device.Kernel{
		Name: "count", Args: []device.Arg{{Name: "counter", Kind: device.ArgInout, Size: 8}},
		Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
			return append(to, space.Extent{Addr: binary.LittleEndian.Uint64(l.Args), Size: 8, Access: space.Read | space.Write, Arg: 0})
		},
		Run: func(l *device.Launch) { *(*uint64)(space.Pointer(binary.LittleEndian.Uint64(l.Args)))++ },
	}
	e := newEnv(t, Options{Kernels: kernelMap{"count": count}, Model: preset(t, "instant")})
	f := e.function(e.load(testBinary(5, "count")), "count")
	var wg sync.WaitGroup
	for range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			th := e.sim.NewThread()
			defer th.End()
			check := func(err acl.Error) {
				if err != 0 {
					t.Errorf("%v: %s", err, th.message)
				}
			}
			check(th.SetDevice(0))
			var ss [streams]acl.Stream
			var ds [streams]acl.Addr
			for i := range ss {
				check(th.CreateStream(&ss[i]))
				check(th.Malloc(&ds[i], 8, 0))
				check(th.MemsetAsync(ds[i], 8, 0, 8, ss[i]))
			}
			var ev acl.Event
			check(th.CreateEvent(&ev))
			for r := range rounds {
				for i := range ss {
					args := make([]byte, 8)
					binary.LittleEndian.PutUint64(args, ds[i])
					check(th.LaunchKernelWithHostArgs(f, 1, ss[i], nil, addr(&args[0]), 8, nil, 0))
					runtime.KeepAlive(args)
				}
				check(th.RecordEvent(ev, ss[r%streams]))
				check(th.StreamWaitEvent(ss[(r+1)%streams], ev))
			}
			var h acl.Addr
			check(th.MallocHost(&h, 8))
			for i := range ss {
				check(th.SynchronizeStream(ss[i]))
				check(th.Memcpy(h, 8, ds[i], 8, acl.ACL_MEMCPY_DEVICE_TO_HOST))
				if n := *(*uint64)(space.Pointer(h)); n != rounds {
					t.Errorf("stream %d counted %d of %d", i, n, rounds)
				}
				check(th.DestroyStream(ss[i]))
				check(th.Free(ds[i]))
			}
			check(th.ResetDevice(0))
		}()
	}
	wg.Wait()
}
