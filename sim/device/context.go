package device

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// Context owns streams, one of them the default stream.
type Context struct {
	Handle  uint64
	Device  *Device
	Default *Stream
	Ended   atomic.Bool
	// Stops is set if a failure on any stream stops all of them. Stopped is that failure.
	Stops   atomic.Bool
	Stopped atomic.Pointer[stop]

	sync.Mutex
	Streams  []*Stream
	Attached any // data of the layer above
}

// stop is the failure that stopped a context, and its stream.
type stop struct {
	failure *fail.Failure
	stream  *Stream
}

// failed records the failure of a stream, and stops the context if Stops is set.
func (c *Context) failed(s *Stream, f *fail.Failure) {
	if c.Stops.Load() || mutant.Breaks("continue_on_failure") {
		c.Stopped.CompareAndSwap(nil, &stop{f, s})
	}
}
