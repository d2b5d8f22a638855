package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/record/host"
)

// An output is the file of a recording. Its name is that of the newest recording with a call: a file that has the name is moved aside when
// the first call is in the new one, which has a name of its own until then.
//
// A nil older stands for a name that was free.
type output struct {
	at    string // name that the file has now
	older *atomicfile.Successor
	made  os.FileInfo // the file, whatever its name
	moved []string    // where older files are
}

// defaultKeep is how many files that were moved aside stay.
const defaultKeep = 10

// open prepares to write a file of a name. With replace it is written over.
func (f *output) open(name string, replace bool) error {
	f.at = name
	if replace {
		return nil
	}
	var err error
	if f.older, err = atomicfile.Succeed(name); err != nil {
		return fmt.Errorf("create trace: %w", err)
	}
	if f.older != nil {
		f.at = f.older.Name()
	}
	return nil
}

// rename gives the file another name to take.
func (f *output) rename(name string, replace bool) error {
	next := output{made: f.made}
	if err := next.open(name, replace); err != nil {
		return err
	}
	if err := os.Rename(f.at, next.at); err != nil {
		next.leave()
		return err
	}
	f.leave()
	*f = next
	return nil
}

// take gives the file its name.
func (f *output) take() error {
	if f.older == nil {
		return nil
	}
	aside, err := f.older.Take()
	if err != nil {
		return err
	}
	if f.at, f.older = strings.TrimSuffix(f.at, atomicfile.Suffix), nil; aside != "" {
		f.moved = append(f.moved, aside)
	}
	return nil
}

// leave unlocks the older file, which keeps its name.
func (f *output) leave() {
	if f.older != nil {
		_ = f.older.Leave()
		f.older = nil
	}
}

// missing says why there is no file of a name, "" if there is.
func (f *output) missing(name string) string {
	at, err := os.Stat(name)
	switch dir := filepath.Dir(name); {
	case err == nil && os.SameFile(at, f.made):
		return ""
	case errors.Is(err, fs.ErrNotExist) && !host.Exists(dir):
		return fmt.Sprintf("%s: the folder was removed during the recording", name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err.Error()
	}
	return fmt.Sprintf("%s was removed or replaced during the recording", name)
}

// replace gives the trace its name when it has a call.
func (r *recorder) replace() error {
	w := r.b.seg.w
	if r.flight != nil || r.out.older == nil || w.Calls() == w.Lost() {
		return nil
	}
	err := w.Flush()
	if w.Calls() == w.Lost() {
		return err
	}
	if failed := r.out.take(); failed != nil {
		r.unnamed = errors.Join(r.unnamed, fmt.Errorf("name the trace: %w", failed))
		if name := free(r.o.Output); os.Rename(r.out.at, name) == nil {
			r.out.at, r.o.Output = name, name
		}
		r.out.leave()
		return err
	}
	r.prune(r.o.Output)
	return err
}

// settle gives the trace its name at the end. If it has no call and the name is that of an older file, which it reports, the trace is
// removed.
func (r *recorder) settle() (older bool, err error) {
	err = r.replace()
	if r.out.older == nil {
		return false, err
	}
	r.out.leave()
	if err = errors.Join(err, os.Remove(r.out.at)); r.o.BlobFile != "" {
		err = errors.Join(err, os.Remove(r.o.BlobFile))
	}
	return true, err
}

// prune removes the oldest of the traces that were moved aside, with their payloads, if there are too many. It takes its time, and the
// rings fill up meanwhile: it has its own goroutine.
func (r *recorder) prune(path string) {
	all, keep := atomicfile.Asides(path), cmp.Or(r.o.Keep, defaultKeep)
	if len(all) <= keep {
		return
	}
	r.pruning.Go(func() {
		for _, old := range all[:len(all)-keep] {
			t, err := format.Open(old, nil)
			if err != nil {
				continue // not a trace
			}
			blobs := t.BlobFile()
			_ = t.Close()
			if os.Remove(old) == nil && blobs != nil && blobs.Err == nil {
				_ = os.Remove(blobs.Path)
			}
		}
	})
}
