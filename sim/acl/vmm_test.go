package acl

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

func deviceProp() *acl.PhysicalMemProp {
	p := &acl.PhysicalMemProp{}
	p.Location.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE
	p.MemAttr = acl.ACL_HBM_MEM_HUGE
	return p
}

// resident is how much memory the process has, in bytes.
func resident(t *testing.T) uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	n, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * space.PageSize
}

// A reservation at a fixed address was refused. Memory fabrics ask for one address in all processes.
func TestReservationAtAnAddress(t *testing.T) {
	e := newEnv(t, Options{})
	const unit, at = memory.Granularity, acl.Addr(0x2a0040000000)
	var va, other acl.Addr
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ReserveMemAddress(&va, 1<<30, 0, at+unit, 1))
	e.message("expectPtr", "multiple of 1 GiB")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ReserveMemAddress(&va, 1<<30, 1<<30, at, 1))
	for range 2 {
		e.ok(e.th.ReserveMemAddress(&va, 3<<30, 0, at, 1))
		if va != at {
			t.Fatalf("reserved %#x", va)
		}
		for _, taken := range []acl.Addr{at, at + 2<<30, at - 1<<30} {
			e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.ReserveMemAddress(&other, 2<<30, 0, taken, 0))
			e.message("not free")
		}
		e.ok(e.th.ReserveMemAddress(&other, 1<<30, 0, at+3<<30, 0)) // its neighbour
		var h acl.DrvMemHandle
		e.ok(e.th.MallocPhysical(&h, unit, deviceProp(), 0))
		e.ok(e.th.MapMem(va+unit, unit, 0, h, 0))
		e.ok(e.th.Memset(va+unit, unit, 0x5a, unit))
		e.ok(e.th.UnmapMem(va + unit))
		e.ok(e.th.FreePhysical(h))
		e.ok(e.th.ReleaseMemAddress(other))
		e.ok(e.th.ReleaseMemAddress(va))
	}
	var own acl.Addr
	e.ok(e.th.Malloc(&own, 64, 0))
	for _, wild := range []acl.Addr{own &^ (1<<30 - 1), own&^(1<<30-1) + 1<<36, 1 << 63, ^acl.Addr(1<<30 - 1)} {
		e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.ReserveMemAddress(&va, 1<<30, 0, wild, 0))
	}
}

// Physical memory keeps its bytes in a new mapping, and adjacent mappings are one range.
func TestVirtualMemory(t *testing.T) {
	e := newEnv(t, Options{Memory: 64 << 20})
	const unit = memory.Granularity
	var va acl.Addr
	before := resident(t)
	e.ok(e.th.ReserveMemAddress(&va, 60<<30, 0, 0, 0))
	if grown := resident(t) - before; grown > 10<<20 && grown < 1<<63 {
		t.Errorf("a reservation costs %d bytes", grown)
	}
	e.want(acl.ACL_ERROR_INVALID_PARAM, e.th.ReserveMemAddress(&va, 0, 0, 0, 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(va, unit, 1, unit))
	e.message("nothing is mapped")

	var n uint64
	e.ok(e.th.MemGetAllocationGranularity(deviceProp(), acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &n))
	if n != unit {
		t.Fatalf("the granularity is %d", n)
	}
	var h [2]acl.DrvMemHandle
	for i := range h {
		e.ok(e.th.MallocPhysical(&h[i], unit, deviceProp(), 0))
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MallocPhysical(&h[0], unit+1, deviceProp(), 0))
	var big acl.DrvMemHandle
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.MallocPhysical(&big, 64<<20, deviceProp(), 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MapMem(va, unit, 8, h[0], 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MapMem(va, unit/2, 0, h[0], 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MapMem(va+4096, unit, 0, h[0], 0))
	e.ok(e.th.MapMem(va, unit, 0, h[0], 0))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MapMem(va, unit, 0, h[1], 0))
	e.ok(e.th.MapMem(va+unit, unit, 0, h[1], 0))
	e.ok(e.th.Memset(va+unit-64, 128, 0x5a, 128))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(va, 3*unit, 1, 2*unit+1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(va))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ReleaseMemAddress(va))

	e.ok(e.th.UnmapMem(va))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(va, 64, 1, 64))
	e.message("freed")
	e.ok(e.th.MapMem(va+16*unit, unit, 0, h[0], 0))
	host := e.pageable(64)
	e.ok(e.th.Memcpy(host, 64, va+17*unit-64, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	if !bytes.Equal(space.Bytes(host, 64), bytes.Repeat([]byte{0x5a}, 64)) {
		t.Error("physical memory lost its bytes")
	}

	// Access.
	desc := &acl.MemAccessDesc{}
	desc.Location.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE
	desc.Flags = 1
	e.ok(e.th.MemSetAccess(va+unit, unit, desc, 1))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(va+unit, unit, 1, 64))
	e.message("may not be written")
	e.ok(e.th.Memcpy(host, 64, va+unit, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	var flag uint64
	e.ok(e.th.MemGetAccess(va+unit, &desc.Location, &flag))
	if flag != 1 {
		t.Errorf("the access is %d", flag)
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemSetAccess(va+unit, 2*unit, desc, 1))

	// Handles: the mapping lives on without one, and gives one back.
	e.ok(e.th.FreePhysical(h[1]))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.FreePhysical(h[1]))
	e.ok(e.th.Memcpy(host, 64, va+unit, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
	var again acl.DrvMemHandle
	e.ok(e.th.MemRetainAllocationHandle(va+unit+5, &again))
	var prop acl.PhysicalMemProp
	e.ok(e.th.MemGetAllocationPropertiesFromHandle(again, &prop))
	if prop != *deviceProp() {
		t.Errorf("the properties are %v", prop)
	}
	var free, total uint64
	e.ok(e.th.UnmapMem(va + unit))
	e.ok(e.th.UnmapMem(va + 16*unit))
	e.ok(e.th.FreePhysical(again))
	e.ok(e.th.FreePhysical(h[0]))
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &free, &total))
	if free != total {
		t.Errorf("%d bytes are still in use", total-free)
	}
	e.ok(e.th.ReleaseMemAddress(va))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ReleaseMemAddress(va))
}

func TestMemPool(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	props := &acl.MemPoolProps{MaxSize: 1024}
	props.Location.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE
	var p acl.MemPool
	e.ok(e.th.MemPoolCreate(&p, props))
	var a, b acl.Addr
	e.ok(e.th.MemPoolMallocAsync(&a, 1000, p, s))
	e.want(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, e.th.MemPoolMallocAsync(&b, 64, p, s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Free(a))
	release := e.hold(s)
	e.ok(e.th.MemsetAsync(a, 1000, 1, 1000, s))
	e.ok(e.th.MemPoolFreeAsync(a, s))
	e.ok(e.th.Memset(a, 8, 1, 8)) // the free has not run
	release()
	e.ok(e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.Memset(a, 8, 1, 8))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.MemPoolFreeAsync(a, s))
	var used, high uint64
	e.ok(e.th.MemPoolGetAttr(p, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, addr(&used)))
	e.ok(e.th.MemPoolGetAttr(p, acl.ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, addr(&high)))
	if used != 0 || high != 1024 {
		t.Errorf("%d bytes are used, %d at most", used, high)
	}
	e.ok(e.th.MemPoolDestroy(p))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.MemPoolMallocAsync(&b, 64, p, s))
}

// Files of physical memory are closed with the simulator, mapped or not.
func TestClosedFiles(t *testing.T) {
	files := func() int {
		f, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc to count files in")
		}
		return len(f)
	}
	before := files()
	e := newEnv(t, Options{})
	var va acl.Addr
	e.ok(e.th.ReserveMemAddress(&va, 4*memory.Granularity, 0, 0, 0))
	for i := range uint64(3) {
		var h acl.DrvMemHandle
		e.ok(e.th.MallocPhysical(&h, memory.Granularity, deviceProp(), 0))
		if i > 0 {
			e.ok(e.th.MapMem(va+i*memory.Granularity, memory.Granularity, 0, h, 0))
		}
		if i > 1 {
			e.ok(e.th.FreePhysical(h))
		}
	}
	e.sim.Close()
	if n := files(); n != before {
		t.Errorf("%d files are open, %d were before", n, before)
	}
}

// The query needed a selected device. ggml queries first, and then did not use mapped memory.
func TestGranularityNeedsNoSelectedDevice(t *testing.T) {
	e := newEnv(t, Options{})
	th := e.sim.NewThread()
	var n uint64
	e.ok(th.MemGetAllocationGranularity(deviceProp(), acl.ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &n))
	if n != memory.Granularity {
		t.Errorf("the granularity is %d", n)
	}
	var h acl.DrvMemHandle
	e.want(acl.ACL_ERROR_RT_CONTEXT_NULL, th.MallocPhysical(&h, n, deviceProp(), 0))
}
