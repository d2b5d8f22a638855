package timeline

import (
	"iter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Range is a moment, or a period, that the program has named. A period may begin and end on different threads.
type Range struct {
	Name            string
	Domain          string // "" for the default one
	From, To        int64  // nanoseconds since the beginning of the trace: from the start of the first call to the end of the last
	Begin, End      uint64 // calls; End is NoCall if the trace shows none
	Process, Thread uint32 // of the first call
	EndThread       uint32
	Stream          *Object // that the program named for it, nil for none
	Mark            bool    // a moment
	Open            bool    // To is the end of the trace: the trace shows no end, or only after a million more ranges
}

// note implements rangeSource: it returns a range at its first call.
func (a *ahead) note(e *Event) (*Range, error) {
	if e.Fn.Range == api.RangeEnd {
		return nil, nil
	}
	c, r := e.Call, rangeOf(e)
	if r.Mark {
		return r, nil
	}
	end, err := a.end()
	if err != nil {
		return nil, err
	}
	r.To, r.End, r.EndThread = end.at, end.call, end.thread
	if end.open {
		r.Open, r.To, r.End, r.EndThread = true, max(*a.last, r.From), NoCall, c.Thread
	}
	return r, nil
}

// rangeOf returns the moment, or the begin of the period, that a call names.
func rangeOf(e *Event) *Range {
	c := e.Call
	r := &Range{Name: e.name(), From: c.Start, To: c.Start, Begin: c.Index, End: c.Index, Process: e.Process, Thread: c.Thread, EndThread: c.Thread, Stream: e.Stream,
		Mark: e.Fn.Range != api.RangeBegin}
	if o := e.Object("domain"); o != nil {
		r.Domain = o.Name
	}
	return r
}

// unnumbered counts the open ranges of each thread that have no number. mstx returns 0 if its tool collects no marks. An end of range 0 ends the
// thread's newest open range.
type unnumbered map[uint32]uint32

// begin returns a handle for a range without a number.
func (u unnumbered) begin(thread uint32) uint64 {
	u[thread]++
	return u.newest(thread)
}

// end returns the handle of the range that a thread ends without a number, 0 for none.
func (u unnumbered) end(thread uint32) uint64 {
	if u[thread] == 0 {
		return 0
	}
	h := u.newest(thread)
	u[thread]--
	return h
}

// newest returns a handle that no tool gives.
func (u unnumbered) newest(thread uint32) uint64 {
	return 1<<63 | uint64(thread)<<32 | uint64(u[thread])
}

// ahead reads range calls ahead of a Walk, so that the Walk knows the end of a range at its begin. It holds the ranges from the current position
// to the furthest end that was needed.
type ahead struct {
	last  *int64 // end of the trace, so far
	next  func() (*format.Call, error, bool)
	stop  func()
	s     *State
	r     *format.Reader
	ends  []rangeEnd // of the ranges read ahead
	asked int        // number of ranges returned so far
	open  map[*Object]int
}

type rangeEnd struct {
	at     int64
	call   uint64
	thread uint32
	open   bool
}

func newAhead(r *format.Reader, m *api.Model) *ahead {
	a := &ahead{s: NewState(m), r: r, open: map[*Object]int{}}
	var funcs []uint16
	for _, f := range r.Schema().Functions {
		if g := m.Func(api.ID(f.ID)); g != nil && (g.Range == api.RangeBegin || g.Range == api.RangeEnd) {
			funcs = append(funcs, f.ID)
		}
	}
	a.next, a.stop = iter.Pull2(r.CallsByStart(&format.Filter{Funcs: funcs, NoData: true}))
	return a
}

func (a *ahead) close() { a.stop() }

// end returns the end of the next range.
func (a *ahead) end() (rangeEnd, error) {
	for len(a.ends) == 0 || a.ends[0].open && len(a.ends) < maxAhead {
		c, err, ok := a.next()
		if err != nil {
			return rangeEnd{}, err
		}
		if !ok {
			break
		}
		a.read(c)
	}
	a.asked++
	if len(a.ends) == 0 {
		return rangeEnd{open: true}, nil // the file is damaged
	}
	e := a.ends[0]
	a.ends = a.ends[1:]
	return e, nil
}

func (a *ahead) read(c *format.Call) {
	e := a.s.Apply(a.r.ProcessOf(c.Thread), c)
	if !e.OK() {
		return
	}
	span := e.Object(api.Span)
	if e.Fn.Range == api.RangeBegin {
		if span != nil {
			a.open[span] = a.asked + len(a.ends)
		}
		a.ends = append(a.ends, rangeEnd{open: true})
		return
	}
	if i, ok := a.open[span]; ok {
		delete(a.open, span)
		if i >= a.asked {
			a.ends[i-a.asked] = rangeEnd{at: c.End, call: c.Index, thread: c.Thread}
		}
	}
}

const (
	// maxPending bounds the tasks without an end on all lanes, 20 to 40 MiB. A stream of a runtime holds some thousand.
	maxPending = 1 << 17
	// maxAhead bounds the ranges read ahead, 32 MiB.
	maxAhead = 1 << 20
)
