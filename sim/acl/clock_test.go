package acl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// timeline runs a single-threaded program in virtual time and returns its timestamps.
func timeline(t *testing.T, seed uint64) string {
	var out strings.Builder
	e := newEnv(t, Options{Virtual: true, Kernels: testKernels(), Model: preset(t, "ascend910b")})
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	r := rand.New(rand.NewPCG(seed, 0))
	streams := []acl.Stream{e.stream(), e.stream(), e.stream(), e.stream()}
	p := e.malloc(1 << 20)
	var events []acl.Event
	for range 300 {
		s := streams[r.IntN(len(streams))]
		switch r.IntN(6) {
		case 0:
			ev := e.event()
			e.ok(e.th.RecordEvent(ev, s))
			events = append(events, ev)
		case 1:
			if len(events) > 0 {
				e.ok(e.th.StreamWaitEvent(s, events[r.IntN(len(events))]))
			}
		case 2:
			e.ok(e.th.MemsetAsync(p, 1<<20, 1, 1+r.Uint64N(1<<20), s))
		case 3:
			var status acl.StreamStatus
			e.ok(e.th.StreamQuery(s, &status))
			fmt.Fprintln(&out, "query", status)
		case 4:
			args := fillArgs(byte(seed), p, 64)
			e.ok(e.th.LaunchKernelWithHostArgs(f, 1+r.Uint32N(60), s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
			runtime.KeepAlive(args)
		case 5:
			if r.IntN(8) == 0 {
				e.ok(e.th.SynchronizeStream(s))
			}
		}
	}
	e.ok(e.th.SynchronizeDevice())
	for _, ev := range events {
		var us uint64
		e.ok(e.th.EventGetTimestamp(ev, &us))
		fmt.Fprintln(&out, us)
	}
	fmt.Fprintln(&out, e.th.Time)
	return out.String()
}

// A program with one thread sees the same times in every run in virtual time, and they pass as fast as this host can go.
func TestVirtualTimeIsRepeatable(t *testing.T) {
	for seed := range uint64(5) {
		a, b := timeline(t, seed), timeline(t, seed)
		if a != b {
			t.Fatalf("seed %d: two runs differ:\n%s\n%s", seed, a, b)
		}
	}
}

// Regression: a wait's own time passed before the device was done, and no time could pass between calls or be
// excluded for a recorder.
func TestVirtualTimeOfCalls(t *testing.T) {
	slow := &device.Kernel{Name: "slow", Duration: func(*device.Launch) time.Duration { return time.Second }}
	m := preset(t, "ascend910b")
	e := newEnv(t, Options{Virtual: true, Kernels: kernelMap{"slow": slow}, Model: m})
	f, s, args := e.function(e.load(testBinary(3, "slow")), "slow"), e.stream(), make([]byte, 8)
	passed := func(call func()) time.Duration {
		before := e.th.Time
		call()
		return e.th.Time - before
	}
	sync := func() { e.ok(e.th.SynchronizeStream(s)) }
	launch := func() { e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0)) }
	var own int32
	e.th.Own(&own)
	for _, c := range []struct {
		name string
		call func()
		own  int32
		want int64
	}{
		{"launch", launch, 0, m.Host.Submit},
		{"wait", sync, 0, m.Launch.Latency + int64(time.Second) + m.Host.Sync},
		{"wait for nothing", sync, 0, m.Host.Sync},
		{"work", func() { e.th.Work(5 * time.Millisecond) }, 1, int64(5 * time.Millisecond)},
		{"a launch of the recorder's", launch, 1, 0},
		{"a wait of the recorder's", sync, 1, m.Launch.Latency + int64(time.Second)},
	} {
		own = c.own
		if d := passed(c.call); d < time.Duration(c.want) || d > time.Duration(c.want+m.Host.Call) {
			t.Errorf("%s: %v, want %v", c.name, d, time.Duration(c.want))
		}
	}
}

// Regression: in real time, the tasks after a wait had the device times of their submission. A kernel of 20 ms after a
// host function of 1 s ended at once.
func TestTimeAfterWaits(t *testing.T) {
	c := &calls{}
	for name, wait := range map[string]func(e *env, s, other acl.Stream) (release func()){
		"host function": func(e *env, s, _ acl.Stream) func() {
			ch := make(chan struct{})
			e.ok(e.th.LaunchHostFunc(s, c.fn(func(uint64) { <-ch }), 0))
			return func() { close(ch) }
		},
		"value": func(e *env, s, other acl.Stream) func() {
			p := e.malloc(64)
			e.ok(e.th.Memset(p, 64, 0, 64))
			e.ok(e.th.ValueWait(p, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, s))
			return func() { e.ok(e.th.ValueWrite(p, 1, 0, other)) }
		},
		"notify": func(e *env, s, other acl.Stream) func() {
			var n acl.Notify
			e.ok(e.th.CreateNotify(&n, 0))
			e.ok(e.th.WaitAndResetNotify(n, s, 0))
			return func() { e.ok(e.th.RecordNotify(n, other)) }
		},
		"counting notify": func(e *env, s, other acl.Stream) func() {
			var n acl.CntNotify
			e.ok(e.th.CntNotifyCreate(&n, 0))
			e.ok(e.th.CntNotifyWaitWithTimeout(n, s, &acl.CntNotifyWaitInfo{Mode: acl.ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, Value: 1}))
			return func() {
				e.ok(e.th.CntNotifyRecord(n, other, &acl.CntNotifyRecordInfo{Mode: acl.ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, Value: 1}))
			}
		},
		"event": func(e *env, s, other acl.Stream) func() {
			release, ev := e.hold(other), e.event()
			e.ok(e.th.RecordEvent(ev, other))
			e.ok(e.th.StreamWaitEvent(s, ev))
			return release
		},
		"graph on another stream": func(e *env, s, other acl.Stream) func() {
			ch := make(chan struct{})
			g := e.capture(s, func() { e.ok(e.th.LaunchHostFunc(s, c.fn(func(uint64) { <-ch }), 0)) })
			e.ok(e.th.MdlRIExecuteAsync(g, other))
			e.ok(e.th.MdlRIExecuteAsync(g, s))
			return func() { close(ch) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			if *inVirtualTime {
				t.Skip("it compares device times with the clock")
			}
			e := newEnv(t, Options{Caller: c})
			s, other, ev := e.stream(), e.stream(), e.event()
			release := wait(e, s, other)
			e.ok(e.th.RecordEvent(ev, s))
			time.Sleep(time.Millisecond)
			released := e.sim.Clock.Now(nil)
			release()
			e.ok(e.th.SynchronizeStream(s))
			var us uint64
			e.ok(e.th.EventGetTimestamp(ev, &us))
			if at := time.Duration(us) * time.Microsecond; at < released.Truncate(time.Microsecond) {
				t.Errorf("the stream continued at %v, and the wait ended after %v", at, released)
			}
		})
	}
}

// Long device work takes no real time, and its virtual time is the modelled one.
func TestVirtualTimeIsTheModels(t *testing.T) {
	slow := &device.Kernel{Name: "slow", Duration: func(*device.Launch) time.Duration { return time.Hour / 4 }}
	e := newEnv(t, Options{Virtual: true, Kernels: kernelMap{"slow": slow}})
	f := e.function(e.load(testBinary(3, "slow")), "slow")
	a, b := e.event(), e.event()
	s, other := e.stream(), e.stream()
	began := time.Now()
	e.ok(e.th.RecordEvent(a, s))
	args := make([]byte, 8)
	for range 4 {
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0))
	}
	e.ok(e.th.RecordEvent(b, s))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 1000))
	var status acl.EventRecordedStatus
	e.ok(e.th.QueryEventStatus(a, &status))
	if status != acl.ACL_EVENT_RECORDED_STATUS_COMPLETE {
		t.Error("the first event is not complete")
	}
	e.ok(e.th.QueryEventStatus(b, &status))
	if status == acl.ACL_EVENT_RECORDED_STATUS_COMPLETE {
		t.Error("the last event is complete at once")
	}
	e.ok(e.th.StreamWaitEvent(other, b))
	e.ok(e.th.SynchronizeStream(other))
	var ms float32
	e.ok(e.th.EventElapsedTime(&ms, a, b))
	if ms < 3600e3 || ms > 3600e3+1 {
		t.Errorf("an hour took %v ms", ms)
	}
	if d := time.Since(began); d > testenv.Patience {
		t.Errorf("it took %v", d)
	}
}

// A polling loop ends, since each query takes time.
func TestVirtualPolling(t *testing.T) {
	e := newEnv(t, Options{Virtual: true, Kernels: testKernels()})
	s, p := e.stream(), e.malloc(1<<20)
	e.ok(e.th.MemsetAsync(p, 1<<20, 1, 1<<20, s))
	for {
		var status acl.StreamStatus
		e.ok(e.th.StreamQuery(s, &status))
		if status == acl.ACL_STREAM_STATUS_COMPLETE {
			break
		}
	}
	// A program may wait for the device in a way that the simulator can't see.
	h := e.pinned(8)
	e.ok(e.th.MemcpyAsync(h, 8, p, 8, acl.ACL_MEMCPY_DEVICE_TO_HOST, s))
	testenv.Wait(t, "a copy where nobody calls", func() bool { return binary.LittleEndian.Uint64(space.Bytes(h, 8)) != 0 })
}

// Kernels on different streams share the device's cores.
func TestVirtualCores(t *testing.T) {
	busy := &device.Kernel{Name: "busy", Duration: func(*device.Launch) time.Duration { return time.Millisecond }}
	m := preset(t, "instant")
	m.Cores.Vector = 4
	e := newEnv(t, Options{Virtual: true, Kernels: kernelMap{"busy": busy}, Model: m})
	f := e.function(e.load(testBinary(3, "busy")), "busy")
	args := make([]byte, 8)
	run := func(blocks uint32) time.Duration {
		var ends []acl.Event
		began := e.th.Time
		for range 2 {
			s, ev := e.stream(), e.event()
			e.ok(e.th.LaunchKernelWithHostArgs(f, blocks, s, nil, addr(&args[0]), 8, nil, 0))
			e.ok(e.th.RecordEvent(ev, s))
			ends = append(ends, ev)
		}
		for _, ev := range ends {
			e.ok(e.th.SynchronizeEvent(ev))
		}
		return (e.th.Time - began).Round(time.Millisecond)
	}
	if d := run(2); d != time.Millisecond {
		t.Errorf("kernels that fit beside each other took %v", d)
	}
	if d := run(3); d != 2*time.Millisecond {
		t.Errorf("kernels that don't took %v", d)
	}
}

// Tasks of a late thread begin when they should have begun, but not before earlier submissions.
func TestLateThread(t *testing.T) {
	if *inVirtualTime {
		t.Skip("threads are late in real time")
	}
	e := newEnv(t, Options{Model: preset(t, "instant")})
	var late int64
	e.th.Late(&late)
	s, a, b, c := e.stream(), e.event(), e.event(), e.event()
	e.ok(e.th.RecordEvent(a, s))
	time.Sleep(2 * time.Millisecond)
	late = int64(time.Hour)
	e.ok(e.th.RecordEvent(b, s))
	late = 0
	e.ok(e.th.RecordEvent(c, s))
	e.ok(e.th.SynchronizeStream(s))
	var ab, bc float32
	e.ok(e.th.EventElapsedTime(&ab, a, b))
	e.ok(e.th.EventElapsedTime(&bc, b, c))
	if ab != 0 || bc < 2 {
		t.Errorf("%v and %v ms between events", ab, bc)
	}
}

// Preemption does not count as work time, unless the work itself has waited.
func TestPreemptionIsNotWorkTime(t *testing.T) {
	before := device.Work{At: 100, Ran: 10, Waits: 1}
	if d := (device.Work{At: 600, Ran: 30, Waits: 1}).Since(before); d != 20 {
		t.Errorf("interrupted work took %d", d)
	}
	if d := (device.Work{At: 600, Ran: 30, Waits: 2}).Since(before); d != 500 {
		t.Errorf("work that slept took %d", d)
	}
}

// An interrupted launch of a brief kernel counts as the previous launch, unless the next one is long too.
func TestBriefKernel(t *testing.T) {
	if *inVirtualTime {
		t.Skip("work is measured in real time")
	}
	var pause time.Duration
	work := &device.Kernel{Name: "work", Run: func(*device.Launch) { time.Sleep(pause) }, Duration: func(*device.Launch) time.Duration { return time.Microsecond }}
	e := newEnv(t, Options{Model: preset(t, "instant"), Kernels: kernelMap{"work": work}})
	f := e.function(e.load(testBinary(3, "work")), "work")
	s, a, b := e.stream(), e.event(), e.event()
	launch := func() (ms float32) {
		args := make([]byte, 8)
		e.ok(e.th.RecordEvent(a, s))
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0))
		e.ok(e.th.RecordEvent(b, s))
		e.ok(e.th.SynchronizeStream(s))
		e.ok(e.th.EventElapsedTime(&ms, a, b))
		runtime.KeepAlive(args)
		return ms
	}
	fn := e.th.sim.functions.Get(uint64(f))
	testenv.Wait(t, "a launch that is brief", func() bool {
		launch()
		took := time.Duration(fn.Took.Load())
		return took > 0 && took < device.Brief
	})
	pause = time.Second
	if ms := launch(); ms >= 1000 {
		t.Errorf("it was interrupted, and took %v ms", ms)
	}
	if ms := launch(); ms < 1000 {
		t.Errorf("it took %v ms, but sleeps each time", ms)
	}
}
