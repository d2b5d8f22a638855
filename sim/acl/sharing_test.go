package acl

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
)

// fourCores returns a model with 1 ms kernels and four vector cores.
func fourCores(t *testing.T) *model.Model {
	m := *preset(t, "instant")
	m.Cores.Vector = 4
	m.Kernels = []model.Kernel{{Name: "*", Duration: int64(time.Millisecond)}}
	return &m
}

// Kernels on two streams that need all cores alternate, with either clock.
func TestStreamsShareCores(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual, Model: fourCores(t), Kernels: testKernels()})
		a, b := e.stream(), e.stream()
		begin, end := e.event(), e.event()
		f := e.function(e.load(testBinary(11, "fill")), "fill")
		p := e.malloc(64)
		args := fillArgs(1, p, 64)
		release := e.hold(a)
		e.ok(e.th.RecordEvent(begin, a))
		e.ok(e.th.StreamWaitEvent(b, begin))
		const n = 10
		for range n {
			for _, s := range []acl.Stream{a, b} {
				e.ok(e.th.LaunchKernelWithHostArgs(f, 4, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
			}
		}
		e.ok(e.th.RecordEvent(end, b))
		e.ok(e.th.StreamWaitEvent(a, end))
		e.ok(e.th.RecordEvent(end, a))
		release()
		e.ok(e.th.SynchronizeDevice())
		var ms float32
		e.ok(e.th.EventElapsedTime(&ms, begin, end))
		if ms < 2*n-0.01 {
			t.Errorf("virtual %t: %d kernels of 1 ms on all cores take %.3f ms", virtual, 2*n, ms)
		}
		e.sim.Close()
	}
}
