package device

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// context is a context of a device: the owner of streams, with a default stream of its own.
type Context struct {
	Handle uint64
	Device *Device
	Def    *Stream
	Ended  atomic.Bool
	// stops says that the first failure stops all streams, as one of them was told to; stopped is that failure.
	Stops   atomic.Bool
	Stopped atomic.Pointer[stop]

	Mu       sync.Mutex
	Streams  []*Stream
	Attached any // of the layer above
}

// stop is the failure that has stopped the streams of a context, and the stream where it happened.
type stop struct {
	failure *fail.Failure
	stream  *Stream
}

// failed notes a failure of a stream. It stops the streams of the context, where that is their mode.
func (c *Context) failed(s *Stream, f *fail.Failure) {
	if c.Stops.Load() || mutant.Breaks("continue_on_failure") {
		c.Stopped.CompareAndSwap(nil, &stop{f, s})
	}
}
