package device

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/strict"
)

// Signal is a flag that stream tasks set, wait for and clear.
type Signal struct {
	sync.Mutex
	IsSet bool
	Wake  chan struct{} // closed while the flag is set
	at    time.Duration // device time at which the flag was set
	// Shared replaces the local flag if other processes share it.
	Shared *memory.Shared
	known  strict.Vector // strict mode: knowledge of the streams that set it
}

// Released and Acquired report a task that sets the flag, and one that waited for it, to strict mode.
func (s *Signal) Released(by *Stream) {
	by.Context.Device.Machine.Strict.Release(&by.Strict, &s.known)
	if s.End() != nil {
		by.Context.Device.Machine.Strict.ReleaseOthers(&by.Strict)
	}
}

func (s *Signal) Acquired(by *Stream) (time.Duration, *fail.Failure) {
	by.Context.Device.Machine.Strict.Acquire(&by.Strict, &s.known)
	if s.End() != nil {
		by.Context.Device.Machine.Strict.AcquireOthers(&by.Strict)
	}
	return 0, nil
}

func (s *Signal) channel() chan struct{} {
	if s.Wake == nil {
		s.Wake = make(chan struct{})
	}
	return s.Wake
}

// Set sets the flag at the time of a stream.
func (s *Signal) Set(by *Stream) {
	s.Lock()
	defer s.Unlock()
	if s.Shared != nil {
		s.Shared.Set(1)
	} else if !s.IsSet {
		s.IsSet, s.at = true, by.Time
		close(s.channel())
	}
}

func (s *Signal) Clear() {
	s.Lock()
	defer s.Unlock()
	if s.Shared != nil {
		s.Shared.Set(0)
	} else if s.IsSet {
		s.IsSet, s.Wake = false, nil
	}
}

// Wait waits until the flag is set, and clears it if take is set. It fails if every process that could set the flag
// has died.
func (s *Signal) Wait(take bool, limit time.Duration, late func() *fail.Failure) *Waiting {
	w := &Waiting{Limit: limit, Late: late}
	w.Met = func() (bool, <-chan struct{}) {
		s.Lock()
		defer s.Unlock()
		if x := s.Shared; x != nil { // possibly shared since the last check
			w.Block = func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
				return x.Wait(func(v uint32) bool { return v == 1 && (!take || x.Word.CompareAndSwap(1, 0)) }, x.Abandoned, stop, expired)
			}
			return false, nil
		}
		if !s.IsSet {
			return false, s.channel()
		}
		w.Until = s.at
		if take {
			s.IsSet, s.Wake = false, nil
		}
		return true, nil
	}
	return w
}

// End returns the shared side of the flag; nil if it is local.
func (s *Signal) End() *memory.Shared {
	s.Lock()
	defer s.Unlock()
	return s.Shared
}
