package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/host"
)

// traceFile is the file of a recording. Its name belongs to the newest recording with a call: while an older file has the
// name, the new one has a temporary name. When it has its first call, the older file is moved aside.
type traceFile struct {
	pattern string                // the requested name, with %h, %p and %r
	name    string                // the name that the trace gets
	blobs   string                // name of the file with the contents of payloads, "" if they are in the trace
	at      string                // current name
	older   *atomicfile.Successor // nil if no older file has the name
	made    os.FileInfo           // identity of the file
	moved   []string              // new names of older files

	overwrite bool
	keep      int   // number of older files that stay
	maxSize   int64 // bytes at which recording ends, 0 for no limit
	tenth     bool  // maxSize was derived from the free space
	full      bool  // maxSize was reached
	unnamed   error // why the trace does not have its name

	pruning sync.WaitGroup
}

// defaultKeep is the default of Options.Keep.
const defaultKeep = 10

// prepare derives the names and the maximum size from the options, and moves nothing aside yet.
func (f *traceFile) prepare(o *Options, env []string) error {
	f.pattern, f.overwrite, f.keep, f.maxSize = o.Output, o.Overwrite, cmp.Or(o.Keep, defaultKeep), o.Limits.MaxSize
	f.name = outputName(o.Output, env, os.Getpid()) // until the program has a PID
	largest := f.name
	if o.BlobFile != "" {
		if f.blobs = outputName(o.BlobFile, env, os.Getpid()); !o.Overwrite {
			f.blobs = free(f.blobs) // an older trace needs its own
		}
		largest = f.blobs
	}
	if f.maxSize == 0 && !o.Capture.Replayable {
		f.maxSize, f.tenth = defaultMaxSize(filepath.Dir(largest)), true
	}
	at, older, err := f.successor(f.name)
	if err == nil {
		f.at, f.older = at, older
	}
	return err
}

func defaultMaxSize(dir string) int64 {
	free, err := host.FreeSpace(dir)
	if err != nil {
		return 10 << 30
	}
	return int64(min(free/10, 10<<30))
}

// successor returns the name under which a file is written that will get a name, and the older file of that name.
func (f *traceFile) successor(name string) (at string, older *atomicfile.Successor, err error) {
	if f.overwrite {
		return name, nil, nil
	}
	if older, err = atomicfile.Succeed(name); err != nil {
		return "", nil, fmt.Errorf("create trace: %w", err)
	}
	if older != nil {
		return older.Name(), older, nil
	}
	return name, nil, nil
}

// named changes the name of the trace when the PID of the program is known. A ring has no file yet.
func (f *traceFile) named(env []string, pid int, ring bool) error {
	name := outputName(f.pattern, env, pid)
	if name == f.name {
		return nil
	}
	if !ring {
		at, older, err := f.successor(name)
		if err != nil {
			return fmt.Errorf("name the trace: %w", err)
		}
		if err := os.Rename(f.at, at); err != nil {
			if older != nil {
				_ = older.Leave()
			}
			return fmt.Errorf("name the trace: %w", err)
		}
		f.leave()
		f.at, f.older = at, older
	}
	f.name = name
	return nil
}

// take gives the file its name.
func (f *traceFile) take() error {
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
func (f *traceFile) leave() {
	if f.older != nil {
		_ = f.older.Leave()
		f.older = nil
	}
}

// remove removes the files of a recording that has not begun.
func (f *traceFile) remove() {
	os.Remove(f.at)
	f.leave()
	if f.blobs != "" {
		os.Remove(f.blobs)
	}
}

// missing returns why there is no file of the trace's name, "" if there is.
func (f *traceFile) missing() string {
	at, err := os.Stat(f.name)
	switch dir := filepath.Dir(f.name); {
	case err == nil && os.SameFile(at, f.made):
		return ""
	case errors.Is(err, fs.ErrNotExist) && !host.Exists(dir):
		return fmt.Sprintf("%s: the folder was removed during the recording", f.name)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err.Error()
	}
	return fmt.Sprintf("%s was removed or replaced during the recording", f.name)
}

// replace gives the trace its name when it has a call.
func (f *traceFile) replace(w *format.Writer) error {
	if f.older == nil || w.Calls() == w.Lost() {
		return nil
	}
	err := w.Flush()
	if w.Calls() == w.Lost() {
		return err
	}
	if failed := f.take(); failed != nil {
		f.unnamed = errors.Join(f.unnamed, fmt.Errorf("name the trace: %w", failed))
		if name := free(f.name); os.Rename(f.at, name) == nil {
			f.at, f.name = name, name
		}
		f.leave()
		return err
	}
	f.prune(f.name)
	return err
}

// settle gives the trace its name at the end. If it has no call and an older file has the name, the trace is removed and
// settle returns true.
func (f *traceFile) settle(w *format.Writer) (older bool, err error) {
	err = f.replace(w)
	if f.older == nil {
		return false, err
	}
	f.leave()
	if err = errors.Join(err, os.Remove(f.at)); f.blobs != "" {
		err = errors.Join(err, os.Remove(f.blobs))
	}
	return true, err
}

// prune removes the oldest traces that were moved aside, with their payload files, if there are more than keep. It has its
// own goroutine, since the rings fill up meanwhile.
func (f *traceFile) prune(path string) {
	all := atomicfile.Asides(path)
	if len(all) <= f.keep {
		return
	}
	f.pruning.Go(func() {
		for _, old := range all[:len(all)-f.keep] {
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

// outputName replaces %h in a name by the host, %r by the rank of the program in its job (0 if unknown), %p by the PID, and
// %% by a percent sign.
func outputName(name string, env []string, pid int) string {
	rank, _ := host.Rank(env)
	return rankName(name, rank, pid)
}

// rankName is outputName for a rank.
func rankName(name string, rank, pid int) string {
	if !strings.Contains(name, "%") {
		return name
	}
	host, _ := os.Hostname()
	return strings.NewReplacer("%%", "%", "%h", host, "%r", strconv.Itoa(rank), "%p", strconv.Itoa(pid)).Replace(name)
}

// free returns a name for a trace that no file has. A folder's name stays: creating the trace then fails.
func free(path string) string {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		return path
	}
	for n := 1; ; n++ {
		name := flight.Numbered(path, n)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) || n > 1e6 {
			return name
		}
	}
}
