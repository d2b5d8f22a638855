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

// nobody is the Follower of a recording without one.
type nobody struct{}

func (nobody) Begin(*format.Meta)                   {}
func (nobody) Process(*format.Process)              {}
func (nobody) Thread(*format.Thread)                {}
func (nobody) Device(uint32, *format.ProcessDevice) {}
func (nobody) Call(*format.Call, bool)              {}
func (nobody) Measured(uint64, int64, int64)        {}
func (nobody) Gap(*format.Gap)                      {}
func (nobody) Drained(int64)                        {}
func (nobody) End(int64)                            {}

// lag is the most in nanoseconds by which a call arrives late. Its end is known a moment before its record is complete, and
// a thread may be stopped in between, or create a ring.
const lag = int64(20e6)

// follow passes the current call on.
func (b *Builder) follow(r *rules, timed bool) {
	passed := b.row
	if passed.Index = b.Count.Calls; !r.needsData {
		passed.Data = nil
	}
	b.follower.Call(&passed, timed)
	if b.o.Undrained && passed.End > b.reported+2*lag {
		b.reported = passed.End - lag
		b.follower.Drained(b.reported)
	}
}
