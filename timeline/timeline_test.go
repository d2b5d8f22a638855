package timeline_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

const (
	devA = 0x124000000000
	devB = 0x124000100000
	host = 0x7f0000001000
	strA = 0x5501
	strB = 0x5502
	fn   = 0x6601
	ev   = 0x7701
)

func wantUses(t *testing.T, s *sequence, want ...string) {
	t.Helper()
	if got := s.uses(); !slices.Equal(got, want) {
		t.Errorf("calls name\n%q, want\n%q", got, want)
	}
}

func TestHandleUsedAgain(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	s.Then("aclrtDestroyStream", testtrace.A(strA))
	s.Stream(strA) // another stream with the same handle
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	s.Stream(strA) // another one again, without an end of the last
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	wantUses(t, s, "stream#1", "stream#1", "stream#1", "stream#2", "stream#2", "stream#3", "stream#3")
}

// TestFunctionOfBinaryThatIsGone checks that a function ends with its binary, and a function in a context with its kernel. A function that is
// found later by the same handle is a new object.
func TestFunctionOfBinaryThatIsGone(t *testing.T) {
	s := newSequence(t)
	load := func() {
		s.Then("aclrtBinaryLoadFromData", testtrace.A(0x7ffe0100, 64, 0, 0x7ffe0010), testtrace.Outs("binHandle", 0x6600))
	}
	load()
	s.function(0x77, "add")
	s.function(0x77, "add")
	s.Then("aclrtBinaryUnLoad", testtrace.A(0x6600))
	load()
	s.function(0x77, "add")
	wantUses(t, s, "binary#1", "binary#1 function#2(add)", "binary#1 function#2(add)", "binary#1", "binary#3", "binary#3 function#4(add)")
}

// TestHandleUsedAgainAtOnce ends an object while another thread waits for a new one with the same handle or addresses. Until the new one is
// returned, the ending thread means its own object.
func TestHandleUsedAgainAtOnce(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 0x100)
	at := int64(100)
	other := func(name string, args ...uint64) {
		at += 10
		s.Call(1, at, at+5, name, testtrace.A(args...))
	}
	other("aclrtSynchronizeStream", strA)
	other("aclrtDestroyStream", strA)
	other("aclrtMemset", devA+0x80, 16, 0, 16)
	other("aclrtFree", devA)
	s.Call(0, 100, 200, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", strA))
	s.Now = 300
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	wantUses(t, s, "stream#1", "device#2", "stream#3", "stream#1", "stream#1", "device#2+0x80", "device#2", "stream#3")

	s = newSequence(t)
	s.Malloc(devA, 0x100)
	at = 100
	other("aclrtMemset", devA+0x80, 16, 0, 16)
	other("aclrtMemset", devA+0x180, 16, 0, 16) // the new allocation: the other thread runs after the call
	other("aclrtFree", devA)
	other("aclrtMemset", devA+0x80, 16, 0, 16)
	s.Call(0, 100, 200, "aclrtMalloc", testtrace.A(0x7ffe0000, 0x200, 0), testtrace.Outs("devPtr", devA+0x40))
	s.Now = 300
	s.Then("aclrtMemset", testtrace.A(devA+0x80, 16, 0, 16))
	wantUses(t, s, "device#1", "device#2", "device#1+0x80", "device#2+0x140", "device#1", "device#2+0x40", "device#2+0x40")

	// Another thread gets the same address and frees it while the first one waits for it.
	s = newSequence(t)
	during := func(at int64, name string, args []uint64, mods ...testtrace.Mod) {
		s.Call(1, at, at+5, name, args, mods...)
	}
	during(110, "aclrtMalloc", testtrace.A(0x7ffe0000, 0x40, 0), testtrace.Outs("devPtr", devA))
	during(120, "aclrtMemset", testtrace.A(devA+0x10, 16, 0, 16))
	during(130, "aclrtFree", testtrace.A(devA))
	during(140, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", strA))
	during(150, "aclrtDestroyStream", testtrace.A(strA))
	during(160, "aclrtMalloc", testtrace.A(0x7ffe0000, 0x400, 0), testtrace.Outs("devPtr", devA-0x100))
	during(170, "aclrtMemset", testtrace.A(devA+0x80, 16, 0, 16))
	during(180, "aclrtFree", testtrace.A(devA-0x100))
	s.Call(0, 100, 200, "aclrtMalloc", testtrace.A(0x7ffe0000, 0x100, 0), testtrace.Outs("devPtr", devA))
	s.Now = 300
	s.Then("aclrtMemset", testtrace.A(devA+0x80, 16, 0, 16))
	s.Then("aclrtFree", testtrace.A(devA))
	wantUses(t, s, "device#1", "device#2", "device#2+0x10", "device#2", "stream#3", "stream#3", "device#4", "device#4+0x180", "device#4", "device#1+0x80", "device#1")

	// An object without an ending call ends when the making call has returned.
	s = newSequence(t)
	s.Malloc(devA, 0x100)
	at = 100
	other("aclrtFree", 0xdead000)
	s.Call(0, 100, 200, "aclrtMalloc", testtrace.A(0x7ffe0000, 0x80, 0), testtrace.Outs("devPtr", devA))
	at = 300
	other("aclrtMemset", devA, 16, 0, 16)
	wantUses(t, s, "device#1", "device#2", "", "device#2")
}

func TestNewAndFind(t *testing.T) {
	s := newSequence(t)
	s.function(fn, "Add")
	s.function(fn, "Add") // the same query returns the same function
	s.Then("aclrtGetCurrentContext", testtrace.A(0x7ffe0000), testtrace.Outs("context", 0x11))
	s.Then("aclrtGetCurrentContext", testtrace.A(0x7ffe0000), testtrace.Outs("context", 0x11))
	wantUses(t, s, "binary#1(older) function#2(Add)", "binary#1(older) function#2(Add)", "context#3", "context#3")
}

func TestAddressesNameTheirAllocation(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 0x100)
	set := func(addr uint64) { s.Then("aclrtMemset", testtrace.A(addr, 16, 0, 16)) }
	set(devA)
	set(devA + 0xff)
	set(devA + 0x100) // one past the end
	set(devA - 1)
	s.Malloc(devA+0x100, 0x40)
	set(devA + 0x100)
	s.Then("aclrtFree", testtrace.A(devA))
	set(devA)
	s.Malloc(devA, 0x80)
	set(devA + 0x7f)
	set(devA + 0x80)
	s.Then("aclrtFree", testtrace.A(0xdead000)) // an unknown address is not an object
	wantUses(t, s, "device#1", "device#1", "device#1+0xff", "", "", "device#2", "device#2", "device#1", "", "device#3", "device#3+0x7f", "", "")
}

func TestFindEnd(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 0x100)
	s.events(func(st *timeline.State, e *timeline.Event) {
		for _, c := range []struct {
			addr     uint64
			off      uint64
			find, at bool
		}{{devA, 0, true, true}, {devA + 0xff, 0xff, true, true}, {devA + 0x100, 0x100, false, true}, {devA + 0x101, 0, false, false}, {devA - 1, 0, false, false}, {0, 0, false, false}} {
			if _, off, ok := st.Find(0, c.addr); ok != c.find || ok && off != c.off {
				t.Errorf("Find(%#x) = %#x, %v", c.addr, off, ok)
			}
			if _, off, ok := st.FindEnd(0, c.addr); ok != c.at || ok && off != c.off {
				t.Errorf("FindEnd(%#x) = %#x, %v", c.addr, off, ok)
			}
		}
		if live := st.Live(0); len(live) != 1 || live[0].Size != 0x100 {
			t.Errorf("live: %v", live)
		}
		if len(st.Live(1)) != 0 {
			t.Error("the other process has allocations")
		}
	})
}

func TestFailedAndUnfinishedCalls(t *testing.T) {
	s := newSequence(t)
	s.Then("aclrtMalloc", testtrace.A(0x7ffe0000, 64, 0), testtrace.Outs("devPtr", devA), testtrace.Fails(207001))
	s.Then("aclrtMemset", testtrace.A(devA, 16, 0, 16))
	s.Malloc(devA, 64)
	s.Then("aclrtFree", testtrace.A(devA), testtrace.Fails(107000))
	s.Then("aclrtMemset", testtrace.A(devA, 16, 0, 16)) // still alive
	s.Stream(strA)
	s.Then("aclrtDestroyStream", testtrace.A(strA), testtrace.Hangs)
	wantUses(t, s, "", "", "device#1", "device#1", "device#1", "stream#2", "stream#2")
	s = newSequence(t)
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, strA), testtrace.Fails(107017))
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, strA), testtrace.Hangs)
	if tl := s.Load(); len(tl.Tasks) != 0 || !tl.Calls[0].Failed() || tl.Calls[1].Failed() {
		t.Errorf("tasks %v, calls %+v", tl.Tasks, tl.Calls)
	}
}

func TestTwoProcesses(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 0x100)
	s.Stream(strA)
	s.on(2).Malloc(devA, 0x10)
	s.Stream(strA)
	s.Then("aclrtMemsetAsync", testtrace.A(devA+0x80, 16, 0, 16, strA)) // after the end of this allocation
	s.on(0).Then("aclrtMemsetAsync", testtrace.A(devA+0x80, 16, 0, 16, strA))
	wantUses(t, s, "device#1", "stream#2", "device#3", "stream#4", "stream#4", "device#1+0x80 stream#2")
}

func TestOlderThanTheTraceAndUnknown(t *testing.T) {
	s := newSequence(t)
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	s.Then("aclrtSynchronizeStream", testtrace.A(0))
	tl := s.Load()
	_ = tl
	st := timeline.NewState(tl.Model)
	var first *timeline.Object
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		e := st.Apply(0, c)
		switch c.Index {
		case 0:
			first = e.Stream
			if first == nil || first.Created != timeline.NoCall {
				t.Errorf("stream %+v, want one older than the trace", first)
			}
		case 1:
			if e.Stream != first {
				t.Error("the handle stands for two streams")
			}
		case 2:
			if e.Stream != nil {
				t.Error("null is a stream object")
			}
		}
	}
	// A function that the model lacks, and a call with other words than the model has.
	for _, c := range []*format.Call{{Func: 60000, Args: []uint64{1, 2}}, {Func: uint16(tl.Model.Lookup("aclrtFree").ID), Args: []uint64{1, 2}}} {
		if e := st.Apply(0, c); len(e.Uses) != 0 || e.Kernel != "" {
			t.Errorf("%+v", e)
		}
	}
	e := st.Apply(0, &format.Call{Func: 60000, Args: []uint64{1, 0xabc}, Ret: 0x10})
	if a := e.Args(nil, tl.Model); len(a) != 2 || a[1].Name != "word1" || a[1].Text() != "0xabc" || a[1].Value() != "0xabc" || string(e.AppendResult(nil, tl.Model)) != "0x10" {
		t.Errorf("%+v %s", a, e.AppendResult(nil, tl.Model))
	}
}

// brackets lists the tasks as "lane kind from-to", with a question mark if the end is unknown.
func brackets(tl *timeline.Timeline) []string {
	var out []string
	for _, k := range tl.Tasks {
		open := ""
		if k.Open {
			open = "?"
		}
		out = append(out, fmt.Sprintf("%s: %s %d-%d%s", tl.Lanes[k.Lane].Name, k.Name, k.From, k.To, open))
	}
	return out
}

func wantBrackets(t *testing.T, s *sequence, want ...string) {
	t.Helper()
	if got := brackets(s.Load()); !slices.Equal(got, want) {
		t.Errorf("tasks\n%q, want\n%q", got, want)
	}
}

func (s *sequence) launch(stream uint64, mods ...testtrace.Mod) {
	s.t.Helper()
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, stream), mods...)
}

func TestSynchronizationsBracketTasks(t *testing.T) {
	begin := func(t *testing.T) *sequence {
		s := newSequence(t)
		s.Stream(strA)
		s.Stream(strB)
		s.Then("aclrtCreateEvent", testtrace.A(0), testtrace.Outs("event", ev)) // ends at 70
		return s
	}
	const a, b = "stream 1: function 0x6601 ", "stream 2: function 0x6601 "
	t.Run("stream", func(t *testing.T) {
		s := begin(t)
		s.launch(strA) // 80
		s.launch(strB) // 100
		s.Then("aclrtSynchronizeStream", testtrace.A(strA))
		s.launch(strA) // 140
		wantBrackets(t, s, a+"80-130", b+"100-150?", a+"140-150?")
	})
	t.Run("device", func(t *testing.T) {
		s := begin(t)
		s.launch(strA)
		s.launch(0)
		s.on(2).launch(strA)
		s.on(0).Then("aclrtSynchronizeDevice", nil) // 140
		wantBrackets(t, s, a+"80-150", "default stream: function 0x6601 100-150", a+"120-150?")
	})
	t.Run("failed synchronization", func(t *testing.T) {
		s := begin(t)
		s.launch(strA)
		s.Then("aclrtSynchronizeStream", testtrace.A(strA), testtrace.Fails(507046))
		wantBrackets(t, s, a+"80-110?")
	})
	t.Run("event", func(t *testing.T) {
		s := begin(t)
		s.launch(strA)                                    // 80
		s.Then("aclrtRecordEvent", testtrace.A(ev, strA)) // 100
		s.launch(strA)                                    // 120
		s.Then("aclrtSynchronizeEvent", testtrace.A(ev))  // 140
		wantBrackets(t, s, a+"80-150", "stream 1: record 100-150", a+"120-150?")
	})
	t.Run("poll", func(t *testing.T) {
		s := begin(t)
		s.launch(strA)                                                                   // 80
		s.Then("aclrtStreamQuery", testtrace.A(strA, 0), testtrace.Outs("status", 1))    // not ready
		s.Then("aclrtStreamQuery", testtrace.A(strA, 0), testtrace.Outs("status", 0))    // 120
		s.launch(strB)                                                                   // 140
		s.Then("aclrtRecordEvent", testtrace.A(ev, strB))                                // 160
		s.Then("aclrtQueryEventStatus", testtrace.A(ev, 0), testtrace.Outs("status", 0)) // 180: not ready
		s.Then("aclrtQueryEventStatus", testtrace.A(ev, 0), testtrace.Outs("status", 1)) // 200
		wantBrackets(t, s, a+"80-130", b+"140-210", "stream 2: record 160-210")
	})
	t.Run("destroyed", func(t *testing.T) {
		s := begin(t)
		s.launch(strA)
		s.Then("aclrtDestroyStream", testtrace.A(strA)) // 100
		s.Stream(strA)                                  // the same handle
		s.launch(strA)                                  // 140
		wantBrackets(t, s, a+"80-110", "stream 2: function 0x6601 140-150?")
	})
	t.Run("two devices", func(t *testing.T) {
		s := newSequence(t)
		s.Then("aclrtSetDevice", testtrace.A(0))
		s.launch(0) // 40
		s.on(1).Then("aclrtSetDevice", testtrace.A(1))
		s.launch(0) // 80
		s.Then("aclrtSynchronizeDevice", nil)
		tl := s.Load()
		if got, want := brackets(tl), []string{"default stream: function 0x6601 40-110?", "default stream of device 1: function 0x6601 80-110"}; !slices.Equal(got, want) {
			t.Errorf("tasks %q, want %q", got, want)
		}
		if tl.Lanes[0].Device != 0 || tl.Lanes[1].Device != 1 || tl.Lanes[1].Waited != 10 || tl.Lanes[0].Waited != 0 {
			t.Errorf("lanes %+v", tl.Lanes)
		}
	})
}

func TestCopiesAreNamedByDirection(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 0x1000)
	s.Then("aclrtMallocHost", testtrace.A(0, 0x1000), testtrace.Outs("hostPtr", host))
	copies := []struct {
		dst, src uint64
		name     string
		pageable bool
	}{{devA, host, "copy HtoD", false}, {devA, 0x7e00, "copy HtoD", true}, {0x7e00, devA + 8, "copy DtoH", true}, {devA, devA + 64, "copy DtoD", false},
		{host, host + 64, "copy HtoH", false}, {devB, host, "copy HtoD", false}} // devB is older than the trace
	for _, c := range copies {
		s.Then("aclrtMemcpyAsync", testtrace.A(c.dst, 64, c.src, 32, 4, 0))
	}
	s.Then("aclrtMemcpy", testtrace.A(devA, 64, 0x7e00, 32, 1)) // waits anyway
	s.Then("aclrtMemcpyBatch", testtrace.A(0x10, 0x20, 0x30, 0x40, 2, 0, 0, 0, 0), testtrace.Reads("dsts", 0, testtrace.Words(devA, devA+64)), testtrace.Reads("srcs", 0, testtrace.Words(0x7e00, 0x7f00)), testtrace.Reads("sizes", 0, testtrace.Words(24, 40)))
	s.Then("aclrtMemcpyAsync", testtrace.A(devA, 64, 0x7e00, 0, 1, 0)) // moves nothing
	tl := s.Load()
	for i, c := range copies {
		if k := tl.Tasks[i]; k.Name != c.name || k.Pageable() != c.pageable || k.Bytes != 32 {
			t.Errorf("copy %d: %s, %d bytes, pageable %v; want %s, pageable %v", i, k.Name, k.Bytes, k.Pageable(), c.name, c.pageable)
		}
	}
	if k := tl.Tasks[len(copies)]; k.Pageable() {
		t.Error("a synchronous copy hides no synchronization")
	}
	if k := tl.Tasks[len(copies)+2]; k.Bytes != 0 || k.Pageable() {
		t.Errorf("a copy of nothing: %+v", k)
	}
	if k := tl.Tasks[len(copies)+1]; k.Name != "copy HtoD" || k.Bytes != 64 || tl.Lanes[k.Lane].Name != "synchronous" || k.To != tl.Calls[k.Call].End {
		t.Errorf("batch: %+v", k)
	}
}

// The attributes of a batch were an address, and its sizes their sum.
func TestTextOfBatches(t *testing.T) {
	half := func(low, high uint64) uint64 { return high<<32 | low }
	s := newSequence(t)
	s.Then("aclrtMemcpyBatchAsyncV2", testtrace.A(0x10, 0x20, 0x30, 0x40, 2, 0x50, 0x60, 1, strA), testtrace.Reads("dsts", 0, testtrace.Words(devA, devA+64)),
		testtrace.Reads("destMaxs", 0, testtrace.Words(64, 48)), testtrace.Reads("srcs", 0, testtrace.Words(0x7e00, 0x7f00)), testtrace.Reads("sizes", 0, testtrace.Words(24, 40)),
		testtrace.Reads("attrs", 0, testtrace.Words(half(3, 1), half(7, 0), 0, 0)), testtrace.Reads("attrsIndexes", 0, testtrace.Words(0)))
	s.Then("aclrtMemManagedPrefetchBatchAsync", testtrace.A(0x10, 0x20, 9, 0x30, 0x40, 1, 0, strA), testtrace.Reads("ptrs", 0, testtrace.Words(devA)),
		testtrace.Reads("sizes", 0, testtrace.Words(1, 2, 3, 4, 5, 6, 7, 8, 9)), testtrace.Reads("prefetchLocs", 0, testtrace.Words(half(1, 0))))
	tl := s.Load()
	var got []string
	state := timeline.NewState(tl.Model)
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range state.Apply(0, c).Args(nil, tl.Model) {
			got = append(got, a.Name+"="+a.Text())
		}
	}
	for _, want := range []string{"destMaxs=[2: {64, 48}]", "sizes=[2: {24, 40}]", "attrsIndexes=[1: {0}]", "sizes=[9: {1, 2, 3, 4, 5, 6, 7, 8, …}, 45 in all]",
		"attrs={dstLoc.id=3 dstLoc.type=ACL_MEM_LOCATION_TYPE_DEVICE srcLoc.id=7 srcLoc.type=ACL_MEM_LOCATION_TYPE_HOST}", "prefetchLocs={type=ACL_MEM_LOCATIONTYPE_DEVICE id=0}"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}

func TestPeakSumsAllProcesses(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 100)
	s.Malloc(devB, 50)
	s.Then("aclrtFree", testtrace.A(devA))
	s.Malloc(devA, 60)
	s.on(2).Malloc(devA, 30) // 140 of both processes
	s.Malloc(devB, 20)       // 160
	s.Then("aclrtFree", testtrace.A(devB))
	var at uint64
	w := walk(t, s.Load(), nil, &timeline.Visitor{Memory: func(p *timeline.MemoryPoint) error {
		if p.Total == 160 {
			at = p.Call.Index
		}
		return nil
	}})
	if w.PeakDevice != 160 || at != 5 {
		t.Errorf("peak %d at call %d, want 160 at call 5", w.PeakDevice, at)
	}
}

func TestTaskIDsAndBlocks(t *testing.T) {
	s := newSequence(t)
	s.launch(strA, func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: timeline.TaskParam, Value: 47<<32 | 1564<<16 | 23064})
	})
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 24, devA, 0, strA))
	s.Then("aclrtLaunchSIMTKernelWithHostArgs", testtrace.A(fn, 3|5<<32, 7, 128|1<<32, 1, 0, strA, 0, 0, 0, 0, 0))
	tl := s.Load()
	if k := tl.Tasks[0]; !k.HasID || k.StreamID != 47 || k.TaskID != 1564<<16|23064 || k.Blocks != 1 {
		t.Errorf("%+v", k)
	}
	if k := tl.Tasks[1]; k.HasID || k.Blocks != 24 {
		t.Errorf("%+v", k)
	}
	if k := tl.Tasks[2]; k.Blocks != 3*5*7 {
		t.Errorf("%d blocks, want those of the grid", k.Blocks)
	}
}

func TestRetriesOfOneThreadAndKernel(t *testing.T) {
	s := newSequence(t)
	s.function(fn, "Add")
	s.function(fn+1, "Mul")
	launch := func(f uint64, mods ...testtrace.Mod) {
		s.Then("aclrtLaunchKernel", testtrace.A(f, 1, devA, 0, strA), mods...)
	}
	launch(fn, testtrace.Fails(107017)) // call 2
	s.on(1)
	launch(fn) // on another thread
	s.on(0)
	launch(fn) // call 4
	launch(fn, testtrace.Fails(107017))
	launch(fn + 1) // another kernel
	launch(fn)
	for _, c := range s.Load().Calls {
		want := timeline.HostCall{Retries: timeline.NoCall}
		if c.Index == 4 {
			want = timeline.HostCall{Retries: 2, RetriedCode: 107017}
		}
		if c.Retries != want.Retries || c.RetriedCode != want.RetriedCode {
			t.Errorf("call %d retries %d, error %d", c.Index, c.Retries, c.RetriedCode)
		}
	}
}

// The recorded time of a task is used instead of bounds.
func TestMeasuredTimesReplaceBounds(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 10, 20, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 100, 200, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, testtrace.StreamA), func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: 350}, format.Out{Param: api.TaskEndParam, Value: 900})
	})
	b.Call(0, 300, 1000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	tl := b.Load()
	if k := tl.Tasks[0]; !k.Measured || k.Open || k.From != 350 || k.To != 900 {
		t.Errorf("the task is %+v", k)
	}
	if w := tl.Lanes[tl.Tasks[0].Lane].Waited; w != 700 {
		t.Errorf("the host waited %d ns", w)
	}
	if c := tl.Calls[2]; c.Waits != int32(tl.Tasks[0].Lane) {
		t.Errorf("the synchronization is about lane %d", c.Waits)
	}
}
