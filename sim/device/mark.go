package device

import (
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/strict"
)

// mark is one record of an event.
type Mark struct {
	Done    chan struct{}
	Time    time.Duration // device time, valid when done is closed
	Failure *fail.Failure // of the stream that it lies on, before the mark
	Known   strict.Vector // in strict mode: what the stream knows there
}

func (m *Mark) Complete() bool {
	select {
	case <-m.Done:
		return true
	default:
		return false
	}
}

// wait waits for a mark.
func (m *Mark) Wait(limit time.Duration, late func() *fail.Failure) *Waiting {
	return &Waiting{Met: func() (bool, <-chan struct{}) { return m.Complete(), m.Done }, Limit: limit, Late: late}
}
