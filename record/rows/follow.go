package rows

import (
	"github.com/acltrace/acltrace/format"
)

// A Follower receives calls during the recording. All methods are called by the goroutine that drains the rings,
// and must return soon: while they run, the rings fill up. Arguments are valid until the method returns. Methods return no
// error, since a follower can't end a recording.
type Follower interface {
	// Begin is called first.
	Begin(*format.Meta)
	// Process and Thread are called before anything refers to the process or thread by its index, counted from 0.
	Process(*format.Process)
	Thread(*format.Thread)
	// Device is called when a process has learned facts about a device. The device includes the earlier facts.
	Device(process uint32, d *format.ProcessDevice)
	// Call is called when a call has ended. The calls of one thread arrive in order, those of different threads in any
	// order. Index counts from 0 by arrival. Without a ring it is the index in the trace. Data has only the items that the
	// call's meaning depends on, such as names and batch sizes. If timed is set, Measured may follow.
	Call(c *format.Call, timed bool)
	// Measured is called when the device has done a call's task. Times are on the trace's clock.
	Measured(call uint64, from, to int64)
	Gap(*format.Gap)
	// Drained is called now and then, when all calls that ended before a time have arrived. A call that the recorder sees
	// late may follow nevertheless.
	Drained(before int64)
	// End is called last, when the trace is written. It may take a moment.
	End(at int64)
}

// following calls a Follower. Its methods accept a nil receiver.
type following struct {
	to        Follower
	origin    int64
	names     []bool // by function id: the call's meaning depends on its data
	undrained bool   // the probe never calls Drained
	reported  int64  // time of the latest Drained that was derived from calls
}

// lag is the most in nanoseconds by which a call arrives late. Its end is known a moment before its record is complete, and
// a thread may be stopped in between, or create a ring.
const lag = int64(20e6)

func newFollowing(o *Options) *following {
	f := &following{to: o.Follower, origin: o.Meta.StartMono, undrained: o.Undrained, names: make([]bool, o.Model.Funcs[len(o.Model.Funcs)-1].ID+1)}
	for i := range o.Model.Funcs {
		fn := &o.Model.Funcs[i]
		f.names[fn.ID] = fn.NeedsData()
	}
	f.to.Begin(o.Meta)
	return f
}

// call passes on a call with its index in the recording.
func (f *following) call(index uint64, c *format.Call, timed bool) {
	passed := *c
	passed.Index, passed.Data = index, nil
	if f.names[c.Func] {
		passed.Data = c.Data
	}
	f.to.Call(&passed, timed)
	if f.undrained && passed.End > f.reported+2*lag {
		f.reported = passed.End - lag
		f.to.Drained(f.reported)
	}
}

func (f *following) measured(index uint64, from, to int64) {
	if f != nil {
		f.to.Measured(index, from, to)
	}
}

func (f *following) gap(g *format.Gap) {
	if f != nil {
		f.to.Gap(g)
	}
}

func (f *following) process(p *format.Process) {
	if f != nil {
		f.to.Process(p)
	}
}

func (f *following) thread(t *format.Thread) {
	if f != nil {
		f.to.Thread(t)
	}
}

func (f *following) device(process uint32, d *format.ProcessDevice) {
	if f != nil {
		f.to.Device(process, d)
	}
}

// drained takes a time on CLOCK_MONOTONIC.
func (f *following) drained(before int64) {
	if f != nil {
		f.to.Drained(before - f.origin - lag)
	}
}

func (f *following) end(at int64) {
	if f != nil {
		f.to.End(at)
	}
}
