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
	name := strings.TrimPrefix(filepath.Base(path), "past.")
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(name, ".cleared"), ".aclt"))
	if err != nil {
		return -1
	}
	return n
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

// Restore continues a ring. taken counts the calls that its recorder had taken from the programs. If more is set, a new
// segment begins for calls that programs have written since. Restore returns how many calls the files have.
func Restore(left *Remainder, taken uint64, more bool, rec Recording) (f *Flight, had uint64, err error) {
	f = New(Options{}, rec)
	f.dir = left.dir
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, 0, err
	}
	for _, path := range left.files {
		seg := &segment{path: path}
		seg.Gone = true
		if t, err := format.Open(path, nil); err == nil {
			if c, err := t.Counts(); err == nil {
				had += c.Calls
			}
			t.Close()
			f.ring = append(f.ring, seg)
		}
		f.made = max(f.made, fileNumber(path))
	}
	if len(f.ring) > 0 {
		// Calls that had left the ring, and calls that the recorder has taken and not written.
		f.ring[0].First = taken - min(had, taken)
	}
	f.sealer.past = left.past
	f.sealer.begin(f)
	rec.Rows.Count.Calls = taken
	if more {
		if err := f.turn(); err != nil {
			return nil, 0, errors.Join(err, f.Leave())
		}
	}
	return f, had, nil
}
