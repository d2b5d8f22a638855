package device

import (
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
)

// waiting is what a task waits for before it runs. Either met tells whether it has come and, where not, gives a channel that
// is closed when it is worth asking again (nil for soon); or block waits for it, which can't be asked. met may set block.
type Waiting struct {
	Met   func() (bool, <-chan struct{})
	Block func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure)
	Limit time.Duration // 0 for ever
	Late  func() *fail.Failure
	// of virtual time
	ended    chan struct{} // closed when block has returned
	inTime   bool
	failure  *fail.Failure
	deadline time.Duration
	since    time.Time
}

// pollEvery is the time between two looks at what nothing tells a change of.
const pollEvery = 20 * time.Microsecond

// await waits, and tells whether the task is to run.
func (w *Waiting) await(stop <-chan struct{}) (bool, *fail.Failure) {
	var expired <-chan time.Time
	for {
		if w.Block == nil {
			if ok, ch := w.Met(); ok {
				return true, nil
			} else if w.Block == nil {
				if expired == nil && w.Limit > 0 {
					timer := time.NewTimer(w.Limit)
					defer timer.Stop()
					expired = timer.C
				}
				var soon <-chan time.Time
				if ch == nil {
					soon = time.After(pollEvery)
				}
				select {
				case <-ch:
				case <-soon:
				case <-stop:
					return false, nil
				case <-expired:
					return false, w.Late()
				}
				continue
			}
		}
		if expired == nil && w.Limit > 0 {
			timer := time.NewTimer(w.Limit)
			defer timer.Stop()
			expired = timer.C
		}
		done, f := w.Block(stop, expired)
		if !done {
			f = w.Late()
		}
		return done && f == nil, f
	}
}

func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// after is a channel that a timer sends to, never for a time of 0, with the function that ends the timer.
func After(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
