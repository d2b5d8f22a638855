package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/session"
)

// A recorder that was killed leaves a session with the programs' rings, which nobody has read to the end. A flight recorder leaves its segments
// there, too, and a recorder of everything its file, as far as that was written.

// ErrNothingLeft is returned, wrapped, where a session has nothing to salvage.
var ErrNothingLeft = errors.New("nothing was left in it")

// Salvage makes a trace of what is left in the session of a recorder that is gone, and removes the folder when no
// program uses it any more. An empty output is the name that the recorder would have taken, or the next one that is
// free.
func Salvage(m *api.Model, dir, output string) (string, error) { return salvage(m, dir, output, false) }

// errUsed is wrapped by the error about a session that is to be salvaged only if no program uses it.
var errUsed = errors.New("programs still use it")

func salvage(m *api.Model, dir, output string, unused bool) (string, error) {
	was := session.ReadNote(dir)
	if output == "" {
		if output = free(was.Output); was.WritesFile() {
			output = recoveredName(was.Output)
		}
	}
	// Where no trace can be made, each recording comes by here again.
	if !host.Exists(filepath.Dir(output)) {
		return "", fmt.Errorf("the folder of its trace, %s, is gone", output)
	}
	s, err := ring.Open(m, dir, &ring.Options{PayloadLimit: SmallLimit})
	if err != nil {
		return "", err
	}
	if unused && s.Alive() {
		return "", errors.Join(errUsed, s.Close())
	}
	taken := s.Handed - min(was.Handed, s.Handed)
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

// ringFiles are the past of a ring in a folder, "" for none, and its segments, the oldest first.
func ringFiles(dir string) (past string, segments []string) {
	number := func(path string) int {
		name := strings.TrimPrefix(filepath.Base(path), "past.")
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(name, ".cleared"), ".aclt"))
		if err != nil {
			return -1
		}
		return n
	}
	pasts, _ := filepath.Glob(filepath.Join(dir, "past.*"))
	pasts = slices.DeleteFunc(pasts, func(p string) bool { return number(p) < 0 }) // one that was just being made
	slices.SortFunc(pasts, func(a, b string) int { return number(b) - number(a) })
	for _, p := range pasts {
		if r, err := format.Open(p, nil); err == nil {
			whole := r.Complete()
			r.Close()
			if whole {
				past = p
				break
			}
		}
	}
	all, _ := filepath.Glob(filepath.Join(dir, "[0-9]*.aclt"))
	slices.SortFunc(all, func(a, b string) int { return number(a) - number(b) })
	for _, f := range all {
		if past == "" || number(f) > number(past) {
			segments = append(segments, f)
		}
	}
	return past, segments
}

// salvageRing makes a trace of the ring that lies in a session's folder, with what programs have written since where s
// is not nil. It returns the name of the trace, "" where there was nothing. taken is how many calls the recorder had
// taken.
func salvageRing(m *api.Model, dir, output string, taken uint64, s *ring.Session) (string, error) {
	folder := filepath.Join(dir, "flight")
	past, files := ringFiles(folder)
	r := &recorder{o: Options{Model: m, Output: output, Payload: Small}}
	for _, f := range slices.Backward(files) {
		if rd, err := format.Open(f, nil); err == nil {
			r.meta = *rd.Meta()
			rd.Close()
			break
		}
	}
	if r.meta.StartMono == 0 {
		r.begun(os.Environ())
	}
	r.flight = newFlight(Ring{}, r)
	if list := filepath.Join(dir, kernelList); host.Exists(list) {
		r.kernelList = list
	}
	r.b = newBuilder(m, nil, r.meta.StartMono)
	fl := r.flight
	fl.dir = folder
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	var had uint64
	for _, f := range files {
		seg := &segment{path: f, gone: true}
		if rd, err := format.Open(f, nil); err == nil {
			if c, err := rd.Counts(); err == nil {
				had += c.Calls
			}
			rd.Close()
			fl.ring = append(fl.ring, seg)
		}
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".aclt"))
		fl.made = max(fl.made, n)
	}
	if len(fl.ring) > 0 {
		// What had left the ring, and what the recorder had taken and not written.
		fl.ring[0].first = taken - min(had, taken)
	}
	fl.keeper.past = past
	fl.keeper.begin(fl)
	r.b.calls = taken
	if s != nil {
		err := fl.turn()
		if err == nil {
			r.b.name = s.ThreadName
			if err = s.Finish(r.b); err == nil {
				_, err = s.Reap(r.b)
			}
			err = errors.Join(err, r.b.finish())
		}
		if err != nil {
			return "", errors.Join(err, fl.leave())
		}
	}
	if had+uint64(r.b.calls-taken) == 0 {
		return "", errors.Join(fl.leave(), os.RemoveAll(folder))
	}
	r.meta.Recovered = "the recorder was killed: this is what its ring held, and what the programs wrote after it"
	if _, err := fl.end("the recorder was killed"); err != nil {
		return "", err
	}
	return output, nil
}

// recoveredName is the name of the trace that is made of what a recording of everything has left: beside its own.
func recoveredName(output string) string {
	ext := filepath.Ext(output)
	return free(strings.TrimSuffix(output, ext) + ".recovered" + ext)
}

// salvageFile makes a trace of the file that a recorder had begun, which stays, and of what the programs' rings hold. It returns the trace's
// name, "" if the recorder had written all. The recorder had taken so many calls out of the rings.
func salvageFile(m *api.Model, was *session.Note, output string, taken uint64, s *ring.Session) (string, error) {
	meta := format.Meta{UUID: was.UUID, API: m.Name, StartMono: was.Begun}
	var written uint64 // calls in the file
	var until int64
	begun := was.Open()
	if begun != nil {
		defer begun.Close()
		if begun.Complete() {
			return "", nil
		}
		counts, err := begun.Counts()
		if err != nil {
			return "", err
		}
		meta, written = *begun.Meta(), counts.Calls
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
	w, err := format.Create(path, &r.meta, schema.Of(m), nil)
	if err != nil {
		return "", err
	}
	r.meta.UUID = meta.UUID
	r.b = newBuilder(m, w, meta.StartMono)
	r.b.name = s.ThreadName
	if err = s.Finish(r.b); err == nil {
		err = r.reap(s)
	}
	if err = errors.Join(err, r.b.finish(), w.Close()); err != nil {
		return "", err
	}
	if written+r.b.calls == 0 {
		return "", nil
	}

	r.describe(&r.meta)
	r.meta.Recovered = "the recorder was killed: this is what it had written, and what the programs' rings held"
	r.meta.EndNS, r.meta.Replayable = max(until, r.b.last), false
	out, err := format.Create(output, &r.meta, schema.Of(m), &format.WriterOptions{Whole: true})
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

// Left is a session whose ring is in no trace: the disk was full, or another runtime's or version's recorder has left
// it. Salvage makes a trace of it, elsewhere or by that version.
type Left struct {
	Session string
	Err     error
}

// rescue salvages what recorders have left in sessions that no program uses any more, and returns the traces, and the sessions that stay.
func rescue(m *api.Model, parent string) (made []string, left []Left) {
	old, _ := filepath.Glob(filepath.Join(parent, "acltrace-*"))
	for _, dir := range old {
		if !session.Abandoned(dir) {
			continue
		}
		if pids := host.Mentioning(dir); len(pids) > 0 {
			left = append(left, Left{dir, fmt.Errorf("process %d: %w", pids[0], errUsed)})
			continue
		}
		switch path, err := salvage(m, dir, "", true); {
		case err == nil:
			made = append(made, path)
		case errors.Is(err, ErrNothingLeft), errors.Is(err, os.ErrNotExist), errors.Is(err, ring.ErrTaken): // another is at it, or was
		default:
			left = append(left, Left{dir, err})
		}
	}
	return made, left
}
