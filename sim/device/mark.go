package device

import (
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/strict"
)

// Mark is one event record.
type Mark struct {
	Done    chan struct{}
	Time    time.Duration // device time; valid when Done is closed
	Failure *fail.Failure // earlier failure of the stream
	Known   strict.Vector // strict mode: knowledge of the stream at the record
}

func (m *Mark) Complete() bool { return IsClosed(m.Done) }

func (m *Mark) Wait(limit time.Duration, late func() *fail.Failure) *Waiting {
	w := &Waiting{Limit: limit, Late: late}
	w.Met = func() (bool, <-chan struct{}) {
		if !m.Complete() {
			return false, m.Done
		}
		w.Until = m.Time
		return true, nil
	}
	return w
}
