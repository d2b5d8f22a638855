package flight

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/format"
)

// A Remainder is the ring that a killed recorder has left in a session's folder.
type Remainder struct {
	dir   string
	past  string   // "" for none
	files []string // segments, oldest first
}

// Find returns the ring in a session's folder. It may be empty.
func Find(session string) Remainder {
	r := Remainder{dir: Folder(session)}
	pasts, _ := filepath.Glob(filepath.Join(r.dir, "past.*"))
	pasts = slices.DeleteFunc(pasts, func(p string) bool { return fileNumber(p) < 0 }) // partial files
	slices.SortFunc(pasts, func(a, b string) int { return fileNumber(b) - fileNumber(a) })
	for _, p := range pasts {
		if t, err := format.Open(p, nil); err == nil {
			whole := t.Complete()
			t.Close()
			if whole {
				r.past = p
				break
			}
		}
	}
	all, _ := filepath.Glob(filepath.Join(r.dir, "[0-9]*.aclt"))
	slices.SortFunc(all, func(a, b string) int { return fileNumber(a) - fileNumber(b) })
	for _, f := range all {
		if r.past == "" || fileNumber(f) > fileNumber(r.past) {
			r.files = append(r.files, f)
		}
	}
	return r
}

// fileNumber returns the number in a file's name, -1 if it has none.
func fileNumber(path string) int {
	n, _ := parseName(path)
	return n
}

// parseName is the reverse of segmentName, also for the past. It returns -1 for other names.
func parseName(path string) (n int, b before) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".cleared"), "past."), ".")
	if len(parts) != 4 || parts[3] != "aclt" {
		return -1, before{}
	}
	n, err := strconv.Atoi(parts[0])
	calls, err2 := strconv.ParseUint(parts[1], 10, 64)
	lost, err3 := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return -1, before{}
	}
	return n, before{calls, lost}
}

// Meta returns the newest readable segment's meta data, nil if there is none.
func (r *Remainder) Meta() *format.Meta {
	for _, f := range slices.Backward(r.files) {
		if t, err := format.Open(f, nil); err == nil {
			defer t.Close()
			return t.Meta()
		}
	}
	return nil
}

// Remove removes the ring's folder.
func (r *Remainder) Remove() error { return os.RemoveAll(r.dir) }

// Restore continues a ring. taken counts the calls that its recorder had taken from the programs, with lost ones. Restore returns
// how many of them the files have or report as missing.
func Restore(left *Remainder, taken uint64, rec Recording) (f *Flight, had uint64, err error) {
	f = New(Options{}, rec)
	f.dir = left.dir
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, 0, err
	}
	unwritten := format.Gap{Thread: format.NoThread, Reason: format.RecorderLost}
	for _, path := range left.files {
		seg := &segment{path: path}
		seg.Gone = true
		n, before := parseName(path)
		seg.before, f.made = before, max(f.made, n)
		t, err := format.Open(path, nil)
		if err != nil {
			continue
		}
		if c, err := t.Accounted(); err == nil {
			had += c
		}
		if cut := t.Recovered(); cut != nil {
			unwritten.From, unwritten.To = cut.LastTime, cut.LastTime
		}
		for c, err := range t.Calls(&format.Filter{NoArgs: true, NoData: true}) {
			if err == nil {
				seg.begun = c.Start
			}
			break
		}
		t.Close()
		f.ring = append(f.ring, seg)
	}
	f.sealer.past = left.past
	f.sealer.begin(f)
	rec.Rows.Count.Calls = taken
	if err := f.turn(); err != nil {
		return nil, 0, errors.Join(err, f.Leave())
	}
	if older := f.ring[0].before; taken > older.calls+older.lost+had {
		unwritten.Calls = taken - older.calls - older.lost - had
		err = rec.Rows.Missing(unwritten)
	}
	return f, had, err
}
