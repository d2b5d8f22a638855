package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/session"
)

// CollectOptions are the parameters of Collect.
type CollectOptions struct {
	Options                     // Command, Sim and Bind do not apply: they belong to the programs
	Dir       string            // folder of the shared session, required; created if it does not exist
	Share     SharedOptions     // of a session that is created
	UntilGone time.Duration     // end when there has been no process for this long after the first one; 0 for never
	Wait      time.Duration     // how long to wait for another collector to end; 0 to fail at once
	NoGuard   bool              // record a program even if it crashed in code of the shim at its last start
	Log       func(line string) // receives messages during the recording; nil for none
}

// sharedSession is the state of a recording that Collect makes.
type sharedSession struct {
	mode     os.FileMode // of the session's files, 0 for the recorder's user alone
	succeeds bool        // the previous collector was killed
	// reaped receives processes that have ended, and processes that have come and are not recorded; nil for none.
	reaped func(ends, untraced []probe.End)
}

// Collect drains a shared session into a trace until ctx ends. If the previous collector was killed, its ring becomes a trace
// of its own, and calls that it had taken and not written become a gap.
func Collect(ctx context.Context, c *CollectOptions) (*Result, error) {
	r := &recorder{o: c.Options, shared: sharedSession{mode: c.Share.mode()}}
	r.o.defaults()
	log := c.Log
	if log == nil {
		log = func(string) {}
	}
	if err := r.o.check(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := private.Links(dir); err != nil {
		return nil, err
	}
	s, err := r.openShared(ctx, dir, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	lost, salvaged := r.predecessor(s, dir, log)
	r.start = s.Begun()
	if err := r.createShared(); err != nil {
		return nil, err
	}
	if r.meta.Window == format.WindowAttached && s.Handed == 0 {
		r.meta.Window = format.WindowWhole // programs record from their first call, and no other collector has taken calls
	}
	note := r.noteOf(s, lost)
	r.meta.Coverage.Binder = "preload"
	if err := r.begin(s); err != nil {
		return nil, err
	}
	if lost > 0 {
		if err := r.rows.Missing(format.Gap{Thread: format.NoThread, To: 1, Calls: lost, Reason: format.RecorderLost}); err != nil {
			return nil, err
		}
		r.rows.Count.Lost += lost
	}
	guard := crashGuard{s: s, off: c.NoGuard, unseen: &r.unseen, log: log}
	if err := guard.begin(); err != nil {
		return nil, err
	}
	r.shared.reaped = guard.reaped
	defer preferOOM()()
	defer heartbeat(s)()
	presence := presence{limit: c.UntilGone}
	incomplete := r.drain(s, func() bool {
		note()
		return ctx.Err() != nil || presence.gone(time.Now(), s.Alive, func() bool { return r.rows.Processes.Len()+len(r.target.ends) > 0 })
	})
	if r.control.server != nil {
		r.control.close()
		os.Remove(filepath.Join(dir, session.Socket))
	}
	res := &Result{Incomplete: incomplete, Salvaged: salvaged}
	r.learn(res, s)
	res.Unhooked = append(inject.Notes(dir), r.unseen.all()...)
	r.target.code, r.meta.Ended = seenEnd(r.target.ends, s.Alive())
	r.ending = "a signal ended the collector"
	if res.Stop = Asked; ctx.Err() == nil {
		res.Stop = Ended
		r.ending = "the last process has ended: " + cmp.Or(r.meta.Ended, fmt.Sprintf("with exit code %d", r.target.code))
	}
	if r.finish(res); res.Incomplete == nil {
		os.Remove(filepath.Join(dir, session.NoteFile))
	}
	return res, nil
}

// createShared creates the trace under a free name. When the first process is known, the trace gets the requested name, unless
// the free name has a number.
func (r *recorder) createShared() error {
	output, err := filepath.Abs(r.o.Output)
	if err != nil {
		return err
	}
	name := outputName(output, os.Environ(), os.Getpid())
	r.o.Output = free(name)
	if r.o.BlobFile != "" {
		r.o.BlobFile = free(outputName(r.o.BlobFile, os.Environ(), os.Getpid()))
	}
	if err := r.create(os.Environ()); err != nil {
		return err
	}
	r.file.pattern = output
	if r.file.name != name {
		r.file.pattern = strings.ReplaceAll(r.file.name, "%", "%%")
	}
	return nil
}

// noteOf writes the note that the next collector reads if this one is killed. The returned function writes it again if the
// name of the trace has changed. lost counts the calls that the previous collector had taken and that this trace reports.
func (r *recorder) noteOf(s *ring.Session, lost uint64) func() {
	me := session.Note{PID: os.Getpid(), Handed: s.Handed - lost, Begun: r.meta.StartMono, Ring: r.flight != nil}
	write := func() {
		if me.Output == r.file.name {
			return
		}
		me.Output = r.file.name
		_ = replaceFile(filepath.Join(s.Dir(), session.NoteFile), me.Bytes(), r.shared.mode)
	}
	write()
	return write
}

// presence is whether processes of a session exist.
type presence struct {
	limit  time.Duration
	came   bool
	last   time.Time // when a process last existed
	looked time.Time
}

// gone reports whether there has been no process for the limit, after there was one. seen reports whether there was ever one:
// a short-lived process may end between two looks.
func (p *presence) gone(now time.Time, alive, seen func() bool) bool {
	if now.Sub(p.looked) > reapEvery {
		p.looked = now
		if alive() || !p.came && seen() {
			p.last, p.came = now, true
		}
	}
	return p.limit > 0 && p.came && time.Since(p.last) > p.limit
}

// seenEnd returns how programs have ended that were started elsewhere: the exit code, or a description if it is unknown.
func seenEnd(ends []probe.End, alive bool) (code int, ended string) {
	ends = slices.DeleteFunc(slices.Clone(ends), func(e probe.End) bool { return e.Excluded || e.Replaced })
	known, asked := true, ""
	for _, e := range ends {
		switch {
		case !e.Clean && format.AsksToEnd(e.Signal):
			asked = fmt.Sprintf("process %d (%s) was ended by signal %d", e.PID, strings.Join(e.Args, " "), e.Signal)
		case !e.Clean:
			return 0, fmt.Sprintf("process %d (%s) crashed or was killed", e.PID, strings.Join(e.Args, " "))
		case e.Code == probe.NoCode:
			known = false
		case e.Code != 0 && code == 0:
			code, ended = e.Code, fmt.Sprintf("process %d (%s) with exit code %d", e.PID, strings.Join(e.Args, " "), e.Code)
		}
	}
	switch {
	case ended != "" && len(ends) > 1:
		return code, ended
	case alive:
		return code, "not during the recording: processes were still running"
	case code == 0 && asked != "":
		return 0, asked
	case len(ends) == 0:
		return 0, "no process was recorded"
	case !known:
		return 0, "by itself, with an unknown exit code"
	}
	return code, ""
}

// openShared opens a shared session, which it creates if it does not exist.
func (r *recorder) openShared(ctx context.Context, dir string, c *CollectOptions) (*ring.Session, error) {
	so := r.ringOptions()
	so.Mode = r.shared.mode
	until := time.Now().Add(c.Wait)
	for {
		s, err := ring.Open(r.o.Model, dir, so)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if err := Install(dir, &r.o, &c.Share); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, ring.ErrTaken) && time.Now().Before(until) && ctx.Err() == nil:
			time.Sleep(100 * time.Millisecond)
			continue
		case errors.Is(err, ring.ErrTaken):
			if other := session.ReadNote(dir); other.PID != 0 {
				err = fmt.Errorf("%w, process %d, which writes %s", err, other.PID, other.Output)
			}
		}
		return s, err
	}
}

// predecessor takes over from a collector that was killed. It returns the number of calls that collector had taken and not
// written, and the traces that were made of its ring.
func (r *recorder) predecessor(s *ring.Session, dir string, log func(string)) (lost uint64, salvaged []string) {
	was := session.ReadNote(dir)
	if was.PID == 0 {
		return 0, nil
	}
	r.shared.succeeds = true
	taken := s.Handed - min(was.Handed, s.Handed)
	if was.Ring {
		made, err := salvageRing(r.o.Model, dir, free(was.Output), taken, nil)
		switch {
		case err != nil:
			log(fmt.Sprintf("the ring of the previous collector, process %d, is lost: %v", was.PID, err))
			return taken, nil
		case made != "":
			log(fmt.Sprintf("the previous collector, process %d, was killed: its ring was saved to %s", was.PID, made))
			salvaged = append(salvaged, made)
		}
		return 0, salvaged
	}
	n, err := written(was.Output)
	if err != nil {
		log(fmt.Sprintf("the previous collector, process %d, was killed, and its trace can't be read: %v", was.PID, err))
	}
	lost = taken - min(n, taken)
	log(fmt.Sprintf("the previous collector, process %d, was killed: its trace %s has %d calls, and %d calls that it had read are lost", was.PID, was.Output, n, lost))
	return lost, nil
}

// written returns the number of calls that a trace has or reports as missing.
func written(path string) (uint64, error) {
	rd, err := format.Open(path, nil)
	if err != nil {
		return 0, err
	}
	defer rd.Close()
	return rd.Accounted()
}
