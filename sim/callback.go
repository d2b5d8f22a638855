package sim

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
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
	dev     *npu
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
	m.clock.changed()
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
func (s *subscriber) call(fn, arg uint64) *waiting {
	c := callback{fn, arg, make(chan struct{})}
	s.add(c)
	return &waiting{met: func() (bool, <-chan struct{}) { return isClosed(c.done), c.done }}
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
	if broken("function_on_another_thread") {
		caller.Call(fn, args)
		return acl.ACL_SUCCESS
	}
	return t.submit(s, task{kind: taskHost, run: hostTime, begin: func(s *stream) *waiting {
		if broken("function_in_order") {
			go caller.CallAside(fn, args)
			return nil
		}
		if sub := s.subscriber(hostFunctions); sub != nil && !broken("function_on_the_subscribed_thread") {
			t.sim.strict.HostBegins(&s.strict)
			return sub.call(fn, args)
		}
		return &waiting{block: func(<-chan struct{}, <-chan time.Time) (bool, *failure) {
			t.sim.strict.HostBegins(&s.strict)
			caller.CallAside(fn, args)
			return true, nil
		}}
	}})
}

// hostTime is a task that the host has done while the stream waited.
func hostTime(s *stream) (time.Duration, *failure) {
	s.ctx.dev.sim.strict.HostReturns(&s.strict)
	if m := s.ctx.dev.sim; m.opts.Virtual {
		return time.Duration(m.model.Host.Function), nil
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
	if was := s.subscriber(what); was != nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed by thread %#x already", s.id, was.id)
	}
	sub := m.subscriptions.threads[what][threadId]
	switch {
	case sub == nil && len(m.subscriptions.threads[what]) == maxSubscribers:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "%d threads process reports already", maxSubscribers)
	case sub == nil:
		sub = &subscriber{id: threadId, dev: s.ctx.dev, wake: make(chan struct{}, 1)}
		m.subscriptions.threads[what][threadId] = sub
	case sub.dev != s.ctx.dev:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %#x processes the reports of device %d, the stream is on %d", threadId, sub.dev.id, s.ctx.dev.id)
	}
	sub.streams++
	s.setSubscriber(what, sub)
	return acl.ACL_SUCCESS
}

func (t *Thread) unsubscribe(what service, threadId uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch sub := s.subscriber(what); {
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is not subscribed", s.id)
	case sub.id != threadId:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "stream %d is subscribed by thread %#x, not by %#x", s.id, sub.id, threadId)
	}
	s.unsubscribe(what)
	return acl.ACL_SUCCESS
}

// subscriber returns the thread that runs the stream's functions of a kind, nil for none.
func (s *stream) subscriber(what service) *subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program.subscribers[what]
}

func (s *stream) setSubscriber(what service, r *subscriber) {
	s.mu.Lock()
	s.program.subscribers[what] = r
	s.mu.Unlock()
}

// unsubscribe takes the stream from its thread; the last stream takes the thread from the list.
func (s *stream) unsubscribe(what service) {
	m := s.ctx.dev.sim
	m.subscriptions.mu.Lock()
	defer m.subscriptions.mu.Unlock()
	sub := s.subscriber(what)
	if sub == nil {
		return
	}
	s.setSubscriber(what, nil)
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
	sub := s.subscriber(callbacks)
	switch {
	case fn == 0:
		return t.absent("fn")
	case blockType != acl.ACL_CALLBACK_NO_BLOCK && blockType != acl.ACL_CALLBACK_BLOCK:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "block type %d is unknown", blockType)
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread has subscribed for the callbacks of stream %d", s.id)
	}
	return t.submit(s, task{kind: taskHost, run: hostTime, begin: func(s *stream) *waiting {
		if broken("callback_on_the_subscribed_thread") {
			t.sim.opts.Caller.CallAside(fn, userData)
			return nil
		}
		t.sim.strict.HostBegins(&s.strict)
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
	limit := forever
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
		if !m.clock.wait(t, sub.wake, limit) {
			return t.fail(acl.ACL_ERROR_RT_REPORT_TIMEOUT, "nothing came to run within %d ms", timeout)
		}
	}
}
