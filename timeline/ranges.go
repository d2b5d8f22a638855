package timeline

import (
	"iter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Range is a moment, or a range of time, that the program has named. A range may end on another thread than it began on.
type Range struct {
	Name            string
	Domain          string // "" for the default one
	From, To        int64  // nanoseconds since the beginning of the trace: of a range from its first call's start to its last one's end
	Begin, End      uint64 // calls; End is NoCall where the trace does not show one
	Process, Thread uint32 // where it began
	EndThread       uint32
	Stream          *Object // that it was told to belong to, nil for none
	Mark            bool    // a moment
	Open            bool    // nothing in the trace shows the end, or only after a million more ranges: To is the end of the trace
}

// note implements rangeSource: it returns a range at the call that begins it.
func (a *ahead) note(process uint32, e *Event) (*Range, error) {
	if e.Fn.Range == api.RangeEnd {
		return nil, nil
	}
	c, r := e.Call, rangeOf(process, e)
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

// rangeOf is the moment, or the beginning of a range, that a call names.
func rangeOf(process uint32, e *Event) *Range {
	c := e.Call
	r := &Range{Name: e.name(), From: c.Start, To: c.Start, Begin: c.Index, End: c.Index, Process: process, Thread: c.Thread, EndThread: c.Thread, Stream: e.Stream,
		Mark: e.Fn.Range != api.RangeBegin}
	for _, u := range e.Uses {
		if u.Object.Kind == "domain" {
			r.Domain = u.Object.Name
		}
	}
	return r
}

// ahead reads the calls that begin and end ranges ahead of a Walk, so that a range is known as a whole where it begins. It
// holds those that lie between what has been asked for and its end.
type ahead struct {
	last  *int64 // end of the trace so far
	next  func() (*format.Call, error, bool)
	stop  func()
	s     *State
	r     *format.Reader
	ends  []rangeEnd // of the ranges that have begun and have not been asked for
	asked int        // for how many so far
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
		return rangeEnd{open: true}, nil // of a damaged file
	}
	e := a.ends[0]
	a.ends = a.ends[1:]
	return e, nil
}

func (a *ahead) read(c *format.Call) {
	var process uint32
	if threads := a.r.Threads(); int(c.Thread) < len(threads) {
		process = threads[c.Thread].Process
	}
	e := a.s.Apply(process, c)
	if e.Fn == nil || c.Flags&format.Unfinished != 0 || e.Fn.RetError && uint32(c.Ret) != 0 {
		return
	}
	var span *Object
	for _, u := range e.Uses {
		if u.Object.Kind == api.Span {
			span = u.Object
		}
	}
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
	// maxPending bounds the tasks that wait for a synchronization, of all lanes: 20 MiB, or 40. A stream of a runtime holds some thousand.
	maxPending = 1 << 17
	// maxAhead bounds the ranges that lie between a range's two ends, as far as they are looked for: 32 MiB.
	maxAhead = 1 << 20
)
