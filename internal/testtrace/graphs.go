package testtrace

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Graphs returns a trace with 40 steps: runs of graphs for four sizes, ten times each. A graph launches kernel attention as often as layers says, and mlp
// once. An eager launch of attention before each capture takes 100 ns on the device.
func Graphs(tb testing.TB, layers int) *timeline.Timeline {
	tb.Helper()
	b := New(tb)
	b.Call(0, 100, 200, "aclrtSetDevice", A(0))
	b.Call(0, 300, 400, "aclrtCreateStream", A(0x7ffe0000), Outs("stream", StreamA))
	for i, name := range []string{"attention", "mlp"} {
		b.Call(0, 500+int64(i)*100, 550+int64(i)*100, "aclrtBinaryGetFunction", A(0x6600, 0x10, 0x20), Text("kernelName", name), Outs("funcHandle", Function+uint64(i)))
	}
	at := int64(1_000)
	launch := func(i uint64, mods ...Mod) {
		b.Call(0, at, at+10, "aclrtLaunchKernel", A(Function+i, 1, DeviceA, 0, StreamA), mods...)
		at += 20
	}
	for g := range uint64(4) {
		from, to := uint64(at), uint64(at+100)
		launch(0, func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: from}, format.Out{Param: api.TaskEndParam, Value: to})
		})
		b.Call(0, at, at+10, "aclmdlRICaptureBegin", A(StreamA, 1))
		at += 20
		for range layers {
			launch(0)
		}
		launch(1)
		b.Call(0, at, at+10, "aclmdlRICaptureEnd", A(StreamA, 0x7ffe0000), Outs("modelRI", 0x9000+g))
		at += 20
	}
	for i := range uint64(40) {
		b.Call(0, at, at+10, "aclmdlRIExecuteAsync", A(0x9000+i%4, StreamA))
		b.Call(0, at+20, at+1_000, "aclrtSynchronizeStream", A(StreamA))
		at += 1_100
	}
	return b.Load()
}
