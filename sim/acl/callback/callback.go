package callback

import (
	"sync"

	"github.com/acltrace/acltrace/sim/device"
)

// Caller calls program functions with up to four words. They return one word or nothing.
type Caller interface {
	// Call calls a function on the current thread.
	Call(fn uint64, args ...uint64) uint64
	// CallAside calls a function on a runtime thread and waits for it.
	CallAside(fn uint64, args ...uint64)
}

// MaxSubscribers is the largest number of report threads.
const MaxSubscribers = 1024

// Service is a kind of subscription: stream callbacks (aclrtProcessReport) or host functions (aclrtProcessHostFunc).
type Service int

const (
	Callbacks Service = iota
	HostFunctions
	Services
)

// Subscriber is a program thread that runs functions for streams.
type Subscriber struct {
	ID      uint64
	Device  *device.Device
	Streams int // needs the lock of Subscriptions

	mu    sync.Mutex
	queue []Callback
	Wake  chan struct{} // holds a token if there may be work
	gone  bool
}

// Subscriptions are the subscribed threads, by id.
type Subscriptions struct {
	sync.Mutex
	Threads [Services]map[uint64]*Subscriber
}

type Callback struct {
	Func, Arg uint64
	done      chan struct{} // closed when the function has returned or never will run
}

func New(fn, arg uint64) Callback { return Callback{Func: fn, Arg: arg} }

// Finish lets the stream continue after the callback.
func (c Callback) Finish(m *device.Machine) {
	close(c.done)
	m.Clock.Changed()
}

// add queues a callback.
func (s *Subscriber) add(c Callback) {
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

// Call queues a function and returns the wait for its end.
func (s *Subscriber) Call(fn, arg uint64) *device.Waiting {
	c := Callback{fn, arg, make(chan struct{})}
	s.add(c)
	return &device.Waiting{Met: func() (bool, <-chan struct{}) { return device.IsClosed(c.done), c.done }}
}

func (s *Subscriber) nudge() {
	select {
	case s.Wake <- struct{}{}:
	default:
	}
}

// Take returns the oldest callback.
func (s *Subscriber) Take() (c Callback, ok, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return Callback{}, false, s.gone
	}
	c, s.queue = s.queue[0], s.queue[1:]
	if len(s.queue) > 0 {
		s.nudge()
	}
	return c, true, false
}

// End drops queued callbacks and wakes the streams that wait for them. The caller must report the change to the clock.
func (s *Subscriber) End() {
	s.mu.Lock()
	queue := s.queue
	s.queue, s.gone = nil, true
	s.mu.Unlock()
	for _, c := range queue {
		close(c.done)
	}
	s.nudge()
}
