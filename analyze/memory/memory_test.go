package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
)

func sum(t *testing.T, b *testtrace.Builder) *Memory {
	t.Helper()
	m, err := New(b.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The peak, its parts, and the memory that is never freed are those of a model that keeps every allocation.
func TestSitesSumUpRandomAllocations(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := testtrace.New(t)
		type allocation struct {
			addr, size uint64
			thread     uint32
		}
		var live, atPeak []allocation
		var now, peak uint64
		made := map[uint32]uint64{}
		at, next := int64(100), uint64(0x1240_0000_0000)
		for range 20 + rnd.IntN(200) {
			at += 10
			if len(live) > 0 && rnd.IntN(5) < 2 {
				i := rnd.IntN(len(live))
				b.Call(uint32(rnd.IntN(2)), at, at+5, "aclrtFree", testtrace.A(live[i].addr))
				now -= live[i].size
				live = append(live[:i:i], live[i+1:]...)
				continue
			}
			a := allocation{next, 1 + rnd.Uint64N(1<<20), uint32(rnd.IntN(2))}
			next += 1 << 21
			b.Call(a.thread, at, at+5, "aclrtMalloc", testtrace.A(0x100, a.size, 1), testtrace.Outs("devPtr", a.addr))
			live, now = append(live, a), now+a.size
			made[a.thread]++
			if now > peak {
				peak, atPeak = now, append([]allocation{}, live...)
			}
		}
		m := sum(t, b)
		if m.PeakBytes != peak || m.KeptBytes != now || m.KeptCount != uint64(len(live)) {
			t.Fatalf("seed %d: peak %d, never freed %d in %d; want %d, %d, %d", seed, m.PeakBytes, m.KeptBytes, m.KeptCount, peak, now, len(live))
		}
		type part struct{ bytes, count, kept, made uint64 }
		want, got := map[string]part{}, map[string]part{}
		name := func(thread uint32) string { return fmt.Sprint(thread == 0) }
		for _, a := range atPeak {
			p := want[name(a.thread)]
			p.bytes, p.count = p.bytes+a.size, p.count+1
			want[name(a.thread)] = p
		}
		for _, a := range live {
			p := want[name(a.thread)]
			p.kept += a.size
			want[name(a.thread)] = p
		}
		const first = 4001 // the id of thread 0
		for thread, n := range made {
			p := want[name(thread)]
			p.made = n
			want[name(thread)] = p
		}
		for _, s := range m.Sites {
			p := got[fmt.Sprint(s.TID == first)]
			got[fmt.Sprint(s.TID == first)] = part{p.bytes + s.AtPeakBytes, p.count + s.AtPeakCount, p.kept + s.KeptBytes, p.made + s.Allocations}
			if s.MostBytes < s.AtPeakBytes || s.MostBytes < s.KeptBytes || s.Bytes < s.MostBytes {
				t.Errorf("seed %d: %+v has a part above its whole", seed, s)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: by thread %v, want %v", seed, got, want)
		}
	}
}

// Devices and processes share no memory: peaks, growth and late memory were those of all of them together, and sites had no device.
func TestMemoryIsOfItsDeviceAndProcess(t *testing.T) {
	const mib = 1 << 20
	m, err := New(testtrace.Job(t).Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Growth != nil || m.Grows() != nil || m.LateBytes != 0 || m.Process != 4001 || m.Rank == nil || *m.Rank != 0 || m.Steps != testtrace.JobSteps {
		t.Errorf("%+v", m)
	}
	atPeak := map[string]uint64{}
	for _, s := range m.Sites {
		atPeak[fmt.Sprint(s.Device, s.Process, *s.Rank)] += s.AtPeakBytes
	}
	if want := map[string]uint64{"0 4001 0": 8 * mib, "1 5001 1": (9 + testtrace.JobSteps) * mib}; fmt.Sprint(atPeak) != fmt.Sprint(want) {
		t.Errorf("at the peak %v, want %v", atPeak, want)
	}
	// The second device had more before the first one reached its peak, when both together had most.
	b := testtrace.New(t)
	at := int64(1_000)
	call := func(name string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, at, at+10, name, args, mods...)
		at += 100
	}
	malloc := func(addr, size uint64) {
		call("aclrtMalloc", testtrace.A(0x7ffe0000, size, 0), testtrace.Outs("devPtr", addr))
	}
	call("aclrtSetDevice", testtrace.A(1))
	malloc(testtrace.DeviceA, 3*mib)
	call("aclrtFree", testtrace.A(testtrace.DeviceA))
	malloc(testtrace.DeviceA, mib)
	call("aclrtSetDevice", testtrace.A(0))
	malloc(testtrace.DeviceB, 8*mib)
	got := map[int]uint64{}
	for _, s := range sum(t, b).Sites {
		got[s.Device] += s.AtPeakBytes
	}
	if fmt.Sprint(got) != fmt.Sprint(map[int]uint64{0: 8 * mib, 1: 3 * mib}) {
		t.Errorf("at the peak by device: %v", got)
	}
}

// leaking is a program of so many steps. Each allocates 3 MiB for its own time, keeps some bytes, and the program frees a cache at its end.
func leaking(t *testing.T, steps int, kept uint64) *testtrace.Builder {
	b := testtrace.New(t)
	at, next := int64(1000), uint64(0x1240_0000_0000)
	malloc := func(size uint64) (addr uint64) {
		at, addr, next = at+1000, next, next+1<<29
		b.Call(0, at, at+500, "aclrtMalloc", testtrace.A(0x100, size, 1), testtrace.Outs("devPtr", addr))
		return addr
	}
	free := func(addr uint64) { at += 1000; b.Call(0, at, at+500, "aclrtFree", testtrace.A(addr)) }
	b.Call(0, 500, 600, "aclrtCreateStream", testtrace.A(0x100), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 700, 800, "aclrtBinaryGetFunction", testtrace.A(0x6600, 1, 1), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", testtrace.Function))
	cache := malloc(5 << 20)
	for range steps {
		own := malloc(3 << 20)
		if kept > 0 {
			malloc(kept)
		}
		for range 8 {
			at += 1000
			b.Call(0, at, at+500, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, cache, 64, testtrace.StreamA))
		}
		at += 1000
		b.Call(0, at, at+50_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		at += 50_000
		free(own)
	}
	at += 1_000_000
	free(malloc(64 << 20)) // made and freed after the steps
	free(cache)
	return b
}

// The site that leaks is named within 20 steps, whether it keeps 1 KiB or 240 MiB a step. Memory that the program frees at its end is no leak.
func TestTheSiteThatLeaksGrows(t *testing.T) {
	for _, kept := range []uint64{1 << 10, 240 << 20} {
		m := sum(t, leaking(t, 20, kept))
		s := m.Grows()
		if s == nil || s.KeptCount != 20 || s.KeptBytes != 20*kept || s.Growth.PerStep < 0.9*float64(kept) || s.Growth.PerStep > 1.1*float64(kept) {
			t.Errorf("%d B a step: %+v grows", kept, s)
		}
		if m.Growth == nil || m.Steps < 19 {
			t.Errorf("%d B a step: all memory grows by %+v in %d steps", kept, m.Growth, m.Steps)
		}
		if m.LateBytes < 5<<20 || m.LateBytes > 8<<20 || m.KeptBytes != 20*kept {
			t.Errorf("%d B a step: %d B freed late, %d B never freed", kept, m.LateBytes, m.KeptBytes)
		}
	}
	m := sum(t, leaking(t, 20, 0))
	if m.Grows() != nil || m.Growth != nil || m.KeptBytes != 0 {
		t.Errorf("without a leak: %+v", m)
	}
}

// The number of sites is bounded. Further ones are summed up, and the sums stay whole.
func TestFurtherSitesAreSummedUp(t *testing.T) {
	b := testtrace.New(t)
	const threads = maxSites + 100
	for i := range uint64(threads) {
		at := int64(1000 + 10*i)
		b.Call(b.Thread(int(10_000+i)), at, at+5, "aclrtMalloc", testtrace.A(0x100, 4096, 1), testtrace.Outs("devPtr", 0x1240_0000_0000+i<<12))
	}
	m := sum(t, b)
	n, bytes := uint64(0), uint64(0)
	for _, s := range m.Sites {
		n, bytes = n+s.KeptCount, bytes+s.AtPeakBytes
	}
	if len(m.Sites) != maxSites+1 || n != threads || bytes != threads*4096 || m.KeptCount != threads {
		t.Errorf("%d sites with %d allocations, %d B at the peak", len(m.Sites), n, bytes)
	}
}

// The memory of two devices was one sum, as if one of them held all.
func TestEachDeviceHasItsMost(t *testing.T) {
	b := testtrace.New(t)
	at := int64(1_000)
	call := func(fn string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, at, at+10, fn, args, mods...)
		at += 100
	}
	for device := range uint64(2) {
		call("aclrtSetDevice", testtrace.A(device))
		for i := range 2 - device {
			call("aclrtMalloc", testtrace.A(0x100, 1<<20, 1), testtrace.Outs("devPtr", 0x1240_0000_0000+device<<32+i<<21))
		}
	}
	m := sum(t, b)
	if m.PeakBytes != 3<<20 || len(m.Devices) != 2 || m.Devices[0].PeakBytes != 2<<20 || m.Devices[1].PeakBytes != 1<<20 || m.Devices[1].Device != 1 {
		t.Errorf("%+v", m)
	}
}

// The allocations of one thread are those of its stacks. A site has the innermost frames.
func TestSitesAreStacks(t *testing.T) {
	deep := make([]uint64, maxFrames+5)
	for i := range deep {
		deep[i] = 0x1000 + uint64(i)
	}
	s := testtrace.NewSequence(t)
	at := uint64(testtrace.DeviceA)
	malloc := func(size uint64, stack testtrace.Mod) {
		s.Then("aclrtMalloc", testtrace.A(0x100, size, 1), testtrace.Outs("devPtr", at), stack)
		at += 1 << 24
	}
	malloc(3<<20, testtrace.Stack(1, 0x500, 0x600))
	malloc(1<<20, testtrace.Stack(2, deep...))
	malloc(4<<20, testtrace.Stack(1))
	m, err := New(s.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Stacks || len(m.Sites) != 2 {
		t.Fatalf("%+v", m)
	}
	if a := m.Sites[0]; a.Bytes != 7<<20 || a.Allocations != 2 || !slices.Equal(a.Stack, []string{"0x500", "0x600"}) {
		t.Errorf("%+v", a)
	}
	if b := m.Sites[1]; b.Bytes != 1<<20 || len(b.Stack) != maxFrames || b.Stack[0] != "0x1000" {
		t.Errorf("%+v", b)
	}
}
