package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/rows"
	"github.com/acltrace/acltrace/record/session"
)

// ErrNothingLeft is wrapped by the error of Salvage if the session has nothing to salvage.
var ErrNothingLeft = errors.New("the session has no calls")

// Salvage makes a trace from the session of a killed recorder: from the programs' rings, which may hold unread calls, and
// from the file or the segments that the recorder had written. It removes the folder if no program uses the session. If
// output is "", the trace gets the recorder's name for it, or the next free one.
func Salvage(m *api.Model, dir, output string) (string, error) { return salvage(m, dir, output, false) }

// errUsed is wrapped by the error of salvage if programs use a session and unused is set.
var errUsed = errors.New("programs still use it")

func salvage(m *api.Model, dir, output string, unused bool) (string, error) {
	was := session.ReadNote(dir)
	if output == "" {
		if output = free(was.Output); was.WritesFile() {
			output = recoveredName(was.Output)
		}
	}
	// Fail before the rings are opened: each later recording tries again.
	if !host.Exists(filepath.Dir(output)) {
		return "", fmt.Errorf("the folder of its trace, %s, was removed", output)
	}
	s, err := ring.Open(m, dir, &ring.Options{PayloadLimit: SmallLimit})
	if err != nil {
		return "", err
	}
	if unused && s.Alive() {
		return "", errors.Join(errUsed, s.Close())
	}
	taken := s.Handed - min(was.Handed, s.Handed)
	if was.PID == 0 { // there was no recorder since the session was last salvaged
		taken = 0
	}
	var made string
	if was.WritesFile() {
		made, err = salvageFile(m, &was, output, taken, s)
	} else {
		made, err = salvageRing(m, dir, output, taken, s)
	}
	alive := s.Alive()
	err = errors.Join(err, s.Close())
	if err != nil {
		return "", err
	}
	os.Remove(filepath.Join(dir, session.NoteFile))
	if !alive && len(host.Mentioning(dir)) == 0 && !host.Exists(filepath.Join(dir, session.SharedMark)) {
		err = os.RemoveAll(dir)
	}
	if made == "" {
		return "", errors.Join(err, fmt.Errorf("session %s: %w", dir, ErrNothingLeft))
	}
	return made, err
}

// salvageRing makes a trace of the ring in a session's folder. If s is not nil, it adds the calls that programs have written
// since. taken counts the calls that the recorder had taken. It returns the name of the trace, "" if there was nothing.
func salvageRing(m *api.Model, dir, output string, taken uint64, s *ring.Session) (string, error) {
	left := flight.Find(dir)
	r := &recorder{o: Options{Model: m, Output: output, Capture: Capture{Payload: Small}}, file: traceFile{name: output, keep: defaultKeep}}
	if meta := left.Meta(); meta != nil {
		r.meta = *meta
	}
	if r.meta.StartMono == 0 {
		r.begun(os.Environ())
	}
	if list := filepath.Join(dir, kernelList); host.Exists(list) {
		r.kernels.file = list
	}
	r.rows = rows.New(&rows.Options{Model: m, Meta: &r.meta}, nil)
	f, had, err := flight.Restore(&left, taken, r.flightRecording())
	if err != nil {
		return "", err
	}
	if s != nil {
		r.rows.Hooks.ThreadName = s.ThreadName
		if err = s.Finish(r.rows); err == nil {
			err = r.reap(s)
		}
		if err = errors.Join(err, r.rows.Finish()); err != nil {
			return "", errors.Join(err, f.Leave())
		}
	}
	if had+r.rows.Count.Made() == 0 {
		return "", errors.Join(f.Leave(), left.Remove())
	}
	r.meta.Recovered = "the recorder was killed: the trace has the calls in its ring and in the programs' buffers"
	if _, err := f.End("the recorder was killed"); err != nil {
		return "", err
	}
	return output, nil
}

// recoveredName returns a free name beside that of the incomplete trace.
func recoveredName(output string) string {
	ext := filepath.Ext(output)
	return free(strings.TrimSuffix(output, ext) + ".recovered" + ext)
}

// salvageFile makes a trace from the incomplete file of a recorder, which stays, and from the programs' rings. taken counts the
// calls that the recorder had taken. It returns the name of the trace, "" if the file is complete.
func salvageFile(m *api.Model, was *session.Note, output string, taken uint64, s *ring.Session) (string, error) {
	meta := format.Meta{UUID: was.UUID, API: m.Name, StartMono: was.Begun}
	var written uint64 // calls in the file, with lost ones
	var until int64
	begun := was.Open()
	if begun != nil {
		defer begun.Close()
		if begun.Complete() {
			return "", nil
		}
		var err error
		if written, err = begun.Accounted(); err != nil {
			return "", err
		}
		meta = *begun.Meta()
		if rec := begun.Recovered(); rec != nil {
			until = rec.LastTime
		}
	}

	rest, err := os.MkdirTemp(filepath.Dir(output), ".acltrace-rest-") // the session's own file system may be full
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(rest)
	r := &recorder{o: Options{Model: m}, meta: meta}
	r.meta.UUID = ""
	path := filepath.Join(rest, "rest.aclt")
	r.meta.BlobFile = ""
	w, err := format.Create(path, &r.meta, schema.Of(m), &format.WriterOptions{BlobFile: filepath.Join(rest, "rest.blobs")})
	if err != nil {
		return "", err
	}
	r.meta.UUID = meta.UUID
	r.rows = rows.New(&rows.Options{Model: m, Meta: &r.meta}, w)
	r.rows.Hooks.ThreadName = s.ThreadName
	if err = s.Finish(r.rows); err == nil {
		err = r.reap(s)
	}
	if err = errors.Join(err, r.rows.Finish(), w.Close()); err != nil {
		return "", err
	}
	if taken+written+r.rows.Count.Made() == 0 {
		return "", nil
	}

	r.describe(&r.meta)
	r.meta.Recovered = "the recorder was killed: the trace has the calls that it wrote and those in the programs' buffers"
	r.meta.EndNS, r.meta.Replayable = max(until, r.rows.Last), false
	o := &format.WriterOptions{Whole: true}
	if meta.BlobFile != "" { // the contents stay out of the trace
		o.BlobFile = recoveredName(begun.BlobFile().Path)
	}
	out, err := format.Create(output, &r.meta, schema.Of(m), o)
	if err != nil {
		return "", err
	}
	err = func() error {
		a := format.NewAppender(out)
		if begun != nil {
			if err := a.Append(&format.Source{Reader: begun}); err != nil {
				return err
			}
		}
		tail, err := format.Open(path, nil)
		if err != nil {
			return err
		}
		defer tail.Close()
		if lost := taken - min(taken, written); lost > 0 {
			g := format.Gap{Thread: format.NoThread, From: until, To: until, Calls: lost, Reason: format.RecorderLost}
			for c, err := range tail.Calls(&format.Filter{NoArgs: true, NoData: true}) {
				if err != nil {
					return err
				}
				g.To = max(until, c.Start)
				break
			}
			if err := out.Gap(g); err != nil {
				return err
			}
		}
		return a.Append(&format.Source{Reader: tail})
	}()
	if err != nil {
		return "", errors.Join(err, out.Abort())
	}
	return output, out.Close()
}

// Left is a session whose ring is in no trace: the disk was full, or it belongs to a recorder of another runtime or version.
// Salvage makes a trace of it, in another folder or by that version.
type Left struct {
	Session string
	Err     error
}

// leftovers are what killed recorders had left when a recording began.
type leftovers struct {
	salvaged []string // traces that were made of it
	sessions []Left   // sessions that could not be salvaged
}

// rescue salvages the sessions of killed recorders that no program uses any more.
func rescue(m *api.Model, parent string) (l leftovers) {
	old, _ := filepath.Glob(filepath.Join(parent, "acltrace-*"))
	for _, dir := range old {
		if !session.Abandoned(dir) {
			continue
		}
		if pids := host.Mentioning(dir); len(pids) > 0 {
			l.sessions = append(l.sessions, Left{dir, fmt.Errorf("process %d: %w", pids[0], errUsed)})
			continue
		}
		switch path, err := salvage(m, dir, "", true); {
		case err == nil:
			l.salvaged = append(l.salvaged, path)
		case errors.Is(err, ErrNothingLeft), errors.Is(err, os.ErrNotExist), errors.Is(err, ring.ErrTaken): // another recorder salvages it
		default:
			l.sessions = append(l.sessions, Left{dir, err})
		}
	}
	return l
}
