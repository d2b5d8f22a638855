package callback

import (
	"fmt"
	"slices"
	"testing"
)

// closed reports whether a wait is over.
func closed(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

// A subscribed thread takes functions in their order. It is woken while there are any, and when the subscription ends.
func TestSubscriberTakesCallsInOrder(t *testing.T) {
	s := &Subscriber{Wake: make(chan struct{}, 1)}
	if c, ok, gone := s.Take(); ok || gone || c.Func != 0 || closed(s.Wake) {
		t.Fatalf("%+v, %v, %v", c, ok, gone)
	}
	first, second, third := s.Call(1, 10), s.Call(2, 20), s.Call(3, 30)
	if !closed(s.Wake) || closed(s.Wake) {
		t.Error("the thread is not woken once")
	}
	c, ok, gone := s.Take()
	if !ok || gone || c.Func != 1 || c.Arg != 10 || !closed(s.Wake) {
		t.Errorf("%+v, %v, %v: the thread is not woken for the rest", c, ok, gone)
	}
	met, wake := first.Met()
	if met || wake == nil || closed(wake) {
		t.Error("a function that was taken has returned")
	}
	close(c.done)
	if met, wake := first.Met(); !met || !closed(wake) {
		t.Error("a stream waits for a function that has returned")
	}
	if met, _ := second.Met(); met {
		t.Error("another function has returned")
	}
	c, _, _ = s.Take()
	if c.Func != 2 || !closed(s.Wake) {
		t.Errorf("%+v", c)
	}
	s.End()
	if met, _ := third.Met(); !met || !closed(s.Wake) {
		t.Error("a stream waits for a function that never runs")
	}
	if met, _ := second.Met(); met {
		t.Error("a function that runs has returned")
	}
	if _, ok, gone := s.Take(); ok || !gone {
		t.Error("the subscription goes on")
	}
	if met, _ := s.Call(4, 40).Met(); !met {
		t.Error("a stream waits for a function without a thread")
	}
	if _, ok, _ := s.Take(); ok || closed(s.Wake) {
		t.Error("a function was queued after the end")
	}
	if c := New(5, 6); c.Func != 5 || c.Arg != 6 {
		t.Errorf("%+v", c)
	}
}

// The last function leaves the thread asleep.
func TestSubscriberSleeps(t *testing.T) {
	s := &Subscriber{Wake: make(chan struct{}, 1)}
	s.Call(1, 0)
	if !closed(s.Wake) {
		t.Error("the thread sleeps")
	}
	if _, ok, _ := s.Take(); !ok || closed(s.Wake) {
		t.Error("the thread is woken for nothing")
	}
}

type calls []string

func (c *calls) Call(fn uint64, args ...uint64) uint64 {
	*c = append(*c, fmt.Sprint(fn, args))
	return 0
}

func (c *calls) CallAside(fn uint64, args ...uint64) { *c = append(*c, fmt.Sprint("aside", fn, args)) }

// All observers are called in the order of their registration, each with its own argument last. A function may register others.
func TestObserversAreCalledInOrder(t *testing.T) {
	var made calls
	o := &Observers{Caller: &made, OnStream: Watchers{{"a", 1, 10}, {"b", 2, 20}}}
	o.Report(&o.OnStream, 7, 8)
	o.Report(&o.OnDevice, 9)
	if !slices.Equal(made, []string{"1 [7 8 10]", "2 [7 8 20]"}) {
		t.Errorf("%q", made)
	}
	if !o.TryLock() {
		t.Error("a lock is held")
	}
}
