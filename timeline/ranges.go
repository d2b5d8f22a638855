package timeline

import "github.com/acltrace/acltrace/api"

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
	Open            bool    // nothing in the trace shows the end: To is the end of the trace
}

// note takes in a call that names a time.
func (l *scanner) note(process uint32, e *Event) {
	if l.v.Range == nil {
		return
	}
	c := e.Call
	var span, domain *Object
	for _, u := range e.Uses {
		switch u.Object.Kind {
		case api.Span:
			span = u.Object
		case "domain":
			domain = u.Object
		}
	}
	if e.Fn.Range == api.RangeEnd {
		if r := l.spans[span]; r != nil {
			r.To, r.End, r.EndThread, r.Open = c.End, c.Index, c.Thread, false
			delete(l.spans, span)
			delete(l.open, r.Begin)
			l.v.Range(r)
		}
		return
	}
	r := Range{Name: e.name(), From: c.Start, To: c.Start, Begin: c.Index, End: c.Index, Process: process, Thread: c.Thread, EndThread: c.Thread, Stream: e.Stream, Mark: true}
	if domain != nil {
		r.Domain = domain.Name
	}
	if e.Fn.Range != api.RangeBegin {
		l.v.Range(&r)
		return
	}
	r.Mark, r.Open, r.End = false, true, NoCall
	l.open[r.Begin] = &r
	if span != nil {
		l.spans[span] = &r
	}
}
