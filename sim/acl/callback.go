package acl

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// Caller calls functions of the program, which take up to four words and return one or nothing.
type Caller interface {
	// Call calls a function on the thread that the caller is on.
	Call(fn uint64, args ...uint64) uint64
	// CallAside calls a function on a thread of the runtime's and returns when the function has.
	CallAside(fn uint64, args ...uint64)
}

// maxSubscribers is the number of threads that may process reports.
const maxSubscribers = 1024

// service is what a thread of the program subscribes for: to run the callbacks of streams, in aclrtProcessReport, or their host functions,
// in aclrtProcessHostFunc.
type service int

const (
	callbacks service = iota
	hostFunctions
	services
)

// subscriber is a thread of the program that runs functions which streams call.
type subscriber struct {
	id      uint64
	dev     *device.Device
	streams int // under the lock of the list of subscribers

	mu    sync.Mutex
	queue []callback
	wake  chan struct{} // holds a token while there may be something to do
	gone  bool
}

// subscriptions are the threads that run functions of the program, by id.
type subscriptions struct {
	mu      sync.Mutex
	threads [services]map[uint64]*subscriber
}

type callback struct {
	fn, arg uint64
	done    chan struct{} // closed when the function has returned, or never will be called
}

func callbackOf(fn, arg uint64) callback { return callback{fn: fn, arg: arg} }

// finish lets the stream go on behind the callback.
func (c callback) finish(m *Sim) {
	close(c.done)
	m.Clock.Changed()
}

// add hands a callback to the thread.
func (s *subscriber) add(c callback) {
	s.mu.Lock()
	gone := s.gone
	if !gone {
		s.queue = append(s.queue, c)
	}
	s.mu.Unlock()
	if gone {
		close(c.done)
		return
	}
	s.nudge()
}

// call hands a function to the thread, and returns the wait until it has run.
func (s *subscriber) call(fn, arg uint64) *device.Waiting {
	c := callback{fn, arg, make(chan struct{})}
	s.add(c)
	return &device.Waiting{Met: func() (bool, <-chan struct{}) { return device.IsClosed(c.done), c.done }}
}

func (s *subscriber) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the oldest callback.
func (s *subscriber) take() (c callback, ok, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return callback{}, false, s.gone
	}
	c, s.queue = s.queue[0], s.queue[1:]
	if len(s.queue) > 0 {
		s.nudge()
	}
	return c, true, false
}

// end lets those go on who wait for callbacks that will never be called.
func (s *subscriber) end() {
	s.mu.Lock()
	queue := s.queue
	s.queue, s.gone = nil, true
	s.mu.Unlock()
	for _, c := range queue {
		close(c.done)
	}
	s.nudge()
}

// LaunchHostFunc calls a function of the program in the order of a stream, which waits for it. It runs on the thread that subscribed for
// the stream's host functions, or else on a thread of the runtime's.
func (t *Thread) LaunchHostFunc(on acl.Stream, fn, args acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	caller := t.sim.opts.Caller
	switch {
	case fn == 0:
		return t.absent("fn")
	case caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no program whose function could be called")
	}
	if mutant.Breaks("function_on_another_thread") {
		caller.Call(fn, args)
		return acl.ACL_SUCCESS
	}
	return t.submit(s, device.Task{Kind: device.TaskHost, Run: hostTime, Begin: func(s *device.Stream) *device.Waiting {
		if mutant.Breaks("function_in_order") {
			go caller.CallAside(fn, args)
			return nil
		}
		if sub := subscriberOf(s, hostFunctions); sub != nil && !mutant.Breaks("function_on_the_subscribed_thread") {
			t.sim.Strict.HostBegins(&s.Strict)
			return sub.call(fn, args)
		}
		return &device.Waiting{Block: func(<-chan struct{}, <-chan time.Time) (bool, *fail.Failure) {
			t.sim.Strict.HostBegins(&s.Strict)
			caller.CallAside(fn, args)
			return true, nil
		}}
	}})
}

// hostTime is a task that the host has done while the stream waited.
func hostTime(s *device.Stream) (time.Duration, *fail.Failure) {
	s.Context.Device.Machine.Strict.HostReturns(&s.Strict)
	if m := s.Context.Device.Machine; m.Options.Virtual {
		return time.Duration(m.Model.Host.Function), nil
	}
	return 0, nil
}

// SubscribeReport lets a thread of the program run the callbacks of a stream.
func (t *Thread) SubscribeReport(threadId uint64, on acl.Stream) acl.Error {
	return t.subscribe(callbacks, threadId, on)
}

// UnSubscribeReport ends what SubscribeReport began. Callbacks that were not called yet never are.
func (t *Thread) UnSubscribeReport(threadId uint64, on acl.Stream) acl.Error {
	return t.unsubscribe(callbacks, threadId, on)
}

// SubscribeHostFunc lets a thread of the program run the host functions of a stream.
func (t *Thread) SubscribeHostFunc(hostFuncThreadId uint64, exeStream acl.Stream) acl.Error {
	return t.subscribe(hostFunctions, hostFuncThreadId, exeStream)
}

// UnSubscribeHostFunc ends what SubscribeHostFunc began. Host functions that the thread was to run and has not begun never run.
func (t *Thread) UnSubscribeHostFunc(hostFuncThreadId uint64, exeStream acl.Stream) acl.Error {
	return t.unsubscribe(hostFunctions, hostFuncThreadId, exeStream)
}

func (t *Thread) subscribe(what service, threadId uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	m := t.sim
	m.subscriptions.mu.Lock()
	defer m.subscriptions.mu.Unlock()
	if was := subscriberOf(s, what); was != nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed by thread %#x already", s.ID, was.id)
	}
	sub := m.subscriptions.threads[what][threadId]
	switch {
	case sub == nil && len(m.subscriptions.threads[what]) == maxSubscribers:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "%d threads process reports already", maxSubscribers)
	case sub == nil:
		sub = &subscriber{id: threadId, dev: s.Context.Device, wake: make(chan struct{}, 1)}
		m.subscriptions.threads[what][threadId] = sub
	case sub.dev != s.Context.Device:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %#x processes the reports of device %d, the stream is on %d", threadId, sub.dev.ID, s.Context.Device.ID)
	}
	sub.streams++
	setSubscriber(s, what, sub)
	return acl.ACL_SUCCESS
}

func (t *Thread) unsubscribe(what service, threadId uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch sub := subscriberOf(s, what); {
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is not subscribed", s.ID)
	case sub.id != threadId:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "stream %d is subscribed by thread %#x, not by %#x", s.ID, sub.id, threadId)
	}
	t.sim.unsubscribe(s, what)
	return acl.ACL_SUCCESS
}

// subscriber returns the thread that runs the stream's functions of a kind, nil for none.
func subscriberOf(s *device.Stream, what service) *subscriber {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return attached(s).subscribers[what]
}

func setSubscriber(s *device.Stream, what service, r *subscriber) {
	s.Mu.Lock()
	attached(s).subscribers[what] = r
	s.Mu.Unlock()
}

// unsubscribe takes the stream from its thread; the last stream takes the thread from the list.
func (m *Sim) unsubscribe(s *device.Stream, what service) {
	m.subscriptions.mu.Lock()
	defer m.subscriptions.mu.Unlock()
	sub := subscriberOf(s, what)
	if sub == nil {
		return
	}
	setSubscriber(s, what, nil)
	if sub.streams--; sub.streams == 0 {
		delete(m.subscriptions.threads[what], sub.id)
		sub.end()
	}
}

// LaunchCallback calls a function of the program in the order of a stream, on the thread that subscribed for it.
func (t *Thread) LaunchCallback(fn, userData acl.Addr, blockType acl.CallbackBlockType, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	sub := subscriberOf(s, callbacks)
	switch {
	case fn == 0:
		return t.absent("fn")
	case blockType != acl.ACL_CALLBACK_NO_BLOCK && blockType != acl.ACL_CALLBACK_BLOCK:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "block type %d is unknown", blockType)
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread has subscribed for the callbacks of stream %d", s.ID)
	}
	return t.submit(s, device.Task{Kind: device.TaskHost, Run: hostTime, Begin: func(s *device.Stream) *device.Waiting {
		if mutant.Breaks("callback_on_the_subscribed_thread") {
			t.sim.opts.Caller.CallAside(fn, userData)
			return nil
		}
		t.sim.Strict.HostBegins(&s.Strict)
		w := sub.call(fn, userData)
		if blockType != acl.ACL_CALLBACK_BLOCK {
			return nil
		}
		return w
	}})
}

// ProcessReport runs the next callback of the streams that the thread subscribed for, and waits for one so many
// milliseconds at most.
func (t *Thread) ProcessReport(timeout int32) acl.Error { return t.process(callbacks, timeout) }

// ProcessHostFunc runs the next host function of the streams that the thread subscribed for, and waits for one so many milliseconds at
// most.
func (t *Thread) ProcessHostFunc(timeout int32) acl.Error { return t.process(hostFunctions, timeout) }

func (t *Thread) process(what service, timeout int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if timeout == 0 || timeout < -1 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout %d: -1 is for ever, else milliseconds above 0", timeout)
	}
	m := t.sim
	m.subscriptions.mu.Lock()
	sub := m.subscriptions.threads[what][t.id]
	m.subscriptions.mu.Unlock()
	if sub == nil {
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %#x has subscribed for no stream", t.id)
	}
	limit := device.Forever
	if timeout > 0 {
		limit = time.Duration(timeout) * time.Millisecond
	}
	for {
		c, ok, gone := sub.take()
		switch {
		case gone:
			return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "the subscription of thread %#x has ended", t.id)
		case ok && m.opts.Caller == nil:
			c.finish(m)
			return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no program whose function could be called")
		case ok:
			m.opts.Caller.Call(c.fn, c.arg)
			c.finish(m)
			return acl.ACL_SUCCESS
		}
		if !m.Clock.Wait(&t.HostThread, sub.wake, limit) {
			return t.fail(acl.ACL_ERROR_RT_REPORT_TIMEOUT, "nothing came to run within %d ms", timeout)
		}
	}
}
