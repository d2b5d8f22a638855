package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// What a recorder that was killed has left in its session: the segments of its ring, and what programs have written since.

// IsSession reports whether a folder is that of a session.
func IsSession(dir string) bool { return exists(filepath.Join(dir, "control")) }

// ErrNothingLeft is returned, wrapped, where a session has nothing to salvage.
var ErrNothingLeft = errors.New("nothing was left in it")

// Salvage makes a trace of what is left in the session of a recorder that is gone, and removes the folder when no
// program uses it any more. An empty output is the name that the recorder would have taken, or the next one that is
// free.
func Salvage(m *api.Model, dir, output string) (string, error) {
	was := left(dir)
	if output == "" {
		output = free(was.Output)
	}
	// Where no trace can be made, each recording comes by here again.
	if !exists(filepath.Dir(output)) {
		return "", fmt.Errorf("the folder of its trace, %s, is gone", output)
	}
	s, err := probe.OpenSession(m, dir, &probe.SessionOptions{PayloadLimit: SmallLimit, KeepRings: true})
	if err != nil {
		return "", err
	}
	made, err := salvageRing(m, dir, output, s.Handed-min(was.Handed, s.Handed), s)
	alive := s.Alive()
	err = errors.Join(err, s.Close())
	if err != nil {
		return "", err
	}
	os.Remove(filepath.Join(dir, collectorFile))
	if !alive && len(users(dir)) == 0 && !exists(filepath.Join(dir, sharedMark)) {
		err = os.RemoveAll(dir)
	}
	if made == "" {
		return "", errors.Join(err, fmt.Errorf("session %s: %w", dir, ErrNothingLeft))
	}
	return made, err
}

// left is what a recorder has noted of itself.
func left(dir string) (c collecting) {
	if b, err := os.ReadFile(filepath.Join(dir, collectorFile)); err != nil || json.Unmarshal(b, &c) != nil || c.Output == "" {
		c.Output = "salvaged.aclt"
	}
	return c
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
func salvageRing(m *api.Model, dir, output string, taken uint64, s *probe.Session) (string, error) {
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
	if list := filepath.Join(dir, kernelList); exists(list) {
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

// Left is a session whose ring is in no trace: the disk was full, or another runtime's or version's recorder has left
// it. Salvage makes a trace of it, elsewhere or by that version.
type Left struct {
	Session string
	Err     error
}

// holdsRing reports whether a session's folder has a ring that is in no trace.
func holdsRing(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "flight", "*.aclt"))
	return len(files) > 0
}

// rescue salvages the rings that recorders have left in sessions that nobody uses any more, and returns the traces, and
// what could not be salvaged.
func rescue(m *api.Model, parent string) (made []string, left []Left) {
	old, _ := filepath.Glob(filepath.Join(parent, "acltrace-*", "flight"))
	for _, f := range old {
		dir := filepath.Dir(f)
		st, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Geteuid() || exists(filepath.Join(dir, sharedMark)) || len(users(dir)) > 0 {
			continue
		}
		switch path, err := Salvage(m, dir, ""); {
		case err == nil:
			made = append(made, path)
		case errors.Is(err, ErrNothingLeft), errors.Is(err, os.ErrNotExist), errors.Is(err, probe.ErrTaken): // another is at it, or was
		default:
			left = append(left, Left{dir, err})
		}
	}
	return made, left
}
