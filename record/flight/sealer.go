package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/timeline"
)

// job lists segments to seal into a trace, or to drop if path is "".
type job struct {
	ring     []*segment
	standing *segment // nil for none
	path     string
	meta     *format.Meta
}

// sealer writes traces on its own goroutine. From segments that are dropped it keeps the calls that later ones depend on.
type sealer struct {
	f         *Flight
	jobs      chan job
	done      sync.WaitGroup
	mu        sync.Mutex
	err       error
	past      string // file with the calls that shape the live objects, "" for none
	size      int64  // past's size when ended objects were last removed
	capturing int    // stream captures in progress
	made      []string
	moved     []string // older files' new names
}

// LeastPast is the size in bytes below which the past keeps calls on ended objects. Tests set a smaller one.
var LeastPast int64 = 4 << 20

// begin starts the goroutine. At most a ringful of segments waits for it, so that the recorder uses at most twice its ring's
// memory. Then draining waits. Calls that the programs' rings have no room for are lost and counted.
func (k *sealer) begin(f *Flight) {
	k.f, k.jobs = f, make(chan job, segments)
	k.done.Add(1)
	go func() {
		defer k.done.Done()
		lowerPriority()
		for j := range k.jobs {
			// The past is copied once for all segments that wait.
			var gone []*segment
			for n := len(k.jobs); ; n-- {
				if j.path == "" {
					gone = append(gone, j.ring...)
				} else {
					k.note(k.remember(gone))
					k.note(k.seal(&j))
					gone = nil
				}
				if n == 0 {
					break
				}
				j = <-k.jobs
			}
			k.note(k.remember(gone))
		}
	}()
}

// end waits for the last job.
func (k *sealer) end() {
	close(k.jobs)
	k.done.Wait()
}

func (k *sealer) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = errors.Join(k.err, err)
}

func (k *sealer) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// lowerPriority gives the goroutine's thread less processor time than the draining thread, since sealing can wait and full
// rings can't. The locked thread ends with its goroutine. The lowest priority would be too low: if the program keeps all cores
// busy the thread would hardly run, and a garbage collection, which stops all threads for a moment, would wait for it.
func lowerPriority() {
	runtime.LockOSThread()
	const nice = 5
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), nice)
}

// close writes out a segment. Restored segments are complete.
func (s *segment) close() error {
	if s.W == nil || s.closed {
		return nil
	}
	s.closed = true
	return s.W.Close()
}

// join creates a file and fills it.
func (k *sealer) join(path string, meta *format.Meta, write func(w *format.Writer) error) error {
	w, err := format.Create(path, meta, schema.Of(k.f.rec.Model), &format.WriterOptions{Whole: true})
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// shapes reports whether later calls depend on a call. It must be called in the order in which calls end.
func (k *sealer) shapes(c *format.Call) bool {
	f := k.f.rec.Model.Func(api.ID(c.Func))
	if f == nil || c.Flags&format.Unfinished != 0 {
		return false
	}
	switch f.Capture {
	case api.CaptureBegin, api.UpdateBegin:
		k.capturing++
	case api.CaptureEnd, api.UpdateEnd:
		k.capturing = max(k.capturing-1, 0)
	}
	for i := range c.Data {
		if c.Data[i].Param == api.StackParam {
			return true
		}
	}
	return timeline.AffectsState(f) || k.capturing > 0
}

// remember appends calls that create or change runtime objects to the past, and removes the segments.
func (k *sealer) remember(ss []*segment) error {
	if len(ss) == 0 {
		return nil
	}
	for _, s := range ss {
		defer os.Remove(s.path)
		if err := s.close(); err != nil {
			return err
		}
	}
	next := filepath.Join(k.f.dir, "past."+filepath.Base(ss[len(ss)-1].path))
	err := k.join(next, k.f.rec.Meta, func(w *format.Writer) error {
		a := format.NewAppender(w)
		err := k.append(a, k.past, nil)
		for _, s := range ss {
			if err == nil {
				err = k.append(a, s.path, k.shapes) // segment.before counts the others, and those in gaps
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := k.replace(next); err != nil {
		return err
	}
	st, err := os.Stat(k.past)
	if err != nil || st.Size() < max(LeastPast, 2*k.size) {
		return err
	}
	cleared := next + ".cleared"
	if err := k.join(cleared, k.f.rec.Meta, func(w *format.Writer) error { return k.alive(format.NewAppender(w)) }); err != nil {
		return err
	}
	if err := k.replace(cleared); err != nil {
		return err
	}
	if st, err = os.Stat(k.past); err == nil {
		k.size = st.Size()
	}
	return err
}

func (k *sealer) replace(past string) error {
	was := k.past
	if k.past = past; was == "" {
		return nil
	}
	return os.Remove(was)
}

// append adds a trace's calls for which keep returns true; if keep is nil, all calls and gaps.
func (k *sealer) append(a *format.Appender, path string, keep func(*format.Call) bool) error {
	if path == "" {
		return nil
	}
	r, err := format.Open(path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.Append(&format.Source{Reader: r, Keep: keep, NoGaps: keep != nil})
}

// seal writes the past and some segments into one trace.
func (k *sealer) seal(j *job) error {
	all := j.ring
	if j.standing != nil {
		defer os.Remove(j.standing.path)
		all = append(slices.Clone(all), j.standing)
	}
	for _, s := range all {
		if err := s.close(); err != nil {
			return fmt.Errorf("sealing the ring: %w", err)
		}
	}
	var aside string
	var err error
	if !k.f.rec.Overwrite {
		if aside, err = atomicfile.MoveAside(j.path); err != nil {
			return fmt.Errorf("sealing the ring: %w", err)
		}
	}
	err = k.join(j.path, j.meta, func(w *format.Writer) error {
		a := format.NewAppender(w)
		if k.past != "" {
			if err := k.alive(a); err != nil {
				return err
			}
		}
		if err := older(w, j.ring[0]); err != nil {
			return err
		}
		for _, s := range all {
			if err := k.append(a, s.path, nil); err != nil {
				return err
			}
		}
		return w.SetMeta(j.meta)
	})
	if err != nil {
		return fmt.Errorf("sealing the ring: %w", errors.Join(err, atomicfile.MoveBack(j.path, aside)))
	}
	k.made = append(k.made, j.path)
	if aside != "" {
		k.moved = append(k.moved, aside)
		k.f.rec.Prune(j.path)
	}
	// The sealed segments are the next trace's past.
	return k.remember(j.ring)
}

// older records how many calls before a segment are missing, after the trace got those of the past.
func older(w *format.Writer, s *segment) error {
	for _, g := range []format.Gap{{Calls: s.before.calls - min(s.before.calls, w.Calls()), Reason: format.Outdated}, {Calls: s.before.lost, Reason: format.Dropped}} {
		if g.Thread, g.To = format.NoThread, s.begun; g.Calls == 0 {
			continue
		}
		if err := w.Gap(g); err != nil {
			return err
		}
	}
	return nil
}

// alive adds calls from the past that live objects depend on.
func (k *sealer) alive(a *format.Appender) error {
	r, err := format.Open(k.past, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	keep, err := timeline.Living(r, k.f.rec.Model)
	if err != nil {
		return err
	}
	return a.Append(&format.Source{Reader: r, Keep: func(c *format.Call) bool { return keep[c.Index] }, NoGaps: true})
}
