package testtrace

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

func le(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func task(stream, id uint64) Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: timeline.TaskParam, Value: stream<<32 | id})
	}
}

// Deep returns a trace with every structure that reports show. report/testdata/deep.txtar has its text form.
func Deep(tb testing.TB) *timeline.Timeline {
	const heap = 0x55550000
	b := New(tb)
	b.Call(0, 1000, 2000, "aclrtSetDevice", A(0))
	b.Call(0, 3000, 4000, "aclrtMalloc", A(0x7ffe0000, 1<<19, 0), Outs("devPtr", DeviceA))
	b.Call(0, 4500, 4600, "aclrtMallocHost", A(0x7ffe0000, 4096), Outs("hostPtr", HostA))
	b.Call(0, 5000, 6000, "aclrtCreateStream", A(0x7ffe0000), Outs("stream", StreamA))
	b.Call(0, 7000, 8000, "aclrtBinaryGetFunction", A(0x6600, 0x10, 0x20), Text("kernelName", "Add<1>"), Outs("funcHandle", Function))
	b.Call(0, 9000, 9500, "aclrtMemcpyAsync", A(DeviceA, 16, HostA, 16, 1, StreamA), Reads("src", 0, le([]uint64{DeviceA + 64, 7})), task(47, 1))
	attrs := slices.Concat(le(uint32(1)), le(uint64(1)), make([]byte, 8), le(uint32(2)), le(uint64(4096)), make([]byte, 8), le(uint32(77)), le([]uint64{0xaa, 0xbb}))
	b.Call(0, 10000, 10500, "aclrtLaunchKernelV2", A(Function, 8, DeviceA, 16, 0x30, StreamA), Reads("cfg", 0, attrs), task(47, 1564<<16|23064))
	b.Call(0, 11000, 11500, "aclrtLaunchKernelWithHostArgs", A(Function, 4, StreamA, 0, 0x40, 80, 0x50, 2), Fails(107017),
		Reads("hostArgs", 0, le(make([]uint64, 10))), Reads("placeHolderArray", 0, le([]uint32{8, 32, 16, 64})))
	b.Call(0, 12000, 12500, "aclrtLaunchKernelWithHostArgs", A(Function, 4, StreamA, 0, 0x40, 80, 0x50, 2),
		Reads("hostArgs", 0, le([]uint64{DeviceA, 1, 2, 3, 4, 5, 6, 7, 8, 9})), Reads("placeHolderArray", 0, le([]uint32{8, 32, 16, 64})))
	b.Call(0, 13000, 13500, "aclrtLaunchKernel", A(Function, 2, DeviceA, 16, StreamA), task(47, 3))
	b.Call(0, 14000, 14700, "aclrtMemcpyBatch", A(1, 2, 3, 4, 3, 0, 0, 0, 0), Reads("dsts", 0, le([]uint64{DeviceA + 0x10000, DeviceA + 0x18000, DeviceA + 0x20000})),
		Reads("srcs", 0, le([]uint64{heap, heap + 64, heap + 128})), Reads("sizes", 0, le([]uint64{32768, 32768, 32768})))
	b.Call(0, 15000, 15900, "aclrtMemcpyAsync", A(heap, 64, DeviceA, 64, 2, StreamA))
	b.Call(0, 16000, 30000, "aclrtSynchronizeStream", A(StreamA))
	b.Call(1, 31000, 31500, "aclrtMalloc", A(0x7ffe0000, 1<<20, 0), Outs("devPtr", DeviceB))
	return b.Load()
}
