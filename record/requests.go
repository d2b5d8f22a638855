package record

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/session"
)

// answer answers the requests that have arrived.
func (r *recorder) answer(s *ring.Session) error {
	if r.control == nil {
		return nil
	}
	for {
		select {
		case a := <-r.control.Queries:
			err := r.act(s, &a.Request)
			st := r.status(s)
			if err != nil {
				st.Error = err.Error()
			}
			a.Answer <- st
		default:
			return nil
		}
	}
}

// act carries out a request.
func (r *recorder) act(s *ring.Session, q *session.Request) error {
	switch q.Do {
	case session.ActStatus:
		return nil
	case session.ActSnapshot:
		if r.flight == nil {
			return session.NoRing
		}
		return r.flight.Seal("a user requested it")
	case session.ActStart:
		if q.PID != 0 {
			s.Pause(q.PID)
		} else {
			s.Resume()
		}
		r.window.stopped = ""
		return r.resumed()
	case session.ActStop:
		if q.PID != 0 {
			return session.StopsAll
		}
		if r.window.waiting == 0 {
			r.window.waiting = max(r.now(), 1)
		}
		r.rows.Lacks, r.window.stopped = format.Detached, Asked
		s.Pause(0)
		return nil
	}
	return fmt.Errorf("no action %q", q.Do)
}

func (r *recorder) status(s *ring.Session) session.Status {
	only, waiting := s.Paused()
	st := session.Status{Session: s.Dir(), Recorder: os.Getpid(), Command: r.o.Command, Processes: s.Processes(), Recording: !waiting || only != 0, Only: only,
		Calls: r.rows.Count.Calls, Lost: r.rows.Count.Lost, Output: r.file.name, Seconds: float64(r.now()) / 1e9}
	slices.Sort(st.Processes)
	st.Standing = r.standing(s)
	if r.flight != nil {
		st.Ring, st.Sealed = r.flight.Size(), r.flight.Sealed()
	}
	return st
}

// standing returns the unfinished calls of the programs, oldest first.
func (r *recorder) standing(s *ring.Session) []standing.Call {
	list := []standing.Call{}
	for _, c := range s.Standing() {
		f := r.o.Model.Func(c.Func)
		st := standing.Call{PID: c.PID, TID: c.TID, Func: f.Name, StartNS: c.Start - r.meta.StartMono, ForNS: max(probe.Now()-c.Start, 0)}
		for kind, i := range map[string]int{"stream": int(f.Stream), "event": int(f.Event)} {
			if i >= 0 && i < len(f.Params) && st.On == "" {
				st.On = fmt.Sprintf("%s %#x", kind, c.Words[f.Params[i].Word])
			}
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b standing.Call) int { return cmp.Compare(a.StartNS, b.StartNS) })
	return list
}
