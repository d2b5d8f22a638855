package device

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
)

// A waiter continues at the time at which the flag was set first, and one that takes the flag clears it.
func TestWaiterContinuesAtFirstSet(t *testing.T) {
	s := &Signal{}
	late := func() *fail.Failure { return nil }
	w := s.Wait(true, time.Second, late)
	met, wake := w.Met()
	if met || wake == nil || w.Limit != time.Second || w.Late == nil || w.Block != nil {
		t.Fatalf("before the flag is set: %v, %+v", met, w)
	}
	if _, again := s.Wait(false, 0, late).Met(); again != wake {
		t.Error("two waiters wait for different wakes")
	}
	s.Clear() // nothing
	s.Set(&Stream{Time: 5})
	s.Set(&Stream{Time: 9})
	select {
	case <-wake:
	default:
		t.Error("the waiters still sleep")
	}
	for range 2 { // reading leaves it set
		r := s.Wait(false, 0, late)
		if met, wake := r.Met(); !met || wake != nil || r.Until != 5 {
			t.Errorf("a reader: %v until %v", met, r.Until)
		}
	}
	if met, _ := w.Met(); !met || w.Until != 5 || s.IsSet {
		t.Errorf("a taker: %v until %v, set: %v", met, w.Until, s.IsSet)
	}
	if met, wake := w.Met(); met || wake == nil {
		t.Error("the flag was taken twice")
	}
	s.Set(&Stream{Time: 11})
	s.Clear()
	if met, wake := w.Met(); met || wake == nil {
		t.Error("a cleared flag is set")
	}
	s.Set(&Stream{Time: 12})
	if met, _ := w.Met(); !met || w.Until != 12 {
		t.Errorf("a flag that was set again: %v until %v", met, w.Until)
	}
	if s.End() != nil {
		t.Error("a local flag is shared")
	}
}

// A flag that other processes share is set, taken and cleared in the memory that they share. It can't be polled.
func TestSharedSignal(t *testing.T) {
	s := &Signal{Shared: &memory.Shared{Slot: &memory.Slot{}, Own: true}}
	word, stop := &s.Shared.Word, make(chan struct{})
	w := s.Wait(true, 0, nil)
	if met, wake := w.Met(); met || wake != nil || w.Block == nil || s.End() != s.Shared {
		t.Fatalf("the condition is polled: %v", met)
	}
	s.Set(&Stream{})
	if word.Load() != 1 || s.IsSet {
		t.Errorf("a flag that is set is %d", word.Load())
	}
	if ok, f := s.blocked(false)(stop, nil); !ok || f != nil || word.Load() != 1 {
		t.Errorf("a reader: %v, %v, the flag is %d", ok, f, word.Load())
	}
	if ok, f := w.Block(stop, nil); !ok || f != nil || word.Load() != 0 {
		t.Errorf("a taker: %v, %v, the flag is %d", ok, f, word.Load())
	}
	s.Set(&Stream{})
	s.Clear()
	if word.Load() != 0 {
		t.Errorf("a flag that is cleared is %d", word.Load())
	}
	over := make(chan time.Time, 1)
	over <- time.Time{}
	if ok, f := s.blocked(false)(stop, over); ok || f != nil {
		t.Errorf("a waiter for a cleared flag: %v, %v", ok, f)
	}
}

// blocked returns the wait of a task for a shared flag.
func (s *Signal) blocked(take bool) func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
	w := s.Wait(take, 0, nil)
	w.Met()
	return w.Block
}
