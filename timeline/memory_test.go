package timeline_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// Properties of physical memory that are cut short name no place.
func TestShortPropertiesOfMemory(t *testing.T) {
	const out, prop = 0x7ffe0000, 0x7ffe0100
	for m, create := range map[*api.Model]string{acl.Model: "aclrtMallocPhysical", cuda.Model: "cuMemCreate"} {
		place := testtrace.Words(1, 1|1<<32, 1, 0)
		for n := range len(place) + 1 {
			s := &testtrace.Sequence{Builder: testtrace.NewOf(t, m)}
			s.Then(create, testtrace.A(out, 4096, prop, 0), testtrace.Outs("handle", 0x31), testtrace.Reads("prop", 0, place[:n]))
			if tl := s.Load(); len(tl.Objects) != 1 || tl.Objects[0].Size != 4096 {
				t.Errorf("%s with %d bytes: %d objects", m.Name, n, len(tl.Objects))
			}
		}
	}
}

// Memory that a program allocates without an address was counted only while it was mapped, and once for each mapping.
func TestPhysicalMemory(t *testing.T) {
	const unit, out, prop = 2 << 20, 0x7ffe0000, 0x7ffe0100
	type names struct{ reserve, create, maps, unmap, retain, free, share string }
	for _, c := range []struct {
		m      *api.Model
		f      names
		places [2][]byte // properties: on device 1, and on the host
	}{
		{acl.Model, names{"aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem", "aclrtUnmapMem", "aclrtMemRetainAllocationHandle", "aclrtFreePhysical", "aclrtMemImportFromShareableHandle"},
			[2][]byte{testtrace.Words(0, 1<<32, 1, 0), testtrace.Words(0, 0, 0, 0)}},
		{cuda.Model, names{"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRetainAllocationHandle", "cuMemRelease", "cuMemImportFromShareableHandle"},
			[2][]byte{testtrace.Words(1, 1|1<<32, 0, 0), testtrace.Words(1, 2, 0, 0)}},
	} {
		s := &testtrace.Sequence{Builder: testtrace.NewOf(t, c.m)}
		is := c.m.Lookup
		s.Then(c.f.reserve, testtrace.A(out, 8*unit, 0, 0, 0), testtrace.Outs(is(c.f.reserve).Params[0].Name, devA))
		create := func(handle uint64, place []byte) {
			s.Then(c.f.create, testtrace.A(out, unit, prop, 0), testtrace.Outs("handle", handle), testtrace.Reads("prop", 0, place))
		}
		unmap := func(addr uint64) { s.Then(c.f.unmap, []uint64{addr, unit}[:is(c.f.unmap).Words]) }
		free := func(handle uint64) { s.Then(c.f.free, testtrace.A(handle)) }
		create(0x31, c.places[0])
		create(0x32, c.places[0])
		create(0x33, c.places[1])
		s.Then(c.f.maps, testtrace.A(devA, unit, 0, 0x31, 0))
		s.Then(c.f.maps, testtrace.A(devA+unit, unit, 0, 0x31, 0)) // the same memory once more
		unmap(devA)
		free(0x31) // still mapped
		free(0x32) // never mapped
		s.Then(c.f.retain, retained(is(c.f.retain), devA+unit, out), testtrace.Outs("handle", 0x34))
		unmap(devA + unit) // the new handle keeps the memory
		free(0x34)
		create(0x35, c.places[0])
		s.Then(c.f.maps, testtrace.A(devA, unit, 0, 0x35, 0))
		s.Then(c.f.retain, retained(is(c.f.retain), devA, out), testtrace.Outs("handle", 0x35)) // counted by the runtime
		unmap(devA)
		free(0x35)
		free(0x35)
		shared := make([]uint64, is(c.f.share).Words)
		shared[is(c.f.share).Param("handle")] = out
		s.Then(c.f.share, shared, testtrace.Outs("handle", 0x36))
		s.Then(c.f.maps, testtrace.A(devA, unit, 0, 0x36, 0)) // of another process
		tl := s.Load()
		var got []uint64
		w := timeline.NewWalk(tl.Reader, c.m, nil)
		if err := w.Run(&timeline.Visitor{Memory: func(p *timeline.MemoryPoint) error {
			if p.Device != 1 || p.Object.Kind != api.Physical || p.Bytes != p.Total {
				t.Errorf("%s: %+v of %+v", c.m.Name, p, p.Object)
			}
			got = append(got, p.Call.Index, p.Total/unit)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		if want := []uint64{1, 1, 2, 2, 8, 1, 11, 0, 12, 1, 17, 0}; !slices.Equal(got, want) || w.PeakDevice != 2*unit {
			t.Errorf("%s: %d, want %d; peak %d", c.m.Name, got, want, w.PeakDevice)
		}
	}
}

// retained returns the arguments of the call for the handle of the memory at an address.
func retained(f *api.Func, addr, out uint64) []uint64 {
	args := []uint64{addr, addr}
	args[f.Param("handle")] = out
	return args
}
