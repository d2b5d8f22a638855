package record

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/session"
)

// control takes requests on the goroutines of its server. They never wait for the goroutine that drains for long: that one may be
// busy, or wait for a disk. Start and stop take effect at once. The goroutine that drains does the rest, and publishes the status.
type control struct {
	server *session.Server // nil if requests are not answered
	latest atomic.Pointer[session.Status]

	mu      sync.Mutex // guards pending, and pausing and resuming the session
	pending []*request
}

// request is a request for the goroutine that drains.
type request struct {
	session.Request
	at   int64      // on the trace's clock
	done chan error // receives one error
}

// How long an answer waits for the goroutine that drains. A client waits longer.
const (
	statusWait   = 500 * time.Millisecond
	snapshotWait = 8 * time.Second
)

// listen begins to take requests.
func (r *recorder) listen(s *ring.Session) (err error) {
	r.control.latest.Store(r.status(s))
	r.control.server, err = session.Listen(s.Dir(), r.shared.mode, func(q *session.Request, done <-chan struct{}) session.Status { return r.ask(s, q, done) })
	return err
}

// close ends the control.
func (c *control) close() {
	if c.server != nil {
		c.server.Close()
	}
}

// ask carries out a request. It runs on any goroutine.
func (r *recorder) ask(s *ring.Session, q *session.Request, done <-chan struct{}) session.Status {
	c := &r.control
	req := &request{Request: *q, at: r.now(), done: make(chan error, 1)}
	wait := statusWait
	if q.Do == session.ActSnapshot {
		wait = snapshotWait
	}
	c.mu.Lock()
	err := pauseOrResume(s, q)
	if err == nil {
		c.pending = append(c.pending, req)
	}
	c.mu.Unlock()
	if err == nil {
		select {
		case err = <-req.done:
		case <-done:
		case <-time.After(wait):
			if q.Do == session.ActSnapshot {
				err = session.Busy
			}
		}
	}
	st := *c.latest.Load()
	only, waiting := s.Paused()
	st.Recording, st.Only, st.Seconds = !waiting || only != 0, only, float64(r.now())/1e9
	if err != nil {
		st.Error = err.Error()
	}
	return st
}

// pauseOrResume switches recording on or off if a request says so.
func pauseOrResume(s *ring.Session, q *session.Request) error {
	switch {
	case q.Do == session.ActStart && q.PID != 0:
		s.Pause(q.PID)
	case q.Do == session.ActStart:
		s.Resume()
	case q.Do == session.ActStop && q.PID != 0:
		return session.StopsAll
	case q.Do == session.ActStop:
		s.Pause(0)
	}
	return nil
}

// answer does the pending requests' part that belongs to the goroutine that drains.
func (r *recorder) answer(s *ring.Session) {
	c := &r.control
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	if len(pending) == 0 {
		return
	}
	errs := make([]error, len(pending))
	for i, q := range pending {
		errs[i] = r.act(q)
	}
	c.latest.Store(r.status(s))
	for i, q := range pending {
		q.done <- errs[i]
	}
}

// act records what a request has changed.
func (r *recorder) act(q *request) error {
	switch q.Do {
	case session.ActStatus:
		return nil
	case session.ActSnapshot:
		if r.flight == nil {
			return session.NoRing
		}
		return r.flight.Seal("a user requested it")
	case session.ActStart:
		r.window.stopped = ""
		return r.resumed(q.at)
	case session.ActStop:
		r.stopped(q.at, Asked)
		return nil
	}
	return fmt.Errorf("no action %q", q.Do)
}

// stopped notes that nothing is recorded from a time on.
func (r *recorder) stopped(at int64, why Stop) {
	if r.window.waiting == 0 {
		r.window.waiting = max(at, 1)
	}
	r.rows.Lacks, r.window.stopped = format.Detached, why
}

func (r *recorder) status(s *ring.Session) *session.Status {
	st := &session.Status{Session: s.Dir(), Recorder: os.Getpid(), Command: r.o.Command, Processes: s.Processes(),
		Calls: r.rows.Count.Calls, Lost: r.rows.Count.Lost, Output: r.file.name}
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
