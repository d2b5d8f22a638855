package device

import (
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
)

// Waiting is the condition of a task. Met reports whether it holds; if not, it returns a channel that is closed when
// Met may have changed, or nil to poll. Block waits instead, for conditions that can't be polled. Met may set Block.
type Waiting struct {
	Met   func() (bool, <-chan struct{})
	Block func(stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure)
	Limit time.Duration // 0 for no limit
	Late  func() *fail.Failure
	// Until is the device time at which the condition was met, set by Met. If it is 0, the stream continues at the
	// clock's time.
	Until time.Duration
	// In virtual time:
	ended    chan struct{} // closed when Block has returned
	inTime   bool
	failure  *fail.Failure
	deadline time.Duration
	since    time.Time
}

// pollEvery is the polling interval of conditions without a channel.
const pollEvery = 20 * time.Microsecond

// await waits, and reports whether the task may run.
func (w *Waiting) await(stop <-chan struct{}) (bool, *fail.Failure) {
	expired, end := After(w.Limit)
	defer end()
	for w.Block == nil {
		ok, ch := w.Met()
		if ok {
			return true, nil
		}
		if w.Block != nil {
			break
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
	}
	done, f := w.Block(stop, expired)
	if !done {
		f = w.Late()
	}
	return done && f == nil, f
}

// resume returns the time of a stream after the wait.
func (w *Waiting) resume(clk *RealClock, at time.Duration) time.Duration {
	if w.Until == 0 {
		return max(at, clk.Now(nil))
	}
	return max(at, w.Until)
}

func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// After returns a timer channel, which never fires for a time of 0, and a function that stops the timer.
func After(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
