package record

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Follower is told what is recorded while that goes on. Its methods are called by the goroutine that records, one at
// a time, and are to return soon: what they take is missing when rings are to be read. They can't fail, since a
// recording has no use for it. What they are given is valid until they return.
type Follower interface {
	// Begin is called first, with what is known of the recording by then.
	Begin(*format.Meta)
	// Process and Thread are told of each before anything that names it by its number, counted from 0.
	Process(*format.Process)
	Thread(*format.Thread)
	// Call is told of a call when it has ended, and whether a device's time of its task is measured, of which Measured
	// may tell later: calls of a thread in their order, those of different threads in none. Index counts from 0 in the
	// order in which they are told, and of a recording without a Ring it is that of the trace. Data holds only what of
	// the call's data says what it means: names, and the sizes of batches.
	Call(c *format.Call, timed bool)
	// Measured is told when a device has done the task of a call, by the clock of the calls.
	Measured(call uint64, from, to int64)
	Gap(*format.Gap)
	// Drained is told now and then that all calls that ended before a moment have been told, but for such that the
	// recorder was late to see.
	Drained(before int64)
	// End is called last, when all has been told and the trace is written, with the end of the recording. It may take a moment.
	End(at int64)
}

// following tells a Follower.
type following struct {
	to        Follower
	origin    int64
	names     []bool // by function: whether its data says what its calls mean
	undrained bool   // nobody says what was drained
	told      int64  // up to when calls were said to be told
}

// lag is how late a call may be told, in nanoseconds: its end is known a moment before its record is complete, and a thread that was
// stopped in between is late; as is a ring that is being made.
const lag = int64(20e6)

func newFollowing(to Follower, m *api.Model, meta *format.Meta) *following {
	f := &following{to: to, origin: meta.StartMono, names: make([]bool, m.Funcs[len(m.Funcs)-1].ID+1)}
	for i := range m.Funcs {
		fn := &m.Funcs[i]
		f.names[fn.ID] = fn.NeedsData()
	}
	to.Begin(meta)
	return f
}

// call tells of a call, by its number in the recording.
func (f *following) call(index uint64, c *format.Call, timed bool) {
	if f == nil {
		return
	}
	told := *c
	told.Index, told.Data = index, nil
	if f.names[c.Func] {
		told.Data = c.Data
	}
	f.to.Call(&told, timed)
	if f.undrained && told.End > f.told+2*lag {
		f.told = told.End - lag
		f.to.Drained(f.told)
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

// drained notes that what ended before a moment, of CLOCK_MONOTONIC, was told.
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
