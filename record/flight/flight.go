// Package flight is the flight recorder: it keeps the newest calls of a recording and seals them into a trace when
// something happens.
//
// The recorder creates a Flight for a recording with a ring. Open starts it in the session's folder. From then on it hooks
// into the recording's rows.Builder, and Tick runs between drains. End seals what is left. After the recorder was killed,
// Restore continues with the files in the folder. A sealer writes traces on its own goroutine.
//
// A Flight never reads the rings that programs write to, and never decides how a recording ends.
package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/rows"
)

// Options are a flight recorder's parameters. A zero field means its default.
type Options struct {
	Bytes int64         // memory for the kept calls; default 64 MiB, or 1 GiB with Time
	Time  time.Duration // largest age of a kept call; default no limit
	// Slow is the duration above which a call seals the ring; default none. It excludes calls that wait for reports by design.
	Slow   time.Duration
	SlowOf map[string]time.Duration // limits for single functions by name
	Codes  []int32                  // error codes that seal the ring, besides device faults
	Most   int                      // most traces besides the one at the end; default 8
	After  time.Duration            // how long recording goes on after a reason to seal; default 500 ms
}

// Recording is the part of a recording that a Flight uses.
type Recording struct {
	Model     *api.Model
	Meta      *format.Meta
	Rows      *rows.Builder
	Output    func() string      // first trace's name
	Overwrite bool               // replace older files, instead of moving them aside
	Describe  func(*format.Meta) // adds facts about the program and the machine
	Prune     func(path string)  // removes traces that were moved aside, if there are too many
}

// segments is how many files a ring has. They are dropped one at a time.
const segments = 8

// A Flight is a ring with small traces in the session's folder. Before a segment is dropped, its calls that create or change
// the runtime's objects are copied to the past. Later calls refer to these objects.
//
// All but the sealer belongs to the goroutine that drains.
type Flight struct {
	o        Options
	rec      Recording
	dir      string
	ring     []*segment // oldest first; the last one is written to
	made     int        // segments so far
	sealed   int        // traces so far
	reason   reason
	looked   time.Time // latest check of the ring
	sealer   sealer
	stands   func() []probe.Call // returns the calls that have not returned; nil in a Restore, whose programs are not followed
	reported map[thread]standing // by thread, the latest call that was reported slow before it returned
	waits    map[failedWait]bool // waits that failed without a device error
	best     best
}

// weight says how much a reason to seal explains.
type weight uint8

const (
	plain      weight = iota // an end, a request, a slow call, a code that Options name
	waitFailed               // without a device error
	hang                     // a call that has not returned
	deviceFault
)

// best is the trace that explains most, counted from 1, and the call that has not returned if its reason is a hang.
type best struct {
	trace int
	weight
	stands thread
}

// reason is why the ring will be sealed.
type reason struct {
	text string // "" for none
	weight
	stands thread // of a hang
	due    time.Time
	until  int64 // due, on the trace's clock
}

// segment is one file in the ring.
type segment struct {
	rows.Segment
	path   string
	before before
	begun  int64 // on the trace's clock
	closed bool  // by the sealer
}

// before are the calls before a segment.
type before struct{ calls, lost uint64 }

// segmentName returns the name of a segment's file. It has the numbers of calls before the segment, for Restore.
func segmentName(n int, b before) string { return fmt.Sprintf("%d.%d.%d.aclt", n, b.calls, b.lost) }

// before returns the calls so far.
func (f *Flight) before() before {
	n := &f.rec.Rows.Count
	return before{n.Calls, n.Lost}
}

type thread struct{ pid, tid int }

// failedWait is a wait that failed without a device error. Programs that wait in short slices repeat it.
type failedWait struct {
	pid  int
	fn   api.ID
	code int32
}

type standing struct {
	seq   uint64
	start int64
}

// startOff is the most in nanoseconds by which a call's start differs from one look to the next, since the clock is adjusted
// meanwhile.
const startOff = int64(time.Millisecond)

// New returns a Flight, which records nothing until Open.
func New(o Options, rec Recording) *Flight {
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
	return &Flight{o: o, rec: rec, reported: map[thread]standing{}, waits: map[failedWait]bool{}}
}

// Open starts the ring in a session's folder.
func (f *Flight) Open(s *ring.Session) error {
	f.stands, f.dir = s.Standing, Folder(s.Dir())
	if err := errors.Join(os.RemoveAll(f.dir), os.Mkdir(f.dir, 0o700)); err != nil {
		return err
	}
	f.sealer.begin(f)
	f.rec.Rows.Hooks.Call = f.called
	return f.turn()
}

// Folder returns the ring's folder in a session's folder.
func Folder(session string) string { return filepath.Join(session, "flight") }

// now returns the time on the trace's clock.
func (f *Flight) now() int64 { return probe.Now() - f.rec.Meta.StartMono }

// turn begins a new segment of the ring.
func (f *Flight) turn() error {
	f.made++
	s, err := f.begin(segmentName(f.made, f.before()))
	if err != nil {
		return err
	}
	f.ring = append(f.ring, s)
	return nil
}

// begin begins a segment, to which all rows go from now on.
func (f *Flight) begin(name string) (*segment, error) {
	b := f.rec.Rows
	s := &segment{path: filepath.Join(f.dir, name), before: f.before(), begun: f.now()}
	s.First = b.Count.Calls
	var err error
	if s.W, err = format.Create(s.path, f.rec.Meta, schema.Of(f.rec.Model), nil); err != nil {
		return nil, fmt.Errorf("the ring: %w", err)
	}
	if last := b.Writer(); last != nil {
		if err := s.W.TakeOver(last); err != nil {
			return nil, fmt.Errorf("the ring: %w", err)
		}
	}
	return s, b.Turn(&s.Segment)
}

// Size returns how many bytes all segments have written out.
func (f *Flight) Size() (n int64) {
	for _, s := range f.ring {
		n += s.W.Size()
	}
	return n
}

// Sealed returns the traces so far, including those that are being written.
func (f *Flight) Sealed() (names []string) {
	for n := range f.sealed {
		names = append(names, Numbered(f.rec.Output(), n+1))
	}
	return names
}

// Best returns the index of the trace that explains most: the first one of a device error, a hang or a failed wait, in this order, otherwise the
// last one. crashed: the program ended by a signal, which explains more than a failed wait.
func (f *Flight) Best(crashed bool) int {
	if crashed && f.best.weight < hang || f.best.trace == 0 {
		return f.sealed - 1
	}
	return f.best.trace - 1
}

// Tick must be called between drains.
func (f *Flight) Tick(now time.Time) error {
	if f.reason.text != "" && now.After(f.reason.due) {
		if err := f.Seal(f.reason.text); err != nil {
			return err
		}
	}
	if now.Sub(f.looked) < 20*time.Millisecond {
		return f.sealer.failed()
	}
	f.looked = now
	f.checkStanding()
	return f.rotate()
}

// sealIn sets the reason to seal. The seal is due after Options.After. at is the present time on the trace's clock.
func (f *Flight) sealIn(at int64, text string) {
	f.reason = reason{text: text, due: time.Now().Add(f.o.After), until: at + f.o.After.Nanoseconds()}
}

// slow reports whether a call takes too long.
func (o *Options) slow(fn *api.Func, took int64) bool {
	limit, ok := o.SlowOf[fn.Name]
	if !ok && !fn.PollsCallbacks {
		limit = o.Slow
	}
	return limit > 0 && took > limit.Nanoseconds()
}

// checkStanding looks for a slow call that has not returned yet.
func (f *Flight) checkStanding() {
	if f.o.Slow == 0 && f.o.SlowOf == nil || f.reason.text != "" || f.sealed >= f.o.Most {
		return
	}
	for _, c := range f.stands() {
		fn, k := f.rec.Model.Func(c.Func), thread{c.PID, c.TID}
		took := probe.Now() - c.Start
		if was, ok := f.reported[k]; !f.o.slow(fn, took) || ok && was.seq == c.Seq {
			continue
		}
		f.reported[k] = standing{c.Seq, c.Start - f.rec.Meta.StartMono}
		f.sealIn(f.now(), fmt.Sprintf("%s of thread %d has not returned for %s", fn.Name, c.TID, human.Duration(took)))
		f.reason.weight, f.reason.stands = hang, k
		return
	}
}

// rotate begins a new segment if the latest is full, and drops old ones.
func (f *Flight) rotate() error {
	at := f.now()
	last := f.ring[len(f.ring)-1]
	if last.W.Size() >= f.o.Bytes/segments || f.o.Time > 0 && at-last.begun >= f.o.Time.Nanoseconds()/segments {
		if err := f.turn(); err != nil {
			return err
		}
	}
	if f.reason.text != "" && f.Size() < 2*f.o.Bytes {
		return nil // keep the calls before the reason until they are sealed
	}
	for len(f.ring) > 2 && (f.Size() > f.o.Bytes || f.o.Time > 0 && at-f.ring[1].begun > f.o.Time.Nanoseconds()) {
		s := f.ring[0]
		f.ring = f.ring[1:]
		if err := f.rec.Rows.Leave(&s.Segment); err != nil {
			return err
		}
		f.sealer.jobs <- job{ring: []*segment{s}}
	}
	return f.sealer.failed()
}

// called runs before each call is written. One drain may bring more calls than the ring holds.
func (f *Flight) called(fn *api.Func, c *format.Call) error {
	if f.reason.text != "" && c.Start > f.reason.until {
		if err := f.Seal(f.reason.text); err != nil {
			return err
		}
	}
	if f.rec.Rows.Count.Calls%rotateCalls == 0 {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	f.checkCall(fn, c)
	return nil
}

// rotateCalls is how many calls are between two checks within a drain.
const rotateCalls = 4096

// checkCall looks for a reason to seal in a call.
func (f *Flight) checkCall(fn *api.Func, c *format.Call) {
	if len(f.reported) > 0 {
		pid, tid, ok := f.rec.Rows.Thread(c.Thread)
		if was, stood := f.reported[thread{pid, tid}]; ok && stood && max(c.Start-was.start, was.start-c.Start) < startOff {
			if c.Flags&format.Unfinished == 0 && f.best.weight == hang && f.best.stands == (thread{pid, tid}) {
				f.best.weight = plain
			}
			return // it was a reason before it returned
		}
	}
	if f.reason.text != "" || f.sealed >= f.o.Most || c.Flags&format.Unfinished != 0 {
		return
	}
	code := int32(c.Ret)
	switch {
	case fn.RetError && code != 0 && f.isFault(fn, c.Thread, code):
		f.sealIn(c.End, fmt.Sprintf("%s returned %s (%d)", fn.Name, f.rec.Model.ErrorName(int64(code)), code))
		switch {
		case f.rec.Model.DeviceFault(code):
			f.reason.weight = deviceFault
		case fn.Sync != api.NoSync:
			f.reason.weight = waitFailed
		}
	case f.o.slow(fn, c.End-c.Start):
		f.sealIn(c.End, fmt.Sprintf("%s took %s", fn.Name, human.Duration(c.End-c.Start)))
	}
}

// isFault reports whether a returned error is a reason to seal: a device error, a code that Options name, or a wait that failed
// for the first time in its process. A program that goes on after such a wait must not use up all traces before a device error.
func (f *Flight) isFault(fn *api.Func, th uint32, code int32) bool {
	switch {
	case f.rec.Model.DeviceFault(code) || slices.Contains(f.o.Codes, code):
		return true
	case fn.Sync == api.NoSync || fn.Sync == api.PollStream || fn.Sync == api.PollEvent:
		return false
	}
	pid, _, _ := f.rec.Rows.Thread(th)
	k := failedWait{pid, fn.ID, code}
	first := !f.waits[k]
	f.waits[k] = true
	return first
}

// Seal writes the ring into a trace, and begins a new ring. Recording goes on meanwhile.
func (f *Flight) Seal(reason string) error {
	ring := f.ring
	for _, s := range ring {
		if err := f.rec.Rows.Leave(&s.Segment); err != nil {
			return err
		}
	}
	standing, err := f.standing()
	if err != nil {
		return err
	}
	f.ring = nil
	if err := f.turn(); err != nil {
		return err
	}
	meta := *f.rec.Meta
	meta.UUID = format.NewUUID()
	meta.Sealed, meta.EndNS = reason, f.now()
	f.rec.Describe(&meta)
	meta.Replayable = false
	f.sealed++
	why := plain
	if reason == f.reason.text {
		why = f.reason.weight
	}
	if why > f.best.weight || why == plain && f.best.weight == plain {
		f.best = best{f.sealed, why, f.reason.stands}
	}
	f.reason.text = ""
	f.sealer.jobs <- job{ring: ring, standing: standing, path: Numbered(f.rec.Output(), f.sealed), meta: &meta}
	return nil
}

// standing writes the calls that have not returned into a segment of their own, nil if there are none. They are unfinished in
// this trace, and when they return they are in the next one. So they are not in the ring, which holds each call once.
func (f *Flight) standing() (s *segment, err error) {
	if f.stands == nil {
		return nil, nil
	}
	calls := f.stands()
	if len(calls) == 0 {
		return nil, nil
	}
	if s, err = f.begin(fmt.Sprintf("standing.%d.aclt", f.made)); err != nil {
		return nil, err
	}
	for i := range calls {
		err = errors.Join(err, f.rec.Rows.Standing(&calls[i]))
	}
	s.Gone = true
	return s, err
}

// Numbered returns the name of a recording's nth trace.
func Numbered(path string, n int) string {
	if n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// End seals the rest and returns all traces. A ring that can't be sealed, as on a full disk, stays in its folder, from where
// it can be salvaged.
func (f *Flight) End(reason string) ([]string, error) {
	if f.reason.text != "" {
		reason = f.reason.text
	}
	var err error
	if f.rec.Rows.Count.Calls > 0 || f.sealed > 0 || f.rec.Overwrite || !host.Exists(f.rec.Output()) { // an empty trace replaces no older one
		err = f.Seal(reason)
	}
	sealed := err == nil
	f.sealer.end()
	for _, s := range f.ring {
		switch {
		case s.W == nil || s.closed: // restored, or written out
		case sealed:
			err = errors.Join(err, s.W.Abort(), os.Remove(s.path)) // begun by Seal
		default:
			err = errors.Join(err, s.close())
		}
		s.Gone = true
	}
	if err = errors.Join(err, f.sealer.failed()); err == nil {
		err = os.RemoveAll(f.dir)
	}
	return f.sealer.made, err
}

// Leave ends without a trace. The files stay in the folder.
func (f *Flight) Leave() (err error) {
	f.sealer.end()
	for _, s := range f.ring {
		err = errors.Join(err, s.close())
		s.Gone = true
	}
	return errors.Join(err, f.sealer.failed())
}

// Moved returns the new names of older files that had the traces' names. It must be called after End.
func (f *Flight) Moved() []string { return f.sealer.moved }
