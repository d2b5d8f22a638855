package acl

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
)

// calls is a program with Go functions.
type calls struct {
	mu    sync.Mutex
	fns   map[uint64]func(args ...uint64) uint64
	aside atomic.Int32
}

func (c *calls) Call(fn uint64, args ...uint64) uint64 {
	c.mu.Lock()
	f := c.fns[fn]
	c.mu.Unlock()
	return f(args...)
}

func (c *calls) CallAside(fn uint64, args ...uint64) {
	c.aside.Add(1)
	c.Call(fn, args...)
}

// fn registers a function with one argument.
func (c *calls) fn(f func(arg uint64)) acl.Addr {
	return c.add(func(args ...uint64) uint64 {
		f(args[0])
		return 0
	})
}

// add makes a function that the simulator can call.
func (c *calls) add(f func(args ...uint64) uint64) acl.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fns == nil {
		c.fns = map[uint64]func(...uint64) uint64{}
	}
	id := uint64(len(c.fns) + 1)
	c.fns[id] = f
	return id
}

func TestHostFunc(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c})
	s := e.stream()
	release := make(chan struct{})
	var got atomic.Uint64
	e.ok(e.th.LaunchHostFunc(s, c.fn(func(arg uint64) { <-release; got.Store(arg) }), 77))
	var status acl.StreamStatus
	time.Sleep(time.Millisecond)
	e.ok(e.th.StreamQuery(s, &status))
	if status != acl.ACL_STREAM_STATUS_NOT_READY {
		t.Error("the stream does not wait for the function")
	}
	close(release)
	e.ok(e.th.SynchronizeStream(s))
	if got.Load() != 77 || c.aside.Load() != 1 {
		t.Errorf("the function got %d on %d threads of the runtime's", got.Load(), c.aside.Load())
	}
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.LaunchHostFunc(s, 0, 0))
}

func TestBlockingCallbackHoldsTheStream(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c})
	s, other := e.stream(), e.stream()
	const id = 0x7f00dead
	fn := c.fn(func(uint64) {})
	e.want(acl.ACL_ERROR_RT_STREAM_NO_CB_REG, e.th.LaunchCallback(fn, 0, acl.ACL_CALLBACK_BLOCK, s))
	e.want(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, e.th.UnSubscribeReport(id, s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, e.th.ProcessReport(1))
	e.ok(e.th.SubscribeReport(id, s))
	e.ok(e.th.SubscribeReport(id, other))
	e.want(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, e.th.SubscribeReport(id+1, s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, e.th.UnSubscribeReport(id+1, s))

	worker := e.sim.NewThread()
	worker.SetID(id)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, worker.ProcessReport(0))
	e.want(acl.ACL_ERROR_RT_REPORT_TIMEOUT, worker.ProcessReport(1))

	// A blocking callback holds the stream until its thread has run it; the other does not.
	var ran atomic.Uint64
	count := c.fn(func(arg uint64) { ran.Add(arg) })
	e.ok(e.th.LaunchCallback(count, 1, acl.ACL_CALLBACK_NO_BLOCK, other))
	e.ok(e.th.SynchronizeStream(other))
	e.ok(e.th.LaunchCallback(count, 10, acl.ACL_CALLBACK_BLOCK, s))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 5))
	if ran.Load() != 0 {
		t.Error("a callback ran outside aclrtProcessReport")
	}
	e.ok(worker.ProcessReport(-1))
	if ran.Load() != 1 {
		t.Errorf("one report ran callbacks worth %d", ran.Load())
	}
	e.ok(worker.ProcessReport(-1))
	e.ok(e.th.SynchronizeStream(s))
	if ran.Load() != 11 || c.aside.Load() != 0 {
		t.Errorf("callbacks worth %d ran, %d of them elsewhere", ran.Load(), c.aside.Load())
	}

	// The end of the subscription releases the stream and the thread.
	e.ok(e.th.LaunchCallback(count, 100, acl.ACL_CALLBACK_BLOCK, s))
	e.ok(e.th.UnSubscribeReport(id, other))
	e.ok(e.th.UnSubscribeReport(id, s))
	e.ok(e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, worker.ProcessReport(-1))
	if ran.Load() != 11 {
		t.Error("a callback ran after the subscription had ended")
	}
}

// A program that only queries a stream saw it wait for ever in virtual time after the subscription had ended.
func TestQueriesSeeTheEndOfCallbacks(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c, Virtual: true})
	fn := c.fn(func(uint64) {})
	for name, end := range map[string]func(s acl.Stream, worker *Thread){
		"run":          func(_ acl.Stream, worker *Thread) { e.ok(worker.ProcessReport(-1)) },
		"unsubscribed": func(s acl.Stream, _ *Thread) { e.ok(e.th.UnSubscribeReport(5, s)) },
	} {
		s := e.stream()
		e.ok(e.th.SubscribeReport(5, s))
		worker := e.sim.NewThread()
		worker.SetID(5)
		e.ok(e.th.LaunchCallback(fn, 0, acl.ACL_CALLBACK_BLOCK, s))
		ready := func(queries int) bool {
			status := acl.ACL_STREAM_STATUS_NOT_READY
			for ; queries > 0 && status != acl.ACL_STREAM_STATUS_COMPLETE; queries-- {
				e.ok(e.th.StreamQuery(s, &status))
			}
			return status == acl.ACL_STREAM_STATUS_COMPLETE
		}
		if ready(100) {
			t.Fatalf("%s: the stream does not wait for its callback", name)
		}
		if end(s, worker); !ready(10_000) {
			t.Errorf("%s: the stream waits after the end", name)
		}
		e.ok(e.th.DestroyStream(s))
		worker.End()
	}
}

// The end of a stream ends its subscription, and no thread waits forever.
func TestSubscribedStreamEnds(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c})
	s := e.stream()
	e.ok(e.th.SubscribeReport(5, s))
	worker := e.sim.NewThread()
	worker.SetID(5)
	done := make(chan acl.Error)
	go func() { done <- worker.ProcessReport(-1) }()
	e.ok(e.th.DestroyStream(s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, <-done)
}

// Without a subscription they run on a runtime thread.
func TestSubscribedHostFunctions(t *testing.T) {
	c := &calls{}
	e := newEnv(t, Options{Caller: c})
	s := e.stream()
	const id = 0x7f00beef
	var ran atomic.Uint64
	add := c.fn(func(arg uint64) { ran.Add(arg) })
	e.want(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, e.th.UnSubscribeHostFunc(id, s))
	e.ok(e.th.SubscribeHostFunc(id, s))
	e.want(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, e.th.SubscribeHostFunc(id+1, s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, e.th.UnSubscribeHostFunc(id+1, s))
	e.want(acl.ACL_ERROR_RT_STREAM_NO_CB_REG, e.th.LaunchCallback(add, 1, acl.ACL_CALLBACK_BLOCK, s))

	worker := e.sim.NewThread()
	worker.SetID(id)
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, worker.ProcessHostFunc(0))
	e.want(acl.ACL_ERROR_RT_REPORT_TIMEOUT, worker.ProcessHostFunc(1))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, worker.ProcessReport(1))

	e.ok(e.th.LaunchHostFunc(s, add, 1))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 5))
	if ran.Load() != 0 {
		t.Error("a host function ran outside aclrtProcessHostFunc")
	}
	e.ok(worker.ProcessHostFunc(-1))
	e.ok(e.th.SynchronizeStream(s))
	if ran.Load() != 1 || c.aside.Load() != 0 {
		t.Errorf("functions worth %d ran, %d of them on threads of the runtime's", ran.Load(), c.aside.Load())
	}

	// The end of the subscription releases the stream. Later functions run on a runtime thread.
	e.ok(e.th.LaunchHostFunc(s, add, 10))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 5))
	e.ok(e.th.UnSubscribeHostFunc(id, s))
	e.ok(e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, worker.ProcessHostFunc(-1))
	e.ok(e.th.LaunchHostFunc(s, add, 100))
	e.ok(e.th.SynchronizeStream(s))
	if ran.Load() != 101 || c.aside.Load() != 1 {
		t.Errorf("functions worth %d ran, %d of them on threads of the runtime's", ran.Load(), c.aside.Load())
	}
}
