package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/timeline"
)

// Ring says how a flight recorder works: it keeps the newest calls of a program and seals them into a trace when something has
// happened. The zero value of each field is its default.
type Ring struct {
	Bytes int64         // of the calls that are kept, as they lie in memory; default 64 MiB where Time is 0, else 1 GiB
	Time  time.Duration // that they go back, 0 for as long as Bytes allow
	Slow  time.Duration // a call that takes longer is a reason to seal, 0 for none; calls that wait for reports by design are none
	// SlowOf is the same for single functions, by name.
	SlowOf map[string]time.Duration
	Codes  []int32       // error codes that are a reason to seal, beside those of the device
	Most   int           // traces of one recording, the one at its end apart; default 8
	After  time.Duration // how long to go on recording after the reason, for what the program does about it; default 500 ms
}

// segments is how many parts the ring has: one of them is let go of at a time.
const segments = 8

// flight is the ring of a flight recorder. The calls lie in small traces of their own, in the session's folder. What a
// segment that is let go of has of calls that shape the runtime's objects goes into the past, so that what is left is
// always understandable.
//
// All but the keeper belongs to the goroutine that drains.
type flight struct {
	o      Ring
	r      *recorder
	dir    string
	ring   []*segment // the oldest first, the last one is written to
	made   int        // segments so far
	sealed int
	reason string // why to seal, "" for no reason
	due    time.Time
	until  int64 // and the same by the clock of the calls
	looked time.Time
	keeper keeper
	s      *ring.Session       // nil for what is salvaged
	stood  map[threadKey]stood // by thread, the latest call that took too long before it returned
}

// stood is a call of a thread: its number there, and when it begins.
type stood struct {
	seq   uint64
	start int64
}

// startOff is how much the start of a call may differ from one look to the next, since the clock is adjusted meanwhile.
const startOff = int64(time.Millisecond)

func newFlight(o Ring, r *recorder) *flight {
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
		if o.Time > 0 {
			o.Bytes = 1 << 30
		}
	}
	if o.Most == 0 {
		o.Most = 8
	}
	if o.After == 0 {
		o.After = 500 * time.Millisecond
	}
	return &flight{o: o, r: r, stood: map[threadKey]stood{}}
}

// open begins in a folder.
func (f *flight) open(s *ring.Session) error {
	f.s, f.dir = s, filepath.Join(s.Dir(), "flight")
	if err := errors.Join(os.RemoveAll(f.dir), os.Mkdir(f.dir, 0o700)); err != nil {
		return err
	}
	f.keeper.begin(f)
	f.r.b.called = f.called
	return f.turn()
}

// turn begins a new segment.
func (f *flight) turn() error {
	b := f.r.b
	f.made++
	s := &segment{path: filepath.Join(f.dir, fmt.Sprintf("%d.aclt", f.made)), begun: probe.Now() - f.r.meta.StartMono, first: b.calls}
	var err error
	if s.w, err = format.Create(s.path, &f.r.meta, schema.Of(f.r.o.Model), nil); err != nil {
		return fmt.Errorf("the ring: %w", err)
	}
	if last := b.seg; last.w != nil {
		if err := s.w.TakeOver(last.w); err != nil {
			return fmt.Errorf("the ring: %w", err)
		}
	}
	for _, p := range b.procRows {
		if _, err := s.w.Process(p); err != nil {
			return err
		}
	}
	for _, t := range b.threadRows {
		if _, err := s.w.Thread(t); err != nil {
			return err
		}
	}
	b.seg = s
	f.ring = append(f.ring, s)
	return nil
}

// size is the number of bytes of all segments, as far as they were written out.
func (f *flight) size() (n int64) {
	for _, s := range f.ring {
		n += s.w.Size()
	}
	return n
}

// tick is called between drains.
func (f *flight) tick(now time.Time) error {
	if f.reason != "" && now.After(f.due) {
		if err := f.seal(f.reason); err != nil {
			return err
		}
	}
	if now.Sub(f.looked) < 20*time.Millisecond {
		return f.keeper.failed()
	}
	f.looked = now
	f.stands(now)
	return f.rotate()
}

// slow reports whether a call of a function takes too long.
func (o *Ring) slow(fn *api.Func, took int64) bool {
	limit, ok := o.SlowOf[fn.Name]
	if !ok && !fn.PollsCallbacks {
		limit = o.Slow
	}
	return limit > 0 && took > limit.Nanoseconds()
}

// stands looks for a call that has not returned for too long.
func (f *flight) stands(now time.Time) {
	if f.o.Slow == 0 && f.o.SlowOf == nil || f.reason != "" || f.sealed >= f.o.Most {
		return
	}
	for _, c := range f.s.Standing() {
		fn, k := f.r.o.Model.Func(c.Func), threadKey{c.PID, c.TID}
		took := probe.Now() - c.Start
		if was, ok := f.stood[k]; !f.o.slow(fn, took) || ok && was.seq == c.Seq {
			continue
		}
		f.stood[k] = stood{c.Seq, c.Start - f.r.meta.StartMono}
		f.reason = fmt.Sprintf("%s of thread %d has not returned for %v", fn.Name, c.TID, time.Duration(took).Round(time.Millisecond))
		f.due, f.until = now.Add(f.o.After), probe.Now()-f.r.meta.StartMono+f.o.After.Nanoseconds()
		return
	}
}

// rotate begins a new segment where the last one is full, and lets go of those that are too many.
func (f *flight) rotate() error {
	at := probe.Now() - f.r.meta.StartMono
	last := f.ring[len(f.ring)-1]
	if last.w.Size() >= f.o.Bytes/segments || f.o.Time > 0 && at-last.begun >= f.o.Time.Nanoseconds()/segments {
		if err := f.turn(); err != nil {
			return err
		}
	}
	if f.reason != "" && f.size() < 2*f.o.Bytes {
		return nil // what led to the reason stays until it is sealed
	}
	for len(f.ring) > 2 && (f.size() > f.o.Bytes || f.o.Time > 0 && at-f.ring[1].begun > f.o.Time.Nanoseconds()) {
		s := f.ring[0]
		f.ring = f.ring[1:]
		if err := f.close(s); err != nil {
			return err
		}
		f.keeper.jobs <- job{ring: []*segment{s}}
	}
	return f.keeper.failed()
}

// close ends the writing to a segment: what is still to come for its calls is not kept. The keeper writes out what it
// has, since the programs fill their rings meanwhile.
func (f *flight) close(s *segment) error {
	b := f.r.b
	if s.gone {
		return nil
	}
	for k, p := range b.parts {
		if p.at.segment == s {
			if err := b.abandon(k, p, format.Dropped); err != nil {
				return err
			}
		}
	}
	if err := b.unsynchronized(s); err != nil {
		return err
	}
	s.gone = true
	return nil
}

// called looks at a call for a reason to seal. One drain may bring more calls than the ring holds.
func (f *flight) called(fn *api.Func, c *format.Call) error {
	if f.reason != "" && c.Start > f.until {
		if err := f.seal(f.reason); err != nil {
			return err
		}
	}
	if f.r.b.calls%rotateCalls == 0 {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	f.trouble(fn, c)
	return nil
}

// rotateCalls is after how many calls a ring is looked at.
const rotateCalls = 4096

func (f *flight) trouble(fn *api.Func, c *format.Call) {
	if b := f.r.b; len(f.stood) > 0 && int(c.Thread) < len(b.threadRows) {
		t := &b.threadRows[c.Thread]
		k := threadKey{b.procRows[t.Process].PID, t.TID}
		if was, ok := f.stood[k]; ok && max(c.Start-was.start, was.start-c.Start) < startOff {
			return // it was a reason before it returned
		}
	}
	if f.reason != "" || f.sealed >= f.o.Most {
		return
	}
	done := c.Flags&format.Unfinished == 0
	code := int32(c.Ret)
	switch {
	case done && fn.RetError && code != 0 && f.isFault(fn, code):
		f.reason = fmt.Sprintf("%s returned %s (%d)", fn.Name, f.r.o.Model.ErrorName(int64(code)), code)
	case done && f.o.slow(fn, c.End-c.Start):
		f.reason = fmt.Sprintf("%s took %v", fn.Name, time.Duration(c.End-c.Start).Round(time.Microsecond))
	default:
		return
	}
	f.due, f.until = time.Now().Add(f.o.After), c.End+f.o.After.Nanoseconds()
}

func (f *flight) isFault(fn *api.Func, code int32) bool {
	if f.r.o.Model.DeviceFault(code) || fn.Sync != api.NoSync && fn.Sync != api.PollStream && fn.Sync != api.PollEvent {
		return true
	}
	for _, c := range f.o.Codes {
		if c == code {
			return true
		}
	}
	return false
}

// seal makes a trace of what is in the ring, beside the recording, and begins a new ring.
func (f *flight) seal(reason string) error {
	if f.s != nil {
		// The trace has the calls that threads are in as calls that never returned. When they return they come again, into the next one.
		for _, c := range f.s.Standing() {
			if err := f.r.b.standing(&c); err != nil {
				return err
			}
		}
	}
	ring := f.ring
	for _, s := range ring {
		if err := f.close(s); err != nil {
			return err
		}
	}
	f.ring = nil
	if err := f.turn(); err != nil {
		return err
	}
	meta := f.r.meta
	meta.UUID = format.NewUUID()
	meta.Sealed, meta.EndNS = reason, probe.Now()-meta.StartMono
	f.r.describe(&meta)
	meta.Replayable = false
	f.sealed++
	f.reason = ""
	f.keeper.jobs <- job{ring: ring, path: numbered(f.r.o.Output, f.sealed), meta: &meta}
	return nil
}

// numbered is the name of the nth trace of a recording.
func numbered(path string, n int) string {
	if n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// end seals what is left and returns the traces that were made. A ring that can't be sealed, as on a full disk, stays
// in its folder, to be salvaged from there.
func (f *flight) end(reason string) ([]string, error) {
	if f.reason != "" {
		reason = f.reason
	}
	var err error
	if f.r.b.calls > 0 || f.sealed > 0 || f.r.o.Overwrite || !host.Exists(f.r.o.Output) { // or else an empty trace would replace an older one
		err = f.seal(reason)
	}
	sealed := err == nil
	close(f.keeper.jobs)
	f.keeper.done.Wait()
	for _, s := range f.ring {
		switch {
		case s.w == nil || s.closed: // of a recorder that was killed, or written out
		case sealed:
			err = errors.Join(err, s.w.Abort(), os.Remove(s.path)) // begun when the ring was sealed
		default:
			err = errors.Join(err, s.close())
		}
		s.gone = true
	}
	if err = errors.Join(err, f.keeper.failed()); err == nil {
		err = os.RemoveAll(f.dir)
	}
	return f.keeper.made, err
}

// leave ends without a trace: what was written stays in the folder.
func (f *flight) leave() (err error) {
	close(f.keeper.jobs)
	f.keeper.done.Wait()
	for _, s := range f.ring {
		err = errors.Join(err, s.close())
		s.gone = true
	}
	return errors.Join(err, f.keeper.failed())
}

// A job of the keeper: segments to seal into a trace, or, without a path, to let go of.
type job struct {
	ring []*segment
	path string
	meta *format.Meta
}

// keeper works beside the recording: it takes from segments that are let go of what later calls need to be understood, and seals traces.
type keeper struct {
	f         *flight
	jobs      chan job
	done      sync.WaitGroup
	mu        sync.Mutex
	err       error
	past      string // file with the calls that shape what lives, "" for none
	size      int64  // of it when it was last cleared of what has ended
	capturing int    // captures that go on
	made      []string
	moved     []string // older files that had these names
}

// leastPast is the size in bytes below which the past is not cleared of what has ended; tests have a smaller one.
var leastPast int64 = 4 << 20

// begin starts the keeper. At most a ring of segments waits for it, so that the recorder takes no more than twice the memory of its ring:
// then draining waits, and what the programs' own rings have no room for is lost and counted.
func (k *keeper) begin(f *flight) {
	k.f, k.jobs = f, make(chan job, segments)
	k.done.Add(1)
	go func() {
		defer k.done.Done()
		aside()
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

func (k *keeper) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = errors.Join(k.err, err)
}

// aside has the thread of the calling goroutine take less of the cores than others, the recorder's draining too: what
// is sealed can wait, and rings that fill up can't. The thread, being locked, ends with the goroutine. It does not take
// the least: where the program keeps all cores busy a thread of the lowest priority hardly runs, and the collector of
// garbage, which stops all threads of the recorder for a moment, would wait for it, and the draining with it.
func aside() {
	runtime.LockOSThread()
	const nice = 5
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), nice)
}

// close writes out what a segment has. Segments of a recorder that was killed are as it left them.
func (s *segment) close() error {
	if s.w == nil || s.closed {
		return nil
	}
	s.closed = true
	return s.w.Close()
}

func (k *keeper) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// join writes sources into a new file.
func (k *keeper) join(path string, meta *format.Meta, write func(w *format.Writer) error) error {
	w, err := format.Create(path, meta, schema.Of(k.f.r.o.Model), &format.WriterOptions{Whole: true})
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// shapes is what a segment's calls are asked, in the order of their ends, when only those are kept that shape what comes later.
func (k *keeper) shapes(c *format.Call) bool {
	f := k.f.r.o.Model.Func(api.ID(c.Func))
	if f == nil || c.Flags&format.Unfinished != 0 {
		return false
	}
	switch f.Capture {
	case api.CaptureBegin:
		k.capturing++
	case api.CaptureEnd:
		k.capturing = max(k.capturing-1, 0)
	}
	for i := range c.Data {
		if c.Data[i].Param == api.StackParam {
			return true
		}
	}
	return timeline.AffectsState(f) || k.capturing > 0
}

// remember puts what segments have of calls that shape the runtime's objects behind the past.
func (k *keeper) remember(ss []*segment) error {
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
	err := k.join(next, &k.f.r.meta, func(w *format.Writer) error {
		a := format.NewAppender(w)
		err := k.append(a, k.past, nil)
		for _, s := range ss {
			if err == nil {
				err = k.append(a, s.path, k.shapes)
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
	if err != nil || st.Size() < max(leastPast, 2*k.size) {
		return err
	}
	cleared := next + ".cleared"
	if err := k.join(cleared, &k.f.r.meta, func(w *format.Writer) error { return k.alive(format.NewAppender(w)) }); err != nil {
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

func (k *keeper) replace(past string) error {
	was := k.past
	if k.past = past; was == "" {
		return nil
	}
	return os.Remove(was)
}

// append adds a trace, or those of its calls that are kept.
func (k *keeper) append(a *format.Appender, path string, keep func(*format.Call) bool) error {
	if path == "" {
		return nil
	}
	r, err := format.Open(path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.Append(&format.Source{Reader: r, Keep: keep})
}

// seal writes the past and some segments into one trace.
func (k *keeper) seal(j *job) error {
	for _, s := range j.ring {
		if err := s.close(); err != nil {
			return fmt.Errorf("sealing the ring: %w", err)
		}
	}
	aside, err := k.aside(j.path)
	if err != nil {
		return fmt.Errorf("sealing the ring: %w", err)
	}
	err = k.join(j.path, j.meta, func(w *format.Writer) error {
		a := format.NewAppender(w)
		if k.past != "" {
			if err := k.alive(a); err != nil {
				return err
			}
		}
		if left := j.ring[0].first; left > 0 {
			if err := w.Gap(format.Gap{Thread: format.NoThread, From: 0, To: j.ring[0].begun, Calls: left - min(left, w.Calls()), Reason: format.Outdated}); err != nil {
				return err
			}
		}
		for _, s := range j.ring {
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
		k.f.r.prune(j.path)
	}
	// What was sealed is let go of: the next trace has it as its past.
	return k.remember(j.ring)
}

// aside makes room for a trace of a name.
func (k *keeper) aside(path string) (string, error) {
	if k.f.r.o.Overwrite {
		return "", nil
	}
	return atomicfile.MoveAside(path)
}

// alive adds those calls of the past that shape what is alive.
func (k *keeper) alive(a *format.Appender) error {
	r, err := format.Open(k.past, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	keep, err := timeline.Living(r, k.f.r.o.Model)
	if err != nil {
		return err
	}
	return a.Append(&format.Source{Reader: r, Keep: func(c *format.Call) bool { return keep[c.Index] }})
}
