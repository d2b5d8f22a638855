package testtrace

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Rich returns the trace that golden files of exporters show. It has each kind of task, measured and not, on streams of two devices and two
// processes, and a graph. It has enumerations and negative numbers. Some calls failed, repeat, are truncated or never returned. It has ranges,
// steps, stacks, memory and gaps.
func Rich(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	const heap, out, lib, program = 0x55550000, 0x7ffe0000, 0x7f2000000000, 0x400000
	b := New(tb)
	b.Meta(func(m *format.Meta) {
		m.Device, m.EndNS = format.Device{Name: "Ascend910B3", DriverVersion: "25.2.0"}, 60_000
	})
	five := 5
	b.Process(0, format.Process{PID: 4001, Exe: "/opt/app/train", Argv: []string{"/opt/app/train", "--steps", "2"}, Rank: 1, Resource: map[string]string{"container.id": "c0ffee"},
		Devices: []format.ProcessDevice{{Number: 0, UUID: "0f0e0d0c-0b0a-0908-0706-050403020100", PCI: "0000:db:00.0", MemoryBytes: 64 << 20}, {Number: 1, HostNumber: &five}},
		Maps:    []format.Mapping{{Start: program, End: program + 0x2000, Offset: 0x1000, Path: "/opt/app/train", BuildID: "c0de"}, {Start: lib, End: lib + 0x1000, Path: "/opt/app/libnn.so"}}})
	measured := func(from, to uint64) Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: from}, format.Out{Param: api.TaskEndParam, Value: to})
		}
	}
	returns := func(v uint64) Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }
	truncated := func(_ *api.Func, c *format.Call) { c.Flags |= format.Truncated }
	stack := func(hash uint64, pcs ...uint64) Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.StackParam, Value: hash})
			if len(pcs) > 0 {
				c.Data = append(c.Data, format.Data{Param: api.StackParam, Len: uint64(8 * len(pcs)), Bytes: Words(pcs...), Time: c.Start})
			}
		}
	}
	// Objects and memory.
	b.Call(0, 100, 200, "aclrtSetDevice", A(0))
	b.Call(0, 300, 400, "aclrtMalloc", A(out, 1<<20, 1), Outs("devPtr", DeviceA), stack(0xabc, program+0x124, lib+0x40, 0x123456))
	b.Call(0, 450, 490, "aclrtMallocHost", A(out, 1<<16), Outs("hostPtr", HostA))
	b.Call(0, 500, 600, "aclrtCreateStream", A(out), Outs("stream", StreamA))
	b.Call(0, 610, 640, "aclrtCreateStreamWithConfig", A(out, 7, 3), Outs("stream", StreamB))
	b.Call(0, 650, 690, "aclrtCreateEvent", A(out), Outs("event", Event))
	b.Call(0, 700, 740, "aclrtCreateBinary", A(heap, 3000), returns(0xb1))
	b.Call(0, 750, 800, "aclrtBinaryGetFunction", A(0x6600, out, out), Text("kernelName", "Add \"é\"\n\xff"), Outs("funcHandle", Function))
	b.Call(0, 810, 850, "aclrtBinaryGetFunction", A(0x6600, out, out), Text("kernelName", "mlp"), Outs("funcHandle", Function+1))
	b.Call(0, 860, 890, "mstxDomainCreateA", A(heap), Text("name", "io"), returns(0xd0))
	b.Call(1, 900, 950, "aclrtSetDevice", A(1))
	b.Call(1, 960, 990, "aclrtMalloc", A(out, 1<<10, 99), Outs("devPtr", DeviceB))
	// Steps that the program marks.
	for i := range uint64(3) {
		at := 1_000 + int64(i)*1_000
		b.Call(0, at, at+10, "mstxRangeStartA", A(heap, 0), Text("message", "step "+string(rune('0'+i))), returns(10+i))
		b.Call(0, at+20, at+60, "aclrtMemcpyAsync", A(DeviceA, 4096, HostA, 4096, 1, StreamA), measured(uint64(at)+40, uint64(at)+240), task(47, 100+i))
		b.Call(0, at+100, at+140, "aclrtLaunchKernel", A(Function, 8+i, DeviceA, 64, StreamA), measured(uint64(at)+300, uint64(at)+700+50*i), stack(0xabc))
		b.Call(0, at+150, at+880, "aclrtSynchronizeStream", A(StreamA))
		b.Call(0, at+890, at+900, "mstxRangeEnd", A(10+i))
	}
	// A failed launch that is repeated, and one whose clock is ahead.
	b.Call(0, 4_000, 4_050, "aclrtLaunchKernel", A(Function, 4, DeviceA, 64, StreamB), Fails(107017), truncated)
	b.Call(0, 4_060, 4_100, "aclrtLaunchKernel", A(Function, 4, DeviceA, 64, StreamB), stack(0xdef))
	b.Call(0, 4_110, 4_150, "aclrtLaunchKernel", A(Function+1, 0, DeviceA, 64, StreamA), measured(4_105, 4_300))
	// Copies and fills.
	b.Call(0, 4_200, 4_260, "aclrtMemcpyAsync", A(heap, 64, DeviceA, 64, 2, StreamB))
	b.Call(0, 4_270, 4_390, "aclrtMemcpy", A(HostA, 512, DeviceA, 512, 2))
	b.Call(0, 4_400, 4_440, "aclrtMemsetAsync", A(DeviceA, 4096, 0xffffffff, 1024, StreamB))
	b.Call(0, 4_450, 4_490, "aclrtReduceAsync", A(DeviceA, DeviceA+512, 256, 10, 0, StreamB, 0))
	b.Call(0, 4_500, 4_560, "aclrtMemcpyBatch", A(1, 2, 3, 2, 3, 0, 0, 0, 0), Reads("dsts", 0, Words(DeviceA, DeviceA+64)), Reads("srcs", 0, Words(heap, heap+64)),
		Reads("sizes", 0, Words(32, 48)))
	// Events, host functions and system tasks.
	b.Call(0, 4_600, 4_640, "aclrtRecordEvent", A(Event, StreamB))
	b.Call(0, 4_650, 4_690, "aclrtStreamWaitEventWithTimeout", A(StreamA, Event, 1<<32-1))
	b.Call(0, 4_700, 4_740, "aclrtResetEvent", A(Event, StreamA))
	b.Call(0, 4_750, 4_790, "aclrtLaunchHostFunc", A(StreamA, 0x1234, heap))
	b.Call(0, 4_800, 4_840, "aclrtActiveStream", A(StreamB, StreamA))
	b.Call(0, 4_850, 14_900, "aclrtSynchronizeStreamWithTimeout", A(StreamA, 1<<32-1))
	// A graph.
	b.Call(0, 15_000, 15_010, "aclmdlRICaptureBegin", A(StreamA, 1))
	b.Call(0, 15_020, 15_030, "aclrtLaunchKernel", A(Function, 1, DeviceA, 0, StreamA))
	b.Call(0, 15_040, 15_050, "aclrtLaunchKernel", A(Function+1, 1, DeviceA, 0, StreamA))
	b.Call(0, 15_060, 15_070, "aclmdlRICaptureEnd", A(StreamA, out), Outs("modelRI", 0x9000))
	b.Call(0, 15_100, 15_150, "aclmdlRIExecuteAsync", A(0x9000, StreamA))
	b.Call(0, 15_200, 15_900, "aclrtSynchronizeStream", A(StreamA))
	// Ranges: across threads, in a domain on a stream, a mark, one without an end.
	b.Call(0, 16_000, 16_010, "mstxRangeStartA", A(heap, 0), Text("message", "across"), returns(20))
	b.Call(0, 16_020, 16_030, "mstxDomainRangeStartA", A(0xd0, heap, StreamB), Text("message", "load 7"), returns(21))
	b.Call(0, 16_040, 16_050, "mstxMarkA", A(heap, 0), Text("message", "here"))
	b.Call(0, 16_100, 16_110, "mstxDomainRangeEnd", A(0xd0, 21))
	b.Call(1, 16_200, 16_210, "mstxRangeEnd", A(20))
	b.Call(1, 16_300, 16_310, "mstxRangeStartA", A(heap, 0), Text("message", ""), returns(22))
	// Another process, its default stream, lost calls, and the end.
	b.Call(2, 17_000, 17_100, "aclrtSetDevice", A(0))
	b.Call(2, 17_200, 17_300, "aclrtMemcpyAsync", A(heap, 1<<20, heap+1<<20, 1<<20, 0, 0), truncated)
	b.Call(2, 17_400, 17_500, "aclrtSynchronizeDevice", nil, Fails(507015))
	b.Gap(format.Gap{Thread: 1, From: 20_000, To: 21_500, Calls: 17, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: format.NoThread, From: 22_000, To: 22_800, Reason: format.RecorderLost})
	b.Gap(format.Gap{Thread: 2, From: 23_000, To: 24_000, Calls: 5, Reason: format.Detached})
	b.Call(0, 30_000, 30_100, "aclrtFree", A(DeviceA))
	b.Call(1, 31_000, 31_040, "aclrtLaunchKernel", A(Function, 65535, DeviceB, 8, 0))
	b.Call(0, 32_000, 32_007, "aclrtSynchronizeStream", A(StreamB), Hangs)
	return b.Load()
}
